//! Descriptions read, ranks are right, figures of simple cases follow from the description by hand.

use super::*;
use crate::device::{Chain, Counts, Pipe, SectorAccess, SharedAccess};

/// A kernel that streams: each warp loads and stores a row of f32, coalesced.
fn streaming(ctas: u64, bytes: u64) -> Counts {
    let warps = ctas * 8;
    let mut counts = Counts {
        ctas,
        threads_per_cta: 256,
        warps_per_cta: 8,
        registers_per_thread: 32,
        ctas_per_cluster: 1,
        global_loads: SectorAccess {
            requests: bytes / 128,
            sectors: bytes / 32,
            bytes,
        },
        global_stores: SectorAccess {
            requests: bytes / 128,
            sectors: bytes / 32,
            bytes,
        },
        unique_read_bytes: bytes,
        unique_write_bytes: bytes,
        longest: Chain {
            global_rounds: 1,
            instructions: 12,
            ..Chain::default()
        },
        ..Counts::default()
    };
    counts.issued[Pipe::Memory as usize] = 2 * bytes / 128;
    counts.issued[Pipe::Int as usize] = 10 * warps;
    counts.total = Chain {
        global_rounds: warps,
        instructions: 12 * warps,
        ..Chain::default()
    };
    counts
}

fn tensor(dtype: &str, sizes: &[u64]) -> TensorMeta {
    let mut strides = vec![1; sizes.len()];
    for index in (1..sizes.len()).rev() {
        strides[index - 1] = strides[index] * sizes[index];
    }
    TensorMeta {
        dtype: dtype.into(),
        sizes: sizes.to_vec(),
        strides,
    }
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance * expected,
        "{value} is not within {tolerance} of {expected}"
    );
}

#[test]
fn the_built_in_devices_agree_with_their_data_sheets() {
    let (b200, h200) = (Device::b200(), Device::h200());
    near(b200.fp32_flops(), 75e12, 0.01);
    near(b200.fp64_flops(), 37e12, 0.02);
    near(h200.fp32_flops(), 67e12, 0.01);
    near(h200.fp64_flops(), 34e12, 0.02);
    assert_eq!((b200.arch.as_str(), b200.sms), ("sm_100a", 148));
    assert_eq!((h200.arch.as_str(), h200.sms), ("sm_90a", 132));
    assert_eq!(Device::by_name("b200"), Some(b200));
    assert_eq!(Device::by_name("a100"), None);
}

