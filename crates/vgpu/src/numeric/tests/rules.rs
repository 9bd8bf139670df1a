//! Rules for NaN, zeros, modifiers, conversions to integers and comparisons, by hand from the ISA's text.

use super::*;

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
