//! Conversions to handlers.

use super::code::{Extra, Op};
use super::mnemonic::mnemonic;
use super::structure::Lowerer;
use crate::exec::*;
use crate::ir::{FloatMods, Inst, Operand, Reg, Rounding, Type};

impl Lowerer<'_> {
    /// Emits an operation by the reference semantics.
    pub(super) fn by_reference(
        &mut self,
        inst: &Inst,
        what: Reference,
        dst: Reg,
        operands: [Operand; 3],
    ) {
        if !what.exists() {
            return self.unmodelled(mnemonic(inst));
        }
        let (wide, _) = what.widths();
        let extra = self.extra(Extra::Reference(what));
        let [a, b, c] = operands;
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, wide),
            b: self.value(b, wide),
            c: self.value(c, wide),
            x: u64::from(extra),
            ..self.slow::<ByReference>()
        };
        self.emit(op);
    }

    pub(super) fn convert(&mut self, inst: &Inst) {
        match *inst {
            Inst::Cvt {
                to,
                from,
                mods,
                satfinite,
                dst,
                a,
            } => {
                if to.is_integer() && from.is_integer() {
                    return self.resize(to, from, mods.sat, dst, a);
                }
                if let Some(run) = self.conversion(to, from, mods, satfinite) {
                    let op = Op {
                        dst: self.place(dst),
                        a: self.value(a, from.bits() == 64),
                        ..self.op(run)
                    };
                    return self.emit(op);
                }
                let what = Reference::Convert {
                    to,
                    from,
                    mods,
                    satfinite,
                };
                self.by_reference(inst, what, dst, [a, a, a]);
            }
            Inst::CvtPack {
                to,
                mods,
                satfinite,
                dst,
                hi,
                lo,
            } => {
                if let Some(run) = self.packing(to, mods, satfinite) {
                    let op = Op {
                        dst: self.place(dst),
                        a: self.v32(hi),
                        b: self.v32(lo),
                        ..self.op(run)
                    };
                    return self.emit(op);
                }
                let what = Reference::Pack {
                    to,
                    mods,
                    satfinite,
                };
                self.by_reference(inst, what, dst, [hi, lo, lo]);
            }
            _ => unreachable!("called for a conversion"),
        }
    }

    fn resize(&mut self, to: Type, from: Type, clamp: bool, dst: Reg, a: Operand) {
        let isa = self.isa;
        let run = match (from.bits(), to.bits(), clamp) {
            (64, 32, false) => isa.pick::<Map1<Truncate64>>(),
            (32, 64, false) if from.is_signed() => isa.pick::<Map1<SignExtend32>>(),
            (32, 64, false) => isa.pick::<Map1<ZeroExtend32>>(),
            (64, 64, _) => isa.pick::<Resize<true, true>>(),
            (64, ..) => isa.pick::<Resize<true, false>>(),
            (_, 64, _) => isa.pick::<Resize<false, true>>(),
            _ => isa.pick::<Resize<false, false>>(),
        };
        let bytes = [
            u64::from(from.bits()),
            u64::from(from.is_signed()),
            u64::from(to.bits()),
            u64::from(to.is_signed()),
            u64::from(clamp),
        ];
        let x = bytes
            .iter()
            .enumerate()
            .fold(0, |x, (index, byte)| x | byte << (8 * index));
        let op = Op {
            dst: self.place(dst),
            a: self.value(a, from.bits() == 64),
            x,
            ..self.op(run)
        };
        self.emit(op);
    }

    /// The vector handler of a conversion, where there is one.
    fn conversion(
        &self,
        to: Type,
        from: Type,
        mods: FloatMods,
        satfinite: bool,
    ) -> Option<Handler> {
        use Rounding::{Down, NearestEven, Up, Zero};
        let isa = self.isa;
        if mods.sat && !to.is_integer() || mods.relu {
            return None;
        }
        macro_rules! flushed {
            ($f:ty) => {
                if mods.ftz {
                    isa.pick::<Map1<Flushed<$f>>>()
                } else {
                    isa.pick::<Map1<$f>>()
                }
            };
        }
        Some(match (to, from, mods.rounding) {
            // Without `satfinite` what is too large becomes NaN or infinity: by reference.
            (Type::E4M3, Type::F32, NearestEven) if satfinite => isa.pick::<Map1<E4m3FromF32>>(),
            (Type::E5M2, Type::F32, NearestEven) if satfinite => isa.pick::<Map1<E5m2FromF32>>(),
            (Type::E4M3x2, Type::F16x2, NearestEven) if satfinite => {
                isa.pick::<Map1<E4m3x2FromF16x2>>()
            }
            (Type::E5M2x2, Type::F16x2, NearestEven) if satfinite => {
                isa.pick::<Map1<E5m2x2FromF16x2>>()
            }
            _ if satfinite => return None,
            (Type::F32, Type::S32, NearestEven) => isa.pick::<Map1<F32FromS32>>(),
            (Type::F32, Type::U32, NearestEven) => isa.pick::<Map1<F32FromU32>>(),
            (Type::F64, Type::S32, _) => isa.pick::<Map1<F64FromS32>>(),
            (Type::F64, Type::U32, _) => isa.pick::<Map1<F64FromU32>>(),
            (Type::F64, Type::F32, _) => flushed!(F64FromF32),
            (Type::F32, Type::F64, NearestEven) if !mods.ftz => isa.pick::<Map1<F32FromF64>>(),
            // Every half and every 8-bit value is a normal single or zero; bfloat16 is not.
            (Type::F32, Type::F16, _) => isa.pick::<Map1<F32FromF16>>(),
            (Type::F32, Type::BF16, _) if !mods.ftz => isa.pick::<Map1<F32FromBf16>>(),
            (Type::F32, Type::E4M3, _) => isa.pick::<Map1<F32FromE4m3>>(),
            (Type::F32, Type::E5M2, _) => isa.pick::<Map1<F32FromE5m2>>(),
            (Type::F16x2, Type::E4M3x2, _) => isa.pick::<Map1<F16x2FromE4m3x2>>(),
            (Type::F16x2, Type::E5M2x2, _) => isa.pick::<Map1<F16x2FromE5m2x2>>(),
            (Type::F16, Type::F32, NearestEven) => flushed!(F16FromF32),
            (Type::BF16, Type::F32, NearestEven) => flushed!(Bf16FromF32),
            (Type::S32, Type::F32, Zero) => isa.pick::<Map1<S32FromF32Zero>>(),
            (Type::S32, Type::F32, NearestEven) => isa.pick::<Map1<S32FromF32Near>>(),
            (Type::S32, Type::F32, Down) => flushed!(S32FromF32Down),
            (Type::S32, Type::F32, Up) => flushed!(S32FromF32Up),
            (Type::U32, Type::F32, Zero) => isa.pick::<Map1<U32FromF32Zero>>(),
            (Type::F32, Type::F32, NearestEven) => isa.pick::<Map1<RoundF32Near>>(),
            (Type::F32, Type::F32, Zero) => isa.pick::<Map1<RoundF32Zero>>(),
            (Type::F32, Type::F32, Down) => flushed!(RoundF32Down),
            (Type::F32, Type::F32, Up) => flushed!(RoundF32Up),
            _ => return None,
        })
    }

    fn packing(&self, to: Type, mods: FloatMods, satfinite: bool) -> Option<Handler> {
        let isa = self.isa;
        if mods.rounding != Rounding::NearestEven {
            return None;
        }
        macro_rules! pick {
            ($f:ty) => {
                if mods.relu {
                    isa.pick::<Map2<Rectified<$f>>>()
                } else {
                    isa.pick::<Map2<$f>>()
                }
            };
        }
        Some(match (to, satfinite) {
            (Type::F16x2, false) => pick!(PackF16),
            (Type::BF16x2, false) => pick!(PackBf16),
            (Type::E4M3x2, true) => pick!(PackE4m3),
            (Type::E5M2x2, true) => pick!(PackE5m2),
            _ => return None,
        })
    }
}
