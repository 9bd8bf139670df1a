//! The modelled clock ranks pairs of kernels that do the same work as a real device would, by what the executor counts of them.

use vgpu::cost::{Bound, Device, Estimate, kernel_time};
use vgpu::{GlobalMemory, Gpu, LaunchConfig, Options, Program};

/// Runs a kernel whose parameters are three buffers of `bytes` each and a number, and estimates it.
fn estimate(text: &str, config: LaunchConfig, bytes: u64, number: u32) -> Estimate {
    let module = vgpu::ir::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let program = Program::compile(&module).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = GlobalMemory::new(4 * bytes + (1 << 16)).expect("host memory");
    let mut params = Vec::new();
    for _ in 0..3 {
        let address = memory.allocate(bytes).expect("device memory");
        memory.write(address, &vec![0; bytes as usize]);
        params.extend(address.to_le_bytes());
    }
    params.extend(number.to_le_bytes());
    let name = &module.kernels[0].name;
    let report = Gpu::default()
        .launch(
            &program,
            name,
            config,
            &params,
            &mut memory,
            &Options::default(),
        )
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    kernel_time(&report.counts, &Device::b200())
}

fn kernel(body: &str) -> String {
    format!(
        ".vir 1\n.kernel @k (%a: 8, %b: 8, %c: 8, %n: 4) {{\n\
         .reg pred %p %q\n.reg b32 %i %j %m %s %x %y %z %w\n.reg b64 %pa %pb %pc %off\n\
         ld.param.b64 %pa, [0]\nld.param.b64 %pb, [8]\nld.param.b64 %pc, [16]\nld.param.u32 %m, [24]\n\
         mov.special %i, ctaid.x\nmov.special %j, ntid.x\nmov.special %s, tid.x\n\
         mad.lo.u32 %i, %i, %j, %s\n{body}\n}}\n"
    )
}

const ELEMENTS: u32 = 1 << 22;

fn linear(threads: u32) -> LaunchConfig {
    LaunchConfig::linear(threads / 256, 256)
}

#[track_caller]
fn faster(fast: &Estimate, slow: &Estimate) {
    assert!(
        fast.seconds < slow.seconds,
        "{} ({}) is not below {} ({})",
        fast.seconds,
        fast.bottleneck,
        slow.seconds,
        slow.bottleneck
    );
}

#[test]
fn coalesced_is_faster_than_strided() {
    let copy = |index: &str| {
        let text = kernel(&format!(
            "{index}\nmad.wide.u32 %off, %j, 4, %pa\nld.global.f32 %x, [%off]\n\
             mad.wide.u32 %off, %j, 4, %pb\nst.global.f32 [%off], %x"
        ));
        estimate(&text, linear(ELEMENTS), u64::from(ELEMENTS) * 4, ELEMENTS)
    };
    let coalesced = copy("mov.b32 %j, %i");
    // The same elements, neighbours in a warp 32 elements apart.
    let strided = copy(
        "mul.lo.u32 %j, %i, 32\nshr.u32 %s, %i, 17\nadd.u32 %j, %j, %s\nsub.u32 %s, %m, 1\nand.b32 %j, %j, %s",
    );
    faster(&coalesced, &strided);
    let running = |estimate: &Estimate| estimate.seconds - estimate.terms.launch;
    assert!(running(&strided) > 2.0 * running(&coalesced), "{strided:?}");
    assert!(
        strided.bottleneck.contains("not coalesced"),
        "{}",
        strided.bottleneck
    );
}

#[test]
fn wide_accesses_are_faster_than_narrow_ones() {
    let narrow = kernel(
        "mad.wide.u32 %off, %i, 4, %pa\nld.global.f32 %x, [%off]\n\
         mad.wide.u32 %off, %i, 4, %pb\nst.global.f32 [%off], %x",
    );
    let wide = kernel(
        "mad.wide.u32 %off, %i, 16, %pa\nld.global.v4.f32 {%x, %y, %z, %w}, [%off]\n\
         mad.wide.u32 %off, %i, 16, %pb\nst.global.v4.f32 [%off], {%x, %y, %z, %w}",
    );
    let bytes = u64::from(ELEMENTS) * 4;
    faster(
        &estimate(&wide, linear(ELEMENTS / 4), bytes, ELEMENTS),
        &estimate(&narrow, linear(ELEMENTS), bytes, ELEMENTS),
    );
}

#[test]
fn fused_is_faster_than_split() {
    let load = |pointer: &str, into: &str| {
        format!("mad.wide.u32 %off, %i, 4, {pointer}\nld.global.f32 {into}, [%off]\n")
    };
    let store = "mad.wide.u32 %off, %i, 4, %pc\nst.global.f32 [%off], %z";
    let one = |body: String| estimate(&kernel(&body), linear(ELEMENTS), u64::from(ELEMENTS) * 4, 0);
    let fused = one(load("%pa", "%x")
        + &load("%pb", "%y")
        + "add.f32 %z, %x, %y\nmul.f32 %z, %z, %x\n"
        + store);
    let first = one(load("%pa", "%x") + &load("%pb", "%y") + "add.f32 %z, %x, %y\n" + store);
    let second = one(load("%pc", "%z") + &load("%pa", "%x") + "mul.f32 %z, %z, %x\n" + store);
    assert!(fused.seconds < first.seconds + second.seconds);
    // Not for the second launch alone: the intermediate result's bytes count too.
    assert!(
        fused.seconds - fused.terms.launch
            < first.seconds + second.seconds - 2.0 * fused.terms.launch
    );
}

