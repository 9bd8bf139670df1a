//! Floating-point instructions to handlers.

use super::code::Op;
use super::structure::Lowerer;
use crate::exec::*;
use crate::ir::{
    BoolOp, Compare, FloatBinary, FloatClass, FloatMods, FloatUnary, Guard, Inst, Operand, Reg,
    Rounding, Type,
};

impl Isa {
    /// A function of singles with its modifiers.
    fn one32<F: Fn1<A = u32, R = u32>>(self, mods: FloatMods) -> Handler {
        match (mods.ftz, mods.sat) {
            (false, false) => self.pick::<Map1<F>>(),
            (true, false) => self.pick::<Map1<Mods<F, true, false>>>(),
            (false, true) => slow::<Map1<Mods<F, false, true>>>(),
            (true, true) => slow::<Map1<Mods<F, true, true>>>(),
        }
    }

    fn two32<F: Fn2<A = u32, B = u32, R = u32>>(self, mods: FloatMods) -> Handler {
        match (mods.ftz, mods.sat) {
            (false, false) => self.pick::<Map2<F>>(),
            (true, false) => self.pick::<Map2<Mods<F, true, false>>>(),
            (false, true) => slow::<Map2<Mods<F, false, true>>>(),
            (true, true) => slow::<Map2<Mods<F, true, true>>>(),
        }
    }

    fn three32<F: Fn3<A = u32, B = u32, C = u32, R = u32>>(self, mods: FloatMods) -> Handler {
        match (mods.ftz, mods.sat) {
            (false, false) => self.pick::<Map3<F>>(),
            (true, false) => self.pick::<Map3<Mods<F, true, false>>>(),
            (false, true) => slow::<Map3<Mods<F, false, true>>>(),
            (true, true) => slow::<Map3<Mods<F, true, true>>>(),
        }
    }

    fn two_pair<F: Fn2<A = u32, B = u32, R = u32>>(self, mods: FloatMods) -> Handler {
        if mods.ftz {
            slow::<Map2<Pair<Mods<F, true, false>>>>()
        } else {
            self.pick::<Map2<Pair<F>>>()
        }
    }

    fn three_pair<F: Fn3<A = u32, B = u32, C = u32, R = u32>>(self, mods: FloatMods) -> Handler {
        if mods.ftz {
            slow::<Map3<Pair<Mods<F, true, false>>>>()
        } else {
            self.pick::<Map3<Pair<F>>>()
        }
    }

    /// A function of singles on a 16-bit format, packed or not.
    fn one16<F: Fn1<A = u32, R = u32>, T: Format16>(self, packed: bool, ftz: bool) -> Handler {
        match (packed, ftz) {
            (false, false) => self.pick::<Map1<On16<F, T, false, false, false>>>(),
            (false, true) => slow::<Map1<On16<F, T, true, false, false>>>(),
            (true, false) => self.pick::<Map1<Packed<On16<F, T, false, false, false>>>>(),
            (true, true) => slow::<Map1<Packed<On16<F, T, true, false, false>>>>(),
        }
    }

    fn two16<F, T: Format16>(self, packed: bool, mods: FloatMods) -> Handler
    where
        F: Fn2<A = u32, B = u32, R = u32>,
    {
        match (packed, mods.ftz, mods.sat) {
            (false, false, false) => self.pick::<Map2<On16<F, T, false, false, false>>>(),
            (false, true, false) => slow::<Map2<On16<F, T, true, false, false>>>(),
            (false, false, true) => slow::<Map2<On16<F, T, false, true, false>>>(),
            (false, true, true) => slow::<Map2<On16<F, T, true, true, false>>>(),
            (true, false, false) => self.pick::<Map2<Packed<On16<F, T, false, false, false>>>>(),
            (true, true, false) => slow::<Map2<Packed<On16<F, T, true, false, false>>>>(),
            (true, false, true) => slow::<Map2<Packed<On16<F, T, false, true, false>>>>(),
            (true, true, true) => slow::<Map2<Packed<On16<F, T, true, true, false>>>>(),
        }
    }

