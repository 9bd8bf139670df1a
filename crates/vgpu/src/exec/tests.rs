//! Every arithmetic instruction, in every legal form, on every instruction set of this machine, against
//! the scalar reference semantics.

use super::Isa;
use crate::device::{GlobalMemory, Gpu, LaunchConfig, Options};
use crate::ir::*;
use crate::lower::Program;
use crate::numeric;

/// Whether a result is right for its operands.
type Check = Box<dyn Fn(&[u64], u64) -> Result<(), String>>;

/// Operand tuples of each form.
const CASES: usize = 1024;

/// The instruction sets to test: the plain one and the best.
fn isas() -> Vec<Isa> {
    let best = Isa::detect();
    let mut isas = vec![Isa::Plain];
    if best != Isa::Plain {
        isas.push(best);
    }
    isas
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = super::mix(self.0);
        self.0
    }

    /// A value that is often one of the interesting ones of some width or format.
    fn operand(&mut self, ty: Type) -> u64 {
        const CORNERS: [u64; 12] = [0, 1, 2, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 24];
        let bits = ty.bits();
        let value = match self.next() % 8 {
            0 => CORNERS[self.next() as usize % CORNERS.len()],
            1 => u64::MAX >> (self.next() % 64),
            2 => u64::MAX << (self.next() % 64),
            3 => 1 << (self.next() % u64::from(bits)),
            // Floating values near one, where sums cancel and products do not overflow.
            4 | 5 if ty == Type::F32 || ty == Type::F32x2 => {
                let near = |v: u64| 0x3f00_0000 + (v & 0x00ff_ffff) + ((v >> 32) & 0x8000_0000);
                near(self.next()) | near(self.next()) << 32
            }
            4 | 5 if ty == Type::F64 => {
                0x3fe0_0000_0000_0000 + (self.next() & 0x001f_ffff_ffff_ffff)
            }
            // Infinities, NaN, the largest and smallest.
            6 if !ty.is_integer() => {
                let special: [u64; 6] = match ty.element() {
                    Type::F64 => [
                        0x7ff0_0000_0000_0000,
                        0x7ff8_0000_0000_0001,
                        0x7fef_ffff_ffff_ffff,
                        0x0010_0000_0000_0000,
                        1,
                        0,
                    ],
                    Type::F16 => [0x7c00, 0x7e01, 0x7bff, 0x0400, 1, 0],
                    Type::BF16 => [0x7f80, 0x7fc1, 0x7f7f, 0x0080, 1, 0],
                    _ => [0x7f80_0000, 0x7fc0_0001, 0x7f7f_ffff, 0x0080_0000, 1, 0],
                };
                let half = ty.element().bits();
                let pick = |v: u64| special[v as usize % 6] | (v >> 40 & 1) << (half - 1);
                let low = pick(self.next());
                if half < 64 {
                    low | pick(self.next()) << half
                } else {
                    low
                }
            }
            _ => self.next(),
        };
        // What lies above the type's bits must not matter.
        if bits < 32 && self.next().is_multiple_of(4) {
            value ^ (self.next() << bits) & 0xffff_ffff
        } else {
            value
        }
    }
}

/// An instruction under test: how to build it from registers, the types of its operands, its result's
/// class, and what it must give.
struct Form {
    name: String,
    inst: Inst,
    sources: Vec<Type>,
    result: RegClass,
    check: Check,
}

fn equals(f: impl Fn(&[u64]) -> u64 + 'static) -> Check {
    Box::new(move |operands, got| {
        let expected = f(operands);
        if got == expected {
            Ok(())
        } else {
            Err(format!("{got:#x}, expected {expected:#x}"))
        }
    })
}

const DST: Reg = Reg(0);

fn source(index: u32) -> Operand {
    Operand::Reg(Reg(1 + index))
}

fn class_of(ty: Type) -> RegClass {
    ty.class()
}

