//! Warps and CTAs that wait for each other: barriers, mbarriers, asynchronous copies, atomics, spins.

mod common;

use common::{Bench, params};
use vgpu::{Fault, FaultKind, LaunchConfig, LaunchError, LaunchReport};

fn fault(result: Result<LaunchReport, LaunchError>) -> Fault {
    match result {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("a fault is expected, not {other:?}"),
    }
}

/// One store of `%v` by each thread to out[tid].
const STORE: &str = "
  mov.special %t, tid.x
  mul.wide.u32 %off, %t, 4
  add.u64 %po, %po, %off
  st.global.b32 [%po], %v
";

#[test]
fn producers_arrive_and_consumers_wait_at_a_named_barrier() {
    // Warps 1 and 2 write and arrive; warp 0 waits for them and sums what they wrote.
    let text = r#"
.vir 1
.kernel @k (%out: 8) {
  .shared 256
  .reg pred %p
  .reg b32 %w %t %at %x %y %v
  .reg b64 %po %off
  ld.param.b64 %po, [0]
  mov.special %w, warpid
  mov.special %t, tid.x
  setp.eq.u32 %p, %w, 0
  if %p {
    bar.sync 5, 96
    shl.b32 %at, %t, 2
    ld.shared.u32 %x, [%at]
    ld.shared.u32 %y, [%at+128]
    add.u32 %v, %x, %y
    mul.wide.u32 %off, %t, 4
    add.u64 %po, %po, %off
    st.global.b32 [%po], %v
  } else {
    shl.b32 %at, %t, 2
    st.shared.u32 [%at-128], %t
    bar.arrive 5, 96
  }
}
"#;
    let mut bench = Bench::new();
    let out = bench.place(&[0u32; 32]);
    let config = LaunchConfig::linear(1, 96);
    bench.run(text, config, &params(&[out])).unwrap();
    let expected: Vec<u32> = (0..32).map(|lane| (lane + 32) + (lane + 64)).collect();
    assert_eq!(bench.read::<u32>(out, 32), expected);
}

#[test]
fn barrier_reductions_count_and_combine_over_the_whole_block() {
    let text = format!(
        r#"
.vir 1
.kernel @k (%out: 8) {{
  .reg pred %p %a %o
  .reg b32 %t %n %v
  .reg b64 %po %off
  ld.param.b64 %po, [0]
  mov.special %t, tid.x
  setp.lt.u32 %p, %t, 70
  bar.red.popc %n, 0, %p
  bar.red.and %a, 0, %p
  bar.red.or %o, 0, !%p
  mov.b32 %v, %n
  @%a add.u32 %v, %v, 1000
  @%o add.u32 %v, %v, 2000
{STORE}
}}
"#
    );
    let mut bench = Bench::new();
    let out = bench.place(&[0u32; 100]);
    // A block whose last warp is partial.
    let report = bench
        .run(&text, LaunchConfig::linear(1, 100), &params(&[out]))
        .unwrap();
    assert_eq!(bench.read::<u32>(out, 100), vec![2070; 100]);
    assert_eq!(report.counts.barriers, 12);
}

#[test]
fn a_barrier_in_a_part_of_a_warp_is_misuse() {
    let text = r#"
.vir 1
.kernel @k () {
  .reg pred %p
  .reg b32 %t
  mov.special %t, tid.x
  setp.lt.u32 %p, %t, 7
  if %p {
    bar.sync 0
  }
}
"#;
    let fault = fault(Bench::new().run(text, LaunchConfig::linear(1, 32), &[]));
    assert_eq!(fault.kind, FaultKind::Barrier);
    assert!(
        fault.message.contains("lanes 0x0000007f") && fault.message.contains("0xffffff80"),
        "{fault}"
    );
}

#[test]
fn a_shuffle_whose_members_are_in_another_branch_is_misuse() {
    let text = r#"
.vir 1
.kernel @k () {
  .reg pred %p
  .reg b32 %t %x
  mov.special %t, tid.x
  setp.lt.u32 %p, %t, 16
  if %p {
    shfl.idx.b32 %x, %t, 0, 31, -1
  }
}
"#;
    let fault = fault(Bench::new().run(text, LaunchConfig::linear(1, 32), &[]));
    assert_eq!(fault.kind, FaultKind::WarpSync);
    assert!(fault.message.contains("0xffff0000"), "{fault}");
}

