//! Random modules that the verifier accepts, with every kind of instruction.

use std::cell::RefCell;

use vgpu::ir::*;

use super::random::Random;

/// Predicate registers of a kernel, the first ones.
pub const PREDS: u32 = 4;
/// Registers of 32 bits, which follow.
pub const WORDS: u32 = 10;
/// Registers of 64 bits, which follow.
pub const WIDE: u32 = 10;

/// A random module that the verifier accepts.
pub fn module(seed: u64) -> Module {
    let mut random = Random::new(seed);
    let mut module = Module {
        files: vec!["kernel.py".into(), "odd \"name\"\n.py".into()],
        constants: (0..random.below(100))
            .map(|_| random.next() as u8)
            .collect(),
        kernels: Vec::new(),
    };
    for index in 0..1 + random.below(3) {
        let kernel = kernel(&mut random, index);
        module.kernels.push(kernel);
    }
    module
}

fn kernel(random: &mut Random, index: u64) -> Kernel {
    let mut kernel = empty_kernel();
    kernel.name = format!("kernel.{index}$_x");
    for number in 0..random.below(4) {
        let size = random.pick(&[1, 2, 4, 8, 12, 64, 100]);
        let align = random.pick(&[1, 2, 4, 8, 16]);
        kernel.params.push(Param {
            name: format!("p{number}"),
            size,
            align,
        });
    }
    kernel.shared_bytes = random.pick(&[0, 16, 1024, 232_448]);
    kernel.local_bytes = random.pick(&[0, 64, 4096]);
    kernel.max_threads = random.pick(&[0, 32, 1024]);
    kernel.register_estimate = random.pick(&[0, 16, 255]);
    let mut budget = 40;
    let body = block(random, 0, 0, &mut budget);
    kernel.body.extend(body);
    kernel
}

/// An instruction without guard and location.
pub fn node(inst: Inst) -> Node {
    Node {
        location: Location::default(),
        kind: NodeKind::Inst { guard: None, inst },
    }
}

/// A kernel whose registers are all written once.
pub fn empty_kernel() -> Kernel {
    let mut kernel = Kernel {
        name: "k".into(),
        ..Kernel::default()
    };
    let mut declare = |prefix: &str, count: u32, class: RegClass| {
        for number in 0..count {
            kernel.regs.push(RegDecl {
                name: format!("{prefix}{number}"),
                class,
            });
        }
    };
    declare("p", PREDS, RegClass::Pred);
    declare("r", WORDS, RegClass::B32);
    declare("w", WIDE, RegClass::B64);
    for index in 0..kernel.regs.len() as u32 {
        kernel.body.push(Node {
            location: Location::default(),
            kind: NodeKind::Inst {
                guard: None,
                inst: Inst::Mov {
                    dst: Reg(index),
                    src: Operand::Imm(0),
                },
            },
        });
    }
    kernel
}

fn block(random: &mut Random, depth: usize, loops: usize, budget: &mut u32) -> Block {
    let mut block = Block::new();
    let mut location = Location::default();
    for _ in 0..1 + random.below(8) {
        if *budget == 0 {
            break;
        }
        *budget -= 1;
        if random.one_in(3) {
            location = Location {
                file: random.below(3) as u32,
                line: random.below(500) as u32,
            };
        }
        let kind = match random.below(12) {
            0 if depth < 5 => NodeKind::If {
                cond: pred(random),
                then: self::block(random, depth + 1, loops, budget),
                otherwise: if random.one_in(2) {
                    self::block(random, depth + 1, loops, budget)
                } else {
                    Block::new()
                },
            },
            1 if depth < 5 => NodeKind::Loop {
                body: self::block(random, depth + 1, loops + 1, budget),
            },
            2 if loops > 0 => NodeKind::Break {
                guard: maybe_guard(random),
            },
            3 if loops > 0 => NodeKind::Continue {
                guard: maybe_guard(random),
            },
            4 => NodeKind::Return {
                guard: maybe_guard(random),
            },
            _ => NodeKind::Inst {
                guard: maybe_guard(random),
                inst: instruction(random),
            },
        };
        block.push(Node { location, kind });
    }
    block
}

