//! The reference against other implementations: the hardware, the `half` crate, `ml_dtypes`, exact integers.

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

// ---- 16 bits, exhaustively, against `half` ----

#[test]
fn every_16_bit_float_widens_as_half_says() {
    for bits in 0..=0xffffu16 {
        for (ty, expected) in [
            (Type::F16, half::f16::from_bits(bits).to_f32()),
            (Type::BF16, half::bf16::from_bits(bits).to_f32()),
        ] {
            let got = cvt(Type::F32, ty, PLAIN, false, u64::from(bits)).expect("exists");
            assert!(
                same(Type::F32, got, u64::from(expected.to_bits())),
                "{ty:?} {bits:x}"
            );
            let wide = cvt(Type::F64, ty, PLAIN, false, u64::from(bits)).expect("exists");
            assert!(
                same(Type::F64, wide, f64::from(expected).to_bits()),
                "{ty:?} {bits:x}"
            );
        }
    }
}

#[test]
fn f32_narrows_to_16_bits_as_half_says() {
    let mut random = Random(1);
    let check = |bits: u32| {
        let value = f32::from_bits(bits);
        for (ty, expected) in [
            (Type::F16, half::f16::from_f32(value).to_bits()),
            (Type::BF16, half::bf16::from_f32(value).to_bits()),
        ] {
            let got = cvt(ty, Type::F32, PLAIN, false, u64::from(bits)).expect("exists");
            assert!(
                same(ty, got, u64::from(expected)),
                "{ty:?} {bits:08x} {got:x} {expected:x}"
            );
        }
    };
    // Every 16-bit pattern as the upper half, with lower halves at and beside a tie; both formats' ties are among them.
    for high in 0..=0xffffu32 {
        for low in [0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff] {
            check(high << 16 | low);
        }
        check(high << 16 | random.next() as u32 & 0xffff);
    }
}

#[test]
fn arithmetic_of_16_bits_is_the_f64_result_rounded_once() {
    let mut random = Random(2);
    for a in 0..=0xffffu16 {
        for _ in 0..4 {
            let b = random.float(Type::F16, u64::from(a)) as u16;
            let (x, y) = (half::f16::from_bits(a), half::f16::from_bits(b));
            let (x, y) = (x.to_f64(), y.to_f64());
            // Sums and products of f16 are exact in f64.
            for (op, exact) in [
                (FloatBinary::Add, x + y),
                (FloatBinary::Sub, x - y),
                (FloatBinary::Mul, x * y),
            ] {
                let got = float_binary(op, Type::F16, PLAIN, u64::from(a), u64::from(b));
                let expected = half::f16::from_f64(exact).to_bits();
                assert!(
                    same(Type::F16, got.expect("exists"), u64::from(expected)),
                    "{op:?} {a:x} {b:x}"
                );
            }
            // Products of bf16 are exact in f32, but for those that f32 cannot hold; sums are not.
            let (x, y) = (half::bf16::from_bits(a), half::bf16::from_bits(b));
            let exact = x.to_f64() * y.to_f64();
            let got = float_binary(
                FloatBinary::Mul,
                Type::BF16,
                PLAIN,
                u64::from(a),
                u64::from(b),
            );
            let expected = half::bf16::from_f64(exact).to_bits();
            assert!(
                same(Type::BF16, got.expect("exists"), u64::from(expected)),
                "{a:x} {b:x}"
            );
        }
    }
}

#[test]
fn packed_operations_are_two_scalar_ones() {
    let mut random = Random(3);
    for (packed, scalar) in [
        (Type::F16x2, Type::F16),
        (Type::BF16x2, Type::BF16),
        (Type::F32x2, Type::F32),
    ] {
        for _ in 0..2000 {
            let [a, b, c] = [0; 3].map(|_| random.next() & mask(packed));
            let half = scalar.bits();
            let low = |bits: u64| bits & mask(scalar);
            let high = |bits: u64| bits >> half;
            let expected = fma(scalar, PLAIN, low(a), low(b), low(c)).expect("exists")
                | fma(scalar, PLAIN, high(a), high(b), high(c)).expect("exists") << half;
            assert_eq!(fma(packed, PLAIN, a, b, c), Some(expected));
        }
    }
}

// ---- 8, 6 and 4 bits against ml_dtypes ----

fn fixture(kind: &str) -> Vec<(Type, Vec<&'static str>)> {
    include_str!("../../fixtures/narrow.txt")
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            if words.next() != Some(kind) {
                return None;
            }
            let name = words.next()?;
            let ty = Type::ALL.into_iter().find(|ty| ty.name() == name)?;
            Some((ty, words.collect()))
        })
        .collect()
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("hexadecimal")
}

fn pair(text: &str) -> (u64, u64) {
    let (left, right) = text.split_once(':').expect("a pair");
    (hex(left), hex(right))
}

#[test]
fn every_narrow_code_has_the_value_that_ml_dtypes_reads() {
    let tables = fixture("decode");
    assert_eq!(tables.len(), 6);
    for (ty, values) in tables {
        assert_eq!(values.len(), 1 << ty.bits());
        for (code, value) in values.into_iter().enumerate() {
            let got = cvt(Type::F32, ty, PLAIN, false, code as u64).expect("exists");
            assert_eq!(got, hex(value), "{ty:?} {code:x}");
        }
    }
}

#[test]
fn every_f16_rounds_to_the_narrow_code_that_ml_dtypes_gives() {
    let tables = fixture("encode");
    assert_eq!(tables.len(), 5);
    for (ty, runs) in tables {
        let runs: Vec<_> = runs.into_iter().map(pair).collect();
        let finite = matches!(ty, Type::E4M3 | Type::E5M2);
        for (index, &(start, code)) in runs.iter().enumerate() {
            let end = runs.get(index + 1).map_or(0x7c00, |run| run.0);
            for bits in start..end {
                let got = cvt(ty, Type::F16, PLAIN, !finite, bits).expect("exists");
                assert_eq!(got, code, "{ty:?} {bits:x}");
                let negative = cvt(ty, Type::F16, PLAIN, !finite, bits | 0x8000).expect("exists");
                let sign = if code == 0x7f && ty == Type::E4M3 {
                    negative & 0x80
                } else {
                    1 << (ty.bits() - 1)
                };
                assert_eq!(negative, code | sign, "{ty:?} -{bits:x}");
            }
        }
    }
}

