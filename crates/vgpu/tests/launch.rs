//! Whole kernels: what they compute, what they count, what they are told when they do wrong.

mod common;

use common::{Bench, params};
use vgpu::{FaultKind, LaunchConfig, LaunchError};

const ADD: &str = r#"
.vir 1
.file 1 "add.py"
.kernel @add (%a: 8, %b: 8, %c: 8, %n: 4) {
  .reg pred %p
  .reg b32 %i %t %n0 %x %y
  .reg b64 %pa %pb %pc %off
  ld.param.b64 %pa, [0]
  ld.param.b64 %pb, [8]
  ld.param.b64 %pc, [16]
  ld.param.b32 %n0, [24]
  mov.special %i, ctaid.x
  mov.special %t, ntid.x
  mul.lo.u32 %i, %i, %t
  mov.special %t, tid.x
  add.u32 %i, %i, %t
  setp.lt.u32 %p, %i, %n0
  if %p {
    mul.wide.u32 %off, %i, 4
    add.u64 %pa, %pa, %off
    add.u64 %pb, %pb, %off
    add.u64 %pc, %pc, %off
    .loc 1 7
    ld.global.f32 %x, [%pa]
    ld.global.f32 %y, [%pb]
    add.rn.f32 %x, %x, %y
    .loc 1 9
    st.global.f32 [%pc], %x
  }
}
"#;

fn add_params(a: u64, b: u64, c: u64, n: u32) -> Vec<u8> {
    let mut bytes = params(&[a, b, c]);
    bytes.extend(n.to_le_bytes());
    bytes
}

#[test]
fn vector_add_is_right_for_a_ragged_size_on_any_number_of_threads() {
    for threads in [1, 2, 3] {
        let mut bench = Bench::new();
        bench.options.threads = threads;
        let n = 10_007;
        let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let b: Vec<f32> = (0..n).map(|i| 1.0 / (1.0 + i as f32)).collect();
        let (pa, pb) = (bench.place(&a), bench.place(&b));
        let pc = bench.place(&vec![0f32; n]);
        let config = LaunchConfig::linear(n.div_ceil(256) as u32, 256);
        let report = bench
            .run(ADD, config, &add_params(pa, pb, pc, n as u32))
            .unwrap();
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(bench.read::<f32>(pc, n), expected);
        let counts = report.counts;
        assert_eq!(counts.ctas, 40);
        assert_eq!(counts.warps(), 320);
        assert_eq!(counts.global_loads.bytes, 2 * 4 * n as u64);
        assert_eq!(counts.unique_read_bytes, 2 * 32 * (n as u64).div_ceil(8));
        assert_eq!(counts.unique_write_bytes, 32 * (n as u64).div_ceil(8));
        assert_eq!(counts.global_stores.sectors, (n as u64).div_ceil(8));
        assert_eq!(counts.longest.global_rounds, 1);
    }
}

#[test]
fn an_access_past_an_allocation_names_place_thread_and_distance() {
    let mut bench = Bench::new();
    let a = bench.place(&[1f32; 64]);
    let b = bench.place(&[1f32; 100]);
    let c = bench.place(&[1f32; 100]);
    let error = bench.run(ADD, LaunchConfig::linear(1, 128), &add_params(a, b, c, 100));
    let LaunchError::Fault(fault) = error.unwrap_err() else {
        panic!("a fault is expected")
    };
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    assert_eq!(fault.location, Some(("add.py".to_string(), 7)));
    assert_eq!(fault.thread, Some([64, 0, 0]));
    let text = fault.to_string();
    let expected = format!(
        "out-of-bounds access in kernel `add` at add.py:7, ld.global.f32, CTA (0, 0, 0), thread \
         (64, 0, 0): address {:#x} (4 bytes) lies 0 bytes past the end of the nearest live \
         allocation, 256 bytes at {a:#x}",
        a + 256
    );
    assert_eq!(text, expected);
}

#[test]
fn freed_memory_is_not_to_be_used_and_addresses_are_to_be_aligned() {
    let mut bench = Bench::new();
    let a = bench.place(&[1f32; 64]);
    bench.memory.free(a).unwrap();
    let b = bench.place(&[1f32; 64]);
    let error = bench.run(ADD, LaunchConfig::linear(1, 64), &add_params(a, b, b, 64));
    let LaunchError::Fault(fault) = error.unwrap_err() else {
        panic!("a fault is expected")
    };
    assert_eq!(fault.kind, FaultKind::UseAfterFree);
    let error = bench.run(
        ADD,
        LaunchConfig::linear(1, 64),
        &add_params(b + 2, b, b, 63),
    );
    let LaunchError::Fault(fault) = error.unwrap_err() else {
        panic!("a fault is expected")
    };
    assert_eq!(fault.kind, FaultKind::Misaligned);
}

