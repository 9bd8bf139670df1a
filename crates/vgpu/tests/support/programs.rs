//! Random programs that run: threads that do not meet, every loop ends, every result is exact.

use vgpu::ir::*;

use super::generate::*;
use super::random::Random;

/// Slots of eight bytes that each thread of a program may write.
pub const SLOTS: u64 = 24;

/// A kernel of threads that do not meet: random exact arithmetic under random nested structure. Its one
/// parameter is the address of [`SLOTS`] slots for each thread of the launch; every loop ends.
pub fn program(seed: u64) -> Module {
    let mut random = Random::new(seed);
    let mut program = ProgramBuilder {
        kernel: empty_kernel(),
        counters: 0,
        budget: 60,
    };
    let body = program.whole(&mut random);
    program.kernel.body.extend(body);
    program.kernel.params.push(Param {
        name: "out".into(),
        size: 8,
        align: 8,
    });
    Module {
        kernels: vec![program.kernel],
        ..Module::default()
    }
}

struct ProgramBuilder {
    kernel: Kernel,
    counters: u32,
    budget: u32,
}

impl ProgramBuilder {
    fn reg(&mut self, name: &str, class: RegClass) -> Reg {
        let index = self.kernel.regs.len() as u32;
        self.kernel.regs.push(RegDecl {
            name: name.into(),
            class,
        });
        Reg(index)
    }

    fn whole(&mut self, random: &mut Random) -> Block {
        let ids = ["tid", "cta", "threads"].map(|name| self.reg(name, RegClass::B32));
        let id = self.reg("id", RegClass::B32);
        let out = self.reg("out", RegClass::B64);
        let mut body = Block::new();
        for (reg, special) in ids
            .into_iter()
            .zip([Special::TidX, Special::CtaidX, Special::NtidX])
        {
            body.push(node(Inst::ReadSpecial { dst: reg, special }));
        }
        body.push(node(Inst::Mad {
            width: MadWidth::Lo,
            ty: Type::U32,
            dst: id,
            a: Operand::Reg(ids[1]),
            b: Operand::Reg(ids[2]),
            c: Operand::Reg(ids[0]),
        }));
        body.push(node(Inst::Ld {
            space: Space::Param,
            ty: Type::B64,
            dst: vec![out],
            addr: Address {
                base: Operand::Imm(0),
                offset: 0,
            },
            order: Ordering::Weak,
            scope: Scope::Gpu,
            cache: CacheHint::Default,
        }));
        body.push(node(Inst::Mad {
            width: MadWidth::Wide,
            ty: Type::U32,
            dst: out,
            a: Operand::Reg(id),
            b: Operand::Imm(SLOTS * 8),
            c: Operand::Reg(out),
        }));
        // Different values in each thread: small integers, small floats, halves, noise.
        for index in 0..WORDS {
            let dst = Reg(PREDS + index);
            let a = Operand::Reg(id);
            body.push(node(match index % 5 {
                0 => Inst::IntBinary {
                    op: IntBinary::Add,
                    ty: Type::U32,
                    dst,
                    a,
                    b: Operand::Imm(random.below(64)),
                },
                1 => Inst::Cvt {
                    to: Type::F32,
                    from: Type::U32,
                    mods: FloatMods::default(),
                    satfinite: false,
                    dst,
                    a,
                },
                2 => Inst::Cvt {
                    to: Type::F16,
                    from: Type::U32,
                    mods: FloatMods::default(),
                    satfinite: false,
                    dst,
                    a,
                },
                _ => Inst::Mad {
                    width: MadWidth::Lo,
                    ty: Type::U32,
                    dst,
                    a,
                    b: Operand::Imm(random.next() & 0xffff_ffff | 1),
                    c: Operand::Imm(random.next() & 0xffff_ffff),
                },
            }));
        }
        for index in 0..WIDE {
            let dst = Reg(PREDS + WORDS + index);
            let a = Operand::Reg(Reg(PREDS + random.below(u64::from(WORDS)) as u32));
            body.push(node(if index % 2 == 0 {
                Inst::Cvt {
                    to: Type::F64,
                    from: Type::F32,
                    mods: FloatMods::default(),
                    satfinite: false,
                    dst,
                    a,
                }
            } else {
                Inst::Mad {
                    width: MadWidth::Wide,
                    ty: Type::U32,
                    dst,
                    a,
                    b: Operand::Imm(random.next() & 0xffff_ffff),
                    c: Operand::Imm(random.next()),
                }
            }));
        }
        let rest = self.block(random, out, 0, 0);
        body.extend(rest);
        for slot in 0..SLOTS {
            body.push(self.store(random, out, slot));
        }
        body
    }

    /// A store of a register to one of the thread's slots.
    fn store(&mut self, random: &mut Random, out: Reg, slot: u64) -> Node {
        let ty = random.pick(&[Type::B32, Type::B64, Type::U8, Type::B16]);
        node(Inst::St {
            space: Space::Global,
            ty,
            src: vec![Operand::Reg(dst(random, ty))],
            addr: Address {
                base: Operand::Reg(out),
                offset: (slot * 8) as i64,
            },
            order: Ordering::Weak,
            scope: Scope::Gpu,
            cache: CacheHint::Default,
        })
    }