#[test]
fn f32_beside_a_tie_rounds_to_the_narrow_code_that_ml_dtypes_gives() {
    let tables = fixture("encode32");
    assert_eq!(tables.len(), 5);
    for (ty, points) in tables {
        for (bits, code) in points.into_iter().map(pair) {
            assert_eq!(
                cvt(ty, Type::F32, PLAIN, true, bits),
                Some(code),
                "{ty:?} {bits:x}"
            );
        }
    }
}

#[test]
fn out_of_range_and_nan_become_what_the_isa_says() {
    let f32_bits = |value: f32| u64::from(value.to_bits());
    let (big, inf, nan) = (f32_bits(1e6), f32_bits(f32::INFINITY), f32_bits(f32::NAN));
    let (neg_big, neg_inf) = (f32_bits(-1e6), f32_bits(f32::NEG_INFINITY));
    for (ty, satfinite, source, expected) in [
        (Type::E4M3, true, big, 0x7e),
        (Type::E4M3, true, neg_big, 0xfe),
        (Type::E4M3, true, inf, 0x7e),
        (Type::E4M3, true, nan, 0x7f),
        (Type::E4M3, false, big, 0x7f),
        (Type::E5M2, true, big, 0x7b),
        (Type::E5M2, true, neg_inf, 0xfb),
        (Type::E5M2, true, nan, 0x7f),
        (Type::E5M2, false, big, 0x7c),
        (Type::E5M2, false, neg_inf, 0xfc),
        (Type::E2M1, true, nan, 0x7),
        (Type::E2M1, true, neg_inf, 0xf),
        (Type::E2M3, true, nan, 0x1f),
        (Type::E3M2, true, neg_big, 0x3f),
        (Type::F16, false, big, 0x7c00),
        (Type::F16, true, big, 0x7bff),
        (Type::F16, true, neg_inf, 0xfbff),
        (Type::F16, true, nan, 0x7fff),
        (Type::BF16, true, inf, 0x7f7f),
    ] {
        let got = cvt(ty, Type::F32, PLAIN, satfinite, source);
        assert_eq!(got, Some(expected), "{ty:?} {satfinite} {source:x}");
    }
}

#[test]
fn ue8m0_rounds_up_or_down_to_powers_of_two() {
    let code = |value: f32, rounding, satfinite| {
        cvt(
            Type::UE8M0,
            Type::F32,
            rounded(rounding),
            satfinite,
            u64::from(value.to_bits()),
        )
        .expect("exists")
    };
    for (value, down, up) in [
        (1.0, 127, 127),
        (1.5, 127, 128),
        (2.0, 128, 128),
        (f32::MIN_POSITIVE, 1, 1),
        (f32::from_bits(0x0040_0000), 0, 0),
        (f32::from_bits(0x0040_0001), 0, 1),
        (f32::from_bits(1), 0, 0),
        (0.0, 0, 0),
        (f32::MAX, 254, 255),
    ] {
        assert_eq!(code(value, Rounding::Zero, false), down, "{value}");
        assert_eq!(code(value, Rounding::Up, false), up, "{value}");
    }
    assert_eq!(code(f32::MAX, Rounding::Up, true), 254);
    assert_eq!(code(f32::NAN, Rounding::Up, true), 255);
}

#[test]
fn tf32_keeps_ten_bits_and_ties_go_away_from_zero() {
    let to = |bits, rounding| cvt(Type::TF32, Type::F32, rounded(rounding), false, bits);
    for (bits, away, even, zero) in [
        (0x3f80_1000, 0x3f80_2000, 0x3f80_0000, 0x3f80_0000),
        (0x3f80_0fff, 0x3f80_0000, 0x3f80_0000, 0x3f80_0000),
        (0x3f80_3000, 0x3f80_4000, 0x3f80_4000, 0x3f80_2000),
        (0xbf80_1000, 0xbf80_2000, 0xbf80_0000, 0xbf80_0000),
        (0x7f7f_ffff, 0x7f80_0000, 0x7f80_0000, 0x7f7f_e000),
        (0x0000_1000, 0x0000_2000, 0x0000_0000, 0x0000_0000),
        (0x7f80_0001, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff),
    ] {
        assert_eq!(to(bits, Rounding::NearestAway), Some(away), "{bits:x}");
        assert_eq!(to(bits, Rounding::NearestEven), Some(even), "{bits:x}");
        assert_eq!(to(bits, Rounding::Zero), Some(zero), "{bits:x}");
    }
}

// ---- 32 and 64 bits against the hardware, in each rounding ----

#[cfg(target_arch = "x86_64")]
mod hardware {
    use std::arch::asm;

    use super::*;

    fn control(rounding: Rounding) -> u32 {
        // MXCSR: all exceptions masked, rounding in bits 13 and 14.
        0x1f80
            | match rounding {
                Rounding::NearestEven | Rounding::NearestAway => 0,
                Rounding::Down => 0x2000,
                Rounding::Up => 0x4000,
                Rounding::Zero => 0x6000,
            }
    }

    macro_rules! binary {
        ($name:ident, $ty:ty, $instruction:literal) => {
            fn $name(rounding: Rounding, a: $ty, b: $ty) -> $ty {
                let mut result = a;
                let (mode, default) = (control(rounding), 0x1f80u32);
                // SAFETY: changes the rounding for one instruction and restores the default before
                // anything else runs; reads two words on the stack.
                unsafe {
                    asm!(
                        "ldmxcsr [{mode}]",
                        $instruction,
                        "ldmxcsr [{default}]",
                        mode = in(reg) &mode,
                        default = in(reg) &default,
                        a = inout(xmm_reg) result,
                        b = in(xmm_reg) b,
                        options(nostack),
                    );
                }
                result
            }
        };
    }

