//! Floating-point operations, lane by lane (PTX ISA, "Floating Point Instructions", "Half Precision
//! Floating Point Instructions"). Results that are NaN are the ISA's canonical NaN.

use super::alu::{Fn1, Fn2, Fn3, Test2, lane_functions};
use std::marker::PhantomData;

/// The canonical single NaN.
pub(crate) const NAN32: u32 = 0x7fff_ffff;
/// The canonical double NaN.
pub(crate) const NAN64: u64 = 0x7fff_ffff_ffff_ffff;

#[inline(always)]
pub(crate) fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
pub(crate) fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Bits of a result, NaN made canonical.
#[inline(always)]
pub(crate) fn out32(value: f32) -> u32 {
    if value.is_nan() {
        NAN32
    } else {
        value.to_bits()
    }
}

/// Bits of a result, NaN made canonical.
#[inline(always)]
pub(crate) fn out64(value: f64) -> u64 {
    if value.is_nan() {
        NAN64
    } else {
        value.to_bits()
    }
}

/// A subnormal single as zero of its sign.
#[inline(always)]
pub(crate) fn flush32(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    }
}

/// Clamped to [0, 1]; NaN becomes +0.
#[inline(always)]
pub(crate) fn saturate32(bits: u32) -> u32 {
    let value = f(bits);
    if value > 1.0 {
        1f32.to_bits()
    } else if value > 0.0 {
        bits
    } else {
        0
    }
}

#[inline(always)]
fn min32(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let ordered = if x < y {
        a
    } else if y < x {
        b
    } else {
        a | b
    };
    if x.is_nan() {
        if y.is_nan() { NAN32 } else { b }
    } else if y.is_nan() {
        a
    } else {
        ordered
    }
}

#[inline(always)]
fn max32(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let ordered = if x > y {
        a
    } else if y > x {
        b
    } else {
        a & b
    };
    if x.is_nan() {
        if y.is_nan() { NAN32 } else { b }
    } else if y.is_nan() {
        a
    } else {
        ordered
    }
}

#[inline(always)]
fn min64(a: u64, b: u64) -> u64 {
    let (x, y) = (d(a), d(b));
    if x.is_nan() {
        if y.is_nan() { NAN64 } else { b }
    } else if y.is_nan() || x < y {
        a
    } else if y < x {
        b
    } else {
        a | b
    }
}

#[inline(always)]
fn max64(a: u64, b: u64) -> u64 {
    let (x, y) = (d(a), d(b));
    if x.is_nan() {
        if y.is_nan() { NAN64 } else { b }
    } else if y.is_nan() || x > y {
        a
    } else if y > x {
        b
    } else {
        a & b
    }
}

const SIGN32: u32 = 0x8000_0000;
const SIGN64: u64 = 1 << 63;

