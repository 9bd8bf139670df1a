//! Conversions (PTX ISA, "cvt"): the common ones as vector code, all others by the scalar reference
//! semantics of `numeric`, as are the few arithmetic forms that have no vector code.

use super::alu::{Fn1, Fn2, lane_functions};
use super::float::{Brain, Format16, Half, NAN32, d, f, flush32, out32, out64};
use super::{Exec, Handle};
use crate::ir::{FloatBinary, FloatMods, FloatUnary, Type};
use crate::lower::{Extra, Op};
use crate::numeric;

/// An operation that goes by the reference semantics.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reference {
    Convert {
        to: Type,
        from: Type,
        mods: FloatMods,
        satfinite: bool,
    },
    Pack {
        to: Type,
        mods: FloatMods,
        satfinite: bool,
    },
    Unary(FloatUnary, Type, FloatMods),
    Binary(FloatBinary, Type, FloatMods),
    Fma(Type, FloatMods),
}

impl Reference {
    /// Whether sources, and whether the result, are 64 bits wide.
    pub fn widths(&self) -> (bool, bool) {
        match *self {
            Reference::Convert { to, from, .. } => (from.bits() == 64, to.bits() == 64),
            Reference::Pack { .. } => (false, false),
            Reference::Unary(_, ty, _) | Reference::Binary(_, ty, _) | Reference::Fma(ty, _) => {
                (ty.bits() == 64, ty.bits() == 64)
            }
        }
    }

    fn apply(&self, a: u64, b: u64, c: u64) -> Option<u64> {
        match *self {
            Reference::Convert {
                to,
                from,
                mods,
                satfinite,
            } => numeric::cvt(to, from, mods, satfinite, a),
            Reference::Pack {
                to,
                mods,
                satfinite,
            } => numeric::cvt_pack(to, mods, satfinite, a, b),
            Reference::Unary(op, ty, mods) => numeric::float_unary(op, ty, mods, a),
            Reference::Binary(op, ty, mods) => numeric::float_binary(op, ty, mods, a, b),
            Reference::Fma(ty, mods) => numeric::fma(ty, mods, a, b, c),
        }
    }

    /// Whether the reference semantics have it.
    pub fn exists(&self) -> bool {
        self.apply(0, 0, 0).is_some()
    }
}

/// An operation by the reference semantics, in extra `x`.
pub(crate) struct ByReference;

impl Handle for ByReference {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        let Extra::Reference(what) = x.code.extras[op.x as usize] else {
            unreachable!("lowering made a reference's extra")
        };
        let (wide, wide_result) = what.widths();
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let a = x.read_any(op.a, wide);
            let b = x.read_any(op.b, wide);
            let c = x.read_any(op.c, wide);
            let mut r = [0; 32];
            for lane in super::registers::lanes(mask) {
                r[lane] = what.apply(a[lane], b[lane], c[lane]).unwrap_or(0);
            }
            if wide_result {
                x.write(op.dst, mask, r);
            } else {
                x.write(op.dst, mask, r.map(|v| v as u32));
            }
        }
        pc + 1
    }
}

/// Between integers: `x` holds the source's bits and sign, the target's bits and sign, and whether to
/// clamp, a byte each; `WIDE_A` and `WIDE_R` are the registers' widths.
pub(crate) struct Resize<const WIDE_A: bool, const WIDE_R: bool>;

impl<const WIDE_A: bool, const WIDE_R: bool> Handle for Resize<WIDE_A, WIDE_R> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        let byte = |index: u64| op.x >> (8 * index) & 0xff;
        let (from_bits, from_signed) = (byte(0), byte(1) != 0);
        let (to_bits, to_signed, clamp) = (byte(2), byte(3) != 0, byte(4) != 0);
        let cut = |value: u64, bits: u64, signed: bool| {
            let shift = (64 - bits) & 63;
            if signed {
                ((value << shift) as i64 >> shift) as u64
            } else {
                value << shift >> shift
            }
        };
        let most = u64::MAX >> ((64 - to_bits + u64::from(to_signed)) & 63);
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let a = x.read_any(op.a, WIDE_A);
            let mut r = [0u64; 32];
            for lane in 0..32 {
                let mut value = cut(a[lane], from_bits, from_signed);
                if clamp {
                    let negative = from_signed && (value as i64) < 0;
                    let least = if to_signed { !most } else { 0 };
                    value = if negative {
                        (value as i64).max(least as i64) as u64
                    } else {
                        value.min(most)
                    };
                    if negative && !to_signed {
                        value = 0;
                    }
                }
                r[lane] = cut(value, to_bits, to_signed);
            }
            if WIDE_R {
                x.write(op.dst, mask, r);
            } else {
                x.write(op.dst, mask, r.map(|v| v as u32));
            }
        }
        pc + 1
    }
}