    binary!(add32, f32, "addss {a}, {b}");
    binary!(sub32, f32, "subss {a}, {b}");
    binary!(mul32, f32, "mulss {a}, {b}");
    binary!(div32, f32, "divss {a}, {b}");
    binary!(sqrt32, f32, "sqrtss {a}, {b}");
    binary!(add64, f64, "addsd {a}, {b}");
    binary!(sub64, f64, "subsd {a}, {b}");
    binary!(mul64, f64, "mulsd {a}, {b}");
    binary!(div64, f64, "divsd {a}, {b}");
    binary!(sqrt64, f64, "sqrtsd {a}, {b}");

    fn narrow(rounding: Rounding, a: f64) -> f32 {
        let mut result = 0f32;
        let (mode, default) = (control(rounding), 0x1f80u32);
        // SAFETY: as above.
        unsafe {
            asm!(
                "ldmxcsr [{mode}]", "cvtsd2ss {r}, {a}", "ldmxcsr [{default}]",
                mode = in(reg) &mode, default = in(reg) &default,
                r = inout(xmm_reg) result, a = in(xmm_reg) a, options(nostack),
            );
        }
        result
    }

    fn from_integer(rounding: Rounding, a: i64) -> f32 {
        let mut result = 0f32;
        let (mode, default) = (control(rounding), 0x1f80u32);
        // SAFETY: as above.
        unsafe {
            asm!(
                "ldmxcsr [{mode}]", "cvtsi2ss {r}, {a}", "ldmxcsr [{default}]",
                mode = in(reg) &mode, default = in(reg) &default,
                r = inout(xmm_reg) result, a = in(reg) a, options(nostack),
            );
        }
        result
    }

    fn to_integer(rounding: Rounding, a: f64) -> i64 {
        let result: i64;
        let (mode, default) = (control(rounding), 0x1f80u32);
        // SAFETY: as above.
        unsafe {
            asm!(
                "ldmxcsr [{mode}]", "cvtsd2si {r}, {a}", "ldmxcsr [{default}]",
                mode = in(reg) &mode, default = in(reg) &default,
                r = out(reg) result, a = in(xmm_reg) a, options(nostack),
            );
        }
        result
    }

    #[test]
    fn f32_arithmetic_rounds_as_the_hardware_does() {
        let mut random = Random(4);
        let mut near = 0;
        for _ in 0..200_000 {
            let a = random.float(Type::F32, near);
            let b = random.float(Type::F32, a);
            near = b;
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            for rounding in ROUNDINGS {
                let mods = rounded(rounding);
                for (op, expected) in [
                    (FloatBinary::Add, add32(rounding, x, y)),
                    (FloatBinary::Sub, sub32(rounding, x, y)),
                    (FloatBinary::Mul, mul32(rounding, x, y)),
                    (FloatBinary::Div, div32(rounding, x, y)),
                ] {
                    let got = float_binary(op, Type::F32, mods, a, b).expect("exists");
                    let expected = u64::from(expected.to_bits());
                    assert!(
                        same(Type::F32, got, expected),
                        "{op:?} {rounding:?} {a:x} {b:x} {got:x} {expected:x}"
                    );
                }
                let got = float_unary(FloatUnary::Sqrt, Type::F32, mods, a).expect("exists");
                let expected = u64::from(sqrt32(rounding, x, x).to_bits());
                assert!(same(Type::F32, got, expected), "sqrt {rounding:?} {a:x}");
                let got = float_unary(FloatUnary::Rcp, Type::F32, mods, a).expect("exists");
                let expected = u64::from(div32(rounding, 1.0, x).to_bits());
                assert!(same(Type::F32, got, expected), "rcp {rounding:?} {a:x}");
            }
        }
    }

    #[test]
    fn f64_arithmetic_rounds_as_the_hardware_does() {
        let mut random = Random(5);
        let mut near = 0;
        for _ in 0..50_000 {
            let a = random.float(Type::F64, near);
            let b = random.float(Type::F64, a);
            near = b;
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            for rounding in ROUNDINGS {
                let mods = rounded(rounding);
                for (op, expected) in [
                    (FloatBinary::Add, add64(rounding, x, y)),
                    (FloatBinary::Sub, sub64(rounding, x, y)),
                    (FloatBinary::Mul, mul64(rounding, x, y)),
                    (FloatBinary::Div, div64(rounding, x, y)),
                ] {
                    let got = float_binary(op, Type::F64, mods, a, b).expect("exists");
                    assert!(
                        same(Type::F64, got, expected.to_bits()),
                        "{op:?} {rounding:?} {a:x} {b:x}"
                    );
                }
                let got = float_unary(FloatUnary::Sqrt, Type::F64, mods, a).expect("exists");
                let expected = sqrt64(rounding, x, x).to_bits();
                assert!(same(Type::F64, got, expected), "sqrt {rounding:?} {a:x}");
            }
        }
    }

    #[test]
    fn conversions_round_as_the_hardware_does() {
        let mut random = Random(6);
        let mut near = 0;
        for _ in 0..100_000 {
            let a = random.float(Type::F64, near);
            near = a;
            let x = f64::from_bits(a);
            for rounding in ROUNDINGS {
                let mods = rounded(rounding);
                let got = cvt(Type::F32, Type::F64, mods, false, a).expect("exists");
                let expected = u64::from(narrow(rounding, x).to_bits());
                assert!(
                    same(Type::F32, got, expected),
                    "{rounding:?} {a:x} {got:x} {expected:x}"
                );
                let integer = a as i64 >> (a & 63);
                let got = cvt(Type::F32, Type::S64, mods, false, integer as u64).expect("exists");
                let expected = from_integer(rounding, integer);
                assert_eq!(got, u64::from(expected.to_bits()), "{rounding:?} {integer}");
                let small = f64::from_bits(a & !(0x7ff << 52) | (1000 + a % 80) << 52);
                let got = cvt(Type::S64, Type::F64, mods, false, small.to_bits()).expect("exists");
                let expected = to_integer(rounding, small);
                // The hardware gives the least integer for what does not fit, the ISA the nearest.
                if small.abs() < 9.2e18 {
                    assert_eq!(got as i64, expected, "{rounding:?} {small}");
                } else {
                    assert_eq!(
                        got as i64,
                        if small > 0.0 { i64::MAX } else { i64::MIN },
                        "{small}"
                    );
                }
            }
        }
    }
}