/// Warp 0 fills a buffer `n` times; warp 1 reads each fill. Two mbarriers: full, and empty.
const PIPELINE: &str = r#"
.vir 1
.kernel @k (%out: 8, %n: 4) {
  .shared 256
  .reg pred %p %q %done %first
  .reg b32 %w %t %lane %i %n0 %parity %x %at %v
  .reg b64 %po %off
  ld.param.b64 %po, [0]
  ld.param.b32 %n0, [8]
  mov.special %w, warpid
  mov.special %t, tid.x
  mov.special %lane, laneid
  shl.b32 %at, %lane, 2
  setp.eq.u32 %first, %t, 0
  if %first {
    mbarrier.init [128], 32
    mbarrier.init [136], 32
  }
  bar.sync 0
  setp.eq.u32 %p, %w, 0
  mov.b32 %i, 0
  mov.b32 %v, 0
  if %p {
    loop {
      setp.ge.u32 %q, %i, %n0
      break %q
      and.b32 %parity, %i, 1
      xor.b32 %parity, %parity, 1
      loop {
        mbarrier.try_wait.parity %done, [136], %parity
        break %done
      }
      mad.lo.u32 %x, %i, 100, %lane
      st.shared.u32 [%at], %x
      mbarrier.arrive [128], 1
      add.u32 %i, %i, 1
    }
  } else {
    loop {
      setp.ge.u32 %q, %i, %n0
      break %q
      and.b32 %parity, %i, 1
      loop {
        mbarrier.try_wait.parity %done, [128], %parity
        break %done
      }
      ld.shared.u32 %x, [%at]
      add.u32 %v, %v, %x
      mbarrier.arrive [136], 1
      add.u32 %i, %i, 1
    }
    mul.wide.u32 %off, %lane, 4
    add.u64 %po, %po, %off
    st.global.b32 [%po], %v
  }
}
"#;

#[test]
fn a_producer_and_a_consumer_take_turns_over_mbarriers() {
    let mut bench = Bench::new();
    let out = bench.place(&[0u32; 32]);
    let mut args = params(&[out]);
    args.extend(9u32.to_le_bytes());
    bench
        .run(PIPELINE, LaunchConfig::linear(1, 64), &args)
        .unwrap();
    let expected: Vec<u32> = (0..32u32)
        .map(|lane| (0..9).map(|i| i * 100 + lane).sum())
        .collect();
    assert_eq!(bench.read::<u32>(out, 32), expected);
}

#[test]
fn one_elected_arrival_where_all_lanes_should_arrive_is_a_deadlock_that_says_what_is_missing() {
    let text = r#"
.vir 1
.file 1 "k.py"
.kernel @k () {
  .shared 8
  .reg pred %first %done
  .reg b32 %t
  mov.special %t, tid.x
  setp.eq.u32 %first, %t, 0
  @%first mbarrier.init [0], 32
  bar.sync 0
  @%first mbarrier.arrive [0], 1
  loop {
    .loc 1 9
    mbarrier.try_wait.parity %done, [0], 0
    break %done
  }
}
"#;
    let fault = fault(Bench::new().run(text, LaunchConfig::linear(1, 32), &[]));
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.contains(
            "warp 0 waits at k.py:9 for phase 0 of the mbarrier at shared 0x0, which lacks 31 of 32 \
             arrivals"
        ),
        "{fault}"
    );
}

#[test]
fn transactions_that_do_not_come_keep_a_phase_open_and_are_named() {
    let text = r#"
.vir 1
.kernel @k () {
  .shared 8
  .reg pred %done
  mbarrier.init [0], 32
  mbarrier.arrive.expect_tx [0], 1, 4
  mbarrier.complete_tx [0], 3
  loop {
    mbarrier.try_wait.parity %done, [0], 0
    break %done
  }
}
"#;
    // Each of 32 lanes initialises, expects 4 bytes and completes 3.
    let fault = fault(Bench::new().run(text, LaunchConfig::linear(1, 32), &[]));
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.contains("and 32 bytes of transactions"),
        "{fault}"
    );
}

#[test]
fn an_mbarrier_that_nobody_initialised_is_misuse() {
    let text = ".vir 1\n.kernel @k () {\n  .shared 8\n  mbarrier.arrive [0], 1\n}\n";
    let fault = fault(Bench::new().run(text, LaunchConfig::linear(1, 1), &[]));
    assert_eq!(fault.kind, FaultKind::Mbarrier);
    assert!(fault.message.contains("no initialised mbarrier"), "{fault}");
}

