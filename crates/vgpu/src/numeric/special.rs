//! The approximations: exact answers at the corners, elsewhere a value and the error that the ISA allows.

use super::format::{Format, Value};
use crate::ir::{FloatBinary, FloatUnary, Type};

/// How far a result may be from the exact value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Units in the last place of the correctly rounded result.
    Ulp(u32),
    /// Times the exact value.
    Relative(f64),
    /// In itself.
    Absolute(f64),
}

/// What an approximation must give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Approximation {
    /// These bits; any NaN where they are a NaN.
    Exact(u64),
    /// A result near a value.
    Near {
        /// The value, to the precision of f64.
        value: f64,
        /// How near.
        bound: Bound,
    },
}

impl Approximation {
    /// Whether bits of type `ty` are a right answer. `ftz` allows zero for a subnormal result.
    pub fn accepts(self, ty: Type, ftz: bool, bits: u64) -> bool {
        let Some(format) = Format::of(ty) else {
            return false;
        };
        let got = format.decode(bits);
        match self {
            Approximation::Exact(expected) => {
                bits == expected || got == Value::Nan && format.decode(expected) == Value::Nan
            }
            Approximation::Near { value, bound } => {
                let nearest = encode(&format, value);
                // One step of the format where it is coarser than the bound: among subnormals, and by rounding.
                let step = step(&format, nearest);
                if ftz && format.is_tiny(nearest) && format.is_tiny(bits) {
                    return bits == format.flush(bits);
                }
                if bits == nearest {
                    return true;
                }
                // Flushing may also meet a result that lies on the edge of the subnormal range.
                let edge = ftz
                    && value.abs() < 2.0 * smallest_normal(&format)
                    && bits & !format.sign_bit() == 0;
                if edge {
                    return true;
                }
                let allowed = match bound {
                    Bound::Ulp(n) => {
                        let distance = (to_f64(got) - to_f64(format.decode(nearest))).abs();
                        return distance <= f64::from(n) * step;
                    }
                    Bound::Relative(error) => error * value.abs() + step / 2.0,
                    Bound::Absolute(error) => error + step / 2.0,
                };
                (to_f64(got) - value).abs() <= allowed
            }
        }
    }
}

/// What `op.approx` of `a` must be; `None` for the exact operations and for types without it.
pub fn special(op: FloatUnary, ty: Type, ftz: bool, a: u64) -> Option<Approximation> {
    let format = Format::of(ty)?;
    let a = if ftz { format.flush(a) } else { a };
    let value = format.decode(a);
    let x = to_f64(value);
    let negative_zero = a == format.sign_bit();
    let near = |value: f64, bound| {
        Some(if value.is_nan() {
            Approximation::Exact(format.nan)
        } else if value.is_infinite() || value == 0.0 {
            Approximation::Exact(encode(&format, value))
        } else {
            Approximation::Near { value, bound }
        })
    };
    if value == Value::Nan {
        return Some(Approximation::Exact(format.nan));
    }
    match (op, ty) {
        (FloatUnary::RcpApprox, Type::F32) => near(1.0 / x, Bound::Ulp(1)),
        (FloatUnary::SqrtApprox, Type::F32) if negative_zero => Some(Approximation::Exact(a)),
        (FloatUnary::SqrtApprox, Type::F32) => near(x.sqrt(), Bound::Relative(exp2(-23.0))),
        (FloatUnary::RsqrtApprox, Type::F32) => {
            let value = if x == 0.0 { 1.0 / x } else { 1.0 / x.sqrt() };
            near(value, Bound::Relative(exp2(-22.9)))
        }
        (FloatUnary::Ex2Approx, Type::F32) => near(x.exp2(), Bound::Ulp(2)),
        (FloatUnary::Ex2Approx, Type::F16) => near(x.exp2(), Bound::Relative(exp2(-9.9))),
        (FloatUnary::Ex2Approx, Type::BF16) => near(x.exp2(), Bound::Relative(exp2(-7.0))),
        (FloatUnary::Lg2Approx, Type::F32) => {
            let bound = if x > 0.5 && x < 2.0 {
                Bound::Absolute(exp2(-22.0))
            } else {
                Bound::Relative(exp2(-22.0))
            };
            // -0 is a zero, not a negative number.
            near(x.abs().log2(), bound).map(|special| {
                if x < 0.0 {
                    Approximation::Exact(format.nan)
                } else {
                    special
                }
            })
        }
        (FloatUnary::SinApprox, Type::F32) if x == 0.0 => Some(Approximation::Exact(a)),
        (FloatUnary::SinApprox, Type::F32) => near(x.sin(), circular(x)),
        (FloatUnary::CosApprox, Type::F32) => near(x.cos(), circular(x)),
        (FloatUnary::TanhApprox, Type::F32) => near(x.tanh(), Bound::Relative(exp2(-11.0))),
        (FloatUnary::TanhApprox, Type::F16) => near(x.tanh(), Bound::Absolute(exp2(-10.987))),
        (FloatUnary::TanhApprox, Type::BF16) => near(x.tanh(), Bound::Absolute(exp2(-8.0))),
        _ => None,
    }
    .map(|special| match special {
        // A zero argument's sign is kept by tanh.
        Approximation::Exact(_) if op == FloatUnary::TanhApprox && x == 0.0 => {
            Approximation::Exact(a)
        }
        other => other,
    })
}

