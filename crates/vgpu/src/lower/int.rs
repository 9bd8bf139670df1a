//! Integer instructions to handlers.

use super::code::{Op, TRUE};
use super::structure::Lowerer;
use crate::exec::*;
use crate::ir::{
    BoolOp, Compare, Guard, Inst, IntBinary, IntUnary, MadWidth, Operand, Reg, RegClass, Type,
};

/// Picks a handler for a function by width: 16-bit (signed or not), 32-bit, 64-bit.
macro_rules! by_width {
    ($isa:expr, $ty:expr, $map:ident, $f32:ty, $f64:ty) => {
        match ($ty.bits(), $ty.is_signed()) {
            (16, false) => slow::<$map<Narrow<$f32, false>>>(),
            (16, true) => slow::<$map<Narrow<$f32, true>>>(),
            (32, _) => $isa.pick::<$map<$f32>>(),
            _ => $isa.pick::<$map<$f64>>(),
        }
    };
}

/// The like where signed and unsigned are different functions.
macro_rules! by_sign {
    ($isa:expr, $ty:expr, $map:ident, $u32:ty, $s32:ty, $u64:ty, $s64:ty) => {
        match ($ty.bits(), $ty.is_signed()) {
            (16, false) => slow::<$map<Narrow<$u32, false>>>(),
            (16, true) => slow::<$map<Narrow<$s32, true>>>(),
            (32, false) => $isa.pick::<$map<$u32>>(),
            (32, true) => $isa.pick::<$map<$s32>>(),
            (_, false) => $isa.pick::<$map<$u64>>(),
            (_, true) => $isa.pick::<$map<$s64>>(),
        }
    };
}

