//! Conversions (PTX ISA, "cvt").

use super::float::clamp;
use super::format::{Format, Value, round_at};
use super::{as_integer, mask, to_register};
use crate::ir::{FloatMods, Rounding, Type};

/// `cvt`: the bits of `a`, read as `from`, as `to`. Between pairs, each half by itself.
///
/// From a floating type to itself it rounds to an integral value. `None` where the conversion does
/// not exist (see `ir::verify`).
pub fn cvt(to: Type, from: Type, mods: FloatMods, satfinite: bool, a: u64) -> Option<u64> {
    if !(to.is_packed() && from.is_packed()) {
        return scalar(to, from, mods, satfinite, a & mask(from));
    }
    let half = |ty: Type, index: u32| index * ty.bits() / 2;
    let mut bits = 0;
    for index in 0..2 {
        let source = a >> half(from, index) & mask(from.element());
        bits |= scalar(to.element(), from.element(), mods, satfinite, source)? << half(to, index);
    }
    Some(bits)
}

/// `cvt.pack`: two f32 into a pair, `hi` in element 1. `None` where the conversion does not exist.
pub fn cvt_pack(to: Type, mods: FloatMods, satfinite: bool, hi: u64, lo: u64) -> Option<u64> {
    if !to.is_packed() {
        return None;
    }
    let hi = scalar(
        to.element(),
        Type::F32,
        mods,
        satfinite,
        hi & mask(Type::F32),
    )?;
    let lo = scalar(
        to.element(),
        Type::F32,
        mods,
        satfinite,
        lo & mask(Type::F32),
    )?;
    Some(hi << (to.bits() / 2) | lo)
}

fn scalar(to: Type, from: Type, mods: FloatMods, satfinite: bool, a: u64) -> Option<u64> {
    if from.is_integer() {
        let value = as_integer(a, from);
        return if to.is_integer() {
            Some(integer_to_integer(to, mods, value))
        } else {
            let format = Format::of(to)?;
            let bits = format.encode(Value::integer(value), false, mods.rounding, satfinite);
            Some(clamp(&format, mods, bits))
        };
    }
    // `ftz` concerns f32 alone, on either side.
    let flush_input = mods.ftz && from == Type::F32;
    let value = if from == Type::UE8M0 {
        power(a)
    } else {
        let format = Format::of(from)?;
        format.decode(if flush_input { format.flush(a) } else { a })
    };
    if to.is_integer() {
        return Some(float_to_integer(to, from, mods.rounding, value));
    }
    if to == Type::UE8M0 {
        return Some(to_power(value, mods.rounding, satfinite));
    }
    let format = Format::of(to)?;
    let value = if to == from {
        integral(value, mods.rounding)
    } else {
        value
    };
    let bits = format.encode(value, false, mods.rounding, satfinite);
    let mods = FloatMods {
        ftz: mods.ftz && to == Type::F32,
        ..mods
    };
    Some(clamp(&format, mods, bits))
}

fn integer_to_integer(to: Type, mods: FloatMods, value: i128) -> u64 {
    let value = if mods.sat { saturate(to, value) } else { value };
    to_register(value as u64, to)
}

fn limits(ty: Type) -> (i128, i128) {
    if ty.is_signed() {
        (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1)
    } else {
        (0, (1 << ty.bits()) - 1)
    }
}

fn saturate(ty: Type, value: i128) -> i128 {
    let (least, most) = limits(ty);
    value.clamp(least, most)
}

/// NaN becomes 0 where neither side is of 64 bits (f64, s64, u64), else only the top bit is set.
fn float_to_integer(to: Type, from: Type, rounding: Rounding, value: Value) -> u64 {
    let (least, most) = limits(to);
    let result = match value {
        Value::Nan if from != Type::F64 && to.bits() != 64 => 0,
        Value::Nan => return to_register(1 << (to.bits() - 1), to),
        Value::Infinite { negative } => {
            if negative {
                least
            } else {
                most
            }
        }
        Value::Finite {
            negative,
            mantissa,
            exponent,
        } => {
            let top = 128 - mantissa.leading_zeros() as i32 + exponent;
            if top > 70 {
                if negative { least } else { most }
            } else {
                let whole = round_at(mantissa, exponent, 0, false, negative, rounding) as i128;
                saturate(to, if negative { -whole } else { whole })
            }
        }
    };
    to_register(result as u64, to)
}

/// The integral value that rounding gives; its sign is kept, of zero too.
fn integral(value: Value, rounding: Rounding) -> Value {
    match value {
        Value::Finite {
            negative,
            mantissa,
            exponent,
        } if exponent < 0 => Value::Finite {
            negative,
            mantissa: round_at(mantissa, exponent, 0, false, negative, rounding),
            exponent: 0,
        },
        other => other,
    }
}

/// The value of a `ue8m0` code: a power of two from 2^-127, or NaN.
fn power(code: u64) -> Value {
    if code == 0xff {
        return Value::Nan;
    }
    Value::Finite {
        negative: false,
        mantissa: 1,
        exponent: code as i32 - 127,
    }
}

/// The power of two below (`rz`) or above (`rp`) a magnitude, as a `ue8m0` code; the format has no
/// sign and no zero, so the sign is dropped and what lies below 2^-127 becomes it.
fn to_power(value: Value, rounding: Rounding, satfinite: bool) -> u64 {
    const LARGEST: u64 = 0xfe;
    const NAN: u64 = 0xff;
    let overflow = if satfinite { LARGEST } else { NAN };
    match value {
        Value::Nan => NAN,
        Value::Infinite { .. } => overflow,
        Value::Finite { mantissa: 0, .. } => 0,
        Value::Finite {
            mantissa, exponent, ..
        } => {
            let top = 127 - mantissa.leading_zeros() as i32 + exponent;
            let up = rounding == Rounding::Up && !mantissa.is_power_of_two();
            let code = top + 127 + i32::from(up);
            if code > LARGEST as i32 {
                overflow
            } else {
                code.max(0) as u64
            }
        }
    }
}