    fn block(&mut self, random: &mut Random, out: Reg, depth: u32, loops: u32) -> Block {
        let mut block = Block::new();
        for _ in 0..2 + random.below(7) {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let location = Location::default();
            let kind = match random.below(16) {
                0 | 1 if depth < 5 => {
                    block.push(compare(random));
                    let cond = pred_of(&block);
                    NodeKind::If {
                        cond,
                        then: self.block(random, out, depth + 1, loops),
                        otherwise: if random.one_in(3) {
                            Block::new()
                        } else {
                            self.block(random, out, depth + 1, loops)
                        },
                    }
                }
                2 | 3 if depth < 5 && loops < 3 => {
                    self.counted_loop(random, &mut block, out, depth, loops)
                }
                4 if loops > 0 => {
                    block.push(compare(random));
                    NodeKind::Break {
                        guard: Some(guard_of(random, &block)),
                    }
                }
                5 if loops > 0 => {
                    block.push(compare(random));
                    NodeKind::Continue {
                        guard: Some(guard_of(random, &block)),
                    }
                }
                6 if depth > 0 && random.one_in(2) => {
                    block.push(compare(random));
                    NodeKind::Return {
                        guard: Some(guard_of(random, &block)),
                    }
                }
                7 | 8 => {
                    let slot = random.below(SLOTS);
                    self.store(random, out, slot).kind
                }
                _ => NodeKind::Inst {
                    guard: maybe_guard(random),
                    inst: exact(random),
                },
            };
            block.push(Node { location, kind });
        }
        block
    }

    /// A loop whose counter ends it, whatever else leaves it earlier.
    fn counted_loop(
        &mut self,
        random: &mut Random,
        before: &mut Block,
        out: Reg,
        depth: u32,
        loops: u32,
    ) -> NodeKind {
        let number = self.counters;
        self.counters += 1;
        let counter = self.reg(&format!("count{number}"), RegClass::B32);
        let done = self.reg(&format!("done{number}"), RegClass::Pred);
        before.push(node(Inst::Mov {
            dst: counter,
            src: Operand::Imm(0),
        }));
        let (a, b) = (Operand::Reg(counter), Operand::Imm(1));
        let mut body = vec![
            node(Inst::IntBinary {
                op: IntBinary::Add,
                ty: Type::U32,
                dst: counter,
                a,
                b,
            }),
            node(Inst::Setp {
                cmp: Compare::Gt,
                ty: Type::U32,
                ftz: false,
                dst: done,
                a,
                // Turns that differ by thread, or not.
                b: Operand::Imm(random.below(7)),
                combine: None,
            }),
            Node {
                location: Location::default(),
                kind: NodeKind::Break {
                    guard: Some(Guard {
                        pred: done,
                        negated: false,
                    }),
                },
            },
        ];
        body.extend(self.block(random, out, depth + 1, loops + 1));
        NodeKind::Loop { body }
    }
}