/// A random instruction that the verifier accepts (in a kernel of its own).
pub fn instruction(random: &mut Random) -> Inst {
    thread_local! {
        /// A kernel whose last node is the attempt.
        static SCRATCH: RefCell<Module> = RefCell::new(scratch());
    }
    SCRATCH.with_borrow_mut(|module| {
        loop {
            let inst = attempt(random);
            if let Some(last) = module.kernels[0].body.last_mut() {
                *last = node(inst.clone());
            }
            if verify(module).is_ok() {
                return inst;
            }
        }
    })
}

fn scratch() -> Module {
    let mut kernel = empty_kernel();
    kernel.body.push(node(Inst::Trap));
    Module {
        kernels: vec![kernel],
        ..Module::default()
    }
}

pub fn pred(random: &mut Random) -> Reg {
    Reg(random.below(u64::from(PREDS)) as u32)
}

pub fn word(random: &mut Random) -> Reg {
    Reg(PREDS + random.below(u64::from(WORDS)) as u32)
}

fn wide(random: &mut Random) -> Reg {
    Reg(PREDS + WORDS + random.below(u64::from(WIDE)) as u32)
}

fn of_class(random: &mut Random, class: RegClass) -> Reg {
    match class {
        RegClass::Pred => pred(random),
        RegClass::B32 => word(random),
        RegClass::B64 => wide(random),
    }
}

pub fn dst(random: &mut Random, ty: Type) -> Reg {
    of_class(random, ty.class())
}

fn operand(random: &mut Random, ty: Type) -> Operand {
    if random.one_in(4) {
        let bits = random.next() >> random.below(64);
        Operand::Imm(bits & (u64::MAX >> (64 - ty.bits())))
    } else {
        Operand::Reg(dst(random, ty))
    }
}

fn pred_operand(random: &mut Random) -> Operand {
    if random.one_in(4) {
        Operand::Imm(random.below(2))
    } else {
        Operand::Reg(pred(random))
    }
}

pub fn guard(random: &mut Random) -> Guard {
    Guard {
        pred: pred(random),
        negated: random.one_in(2),
    }
}

pub fn maybe_guard(random: &mut Random) -> Option<Guard> {
    random.one_in(3).then(|| guard(random))
}

fn optional<T>(random: &mut Random, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
    random.one_in(2).then(|| make(random))
}

fn members(random: &mut Random) -> Operand {
    if random.one_in(2) {
        Operand::Imm(0xffff_ffff)
    } else {
        operand(random, Type::B32)
    }
}

fn mods(random: &mut Random) -> FloatMods {
    let rounding = random.pick(&[
        Rounding::NearestEven,
        Rounding::NearestEven,
        Rounding::Zero,
        Rounding::Down,
        Rounding::Up,
        Rounding::NearestAway,
    ]);
    FloatMods {
        rounding,
        ftz: random.one_in(4),
        sat: random.one_in(4),
        relu: random.one_in(4),
    }
}

fn ty(random: &mut Random) -> Type {
    random.pick(&Type::ALL)
}

fn space(random: &mut Random) -> Space {
    random.pick(&[
        Space::Generic,
        Space::Global,
        Space::Global,
        Space::Shared,
        Space::Shared,
        Space::Local,
        Space::Const,
        Space::Param,
    ])
}

fn address(random: &mut Random, space: Space) -> Address {
    let wide_only = matches!(space, Space::Global | Space::Generic);
    let base = if random.one_in(8) {
        Operand::Imm(random.below(64) * 32)
    } else if wide_only || random.one_in(2) {
        Operand::Reg(wide(random))
    } else {
        Operand::Reg(word(random))
    };
    let offset = random.pick(&[0, 0, 4, -4, 16, 128, -1_000_000, i64::MAX, i64::MIN]);
    Address { base, offset }
}

