//! TIRx programs, lowered by TVM, run on the virtual GPU and give what NumPy gives.
//!
//! The fixtures come from `tests/programs/generate.py`.

use std::path::{Path, PathBuf};

use serde_json::Value;
use vgpu::Program;
use vgpu::device::{GlobalMemory, Gpu, LaunchConfig, Options};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cases")
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("hex text");
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex digits"))
        .collect()
}

fn dimensions(value: &Value) -> [u32; 3] {
    let list: Vec<u32> = serde_json::from_value(value.clone()).expect("three extents");
    list.try_into().expect("three extents")
}

/// Runs one fixture; what differs is said with the array's name and the element.
fn run(name: &str) {
    let text = std::fs::read_to_string(fixtures().join(format!("{name}.json"))).expect("a fixture");
    let case: Value = serde_json::from_str(&text).expect("JSON");
    let device = serde_json::to_vec(&case["device"]).expect("JSON");
    let module = vgpu_tirx::translate(&device).expect("it translates");
    if let Err(errors) = vgpu::ir::verify(&module) {
        panic!("{}\n{:?}", vgpu::ir::print(&module), errors);
    }
    let program = Program::compile(&module).expect("it compiles");
    let mut memory = GlobalMemory::new(1 << 22).expect("memory");
    let arrays = case["arrays"].as_object().expect("arrays");
    let mut addresses = std::collections::HashMap::new();
    for (array, fields) in arrays {
        let data = bytes(&fields["before"]);
        let address = memory.allocate(data.len() as u64).expect("room");
        memory.write(address, &data);
        addresses.insert(array.clone(), address);
    }
    let mut params: Vec<u8> = Vec::new();
    for argument in case["arguments"].as_array().expect("arguments") {
        let data = match &argument["array"] {
            Value::String(array) => addresses[array].to_le_bytes().to_vec(),
            _ => bytes(&argument["bytes"]),
        };
        params.resize(params.len().next_multiple_of(data.len()), 0);
        params.extend(data);
    }
    let config = LaunchConfig {
        grid: dimensions(&case["grid"]),
        block: dimensions(&case["block"]),
        cluster: [1, 1, 1],
        dynamic_shared: case["dynamic_shared"].as_u64().expect("a size") as u32,
    };
    let kernel = case["kernel"].as_str().expect("a name");
    let report = Gpu::default()
        .launch(
            &program,
            kernel,
            config,
            &params,
            &mut memory,
            &Options::default(),
        )
        .expect("it runs");
    assert_eq!(report.printed, case["printed"].as_str().expect("text"));
    let tolerance = case["tolerance"].as_f64().expect("a number");
    for (array, fields) in arrays {
        let after = bytes(&fields["after"]);
        let got = memory.read(addresses[array], after.len() as u64);
        let dtype = fields["dtype"].as_str().expect("a type");
        compare(array, dtype, &got, &after, tolerance);
    }
}

fn compare(array: &str, dtype: &str, got: &[u8], expected: &[u8], tolerance: f64) {
    if dtype == "float32" {
        let values = |data: &[u8]| -> Vec<f32> {
            data.chunks_exact(4)
                .map(|word| f32::from_le_bytes(word.try_into().expect("four bytes")))
                .collect()
        };
        for (index, (x, y)) in values(got).into_iter().zip(values(expected)).enumerate() {
            let close = if tolerance == 0.0 {
                x.to_bits() == y.to_bits()
            } else {
                f64::from((x - y).abs()) <= tolerance * f64::from(y.abs().max(1e-3))
            };
            assert!(
                close || (x.is_nan() && y.is_nan()),
                "{array}[{index}]: {x:e} where {y:e} is expected"
            );
        }
        return;
    }
    let size: usize = match dtype {
        "float64" | "int64" => 8,
        "int32" | "uint32" => 4,
        "float16" | "bfloat16" | "uint16" => 2,
        _ => 1,
    };
    for (index, (x, y)) in got.chunks(size).zip(expected.chunks(size)).enumerate() {
        assert_eq!(x, y, "{array}[{index}] of {dtype}");
    }
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run(stringify!($name)); })*

        /// A fixture that no test runs would be a test that nobody wrote.
        #[test]
        fn every_fixture_is_run() {
            let known = [$(stringify!($name)),*];
            for entry in std::fs::read_dir(fixtures()).expect("the folder") {
                let path = entry.expect("an entry").path();
                let stem = path.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
                assert!(known.contains(&stem.as_str()), "{stem} is not run");
            }
        }
    };
}

cases! {
    signed_arithmetic_wraps_and_truncates
    unsigned_and_wide_arithmetic_have_their_own_rules
    narrow_integers_are_computed_as_int_and_cut_when_stored
    conversions_between_floats_round_to_nearest_even
    every_fp8_code_widens_exactly
    narrowing_to_fp8_rounds_and_saturates
    loops_break_continue_and_nest
    a_local_array_with_a_variable_index_lives_in_memory
    registers_may_be_seen_as_another_type
    dynamic_shared_memory_transposes_a_tile
    warps_exchange_vote_and_reduce
    atomics_count_and_publish
    asynchronous_copies_fill_with_zeros_and_arrive
    barriers_in_memory_pass_a_phase_on
    functions_come_within_the_hardware_s_error
    what_a_condition_excludes_is_not_read
    two_dimensions_of_blocks_and_threads_and_symbolic_sizes
    printf_prints_in_order
    matrices_are_loaded_by_rows_and_by_columns
    vectors_of_three_and_six_are_aligned_as_their_parts_are
    four_bytes_multiply_and_add
}