lane_functions! {
    AddF32(a: u32, b: u32) -> u32 = out32(f(a) + f(b));
    SubF32(a: u32, b: u32) -> u32 = out32(f(a) - f(b));
    MulF32(a: u32, b: u32) -> u32 = out32(f(a) * f(b));
    DivF32(a: u32, b: u32) -> u32 = out32(f(a) / f(b));
    DivApproxF32(a: u32, b: u32) -> u32 = {
        let huge = f(b).abs() > f(0x7e80_0000) && f(b).abs() < f32::INFINITY;
        let zero = if f(a).abs() < f32::INFINITY { (a ^ b) & SIGN32 } else { NAN32 };
        if huge { zero } else { out32(f(a) / f(b)) }
    };
    MinF32(a: u32, b: u32) -> u32 = min32(a, b);
    MaxF32(a: u32, b: u32) -> u32 = max32(a, b);
    MinNanF32(a: u32, b: u32) -> u32 = if f(a).is_nan() || f(b).is_nan() { NAN32 } else { min32(a, b) };
    MaxNanF32(a: u32, b: u32) -> u32 = if f(a).is_nan() || f(b).is_nan() { NAN32 } else { max32(a, b) };
    MinXorsignF32(a: u32, b: u32) -> u32 = xorsign32(a, b, min32(a & !SIGN32, b & !SIGN32));
    MaxXorsignF32(a: u32, b: u32) -> u32 = xorsign32(a, b, max32(a & !SIGN32, b & !SIGN32));
    CopysignF32(a: u32, b: u32) -> u32 = (a & SIGN32) | (b & !SIGN32);
    FmaF32(a: u32, b: u32, c: u32) -> u32 = out32(f(a).mul_add(f(b), f(c)));
    NegF32(a: u32) -> u32 = a ^ SIGN32;
    AbsF32(a: u32) -> u32 = a & !SIGN32;
    RcpF32(a: u32) -> u32 = out32(1.0 / f(a));
    SqrtF32(a: u32) -> u32 = out32(f(a).sqrt());
    RsqrtF32(a: u32) -> u32 = out32(1.0 / f(a).sqrt());

    AddF64(a: u64, b: u64) -> u64 = out64(d(a) + d(b));
    SubF64(a: u64, b: u64) -> u64 = out64(d(a) - d(b));
    MulF64(a: u64, b: u64) -> u64 = out64(d(a) * d(b));
    DivF64(a: u64, b: u64) -> u64 = out64(d(a) / d(b));
    MinF64(a: u64, b: u64) -> u64 = min64(a, b);
    MaxF64(a: u64, b: u64) -> u64 = max64(a, b);
    CopysignF64(a: u64, b: u64) -> u64 = (a & SIGN64) | (b & !SIGN64);
    FmaF64(a: u64, b: u64, c: u64) -> u64 = out64(d(a).mul_add(d(b), d(c)));
    NegF64(a: u64) -> u64 = a ^ SIGN64;
    AbsF64(a: u64) -> u64 = a & !SIGN64;
    RcpF64(a: u64) -> u64 = out64(1.0 / d(a));
    SqrtF64(a: u64) -> u64 = out64(d(a).sqrt());
    RcpApproxF64(a: u64) -> u64 = high_half(1.0 / d(flush64(a)));
    RsqrtApproxF64(a: u64) -> u64 = high_half(1.0 / d(flush64(a)).sqrt());

    EqF32(a: u32, b: u32) -> bool = f(a) == f(b);
    NeF32(a: u32, b: u32) -> bool = f(a) < f(b) || f(a) > f(b);
    LtF32(a: u32, b: u32) -> bool = f(a) < f(b);
    LeF32(a: u32, b: u32) -> bool = f(a) <= f(b);
    GtF32(a: u32, b: u32) -> bool = f(a) > f(b);
    GeF32(a: u32, b: u32) -> bool = f(a) >= f(b);
    NumF32(a: u32, b: u32) -> bool = !f(a).is_nan() && !f(b).is_nan();
    EqF64(a: u64, b: u64) -> bool = d(a) == d(b);
    NeF64(a: u64, b: u64) -> bool = d(a) < d(b) || d(a) > d(b);
    LtF64(a: u64, b: u64) -> bool = d(a) < d(b);
    LeF64(a: u64, b: u64) -> bool = d(a) <= d(b);
    GtF64(a: u64, b: u64) -> bool = d(a) > d(b);
    GeF64(a: u64, b: u64) -> bool = d(a) >= d(b);
    NumF64(a: u64, b: u64) -> bool = !d(a).is_nan() && !d(b).is_nan();

    FiniteF32(a: u32, _b: u32) -> bool = a & 0x7f80_0000 != 0x7f80_0000;
    InfiniteF32(a: u32, _b: u32) -> bool = a & !SIGN32 == 0x7f80_0000;
    NumberF32(a: u32, _b: u32) -> bool = !f(a).is_nan();
    NormalF32(a: u32, _b: u32) -> bool = f(a).is_normal();
    SubnormalF32(a: u32, _b: u32) -> bool = f(a).is_subnormal();
    FiniteF64(a: u64, _b: u64) -> bool = d(a).is_finite();
    InfiniteF64(a: u64, _b: u64) -> bool = d(a).is_infinite();
    NumberF64(a: u64, _b: u64) -> bool = !d(a).is_nan();
    NormalF64(a: u64, _b: u64) -> bool = d(a).is_normal();
    SubnormalF64(a: u64, _b: u64) -> bool = d(a).is_subnormal();
}

