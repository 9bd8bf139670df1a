//! Random programs on the executor and on the scalar oracle leave the same memory.

mod support;

use proptest::prelude::*;
use support::interpret::{self, Bytes};
use support::programs::{self, SLOTS};
use support::random::Random;
use vgpu::ir::{self, Module, NodeKind, RegClass};
use vgpu::{GlobalMemory, Gpu, LaunchConfig, Options, Program};

/// Memory after the launch, by the executor.
fn execute(module: &Module, blocks: u32, threads: u32, options: &Options) -> Vec<u8> {
    let bytes = u64::from(blocks * threads) * SLOTS * 8;
    let mut memory = GlobalMemory::new(bytes + 4096).expect("host memory");
    let address = memory.allocate(bytes).expect("device memory");
    memory.write(address, &vec![0; bytes as usize]);
    let program = Program::compile(module).expect("a legal module");
    Gpu::default()
        .launch(
            &program,
            &module.kernels[0].name,
            LaunchConfig::linear(blocks, threads),
            &address.to_le_bytes(),
            &mut memory,
            options,
        )
        .unwrap_or_else(|error| panic!("{error}\n{}", ir::print(module)));
    memory.read(address, bytes)
}

/// The same, by the oracle; `None` where a thread takes too many steps.
fn interpret(module: &Module, blocks: u32, threads: u32) -> Option<Vec<u8>> {
    let bytes = u64::from(blocks * threads) * SLOTS * 8;
    let address = GlobalMemory::DEFAULT_BASE;
    let mut memory: Bytes = (0..bytes).map(|at| (address + at, 0)).collect();
    let shape = ([blocks, 1, 1], [threads, 1, 1]);
    interpret::run(
        &module.kernels[0],
        shape.0,
        shape.1,
        &address.to_le_bytes(),
        &mut memory,
    )?;
    Some(memory.into_values().collect())
}

fn check(seed: u64, blocks: u32, threads: u32) -> Result<(), TestCaseError> {
    let module = programs::program(seed);
    let Some(expected) = interpret(&module, blocks, threads) else {
        return Ok(());
    };
    let got = execute(
        &module,
        blocks,
        threads,
        &Options {
            threads: 1,
            ..Options::default()
        },
    );
    if let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) {
        let slot = at / 8 * 8;
        return Err(TestCaseError::fail(format!(
            "seed {seed}, thread {}, slot {}: executor {:02x?}, oracle {:02x?}\n{}",
            at as u64 / (SLOTS * 8),
            at as u64 % (SLOTS * 8) / 8,
            &got[slot..slot + 8],
            &expected[slot..slot + 8],
            ir::print(&module)
        )));
    }
    Ok(())
}

/// Values at the edges of each type, in both widths.
fn edges(random: &mut Random, wide: bool) -> u64 {
    const WORDS: [u64; 28] = [
        0,
        1,
        2,
        31,
        32,
        0x7f,
        0x80,
        0xff,
        0x7fff,
        0x8000,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        // f32: subnormals, one, infinity, NaN, the largest; a tie of f16 and of bf16
        0x0000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0001,
        0x7f7f_ffff,
        0x3f80_1000,
        0x3f80_8000,
        // f16 pairs: infinity and NaN, subnormal and the largest, one and minus zero
        0x7c00_7e00,
        0x0001_7bff,
        0x3c00_8000,
    ];
    const WIDE: [u64; 14] = [
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        0x3ff0_0000_0000_0000,
        0xbff0_0000_0000_0000,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        0x7ff8_0000_0000_0001,
        1,
        0x000f_ffff_ffff_ffff,
        0x7fef_ffff_ffff_ffff,
        0x3ff0_0000_1000_0000,
        0x41df_ffff_ffe0_0000,
        0x43e0_0000_0000_0000,
    ];
    match random.below(4) {
        0 => random.next() >> if wide { 0 } else { 32 },
        1 if wide => random.pick(&WIDE),
        2 if wide => random.pick(&WORDS) << 32 | random.pick(&WORDS),
        _ => random.pick(&WORDS),
    }
}

/// One instruction on operands at the edges, in every lane other ones.
fn check_instruction(seed: u64) -> Result<(), TestCaseError> {
    let mut random = Random::new(seed);
    let (module, registers) = programs::one_instruction(&mut random);
    let kernel = &module.kernels[0];
    let bytes = registers.len() as u64 * 8 * 32;
    let mut values = Vec::new();
    for _ in 0..32 {
        for class in &registers {
            values.extend(edges(&mut random, *class == RegClass::B64).to_le_bytes());
        }
    }
    let mut memory = GlobalMemory::new(2 * bytes + 4096).expect("host memory");
    let (source, target) = (memory.allocate(bytes), memory.allocate(bytes));
    let (source, target) = (
        source.expect("device memory"),
        target.expect("device memory"),
    );
    memory.write(source, &values);
    memory.write(target, &vec![0; bytes as usize]);
    let params: Vec<u8> = [source, target]
        .iter()
        .flat_map(|address| address.to_le_bytes())
        .collect();
    let mut expected: Bytes = (source..)
        .zip(values)
        .chain((target..target + bytes).map(|at| (at, 0)))
        .collect();
    interpret::run(kernel, [1, 1, 1], [32, 1, 1], &params, &mut expected).expect("a short program");
    let program = Program::compile(&module).expect("a legal module");
    let config = LaunchConfig::linear(1, 32);
    Gpu::default()
        .launch(
            &program,
            &kernel.name,
            config,
            &params,
            &mut memory,
            &Options {
                threads: 1,
                ..Options::default()
            },
        )
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let expected: Vec<u8> = (target..target + bytes).map(|at| expected[&at]).collect();
    let got = memory.read(target, bytes);
    if let Some(at) = (0..got.len()).find(|&at| got[at] != expected[at]) {
        let slot = at / 8 * 8;
        let word = |bytes: &[u8]| {
            u64::from_le_bytes(bytes[slot..slot + 8].try_into().expect("eight bytes"))
        };
        let register = &kernel.regs[slot / 8 % registers.len()].name;
        let inst = kernel.body.iter().find_map(|node| match &node.kind {
            NodeKind::Inst {
                guard: Some(_),
                inst,
            } => Some(ir::print_inst(kernel, inst)),
            _ => None,
        });
        let lane = slot / 8 / registers.len();
        let sources = memory.read(
            source + (lane * registers.len() * 8) as u64,
            registers.len() as u64 * 8,
        );
        let sources: Vec<String> = sources
            .chunks_exact(8)
            .zip(&kernel.regs)
            .map(|(chunk, reg)| {
                format!(
                    "{}={:x}",
                    reg.name,
                    u64::from_le_bytes(chunk.try_into().expect("eight bytes"))
                )
            })
            .collect();
        return Err(TestCaseError::fail(format!(
            "{inst:?}: %{register} is 0x{:x}, the oracle has 0x{:x}; {}",
            word(&got),
            word(&expected),
            sources.join(" ")
        )));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn instructions_on_edge_values_give_the_oracles_results(seed in any::<u64>()) {
        check_instruction(seed)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn programs_leave_the_oracles_memory(seed in any::<u64>(), threads in 1u32..80) {
        check(seed, 1, threads)?;
    }

    #[test]
    fn results_do_not_depend_on_host_threads(seed in any::<u64>()) {
        let module = programs::program(seed);
        let run = |threads| execute(&module, 5, 64, &Options { threads, seed, ..Options::default() });
        prop_assert_eq!(run(1), run(3));
    }
}