impl Lowerer<'_> {
    pub(super) fn int_binary(&mut self, op: IntBinary, ty: Type, dst: Reg, a: Operand, b: Operand) {
        use IntBinary::*;
        let isa = self.isa;
        let (bits, signed) = (ty.bits(), ty.is_signed());
        let packed = match (op, ty) {
            (Add, Type::U16x2 | Type::S16x2) => Some(slow::<Map2<AddPacked16>>()),
            (Min, Type::U16x2) => Some(slow::<Map2<MinPackedU16>>()),
            (Max, Type::U16x2) => Some(slow::<Map2<MaxPackedU16>>()),
            (Min, Type::S16x2) => Some(slow::<Map2<MinPackedS16>>()),
            (Max, Type::S16x2) => Some(slow::<Map2<MaxPackedS16>>()),
            _ => None,
        };
        let run = packed.unwrap_or_else(|| match op {
            Add => by_width!(isa, ty, Map2, Add32, Add64),
            Sub => by_width!(isa, ty, Map2, Sub32, Sub64),
            AddSat => slow::<Map2<AddSat32>>(),
            SubSat => slow::<Map2<SubSat32>>(),
            MulLo => by_width!(isa, ty, Map2, Mul32, Mul64),
            MulHi => match (bits, signed) {
                (16, false) => slow::<Map2<Narrow<MulHiU16, false>>>(),
                (16, true) => slow::<Map2<Narrow<MulHiS16, true>>>(),
                (32, false) => isa.pick::<Map2<MulHiU32>>(),
                (32, true) => isa.pick::<Map2<MulHiS32>>(),
                (_, false) => slow::<Map2<MulHiU64>>(),
                (_, true) => slow::<Map2<MulHiS64>>(),
            },
            MulWide => match (bits, signed) {
                (16, false) => slow::<Map2<Widen16<false>>>(),
                (16, true) => slow::<Map2<Widen16<true>>>(),
                (_, false) => isa.pick::<Map2<MulWideU32>>(),
                (_, true) => isa.pick::<Map2<MulWideS32>>(),
            },
            Mul24Lo if signed => slow::<Map2<Mul24LoS>>(),
            Mul24Lo => slow::<Map2<Mul24LoU>>(),
            Mul24Hi if signed => slow::<Map2<Mul24HiS>>(),
            Mul24Hi => slow::<Map2<Mul24HiU>>(),
            Div if bits == 64 && signed => slow::<Map2<DivS64>>(),
            Div if bits == 64 => slow::<Map2<DivU64>>(),
            Rem if bits == 64 && signed => slow::<Map2<RemS64>>(),
            Rem if bits == 64 => slow::<Map2<RemU64>>(),
            Div => by_sign!(isa, ty, Map2, DivU32, DivS32, DivU32, DivS32),
            Rem => by_sign!(isa, ty, Map2, RemU32, RemS32, RemU32, RemS32),
            Min => by_sign!(isa, ty, Map2, MinU32, MinS32, MinU64, MinS64),
            Max => by_sign!(isa, ty, Map2, MaxU32, MaxS32, MaxU64, MaxS64),
            And => by_width!(isa, ty, Map2, And32, And64),
            Or => by_width!(isa, ty, Map2, Or32, Or64),
            Xor => by_width!(isa, ty, Map2, Xor32, Xor64),
            Shl => match bits {
                16 if signed => slow::<Map2<NarrowShift<Shl32, true>>>(),
                16 => slow::<Map2<NarrowShift<Shl32, false>>>(),
                32 => isa.pick::<Map2<Shl32>>(),
                _ => isa.pick::<Map2<Shl64>>(),
            },
            Shr => match (bits, signed) {
                (16, false) => slow::<Map2<NarrowShift<ShrU32, false>>>(),
                (16, true) => slow::<Map2<NarrowShift<ShrS32, true>>>(),
                (32, false) => isa.pick::<Map2<ShrU32>>(),
                (32, true) => isa.pick::<Map2<ShrS32>>(),
                (_, false) => isa.pick::<Map2<ShrU64>>(),
                (_, true) => isa.pick::<Map2<ShrS64>>(),
            },
        });
        let wide = bits == 64;
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, wide),
            b: self.value(b, wide && !matches!(op, Shl | Shr)),
            ..self.op(run)
        };
        self.emit(op);
    }

    pub(super) fn int_unary(&mut self, op: IntUnary, ty: Type, dst: Reg, a: Operand) {
        use IntUnary::*;
        let isa = self.isa;
        let run = match op {
            Neg => by_width!(isa, ty, Map1, Neg32, Neg64),
            Abs => by_width!(isa, ty, Map1, Abs32, Abs64),
            Not => by_width!(isa, ty, Map1, Not32, Not64),
            Cnot => by_width!(isa, ty, Map1, Cnot32, Cnot64),
            Popc if ty.bits() == 64 => isa.pick::<Map1<Popc64>>(),
            Popc => isa.pick::<Map1<Popc32>>(),
            Clz if ty.bits() == 64 => isa.pick::<Map1<Clz64>>(),
            Clz => isa.pick::<Map1<Clz32>>(),
            Brev if ty.bits() == 64 => slow::<Map1<Brev64>>(),
            Brev => slow::<Map1<Brev32>>(),
            Bfind => match (ty.bits(), ty.is_signed()) {
                (64, false) => slow::<Map1<BfindU64>>(),
                (64, true) => slow::<Map1<BfindS64>>(),
                (_, false) => slow::<Map1<BfindU32>>(),
                (_, true) => slow::<Map1<BfindS32>>(),
            },
            BfindShiftAmt => match (ty.bits(), ty.is_signed()) {
                (64, false) => slow::<Map1<BfindShiftU64>>(),
                (64, true) => slow::<Map1<BfindShiftS64>>(),
                (_, false) => slow::<Map1<BfindShiftU32>>(),
                (_, true) => slow::<Map1<BfindShiftS32>>(),
            },
        };
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, ty.bits() == 64),
            ..self.op(run)
        };
        self.emit(op);
    }

    pub(super) fn mad(&mut self, width: MadWidth, ty: Type, dst: Reg, abc: [Operand; 3]) {
        let isa = self.isa;
        let (bits, signed) = (ty.bits(), ty.is_signed());
        let run = match width {
            MadWidth::Lo => by_width!(isa, ty, Map3, ThenAdd<Mul32>, ThenAdd<Mul64>),
            MadWidth::Hi => match (bits, signed) {
                (16, false) => slow::<Map3<Narrow<ThenAdd<MulHiU16>, false>>>(),
                (16, true) => slow::<Map3<Narrow<ThenAdd<MulHiS16>, true>>>(),
                (32, false) => isa.pick::<Map3<ThenAdd<MulHiU32>>>(),
                (32, true) => isa.pick::<Map3<ThenAdd<MulHiS32>>>(),
                (_, false) => slow::<Map3<ThenAdd<MulHiU64>>>(),
                (_, true) => slow::<Map3<ThenAdd<MulHiS64>>>(),
            },
            MadWidth::Wide => match (bits, signed) {
                (16, false) => slow::<Map3<MadWiden16<false>>>(),
                (16, true) => slow::<Map3<MadWiden16<true>>>(),
                (_, false) => isa.pick::<Map3<MadWideU>>(),
                (_, true) => isa.pick::<Map3<MadWideS>>(),
            },
            MadWidth::Lo24 if signed => slow::<Map3<ThenAdd<Mul24LoS>>>(),
            MadWidth::Lo24 => slow::<Map3<ThenAdd<Mul24LoU>>>(),
            MadWidth::Hi24 if signed => slow::<Map3<ThenAdd<Mul24HiS>>>(),
            MadWidth::Hi24 => slow::<Map3<ThenAdd<Mul24HiU>>>(),
        };
        let [a, b, c] = abc;
        let wide = bits == 64;
        let wide_sum = wide || (bits == 32 && width == MadWidth::Wide);
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, wide),
            b: self.value(b, wide),
            c: self.value(c, wide_sum),
            ..self.op(run)
        };
        self.emit(op);
    }

    /// An instruction of three operands of one width.
    pub(super) fn three(&mut self, run: Handler, wide: bool, dst: Reg, abc: [Operand; 3], x: u64) {
        let [a, b, c] = abc;
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, wide),
            b: self.value(b, wide),
            c: self.value(c, wide),
            x,
            ..self.op(run)
        };
        self.emit(op);
    }

    pub(super) fn bit_fields(&mut self, inst: &Inst) {
        let isa = self.isa;
        match *inst {
            Inst::Sad { ty, dst, a, b, c } => {
                let run = match (ty.bits(), ty.is_signed()) {
                    (16, false) => slow::<Map3<Narrow<SadU32, false>>>(),
                    (16, true) => slow::<Map3<Narrow<SadS32, true>>>(),
                    (32, false) => slow::<Map3<SadU32>>(),
                    (32, true) => slow::<Map3<SadS32>>(),
                    (_, false) => slow::<Map3<SadU64>>(),
                    (_, true) => slow::<Map3<SadS64>>(),
                };
                self.three(run, ty.bits() == 64, dst, [a, b, c], 0);
            }
            Inst::Bfe {
                ty,
                dst,
                a,
                pos,
                len,
            } => {
                let wide = ty.bits() == 64;
                let run = match (wide, ty.is_signed()) {
                    (false, false) => isa.pick::<Map3<BfeU32>>(),
                    (false, true) => isa.pick::<Map3<BfeS32>>(),
                    (true, false) => isa.pick::<Map3<BfeU64>>(),
                    (true, true) => isa.pick::<Map3<BfeS64>>(),
                };
                let op = Op {
                    dst: self.place(dst),
                    a: self.value(a, wide),
                    b: self.v32(pos),
                    c: self.v32(len),
                    ..self.op(run)
                };
                self.emit(op);
            }
            Inst::Bfi {
                ty,
                dst,
                a,
                b,
                pos,
                len,
            } => {
                let wide = ty.bits() == 64;
                let op = Op {
                    dst: self.place(dst),
                    a: self.value(a, wide),
                    b: self.value(b, wide),
                    c: self.v32(pos),
                    x: u64::from(self.v32(len)) | u64::from(wide) << 32,
                    ..self.slow::<Bfi>()
                };
                self.emit(op);
            }
            Inst::Lop3 {
                dst,
                a,
                b,
                c,
                table,
            } => {
                let run = isa.pick::<Lop3>();
                self.three(run, false, dst, [a, b, c], u64::from(table));
            }
            Inst::FunnelShift {
                left,
                clamp,
                dst,
                lo,
                hi,
                amount,
            } => {
                let run = match (left, clamp) {
                    (true, true) => isa.pick::<Map3<ShfLClamp>>(),
                    (true, false) => isa.pick::<Map3<ShfLWrap>>(),
                    (false, true) => isa.pick::<Map3<ShfRClamp>>(),
                    (false, false) => isa.pick::<Map3<ShfRWrap>>(),
                };
                self.three(run, false, dst, [lo, hi, amount], 0);
            }
            Inst::Prmt {
                mode,
                dst,
                a,
                b,
                selector,
            } => {
                let run = isa.pick::<Prmt>();
                self.three(run, false, dst, [a, b, selector], Prmt::code(mode));
            }
            Inst::Dp4a {
                a_signed,
                b_signed,
                dst,
                a,
                b,
                c,
            } => {
                let flags = u64::from(a_signed) | u64::from(b_signed) << 1;
                let run = slow::<DotProduct>();
                self.three(run, false, dst, [a, b, c], flags);
            }
            Inst::Dp2a {
                hi,
                a_signed,
                b_signed,
                dst,
                a,
                b,
                c,
            } => {
                let flags = u64::from(a_signed) | u64::from(b_signed) << 1 | 4 | u64::from(hi) << 3;
                let run = slow::<DotProduct>();
                self.three(run, false, dst, [a, b, c], flags);
            }
            Inst::Carry {
                subtract,
                ty,
                dst,
                carry_out,
                a,
                b,
                carry_in,
            } => {
                let wide = ty.bits() == 64;
                let out = carry_out.map_or(0, |reg| self.place(reg));
                let carry_in = carry_in.map_or(super::code::FALSE, |reg| self.place(reg));
                let op = Op {
                    dst: self.place(dst),
                    a: self.value(a, wide),
                    b: self.value(b, wide),
                    c: carry_in,
                    x: u64::from(out) | u64::from(subtract) << 32 | u64::from(wide) << 33,
                    ..self.slow::<Carry>()
                };
                self.emit(op);
            }
            _ => unreachable!("called for bit-field instructions"),
        }
    }

    /// How a comparison is combined: the predicate, and the handler's code.
    pub(super) fn combination(&self, combine: Option<(BoolOp, Guard)>) -> (u32, u64) {
        let Some((op, guard)) = combine else {
            return (TRUE, 0);
        };
        let kind = match op {
            BoolOp::And => 1,
            BoolOp::Or => 2,
            BoolOp::Xor => 3,
        };
        let negate = if guard.negated { 4 } else { 0 };
        (self.place(guard.pred), kind | negate)
    }

    /// The handler of a comparison of integers; `None` for one that only floats have.
    pub(super) fn int_compare(&self, cmp: Compare, ty: Type) -> Option<Handler> {
        let isa = self.isa;
        macro_rules! compare {
            ($u32:ty, $s32:ty, $u64:ty, $s64:ty) => {
                match (ty.bits(), ty.is_signed()) {
                    (16, false) => slow::<Compare2<NarrowTest<$u32, false>>>(),
                    (16, true) => slow::<Compare2<NarrowTest<$s32, true>>>(),
                    (32, false) => isa.pick::<Compare2<$u32>>(),
                    (32, true) => isa.pick::<Compare2<$s32>>(),
                    (_, false) => isa.pick::<Compare2<$u64>>(),
                    (_, true) => isa.pick::<Compare2<$s64>>(),
                }
            };
        }
        Some(match cmp {
            Compare::Eq => compare!(EqU32, EqU32, EqU64, EqU64),
            Compare::Ne => compare!(NeU32, NeU32, NeU64, NeU64),
            Compare::Lt => compare!(LtU32, LtS32, LtU64, LtS64),
            Compare::Le => compare!(LeU32, LeS32, LeU64, LeS64),
            Compare::Gt => compare!(GtU32, GtS32, GtU64, GtS64),
            Compare::Ge => compare!(GeU32, GeS32, GeU64, GeS64),
            _ => return None,
        })
    }

    pub(super) fn select(&mut self, dst: Reg, a: Operand, b: Operand, pred: Reg) {
        let which = self.place(pred);
        let op = match self.class(dst) {
            RegClass::Pred => Op {
                dst: self.place(dst),
                a: which,
                b: self.pred(a),
                c: self.pred(b),
                // which and a, or not which and b.
                x: 0b1100_1010,
                ..self.fast::<PredicateTable>()
            },
            RegClass::B32 => Op {
                dst: self.place(dst),
                a: self.v32(a),
                b: self.v32(b),
                c: which,
                ..self.fast::<Select<u32>>()
            },
            RegClass::B64 => Op {
                dst: self.place(dst),
                a: self.v64(a),
                b: self.v64(b),
                c: which,
                ..self.fast::<Select<u64>>()
            },
        };
        self.emit(op);
    }
}
