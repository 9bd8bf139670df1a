//! What the executor takes for common kernels, on one host thread and on all.
#![allow(missing_docs)] // criterion's macros make functions without any.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use vgpu::{GlobalMemory, Gpu, LaunchConfig, LaunchReport, Options, Program};

/// c = a + b, one element a thread.
const ADD: &str = r#"
.vir 1
.kernel @add (%a: 8, %b: 8, %c: 8, %n: 4) {
  .reg pred %p
  .reg b32 %i %t %n0 %x %y
  .reg b64 %pa %pb %pc %off
  mov.special %i, ctaid.x
  mov.special %t, tid.x
  mad.lo.u32 %i, %i, 256, %t
  ld.param.b32 %n0, [24]
  setp.lt.u32 %p, %i, %n0
  if %p {
    ld.param.b64 %pa, [0]
    ld.param.b64 %pb, [8]
    ld.param.b64 %pc, [16]
    mul.wide.u32 %off, %i, 4
    add.u64 %pa, %pa, %off
    add.u64 %pb, %pb, %off
    add.u64 %pc, %pc, %off
    ld.global.f32 %x, [%pa]
    ld.global.f32 %y, [%pb]
    add.f32 %x, %x, %y
    st.global.f32 [%pc], %x
  }
}
"#;

/// Sum (or maximum) over the 256 threads of a CTA, the result in every thread; `t` is `tid.x`.
fn reduce(value: &str, op: &str, slot: u32) -> String {
    let mut text = String::new();
    for distance in [16, 8, 4, 2, 1] {
        text += &format!(
            "  shfl.bfly.b32 %other, {value}, {distance}, 31, -1\n  {op}.f32 {value}, {value}, %other\n"
        );
    }
    text += &format!(
        "  setp.eq.u32 %p, %lane, 0\n  @%p st.shared.f32 [%ws+{slot}], {value}\n  bar.sync 0\n  \
         ld.shared.f32 {value}, [%ls+{slot}]\n"
    );
    for distance in [4, 2, 1] {
        text += &format!(
            "  shfl.bfly.b32 %other, {value}, {distance}, 31, -1\n  {op}.f32 {value}, {value}, %other\n"
        );
    }
    text
}

/// Where each warp puts its part (`ws`), and where each lane reads one of the eight (`ls`).
const REDUCE_SETUP: &str = r#"
  mov.special %t, tid.x
  mov.special %lane, laneid
  mov.special %w, warpid
  shl.b32 %ws, %w, 2
  and.b32 %ls, %lane, 7
  shl.b32 %ls, %ls, 2
"#;

/// Rows of `columns` singles, 256 threads a row, four values a thread and turn, kept in registers.
fn softmax(columns: u32) -> String {
    let turns = columns / 1024;
    let names = |turn: u32| (0..4).map(move |k| format!("%v{turn}_{k}"));
    let all: Vec<String> = (0..turns).flat_map(names).collect();
    let mut text = format!(
        ".vir 1\n.kernel @softmax (%from: 8, %to: 8) {{\n  .shared 64\n  .reg pred %p\n  .reg b32 %t \
         %lane %w %ws %ls %other %m %s %row {}\n  .reg b64 %pf %pt %off\n",
        all.join(" ")
    );
    text += "  ld.param.b64 %pf, [0]\n  ld.param.b64 %pt, [8]\n";
    text += REDUCE_SETUP;
    text += &format!(
        "  mov.special %row, ctaid.x\n  mul.wide.u32 %off, %row, {}\n  add.u64 %pf, %pf, %off\n  \
         add.u64 %pt, %pt, %off\n  mul.wide.u32 %off, %t, 16\n  add.u64 %pf, %pf, %off\n  add.u64 \
         %pt, %pt, %off\n  mov.f32 %m, -inf\n",
        columns * 4
    );
    for turn in 0..turns {
        let list: Vec<String> = names(turn).collect();
        text += &format!(
            "  ld.global.v4.f32 {{{}}}, [%pf+{}]\n",
            list.join(", "),
            turn * 4096
        );
    }
    for name in &all {
        text += &format!("  max.f32 %m, %m, {name}\n");
    }
    text += &reduce("%m", "max", 0);
    text += "  mov.f32 %s, 0.0\n";
    for name in &all {
        text += &format!(
            "  sub.f32 {name}, {name}, %m\n  mul.f32 {name}, {name}, 1.44269504\n  ex2.approx.f32 \
             {name}, {name}\n  add.f32 %s, %s, {name}\n"
        );
    }
    text += &reduce("%s", "add", 32);
    text += "  rcp.approx.f32 %s, %s\n";
    for turn in 0..turns {
        for name in names(turn) {
            text += &format!("  mul.f32 {name}, {name}, %s\n");
        }
        let list: Vec<String> = names(turn).collect();
        text += &format!(
            "  st.global.v4.f32 [%pt+{}], {{{}}}\n",
            turn * 4096,
            list.join(", ")
        );
    }
    text += "}\n";
    text
}