/// The negation of a test (of an unordered comparison: its ordered opposite).
pub(crate) struct Negated<F>(PhantomData<F>);

impl<F: Test2> Test2 for Negated<F> {
    type A = F::A;
    #[inline(always)]
    fn f(a: F::A, b: F::A) -> bool {
        !F::f(a, b)
    }
}

#[inline(always)]
fn xorsign32(a: u32, b: u32, magnitude: u32) -> u32 {
    if f(a).is_nan() && f(b).is_nan() {
        NAN32
    } else {
        magnitude | ((a ^ b) & SIGN32)
    }
}

#[inline(always)]
fn flush64(bits: u64) -> u64 {
    if bits & 0x7ff0_0000_0000_0000 == 0 {
        bits & SIGN64
    } else {
        bits
    }
}

/// The value with the low half of its significand rounded away, subnormals flushed.
#[inline(always)]
fn high_half(value: f64) -> u64 {
    if !value.is_finite() {
        return out64(value);
    }
    flush64((value.to_bits() + 0x8000_0000) & 0xffff_ffff_0000_0000)
}

/// Modifiers around a function of singles.
pub(crate) struct Mods<F, const FTZ: bool, const SAT: bool>(PhantomData<F>);

#[inline(always)]
fn before<const FTZ: bool>(bits: u32) -> u32 {
    if FTZ { flush32(bits) } else { bits }
}

#[inline(always)]
fn after<const FTZ: bool, const SAT: bool>(bits: u32) -> u32 {
    let bits = if FTZ { flush32(bits) } else { bits };
    if SAT { saturate32(bits) } else { bits }
}

impl<F: Fn1<A = u32, R = u32>, const FTZ: bool, const SAT: bool> Fn1 for Mods<F, FTZ, SAT> {
    type A = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32) -> u32 {
        after::<FTZ, SAT>(F::f(before::<FTZ>(a)))
    }
}

impl<F: Fn2<A = u32, B = u32, R = u32>, const FTZ: bool, const SAT: bool> Fn2
    for Mods<F, FTZ, SAT>
{
    type A = u32;
    type B = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> u32 {
        after::<FTZ, SAT>(F::f(before::<FTZ>(a), before::<FTZ>(b)))
    }
}

impl<F: Fn3<A = u32, B = u32, C = u32, R = u32>, const FTZ: bool, const SAT: bool> Fn3
    for Mods<F, FTZ, SAT>
{
    type A = u32;
    type B = u32;
    type C = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32, c: u32) -> u32 {
        let (a, b, c) = (before::<FTZ>(a), before::<FTZ>(b), before::<FTZ>(c));
        after::<FTZ, SAT>(F::f(a, b, c))
    }
}

impl<F: Test2<A = u32>, const FTZ: bool, const SAT: bool> Test2 for Mods<F, FTZ, SAT> {
    type A = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> bool {
        F::f(before::<FTZ>(a), before::<FTZ>(b))
    }
}

/// A function of singles on each half of an `f32x2`.
pub(crate) struct Pair<F>(PhantomData<F>);

#[inline(always)]
fn pair(lo: u32, hi: u32) -> u64 {
    u64::from(lo) | u64::from(hi) << 32
}

impl<F: Fn1<A = u32, R = u32>> Fn1 for Pair<F> {
    type A = u64;
    type R = u64;
    #[inline(always)]
    fn f(a: u64) -> u64 {
        pair(F::f(a as u32), F::f((a >> 32) as u32))
    }
}

impl<F: Fn2<A = u32, B = u32, R = u32>> Fn2 for Pair<F> {
    type A = u64;
    type B = u64;
    type R = u64;
    #[inline(always)]
    fn f(a: u64, b: u64) -> u64 {
        pair(
            F::f(a as u32, b as u32),
            F::f((a >> 32) as u32, (b >> 32) as u32),
        )
    }
}

