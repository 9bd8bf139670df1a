//! Floating formats as data: decoding to an exact value, and rounding an exact value once.

use crate::ir::{Rounding, Type};

/// What the largest exponent of a format stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    /// Infinity and NaN, as in IEEE 754.
    Ieee,
    /// Numbers, but for the code with every bit set, which is NaN (`e4m3`).
    OneNan,
    /// Numbers (`e2m1`, `e2m3`, `e3m2`).
    Numbers,
}

/// A binary floating format with a sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Bits of the fraction field.
    pub fraction_bits: u32,
    /// What the largest exponent stands for.
    pub top: Top,
    /// Bits below the fraction that are always zero (`tf32` sits in the bits of an f32).
    pub padding: u32,
    /// The NaN that operations give.
    pub nan: u64,
}

/// An exact number, an infinity, or not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Not a number.
    Nan,
    /// Infinity.
    Infinite {
        /// Whether it is the negative one.
        negative: bool,
    },
    /// `mantissa * 2^exponent`, zero where the mantissa is.
    Finite {
        /// Sign, of zero too.
        negative: bool,
        /// Magnitude's integer factor.
        mantissa: u128,
        /// Magnitude's power of two.
        exponent: i32,
    },
}

impl Value {
    /// Zero of a sign.
    pub const fn zero(negative: bool) -> Value {
        Value::Finite {
            negative,
            mantissa: 0,
            exponent: 0,
        }
    }

    /// An integer.
    pub const fn integer(value: i128) -> Value {
        Value::Finite {
            negative: value < 0,
            mantissa: value.unsigned_abs(),
            exponent: 0,
        }
    }
}

impl Format {
    /// The format of a scalar floating type; `None` for integers, packed types and `ue8m0`.
    pub const fn of(ty: Type) -> Option<Format> {
        let (exponent_bits, fraction_bits, top, nan) = match ty {
            Type::F64 => (11, 52, Top::Ieee, 0x7fff_ffff_ffff_ffff),
            Type::F32 => (8, 23, Top::Ieee, 0x7fff_ffff),
            Type::TF32 => (8, 10, Top::Ieee, 0x7fff_ffff),
            Type::F16 => (5, 10, Top::Ieee, 0x7fff),
            Type::BF16 => (8, 7, Top::Ieee, 0x7fff),
            Type::E4M3 => (4, 3, Top::OneNan, 0x7f),
            Type::E5M2 => (5, 2, Top::Ieee, 0x7f),
            Type::E2M1 => (2, 1, Top::Numbers, 0x7),
            Type::E2M3 => (2, 3, Top::Numbers, 0x1f),
            Type::E3M2 => (3, 2, Top::Numbers, 0x1f),
            _ => return None,
        };
        Some(Format {
            exponent_bits,
            fraction_bits,
            top,
            padding: if matches!(ty, Type::TF32) { 13 } else { 0 },
            nan,
        })
    }

