//! The reference against other implementations: the hardware, the `half` crate, `ml_dtypes`, exact integers.

mod approximations;
mod hardware;
mod integers;
mod narrow;
mod rules;

use super::*;
use crate::ir::*;

const PLAIN: FloatMods = FloatMods {
    rounding: Rounding::NearestEven,
    ftz: false,
    sat: false,
    relu: false,
};

const ROUNDINGS: [Rounding; 4] = [
    Rounding::NearestEven,
    Rounding::Zero,
    Rounding::Down,
    Rounding::Up,
];

fn rounded(rounding: Rounding) -> FloatMods {
    FloatMods { rounding, ..PLAIN }
}

/// A small generator (xorshift), so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Bits of a floating number, often at an edge of the format or near another one.
    fn float(&mut self, ty: Type, near: u64) -> u64 {
        let format = Format::of(ty).expect("a floating type");
        let bits = self.next() & mask(ty);
        match self.next() % 8 {
            0 => bits & format.sign_bit() | format.largest(),
            1 => bits & (format.sign_bit() | ((1 << format.fraction_bits) - 1)),
            2 => bits & format.sign_bit(),
            3 => near ^ (bits & 3) ^ (bits & format.sign_bit()),
            4 => near ^ (bits & ((1 << format.fraction_bits) - 1)),
            5 => bits & format.sign_bit() | format.infinity().unwrap_or(0),
            6 => bits & !((1 << (format.fraction_bits / 2)) - 1),
            _ => bits,
        }
    }
}

fn same(ty: Type, got: u64, expected: u64) -> bool {
    let format = Format::of(ty).expect("a floating type");
    got == expected
        || format.decode(got) == Value::Nan
            && got == format.nan
            && format.decode(expected) == Value::Nan
}