#[test]
fn fma_rounds_once() {
    let mut random = Random(7);
    let mut near = 0;
    for _ in 0..100_000 {
        let a = random.float(Type::F64, near);
        let b = random.float(Type::F64, a);
        let c = random.float(Type::F64, b);
        near = c;
        let expected = f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c));
        let got = fma(Type::F64, PLAIN, a, b, c).expect("exists");
        assert!(
            same(Type::F64, got, expected.to_bits()),
            "{a:x} {b:x} {c:x} {got:x}"
        );
        let [a, b, c] = [a, b, c].map(|bits| bits >> 32);
        let [x, y, z] = [a, b, c].map(|bits| f32::from_bits(bits as u32));
        let got = fma(Type::F32, PLAIN, a, b, c).expect("exists");
        assert!(
            same(Type::F32, got, u64::from(x.mul_add(y, z).to_bits())),
            "{a:x} {b:x} {c:x} {got:x}"
        );
        // A cancellation that only a product of full width survives.
        let got = fma(Type::F32, PLAIN, a, b, u64::from((-(x * y)).to_bits())).expect("exists");
        assert!(
            same(Type::F32, got, u64::from(x.mul_add(y, -(x * y)).to_bits())),
            "{a:x} {b:x}"
        );
    }
}

/// f32 `a * b + c` in a directed rounding is bracketed by the exact value: two roundings give the
/// neighbours, equal where it is exact.
#[test]
fn directed_fma_brackets_the_exact_value() {
    let mut random = Random(8);
    for _ in 0..20_000 {
        let [a, b, c] = [0; 3].map(|_| random.next() & 0xbfff_ffff);
        let in_rounding = |rounding| {
            let bits = fma(Type::F32, rounded(rounding), a, b, c).expect("exists");
            f32::from_bits(bits as u32)
        };
        let (down, up, zero) = (
            in_rounding(Rounding::Down),
            in_rounding(Rounding::Up),
            in_rounding(Rounding::Zero),
        );
        let nearest = in_rounding(Rounding::NearestEven);
        assert!(down <= nearest && nearest <= up);
        assert!(down == up || down.next_up() == up, "{down} {up}");
        assert!(zero.abs() <= nearest.abs() && (zero == down || zero == up));
    }
}

// ---- rules by hand, from the ISA's text ----

#[test]
fn minimum_and_maximum_follow_the_rules_for_nan_and_zero() {
    let nan = 0x7fc0_0001;
    let (one, two, zero, minus_zero) = (0x3f80_0000, 0x4000_0000, 0, 0x8000_0000);
    let minus_two = 0xc000_0000;
    for (op, a, b, expected) in [
        (FloatBinary::Min, one, two, one),
        (FloatBinary::Min, nan, two, two),
        (FloatBinary::Min, one, nan, one),
        (FloatBinary::Min, nan, nan, 0x7fff_ffff),
        (FloatBinary::Min, zero, minus_zero, minus_zero),
        (FloatBinary::Max, minus_zero, zero, zero),
        (FloatBinary::MinNan, nan, two, 0x7fff_ffff),
        (FloatBinary::MaxNan, one, two, two),
        (FloatBinary::MaxNan, one, nan, 0x7fff_ffff),
        (FloatBinary::MinXorsignAbs, one, minus_two, 0xbf80_0000),
        (FloatBinary::MaxXorsignAbs, minus_two, minus_two, two),
        (FloatBinary::MaxXorsignAbs, minus_two, nan, minus_two),
        (FloatBinary::Copysign, minus_two, one, 0xbf80_0000),
    ] {
        assert_eq!(
            float_binary(op, Type::F32, PLAIN, a, b),
            Some(expected),
            "{op:?} {a:x} {b:x}"
        );
    }
}

#[test]
fn modifiers_clamp_and_flush() {
    let bits = |value: f32| u64::from(value.to_bits());
    let sat = FloatMods { sat: true, ..PLAIN };
    let ftz = FloatMods { ftz: true, ..PLAIN };
    let relu = FloatMods {
        relu: true,
        ..PLAIN
    };
    let add = |mods, a, b| float_binary(FloatBinary::Add, Type::F32, mods, a, b);
    assert_eq!(add(sat, bits(0.75), bits(0.5)), Some(bits(1.0)));
    assert_eq!(add(sat, bits(-0.75), bits(0.5)), Some(0));
    assert_eq!(add(sat, bits(0.25), bits(0.5)), Some(bits(0.75)));
    assert_eq!(add(sat, bits(f32::NAN), bits(0.5)), Some(0));
    assert_eq!(add(ftz, 1, bits(0.0)), Some(0));
    assert_eq!(add(ftz, 0x8000_0001, 0x8000_0001), Some(0x8000_0000));
    assert_eq!(add(ftz, 0x0080_0001, 0x8080_0000), Some(0));
    assert_eq!(add(PLAIN, 0x0080_0001, 0x8080_0000), Some(1));
    assert_eq!(fma(Type::F16, relu, 0x3c00, 0xbc00, 0), Some(0));
    assert_eq!(fma(Type::F16, relu, 0x7c00, 0, 0), Some(0x7fff));
    assert_eq!(cvt(Type::F16, Type::F32, relu, false, bits(-3.0)), Some(0));
    assert_eq!(
        cvt(Type::F16, Type::F32, relu, false, bits(3.0)),
        Some(0x4200)
    );
}