/// Two groups of copies; the sum of what they brought after each wait.
const COPIES: &str = r#"
.vir 1
.kernel @k (%from: 8, %out: 8) {
  .shared 1024
  .reg pred %p
  .reg b32 %t %at %x %y %v %bytes
  .reg b64 %pf %po %off
  ld.param.b64 %pf, [0]
  ld.param.b64 %po, [8]
  mov.special %t, tid.x
  shl.b32 %at, %t, 4
  mul.wide.u32 %off, %t, 16
  add.u64 %pf, %pf, %off
  setp.lt.u32 %p, %t, 16
  selp.b32 %bytes, 16, 4, %p
  cp.async.16 [%at], [%pf]
  cp.async.commit
  cp.async.16 [%at+512], [%pf+512], %bytes
  cp.async.commit
  cp.async.wait_group 1
  ld.shared.u32 %x, [%at+12]
  cp.async.wait_group 0
  ld.shared.u32 %y, [%at+524]
  mad.lo.u32 %v, %y, 1000, %x
  mul.wide.u32 %off, %t, 4
  add.u64 %po, %po, %off
  st.global.b32 [%po], %v
}
"#;

#[test]
fn asynchronous_copies_are_there_after_their_wait_for_any_seed() {
    for seed in 0..20 {
        let mut bench = Bench::new();
        bench.options.seed = seed;
        let values: Vec<u32> = (0..256).collect();
        let from = bench.place(&values);
        let out = bench.place(&[0u32; 32]);
        let report = bench
            .run(COPIES, LaunchConfig::linear(1, 32), &params(&[from, out]))
            .unwrap();
        // Of the second group's rows, those from thread 16 on have 4 bytes; the rest is zero.
        let expected: Vec<u32> = (0..32u32)
            .map(|t| {
                let second = if t < 16 { 128 + 4 * t + 3 } else { 0 };
                second * 1000 + 4 * t + 3
            })
            .collect();
        assert_eq!(bench.read::<u32>(out, 32), expected, "seed {seed}");
        assert_eq!(report.counts.longest.waits, 2);
    }
}

#[test]
fn a_copy_that_is_not_waited_for_is_late_for_some_seed() {
    let text = COPIES.replace("cp.async.wait_group 1\n", "\n");
    let late = (0..20).any(|seed| {
        let mut bench = Bench::new();
        bench.options.seed = seed;
        let from = bench.place(&(0..256).collect::<Vec<u32>>());
        let out = bench.place(&[0u32; 32]);
        bench
            .run(&text, LaunchConfig::linear(1, 32), &params(&[from, out]))
            .unwrap();
        // Shared memory is poisoned with ones before it is written.
        bench.read::<u32>(out, 1)[0] != 131 * 1000 + 3
    });
    assert!(late);
}

#[test]
fn copies_arrive_at_an_mbarrier_when_they_complete() {
    let text = r#"
.vir 1
.kernel @k (%from: 8, %out: 8) {
  .shared 1032
  .reg pred %p %done %first
  .reg b32 %t %w %at %v
  .reg b64 %pf %po %off
  ld.param.b64 %pf, [0]
  ld.param.b64 %po, [8]
  mov.special %t, tid.x
  mov.special %w, warpid
  setp.eq.u32 %first, %t, 0
  @%first mbarrier.init [1024], 32
  bar.sync 0
  setp.eq.u32 %p, %w, 0
  if %p {
    shl.b32 %at, %t, 2
    mul.wide.u32 %off, %t, 4
    add.u64 %pf, %pf, %off
    cp.async.4 [%at], [%pf]
    mbarrier.cp_async_arrive.noinc [1024]
  } else {
    loop {
      mbarrier.try_wait.parity %done, [1024], 0
      break %done
    }
    shl.b32 %at, %t, 2
    ld.shared.b32 %v, [%at-128]
    mul.wide.u32 %off, %t, 4
    add.u64 %po, %po, %off
    st.global.b32 [%po-128], %v
  }
}
"#;
    for seed in 0..10 {
        let mut bench = Bench::new();
        bench.options.seed = seed;
        let values: Vec<u32> = (0..32).map(|i| i * 3 + 1).collect();
        let from = bench.place(&values);
        let out = bench.place(&[0u32; 32]);
        bench
            .run(text, LaunchConfig::linear(1, 64), &params(&[from, out]))
            .unwrap();
        assert_eq!(bench.read::<u32>(out, 32), values, "seed {seed}");
    }
}