impl<F: Fn3<A = u32, B = u32, C = u32, R = u32>> Fn3 for Pair<F> {
    type A = u64;
    type B = u64;
    type C = u64;
    type R = u64;
    #[inline(always)]
    fn f(a: u64, b: u64, c: u64) -> u64 {
        pair(
            F::f(a as u32, b as u32, c as u32),
            F::f((a >> 32) as u32, (b >> 32) as u32, (c >> 32) as u32),
        )
    }
}

// Directed roundings. Each operation on singles is done in double precision and rounded to odd
// (truncated, the last bit set where anything was lost); a second rounding to 24 bits in any direction
// is then the right one, since 53 >= 24 + 2.

/// `value` plus something small of the sign of `error`, rounded to odd.
#[inline(always)]
fn to_odd(value: f64, error: f64) -> f64 {
    let bits = value.to_bits();
    // Not so for NaN, which an infinite operand leaves.
    let inexact = error.abs() > 0.0;
    let away = (error > 0.0) == (value > 0.0);
    let moved = if away {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    if inexact && bits & 1 == 0 && value.is_finite() {
        d(moved)
    } else {
        value
    }
}

/// The sum of two doubles, rounded to odd.
#[inline(always)]
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    to_odd(sum, error)
}

/// A double as a single, rounded to odd.
#[inline(always)]
pub(crate) fn odd32(value: f64) -> u32 {
    let near = value as f32;
    let bits = near.to_bits();
    let wide = f64::from(near);
    let moved = if wide.abs() > value.abs() {
        bits.wrapping_sub(1)
    } else {
        bits.wrapping_add(1)
    };
    if wide != value && bits & 1 == 0 && !value.is_nan() {
        moved
    } else {
        bits
    }
}

/// How a double becomes a single.
pub(crate) trait RoundTo32 {
    /// What an exact zero sum of operands of opposite sign is.
    const ZERO_SUM: f64;
    fn round(value: f64) -> u32;
}

/// Towards zero.
pub(crate) struct TowardsZero;
/// Towards minus infinity.
pub(crate) struct Downwards;
/// Towards plus infinity.
pub(crate) struct Upwards;

impl RoundTo32 for TowardsZero {
    const ZERO_SUM: f64 = 0.0;
    #[inline(always)]
    fn round(value: f64) -> u32 {
        let near = value as f32;
        if f64::from(near).abs() > value.abs() {
            near.to_bits() - 1
        } else {
            out32(near)
        }
    }
}

impl RoundTo32 for Downwards {
    const ZERO_SUM: f64 = -0.0;
    #[inline(always)]
    fn round(value: f64) -> u32 {
        let near = value as f32;
        let bits = near.to_bits();
        if f64::from(near) > value {
            if bits >> 31 == 0 { bits - 1 } else { bits + 1 }
        } else {
            out32(near)
        }
    }
}

impl RoundTo32 for Upwards {
    const ZERO_SUM: f64 = 0.0;
    #[inline(always)]
    fn round(value: f64) -> u32 {
        let near = value as f32;
        let bits = near.to_bits();
        if f64::from(near) < value {
            if bits >> 31 == 0 { bits + 1 } else { bits - 1 }
        } else {
            out32(near)
        }
    }
}

#[inline(always)]
fn directed_sum<R: RoundTo32>(a: f64, b: f64) -> u32 {
    let sum = add_odd(a, b);
    // The sign of an exact zero of unlike operands is the rounding's to say.
    let cancelled = sum == 0.0 && a.is_sign_positive() != b.is_sign_positive();
    R::round(if cancelled { R::ZERO_SUM } else { sum })
}

/// `add` with a directed rounding.
pub(crate) struct AddDirected<R>(PhantomData<R>);
/// `sub` with a directed rounding.
pub(crate) struct SubDirected<R>(PhantomData<R>);
/// `mul` with a directed rounding.
pub(crate) struct MulDirected<R>(PhantomData<R>);
/// `div` with a directed rounding.
pub(crate) struct DivDirected<R>(PhantomData<R>);
/// `fma` with a directed rounding.
pub(crate) struct FmaDirected<R>(PhantomData<R>);
/// `rcp` with a directed rounding.
pub(crate) struct RcpDirected<R>(PhantomData<R>);
/// `sqrt` with a directed rounding.
pub(crate) struct SqrtDirected<R>(PhantomData<R>);