fn ordering(random: &mut Random) -> (Ordering, Scope) {
    let order = random.pick(&[
        Ordering::Weak,
        Ordering::Volatile,
        Ordering::Relaxed,
        Ordering::Acquire,
        Ordering::Release,
        Ordering::AcquireRelease,
        Ordering::SequentiallyConsistent,
    ]);
    // The text has no scope where there is no ordering.
    let scope = match order {
        Ordering::Weak | Ordering::Volatile => Scope::Gpu,
        _ => random.pick(&[Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::System]),
    };
    (order, scope)
}

fn cache(random: &mut Random) -> CacheHint {
    random.pick(&[
        CacheHint::Default,
        CacheHint::Default,
        CacheHint::Global,
        CacheHint::Streaming,
        CacheHint::LastUse,
        CacheHint::Volatile,
        CacheHint::NonCoherent,
        CacheHint::NoAllocate,
        CacheHint::EvictLast,
    ])
}

const INT_BINARY: [IntBinary; 18] = [
    IntBinary::Add,
    IntBinary::AddSat,
    IntBinary::Sub,
    IntBinary::SubSat,
    IntBinary::MulLo,
    IntBinary::MulHi,
    IntBinary::MulWide,
    IntBinary::Mul24Lo,
    IntBinary::Mul24Hi,
    IntBinary::Div,
    IntBinary::Rem,
    IntBinary::Min,
    IntBinary::Max,
    IntBinary::And,
    IntBinary::Or,
    IntBinary::Xor,
    IntBinary::Shl,
    IntBinary::Shr,
];

const INT_UNARY: [IntUnary; 9] = [
    IntUnary::Neg,
    IntUnary::Abs,
    IntUnary::Not,
    IntUnary::Cnot,
    IntUnary::Popc,
    IntUnary::Clz,
    IntUnary::Bfind,
    IntUnary::BfindShiftAmt,
    IntUnary::Brev,
];

const FLOAT_BINARY: [FloatBinary; 13] = [
    FloatBinary::Add,
    FloatBinary::Sub,
    FloatBinary::Mul,
    FloatBinary::Div,
    FloatBinary::DivFull,
    FloatBinary::DivApprox,
    FloatBinary::Min,
    FloatBinary::Max,
    FloatBinary::MinNan,
    FloatBinary::MaxNan,
    FloatBinary::MinXorsignAbs,
    FloatBinary::MaxXorsignAbs,
    FloatBinary::Copysign,
];

const FLOAT_UNARY: [FloatUnary; 12] = [
    FloatUnary::Neg,
    FloatUnary::Abs,
    FloatUnary::Rcp,
    FloatUnary::RcpApprox,
    FloatUnary::Sqrt,
    FloatUnary::SqrtApprox,
    FloatUnary::RsqrtApprox,
    FloatUnary::Ex2Approx,
    FloatUnary::Lg2Approx,
    FloatUnary::SinApprox,
    FloatUnary::CosApprox,
    FloatUnary::TanhApprox,
];

const SPECIALS: [Special; 44] = [
    Special::TidX,
    Special::TidY,
    Special::TidZ,
    Special::NtidX,
    Special::NtidY,
    Special::NtidZ,
    Special::CtaidX,
    Special::CtaidY,
    Special::CtaidZ,
    Special::NctaidX,
    Special::NctaidY,
    Special::NctaidZ,
    Special::LaneId,
    Special::WarpId,
    Special::NwarpId,
    Special::SmId,
    Special::NsmId,
    Special::GridId,
    Special::LanemaskEq,
    Special::LanemaskLt,
    Special::LanemaskLe,
    Special::LanemaskGt,
    Special::LanemaskGe,
    Special::Clock,
    Special::Clock64,
    Special::GlobalTimer,
    Special::DynamicSharedBase,
    Special::DynamicSharedSize,
    Special::TotalSharedSize,
    Special::ClusterCtaidX,
    Special::ClusterCtaidY,
    Special::ClusterCtaidZ,
    Special::ClusterNctaidX,
    Special::ClusterNctaidY,
    Special::ClusterNctaidZ,
    Special::ClusterCtaRank,
    Special::ClusterNctaRank,
    Special::ClusteridX,
    Special::ClusteridY,
    Special::ClusteridZ,
    Special::NclusteridX,
    Special::NclusteridY,
    Special::NclusteridZ,
    Special::TidX,
];