/// What `div.full.f32` or `div.approx.f32` must be; `None` for other operations.
pub fn special_division(op: FloatBinary, ftz: bool, a: u64, b: u64) -> Option<Approximation> {
    let format = Format::of(Type::F32)?;
    let flush = |bits| if ftz { format.flush(bits) } else { bits };
    let (a, b) = (flush(a), flush(b));
    let (x, y) = (to_f64(format.decode(a)), to_f64(format.decode(b)));
    let sign = (a ^ b) & format.sign_bit();
    let quotient = x / y;
    let infinity = format.infinity()?;
    match op {
        FloatBinary::DivFull => {}
        FloatBinary::DivApprox if y.is_finite() && y.abs() > exp2(126.0) => {
            return Some(Approximation::Exact(if x.is_infinite() || x.is_nan() {
                format.nan
            } else {
                sign
            }));
        }
        FloatBinary::DivApprox => {}
        _ => return None,
    }
    Some(if quotient.is_nan() {
        Approximation::Exact(format.nan)
    } else if quotient.is_infinite() {
        Approximation::Exact(sign | infinity)
    } else if quotient == 0.0 {
        Approximation::Exact(sign)
    } else {
        Approximation::Near {
            value: quotient,
            bound: Bound::Ulp(2),
        }
    })
}

/// The error of sine and cosine by the range of the argument; beyond it only the result's range holds.
fn circular(x: f64) -> Bound {
    use std::f64::consts::PI;
    if x.abs() <= 2.0 * PI {
        Bound::Absolute(exp2(-20.5))
    } else if x.abs() <= 100.0 * PI {
        Bound::Absolute(exp2(-14.7))
    } else {
        Bound::Absolute(2.0)
    }
}

fn exp2(x: f64) -> f64 {
    x.exp2()
}

pub(super) fn to_f64(value: Value) -> f64 {
    let format = match Format::of(Type::F64) {
        Some(format) => format,
        None => return f64::NAN,
    };
    f64::from_bits(format.encode(value, false, crate::ir::Rounding::NearestEven, false))
}

fn encode(format: &Format, value: f64) -> u64 {
    let exact = Format::of(Type::F64).map_or(Value::Nan, |f64| f64.decode(value.to_bits()));
    format.encode(exact, false, crate::ir::Rounding::NearestEven, false)
}

/// Distance from a number of the format to the next larger in magnitude.
fn step(format: &Format, bits: u64) -> f64 {
    let magnitude = (bits & (format.sign_bit() - 1)).min(format.largest() - 1);
    to_f64(format.decode(magnitude + 1)) - to_f64(format.decode(magnitude))
}

fn smallest_normal(format: &Format) -> f64 {
    to_f64(format.decode(1 << (format.fraction_bits + format.padding)))
}