macro_rules! of_two {
    ($name:ident, $a:ident, $b:ident, $body:expr) => {
        impl<R: RoundTo32> Fn2 for $name<R> {
            type A = u32;
            type B = u32;
            type R = u32;
            #[inline(always)]
            fn f(a: u32, b: u32) -> u32 {
                let ($a, $b) = (f64::from(f(a)), f64::from(f(b)));
                $body
            }
        }
    };
}

of_two!(AddDirected, a, b, directed_sum::<R>(a, b));
of_two!(SubDirected, a, b, directed_sum::<R>(a, -b));
of_two!(MulDirected, a, b, R::round(a * b));
of_two!(DivDirected, a, b, R::round(quotient_odd(a, b)));

#[inline(always)]
fn quotient_odd(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    to_odd(quotient, if b > 0.0 { rest } else { -rest })
}

impl<R: RoundTo32> Fn1 for RcpDirected<R> {
    type A = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32) -> u32 {
        R::round(quotient_odd(1.0, f64::from(f(a))))
    }
}

impl<R: RoundTo32> Fn1 for SqrtDirected<R> {
    type A = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32) -> u32 {
        let value = f64::from(f(a));
        let root = value.sqrt();
        let rest = (-root).mul_add(root, value);
        R::round(to_odd(root, rest))
    }
}

impl<R: RoundTo32> Fn3 for FmaDirected<R> {
    type A = u32;
    type B = u32;
    type C = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32, c: u32) -> u32 {
        let product = f64::from(f(a)) * f64::from(f(b));
        directed_sum::<R>(product, f64::from(f(c)))
    }
}

// Half precision and bfloat16.

/// A 16-bit format.
pub(crate) trait Format16 {
    /// Its exponent field.
    const EXPONENT: u32;
    /// One.
    const ONE: u32;
    fn widen(bits: u32) -> u32;
    /// To nearest, ties to even.
    fn narrow(bits: u32) -> u32;
}

/// IEEE half.
pub(crate) struct Half;
/// bfloat16.
pub(crate) struct Brain;

impl Format16 for Half {
    const EXPONENT: u32 = 0x7c00;
    const ONE: u32 = 0x3c00;
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        let magnitude = bits & 0x7fff;
        // The exponent's bias is put right by a multiplication, which makes subnormals right too.
        let scaled = (f(magnitude << 13) * f(0x7780_0000)).to_bits();
        let special = if magnitude > 0x7bff { 0x7f80_0000 } else { 0 };
        scaled | special | (bits & 0x8000) << 16
    }
    #[inline(always)]
    fn narrow(bits: u32) -> u32 {
        let magnitude = bits & 0x7fff_ffff;
        let sign = bits >> 16 & 0x8000;
        // Adding one half leaves a subnormal's bits, rounded, at the bottom of the sum.
        let small = (f(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        let odd = magnitude >> 13 & 1;
        let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
        let special = if magnitude > 0x7f80_0000 {
            0x7fff
        } else {
            0x7c00 | sign
        };
        if magnitude >= 0x4780_0000 {
            special
        } else if magnitude < 0x3880_0000 {
            small | sign
        } else {
            normal | sign
        }
    }
}

impl Format16 for Brain {
    const EXPONENT: u32 = 0x7f80;
    const ONE: u32 = 0x3f80;
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        bits << 16
    }
    #[inline(always)]
    fn narrow(bits: u32) -> u32 {
        let odd = bits >> 16 & 1;
        let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
        if bits & 0x7fff_ffff > 0x7f80_0000 {
            0x7fff
        } else {
            rounded
        }
    }
}

/// A function of singles on a 16-bit format. The single result is rounded again, which is right for
/// add, subtract, multiply, divide and root (24 >= 2 x 11 + 2), and exact for min and max.
pub(crate) struct On16<F, T, const FTZ: bool, const SAT: bool, const RELU: bool>(
    PhantomData<(F, T)>,
);

#[inline(always)]
fn flush16<T: Format16>(bits: u32) -> u32 {
    if bits & T::EXPONENT == 0 {
        bits & 0x8000
    } else {
        bits & 0xffff
    }
}

