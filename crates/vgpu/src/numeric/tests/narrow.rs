//! Formats of 16 bits and fewer: exhaustively against `half`, and against tables of `ml_dtypes`.

use super::*;

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

fn fixture(kind: &str) -> Vec<(Type, Vec<&'static str>)> {
    include_str!("../../../fixtures/narrow.txt")
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
