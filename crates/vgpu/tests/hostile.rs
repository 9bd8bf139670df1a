//! Whatever a module does, its launch ends with a report, a fault or a refusal, and touches no memory but the device's.

mod support;

use proptest::prelude::*;
use support::generate;
use support::random::Random;
use vgpu::ir::{self, Inst, Module, NodeKind, Operand, RegClass};
use vgpu::{GlobalMemory, Gpu, LaunchConfig, LaunchError, Options, Program};

/// Bytes of the allocation that programs are given.
const BYTES: u64 = 4096;

/// Gives the registers, which the generator's kernels set to zero first, values that often are good
/// addresses.
fn plant_addresses(module: &mut Module, random: &mut Random, address: u64) {
    for kernel in &mut module.kernels {
        kernel.max_threads = 0;
        kernel.shared_bytes = kernel.shared_bytes.min(4096);
        let regs = &kernel.regs;
        for node in &mut kernel.body {
            let NodeKind::Inst {
                guard: None,
                inst: Inst::Mov { dst, src },
            } = &mut node.kind
            else {
                break;
            };
            *src = Operand::Imm(match regs[dst.0 as usize].class {
                RegClass::Pred => random.below(2),
                RegClass::B32 => random.pick(&[0, 8, 32, 64, 0xffff_ffff, 0x3f80_0000]),
                RegClass::B64 => match random.below(6) {
                    0 => random.next(),
                    1 => ir::SHARED_WINDOW + random.below(512) * 8,
                    2 => ir::LOCAL_WINDOW + random.below(8) * 8,
                    _ => address + random.below(BYTES / 32) * 32,
                },
            });
        }
    }
}

/// How every kernel's launch ended, and what was left in memory.
fn run(module: &Module, seed: u64, threads: usize) -> (Vec<String>, Vec<u8>) {
    let mut random = Random::new(seed);
    let mut memory = GlobalMemory::new(1 << 16).expect("host memory");
    let address = memory.allocate(BYTES).expect("device memory");
    memory.write(address, &[0; BYTES as usize]);
    let program = Program::compile(module).expect("a legal module");
    let mut ends = Vec::new();
    for kernel in &module.kernels {
        let config = LaunchConfig {
            grid: [1 + random.below(3) as u32, 1, 1 + random.below(2) as u32],
            block: [1 + random.below(70) as u32, 1 + random.below(2) as u32, 1],
            cluster: [1, 1, 1],
            dynamic_shared: random.pick(&[0, 100, 4096]),
        };
        let (_, bytes) = kernel.param_layout();
        let params: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        let options = Options {
            threads,
            seed,
            step_budget: 300,
            ..Options::default()
        };
        let result = Gpu::default().launch(
            &program,
            &kernel.name,
            config,
            &params,
            &mut memory,
            &options,
        );
        ends.push(match result {
            Ok(report) => format!("well, {:?}", report.counts),
            Err(LaunchError::Fault(fault)) => fault.to_string(),
            Err(LaunchError::Incomplete(incomplete)) => incomplete.to_string(),
            Err(LaunchError::Bad(message)) => message,
        });
    }
    (ends, memory.read(address, BYTES))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn a_legal_module_ends_in_the_same_way_on_any_number_of_threads(seed in any::<u64>()) {
        let mut module = generate::module(seed);
        plant_addresses(&mut module, &mut Random::new(seed ^ 1), GlobalMemory::DEFAULT_BASE);
        let (ends, bytes) = run(&module, seed, 1);
        for end in &ends {
            prop_assert!(!end.is_empty());
        }
        // A launch that faults may leave more or less behind; one that ends well may not.
        let again = run(&module, seed, 1);
        prop_assert_eq!(&again.0, &ends);
        if ends.iter().all(|end| end.starts_with("well")) {
            let other = run(&module, seed, 3);
            prop_assert_eq!(&other.0, &ends, "{}", ir::print(&module));
            prop_assert!(other.1 == bytes, "memory differs\n{}", ir::print(&module));
        }
    }

    #[test]
    fn broken_text_that_is_still_legal_runs_without_a_panic(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let mut module = generate::module(seed);
        plant_addresses(&mut module, &mut random, GlobalMemory::DEFAULT_BASE);
        let text = ir::print(&module);
        let mut lines: Vec<&str> = text.lines().collect();
        for _ in 0..1 + random.below(4) {
            let (from, to) = (random.below(lines.len() as u64) as usize, random.below(lines.len() as u64) as usize);
            match random.below(3) {
                0 => lines.swap(from, to),
                1 => {
                    lines.remove(from);
                }
                _ => lines.insert(to, lines[from]),
            }
        }
        if let Ok(module) = ir::parse(&lines.join("\n"))
            && ir::verify(&module).is_ok()
        {
            run(&module, seed, 2);
        }
    }
}

/// The other tests are worth something only if the programs get somewhere.
#[test]
fn programs_end_in_every_way() {
    let mut ends = Vec::new();
    for seed in 0..400u64 {
        let mut module = generate::module(seed);
        plant_addresses(
            &mut module,
            &mut Random::new(seed ^ 1),
            GlobalMemory::DEFAULT_BASE,
        );
        ends.extend(run(&module, seed, 1).0);
    }
    for part in [
        "well",
        "out-of-bounds",
        "misaligned",
        "step budget",
        "deadlock",
        "trap",
        "assertion failed",
        "barrier misuse",
        "warp operation misuse",
        "does not model",
    ] {
        let count = ends.iter().filter(|end| end.contains(part)).count();
        assert!(
            count >= 3,
            "only {count} of {} programs: {part}",
            ends.len()
        );
    }
}