#[test]
fn sums_of_floats_in_global_memory_are_in_block_order_on_any_number_of_threads() {
    let text = r#"
.vir 1
.kernel @k (%out: 8) {
  .reg b32 %c %t %x
  .reg b64 %po
  ld.param.b64 %po, [0]
  mov.special %c, ctaid.x
  mov.special %t, tid.x
  mad.lo.u32 %c, %c, 32, %t
  add.u32 %c, %c, 1
  cvt.f32.u32 %x, %c
  rcp.f32 %x, %x
  red.add.global.f32 [%po], %x
}
"#;
    let blocks = 300;
    let expected = (1..=blocks * 32).fold(0f32, |sum, i| sum + 1.0 / i as f32);
    for threads in [1, 2, 3, 5] {
        let mut bench = Bench::new();
        bench.options.threads = threads;
        let out = bench.place(&[0f32]);
        let report = bench
            .run(text, LaunchConfig::linear(blocks, 32), &params(&[out]))
            .unwrap();
        assert_eq!(bench.read::<f32>(out, 1), [expected], "{threads} threads");
        assert_eq!(
            report.counts.global_atomics.serialized,
            u64::from(blocks) * 32
        );
    }
}

#[test]
fn a_block_that_reads_what_it_added_sees_the_sum() {
    // Each block adds to a place of its own, then doubles what stands there.
    let text = r#"
.vir 1
.kernel @k (%out: 8) {
  .reg pred %p
  .reg b32 %c %t %x
  .reg b64 %po
  ld.param.b64 %po, [0]
  mov.special %c, ctaid.x
  mov.special %t, tid.x
  mad.wide.u32 %po, %c, 4, %po
  red.add.global.f32 [%po], 1.5
  bar.sync 0
  setp.eq.u32 %p, %t, 0
  @%p ld.global.f32 %x, [%po]
  @%p add.f32 %x, %x, %x
  @%p st.global.f32 [%po], %x
}
"#;
    let mut bench = Bench::new();
    bench.options.threads = 2;
    let out = bench.place(&[0f32; 50]);
    bench
        .run(text, LaunchConfig::linear(50, 64), &params(&[out]))
        .unwrap();
    assert_eq!(bench.read::<f32>(out, 50), vec![192.0; 50]);
}

#[test]
fn tickets_from_an_atomic_are_each_given_once_and_alike_on_any_number_of_threads() {
    let text = r#"
.vir 1
.kernel @k (%counter: 8, %out: 8) {
  .reg b32 %x %g %c %t
  .reg b64 %pc %po %off
  ld.param.b64 %pc, [0]
  ld.param.b64 %po, [8]
  atom.add.global.u32 %x, [%pc], 1
  mov.special %c, ctaid.x
  mov.special %t, tid.x
  mad.lo.u32 %g, %c, 64, %t
  mul.wide.u32 %off, %g, 4
  add.u64 %po, %po, %off
  st.global.u32 [%po], %x
}
"#;
    let mut first = None;
    for threads in [1, 4] {
        let mut bench = Bench::new();
        bench.options.threads = threads;
        let counter = bench.place(&[0u32]);
        let out = bench.place(&[0u32; 640]);
        bench
            .run(text, LaunchConfig::linear(10, 64), &params(&[counter, out]))
            .unwrap();
        let tickets = bench.read::<u32>(out, 640);
        let mut sorted = tickets.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..640).collect::<Vec<u32>>());
        assert_eq!(*first.get_or_insert(tickets.clone()), tickets);
    }
}

#[test]
fn blocks_that_wait_for_all_others_by_spinning_come_to_an_end() {
    // A barrier over the grid: each block adds one, then all spin until all have.
    let text = r#"
.vir 1
.kernel @k (%counter: 8, %out: 8) {
  .reg pred %p
  .reg b32 %x %n %c
  .reg b64 %pc %po %off
  ld.param.b64 %pc, [0]
  ld.param.b64 %po, [8]
  mov.special %n, nctaid.x
  mov.special %c, ctaid.x
  red.add.release.gpu.global.u32 [%pc], 1
  loop {
    ld.acquire.gpu.global.u32 %x, [%pc]
    setp.ge.u32 %p, %x, %n
    break %p
  }
  mul.wide.u32 %off, %c, 4
  add.u64 %po, %po, %off
  st.global.u32 [%po], %x
}
"#;
    let mut bench = Bench::new();
    let counter = bench.place(&[0u32]);
    let out = bench.place(&[0u32; 40]);
    bench
        .run(text, LaunchConfig::linear(40, 1), &params(&[counter, out]))
        .unwrap();
    assert_eq!(bench.read::<u32>(out, 40), vec![40; 40]);
}