/// LayerNorm of rows of 1,024 singles with weight and bias, 256 threads a row.
fn layer_norm() -> String {
    let mut text = String::from(
        ".vir 1\n.kernel @layernorm (%from: 8, %weight: 8, %bias: 8, %to: 8) {\n  .shared 64\n  .reg \
         pred %p\n  .reg b32 %t %lane %w %ws %ls %other %s %q %row %x0 %x1 %x2 %x3 %w0 %w1 %w2 %w3 %b0 \
         %b1 %b2 %b3\n  .reg b64 %pf %pt %pw %pb %off\n  ld.param.b64 %pf, [0]\n  ld.param.b64 %pw, \
         [8]\n  ld.param.b64 %pb, [16]\n  ld.param.b64 %pt, [24]\n",
    );
    text += REDUCE_SETUP;
    text += "  mov.special %row, ctaid.x\n  mul.wide.u32 %off, %row, 4096\n  add.u64 %pf, %pf, %off\n  \
             add.u64 %pt, %pt, %off\n  mul.wide.u32 %off, %t, 16\n  add.u64 %pf, %pf, %off\n  add.u64 \
             %pt, %pt, %off\n  add.u64 %pw, %pw, %off\n  add.u64 %pb, %pb, %off\n  ld.global.v4.f32 \
             {%x0, %x1, %x2, %x3}, [%pf]\n  ld.global.v4.f32 {%w0, %w1, %w2, %w3}, [%pw]\n  \
             ld.global.v4.f32 {%b0, %b1, %b2, %b3}, [%pb]\n  add.f32 %s, %x0, %x1\n  add.f32 %q, %x2, \
             %x3\n  add.f32 %s, %s, %q\n";
    text += &reduce("%s", "add", 0);
    text += "  mul.f32 %s, %s, 0.0009765625\n  mov.f32 %q, 0.0\n";
    for k in 0..4 {
        text += &format!("  sub.f32 %x{k}, %x{k}, %s\n  fma.f32 %q, %x{k}, %x{k}, %q\n");
    }
    text += &reduce("%q", "add", 32);
    text += "  fma.f32 %q, %q, 0.0009765625, 1e-5\n  rsqrt.approx.f32 %q, %q\n";
    for k in 0..4 {
        text += &format!("  mul.f32 %x{k}, %x{k}, %q\n  fma.f32 %x{k}, %x{k}, %w{k}, %b{k}\n");
    }
    text += "  st.global.v4.f32 [%pt], {%x0, %x1, %x2, %x3}\n}\n";
    text
}

/// A loop of integer and floating arithmetic, comparisons, selects, shared memory and shuffles.
const MIXED: &str = r#"
.vir 1
.kernel @mixed (%to: 8, %turns: 4) {
  .shared 1024
  .reg pred %p %q
  .reg b32 %t %n %i %x %y %z %h %at %k
  .reg b64 %pt %off
  ld.param.b64 %pt, [0]
  ld.param.b32 %n, [8]
  mov.special %t, tid.x
  shl.b32 %at, %t, 2
  cvt.f32.s32 %x, %t
  mov.f32 %y, 0.5
  mov.b32 %h, 2166136261
  mov.b32 %i, 0
  loop {
    setp.ge.u32 %p, %i, %n
    break %p
    xor.b32 %h, %h, %i
    mul.lo.u32 %h, %h, 16777619
    shr.u32 %k, %h, 7
    add.u32 %h, %h, %k
    fma.f32 %y, %x, 0.25, %y
    mul.f32 %x, %x, 0.999
    max.f32 %z, %x, %y
    setp.gt.f32 %q, %z, 100.0
    selp.f32 %y, 1.0, %z, %q
    st.shared.f32 [%at], %y
    ld.shared.f32 %z, [%at]
    shfl.bfly.b32 %z, %z, 1, 31, -1
    add.f32 %y, %y, %z
    cvt.s32.f32 %k, %y
    and.b32 %k, %k, 255
    add.u32 %h, %h, %k
    add.u32 %i, %i, 1
  }
  mul.wide.u32 %off, %t, 4
  add.u64 %pt, %pt, %off
  st.global.b32 [%pt], %h
}
"#;