#[inline(always)]
fn finish16<T: Format16, const FTZ: bool, const SAT: bool, const RELU: bool>(bits: u32) -> u32 {
    let bits = if FTZ { flush16::<T>(bits) } else { bits };
    let nan = bits & 0x7fff > T::EXPONENT;
    let negative = bits & 0x8000 != 0;
    if SAT {
        if nan || negative { 0 } else { bits.min(T::ONE) }
    } else if RELU && negative && !nan {
        0
    } else {
        bits
    }
}

#[inline(always)]
fn start16<T: Format16, const FTZ: bool>(bits: u32) -> u32 {
    T::widen(if FTZ {
        flush16::<T>(bits)
    } else {
        bits & 0xffff
    })
}

impl<F, T: Format16, const FTZ: bool, const SAT: bool, const RELU: bool> Fn1
    for On16<F, T, FTZ, SAT, RELU>
where
    F: Fn1<A = u32, R = u32>,
{
    type A = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32) -> u32 {
        finish16::<T, FTZ, SAT, RELU>(T::narrow(F::f(start16::<T, FTZ>(a))))
    }
}

impl<F, T: Format16, const FTZ: bool, const SAT: bool, const RELU: bool> Fn2
    for On16<F, T, FTZ, SAT, RELU>
where
    F: Fn2<A = u32, B = u32, R = u32>,
{
    type A = u32;
    type B = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> u32 {
        let value = F::f(start16::<T, FTZ>(a), start16::<T, FTZ>(b));
        finish16::<T, FTZ, SAT, RELU>(T::narrow(value))
    }
}

/// Fused multiply-add of a 16-bit format: exact product, sum rounded to odd, then once to the format.
pub(crate) struct Fma16;

impl<T: Format16, const FTZ: bool, const SAT: bool, const RELU: bool> Fn3
    for On16<Fma16, T, FTZ, SAT, RELU>
{
    type A = u32;
    type B = u32;
    type C = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32, c: u32) -> u32 {
        let wide = |bits| f64::from(f(start16::<T, FTZ>(bits)));
        let sum = add_odd(wide(a) * wide(b), wide(c));
        finish16::<T, FTZ, SAT, RELU>(T::narrow(odd32(sum)))
    }
}

impl<F, T: Format16, const FTZ: bool, const SAT: bool, const RELU: bool> Test2
    for On16<F, T, FTZ, SAT, RELU>
where
    F: Test2<A = u32>,
{
    type A = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> bool {
        F::f(start16::<T, FTZ>(a), start16::<T, FTZ>(b))
    }
}

/// A function of 16-bit values on each half of a packed pair.
pub(crate) struct Packed<F>(PhantomData<F>);

impl<F: Fn1<A = u32, R = u32>> Fn1 for Packed<F> {
    type A = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32) -> u32 {
        F::f(a & 0xffff) & 0xffff | F::f(a >> 16) << 16
    }
}

impl<F: Fn2<A = u32, B = u32, R = u32>> Fn2 for Packed<F> {
    type A = u32;
    type B = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> u32 {
        F::f(a & 0xffff, b & 0xffff) & 0xffff | F::f(a >> 16, b >> 16) << 16
    }
}

impl<F: Fn3<A = u32, B = u32, C = u32, R = u32>> Fn3 for Packed<F> {
    type A = u32;
    type B = u32;
    type C = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32, c: u32) -> u32 {
        F::f(a & 0xffff, b & 0xffff, c & 0xffff) & 0xffff | F::f(a >> 16, b >> 16, c >> 16) << 16
    }
}

lane_functions! {
    Neg16(a: u32) -> u32 = (a ^ 0x8000) & 0xffff;
    Abs16(a: u32) -> u32 = a & 0x7fff;
    NegFlush16(a: u32) -> u32 = flush16::<Half>(a) ^ 0x8000;
    AbsFlush16(a: u32) -> u32 = flush16::<Half>(a) & 0x7fff;
    Copysign16(a: u32, b: u32) -> u32 = (a & 0x8000) | (b & 0x7fff);
}