#[test]
fn a_warp_that_spins_on_shared_memory_sees_what_another_writes() {
    let text = r#"
.vir 1
.kernel @k (%out: 8) {
  .shared 4
  .reg pred %p %q
  .reg b32 %w %x %t
  .reg b64 %po
  ld.param.b64 %po, [0]
  mov.special %w, warpid
  mov.special %t, tid.x
  setp.eq.u32 %q, %t, 0
  @%q st.shared.u32 [0], 0
  bar.sync 0
  setp.eq.u32 %p, %w, 0
  if %p {
    loop {
      ld.volatile.shared.u32 %x, [0]
      setp.eq.u32 %p, %x, 77
      break %p
    }
    st.global.u32 [%po], %x
  } else {
    nanosleep 100
    st.shared.u32 [0], 77
  }
}
"#;
    let mut bench = Bench::new();
    let out = bench.place(&[0u32]);
    bench
        .run(text, LaunchConfig::linear(1, 64), &params(&[out]))
        .unwrap();
    assert_eq!(bench.read::<u32>(out, 1), [77]);
}

#[test]
fn text_is_printed_in_the_order_of_blocks_and_threads() {
    let text = r#"
.vir 1
.kernel @k () {
  .reg b32 %c %t
  mov.special %c, ctaid.x
  mov.special %t, tid.x
  printf "block %d thread %2d\n", u32 %c, u32 %t
}
"#;
    let mut bench = Bench::new();
    bench.options.threads = 3;
    let report = bench.run(text, LaunchConfig::linear(50, 3), &[]).unwrap();
    let expected: String = (0..50)
        .flat_map(|c| (0..3).map(move |t| format!("block {c} thread {t:2}\n")))
        .collect();
    assert_eq!(report.printed, expected);
}

#[test]
fn generic_addresses_reach_shared_local_constant_and_global_memory_at_once() {
    let text = format!(
        r#"
.vir 1
.const "0a000000"
.kernel @k (%global: 8, %out: 8) {{
  .shared 16
  .local 8
  .reg pred %p
  .reg b32 %t %v %kind %a
  .reg b64 %pg %po %off %ps %pl %pc %at
  ld.param.b64 %pg, [0]
  ld.param.b64 %po, [8]
  mov.special %t, tid.x
  st.shared.u32 [4], 20
  st.local.u32 [4], %t
  mov.b32 %a, 4
  cvta.to_generic.shared %ps, %a
  cvta.to_generic.local %pl, %a
  mov.b32 %a, 0
  cvta.to_generic.const %pc, %a
  and.b32 %kind, %t, 3
  mov.b64 %at, %pg
  setp.eq.u32 %p, %kind, 1
  @%p mov.b64 %at, %ps
  setp.eq.u32 %p, %kind, 2
  @%p mov.b64 %at, %pl
  setp.eq.u32 %p, %kind, 3
  @%p mov.b64 %at, %pc
  ld.generic.u32 %v, [%at]
{STORE}
}}
"#
    );
    let mut bench = Bench::new();
    let global = bench.place(&[30u32]);
    let out = bench.place(&[0u32; 32]);
    bench
        .run(&text, LaunchConfig::linear(1, 32), &params(&[global, out]))
        .unwrap();
    let expected: Vec<u32> = (0..32).map(|t| [30, 20, t, 10][t as usize % 4]).collect();
    assert_eq!(bench.read::<u32>(out, 32), expected);
}

#[test]
fn traps_assertions_and_operations_that_are_not_modelled_are_told_apart() {
    let kernel = |body: &str| {
        format!(
            ".vir 1\n.kernel @k () {{\n  .reg pred %p\n  .reg b32 %t\n  mov.special %t, tid.x\n  \
             setp.lt.u32 %p, %t, 5\n  {body}\n}}\n"
        )
    };
    let run = |body: &str| Bench::new().run(&kernel(body), LaunchConfig::linear(1, 32), &[]);
    assert_eq!(fault(run("trap")).kind, FaultKind::Trap);
    let failed = fault(run("assert %p, \"t is small\""));
    assert_eq!(failed.kind, FaultKind::Assert);
    assert_eq!(
        (failed.thread, &*failed.message),
        (Some([5, 0, 0]), "t is small")
    );
    let Err(LaunchError::Incomplete(what)) = run("unmodelled \"tcgen05.mma\"") else {
        panic!("the launch is incomplete")
    };
    assert_eq!(what.operation, "tcgen05.mma");
    // Not reached, not missed.
    let body = "if %p {\n return\n }\n setp.lt.u32 %p, %t, 2\n @%p trap\n @%p unmodelled \"x\"";
    run(body).unwrap();
}