    fn fma16<T: Format16>(self, packed: bool, mods: FloatMods) -> Handler {
        macro_rules! pick {
            ($ftz:literal, $sat:literal, $relu:literal) => {
                if packed {
                    slow::<Map3<Packed<On16<Fma16, T, $ftz, $sat, $relu>>>>()
                } else {
                    slow::<Map3<On16<Fma16, T, $ftz, $sat, $relu>>>()
                }
            };
        }
        match (mods.ftz, mods.sat, mods.relu) {
            (false, false, false) if packed => {
                self.pick::<Map3<Packed<On16<Fma16, T, false, false, false>>>>()
            }
            (false, false, false) => self.pick::<Map3<On16<Fma16, T, false, false, false>>>(),
            (true, false, false) => pick!(true, false, false),
            (false, true, _) => pick!(false, true, false),
            (true, true, _) => pick!(true, true, false),
            (false, false, true) => pick!(false, false, true),
            (true, false, true) => pick!(true, false, true),
        }
    }
}

/// Functions of singles where vector instructions are not worth their code: directed roundings.
fn slow_one32<F: Fn1<A = u32, R = u32>>(mods: FloatMods) -> Handler {
    if mods.ftz {
        slow::<Map1<Mods<F, true, false>>>()
    } else {
        slow::<Map1<F>>()
    }
}

fn slow_two32<F: Fn2<A = u32, B = u32, R = u32>>(mods: FloatMods) -> Handler {
    match (mods.ftz, mods.sat) {
        (false, false) => slow::<Map2<F>>(),
        (true, false) => slow::<Map2<Mods<F, true, false>>>(),
        (false, true) => slow::<Map2<Mods<F, false, true>>>(),
        (true, true) => slow::<Map2<Mods<F, true, true>>>(),
    }
}

fn slow_three32<F: Fn3<A = u32, B = u32, C = u32, R = u32>>(mods: FloatMods) -> Handler {
    match (mods.ftz, mods.sat) {
        (false, false) => slow::<Map3<F>>(),
        (true, false) => slow::<Map3<Mods<F, true, false>>>(),
        (false, true) => slow::<Map3<Mods<F, false, true>>>(),
        (true, true) => slow::<Map3<Mods<F, true, true>>>(),
    }
}

fn slow_two_pair<F: Fn2<A = u32, B = u32, R = u32>>(mods: FloatMods) -> Handler {
    if mods.ftz {
        slow::<Map2<Pair<Mods<F, true, false>>>>()
    } else {
        slow::<Map2<Pair<F>>>()
    }
}

fn slow_three_pair<F: Fn3<A = u32, B = u32, C = u32, R = u32>>(mods: FloatMods) -> Handler {
    if mods.ftz {
        slow::<Map3<Pair<Mods<F, true, false>>>>()
    } else {
        slow::<Map3<Pair<F>>>()
    }
}

/// A 16-bit format and whether it is packed.
fn format16(ty: Type) -> Option<(bool, bool)> {
    match ty {
        Type::F16 => Some((false, false)),
        Type::F16x2 => Some((false, true)),
        Type::BF16 => Some((true, false)),
        Type::BF16x2 => Some((true, true)),
        _ => None,
    }
}