/// Sum over a block: shared memory, barriers, a loop, a shuffle tail.
const BLOCK_SUM: &str = r#"
.vir 1
.kernel @sum (%a: 8, %out: 8) {
  .shared 1024
  .reg pred %p %q
  .reg b32 %t %s %x %y %at %other %c
  .reg b64 %pa %po %off
  ld.param.b64 %pa, [0]
  ld.param.b64 %po, [8]
  mov.special %t, tid.x
  mov.special %c, ctaid.x
  shl.b32 %x, %c, 8
  add.u32 %x, %x, %t
  mul.wide.u32 %off, %x, 4
  add.u64 %pa, %pa, %off
  ld.global.f32 %x, [%pa]
  shl.b32 %at, %t, 2
  st.shared.f32 [%at], %x
  mov.b32 %s, 128
  loop {
    bar.sync 0
    setp.lt.u32 %p, %s, 32
    break %p
    setp.lt.u32 %q, %t, %s
    if %q {
      shl.b32 %other, %s, 2
      add.u32 %other, %other, %at
      ld.shared.f32 %x, [%at]
      ld.shared.f32 %y, [%other]
      add.f32 %x, %x, %y
      st.shared.f32 [%at], %x
    }
    shr.u32 %s, %s, 1
  }
  setp.lt.u32 %q, %t, 32
  if %q {
    ld.shared.f32 %x, [%at]
    mov.b32 %s, 16
    loop {
      shfl.bfly.b32 %y, %x, %s, 31, -1
      add.f32 %x, %x, %y
      shr.u32 %s, %s, 1
      setp.eq.u32 %p, %s, 0
      break %p
    }
    setp.eq.u32 %p, %t, 0
    mul.wide.u32 %off, %c, 4
    add.u64 %po, %po, %off
    @%p st.global.f32 [%po], %x
  }
}
"#;

#[test]
fn a_block_reduction_sums_through_shared_memory_barriers_and_shuffles() {
    let mut bench = Bench::new();
    let blocks = 7;
    let values: Vec<f32> = (0..blocks * 256).map(|i| (i % 31) as f32).collect();
    let a = bench.place(&values);
    let out = bench.place(&vec![0f32; blocks]);
    let config = LaunchConfig::linear(blocks as u32, 256);
    let report = bench.run(BLOCK_SUM, config, &params(&[a, out])).unwrap();
    let expected: Vec<f32> = values.chunks(256).map(|chunk| chunk.iter().sum()).collect();
    assert_eq!(bench.read::<f32>(out, blocks), expected);
    assert_eq!(report.counts.barriers, 7 * 8 * 4);
    assert_eq!(
        report.counts.shared_loads.wavefronts,
        report.counts.shared_loads.requests
    );
}

#[test]
fn a_barrier_that_some_warps_never_reach_is_a_deadlock() {
    let text = r#"
.vir 1
.file 1 "k.py"
.kernel @k () {
  .reg pred %p
  .reg b32 %t
  mov.special %t, warpid
  setp.ne.u32 %p, %t, 1
  if %p {
    .loc 1 5
    bar.sync 3, 128
  }
}
"#;
    let mut bench = Bench::new();
    let error = bench.run(text, LaunchConfig::linear(1, 128), &[]);
    let LaunchError::Fault(fault) = error.unwrap_err() else {
        panic!("a fault is expected")
    };
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.contains(
            "warp 0 waits at k.py:5 for barrier 3, at which 96 of 128 threads have arrived"
        ),
        "{fault}"
    );
    assert!(fault.message.contains("ended: warps 1"), "{fault}");
}

#[test]
fn a_loop_without_end_meets_the_step_budget() {
    let text = ".vir 1\n.kernel @k () {\n  loop {\n  }\n}\n";
    let mut bench = Bench::new();
    bench.options.step_budget = 100_000;
    let error = bench.run(text, LaunchConfig::linear(1, 32), &[]);
    let LaunchError::Fault(fault) = error.unwrap_err() else {
        panic!("a fault is expected")
    };
    assert_eq!(fault.kind, FaultKind::StepBudget);
}