#[test]
fn few_launches_are_faster_than_many() {
    let add_one = kernel(
        "mad.wide.u32 %off, %i, 4, %pa\nld.global.f32 %x, [%off]\nadd.f32 %x, %x, 1.0\nst.global.f32 [%off], %x",
    );
    let bytes = u64::from(ELEMENTS) * 4;
    let whole = estimate(&add_one, linear(ELEMENTS), bytes, 0);
    let part = estimate(&add_one, linear(ELEMENTS / 16), bytes, 0);
    assert!(whole.seconds < 16.0 * part.seconds);
    assert_eq!(part.bound, Bound::Launch, "{}", part.bottleneck);
}

#[test]
fn access_without_bank_conflicts_is_faster() {
    // Each warp writes a row of a tile and reads a column, again and again.
    let transpose = |pitch: u32| {
        let text = kernel(&format!(
            ".shared 4224\nmov.special %x, laneid\nmov.special %y, warpid\n\
             mad.lo.u32 %z, %y, {pitch}, %x\nshl.b32 %z, %z, 2\n\
             mad.lo.u32 %w, %x, {pitch}, %y\nshl.b32 %w, %w, 2\n\
             mov.b32 %j, 0\nloop {{\nsetp.ge.u32 %p, %j, 64\nbreak %p\n\
             st.shared.u32 [%z], %i\nbar.sync 0\nld.shared.u32 %s, [%w]\nbar.sync 0\n\
             add.u32 %j, %j, 1\n}}\nmad.wide.u32 %off, %i, 4, %pa\nst.global.u32 [%off], %s"
        ));
        estimate(&text, LaunchConfig::linear(592, 1024), 592 * 4096, 0)
    };
    let (padded, conflicting) = (transpose(33), transpose(32));
    faster(&padded, &conflicting);
    assert_eq!(
        conflicting.bound,
        Bound::Shared,
        "{}",
        conflicting.bottleneck
    );
    assert!(conflicting.seconds > 2.0 * padded.seconds);
}

#[test]
fn more_occupancy_is_faster_where_latency_binds() {
    // Each thread follows a chain of 32 loads, each of which gives the next one's index.
    let chase = |registers: u32| {
        let text = kernel(&format!(
            ".registers {registers}\nmov.b32 %j, 0\nmov.b32 %x, %i\nloop {{\nsetp.ge.u32 %p, %j, 32\nbreak %p\n\
             mad.wide.u32 %off, %x, 4, %pa\nld.global.u32 %y, [%off]\nadd.u32 %x, %x, %y\n\
             add.u32 %j, %j, 1\n}}\nmad.wide.u32 %off, %i, 4, %pb\nst.global.u32 [%off], %x"
        ));
        estimate(
            &text,
            LaunchConfig::linear(148 * 16, 128),
            148 * 16 * 128 * 4,
            0,
        )
    };
    let (full, sparse) = (chase(32), chase(255));
    assert_eq!(sparse.bound, Bound::Latency, "{}", sparse.bottleneck);
    assert!(
        sparse.bottleneck.contains("limited by registers"),
        "{}",
        sparse.bottleneck
    );
    faster(&full, &sparse);
    assert!(sparse.seconds > 2.0 * full.seconds, "{full:?} {sparse:?}");
}

#[test]
fn shared_memory_that_fills_an_sm_costs_as_registers_do() {
    let chase = |dynamic_shared: u32| {
        let text = kernel(
            "mov.b32 %j, 0\nmov.b32 %x, %i\nloop {\nsetp.ge.u32 %p, %j, 32\nbreak %p\n\
             mad.wide.u32 %off, %x, 4, %pa\nld.global.u32 %y, [%off]\nadd.u32 %x, %x, %y\n\
             add.u32 %j, %j, 1\n}\nmad.wide.u32 %off, %i, 4, %pb\nst.global.u32 [%off], %x",
        );
        let config = LaunchConfig {
            dynamic_shared,
            ..LaunchConfig::linear(148 * 16, 128)
        };
        estimate(&text, config, 148 * 16 * 128 * 4, 0)
    };
    let (free, full) = (chase(0), chase(200 * 1024));
    faster(&free, &full);
    assert!(
        full.bottleneck.contains("limited by shared memory"),
        "{}",
        full.bottleneck
    );
}

#[test]
fn fewer_atomics_on_global_memory_are_faster() {
    let each = kernel("red.add.global.u32 [%pa], 1");
    let reduced = kernel(
        "redux.add.u32 %x, %i, 0xffffffff\nelect %p, 0xffffffff\n@%p red.add.global.u32 [%pa], %x",
    );
    let bytes = u64::from(ELEMENTS) * 4;
    let (many, few) = (
        estimate(&each, linear(ELEMENTS), bytes, 0),
        estimate(&reduced, linear(ELEMENTS), bytes, 0),
    );
    assert_eq!(many.bound, Bound::Atomics, "{}", many.bottleneck);
    faster(&few, &many);
}
