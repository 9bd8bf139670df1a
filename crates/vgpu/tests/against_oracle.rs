//! Random programs on the executor and on the scalar oracle leave the same memory.

mod support;

use proptest::prelude::*;
use support::generate::{self, SLOTS};
use support::interpret::{self, Bytes};
use vgpu::ir::{self, Module};
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
    let module = generate::program(seed);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn programs_leave_the_oracles_memory(seed in any::<u64>(), threads in 1u32..80) {
        check(seed, 1, threads)?;
    }

    #[test]
    fn results_do_not_depend_on_host_threads(seed in any::<u64>()) {
        let module = generate::program(seed);
        let run = |threads| execute(&module, 5, 64, &Options { threads, seed, ..Options::default() });
        prop_assert_eq!(run(1), run(3));
    }
}