/// An instruction with operands of the right classes; its types and modifiers may not exist.
fn attempt(random: &mut Random) -> Inst {
    let r = random;
    let t = ty(r);
    match r.below(50) {
        0 => {
            let class = r.pick(&[RegClass::Pred, RegClass::B32, RegClass::B64]);
            let src = match class.bits_type() {
                Some(ty) => operand(r, ty),
                None => pred_operand(r),
            };
            Inst::Mov {
                dst: of_class(r, class),
                src,
            }
        }
        1 => {
            let special = r.pick(&SPECIALS);
            Inst::ReadSpecial {
                dst: of_class(r, special.class()),
                special,
            }
        }
        2 => {
            let (whole, half) = r.pick(&[(Type::B64, Type::B32), (Type::B32, Type::B16)]);
            Inst::Pack {
                dst: dst(r, whole),
                lo: operand(r, half),
                hi: operand(r, half),
            }
        }
        3 => {
            let whole = r.pick(&[Type::B64, Type::B32]);
            Inst::Unpack {
                lo: word(r),
                hi: word(r),
                src: Operand::Reg(dst(r, whole)),
            }
        }
        4..=6 => {
            let op = r.pick(&INT_BINARY);
            Inst::IntBinary {
                op,
                ty: t,
                dst: dst(r, op.result(t)),
                a: operand(r, t),
                b: operand(r, op.second(t)),
            }
        }
        7 => {
            let op = r.pick(&INT_UNARY);
            Inst::IntUnary {
                op,
                ty: t,
                dst: dst(r, op.result(t)),
                a: operand(r, t),
            }
        }
        8 => {
            let width = r.pick(&[
                MadWidth::Lo,
                MadWidth::Hi,
                MadWidth::Wide,
                MadWidth::Lo24,
                MadWidth::Hi24,
            ]);
            let wide = width.result(t);
            Inst::Mad {
                width,
                ty: t,
                dst: dst(r, wide),
                a: operand(r, t),
                b: operand(r, t),
                c: operand(r, wide),
            }
        }
        9 => Inst::Carry {
            subtract: r.one_in(2),
            ty: t,
            dst: dst(r, t),
            carry_out: optional(r, pred),
            a: operand(r, t),
            b: operand(r, t),
            carry_in: optional(r, pred),
        },
        10 => Inst::Sad {
            ty: t,
            dst: dst(r, t),
            a: operand(r, t),
            b: operand(r, t),
            c: operand(r, t),
        },
        11 => Inst::Bfe {
            ty: t,
            dst: dst(r, t),
            a: operand(r, t),
            pos: operand(r, Type::U32),
            len: operand(r, Type::U32),
        },
        12 => Inst::Bfi {
            ty: t,
            dst: dst(r, t),
            a: operand(r, t),
            b: operand(r, t),
            pos: operand(r, Type::U32),
            len: operand(r, Type::U32),
        },
        13 => {
            let (dst, a, b, c) = (
                word(r),
                operand(r, Type::B32),
                operand(r, Type::B32),
                operand(r, Type::B32),
            );
            match r.below(5) {
                0 => Inst::Lop3 {
                    dst,
                    a,
                    b,
                    c,
                    table: r.next() as u8,
                },
                1 => Inst::FunnelShift {
                    left: r.one_in(2),
                    clamp: r.one_in(2),
                    dst,
                    lo: a,
                    hi: b,
                    amount: c,
                },
                2 => {
                    let mode = r.pick(&[
                        PermuteMode::Index,
                        PermuteMode::F4e,
                        PermuteMode::B4e,
                        PermuteMode::Rc8,
                        PermuteMode::Ecl,
                        PermuteMode::Ecr,
                        PermuteMode::Rc16,
                    ]);
                    Inst::Prmt {
                        mode,
                        dst,
                        a,
                        b,
                        selector: c,
                    }
                }
                3 => Inst::Dp4a {
                    a_signed: r.one_in(2),
                    b_signed: r.one_in(2),
                    dst,
                    a,
                    b,
                    c,
                },
                _ => Inst::Dp2a {
                    hi: r.one_in(2),
                    a_signed: r.one_in(2),
                    b_signed: r.one_in(2),
                    dst,
                    a,
                    b,
                    c,
                },
            }
        }
        14..=16 => {
            let op = r.pick(&FLOAT_BINARY);
            Inst::FloatBinary {
                op,
                ty: t,
                mods: mods(r),
                dst: dst(r, t),
                a: operand(r, t),
                b: operand(r, t),
            }
        }
        17..=18 => {
            let op = r.pick(&FLOAT_UNARY);
            Inst::FloatUnary {
                op,
                ty: t,
                mods: mods(r),
                dst: dst(r, t),
                a: operand(r, t),
            }
        }
        19 => Inst::Fma {
            ty: t,
            mods: mods(r),
            dst: dst(r, t),
            a: operand(r, t),
            b: operand(r, t),
            c: operand(r, t),
        },
        20 => {
            let class = r.pick(&[
                FloatClass::Finite,
                FloatClass::Infinite,
                FloatClass::Number,
                FloatClass::NotANumber,
                FloatClass::Normal,
                FloatClass::Subnormal,
            ]);
            Inst::Testp {
                class,
                ty: t,
                dst: pred(r),
                a: operand(r, t),
            }
        }
        21..=23 => {
            let from = ty(r);
            Inst::Cvt {
                to: t,
                from,
                mods: mods(r),
                satfinite: r.one_in(3),
                dst: dst(r, t),
                a: operand(r, from),
            }
        }
        24 => Inst::CvtPack {
            to: t,
            mods: mods(r),
            satfinite: r.one_in(2),
            dst: dst(r, t),
            hi: operand(r, Type::F32),
            lo: operand(r, Type::F32),
        },
        25..=26 => {
            let cmp = r.pick(&[
                Compare::Eq,
                Compare::Ne,
                Compare::Lt,
                Compare::Le,
                Compare::Gt,
                Compare::Ge,
                Compare::Equ,
                Compare::Neu,
                Compare::Ltu,
                Compare::Leu,
                Compare::Gtu,
                Compare::Geu,
                Compare::Num,
                Compare::Nan,
            ]);
            let combine = optional(r, |r| {
                (r.pick(&[BoolOp::And, BoolOp::Or, BoolOp::Xor]), guard(r))
            });
            Inst::Setp {
                cmp,
                ty: t,
                ftz: r.one_in(4),
                dst: pred(r),
                a: operand(r, t),
                b: operand(r, t),
                combine,
            }
        }
        27 => {
            let class = r.pick(&[RegClass::Pred, RegClass::B32, RegClass::B64]);
            let value = |r: &mut Random| match class.bits_type() {
                Some(ty) => operand(r, ty),
                None => pred_operand(r),
            };
            Inst::Selp {
                dst: of_class(r, class),
                a: value(r),
                b: value(r),
                pred: pred(r),
            }
        }
        28 if r.one_in(2) => Inst::PredNot {
            dst: pred(r),
            a: pred_operand(r),
        },
        28 => {
            let op = r.pick(&[BoolOp::And, BoolOp::Or, BoolOp::Xor]);
            Inst::PredBinary {
                op,
                dst: pred(r),
                a: pred_operand(r),
                b: pred_operand(r),
            }
        }
        29..=31 => {
            let (space, (order, scope)) = (space(r), ordering(r));
            let count = r.pick(&[1, 1, 2, 4, 8]);
            let mut values = Vec::new();
            for _ in 0..count {
                values.push(dst(r, t));
            }
            Inst::Ld {
                space,
                ty: t,
                dst: values,
                addr: address(r, space),
                order,
                scope,
                cache: cache(r),
            }
        }
        32..=34 => {
            let (space, (order, scope)) = (space(r), ordering(r));
            let count = r.pick(&[1, 1, 2, 4, 8]);
            let src = (0..count).map(|_| operand(r, t)).collect();
            Inst::St {
                space,
                ty: t,
                src,
                addr: address(r, space),
                order,
                scope,
                cache: cache(r),
            }
        }
        35..=36 => {
            let op = r.pick(&[
                AtomicOp::Add,
                AtomicOp::Min,
                AtomicOp::Max,
                AtomicOp::And,
                AtomicOp::Or,
                AtomicOp::Xor,
                AtomicOp::Exch,
                AtomicOp::Cas,
                AtomicOp::Inc,
                AtomicOp::Dec,
            ]);
            let (space, (order, scope)) = (space(r), ordering(r));
            Inst::Atomic {
                op,
                space,
                ty: t,
                dst: optional(r, |r| dst(r, t)),
                addr: address(r, space),
                b: operand(r, t),
                c: (op == AtomicOp::Cas).then(|| operand(r, t)),
                order,
                scope,
            }
        }
        37 => {
            let space = space(r);
            match r.below(4) {
                0 => Inst::Prefetch {
                    space,
                    addr: address(r, space),
                },
                1 => Inst::CvtaToGeneric {
                    space,
                    dst: wide(r),
                    a: operand(r, Type::U64),
                },
                2 => Inst::CvtaFromGeneric {
                    space,
                    dst: wide(r),
                    a: operand(r, Type::U64),
                },
                _ => Inst::IsSpace {
                    space,
                    dst: pred(r),
                    a: operand(r, Type::U64),
                },
            }
        }
        38 => match r.below(4) {
            0 => Inst::CpAsyncCommit,
            1 => Inst::CpAsyncWaitAll,
            2 => Inst::CpAsyncWaitGroup {
                pending: r.below(8) as u32,
            },
            _ => {
                let bytes = r.pick(&[4, 8, 16]);
                let src_bytes = optional(r, |r| operand(r, Type::U32));
                Inst::CpAsync {
                    bytes,
                    shared: address(r, Space::Shared),
                    global: address(r, Space::Global),
                    src_bytes,
                    cache: r.pick(&[CacheHint::Default, CacheHint::Global]),
                }
            }
        },
        39..=40 => {
            let op = match r.below(9) {
                0 => MbarrierOp::Init {
                    count: operand(r, Type::U32),
                },
                1 => MbarrierOp::Inval,
                2 => MbarrierOp::Arrive {
                    state: optional(r, wide),
                    count: operand(r, Type::U32),
                    expect_tx: optional(r, |r| operand(r, Type::U32)),
                },
                3 => MbarrierOp::ExpectTx {
                    bytes: operand(r, Type::U32),
                },
                4 => MbarrierOp::CompleteTx {
                    bytes: operand(r, Type::U32),
                },
                5 => MbarrierOp::TestWaitParity {
                    done: pred(r),
                    parity: operand(r, Type::U32),
                },
                6 => MbarrierOp::TryWaitParity {
                    done: pred(r),
                    parity: operand(r, Type::U32),
                },
                7 => MbarrierOp::TestWait {
                    done: pred(r),
                    state: operand(r, Type::B64),
                },
                _ => MbarrierOp::CpAsyncArrive { noinc: r.one_in(2) },
            };
            Inst::Mbarrier {
                addr: address(r, Space::Shared),
                op,
            }
        }
        41 => {
            let (order, scope) = ordering(r);
            let kind = match r.below(4) {
                0 => FenceKind::ProxyAsync,
                1 => FenceKind::MbarrierInit,
                _ => FenceKind::Memory(order, scope),
            };
            Inst::Fence { kind }
        }
        42 => Inst::Shfl {
            mode: r.pick(&[
                ShuffleMode::Up,
                ShuffleMode::Down,
                ShuffleMode::Bfly,
                ShuffleMode::Idx,
            ]),
            dst: word(r),
            in_range: optional(r, pred),
            a: operand(r, Type::B32),
            lane: operand(r, Type::U32),
            clamp: operand(r, Type::U32),
            members: members(r),
        },
        43 => {
            let (pred_source, members) = (guard(r), members(r));
            if r.one_in(2) {
                Inst::Ballot {
                    dst: word(r),
                    pred: pred_source,
                    members,
                }
            } else {
                let mode = r.pick(&[VoteMode::All, VoteMode::Any, VoteMode::Uni]);
                Inst::Vote {
                    mode,
                    dst: pred(r),
                    pred: pred_source,
                    members,
                }
            }
        }
        44 if r.one_in(2) => Inst::MatchAny {
            ty: t,
            dst: word(r),
            a: operand(r, t),
            members: members(r),
        },
        44 => Inst::MatchAll {
            ty: t,
            dst: word(r),
            pred: optional(r, pred),
            a: operand(r, t),
            members: members(r),
        },
        45 => {
            let op = r.pick(&[
                ReduxOp::Add,
                ReduxOp::Min,
                ReduxOp::Max,
                ReduxOp::And,
                ReduxOp::Or,
                ReduxOp::Xor,
                ReduxOp::MinNan,
                ReduxOp::MaxNan,
            ]);
            Inst::Redux {
                op,
                ty: t,
                abs: r.one_in(3),
                dst: dst(r, t),
                a: operand(r, t),
                members: members(r),
            }
        }
        46 => match r.below(3) {
            0 => Inst::Elect {
                leader: optional(r, word),
                is_leader: pred(r),
                members: members(r),
            },
            1 => Inst::ActiveMask { dst: word(r) },
            _ => Inst::WarpSync {
                members: members(r),
            },
        },
        47 => {
            let aligned = r.one_in(2);
            let id = if r.one_in(2) {
                Operand::Imm(r.below(16))
            } else {
                operand(r, Type::U32)
            };
            let count = if r.one_in(2) {
                Operand::Imm(32 * (1 + r.below(32)))
            } else {
                Operand::Reg(word(r))
            };
            let op = r.pick(&[
                BarrierReduction::Popc,
                BarrierReduction::And,
                BarrierReduction::Or,
            ]);
            match r.below(3) {
                0 => Inst::BarrierSync {
                    aligned,
                    id,
                    count: optional(r, |_| count),
                },
                1 => Inst::BarrierArrive { aligned, id, count },
                _ => {
                    let class = if op == BarrierReduction::Popc {
                        RegClass::B32
                    } else {
                        RegClass::Pred
                    };
                    let count = optional(r, |_| count);
                    Inst::BarrierReduce {
                        aligned,
                        op,
                        dst: of_class(r, class),
                        id,
                        count,
                        pred: guard(r),
                    }
                }
            }
        }
        48 => match r.below(4) {
            0 => Inst::Nanosleep {
                nanoseconds: operand(r, Type::U32),
            },
            1 => Inst::Trap,
            2 => Inst::Assert {
                pred: guard(r),
                message: "index \"i\"\tof\n\u{1}é".into(),
            },
            _ => Inst::Unmodelled {
                name: "tcgen05.mma".into(),
            },
        },
        _ => {
            let count = r.below(4);
            let mut args = Vec::new();
            for _ in 0..count {
                let ty = ty(r);
                args.push(PrintArg {
                    ty,
                    value: operand(r, ty),
                });
            }
            Inst::Printf {
                format: "%d ".repeat(count as usize) + "100%%\n",
                args,
            }
        }
    }
}
