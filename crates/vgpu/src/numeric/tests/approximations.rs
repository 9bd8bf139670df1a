//! The tables of corner cases, and what the bounds accept.

use super::*;

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
