//! Cleaning up changes nothing that a program stores.

use proptest::prelude::*;
use vgpu::{GlobalMemory, Gpu, LaunchConfig, Options, Program};

use super::*;

// The random programs that the virtual GPU is tested with; these tests use a part of each file.
#[allow(dead_code)]
#[path = "../../../vgpu/tests/support/generate.rs"]
mod generate;
#[allow(dead_code)]
#[path = "../../../vgpu/tests/support/programs.rs"]
mod programs;
#[allow(dead_code)]
#[path = "../../../vgpu/tests/support/random.rs"]
mod random;

use programs::SLOTS;
use random::Random;

const THREADS: u32 = 40;

/// Gives results a register of their own that is written once and then moved, as the translation of
/// expressions does, and reads such registers again at later places.
struct Temporaries<'a> {
    random: &'a mut Random,
    regs: &'a mut Vec<RegDecl>,
    /// Those that every way to the present place has written.
    live: Vec<Reg>,
    /// Registers that other instructions write and read.
    shared: usize,
}

impl Temporaries<'_> {
    fn block(&mut self, block: &mut Block) {
        let outer = self.live.len();
        for mut node in std::mem::take(block) {
            match &mut node.kind {
                NodeKind::If {
                    then, otherwise, ..
                } => {
                    self.block(then);
                    self.block(otherwise);
                }
                NodeKind::Loop { body } => self.block(body),
                _ => {}
            }
            let moved = self.give_own_result(&mut node);
            block.push(node);
            block.extend(moved);
            if self.random.one_in(3) {
                block.extend(self.read_again());
            }
        }
        self.live.truncate(outer);
    }

    fn give_own_result(&mut self, node: &mut Node) -> Option<Node> {
        let NodeKind::Inst { guard: None, inst } = &mut node.kind else {
            return None;
        };
        let mut written = Vec::new();
        definitions(inst, &mut |reg| written.push(reg));
        let &[result] = written.as_slice() else {
            return None;
        };
        let class = self.regs[result.0 as usize].class;
        if class == RegClass::Pred || self.random.one_in(3) {
            return None;
        }
        let own = Reg(self.regs.len() as u32);
        self.regs.push(RegDecl {
            name: format!("own{}", own.0),
            class,
        });
        inst.registers_mut(&mut |reg, part| {
            if part == RegisterUse::Write {
                *reg = own;
            }
        });
        self.live.push(own);
        Some(mov(result, own))
    }

    /// A move of a live temporary to a shared register of its class.
    fn read_again(&mut self) -> Option<Node> {
        let &from = self
            .live
            .get(self.random.below(self.live.len() as u64) as usize)?;
        let class = self.regs[from.0 as usize].class;
        let fitting: Vec<Reg> = (0..self.shared)
            .filter(|&index| self.regs[index].class == class)
            .map(|index| Reg(index as u32))
            .collect();
        Some(mov(self.random.pick(&fitting), from))
    }
}

fn mov(dst: Reg, src: Reg) -> Node {
    Node {
        location: Location::default(),
        kind: NodeKind::Inst {
            guard: None,
            inst: Inst::Mov {
                dst,
                src: Operand::Reg(src),
            },
        },
    }
}

/// A random program in the shape in which translation leaves it.
fn translated(seed: u64) -> Module {
    let mut module = programs::program(seed);
    let kernel = &mut module.kernels[0];
    let mut random = Random::new(seed ^ 0x5eed);
    let shared = (generate::PREDS + generate::WORDS + generate::WIDE) as usize;
    Temporaries {
        random: &mut random,
        regs: &mut kernel.regs,
        live: Vec::new(),
        shared,
    }
    .block(&mut kernel.body);
    module
}

/// What the threads stored, or nothing where the program takes too long.
fn stored(module: &Module) -> Option<Vec<u8>> {
    let bytes = u64::from(THREADS) * SLOTS * 8;
    let mut memory = GlobalMemory::new(bytes + 4096).expect("host memory");
    let address = memory.allocate(bytes).expect("device memory");
    memory.write(address, &vec![0; bytes as usize]);
    let program = Program::compile(module).expect("a legal module");
    let options = Options {
        threads: 1,
        ..Options::default()
    };
    let launched = Gpu::default().launch(
        &program,
        &module.kernels[0].name,
        LaunchConfig::linear(1, THREADS),
        &address.to_le_bytes(),
        &mut memory,
        &options,
    );
    launched.ok().map(|_| memory.read(address, bytes))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_cleaned_program_stores_what_it_stored_before(seed in any::<u64>()) {
        let module = translated(seed);
        let mut cleaned = module.clone();
        run(&mut cleaned.kernels[0]);
        if let Some(before) = stored(&module) {
            let after = stored(&cleaned).expect("it ended before");
            let differ = (0..before.len()).find(|&at| before[at] != after[at]);
            prop_assert!(
                differ.is_none(),
                "byte {:?}\n{}\n{}",
                differ,
                vgpu::ir::print(&module),
                vgpu::ir::print(&cleaned)
            );
        }
    }
}

#[test]
fn a_branch_that_overwrites_the_target_keeps_the_temporary() {
    // `m` holds the value at first; the branch gives `m` another and `r` the value.
    let text = format!(
        ".vir 1
.kernel @k (%out: 8) {{
.reg pred %p
.reg b32 %i %t %m %r
.reg b64 %o
ld.param.b64 %o, [0]
mov.special %i, tid.x
mad.wide.u32 %o, %i, {}, %o
mov.b32 %r, 7
add.u32 %t, %i, 100
mov.b32 %m, %t
setp.gt.u32 %p, %i, 8
if %p {{
mov.b32 %m, 0
mov.b32 %r, %t
}}
st.global.u32 [%o], %m
st.global.u32 [%o+4], %r
}}
",
        SLOTS * 8
    );
    let mut module = vgpu::ir::parse(&text).expect("a legal text");
    run(&mut module.kernels[0]);
    let bytes = stored(&module).expect("it ends");
    for thread in 0..THREADS {
        let at = u64::from(thread) * SLOTS * 8;
        let words = &bytes[at as usize..][..8];
        let word = |k: usize| u32::from_le_bytes(words[k..k + 4].try_into().expect("four bytes"));
        let expected = match thread {
            0..=8 => (thread + 100, 7),
            _ => (0, thread + 100),
        };
        assert_eq!((word(0), word(4)), expected, "thread {thread}");
    }
}