struct Case {
    program: Program,
    name: String,
    memory: GlobalMemory,
    params: Vec<u8>,
    config: LaunchConfig,
}

impl Case {
    /// A kernel with buffers of singles (their sizes in elements) and trailing 32-bit parameters.
    fn new(text: &str, buffers: &[usize], numbers: &[u32], blocks: u32) -> Self {
        let module = vgpu::ir::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let program = Program::compile(&module).expect("a legal module");
        let bytes: usize = buffers.iter().map(|n| n * 4 + 2048).sum();
        let mut memory = GlobalMemory::new(bytes as u64 + 4096).expect("the host has it");
        let mut params = Vec::new();
        for &elements in buffers {
            let address = memory.allocate(elements as u64 * 4).expect("it fits");
            let values =
                (0..elements).flat_map(|i| ((i * 7919 % 1000) as f32 * 0.01).to_le_bytes());
            memory.write(address, &values.collect::<Vec<u8>>());
            params.extend(address.to_le_bytes());
        }
        params.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        Self {
            program,
            name: module.kernels[0].name.clone(),
            memory,
            params,
            config: LaunchConfig::linear(blocks, 256),
        }
    }

    fn run(&mut self, threads: usize) -> LaunchReport {
        let options = Options {
            threads,
            ..Options::default()
        };
        Gpu::default()
            .launch(
                &self.program,
                &self.name,
                self.config,
                &self.params,
                &mut self.memory,
                &options,
            )
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

type Make = fn() -> Case;

/// CPU time of this thread (Linux): what counts on a machine that has other work.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_whitespace().next();
    nanoseconds.and_then(|n| n.parse().ok()).unwrap_or(0.0) * 1e-9
}

fn kernels(criterion: &mut Criterion) {
    const MILLION: usize = 1 << 20;
    let cases: [(&str, Make); 5] = [
        ("add_16M", || {
            Case::new(ADD, &[16 * MILLION; 3], &[16 << 20], 65_536)
        }),
        ("softmax_4096x4096", || {
            Case::new(&softmax(4096), &[16 * MILLION; 2], &[], 4096)
        }),
        ("layernorm_8192x1024", || {
            let buffers = [8 * MILLION, 1024, 1024, 8 * MILLION];
            Case::new(&layer_norm(), &buffers, &[], 8192)
        }),
        ("layernorm_128x1024", || {
            let buffers = [MILLION / 8, 1024, 1024, MILLION / 8];
            Case::new(&layer_norm(), &buffers, &[], 128)
        }),
        ("mixed", || Case::new(MIXED, &[256], &[2000], 64)),
    ];
    for (name, make) in cases {
        let mut group = criterion.benchmark_group(name);
        let mut case: Option<Case> = None;
        let mut told = false;
        for threads in [1, 2] {
            group.bench_function(format!("{threads}_threads"), |bencher| {
                let case = case.get_or_insert_with(make);
                let instructions = case.run(threads).counts.instructions();
                if threads == 1 && !told {
                    told = true;
                    let before = cpu_seconds();
                    for _ in 0..5 {
                        black_box(case.run(1));
                    }
                    let each = (cpu_seconds() - before) / 5.0;
                    println!(
                        "{name}: {instructions} warp instructions, {:.1} ms and {:.0} M/s of CPU time",
                        each * 1e3,
                        instructions as f64 / each / 1e6
                    );
                }
                bencher.iter(|| black_box(case.run(threads)));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = kernels
}
criterion_main!(benches);