impl Lowerer<'_> {
    pub(super) fn float_binary(&mut self, inst: &Inst) {
        let Inst::FloatBinary {
            op,
            ty,
            mods,
            dst,
            a,
            b,
        } = *inst
        else {
            unreachable!("called for a float instruction")
        };
        let Some(run) = self.float_binary_handler(op, ty, mods) else {
            return self.by_reference(inst, Reference::Binary(op, ty, mods), dst, [a, b, b]);
        };
        let wide = ty.bits() == 64;
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, wide),
            b: self.value(b, wide),
            ..self.op(run)
        };
        self.emit(op);
    }

    fn float_binary_handler(&self, op: FloatBinary, ty: Type, mods: FloatMods) -> Option<Handler> {
        use FloatBinary::*;
        let isa = self.isa;
        if let Some((brain, packed)) = format16(ty) {
            macro_rules! both {
                ($f:ty) => {
                    if brain {
                        isa.two16::<$f, Brain>(packed, mods)
                    } else {
                        isa.two16::<$f, Half>(packed, mods)
                    }
                };
            }
            return Some(match op {
                Add => both!(AddF32),
                Sub => both!(SubF32),
                Mul => both!(MulF32),
                Div => both!(DivF32),
                Min => both!(MinF32),
                Max => both!(MaxF32),
                MinNan => both!(MinNanF32),
                MaxNan => both!(MaxNanF32),
                MinXorsignAbs => both!(MinXorsignF32),
                MaxXorsignAbs => both!(MaxXorsignF32),
                Copysign if packed => isa.pick::<Map2<Packed<Copysign16>>>(),
                Copysign => isa.pick::<Map2<Copysign16>>(),
                DivFull | DivApprox => return None,
            });
        }
        let nearest = mods.rounding == Rounding::NearestEven;
        match ty {
            Type::F32 => Some(match op {
                Add | Sub | Mul | Div if !nearest => {
                    macro_rules! directed {
                        ($r:ty) => {
                            match op {
                                Add => slow_two32::<AddDirected<$r>>(mods),
                                Sub => slow_two32::<SubDirected<$r>>(mods),
                                Mul => slow_two32::<MulDirected<$r>>(mods),
                                _ => slow_two32::<DivDirected<$r>>(mods),
                            }
                        };
                    }
                    match mods.rounding {
                        Rounding::Zero => directed!(TowardsZero),
                        Rounding::Down => directed!(Downwards),
                        Rounding::Up => directed!(Upwards),
                        _ => return None,
                    }
                }
                Add => isa.two32::<AddF32>(mods),
                Sub => isa.two32::<SubF32>(mods),
                Mul => isa.two32::<MulF32>(mods),
                Div | DivFull => isa.two32::<DivF32>(mods),
                DivApprox => isa.two32::<DivApproxF32>(mods),
                Min => isa.two32::<MinF32>(mods),
                Max => isa.two32::<MaxF32>(mods),
                MinNan => isa.two32::<MinNanF32>(mods),
                MaxNan => isa.two32::<MaxNanF32>(mods),
                MinXorsignAbs => isa.two32::<MinXorsignF32>(mods),
                MaxXorsignAbs => isa.two32::<MaxXorsignF32>(mods),
                Copysign => isa.two32::<CopysignF32>(mods),
            }),
            Type::F32x2 => {
                macro_rules! rounded {
                    ($near:ty, $directed:ident) => {
                        match mods.rounding {
                            Rounding::NearestEven => isa.two_pair::<$near>(mods),
                            Rounding::Zero => slow_two_pair::<$directed<TowardsZero>>(mods),
                            Rounding::Down => slow_two_pair::<$directed<Downwards>>(mods),
                            Rounding::Up => slow_two_pair::<$directed<Upwards>>(mods),
                            Rounding::NearestAway => return None,
                        }
                    };
                }
                match op {
                    Add => Some(rounded!(AddF32, AddDirected)),
                    Sub => Some(rounded!(SubF32, SubDirected)),
                    Mul => Some(rounded!(MulF32, MulDirected)),
                    _ => None,
                }
            }
            Type::F64 if nearest => match op {
                Add => Some(isa.pick::<Map2<AddF64>>()),
                Sub => Some(isa.pick::<Map2<SubF64>>()),
                Mul => Some(isa.pick::<Map2<MulF64>>()),
                Div => Some(isa.pick::<Map2<DivF64>>()),
                Min => Some(isa.pick::<Map2<MinF64>>()),
                Max => Some(isa.pick::<Map2<MaxF64>>()),
                Copysign => Some(isa.pick::<Map2<CopysignF64>>()),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn float_unary(&mut self, inst: &Inst) {
        let Inst::FloatUnary {
            op,
            ty,
            mods,
            dst,
            a,
        } = *inst
        else {
            unreachable!("called for a float instruction")
        };
        let Some(run) = self.float_unary_handler(op, ty, mods) else {
            return self.by_reference(inst, Reference::Unary(op, ty, mods), dst, [a, a, a]);
        };
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, ty.bits() == 64),
            ..self.op(run)
        };
        self.emit(op);
    }

    fn float_unary_handler(&self, op: FloatUnary, ty: Type, mods: FloatMods) -> Option<Handler> {
        use FloatUnary::*;
        let isa = self.isa;
        if let Some((brain, packed)) = format16(ty) {
            macro_rules! both {
                ($f:ty) => {
                    if brain {
                        isa.one16::<$f, Brain>(packed, mods.ftz)
                    } else {
                        isa.one16::<$f, Half>(packed, mods.ftz)
                    }
                };
            }
            return Some(match (op, mods.ftz, packed) {
                (Neg, false, true) => isa.pick::<Map1<Packed<Neg16>>>(),
                (Neg, false, false) => isa.pick::<Map1<Neg16>>(),
                (Abs, false, true) => isa.pick::<Map1<Packed<Abs16>>>(),
                (Abs, false, false) => isa.pick::<Map1<Abs16>>(),
                // Only halves flush.
                (Neg, true, true) => slow::<Map1<Packed<NegFlush16>>>(),
                (Neg, true, false) => slow::<Map1<NegFlush16>>(),
                (Abs, true, true) => slow::<Map1<Packed<AbsFlush16>>>(),
                (Abs, true, false) => slow::<Map1<AbsFlush16>>(),
                (Ex2Approx, ..) => both!(Ex2F32),
                (TanhApprox, ..) => both!(TanhF32),
                _ => return None,
            });
        }
        match ty {
            Type::F32 => {
                macro_rules! rounded {
                    ($near:ty, $directed:ident) => {
                        match mods.rounding {
                            Rounding::NearestEven => isa.one32::<$near>(mods),
                            Rounding::Zero => slow_one32::<$directed<TowardsZero>>(mods),
                            Rounding::Down => slow_one32::<$directed<Downwards>>(mods),
                            Rounding::Up => slow_one32::<$directed<Upwards>>(mods),
                            Rounding::NearestAway => return None,
                        }
                    };
                }
                Some(match op {
                    Neg => isa.one32::<NegF32>(mods),
                    Abs => isa.one32::<AbsF32>(mods),
                    Rcp => rounded!(RcpF32, RcpDirected),
                    Sqrt => rounded!(SqrtF32, SqrtDirected),
                    RcpApprox => isa.one32::<RcpF32>(mods),
                    SqrtApprox => isa.one32::<SqrtF32>(mods),
                    RsqrtApprox => isa.one32::<RsqrtF32>(mods),
                    Ex2Approx => isa.one32::<Ex2F32>(mods),
                    Lg2Approx => isa.one32::<Lg2F32>(mods),
                    SinApprox => isa.one32::<SinF32>(mods),
                    CosApprox => isa.one32::<CosF32>(mods),
                    TanhApprox => isa.one32::<TanhF32>(mods),
                })
            }
            Type::F64 => {
                let nearest = mods.rounding == Rounding::NearestEven;
                match op {
                    Neg => Some(isa.pick::<Map1<NegF64>>()),
                    Abs => Some(isa.pick::<Map1<AbsF64>>()),
                    Rcp if nearest => Some(isa.pick::<Map1<RcpF64>>()),
                    Sqrt if nearest => Some(isa.pick::<Map1<SqrtF64>>()),
                    RcpApprox => Some(isa.pick::<Map1<RcpApproxF64>>()),
                    RsqrtApprox => Some(isa.pick::<Map1<RsqrtApproxF64>>()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub(super) fn fma(&mut self, inst: &Inst) {
        let Inst::Fma {
            ty,
            mods,
            dst,
            a,
            b,
            c,
        } = *inst
        else {
            unreachable!("called for a float instruction")
        };
        let Some(run) = self.fma_handler(ty, mods) else {
            return self.by_reference(inst, Reference::Fma(ty, mods), dst, [a, b, c]);
        };
        self.three(run, ty.bits() == 64, dst, [a, b, c], 0);
    }

    fn fma_handler(&self, ty: Type, mods: FloatMods) -> Option<Handler> {
        let isa = self.isa;
        if let Some((brain, packed)) = format16(ty) {
            return Some(if brain {
                isa.fma16::<Brain>(packed, mods)
            } else {
                isa.fma16::<Half>(packed, mods)
            });
        }
        match (ty, mods.rounding) {
            (Type::F32, Rounding::NearestEven) => Some(isa.three32::<FmaF32>(mods)),
            (Type::F32, Rounding::Zero) => Some(slow_three32::<FmaDirected<TowardsZero>>(mods)),
            (Type::F32, Rounding::Down) => Some(slow_three32::<FmaDirected<Downwards>>(mods)),
            (Type::F32, Rounding::Up) => Some(slow_three32::<FmaDirected<Upwards>>(mods)),
            (Type::F32x2, Rounding::NearestEven) => Some(isa.three_pair::<FmaF32>(mods)),
            (Type::F32x2, Rounding::Zero) => {
                Some(slow_three_pair::<FmaDirected<TowardsZero>>(mods))
            }
            (Type::F32x2, Rounding::Down) => Some(slow_three_pair::<FmaDirected<Downwards>>(mods)),
            (Type::F32x2, Rounding::Up) => Some(slow_three_pair::<FmaDirected<Upwards>>(mods)),
            (Type::F64, Rounding::NearestEven) => Some(isa.pick::<Map3<FmaF64>>()),
            _ => None,
        }
    }

    pub(super) fn testp(&mut self, class: FloatClass, ty: Type, dst: Reg, a: Operand) {
        let isa = self.isa;
        macro_rules! either {
            ($f32:ty, $f64:ty) => {
                if ty == Type::F64 {
                    isa.pick::<Compare2<$f64>>()
                } else {
                    isa.pick::<Compare2<$f32>>()
                }
            };
        }
        let run = match class {
            FloatClass::Finite => either!(FiniteF32, FiniteF64),
            FloatClass::Infinite => either!(InfiniteF32, InfiniteF64),
            FloatClass::Number => either!(NumberF32, NumberF64),
            FloatClass::NotANumber => either!(Negated<NumberF32>, Negated<NumberF64>),
            FloatClass::Normal => either!(NormalF32, NormalF64),
            FloatClass::Subnormal => either!(SubnormalF32, SubnormalF64),
        };
        let a = self.value(a, ty == Type::F64);
        let op = Op {
            dst: self.place(dst),
            a,
            b: a,
            ..self.op(run)
        };
        self.emit(op);
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn setp(
        &mut self,
        cmp: Compare,
        ty: Type,
        ftz: bool,
        dst: Reg,
        a: Operand,
        b: Operand,
        combine: Option<(BoolOp, Guard)>,
    ) {
        let run = if ty.is_integer() {
            self.int_compare(cmp, ty)
        } else {
            self.float_compare(cmp, ty, ftz)
        };
        let Some(run) = run else {
            return self.unmodelled(format!("setp on {}", ty.name()));
        };
        let (c, x) = self.combination(combine);
        let wide = ty.bits() == 64;
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, wide),
            b: self.value(b, wide),
            c,
            x,
            ..self.op(run)
        };
        self.emit(op);
    }

    fn float_compare(&self, cmp: Compare, ty: Type, ftz: bool) -> Option<Handler> {
        let isa = self.isa;
        macro_rules! compare {
            ($f32:ty, $f64:ty) => {
                match ty {
                    Type::F64 => isa.pick::<Compare2<$f64>>(),
                    Type::F32 if ftz => isa.pick::<Compare2<Mods<$f32, true, false>>>(),
                    Type::F32 => isa.pick::<Compare2<$f32>>(),
                    Type::F16 if ftz => slow::<Compare2<On16<$f32, Half, true, false, false>>>(),
                    Type::F16 => isa.pick::<Compare2<On16<$f32, Half, false, false, false>>>(),
                    Type::BF16 => isa.pick::<Compare2<On16<$f32, Brain, false, false, false>>>(),
                    _ => return None,
                }
            };
        }
        Some(match cmp {
            Compare::Eq => compare!(EqF32, EqF64),
            Compare::Ne => compare!(NeF32, NeF64),
            Compare::Lt => compare!(LtF32, LtF64),
            Compare::Le => compare!(LeF32, LeF64),
            Compare::Gt => compare!(GtF32, GtF64),
            Compare::Ge => compare!(GeF32, GeF64),
            Compare::Equ => compare!(Negated<NeF32>, Negated<NeF64>),
            Compare::Neu => compare!(Negated<EqF32>, Negated<EqF64>),
            Compare::Ltu => compare!(Negated<GeF32>, Negated<GeF64>),
            Compare::Leu => compare!(Negated<GtF32>, Negated<GtF64>),
            Compare::Gtu => compare!(Negated<LeF32>, Negated<LeF64>),
            Compare::Geu => compare!(Negated<LtF32>, Negated<LtF64>),
            Compare::Num => compare!(NumF32, NumF64),
            Compare::Nan => compare!(Negated<NumF32>, Negated<NumF64>),
        })
    }
}
