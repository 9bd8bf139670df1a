//! Conversions between types, as C casts between CUDA's types do them.

use vgpu::ir::*;

use crate::builder::{mask, sign_extend};
use crate::dtype::{Elem, S32, U16, U32};
use crate::expr::FAST;
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::value::{Scalar, Value};

impl Kernel<'_> {
    /// A floating-point constant of a type, rounded from `value`.
    pub(crate) fn float_constant(&mut self, value: f64, elem: Elem, at: Id) -> Result<Value> {
        let single = value as f32;
        let scalar = match elem {
            Elem::F64 => Scalar::imm(value.to_bits(), elem),
            Elem::F32 => Scalar::imm(u64::from(single.to_bits()), elem),
            // The printed constants round to single precision first.
            _ => {
                let wide = Scalar::imm(u64::from(single.to_bits()), Elem::F32);
                self.convert(wide, elem, at)?
            }
        };
        Ok(Value::Scalar(scalar))
    }

    /// Converts a scalar to a type.
    pub(crate) fn convert(&mut self, scalar: Scalar, to: Elem, at: Id) -> Result<Scalar> {
        let from = scalar.ty;
        if from == to {
            return Ok(scalar);
        }
        let op = scalar.op;
        match (from, to) {
            (_, Elem::Bool) => Ok(Scalar::new(self.truth(scalar), Elem::Bool)),
            (Elem::Bool, Elem::Int { .. }) => Ok(Scalar::new(
                self.b
                    .select(to.class(), op, Operand::Imm(1), Operand::Imm(0)),
                to,
            )),
            (Elem::Bool, _) => {
                let int = self.convert(scalar, S32, at)?;
                self.convert(int, to, at)
            }
            (Elem::Int { .. }, Elem::Int { .. }) => Ok(self.convert_int(scalar, to)),
            (Elem::Handle, Elem::Int { bits: 64, .. })
            | (Elem::Int { bits: 64, .. }, Elem::Handle) => Ok(Scalar::new(op, to)),
            (Elem::Int { bits, .. }, Elem::F32 | Elem::F64 | Elem::F16) => {
                if let (Some(bits), Elem::F32 | Elem::F64) = (scalar.constant(), to) {
                    return Ok(int_constant_to_float(bits, from, to));
                }
                let _ = bits;
                Ok(Scalar::new(
                    self.b.cvt(to.ir(), from.ir(), FloatMods::default(), op),
                    to,
                ))
            }
            // The other floats come from integers through single precision.
            (Elem::Int { .. }, _) if to.is_float() || to.is_narrow_float() => {
                let single = self.convert(scalar, Elem::F32, at)?;
                self.convert(single, to, at)
            }
            (_, Elem::Int { bits, signed }) if from.is_float() => {
                // Narrow integers: to `int` by truncation, then the low bits.
                if bits < 32 {
                    let wide = self.convert(scalar, S32, at)?;
                    return Ok(self.convert_int(wide, to));
                }
                let _ = signed;
                if from == Elem::BF16 {
                    let single = self.convert(scalar, Elem::F32, at)?;
                    return self.convert(single, to, at);
                }
                let mods = FloatMods {
                    rounding: Rounding::Zero,
                    ftz: from == Elem::F32,
                    ..Default::default()
                };
                Ok(Scalar::new(self.b.cvt(to.ir(), from.ir(), mods, op), to))
            }
            _ if from.is_float() && to.is_float() => self.convert_float(scalar, to),
            _ if from.is_narrow_float() => {
                let half = self.widen_narrow(&[scalar], at)?[0];
                self.convert(half, to, at)
            }
            (Elem::F32, _) if to.is_narrow_float() => {
                Ok(self.narrow_pair(scalar, Scalar::imm(0, Elem::F32), to).0)
            }
            (Elem::F16 | Elem::BF16, _) if to.is_narrow_float() => {
                let single = self.convert(scalar, Elem::F32, at)?;
                self.convert(single, to, at)
            }
            _ => Err(self.incomplete(format!("conversion from {from:?} to {to:?}"), at)),
        }
    }

    fn convert_int(&mut self, scalar: Scalar, to: Elem) -> Scalar {
        let from = scalar.ty;
        if let Some(bits) = scalar.constant() {
            let wide = if from.is_signed() {
                sign_extend(bits, from.bits()) as u64
            } else {
                bits
            };
            return Scalar::imm(mask(wide, to.bits()), to);
        }
        // Narrow values stand extended in 32 bits already, and 32-bit ones differ in name alone.
        let widening_in_place = from.bits() < 32 && to.bits() == 32;
        let same_bits = from.bits() == to.bits() && to.bits() >= 32;
        if widening_in_place || same_bits {
            return Scalar::new(scalar.op, to);
        }
        Scalar::new(
            self.b
                .cvt(to.ir(), from.ir(), FloatMods::default(), scalar.op),
            to,
        )
    }

    fn convert_float(&mut self, scalar: Scalar, to: Elem) -> Result<Scalar> {
        let from = scalar.ty;
        if from == Elem::F32
            && let Some(bits) = scalar.constant()
        {
            let single = f32::from_bits(bits as u32);
            if to == Elem::F64 {
                return Ok(Scalar::imm(f64::from(single).to_bits(), to));
            }
        }
        if from == Elem::F64
            && to == Elem::F32
            && let Some(bits) = scalar.constant()
        {
            let single = f64::from_bits(bits) as f32;
            return Ok(Scalar::imm(u64::from(single.to_bits()), to));
        }
        let half = |elem| matches!(elem, Elem::F16 | Elem::BF16);
        if half(from) && half(to)
            || (from == Elem::BF16 && to == Elem::F64)
            || (from == Elem::F64 && to == Elem::BF16)
        {
            let single = self.convert_float(scalar, Elem::F32)?;
            return self.convert_float(single, to);
        }
        Ok(Scalar::new(
            self.b
                .cvt(to.ir(), from.ir(), FloatMods::default(), scalar.op),
            to,
        ))
    }

    /// Converts lanes; conversions that the ISA has for pairs take pairs.
    pub(crate) fn convert_lanes(
        &mut self,
        lanes: &[Scalar],
        to: Elem,
        at: Id,
    ) -> Result<Vec<Scalar>> {
        let Some(from) = lanes.first().map(|lane| lane.ty) else {
            return Ok(Vec::new());
        };
        if from.is_narrow_float() && from != to {
            let wide = self.widen_narrow(lanes, at)?;
            return wide
                .into_iter()
                .map(|lane| self.convert(lane, to, at))
                .collect();
        }
        if to.is_narrow_float() && from != to {
            let mut singles = Vec::with_capacity(lanes.len());
            for &lane in lanes {
                singles.push(self.convert(lane, Elem::F32, at)?);
            }
            let mut out = Vec::with_capacity(lanes.len());
            for pair in singles.chunks(2) {
                let high = pair.get(1).copied().unwrap_or(Scalar::imm(0, Elem::F32));
                let (low_code, high_code) = self.narrow_pair(pair[0], high, to);
                out.push(low_code);
                if pair.len() == 2 {
                    out.push(high_code);
                }
            }
            return Ok(out);
        }
        if matches!(to, Elem::F16 | Elem::BF16)
            && from == Elem::F32
            && lanes.len().is_multiple_of(2)
        {
            return Ok(self.narrow_halves(lanes, to));
        }
        lanes
            .iter()
            .map(|&lane| self.convert(lane, to, at))
            .collect()
    }

    /// Pairs of singles to pairs of halves, one conversion for two.
    fn narrow_halves(&mut self, lanes: &[Scalar], to: Elem) -> Vec<Scalar> {
        let packed = if to == Elem::F16 {
            Type::F16x2
        } else {
            Type::BF16x2
        };
        let mut out = Vec::with_capacity(lanes.len());
        for pair in lanes.chunks_exact(2) {
            let word = self
                .b
                .pure(RegClass::B32, [pair[1].op, pair[0].op], |dst, [hi, lo]| {
                    Inst::CvtPack {
                        to: packed,
                        mods: FloatMods::default(),
                        satfinite: false,
                        dst,
                        hi,
                        lo,
                    }
                });
            let (low, high) = self.split_word(word);
            out.push(Scalar::new(Operand::Reg(low), to));
            out.push(Scalar::new(Operand::Reg(high), to));
        }
        out
    }

    /// The 16-bit halves of a word.
    pub(crate) fn split_word(&mut self, word: Reg) -> (Reg, Reg) {
        let part = |position: u64| {
            move |dst: Reg, [a]: [Operand; 1]| Inst::Bfe {
                ty: Type::U32,
                dst,
                a,
                pos: Operand::Imm(position),
                len: Operand::Imm(16),
            }
        };
        let low = self.b.pure(RegClass::B32, [Operand::Reg(word)], part(0));
        let high = self.b.pure(RegClass::B32, [Operand::Reg(word)], part(16));
        self.halves.insert(low, (word, 0));
        self.halves.insert(high, (word, 1));
        (low, high)
    }

    fn packed_of(elem: Elem) -> Type {
        match elem {
            Elem::E4M3 => Type::E4M3x2,
            Elem::E5M2 => Type::E5M2x2,
            Elem::E8M0 => Type::UE8M0x2,
            _ => Type::E2M1x2,
        }
    }

    /// Two singles to two codes of a narrow type, saturating at its largest finite value, as
    /// CUDA's constructors of these types do; `e8m0` rounds up.
    fn narrow_pair(&mut self, low: Scalar, high: Scalar, to: Elem) -> (Scalar, Scalar) {
        let mods = FloatMods {
            rounding: if to == Elem::E8M0 {
                Rounding::Up
            } else {
                Rounding::NearestEven
            },
            ..Default::default()
        };
        let pair = self
            .b
            .pure(RegClass::B32, [high.op, low.op], |dst, [hi, lo]| {
                Inst::CvtPack {
                    to: Self::packed_of(to),
                    mods,
                    satfinite: true,
                    dst,
                    hi,
                    lo,
                }
            });
        let bits = if to == Elem::E2M1 { 4 } else { 8 };
        let code = |kernel: &mut Self, index: u64| {
            let reg = kernel
                .b
                .pure(RegClass::B32, [Operand::Reg(pair)], |dst, [a]| Inst::Bfe {
                    ty: Type::U32,
                    dst,
                    a,
                    pos: Operand::Imm(index * bits),
                    len: Operand::Imm(bits),
                });
            if bits == 8 {
                kernel.bytes.insert(reg, (pair, index as u32));
            }
            Scalar::new(Operand::Reg(reg), to)
        };
        (code(self, 0), code(self, 1))
    }

    /// Codes of a narrow type to halves (or, for `e8m0`, to bfloat16), exactly; two at a time.
    pub(crate) fn widen_narrow(&mut self, lanes: &[Scalar], at: Id) -> Result<Vec<Scalar>> {
        let from = lanes[0].ty;
        let (wide, elem) = if from == Elem::E8M0 {
            (Type::BF16x2, Elem::BF16)
        } else {
            (Type::F16x2, Elem::F16)
        };
        let mut out = Vec::with_capacity(lanes.len());
        for pair in lanes.chunks(2) {
            let high = pair.get(1).copied().unwrap_or(Scalar::imm(0, from));
            let codes = self.join_codes(pair[0], high, at)?;
            let word = self
                .b
                .pure(RegClass::B32, [codes.op], |dst, [a]| Inst::Cvt {
                    to: wide,
                    from: Self::packed_of(from),
                    mods: FloatMods::default(),
                    satfinite: false,
                    dst,
                    a,
                });
            let (low, high) = self.split_word(word);
            out.push(Scalar::new(Operand::Reg(low), elem));
            if pair.len() == 2 {
                out.push(Scalar::new(Operand::Reg(high), elem));
            }
        }
        Ok(out)
    }

    /// Two codes side by side: 16 bits, or 8 for the 4-bit type.
    fn join_codes(&mut self, low: Scalar, high: Scalar, _at: Id) -> Result<Scalar> {
        // Codes that were taken from neighbouring bytes of a word go back without a detour.
        if let (Operand::Reg(a), Operand::Reg(b)) = (low.op, high.op)
            && let (Some(&(word, first)), Some(&(other, second))) =
                (self.bytes.get(&a), self.bytes.get(&b))
            && word == other
            && second == first + 1
            && first % 2 == 0
        {
            if first == 0 {
                return Ok(Scalar::new(Operand::Reg(word), U16));
            }
            let shifted = self.b.int(
                IntBinary::Shr,
                Type::U32,
                Operand::Reg(word),
                Operand::Imm(u64::from(first * 8)),
            );
            return Ok(Scalar::new(shifted, U32));
        }
        let bits = if low.ty == Elem::E2M1 { 4 } else { 8 };
        let high = self
            .b
            .int(IntBinary::Shl, Type::U32, high.op, Operand::Imm(bits));
        let both = self.b.int(IntBinary::Or, Type::U32, high, low.op);
        Ok(Scalar::new(both, U16))
    }

    /// The same bits as another type of the same size.
    pub(crate) fn reinterpret(&mut self, scalar: Scalar, to: Elem, at: Id) -> Result<Scalar> {
        let from = scalar.ty;
        if from == to {
            return Ok(scalar);
        }
        if from.bits() != to.bits() {
            return Err(self.incomplete(format!("reinterpretation of {from:?} as {to:?}"), at));
        }
        if from == Elem::Bool || to == Elem::Bool {
            let byte = Elem::Int {
                bits: 8,
                signed: false,
            };
            if from == Elem::Bool {
                let bits = self.convert(scalar, byte, at)?;
                return Ok(Scalar::new(bits.op, to));
            }
            let bits = Scalar::new(scalar.op, byte);
            return self.convert(bits, Elem::Bool, at);
        }
        // A narrow integer stands extended by its sign: make it so.
        let extension = |elem: Elem| matches!(elem, Elem::Int { bits, signed: true } if bits < 32);
        if extension(from) != extension(to) {
            let unsigned = |elem: Elem| Elem::Int {
                bits: elem.bits() as u8,
                signed: false,
            };
            let source = if extension(from) {
                from
            } else {
                unsigned(from)
            };
            let target = if extension(to) { to } else { unsigned(to) };
            let converted = self.convert_int(Scalar::new(scalar.op, source), target);
            return Ok(Scalar::new(converted.op, to));
        }
        Ok(Scalar::new(scalar.op, to))
    }

    /// A unary single-precision operation of the fast kind.
    pub(crate) fn fast_unary(&mut self, op: FloatUnary, a: Operand) -> Operand {
        self.b.float_unary(op, Type::F32, FAST, a)
    }
}

fn int_constant_to_float(bits: u64, from: Elem, to: Elem) -> Scalar {
    let wide = if from.is_signed() {
        i128::from(sign_extend(bits, from.bits()))
    } else {
        i128::from(bits)
    };
    match to {
        Elem::F32 => Scalar::imm(u64::from((wide as f32).to_bits()), to),
        _ => Scalar::imm((wide as f64).to_bits(), to),
    }
}