lane_functions! {
    SignExtend32(a: u32) -> u64 = i64::from(a as i32) as u64;
    ZeroExtend32(a: u32) -> u64 = u64::from(a);
    Truncate64(a: u64) -> u32 = a as u32;
    F32FromS32(a: u32) -> u32 = (a as i32 as f32).to_bits();
    F32FromU32(a: u32) -> u32 = (a as f32).to_bits();
    F64FromS32(a: u32) -> u64 = f64::from(a as i32).to_bits();
    F64FromU32(a: u32) -> u64 = f64::from(a).to_bits();
    F64FromF32(a: u32) -> u64 = out64(f64::from(f(a)));
    F32FromF64(a: u64) -> u32 = out32(d(a) as f32);
    F32FromF16(a: u32) -> u32 = out32(f(Half::widen(a & 0xffff)));
    F32FromBf16(a: u32) -> u32 = out32(f(Brain::widen(a & 0xffff)));
    F16FromF32(a: u32) -> u32 = Half::narrow(a);
    Bf16FromF32(a: u32) -> u32 = Brain::narrow(a);
    S32FromF32Zero(a: u32) -> u32 = to_s32(f(a));
    S32FromF32Near(a: u32) -> u32 = to_s32(near(f(a)));
    S32FromF32Down(a: u32) -> u32 = to_s32(f(a).floor());
    S32FromF32Up(a: u32) -> u32 = to_s32(f(a).ceil());
    U32FromF32Zero(a: u32) -> u32 = f(a) as u32;
    RoundF32Near(a: u32) -> u32 = out32(near(f(a)));
    RoundF32Zero(a: u32) -> u32 = out32(f(a).trunc());
    RoundF32Down(a: u32) -> u32 = out32(f(a).floor());
    RoundF32Up(a: u32) -> u32 = out32(f(a).ceil());
    PackF16(hi: u32, lo: u32) -> u32 = Half::narrow(lo) | Half::narrow(hi) << 16;
    PackBf16(hi: u32, lo: u32) -> u32 = Brain::narrow(lo) | Brain::narrow(hi) << 16;
    F32FromE4m3(a: u32) -> u32 = e4m3_to_f32(a & 0xff);
    F32FromE5m2(a: u32) -> u32 = e5m2_to_f32(a & 0xff);
    F16x2FromE4m3x2(a: u32) -> u32 = {
        let half = |code: u32| Half::narrow(e4m3_to_f32(code));
        half(a & 0xff) | half(a >> 8 & 0xff) << 16
    };
    F16x2FromE5m2x2(a: u32) -> u32 = {
        let half = |code: u32| Half::narrow(e5m2_to_f32(code));
        half(a & 0xff) | half(a >> 8 & 0xff) << 16
    };
    PackE4m3(hi: u32, lo: u32) -> u32 = to_e4m3(lo) | to_e4m3(hi) << 8;
    PackE5m2(hi: u32, lo: u32) -> u32 = to_e5m2(lo) | to_e5m2(hi) << 8;
    E4m3FromF32(a: u32) -> u32 = to_e4m3(a);
    E5m2FromF32(a: u32) -> u32 = to_e5m2(a);
    E4m3x2FromF16x2(a: u32) -> u32 = {
        let (lo, hi) = (Half::widen(a & 0xffff), Half::widen(a >> 16));
        to_e4m3(lo) | to_e4m3(hi) << 8
    };
    E5m2x2FromF16x2(a: u32) -> u32 = {
        let (lo, hi) = (Half::widen(a & 0xffff), Half::widen(a >> 16));
        to_e5m2(lo) | to_e5m2(hi) << 8
    };
}