#[test]
fn signs_of_zero_follow_ieee() {
    for (rounding, expected) in [(Rounding::NearestEven, 0), (Rounding::Down, 0x8000_0000)] {
        let one = 0x3f80_0000;
        let got = float_binary(FloatBinary::Sub, Type::F32, rounded(rounding), one, one);
        assert_eq!(got, Some(expected));
        let both = float_binary(
            FloatBinary::Add,
            Type::F32,
            rounded(rounding),
            0x8000_0000,
            0x8000_0000,
        );
        assert_eq!(both, Some(0x8000_0000));
    }
}

#[test]
fn floats_become_integers_clamped_and_nan_as_the_isa_says() {
    let from = |value: f32| u64::from(value.to_bits());
    let nan = from(f32::NAN);
    for (to, source, rounding, expected) in [
        (Type::S32, from(-2.5), Rounding::Zero, 0xffff_fffe),
        (Type::S32, from(2.5), Rounding::NearestEven, 2),
        (Type::S32, from(3.5), Rounding::NearestEven, 4),
        (Type::S32, from(-2.1), Rounding::Down, 0xffff_fffd),
        (Type::S32, from(2.1), Rounding::Up, 3),
        (Type::S32, from(3e9), Rounding::Zero, 0x7fff_ffff),
        (
            Type::S32,
            from(f32::NEG_INFINITY),
            Rounding::Zero,
            0x8000_0000,
        ),
        (Type::U32, from(-1.0), Rounding::Zero, 0),
        (Type::U32, from(5e9), Rounding::Zero, 0xffff_ffff),
        (Type::S8, from(-300.0), Rounding::Zero, 0xffff_ff80),
        (Type::U8, from(300.0), Rounding::Zero, 255),
        (Type::S16, from(-2.0), Rounding::Zero, 0xffff_fffe),
        (Type::U64, from(2e19), Rounding::Zero, u64::MAX),
        (Type::S32, nan, Rounding::Zero, 0),
        (Type::U8, nan, Rounding::Zero, 0),
        (Type::S64, nan, Rounding::Zero, 1 << 63),
        (Type::U64, nan, Rounding::Zero, 1 << 63),
    ] {
        let got = cvt(to, Type::F32, rounded(rounding), false, source);
        assert_eq!(got, Some(expected), "{to:?} {source:x} {rounding:?}");
    }
    let wide_nan = f64::NAN.to_bits();
    assert_eq!(
        cvt(Type::S32, Type::F64, PLAIN, false, wide_nan),
        Some(0x8000_0000)
    );
    assert_eq!(
        cvt(Type::U32, Type::F64, PLAIN, false, wide_nan),
        Some(0x8000_0000)
    );
}

#[test]
fn a_float_becomes_itself_rounded_to_an_integral_value() {
    for (rounding, value, expected) in [
        (Rounding::NearestEven, 2.5f32, 2.0f32),
        (Rounding::NearestEven, -0.4, -0.0),
        (Rounding::Zero, -2.7, -2.0),
        (Rounding::Down, -2.1, -3.0),
        (Rounding::Up, 2.1, 3.0),
        (Rounding::Up, 1e10, 1e10),
        (Rounding::Down, f32::INFINITY, f32::INFINITY),
    ] {
        let got = cvt(
            Type::F32,
            Type::F32,
            rounded(rounding),
            false,
            u64::from(value.to_bits()),
        );
        assert_eq!(
            got,
            Some(u64::from(expected.to_bits())),
            "{rounding:?} {value}"
        );
    }
}

#[test]
fn integers_convert_by_their_low_bits_or_saturate() {
    let sat = FloatMods { sat: true, ..PLAIN };
    for (to, from, mods, source, expected) in [
        (Type::S8, Type::S32, PLAIN, 0x1ff, 0xffff_ffff),
        (Type::U8, Type::S32, PLAIN, 0x1ff, 0xff),
        (Type::S8, Type::S32, sat, 0x1ff, 127),
        (Type::U8, Type::S32, sat, 0xffff_ffff, 0),
        (Type::S64, Type::S32, PLAIN, 0xffff_ffff, u64::MAX),
        (Type::U64, Type::U32, PLAIN, 0xffff_ffff, 0xffff_ffff),
        (Type::S32, Type::U32, sat, 0xffff_ffff, 0x7fff_ffff),
        (Type::S32, Type::S16, PLAIN, 0x8000, 0xffff_8000),
        (Type::U32, Type::S64, sat, u64::MAX, 0),
    ] {
        assert_eq!(
            cvt(to, from, mods, false, source),
            Some(expected),
            "{to:?} {from:?} {source:x}"
        );
    }
}

#[test]
fn pairs_convert_half_by_half() {
    // 1.0 and -2.0 as e4m3 are 0x38 and 0xc0; as f16 0x3c00 and 0xc000.
    assert_eq!(
        cvt(Type::F16x2, Type::E4M3x2, PLAIN, false, 0xc038),
        Some(0xc000_3c00)
    );
    assert_eq!(
        cvt(Type::E4M3x2, Type::F16x2, PLAIN, true, 0xc000_3c00),
        Some(0xc038)
    );
    // 6.0 and -0.5 as e2m1 are 0x7 and 0x9, packed into one byte.
    assert_eq!(
        cvt(Type::F16x2, Type::E2M1x2, PLAIN, false, 0x97),
        Some(0xb800_4600)
    );
    let (six, half) = (0x40c0_0000, 0xbf00_0000);
    assert_eq!(cvt_pack(Type::E2M1x2, PLAIN, true, half, six), Some(0x97));
    assert_eq!(
        cvt_pack(Type::BF16x2, PLAIN, false, half, six),
        Some(0xbf00_40c0)
    );
    // 7.5 is the largest e2m3 (0x1f), in the low bits of each byte.
    assert_eq!(
        cvt_pack(Type::E2M3x2, PLAIN, true, 0x40f0_0000, 0xc0f0_0000),
        Some(0x1f3f)
    );
}