/// A kernel that reads operands from rows of 32 bytes, runs the instruction for three quarters of the
/// lanes on top of a mark, and writes the result to rows of 8 bytes.
fn kernel(form: &Form) -> Module {
    let mut regs = vec![RegDecl {
        name: "d".into(),
        class: form.result,
    }];
    for (index, ty) in form.sources.iter().enumerate() {
        regs.push(RegDecl {
            name: format!("s{index}"),
            class: class_of(*ty),
        });
    }
    let mut add = |name: &str, class| {
        regs.push(RegDecl {
            name: name.into(),
            class,
        });
        Reg(regs.len() as u32 - 1)
    };
    let i = add("i", RegClass::B32);
    let t = add("t", RegClass::B32);
    let p = add("p", RegClass::Pred);
    let from = add("from", RegClass::B64);
    let to = add("to", RegClass::B64);
    let offset = add("offset", RegClass::B64);
    let out = add("out", RegClass::B32);
    let mut body = Vec::new();
    let mut push = |inst: Inst, guard: Option<Guard>| {
        body.push(Node {
            location: Location::default(),
            kind: NodeKind::Inst { guard, inst },
        });
    };
    let special = |dst, special| Inst::ReadSpecial { dst, special };
    let int = |op, ty, dst, a: Reg, b: Operand| Inst::IntBinary {
        op,
        ty,
        dst,
        a: Operand::Reg(a),
        b,
    };
    let load = |space, ty, dst, base, offset| Inst::Ld {
        space,
        ty,
        dst: vec![dst],
        addr: Address { base, offset },
        order: Ordering::Weak,
        scope: Scope::Gpu,
        cache: CacheHint::Default,
    };
    push(
        load(Space::Param, Type::B64, from, Operand::Imm(0), 0),
        None,
    );
    push(load(Space::Param, Type::B64, to, Operand::Imm(0), 8), None);
    push(special(i, Special::CtaidX), None);
    push(special(t, Special::TidX), None);
    push(int(IntBinary::Shl, Type::B32, i, i, Operand::Imm(5)), None);
    push(int(IntBinary::Add, Type::U32, i, i, Operand::Reg(t)), None);
    push(
        int(IntBinary::MulWide, Type::U32, offset, i, Operand::Imm(32)),
        None,
    );
    push(
        int(IntBinary::Add, Type::U64, from, from, Operand::Reg(offset)),
        None,
    );
    push(
        int(IntBinary::Shr, Type::B64, offset, offset, Operand::Imm(2)),
        None,
    );
    push(
        int(IntBinary::Add, Type::U64, to, to, Operand::Reg(offset)),
        None,
    );
    for (index, ty) in form.sources.iter().enumerate() {
        let ty = if class_of(*ty) == RegClass::B64 {
            Type::B64
        } else {
            Type::B32
        };
        let reg = Reg(1 + index as u32);
        let at = 8 * index as i64;
        push(load(Space::Global, ty, reg, Operand::Reg(from), at), None);
    }
    if form.result != RegClass::Pred {
        push(
            Inst::Mov {
                dst: DST,
                src: Operand::Imm(MARK),
            },
            None,
        );
    }
    // Lanes 3, 7, 11... of odd warps leave the instruction out.
    push(
        int(IntBinary::And, Type::B32, t, i, Operand::Imm(0x23)),
        None,
    );
    push(
        Inst::Setp {
            cmp: Compare::Ne,
            ty: Type::U32,
            ftz: false,
            dst: p,
            a: Operand::Reg(t),
            b: Operand::Imm(0x23),
            combine: None,
        },
        None,
    );
    let guard = Guard {
        pred: p,
        negated: false,
    };
    push(form.inst.clone(), Some(guard));
    let (ty, value) = match form.result {
        RegClass::B64 => (Type::B64, DST),
        RegClass::B32 => (Type::B32, DST),
        RegClass::Pred => {
            push(
                Inst::Selp {
                    dst: out,
                    a: Operand::Imm(1),
                    b: Operand::Imm(0),
                    pred: DST,
                },
                None,
            );
            (Type::B32, out)
        }
    };
    push(
        Inst::St {
            space: Space::Global,
            ty,
            src: vec![Operand::Reg(value)],
            addr: Address {
                base: Operand::Reg(to),
                offset: 0,
            },
            order: Ordering::Weak,
            scope: Scope::Gpu,
            cache: CacheHint::Default,
        },
        None,
    );
    let param = |name: &str| Param {
        name: name.into(),
        size: 8,
        align: 8,
    };
    Module {
        kernels: vec![Kernel {
            name: "k".into(),
            params: vec![param("from"), param("to")],
            regs,
            body,
            ..Kernel::default()
        }],
        ..Module::default()
    }
}

