//! f32 and f64 against the machine's own arithmetic in each rounding.

use super::*;

#[cfg(target_arch = "x86_64")]
mod control_register {
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