/// As `as i32` has it: cut, clamped, NaN as zero; written so that it becomes vector code.
#[inline(always)]
fn to_s32(value: f32) -> u32 {
    const END: f32 = 2_147_483_648.0;
    // The largest single below 2^31 is 2^31 - 128.
    let inside = value.clamp(-END, END - 128.0);
    let inside = if value.is_nan() { 0.0 } else { inside };
    // SAFETY: it is a number from -2^31 to 2^31 - 128.
    let integer = unsafe { inside.to_int_unchecked::<i32>() };
    if value >= END {
        i32::MAX as u32
    } else {
        integer as u32
    }
}

/// To the nearest integral value, ties to even: adding and subtracting 2^23 rounds what is smaller.
#[inline(always)]
fn near(value: f32) -> f32 {
    const SHIFT: f32 = 8_388_608.0;
    let magnitude = value.abs();
    let rounded = ((magnitude + SHIFT) - SHIFT).copysign(value);
    if magnitude < SHIFT { rounded } else { value }
}

/// A function after flushing its single operand.
pub(crate) struct Flushed<F>(std::marker::PhantomData<F>);

impl<F: Fn1<A = u32>> Fn1 for Flushed<F> {
    type A = u32;
    type R = F::R;
    #[inline(always)]
    fn f(a: u32) -> F::R {
        F::f(flush32(a))
    }
}

/// Both operands' negative values as zero before a packing function (`relu`); NaN stays.
pub(crate) struct Rectified<F>(std::marker::PhantomData<F>);

impl<F: Fn2<A = u32, B = u32, R = u32>> Fn2 for Rectified<F> {
    type A = u32;
    type B = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> u32 {
        let rectify = |v: u32| if f(v) < 0.0 || v == 0x8000_0000 { 0 } else { v };
        F::f(rectify(a), rectify(b))
    }
}

/// A value of a format with `MANTISSA` bits of fraction and a bias, from its magnitude bits.
#[inline(always)]
fn e4m3_to_f32(code: u32) -> u32 {
    let magnitude = code & 0x7f;
    let scaled = (f(magnitude << 20) * f(0x7b80_0000)).to_bits();
    let bits = scaled | (code & 0x80) << 24;
    if magnitude == 0x7f { NAN32 } else { bits }
}

#[inline(always)]
fn e5m2_to_f32(code: u32) -> u32 {
    let bits = Half::widen(code << 8);
    if code & 0x7f > 0x7c { NAN32 } else { bits }
}

/// To nearest even with `satfinite`: beyond the largest finite value is that value; NaN is 0x7f.
#[inline(always)]
fn to_e4m3(bits: u32) -> u32 {
    let magnitude = bits & 0x7fff_ffff;
    let sign = bits >> 24 & 0x80;
    // Below 2^-6 codes are multiples of 2^-9; adding 2^14 aligns those with a single's last bit.
    let small = (f(magnitude) + 16384.0).to_bits().wrapping_sub(0x4680_0000);
    let odd = magnitude >> 20 & 1;
    let rounded = magnitude.wrapping_add(0x0007_ffff + odd);
    let normal = (rounded >> 20).wrapping_sub(120 << 3);
    let code = if magnitude < 0x3c80_0000 {
        small
    } else {
        normal
    };
    if magnitude > 0x7f80_0000 {
        0x7f
    } else if magnitude >= 0x43e0_0000 {
        0x7e | sign
    } else {
        code.min(0x7e) | sign
    }
}

/// The like for e5m2, whose NaN is 0x7f.
#[inline(always)]
fn to_e5m2(bits: u32) -> u32 {
    let magnitude = bits & 0x7fff_ffff;
    let sign = bits >> 24 & 0x80;
    // Below 2^-14 codes are multiples of 2^-16; adding 2^7 aligns those with a single's last bit.
    let small = (f(magnitude) + 128.0).to_bits().wrapping_sub(0x4300_0000);
    let odd = magnitude >> 21 & 1;
    let rounded = magnitude.wrapping_add(0x000f_ffff + odd);
    let normal = (rounded >> 21).wrapping_sub(112 << 2);
    let code = if magnitude < 0x3880_0000 {
        small
    } else {
        normal
    };
    if magnitude > 0x7f80_0000 {
        0x7f
    } else if magnitude >= 0x4760_0000 {
        0x7b | sign
    } else {
        code.min(0x7b) | sign
    }
}