const MARK: u64 = 0x1234_5678;

fn run(forms: Vec<Form>) {
    let mut random = Random(7);
    let mut tested = 0;
    for form in &forms {
        let module = kernel(form);
        if verify(&module).is_err() {
            continue;
        }
        tested += 1;
        let mut memory = GlobalMemory::new(1 << 20).unwrap();
        let from = memory.allocate(32 * CASES as u64).unwrap();
        let to = memory.allocate(8 * CASES as u64).unwrap();
        let operands: Vec<Vec<u64>> = (0..CASES)
            .map(|_| form.sources.iter().map(|ty| random.operand(*ty)).collect())
            .collect();
        let mut bytes = Vec::new();
        for row in &operands {
            for index in 0..4 {
                bytes.extend(row.get(index).copied().unwrap_or(0).to_le_bytes());
            }
        }
        memory.write(from, &bytes);
        for isa in isas() {
            memory.write(to, &vec![0; 8 * CASES]);
            let program = Program::compile_for(&module, isa).unwrap();
            let params: Vec<u8> = [from, to].iter().flat_map(|v| v.to_le_bytes()).collect();
            let config = LaunchConfig::linear(CASES as u32 / 32, 32);
            let options = Options {
                threads: 1,
                ..Options::default()
            };
            Gpu::default()
                .launch(&program, "k", config, &params, &mut memory, &options)
                .unwrap_or_else(|error| panic!("{} on {isa:?}: {error}", form.name));
            let results = memory.read(to, 8 * CASES as u64);
            for (case, row) in operands.iter().enumerate() {
                let got = &results[8 * case..8 * case + 8];
                let got = u64::from_le_bytes(got.try_into().unwrap());
                let idle = if form.result == RegClass::Pred {
                    0
                } else {
                    MARK
                };
                if case & 0x23 == 0x23 {
                    assert_eq!(got, idle, "{} on {isa:?}: a guarded lane", form.name);
                } else if let Err(message) = (form.check)(row, got) {
                    panic!("{} on {isa:?} of {row:x?}: {message}", form.name);
                }
            }
        }
    }
    assert!(
        tested * 3 >= forms.len(),
        "{tested} of {} forms are legal",
        forms.len()
    );
    assert!(tested > 5);
}

const INTEGERS: [Type; 11] = [
    Type::B16,
    Type::U16,
    Type::S16,
    Type::B32,
    Type::U32,
    Type::S32,
    Type::B64,
    Type::U64,
    Type::S64,
    Type::U16x2,
    Type::S16x2,
];
const FLOATS: [Type; 7] = [
    Type::F16,
    Type::BF16,
    Type::F32,
    Type::F64,
    Type::F16x2,
    Type::BF16x2,
    Type::F32x2,
];