/// A kernel that loads every register of each lane from its first parameter, runs one exact instruction
/// under a guard that holds in some lanes, and stores them all to its second; and the registers' classes.
pub fn one_instruction(random: &mut Random) -> (Module, Vec<RegClass>) {
    let mut kernel = empty_kernel();
    let classes: Vec<RegClass> = kernel.regs.iter().map(|reg| reg.class).collect();
    let mut builder = ProgramBuilder {
        kernel: Kernel::default(),
        counters: 0,
        budget: 0,
    };
    std::mem::swap(&mut builder.kernel, &mut kernel);
    let lane = builder.reg("lane", RegClass::B32);
    let bits = builder.reg("bits", RegClass::B32);
    let (from, to) = (
        builder.reg("from", RegClass::B64),
        builder.reg("to", RegClass::B64),
    );
    let mut kernel = builder.kernel;
    kernel.body.clear();
    for name in ["from", "to"] {
        kernel.params.push(Param {
            name: name.into(),
            size: 8,
            align: 8,
        });
    }
    let load = |ty: Type, dst: Reg, base: Operand, offset: i64, space: Space| {
        node(Inst::Ld {
            space,
            ty,
            dst: vec![dst],
            addr: Address { base, offset },
            order: Ordering::Weak,
            scope: Scope::Gpu,
            cache: CacheHint::Default,
        })
    };
    kernel.body.push(node(Inst::ReadSpecial {
        dst: lane,
        special: Special::LaneId,
    }));
    for (index, pointer) in [from, to].into_iter().enumerate() {
        kernel.body.push(load(
            Type::B64,
            pointer,
            Operand::Imm(0),
            index as i64 * 8,
            Space::Param,
        ));
        kernel.body.push(node(Inst::Mad {
            width: MadWidth::Wide,
            ty: Type::U32,
            dst: pointer,
            a: Operand::Reg(lane),
            b: Operand::Imm(classes.len() as u64 * 8),
            c: Operand::Reg(pointer),
        }));
    }
    for (index, class) in classes.iter().enumerate() {
        let (dst, offset) = (Reg(index as u32), index as i64 * 8);
        match class.bits_type() {
            Some(ty) => kernel
                .body
                .push(load(ty, dst, Operand::Reg(from), offset, Space::Global)),
            None => {
                kernel.body.push(load(
                    Type::B32,
                    bits,
                    Operand::Reg(from),
                    offset,
                    Space::Global,
                ));
                kernel.body.push(node(Inst::Setp {
                    cmp: Compare::Lt,
                    ty: Type::S32,
                    ftz: false,
                    dst,
                    a: Operand::Reg(bits),
                    b: Operand::Imm(2),
                    combine: None,
                }));
            }
        }
    }
    let inst = exact(random);
    let kind = NodeKind::Inst {
        guard: Some(guard(random)),
        inst,
    };
    kernel.body.push(Node {
        location: Location::default(),
        kind,
    });
    for (index, class) in classes.iter().enumerate() {
        let (mut src, mut ty) = (Operand::Reg(Reg(index as u32)), Type::B64);
        match class {
            RegClass::Pred => {
                let pred = Reg(index as u32);
                kernel.body.push(node(Inst::Selp {
                    dst: bits,
                    a: Operand::Imm(1),
                    b: Operand::Imm(0),
                    pred,
                }));
                (src, ty) = (Operand::Reg(bits), Type::B32);
            }
            RegClass::B32 => ty = Type::B32,
            RegClass::B64 => {}
        }
        kernel.body.push(node(Inst::St {
            space: Space::Global,
            ty,
            src: vec![src],
            addr: Address {
                base: Operand::Reg(to),
                offset: index as i64 * 8,
            },
            order: Ordering::Weak,
            scope: Scope::Gpu,
            cache: CacheHint::Default,
        }));
    }
    (
        Module {
            kernels: vec![kernel],
            ..Module::default()
        },
        classes,
    )
}

/// A comparison that threads answer differently.
fn compare(random: &mut Random) -> Node {
    let inst = if random.one_in(2) {
        // A bit of a value.
        let bit = Reg(PREDS + random.below(u64::from(WORDS)) as u32);
        Inst::Setp {
            cmp: random.pick(&[Compare::Lt, Compare::Gt]),
            ty: Type::S32,
            ftz: false,
            dst: pred(random),
            a: Operand::Reg(bit),
            b: Operand::Reg(word(random)),
            combine: None,
        }
    } else {
        Inst::Setp {
            cmp: random.pick(&[Compare::Lt, Compare::Geu, Compare::Ne]),
            ty: Type::F32,
            ftz: false,
            dst: pred(random),
            a: Operand::Reg(word(random)),
            b: Operand::Reg(word(random)),
            combine: None,
        }
    };
    node(inst)
}

fn pred_of(block: &Block) -> Reg {
    match block.last().map(|node| &node.kind) {
        Some(NodeKind::Inst {
            inst: Inst::Setp { dst, .. },
            ..
        }) => *dst,
        _ => Reg(0),
    }
}

fn guard_of(random: &mut Random, block: &Block) -> Guard {
    Guard {
        pred: pred_of(block),
        negated: random.one_in(2),
    }
}

/// An instruction on registers alone whose result is exact.
pub fn exact(random: &mut Random) -> Inst {
    loop {
        let inst = instruction(random);
        let takes = match &inst {
            Inst::FloatBinary { op, .. } => {
                !matches!(op, FloatBinary::DivFull | FloatBinary::DivApprox)
            }
            // Which NaN a flushing negation gives is not specified.
            Inst::FloatUnary { op, ty, mods, .. } => match op {
                FloatUnary::Neg | FloatUnary::Abs => !mods.ftz || *ty == Type::F32,
                FloatUnary::Rcp | FloatUnary::Sqrt => true,
                _ => false,
            },
            Inst::Mov { .. }
            | Inst::Pack { .. }
            | Inst::Unpack { .. }
            | Inst::IntBinary { .. }
            | Inst::IntUnary { .. }
            | Inst::Mad { .. }
            | Inst::Carry { .. }
            | Inst::Sad { .. }
            | Inst::Bfe { .. }
            | Inst::Bfi { .. }
            | Inst::Lop3 { .. }
            | Inst::FunnelShift { .. }
            | Inst::Prmt { .. }
            | Inst::Dp4a { .. }
            | Inst::Dp2a { .. }
            | Inst::Fma { .. }
            | Inst::Testp { .. }
            | Inst::Cvt { .. }
            | Inst::CvtPack { .. }
            | Inst::Setp { .. }
            | Inst::Selp { .. }
            | Inst::PredBinary { .. }
            | Inst::PredNot { .. } => true,
            _ => false,
        };
        if takes {
            return inst;
        }
    }
}
