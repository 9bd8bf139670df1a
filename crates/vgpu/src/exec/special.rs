//! Special functions in single precision, within the errors that the ISA states for its `approx` forms;
//! written so that a loop over lanes becomes vector code.

use super::alu::lane_functions;
use super::float::{NAN32, f, out32};

lane_functions! {
    Ex2F32(a: u32) -> u32 = ex2(f(a));
    Lg2F32(a: u32) -> u32 = lg2(f(a));
    SinF32(a: u32) -> u32 = sine(f(a), 0);
    CosF32(a: u32) -> u32 = sine(f(a), 1);
    TanhF32(a: u32) -> u32 = tanh(f(a));
}

/// Adding and subtracting it rounds a small single to an integer, which the sum's low bits hold.
const TO_INTEGER: f32 = 12_582_912.0;

/// 2 to an integer power from -126 to 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f(((n + 127) as u32) << 23)
}

/// 2^x = 2^n times a polynomial (the exponential's series) on [-1/2, 1/2].
#[inline(always)]
fn ex2(x: f32) -> u32 {
    // Outside, the result is zero or infinite.
    let clamped = if x < -152.0 { -152.0 } else { x };
    let clamped = if clamped > 129.0 { 129.0 } else { clamped };
    let shifted = clamped + TO_INTEGER;
    let n = (shifted.to_bits() as i32).wrapping_sub(TO_INTEGER.to_bits() as i32);
    let n = if x.is_nan() { 0 } else { n };
    let r = clamped - (shifted - TO_INTEGER);
    let mut p = 1.525_273_4e-5f32;
    p = p.mul_add(r, 1.540_353_e-4);
    p = p.mul_add(r, 1.333_355_8e-3);
    p = p.mul_add(r, 9.618_129e-3);
    p = p.mul_add(r, 5.550_411e-2);
    p = p.mul_add(r, 2.402_265e-1);
    p = p.mul_add(r, std::f32::consts::LN_2);
    p = p.mul_add(r, 1.0);
    // Two factors, since n may lie outside the exponents of normal numbers.
    let half = n >> 1;
    out32(p * power_of_two(half) * power_of_two(n - half))
}

/// log2(m 2^e) = e + 2/ln 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1)/(m + 1), m in [sqrt(1/2), sqrt(2)).
#[inline(always)]
fn lg2(x: f32) -> u32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits();
    // Moves the boundary of exponents to sqrt(1/2).
    let above = bits.wrapping_sub(0x3f35_04f3);
    let e = (above as i32) >> 23;
    let m = f((above & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 0.320_598_9_f32; // 2/(9 ln 2)
    p = p.mul_add(z, 0.412_198_58); // 2/(7 ln 2)
    p = p.mul_add(z, 0.577_078_04); // 2/(5 ln 2)
    p = p.mul_add(z, 0.961_796_7); // 2/(3 ln 2)
    p = p.mul_add(z, 2.885_39); // 2/ln 2
    let e = e as f32 - if tiny { 23.0 } else { 0.0 };
    let value = p.mul_add(s, e);
    if x.is_nan() || x < 0.0 {
        NAN32
    } else if x == 0.0 {
        f32::NEG_INFINITY.to_bits()
    } else if x == f32::INFINITY {
        x.to_bits()
    } else {
        value.to_bits()
    }
}

/// sin(x + quarter pi/2): reduced by multiples of pi/2 in double precision, then a series.
#[inline(always)]
fn sine(x: f32, quarter: i64) -> u32 {
    const TO_INTEGER64: f64 = 6_755_399_441_055_744.0;
    let wide = f64::from(x);
    let shifted = wide.mul_add(std::f64::consts::FRAC_2_PI, TO_INTEGER64);
    let n = (shifted.to_bits() as i64).wrapping_add(quarter);
    let k = shifted - TO_INTEGER64;
    // pi/2 in two parts, the first with few enough bits that its product with k is exact.
    let r = k.mul_add(-1.570_796_326_734_125_6, wide);
    let r = k.mul_add(-6.077_100_506_506_192e-11, r) as f32;
    // Of a huge argument nothing is left but that a sine is at most one.
    let r = if r.abs() < 0.8 { r } else { 0.0 };
    let z = r * r;
    let mut s = 2.755_731_9e-6f32;
    s = s.mul_add(z, -1.984_127e-4);
    s = s.mul_add(z, 8.333_333e-3);
    s = s.mul_add(z, -1.666_666_7e-1);
    let s = if r == 0.0 { r } else { (s * z).mul_add(r, r) };
    let mut c = -2.755_732e-7f32;
    c = c.mul_add(z, 2.480_158_7e-5);
    c = c.mul_add(z, -1.388_888_9e-3);
    c = c.mul_add(z, 4.166_666_8e-2);
    c = c.mul_add(z, -0.5);
    let c = c.mul_add(z, 1.0);
    let value = if n & 1 != 0 { c } else { s };
    let value = if n & 2 != 0 { -value } else { value };
    if x.abs() < f32::INFINITY {
        out32(value)
    } else {
        NAN32
    }
}

/// tanh: its series near zero, elsewhere 1 - 2/(e^2x + 1).
#[inline(always)]
fn tanh(x: f32) -> u32 {
    let magnitude = x.abs();
    let z = x * x;
    let mut p = -8.863_236e-3f32;
    p = p.mul_add(z, 2.186_948_8e-2);
    p = p.mul_add(z, -5.396_825_4e-2);
    p = p.mul_add(z, 1.333_333_4e-1);
    p = p.mul_add(z, -3.333_333_4e-1);
    let near = (p * z).mul_add(magnitude, magnitude);
    let e = f(ex2(magnitude * (2.0 * std::f32::consts::LOG2_E)));
    let far = 1.0 - 2.0 / (e + 1.0);
    let value = if magnitude < 0.55 { near } else { far };
    if x.is_nan() {
        NAN32
    } else {
        value.to_bits() | (x.to_bits() & 0x8000_0000)
    }
}