#[test]
fn integer_operations_are_the_reference_semantics() {
    use IntBinary::*;
    let mut forms = Vec::new();
    let binary = [
        Add, AddSat, Sub, SubSat, MulLo, MulHi, MulWide, Mul24Lo, Mul24Hi, Div, Rem, Min, Max, And,
        Or, Xor, Shl, Shr,
    ];
    for op in binary {
        for ty in INTEGERS {
            forms.push(Form {
                name: format!("{op:?}.{}", ty.name()),
                inst: Inst::IntBinary {
                    op,
                    ty,
                    dst: DST,
                    a: source(0),
                    b: source(1),
                },
                sources: vec![ty, op.second(ty)],
                result: op.result(ty).class(),
                check: equals(move |v| numeric::int_binary(op, ty, v[0], v[1])),
            });
        }
    }
    let unary = [
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
    for op in unary {
        for ty in INTEGERS {
            forms.push(Form {
                name: format!("{op:?}.{}", ty.name()),
                inst: Inst::IntUnary {
                    op,
                    ty,
                    dst: DST,
                    a: source(0),
                },
                sources: vec![ty],
                result: op.result(ty).class(),
                check: equals(move |v| numeric::int_unary(op, ty, v[0])),
            });
        }
    }
    run(forms);
}

#[test]
fn composed_integer_operations_are_the_reference_semantics() {
    let mut forms = Vec::new();
    let widths = [
        MadWidth::Lo,
        MadWidth::Hi,
        MadWidth::Wide,
        MadWidth::Lo24,
        MadWidth::Hi24,
    ];
    let (a, b, c) = (source(0), source(1), source(2));
    for ty in INTEGERS {
        for width in widths {
            forms.push(Form {
                name: format!("mad {width:?} {}", ty.name()),
                inst: Inst::Mad {
                    width,
                    ty,
                    dst: DST,
                    a,
                    b,
                    c,
                },
                sources: vec![ty, ty, width.result(ty)],
                result: width.result(ty).class(),
                check: equals(move |v| numeric::mad(width, ty, v[0], v[1], v[2])),
            });
        }
        forms.push(Form {
            name: format!("sad {}", ty.name()),
            inst: Inst::Sad {
                ty,
                dst: DST,
                a,
                b,
                c,
            },
            sources: vec![ty, ty, ty],
            result: ty.class(),
            check: equals(move |v| numeric::sad(ty, v[0], v[1], v[2])),
        });
        forms.push(Form {
            name: format!("bfe {}", ty.name()),
            inst: Inst::Bfe {
                ty,
                dst: DST,
                a,
                pos: b,
                len: c,
            },
            sources: vec![ty, Type::U32, Type::U32],
            result: ty.class(),
            check: equals(move |v| numeric::bfe(ty, v[0], v[1], v[2])),
        });
        forms.push(Form {
            name: format!("bfi {}", ty.name()),
            inst: Inst::Bfi {
                ty,
                dst: DST,
                a,
                b,
                pos: c,
                len: source(3),
            },
            sources: vec![ty, ty, Type::U32, Type::U32],
            result: ty.class(),
            check: equals(move |v| numeric::bfi(ty, v[0], v[1], v[2], v[3])),
        });
    }
    let words = || vec![Type::B32; 3];
    for table in [0x00, 0x96, 0xe8, 0xca, 0x1b, 0xff] {
        forms.push(Form {
            name: format!("lop3 {table:#x}"),
            inst: Inst::Lop3 {
                dst: DST,
                a,
                b,
                c,
                table,
            },
            sources: words(),
            result: RegClass::B32,
            check: equals(move |v| numeric::lop3(v[0], v[1], v[2], table)),
        });
    }
    for (left, clamp) in [(false, false), (false, true), (true, false), (true, true)] {
        forms.push(Form {
            name: format!("shf left {left} clamp {clamp}"),
            inst: Inst::FunnelShift {
                left,
                clamp,
                dst: DST,
                lo: a,
                hi: b,
                amount: c,
            },
            sources: words(),
            result: RegClass::B32,
            check: equals(move |v| numeric::funnel_shift(left, clamp, v[0], v[1], v[2])),
        });
        forms.push(Form {
            name: format!("dp4a {left} {clamp}"),
            inst: Inst::Dp4a {
                a_signed: left,
                b_signed: clamp,
                dst: DST,
                a,
                b,
                c,
            },
            sources: words(),
            result: RegClass::B32,
            check: equals(move |v| numeric::dp4a(left, clamp, v[0], v[1], v[2])),
        });
        for hi in [false, true] {
            forms.push(Form {
                name: format!("dp2a {hi} {left} {clamp}"),
                inst: Inst::Dp2a {
                    hi,
                    a_signed: left,
                    b_signed: clamp,
                    dst: DST,
                    a,
                    b,
                    c,
                },
                sources: words(),
                result: RegClass::B32,
                check: equals(move |v| numeric::dp2a(hi, left, clamp, v[0], v[1], v[2])),
            });
        }
    }
    use PermuteMode::*;
    for mode in [Index, F4e, B4e, Rc8, Ecl, Ecr, Rc16] {
        forms.push(Form {
            name: format!("prmt {mode:?}"),
            inst: Inst::Prmt {
                mode,
                dst: DST,
                a,
                b,
                selector: c,
            },
            sources: words(),
            result: RegClass::B32,
            check: equals(move |v| numeric::prmt(mode, v[0], v[1], v[2])),
        });
    }
    for ty in [Type::U32, Type::U64] {
        for subtract in [false, true] {
            forms.push(Form {
                name: format!("carry {subtract} {}", ty.name()),
                inst: Inst::Carry {
                    subtract,
                    ty,
                    dst: DST,
                    carry_out: None,
                    a,
                    b,
                    carry_in: None,
                },
                sources: vec![ty, ty],
                result: ty.class(),
                check: equals(move |v| numeric::add_with_carry(subtract, ty, v[0], v[1], false).0),
            });
        }
    }
    run(forms);
}

fn all_mods() -> Vec<FloatMods> {
    let mut all = Vec::new();
    use Rounding::*;
    for rounding in [NearestEven, Zero, Down, Up, NearestAway] {
        for flags in 0..8 {
            all.push(FloatMods {
                rounding,
                ftz: flags & 1 != 0,
                sat: flags & 2 != 0,
                relu: flags & 4 != 0,
            });
        }
    }
    all
}

#[test]
fn floating_operations_are_the_reference_semantics() {
    use FloatBinary::*;
    let mut forms = Vec::new();
    let binary = [
        Add,
        Sub,
        Mul,
        Div,
        Min,
        Max,
        MinNan,
        MaxNan,
        MinXorsignAbs,
        MaxXorsignAbs,
        Copysign,
    ];
    let unary = [
        FloatUnary::Neg,
        FloatUnary::Abs,
        FloatUnary::Rcp,
        FloatUnary::Sqrt,
    ];
    let legal = |form: Form| (verify(&kernel(&form)).is_ok()).then_some(form);
    for ty in FLOATS {
        for mods in all_mods() {
            for op in binary {
                forms.extend(legal(Form {
                    name: format!("{op:?}.{} {mods:?}", ty.name()),
                    inst: Inst::FloatBinary {
                        op,
                        ty,
                        mods,
                        dst: DST,
                        a: source(0),
                        b: source(1),
                    },
                    sources: vec![ty, ty],
                    result: ty.class(),
                    check: equals(move |v| {
                        numeric::float_binary(op, ty, mods, v[0], v[1]).unwrap()
                    }),
                }));
            }
            for op in unary {
                forms.extend(legal(Form {
                    name: format!("{op:?}.{} {mods:?}", ty.name()),
                    inst: Inst::FloatUnary {
                        op,
                        ty,
                        mods,
                        dst: DST,
                        a: source(0),
                    },
                    sources: vec![ty],
                    result: ty.class(),
                    check: equals(move |v| numeric::float_unary(op, ty, mods, v[0]).unwrap()),
                }));
            }
            forms.extend(legal(Form {
                name: format!("fma.{} {mods:?}", ty.name()),
                inst: Inst::Fma {
                    ty,
                    mods,
                    dst: DST,
                    a: source(0),
                    b: source(1),
                    c: source(2),
                },
                sources: vec![ty, ty, ty],
                result: ty.class(),
                check: equals(move |v| numeric::fma(ty, mods, v[0], v[1], v[2]).unwrap()),
            }));
        }
    }
    run(forms);
}

#[test]
fn approximations_are_within_the_stated_errors() {
    use FloatUnary::*;
    let mut forms = Vec::new();
    let legal = |form: Form| (verify(&kernel(&form)).is_ok()).then_some(form);
    let unary = [
        RcpApprox,
        SqrtApprox,
        RsqrtApprox,
        Ex2Approx,
        Lg2Approx,
        SinApprox,
        CosApprox,
        TanhApprox,
    ];
    for ty in FLOATS {
        for ftz in [false, true] {
            let mods = FloatMods {
                ftz,
                ..FloatMods::default()
            };
            let halves: Vec<(Type, u32)> = if ty.is_packed() {
                vec![(ty.element(), 0), (ty.element(), ty.bits() / 2)]
            } else {
                vec![(ty, 0)]
            };
            for op in unary {
                let halves = halves.clone();
                forms.extend(legal(Form {
                    name: format!("{op:?}.{} ftz {ftz}", ty.name()),
                    inst: Inst::FloatUnary {
                        op,
                        ty,
                        mods,
                        dst: DST,
                        a: source(0),
                    },
                    sources: vec![ty],
                    result: ty.class(),
                    check: Box::new(move |v, got| {
                        for &(ty, shift) in &halves {
                            let part = |bits: u64| bits >> shift & numeric::mask(ty);
                            let Some(expected) = numeric::special(op, ty, ftz, part(v[0])) else {
                                continue;
                            };
                            if !expected.accepts(ty, ftz, part(got)) {
                                return Err(format!("{got:#x}, expected {expected:?}"));
                            }
                        }
                        Ok(())
                    }),
                }));
            }
            for op in [FloatBinary::DivFull, FloatBinary::DivApprox] {
                forms.extend(legal(Form {
                    name: format!("{op:?}.{} ftz {ftz}", ty.name()),
                    inst: Inst::FloatBinary {
                        op,
                        ty,
                        mods,
                        dst: DST,
                        a: source(0),
                        b: source(1),
                    },
                    sources: vec![ty, ty],
                    result: ty.class(),
                    check: Box::new(move |v, got| {
                        match numeric::special_division(op, ftz, v[0], v[1]) {
                            Some(expected) if !expected.accepts(ty, ftz, got) => {
                                Err(format!("{got:#x}, expected {expected:?}"))
                            }
                            _ => Ok(()),
                        }
                    }),
                }));
            }
        }
    }
    run(forms);
}

#[test]
fn conversions_are_the_reference_semantics() {
    let mut forms = Vec::new();
    let legal = |form: Form| (verify(&kernel(&form)).is_ok()).then_some(form);
    for to in Type::ALL {
        for mods in all_mods() {
            for satfinite in [false, true] {
                for from in Type::ALL {
                    forms.extend(legal(Form {
                        name: format!("cvt.{}.{} {mods:?} {satfinite}", to.name(), from.name()),
                        inst: Inst::Cvt {
                            to,
                            from,
                            mods,
                            satfinite,
                            dst: DST,
                            a: source(0),
                        },
                        sources: vec![from],
                        result: to.class(),
                        check: equals(move |v| {
                            numeric::cvt(to, from, mods, satfinite, v[0]).unwrap()
                        }),
                    }));
                }
                forms.extend(legal(Form {
                    name: format!("cvt.pack.{} {mods:?} {satfinite}", to.name()),
                    inst: Inst::CvtPack {
                        to,
                        mods,
                        satfinite,
                        dst: DST,
                        hi: source(0),
                        lo: source(1),
                    },
                    sources: vec![Type::F32, Type::F32],
                    result: to.class(),
                    check: equals(move |v| {
                        numeric::cvt_pack(to, mods, satfinite, v[0], v[1]).unwrap()
                    }),
                }));
            }
        }
    }
    run(forms);
}

#[test]
fn comparisons_are_the_reference_semantics() {
    use Compare::*;
    let mut forms = Vec::new();
    let legal = |form: Form| (verify(&kernel(&form)).is_ok()).then_some(form);
    let every = [
        Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan,
    ];
    for ty in INTEGERS.into_iter().chain(FLOATS) {
        for cmp in every {
            for ftz in [false, true] {
                forms.extend(legal(Form {
                    name: format!("setp.{cmp:?}.{} ftz {ftz}", ty.name()),
                    inst: Inst::Setp {
                        cmp,
                        ty,
                        ftz,
                        dst: DST,
                        a: source(0),
                        b: source(1),
                        combine: None,
                    },
                    sources: vec![ty, ty],
                    result: RegClass::Pred,
                    check: equals(move |v| {
                        let answer = if ty.is_integer() {
                            numeric::int_compare(cmp, ty, v[0], v[1])
                        } else {
                            numeric::compare(cmp, ty, ftz, v[0], v[1])
                        };
                        u64::from(answer.unwrap())
                    }),
                }));
            }
        }
        use FloatClass::*;
        for class in [Finite, Infinite, Number, NotANumber, Normal, Subnormal] {
            forms.extend(legal(Form {
                name: format!("testp.{class:?}.{}", ty.name()),
                inst: Inst::Testp {
                    class,
                    ty,
                    dst: DST,
                    a: source(0),
                },
                sources: vec![ty],
                result: RegClass::Pred,
                check: equals(move |v| u64::from(numeric::testp(class, ty, v[0]).unwrap())),
            }));
        }
    }
    run(forms);
}