#[test]
fn comparisons_with_nan_are_false_unless_unordered() {
    let (one, two, nan) = (0x3f80_0000, 0x4000_0000, 0x7fc0_0000);
    let holds = |cmp, a, b| compare(cmp, Type::F32, false, a, b).expect("exists");
    for cmp in [
        Compare::Lt,
        Compare::Le,
        Compare::Ne,
        Compare::Ltu,
        Compare::Leu,
        Compare::Neu,
        Compare::Num,
    ] {
        assert!(holds(cmp, one, two), "{cmp:?}");
    }
    for cmp in [
        Compare::Eq,
        Compare::Gt,
        Compare::Ge,
        Compare::Equ,
        Compare::Gtu,
        Compare::Geu,
        Compare::Nan,
    ] {
        assert!(!holds(cmp, one, two), "{cmp:?}");
    }
    for cmp in [
        Compare::Eq,
        Compare::Ne,
        Compare::Lt,
        Compare::Le,
        Compare::Gt,
        Compare::Ge,
        Compare::Num,
    ] {
        assert!(!holds(cmp, one, nan) && !holds(cmp, nan, nan), "{cmp:?}");
    }
    for cmp in [
        Compare::Equ,
        Compare::Neu,
        Compare::Ltu,
        Compare::Leu,
        Compare::Gtu,
        Compare::Geu,
        Compare::Nan,
    ] {
        assert!(holds(cmp, one, nan) && holds(cmp, nan, nan), "{cmp:?}");
    }
    assert!(holds(Compare::Eq, 0, 0x8000_0000));
    assert_eq!(
        compare(Compare::Eq, Type::F32, true, 1, 0x8000_0002),
        Some(true)
    );
    let mut random = Random(9);
    for _ in 0..20_000 {
        let a = random.float(Type::F32, 0);
        let b = random.float(Type::F32, a);
        let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
        assert_eq!(holds(Compare::Lt, a, b), x < y, "{a:x} {b:x}");
        assert_eq!(holds(Compare::Ge, a, b), x >= y, "{a:x} {b:x}");
    }
}

#[test]
fn classes_of_numbers() {
    for (class, bits, expected) in [
        (FloatClass::Finite, 1, true),
        (FloatClass::Infinite, 0xff80_0000, true),
        (FloatClass::Number, 0x7fc0_0000, false),
        (FloatClass::NotANumber, 0x7fc0_0000, true),
        (FloatClass::Normal, 0, false),
        (FloatClass::Normal, 0x0080_0000, true),
        (FloatClass::Subnormal, 0x007f_ffff, true),
        (FloatClass::Subnormal, 0x8000_0000, false),
    ] {
        assert_eq!(
            testp(class, Type::F32, bits),
            Some(expected),
            "{class:?} {bits:x}"
        );
    }
}

// ---- integers ----

#[test]
fn integer_arithmetic_is_the_machines() {
    let mut random = Random(10);
    for _ in 0..20_000 {
        let a = random.next() >> (random.next() & 63);
        let b = random.next() >> (random.next() & 63);
        let (x, y) = (a as i32, b as i32);
        let (u, v) = (a as u32, b as u32);
        let s32 = |op| int_binary(op, Type::S32, a & 0xffff_ffff, b & 0xffff_ffff) as u32 as i32;
        let u32 = |op| int_binary(op, Type::U32, a & 0xffff_ffff, b & 0xffff_ffff) as u32;
        assert_eq!(s32(IntBinary::Add), x.wrapping_add(y));
        assert_eq!(s32(IntBinary::AddSat), x.saturating_add(y));
        assert_eq!(s32(IntBinary::SubSat), x.saturating_sub(y));
        assert_eq!(s32(IntBinary::MulLo), x.wrapping_mul(y));
        assert_eq!(
            s32(IntBinary::MulHi),
            ((i64::from(x) * i64::from(y)) >> 32) as i32
        );
        assert_eq!(
            u32(IntBinary::MulHi),
            ((u64::from(u) * u64::from(v)) >> 32) as u32
        );
        assert_eq!(
            int_binary(IntBinary::MulHi, Type::U64, a, b),
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        );
        assert_eq!(
            int_binary(IntBinary::MulHi, Type::S64, a, b),
            ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
        );
        assert_eq!(
            int_binary(IntBinary::MulWide, Type::S32, a, b),
            (i64::from(x) * i64::from(y)) as u64
        );
        assert_eq!(
            int_binary(IntBinary::Div, Type::U64, a, b),
            a.checked_div(b).unwrap_or(u64::MAX)
        );
        assert_eq!(
            int_binary(IntBinary::Rem, Type::U64, a, b),
            a.checked_rem(b).unwrap_or(a)
        );
        assert_eq!(
            s32(IntBinary::Div),
            if y == 0 { -1 } else { x.wrapping_div(y) }
        );
        assert_eq!(
            s32(IntBinary::Rem),
            if y == 0 { x } else { x.wrapping_rem(y) }
        );
        assert_eq!(s32(IntBinary::Min), x.min(y));
        assert_eq!(u32(IntBinary::Max), u.max(v));
        assert_eq!(u32(IntBinary::Shl), u.checked_shl(v).unwrap_or(0));
        assert_eq!(u32(IntBinary::Shr), u.checked_shr(v).unwrap_or(0));
        assert_eq!(s32(IntBinary::Shr), x >> v.min(31));
        let (sum, carry) = add_with_carry(false, Type::U32, a, b, true);
        assert_eq!((sum, carry), {
            let exact = u64::from(u) + u64::from(v) + 1;
            (exact & 0xffff_ffff, exact >> 32 == 1)
        });
        let (difference, borrow) = add_with_carry(true, Type::U64, a, b, false);
        assert_eq!((difference, borrow), a.overflowing_sub(b));
        assert_eq!(
            sad(Type::S32, a, b, 7) as u32,
            x.abs_diff(y).wrapping_add(7)
        );
        assert_eq!(
            int_unary(IntUnary::Clz, Type::B32, a),
            u64::from(u.leading_zeros())
        );
        assert_eq!(
            int_unary(IntUnary::Popc, Type::B64, a),
            u64::from(a.count_ones())
        );
        assert_eq!(
            int_unary(IntUnary::Brev, Type::B32, a),
            u64::from(u.reverse_bits())
        );
        assert_eq!(
            int_unary(IntUnary::Abs, Type::S32, a) as u32 as i32,
            x.wrapping_abs()
        );
    }
}