    const fn bias(&self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Exponent of the least significant bit of a subnormal.
    const fn least_exponent(&self) -> i32 {
        1 - self.bias() - self.fraction_bits as i32
    }

    /// The sign bit.
    pub const fn sign_bit(&self) -> u64 {
        1 << (self.exponent_bits + self.fraction_bits + self.padding)
    }

    /// Bits of positive infinity; `None` where there is none.
    pub const fn infinity(&self) -> Option<u64> {
        match self.top {
            Top::Ieee => {
                Some(((1 << self.exponent_bits) - 1) << self.fraction_bits << self.padding)
            }
            _ => None,
        }
    }

    /// Bits of the largest number.
    pub const fn largest(&self) -> u64 {
        let all = (1u64 << (self.exponent_bits + self.fraction_bits)) - 1;
        let unpadded = match self.top {
            Top::Ieee => (((1 << self.exponent_bits) - 1) << self.fraction_bits) - 1,
            Top::OneNan => all - 1,
            Top::Numbers => all,
        };
        unpadded << self.padding
    }

    /// Whether bits are a subnormal number or zero.
    pub const fn is_tiny(&self, bits: u64) -> bool {
        (bits & (self.sign_bit() - 1)) >> (self.fraction_bits + self.padding) == 0
    }

    /// Bits with a subnormal number replaced by zero of its sign.
    pub const fn flush(&self, bits: u64) -> u64 {
        if self.is_tiny(bits) {
            bits & self.sign_bit()
        } else {
            bits
        }
    }

    /// The value of bits; bits above the format are ignored.
    pub const fn decode(&self, bits: u64) -> Value {
        let negative = bits & self.sign_bit() != 0;
        let magnitude = (bits & (self.sign_bit() - 1)) >> self.padding;
        let fraction = magnitude & ((1 << self.fraction_bits) - 1);
        let field = (magnitude >> self.fraction_bits) as i32;
        let at_top = field == (1 << self.exponent_bits) - 1;
        match self.top {
            Top::Ieee if at_top && fraction == 0 => return Value::Infinite { negative },
            Top::Ieee if at_top => return Value::Nan,
            Top::OneNan if at_top && fraction == (1 << self.fraction_bits) - 1 => {
                return Value::Nan;
            }
            _ => {}
        }
        let (mantissa, exponent) = if field == 0 {
            (fraction, self.least_exponent())
        } else {
            (
                fraction | 1 << self.fraction_bits,
                self.least_exponent() + field - 1,
            )
        };
        Value::Finite {
            negative,
            mantissa: mantissa as u128,
            exponent,
        }
    }

    /// Rounds an exact value once. `sticky` says that the magnitude is a little above `mantissa`,
    /// by less than one unit of it; the mantissa then has more bits than the format keeps.
    ///
    /// A value too large becomes infinity or the largest number as IEEE 754 rounds; with
    /// `saturate` always the largest number. A format without infinity gives NaN instead, one
    /// without NaN either gives the largest number.
    pub fn encode(&self, value: Value, sticky: bool, rounding: Rounding, saturate: bool) -> u64 {
        match value {
            Value::Nan => self.nan,
            Value::Infinite { negative } => self.signed(negative, self.overflow(saturate, true)),
            Value::Finite {
                negative,
                mantissa: 0,
                ..
            } => self.signed(negative, 0),
            Value::Finite {
                negative,
                mantissa,
                exponent,
            } => {
                let top = 127 - mantissa.leading_zeros() as i32 + exponent;
                let least = self.least_exponent();
                let unit = (top - self.fraction_bits as i32).max(least);
                let kept = round_at(mantissa, exponent, unit, sticky, negative, rounding);
                // A kept value with the implicit bit set adds one to the exponent field.
                let field = (unit - least) as u64;
                let magnitude = (field << self.fraction_bits) + kept as u64;
                let magnitude = magnitude.min(1 << (self.exponent_bits + self.fraction_bits));
                let magnitude = magnitude << self.padding;
                if magnitude <= self.largest() {
                    return self.signed(negative, magnitude);
                }
                let to_infinity = match rounding {
                    Rounding::NearestEven | Rounding::NearestAway => true,
                    Rounding::Zero => false,
                    Rounding::Down => negative,
                    Rounding::Up => !negative,
                };
                self.signed(negative, self.overflow(saturate, to_infinity))
            }
        }
    }

    fn overflow(&self, saturate: bool, to_infinity: bool) -> u64 {
        match self.top {
            _ if saturate || !to_infinity => self.largest(),
            Top::Ieee => self.infinity().unwrap_or(self.largest()),
            Top::OneNan => self.nan,
            Top::Numbers => self.largest(),
        }
    }

    fn signed(&self, negative: bool, magnitude: u64) -> u64 {
        if negative {
            magnitude | self.sign_bit()
        } else {
            magnitude
        }
    }
}

/// `mantissa * 2^exponent` (and a little more, if `sticky`) as a whole number of `2^unit`.
pub(super) fn round_at(
    mantissa: u128,
    exponent: i32,
    unit: i32,
    sticky: bool,
    negative: bool,
    rounding: Rounding,
) -> u128 {
    let drop = unit - exponent;
    if drop <= 0 {
        debug_assert!(!sticky, "rounding needs more bits than the format keeps");
        return mantissa << -drop;
    }
    let (whole, half, rest) = if drop > 128 {
        (0, false, mantissa != 0)
    } else if drop == 128 {
        (0, mantissa >> 127 == 1, mantissa << 1 != 0)
    } else {
        let below = mantissa & ((1 << drop) - 1);
        let half = 1 << (drop - 1);
        (mantissa >> drop, below & half != 0, below & (half - 1) != 0)
    };
    let rest = rest || sticky;
    let up = match rounding {
        Rounding::NearestEven => half && (rest || whole & 1 == 1),
        Rounding::NearestAway => half,
        Rounding::Zero => false,
        Rounding::Down => negative && (half || rest),
        Rounding::Up => !negative && (half || rest),
    };
    whole + u128::from(up)
}