#[test]
fn a_description_with_a_wrong_field_is_refused_by_its_name() {
    let text = include_str!("../../../../devices/b200.toml");
    for (from, to, part) in [
        ("sms = 148", "", "sms"),
        ("sms = 148", "sms = 0", "sms = 0"),
        ("int = 2.0", "int = -1.0", "int = -1"),
        ("launch = 0.9e-6", "launch = nan", "host.launch"),
        ("alu = 4", "alu = 4\nmagic = 3", "magic"),
    ] {
        let error = Device::from_toml(&text.replacen(from, to, 1)).expect_err(to);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_large_copy_takes_its_bytes_over_the_bandwidth() {
    let device = Device::b200();
    let counts = streaming(1 << 20, 1 << 30);
    let estimate = kernel_time(&counts, &device);
    assert_eq!(estimate.bound, Bound::Dram);
    near(
        estimate.terms.dram,
        2.0 * (1u64 << 30) as f64 / (7.7e12 * 0.92),
        1e-9,
    );
    near(
        estimate.seconds,
        estimate.terms.dram + device.host.launch,
        0.2,
    );
    assert!(
        estimate.bottleneck.contains("1.07 GB read"),
        "{}",
        estimate.bottleneck
    );
}

#[test]
fn no_estimate_beats_the_memory_that_must_move() {
    for device in [Device::b200(), Device::h200()] {
        for (ctas, bytes) in [(1, 4096), (100, 1 << 20), (10_000, 1 << 28)] {
            let estimate = kernel_time(&streaming(ctas, bytes), &device);
            let floor = 2.0 * bytes as f64 / device.memory.dram_bytes_per_second;
            assert!(estimate.seconds > floor + device.host.launch);
        }
    }
}

#[test]
fn a_tiny_kernel_is_bound_by_its_launch() {
    let estimate = kernel_time(&streaming(1, 8192), &Device::b200());
    assert_eq!(estimate.bound, Bound::Launch);
    assert!(estimate.bottleneck.contains("do more in one launch"));
}

#[test]
fn more_of_any_resource_never_takes_less_time() {
    let device = Device::b200();
    let base = kernel_time(&streaming(4096, 1 << 26), &device).seconds;
    let changes: [fn(&mut Counts); 8] = [
        |c| c.global_loads.sectors *= 8,
        |c| c.unique_read_bytes *= 2,
        |c| {
            c.shared_loads = SharedAccess {
                requests: 1 << 20,
                wavefronts: 1 << 25,
                bytes: 1 << 27,
            }
        },
        |c| c.issued[Pipe::Special as usize] = 1 << 22,
        |c| c.issued[Pipe::Fp64 as usize] = 1 << 24,
        |c| c.total.global_rounds *= 20,
        |c| c.global_atomics.operations = 1 << 26,
        |c| c.registers_per_thread = 255,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut counts = streaming(4096, 1 << 26);
        change(&mut counts);
        let changed = kernel_time(&counts, &device).seconds;
        assert!(changed >= base, "change {index}: {changed} < {base}");
    }
}

#[test]
fn the_bound_names_what_was_made_scarce() {
    let device = Device::b200();
    let of = |change: fn(&mut Counts)| {
        let mut counts = streaming(4096, 1 << 26);
        change(&mut counts);
        kernel_time(&counts, &device)
    };
    let strided = of(|c| c.global_loads.sectors *= 32);
    assert_eq!(strided.bound, Bound::L2);
    assert!(
        strided.bottleneck.contains("not coalesced: 16.5 times"),
        "{}",
        strided.bottleneck
    );
    let conflicts = of(|c| {
        c.shared_loads = SharedAccess {
            requests: 1 << 20,
            wavefronts: 1 << 25,
            bytes: 1 << 27,
        };
    });
    assert_eq!(conflicts.bound, Bound::Shared);
    assert!(
        conflicts.bottleneck.contains("32.0 times"),
        "{}",
        conflicts.bottleneck
    );
    assert_eq!(
        of(|c| c.issued[Pipe::Special as usize] = 1 << 24).bound,
        Bound::Issue(Pipe::Special)
    );
    assert_eq!(
        of(|c| c.global_atomics.operations = 1 << 30).bound,
        Bound::Atomics
    );
    let waiting = of(|c| c.total.global_rounds *= 200);
    assert_eq!(waiting.bound, Bound::Latency);
    assert_eq!(waiting.bound.to_string(), "latency");
}

#[test]
fn residency_follows_the_scarcest_resource() {
    let device = Device::b200();
    let of = |threads: u32, registers: u32, shared: u32, ctas: u64| {
        let counts = Counts {
            ctas,
            threads_per_cta: threads,
            warps_per_cta: threads.div_ceil(32),
            registers_per_thread: registers,
            shared_per_cta: shared,
            ..Counts::default()
        };
        let residency = residency(&counts, &device);
        (residency.ctas_per_sm, residency.limit)
    };
    // By hand: 64 warps; 32 CTAs; 65,536 registers / (128 x 256); 228 KB / (100 + 1) KB.
    assert_eq!(of(1024, 32, 0, 10_000), (2, Limit::Warps));
    assert_eq!(of(32, 32, 0, 10_000), (32, Limit::Ctas));
    assert_eq!(of(256, 128, 0, 10_000), (2, Limit::Registers));
    assert_eq!(of(256, 32, 100 * 1024, 10_000), (2, Limit::Shared));
    assert_eq!(of(256, 32, 0, 100), (8, Limit::Grid));
}

#[test]
fn elementwise_operations_cost_their_bytes_once() {
    let device = Device::b200();
    let x = tensor("float32", &[8192, 8192]);
    let row = TensorMeta {
        dtype: "float32".into(),
        sizes: vec![8192, 8192],
        strides: vec![0, 1],
    };
    let add = eager_op(
        "aten::add.Tensor",
        &[x.clone(), row],
        std::slice::from_ref(&x),
        0,
        &device,
    );
    assert_eq!(add.kind, OpKind::Streaming);
    assert_eq!(add.bytes, 2 * 8192 * 8192 * 4 + 8192 * 4);
    near(
        add.seconds,
        device.host.launch + add.bytes as f64 / (7.7e12 * 0.92),
        1e-9,
    );
    let in_place = eager_op(
        "aten::mul_.Tensor",
        &[x.clone(), x.clone()],
        std::slice::from_ref(&x),
        0,
        &device,
    );
    assert_eq!(in_place.bytes, 3 * 8192 * 8192 * 4);
    let zero = eager_op(
        "aten::zero_",
        std::slice::from_ref(&x),
        std::slice::from_ref(&x),
        0,
        &device,
    );
    assert_eq!(zero.bytes, 8192 * 8192 * 4);
    let out = eager_op(
        "aten::add.out",
        &[x.clone(), x.clone(), x.clone()],
        std::slice::from_ref(&x),
        0,
        &device,
    );
    assert_eq!(out.bytes, 3 * 8192 * 8192 * 4);
}

#[test]
fn transposed_operands_move_whole_sectors() {
    let x = TensorMeta {
        dtype: "bfloat16".into(),
        sizes: vec![64, 64],
        strides: vec![4096, 64],
    };
    assert_eq!(x.moved_bytes(), 64 * 64 * 2 * 16);
    let transposed = TensorMeta {
        dtype: "bfloat16".into(),
        sizes: vec![64, 64],
        strides: vec![1, 64],
    };
    assert_eq!(transposed.moved_bytes(), 64 * 64 * 2);
}

#[test]
fn products_are_charged_by_type_with_tf32_off() {
    let device = Device::b200();
    let seconds = |dtype: &str| {
        let m = tensor(dtype, &[4096, 4096]);
        eager_op("aten::mm", &[m.clone(), m.clone()], &[m], 0, &device)
    };
    let (f32, bf16, fp8) = (
        seconds("float32"),
        seconds("bfloat16"),
        seconds("float8_e4m3fn"),
    );
    assert_eq!(f32.flops, 2.0 * 4096f64.powi(3));
    // 1,024 tiles on 148 SMs: 7 rounds, the last not full.
    near(
        f32.seconds - device.host.launch,
        f32.flops / (device.fp32_flops() * 0.75 * 1024.0 / 1036.0),
        1e-6,
    );
    assert!(f32.seconds > 20.0 * bf16.seconds && bf16.seconds > fp8.seconds);
    let bias = tensor("bfloat16", &[4096]);
    let m = tensor("bfloat16", &[4096, 4096]);
    let addmm = eager_op(
        "aten::addmm",
        &[bias, m.clone(), m.clone()],
        std::slice::from_ref(&m),
        0,
        &device,
    );
    assert_eq!(addmm.flops, bf16.flops);
}

#[test]
fn a_product_with_a_vector_costs_the_matrix_read_once() {
    let device = Device::b200();
    let (x, w) = (
        tensor("bfloat16", &[1, 8192]),
        tensor("bfloat16", &[8192, 8192]),
    );
    let y = tensor("bfloat16", &[1, 8192]);
    let op = eager_op("aten::mm", &[x, w], &[y], 0, &device);
    near(
        op.seconds - device.host.launch * f64::from(op.launches),
        op.bytes as f64 / device.dram_bandwidth(),
        1e-9,
    );
}

#[test]
fn a_gather_reads_what_it_returns_and_not_the_source() {
    let device = Device::b200();
    let (table, index) = (
        tensor("float32", &[1_000_000, 128]),
        tensor("int64", &[256]),
    );
    let result = tensor("float32", &[256, 128]);
    let op = eager_op(
        "aten::index_select",
        &[table.clone(), index.clone()],
        std::slice::from_ref(&result),
        0,
        &device,
    );
    assert_eq!(op.kind, OpKind::Gather);
    assert_eq!(op.bytes, 2 * 256 * 128 * 4 + 256 * 8);
    let put = eager_op(
        "aten::index_put_",
        &[table.clone(), index, result],
        &[table],
        0,
        &device,
    );
    assert_eq!(put.kind, OpKind::Scatter);
    assert_eq!(put.bytes, 2 * 256 * 128 * 4 + 256 * 8);
}

#[test]
fn fused_is_cheaper_than_split_and_sorting_dearer_than_adding() {
    let device = Device::b200();
    let x = tensor("float32", &[1024, 1024]);
    let time = |op: &str| {
        eager_op_time(
            op,
            std::slice::from_ref(&x),
            std::slice::from_ref(&x),
            0,
            &device,
        )
    };
    let parts = time("aten::exp") + time("aten::sum.dim_IntList") + time("aten::div.Tensor");
    assert!(time("aten::_softmax") < parts);
    assert!(time("aten::sort") > time("aten::topk") && time("aten::topk") > time("aten::exp"));
    assert!(time("aten::nonzero") > 3.0 * device.host.launch + device.host.synchronize);
}

#[test]
fn allocations_and_empty_tensors_are_free_and_unknown_names_are_said() {
    let device = Device::b200();
    let x = tensor("float32", &[1024]);
    let empty = tensor("float32", &[0, 16]);
    assert_eq!(
        eager_op_time(
            "aten::empty.memory_format",
            &[],
            std::slice::from_ref(&x),
            0,
            &device
        ),
        0.0
    );
    assert_eq!(
        eager_op_time(
            "aten::add.Tensor",
            &[empty.clone(), empty.clone()],
            &[empty],
            0,
            &device
        ),
        0.0
    );
    let odd = eager_op(
        "custom::frobnicate",
        std::slice::from_ref(&x),
        std::slice::from_ref(&x),
        0,
        &device,
    );
    assert_eq!(
        (odd.kind, odd.bytes, odd.launches),
        (OpKind::Unknown, 8192, 1)
    );
}

#[test]
fn data_from_the_host_crosses_the_bus() {
    let device = Device::b200();
    let x = tensor("float32", &[1 << 20]);
    let with = eager_op(
        "aten::copy_",
        std::slice::from_ref(&x),
        std::slice::from_ref(&x),
        4 << 20,
        &device,
    );
    let without = eager_op(
        "aten::copy_",
        &[x.clone(), x.clone()],
        std::slice::from_ref(&x),
        0,
        &device,
    );
    near(
        with.seconds - without.seconds,
        f64::from(4 << 20) / 64e9,
        0.05,
    );
    assert_eq!(host_read_time(0, &device), device.host.synchronize);
    let second = device.memory.host_bytes_per_second as u64;
    assert_eq!(
        host_read_time(second, &device),
        device.host.synchronize + 1.0
    );
    assert_eq!(compile_time(3, &device), 3.0 * device.host.compile);
}

#[test]
fn attention_and_convolution_count_their_multiplications() {
    let device = Device::b200();
    let (q, k) = (
        tensor("bfloat16", &[2, 8, 128, 64]),
        tensor("bfloat16", &[2, 8, 512, 64]),
    );
    let op = eager_op(
        "aten::_scaled_dot_product_flash_attention",
        &[q.clone(), k.clone(), k],
        std::slice::from_ref(&q),
        0,
        &device,
    );
    assert_eq!(op.flops, 4.0 * 2.0 * 8.0 * 128.0 * 512.0 * 64.0);
    let (x, w) = (
        tensor("float16", &[4, 16, 32, 32]),
        tensor("float16", &[32, 16, 3, 3]),
    );
    let y = tensor("float16", &[4, 32, 30, 30]);
    let op = eager_op("aten::convolution", &[x, w], &[y], 0, &device);
    assert_eq!(op.flops, 2.0 * 4.0 * 32.0 * 30.0 * 30.0 * 16.0 * 9.0);
}

#[test]
fn results_given_by_the_caller_are_written_and_not_read() {
    let device = Device::b200();
    let (x, v) = (
        tensor("float32", &[1000, 100]),
        tensor("float32", &[1000, 10]),
    );
    let i = tensor("int64", &[1000, 10]);
    let functional = eager_op(
        "aten::topk",
        std::slice::from_ref(&x),
        &[v.clone(), i.clone()],
        0,
        &device,
    );
    let given = eager_op(
        "aten::topk.values",
        &[x, v.clone(), i.clone()],
        &[v, i],
        0,
        &device,
    );
    assert_eq!(functional, given);
}
