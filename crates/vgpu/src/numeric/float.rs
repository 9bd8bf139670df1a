//! Correctly rounded arithmetic, minimum and maximum, comparison and classes (PTX ISA, "Floating-Point Instructions").

use super::elementwise;
use super::format::{Format, Value};
use crate::ir::{Compare, FloatBinary, FloatClass, FloatMods, FloatUnary, Rounding, Type};

/// A value and whether its magnitude is a little more.
type Inexact = (Value, bool);

/// `add`, `sub`, `mul`, `div`, `min`, `max`, `copysign` of scalars and pairs; `None` for the
/// approximations, which have a bound instead (see [`super::special()`]), and for types without the
/// operation.
pub fn float_binary(op: FloatBinary, ty: Type, mods: FloatMods, a: u64, b: u64) -> Option<u64> {
    if matches!(op, FloatBinary::DivFull | FloatBinary::DivApprox) {
        return None;
    }
    Format::of(ty.element())?;
    Some(elementwise(ty, [a, b], |ty, [a, b]| {
        let format = scalar(ty);
        let (a, b) = (input(&format, mods, a), input(&format, mods, b));
        binary(op, &format, mods, a, b)
    }))
}

fn binary(op: FloatBinary, format: &Format, mods: FloatMods, a: u64, b: u64) -> u64 {
    let (x, y) = (format.decode(a), format.decode(b));
    let rounding = mods.rounding;
    match op {
        FloatBinary::Add => finish(format, mods, sum(x, y, rounding)),
        FloatBinary::Sub => finish(format, mods, sum(x, negate(y), rounding)),
        FloatBinary::Mul => finish(format, mods, (product(x, y), false)),
        FloatBinary::Div | FloatBinary::DivFull | FloatBinary::DivApprox => {
            finish(format, mods, quotient(x, y))
        }
        FloatBinary::Min | FloatBinary::MinNan => {
            extremum(format, mods, a, b, op == FloatBinary::MinNan, false)
        }
        FloatBinary::Max | FloatBinary::MaxNan => {
            extremum(format, mods, a, b, op == FloatBinary::MaxNan, true)
        }
        FloatBinary::MinXorsignAbs | FloatBinary::MaxXorsignAbs => {
            let sign = (a ^ b) & format.sign_bit();
            let magnitudes = format.sign_bit() - 1;
            let largest = op == FloatBinary::MaxXorsignAbs;
            let bits = extremum(format, mods, a & magnitudes, b & magnitudes, false, largest);
            if format.decode(bits) == Value::Nan {
                bits
            } else {
                bits | sign
            }
        }
        // The sign of a on the magnitude of b.
        FloatBinary::Copysign => a & format.sign_bit() | b & (format.sign_bit() - 1),
    }
}

/// `neg`, `abs`, `rcp`, `sqrt` of scalars and pairs; `None` for the approximations and for types
/// without the operation.
pub fn float_unary(op: FloatUnary, ty: Type, mods: FloatMods, a: u64) -> Option<u64> {
    let exact = matches!(
        op,
        FloatUnary::Neg | FloatUnary::Abs | FloatUnary::Rcp | FloatUnary::Sqrt
    );
    if !exact {
        return None;
    }
    Format::of(ty.element())?;
    Some(elementwise(ty, [a], |ty, [a]| {
        let format = scalar(ty);
        let a = input(&format, mods, a);
        match op {
            FloatUnary::Neg => a ^ format.sign_bit(),
            FloatUnary::Abs => a & (format.sign_bit() - 1),
            FloatUnary::Sqrt => finish(&format, mods, root(format.decode(a))),
            _ => finish(&format, mods, quotient(Value::integer(1), format.decode(a))),
        }
    }))
}

/// `fma` of scalars and pairs, rounded once; `None` for types without it.
pub fn fma(ty: Type, mods: FloatMods, a: u64, b: u64, c: u64) -> Option<u64> {
    Format::of(ty.element())?;
    Some(elementwise(ty, [a, b, c], |ty, sources| {
        let format = scalar(ty);
        let [x, y, z] = sources.map(|bits| format.decode(input(&format, mods, bits)));
        let exact = product(x, y);
        finish(&format, mods, sum(exact, z, mods.rounding))
    }))
}

/// `setp`'s comparison of scalars; `None` for types without it.
pub fn compare(cmp: Compare, ty: Type, ftz: bool, a: u64, b: u64) -> Option<bool> {
    let format = Format::of(ty)?;
    let mods = FloatMods {
        ftz,
        ..FloatMods::default()
    };
    let x = format.decode(input(&format, mods, a));
    let y = format.decode(input(&format, mods, b));
    let order = order(x, y);
    let unordered = order.is_none();
    Some(match cmp {
        Compare::Num => !unordered,
        Compare::Nan => unordered,
        Compare::Eq => order.is_some_and(|order| order.is_eq()),
        Compare::Ne => order.is_some_and(|order| order.is_ne()),
        Compare::Lt => order.is_some_and(|order| order.is_lt()),
        Compare::Le => order.is_some_and(|order| order.is_le()),
        Compare::Gt => order.is_some_and(|order| order.is_gt()),
        Compare::Ge => order.is_some_and(|order| order.is_ge()),
        Compare::Equ => order.is_none_or(|order| order.is_eq()),
        Compare::Neu => order.is_none_or(|order| order.is_ne()),
        Compare::Ltu => order.is_none_or(|order| order.is_lt()),
        Compare::Leu => order.is_none_or(|order| order.is_le()),
        Compare::Gtu => order.is_none_or(|order| order.is_gt()),
        Compare::Geu => order.is_none_or(|order| order.is_ge()),
    })
}