#[test]
fn launches_that_the_device_has_no_room_for_are_refused() {
    let text = ".vir 1\n.kernel @k (%x: 4) {\n  .shared 1024\n  .maxthreads 256\n}\n";
    let run = |change: &dyn Fn(&mut LaunchConfig), params: &[u8]| {
        let mut config = LaunchConfig::linear(1, 32);
        change(&mut config);
        match Bench::new().run(text, config, params) {
            Err(LaunchError::Bad(message)) => message,
            other => panic!("it is refused, not {other:?}"),
        }
    };
    let ok = [0; 4];
    assert!(run(&|_| {}, &[]).contains("takes 4 bytes of parameters, 0 are given"));
    assert!(run(&|c| c.block = [1025, 1, 1], &ok).contains("at most 1024"));
    assert!(run(&|c| c.block = [257, 1, 1], &ok).contains("declares at most 256"));
    assert!(run(&|c| c.grid = [1, 65_536, 1], &ok).contains("65535"));
    assert!(run(&|c| c.grid = [0, 1, 1], &ok).contains("none may be 0"));
    assert!(run(&|c| c.cluster = [2, 1, 1], &ok).contains("no multiple of cluster"));
    let most = 227 * 1024 - 1024;
    assert!(run(&|c| c.dynamic_shared = most + 1, &ok).contains("may have 232448"));
    let mut config = LaunchConfig::linear(1, 32);
    config.dynamic_shared = most;
    Bench::new().run(text, config, &ok).unwrap();
}

#[test]
fn what_a_launch_wrote_is_told_to_the_byte() {
    let text = r#"
.vir 1
.kernel @k (%out: 8) {
  .reg pred %p
  .reg b32 %t
  .reg b64 %po %off
  ld.param.b64 %po, [0]
  mov.special %t, tid.x
  mul.wide.u32 %off, %t, 2
  add.u64 %off, %po, %off
  st.global.u16 [%off], %t
  setp.eq.u32 %p, %t, 9
  @%p st.global.u8 [%po+101], %t
  @%p red.add.global.u32 [%po+200], %t
}
"#;
    let mut bench = Bench::new();
    bench.options.track_writes = true;
    let out = bench.place(&[0u8; 256]);
    let report = bench
        .run(text, LaunchConfig::linear(1, 32), &params(&[out]))
        .unwrap();
    let expected = [(0, 64), (101, 102), (200, 204)].map(|(a, b)| (out + a, out + b));
    assert_eq!(report.written, expected);
}

#[test]
fn strided_accesses_touch_more_sectors_and_conflicting_ones_take_more_passes() {
    let text = |stride: u32| {
        format!(
            r#"
.vir 1
.kernel @k (%a: 8) {{
  .shared 4096
  .reg b32 %t %at %x
  .reg b64 %pa %off
  ld.param.b64 %pa, [0]
  mov.special %t, tid.x
  mul.lo.u32 %at, %t, {stride}
  cvt.u64.u32 %off, %at
  add.u64 %pa, %pa, %off
  ld.global.f32 %x, [%pa]
  st.shared.f32 [%at], %x
}}
"#
        )
    };
    let mut counts = Vec::new();
    for stride in [4, 8, 32, 128] {
        let mut bench = Bench::new();
        let a = bench.place(&[0f32; 1024]);
        let report = bench.run(&text(stride), LaunchConfig::linear(1, 32), &params(&[a]));
        let report = report.unwrap().counts;
        counts.push((
            report.global_loads.sectors,
            report.shared_stores.wavefronts,
            report.unique_read_bytes,
        ));
    }
    // 32 lanes x 4 bytes; at 8 bytes half of a row of banks is used twice, at 128 one bank 32 times.
    let expected = [(4, 1, 128), (8, 2, 256), (32, 8, 1024), (32, 32, 1024)];
    assert_eq!(counts, expected);
}