#[test]
fn corner_cases_of_integers() {
    assert_eq!(
        int_binary(IntBinary::Div, Type::S32, 0x8000_0000, 0xffff_ffff),
        0x8000_0000
    );
    assert_eq!(
        int_binary(IntBinary::Rem, Type::S32, 0x8000_0000, 0xffff_ffff),
        0
    );
    assert_eq!(
        int_binary(IntBinary::Add, Type::S16, 0x7fff, 1),
        0xffff_8000
    );
    assert_eq!(int_binary(IntBinary::Add, Type::U16, 0xffff, 1), 0);
    assert_eq!(
        int_binary(IntBinary::Add, Type::U16x2, 0xffff_0001, 0x0001_ffff),
        0
    );
    assert_eq!(
        int_binary(IntBinary::Max, Type::S16x2, 0x8000_0001, 0x7fff_ffff),
        0x7fff_0001
    );
    assert_eq!(int_binary(IntBinary::MulWide, Type::S16, 0xffff, 0xffff), 1);
    assert_eq!(
        int_binary(IntBinary::Mul24Lo, Type::S32, 0x00ff_ffff, 2),
        0xffff_fffe
    );
    assert_eq!(
        int_binary(IntBinary::Mul24Hi, Type::U32, 0x00ff_ffff, 0x00ff_ffff),
        0xffff_fe00
    );
    assert_eq!(int_unary(IntUnary::Bfind, Type::U32, 0), 0xffff_ffff);
    assert_eq!(
        int_unary(IntUnary::Bfind, Type::S32, 0xffff_ffff),
        0xffff_ffff
    );
    assert_eq!(int_unary(IntUnary::Bfind, Type::S32, 0xffff_ff00), 7);
    assert_eq!(int_unary(IntUnary::BfindShiftAmt, Type::U64, 1), 63);
    assert_eq!(int_unary(IntUnary::Cnot, Type::B32, 5), 0);
    assert_eq!(int_unary(IntUnary::Not, Type::S16, 0), 0xffff_ffff);
    assert_eq!(mad(MadWidth::Wide, Type::S32, 0xffff_ffff, 3, 10), 7);
    assert_eq!(mad(MadWidth::Hi, Type::U32, 0x8000_0000, 4, 1), 3);
}

#[test]
fn bit_fields_and_permutations_follow_the_isa() {
    assert_eq!(bfe(Type::U32, 0xabcd_1234, 4, 8), 0x23);
    assert_eq!(bfe(Type::S32, 0x0000_00f0, 4, 4), 0xffff_ffff);
    assert_eq!(bfe(Type::S32, 0x8000_0000, 28, 8), 0xffff_fff8);
    assert_eq!(bfe(Type::S32, 0xffff_ffff, 0, 0), 0);
    assert_eq!(bfe(Type::S64, 1 << 63, 200, 4), u64::MAX);
    assert_eq!(bfi(Type::B32, 0xff, 0, 28, 8), 0xf000_0000);
    assert_eq!(bfi(Type::B32, 0x5, 0xffff_ffff, 4, 3), 0xffff_ffdf);
    assert_eq!(bfi(Type::B64, 1, 0, 40, 1), 1 << 40);
    // The ISA's own examples of the table: and, or, xor of the three.
    let (a, b, c) = (0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa);
    assert_eq!(lop3(a, b, c, 0x80), a & b & c);
    assert_eq!(lop3(a, b, c, 0xfe), a | b | c);
    assert_eq!(lop3(a, b, c, 0x96), a ^ b ^ c);
    assert_eq!(lop3(a, b, c, 0x1a), (a & b | c) ^ a);
    assert_eq!(
        funnel_shift(true, true, 0x1234_5678, 0x9abc_def0, 8),
        0xbcde_f012
    );
    assert_eq!(
        funnel_shift(false, true, 0x1234_5678, 0x9abc_def0, 40),
        0x9abc_def0
    );
    assert_eq!(
        funnel_shift(false, false, 0x1234_5678, 0x9abc_def0, 40),
        0xf012_3456
    );
    assert_eq!(
        dp4a(true, true, 0xff01_02fe, 0x0102_0304, 10),
        10 - 1 + 2 + 6 - 8
    );
    assert_eq!(
        dp4a(false, false, 0xff00_0000, 0xff00_0000, 1),
        255 * 255 + 1
    );
    assert_eq!(
        dp2a(false, true, false, 0xffff_0002, 0x0403_02ff, 0),
        2 * 255 - 2
    );
    assert_eq!(
        dp2a(true, false, true, 0xffff_0002, 0x04ff_0201, 0) as u32,
        (65535 * 4 - 2) as u32
    );
}

#[test]
fn prmt_follows_the_isas_table() {
    let (a, b) = (0x3322_1180, 0x7766_5544);
    assert_eq!(prmt(PermuteMode::Index, a, b, 0x7531), 0x7755_3311);
    assert_eq!(prmt(PermuteMode::Index, a, b, 0x0008), 0x8080_80ff);
    assert_eq!(prmt(PermuteMode::Index, a, b, 0x000f), 0x8080_8000);
    for (mode, rows) in [
        (PermuteMode::F4e, ["3210", "4321", "5432", "6543"]),
        (PermuteMode::B4e, ["5670", "6701", "7012", "0123"]),
        (PermuteMode::Rc8, ["0000", "1111", "2222", "3333"]),
        (PermuteMode::Ecl, ["3210", "3211", "3222", "3333"]),
        (PermuteMode::Ecr, ["0000", "1110", "2210", "3210"]),
        (PermuteMode::Rc16, ["1010", "3232", "1010", "3232"]),
    ] {
        for (selector, row) in rows.into_iter().enumerate() {
            let bytes = (b << 32 | a).to_le_bytes();
            let expected = row.bytes().fold(0u64, |word, digit| {
                word << 8 | u64::from(bytes[usize::from(digit - b'0')])
            });
            assert_eq!(
                prmt(mode, a, b, selector as u64),
                expected,
                "{mode:?} {selector}"
            );
        }
    }
}