/// `testp`; `None` for types without it. Zero is neither normal nor subnormal here.
pub fn testp(class: FloatClass, ty: Type, a: u64) -> Option<bool> {
    let format = Format::of(ty)?;
    let value = format.decode(a);
    let finite = matches!(value, Value::Finite { .. });
    let zero = matches!(value, Value::Finite { mantissa: 0, .. });
    Some(match class {
        FloatClass::Finite => finite,
        FloatClass::Infinite => matches!(value, Value::Infinite { .. }),
        FloatClass::Number => value != Value::Nan,
        FloatClass::NotANumber => value == Value::Nan,
        FloatClass::Normal => finite && !format.is_tiny(a),
        FloatClass::Subnormal => finite && format.is_tiny(a) && !zero,
    })
}

// ---- exact arithmetic ----

fn scalar(ty: Type) -> Format {
    // Callers have checked that the type has a format.
    Format::of(ty).unwrap_or(Format {
        exponent_bits: 8,
        fraction_bits: 23,
        top: super::format::Top::Ieee,
        padding: 0,
        nan: 0x7fff_ffff,
    })
}

/// Bits as an operation sees them: flushed, where it flushes.
fn input(format: &Format, mods: FloatMods, bits: u64) -> u64 {
    let bits = bits & (format.sign_bit() | (format.sign_bit() - 1));
    if mods.ftz { format.flush(bits) } else { bits }
}

/// Rounds once, then flushes and clamps.
pub(super) fn finish(format: &Format, mods: FloatMods, (value, sticky): Inexact) -> u64 {
    let bits = format.encode(value, sticky, mods.rounding, false);
    clamp(format, mods, bits)
}

/// What `ftz`, `sat` and `relu` make of a rounded result.
pub(super) fn clamp(format: &Format, mods: FloatMods, bits: u64) -> u64 {
    let bits = if mods.ftz { format.flush(bits) } else { bits };
    let nan = format.decode(bits) == Value::Nan;
    let negative = bits & format.sign_bit() != 0;
    if mods.sat {
        let one = format.encode(Value::integer(1), false, Rounding::NearestEven, false);
        return if nan || negative { 0 } else { bits.min(one) };
    }
    if mods.relu && negative && !nan {
        return 0;
    }
    bits
}

fn negate(value: Value) -> Value {
    match value {
        Value::Nan => Value::Nan,
        Value::Infinite { negative } => Value::Infinite {
            negative: !negative,
        },
        Value::Finite {
            negative,
            mantissa,
            exponent,
        } => Value::Finite {
            negative: !negative,
            mantissa,
            exponent,
        },
    }
}

fn is_negative(value: Value) -> bool {
    match value {
        Value::Nan => false,
        Value::Infinite { negative } | Value::Finite { negative, .. } => negative,
    }
}

fn product(x: Value, y: Value) -> Value {
    let negative = is_negative(x) != is_negative(y);
    match (x, y) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite { .. }, Value::Finite { mantissa: 0, .. })
        | (Value::Finite { mantissa: 0, .. }, Value::Infinite { .. }) => Value::Nan,
        (Value::Infinite { .. }, _) | (_, Value::Infinite { .. }) => Value::Infinite { negative },
        (
            Value::Finite {
                mantissa: m,
                exponent: e,
                ..
            },
            Value::Finite {
                mantissa: n,
                exponent: f,
                ..
            },
        ) => Value::Finite {
            negative,
            mantissa: m * n,
            exponent: e + f,
        },
    }
}

/// A sum, exact but for a sticky bit far below what any format keeps. Factors have at most 106 bits.
fn sum(x: Value, y: Value, rounding: Rounding) -> Inexact {
    let (
        Value::Finite {
            negative: xs,
            mantissa: xm,
            exponent: xe,
        },
        Value::Finite {
            negative: ys,
            mantissa: ym,
            exponent: ye,
        },
    ) = (x, y)
    else {
        return match (x, y) {
            (Value::Nan, _) | (_, Value::Nan) => (Value::Nan, false),
            (Value::Infinite { negative: a }, Value::Infinite { negative: b }) if a != b => {
                (Value::Nan, false)
            }
            (infinite @ Value::Infinite { .. }, _) | (_, infinite) => (infinite, false),
        };
    };
    // An exact zero is positive, negative where rounding goes down; two zeros of a sign keep it.
    let zero = if xm == 0 && ym == 0 && xs == ys {
        xs
    } else {
        rounding == Rounding::Down
    };
    if xm == 0 && ym == 0 {
        return (Value::zero(zero), false);
    }
    if xm == 0 {
        return (y, false);
    }
    if ym == 0 {
        return (x, false);
    }
    let top = |mantissa: u128, exponent: i32| 127 - mantissa.leading_zeros() as i32 + exponent;
    let ((ls, lm, le), (ss, sm, se)) = if top(xm, xe) >= top(ym, ye) {
        ((xs, xm, xe), (ys, ym, ye))
    } else {
        ((ys, ym, ye), (xs, xm, xe))
    };
    // The larger one's highest bit goes to bit 126, which leaves one for the carry.
    let shift = lm.leading_zeros() as i32 - 1;
    let (lm, le) = (lm << shift, le - shift);
    let drop = le - se;
    let (sm, lost) = if drop <= 0 {
        (sm << -drop, false)
    } else if drop > 127 {
        (0, true)
    } else {
        (sm >> drop, sm & ((1 << drop) - 1) != 0)
    };
    // Two magnitudes with the same highest bit are both exact here, in either order.
    let (negative, mantissa) = if ls == ss {
        (ls, lm + sm)
    } else if lm < sm {
        (ss, sm - lm)
    } else {
        // With bits lost the smaller one is a little more than `sm`, so the difference a little
        // more than one less.
        (ls, lm - sm - u128::from(lost))
    };
    if mantissa == 0 && !lost {
        return (Value::zero(zero), false);
    }
    (
        Value::Finite {
            negative,
            mantissa,
            exponent: le,
        },
        lost,
    )
}

fn quotient(x: Value, y: Value) -> Inexact {
    let negative = is_negative(x) != is_negative(y);
    let exact = match (x, y) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite { .. }, Value::Infinite { .. }) => Value::Nan,
        (Value::Finite { mantissa: 0, .. }, Value::Finite { mantissa: 0, .. }) => Value::Nan,
        (Value::Infinite { .. }, _) | (_, Value::Finite { mantissa: 0, .. }) => {
            Value::Infinite { negative }
        }
        (Value::Finite { mantissa: 0, .. }, _) | (_, Value::Infinite { .. }) => {
            Value::zero(negative)
        }
        (
            Value::Finite {
                mantissa: m,
                exponent: e,
                ..
            },
            Value::Finite {
                mantissa: n,
                exponent: f,
                ..
            },
        ) => {
            let shift = m.leading_zeros() as i32;
            let m = m << shift;
            let value = Value::Finite {
                negative,
                mantissa: m / n,
                exponent: e - shift - f,
            };
            return (value, !m.is_multiple_of(n));
        }
    };
    (exact, false)
}

fn root(x: Value) -> Inexact {
    match x {
        Value::Finite { mantissa: 0, .. } => (x, false),
        Value::Infinite { negative: false } => (x, false),
        Value::Finite {
            negative: false,
            mantissa,
            exponent,
        } => {
            // An even exponent, and as many bits as there is room for.
            let shift = mantissa.leading_zeros() as i32;
            let shift = if (exponent - shift) % 2 == 0 {
                shift
            } else {
                shift - 1
            };
            let mantissa = mantissa << shift;
            let whole = mantissa.isqrt();
            let value = Value::Finite {
                negative: false,
                mantissa: whole,
                exponent: (exponent - shift) / 2,
            };
            (value, whole * whole != mantissa)
        }
        _ => (Value::Nan, false),
    }
}

/// How two values compare; `None` if either is NaN.
fn order(x: Value, y: Value) -> Option<std::cmp::Ordering> {
    use std::cmp::Ordering::*;
    if x == Value::Nan || y == Value::Nan {
        return None;
    }
    let zero = |value| matches!(value, Value::Finite { mantissa: 0, .. });
    if zero(x) && zero(y) || x == y {
        return Some(Equal);
    }
    // Compared by the sign of the difference, which is exact but for a bit that cannot hide a sign.
    let difference = sum(x, negate(y), Rounding::NearestEven).0;
    Some(match difference {
        Value::Finite { mantissa: 0, .. } => Equal,
        other if is_negative(other) => Less,
        _ => Greater,
    })
}

/// `min` or `max` of flushed inputs; -0 is less than +0.
fn extremum(
    format: &Format,
    mods: FloatMods,
    a: u64,
    b: u64,
    nan_wins: bool,
    largest: bool,
) -> u64 {
    let nan = |bits| format.decode(bits) == Value::Nan;
    let bits = match (nan(a), nan(b)) {
        (true, true) => format.nan,
        (true, false) | (false, true) if nan_wins => format.nan,
        (true, false) => b,
        (false, true) => a,
        (false, false) => {
            let less = match order(format.decode(a), format.decode(b)) {
                Some(std::cmp::Ordering::Equal) => a & format.sign_bit() != 0,
                order => order == Some(std::cmp::Ordering::Less),
            };
            if less != largest { a } else { b }
        }
    };
    clamp(format, mods, bits)
}