#[test]
fn atomics_leave_what_the_isa_says() {
    let on = |op, ty, old, b, c| atomic(op, ty, Space::Shared, old, b, c).expect("exists");
    assert_eq!(on(AtomicOp::Inc, Type::U32, 5, 5, 0), 0);
    assert_eq!(on(AtomicOp::Inc, Type::U32, 4, 5, 0), 5);
    assert_eq!(on(AtomicOp::Dec, Type::U32, 0, 5, 0), 5);
    assert_eq!(on(AtomicOp::Dec, Type::U32, 7, 5, 0), 5);
    assert_eq!(on(AtomicOp::Dec, Type::U32, 3, 5, 0), 2);
    assert_eq!(on(AtomicOp::Cas, Type::B32, 3, 3, 9), 9);
    assert_eq!(on(AtomicOp::Cas, Type::B32, 4, 3, 9), 4);
    assert_eq!(on(AtomicOp::Min, Type::S32, 0xffff_ffff, 1, 0), 0xffff_ffff);
    assert_eq!(on(AtomicOp::Max, Type::U32, 0xffff_ffff, 1, 0), 0xffff_ffff);
    assert_eq!(on(AtomicOp::Add, Type::F32, 1, 1, 0), 2);
    assert_eq!(
        atomic(AtomicOp::Add, Type::F32, Space::Global, 1, 1, 0),
        Some(0)
    );
    assert_eq!(
        on(AtomicOp::Add, Type::F16x2, 0x3c00_0001, 0x3c00_0001, 0),
        0x4000_0002
    );
    assert_eq!(
        atomic(AtomicOp::Min, Type::F32, Space::Shared, 1, 1, 0),
        None
    );
}

// ---- approximations ----

#[test]
fn corners_of_the_approximations_are_the_isas_tables() {
    let bits = |value: f32| u64::from(value.to_bits());
    let (inf, nan, zero, minus_zero) = (bits(f32::INFINITY), bits(f32::NAN), 0, 0x8000_0000);
    let minus_inf = bits(f32::NEG_INFINITY);
    for (op, a, expected) in [
        (FloatUnary::RcpApprox, minus_inf, minus_zero),
        (FloatUnary::RcpApprox, minus_zero, minus_inf),
        (FloatUnary::RcpApprox, zero, inf),
        (FloatUnary::RcpApprox, inf, zero),
        (FloatUnary::SqrtApprox, minus_inf, nan),
        (FloatUnary::SqrtApprox, bits(-1.0), nan),
        (FloatUnary::SqrtApprox, minus_zero, minus_zero),
        (FloatUnary::SqrtApprox, inf, inf),
        (FloatUnary::RsqrtApprox, minus_zero, minus_inf),
        (FloatUnary::RsqrtApprox, inf, zero),
        (FloatUnary::RsqrtApprox, bits(-2.0), nan),
        (FloatUnary::Ex2Approx, minus_inf, zero),
        (FloatUnary::Ex2Approx, inf, inf),
        (FloatUnary::Lg2Approx, minus_zero, minus_inf),
        (FloatUnary::Lg2Approx, bits(-1.0), nan),
        (FloatUnary::Lg2Approx, inf, inf),
        (FloatUnary::SinApprox, minus_zero, minus_zero),
        (FloatUnary::SinApprox, inf, nan),
        (FloatUnary::CosApprox, minus_inf, nan),
        (FloatUnary::TanhApprox, minus_zero, minus_zero),
        (FloatUnary::Ex2Approx, nan, nan),
    ] {
        let special = special(op, Type::F32, false, a).expect("exists");
        assert!(
            special.accepts(Type::F32, false, expected),
            "{op:?} {a:x} {special:?}"
        );
    }
    let one = bits(1.0);
    for (op, a) in [
        (FloatUnary::Ex2Approx, minus_zero),
        (FloatUnary::CosApprox, zero),
    ] {
        let special = special(op, Type::F32, false, a).expect("exists");
        assert!(special.accepts(Type::F32, false, one), "{op:?}");
    }
}

#[test]
fn bounds_accept_what_is_near_and_refuse_what_is_not() {
    let near = special(FloatUnary::RcpApprox, Type::F32, false, 0x4040_0000).expect("exists");
    let third = (1.0f32 / 3.0).to_bits();
    for (bits, expected) in [
        (third, true),
        (third + 1, true),
        (third - 1, true),
        (third + 2, false),
        (third - 3, false),
    ] {
        assert_eq!(
            near.accepts(Type::F32, false, u64::from(bits)),
            expected,
            "{bits:x}"
        );
    }
    let sine = special(FloatUnary::SinApprox, Type::F32, false, 0x3f80_0000).expect("exists");
    let value = 1f32.sin();
    assert!(sine.accepts(Type::F32, false, u64::from((value + 5e-7).to_bits())));
    assert!(!sine.accepts(Type::F32, false, u64::from((value + 2e-6).to_bits())));
    // 2^-127 is subnormal: with ftz it may be flushed, else it may not.
    let tiny = (-127f32).to_bits();
    for (ftz, expected) in [(true, true), (false, false)] {
        let special =
            special(FloatUnary::Ex2Approx, Type::F32, ftz, u64::from(tiny)).expect("exists");
        assert_eq!(special.accepts(Type::F32, ftz, 0), expected);
    }
    let division = special_division(FloatBinary::DivApprox, false, 0x3f80_0000, 0x7e80_0000);
    assert_eq!(
        division.map(|special| matches!(special, Approximation::Near { .. })),
        Some(true)
    );
    let division = special_division(FloatBinary::DivApprox, false, 0x3f80_0000, 0x7e80_0001);
    assert_eq!(division, Some(Approximation::Exact(0)));
}
