//! Integer operations, lane by lane (PTX ISA, "Integer Arithmetic Instructions" and "Logic and Shift
//! Instructions").

use super::alu::{Fn1, Fn2, Fn3, lane_functions};
use super::{Exec, Handle, Lane};
use crate::ir::PermuteMode;
use crate::lower::Op;
use std::marker::PhantomData;

lane_functions! {
    Add32(a: u32, b: u32) -> u32 = a.wrapping_add(b);
    Sub32(a: u32, b: u32) -> u32 = a.wrapping_sub(b);
    AddSat32(a: u32, b: u32) -> u32 = (a as i32).saturating_add(b as i32) as u32;
    SubSat32(a: u32, b: u32) -> u32 = (a as i32).saturating_sub(b as i32) as u32;
    Mul32(a: u32, b: u32) -> u32 = a.wrapping_mul(b);
    MulHiU32(a: u32, b: u32) -> u32 = ((u64::from(a) * u64::from(b)) >> 32) as u32;
    MulHiS32(a: u32, b: u32) -> u32 = ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32;
    MulWideU32(a: u32, b: u32) -> u64 = u64::from(a) * u64::from(b);
    MulWideS32(a: u32, b: u32) -> u64 = (i64::from(a as i32) * i64::from(b as i32)) as u64;
    Mul24LoU(a: u32, b: u32) -> u32 = product24u(a, b) as u32;
    Mul24HiU(a: u32, b: u32) -> u32 = (product24u(a, b) >> 16) as u32;
    Mul24LoS(a: u32, b: u32) -> u32 = product24s(a, b) as u32;
    Mul24HiS(a: u32, b: u32) -> u32 = (product24s(a, b) >> 16) as u32;
    DivU32(a: u32, b: u32) -> u32 = if b == 0 { u32::MAX } else { quotient(a, b) };
    DivS32(a: u32, b: u32) -> u32 = {
        let magnitude = quotient((a as i32).unsigned_abs(), (b as i32).unsigned_abs().max(1));
        let negative = (a ^ b) >> 31 != 0;
        let signed = if negative { magnitude.wrapping_neg() } else { magnitude };
        if b == 0 { u32::MAX } else { signed }
    };
    RemU32(a: u32, b: u32) -> u32 = if b == 0 { a } else { a.wrapping_sub(quotient(a, b).wrapping_mul(b)) };
    RemS32(a: u32, b: u32) -> u32 = {
        let (ua, ub) = ((a as i32).unsigned_abs(), (b as i32).unsigned_abs().max(1));
        let rest = ua.wrapping_sub(quotient(ua, ub).wrapping_mul(ub));
        let signed = if (a as i32) < 0 { rest.wrapping_neg() } else { rest };
        if b == 0 { a } else { signed }
    };
    MinU32(a: u32, b: u32) -> u32 = a.min(b);
    MaxU32(a: u32, b: u32) -> u32 = a.max(b);
    MinS32(a: u32, b: u32) -> u32 = (a as i32).min(b as i32) as u32;
    MaxS32(a: u32, b: u32) -> u32 = (a as i32).max(b as i32) as u32;
    And32(a: u32, b: u32) -> u32 = a & b;
    Or32(a: u32, b: u32) -> u32 = a | b;
    Xor32(a: u32, b: u32) -> u32 = a ^ b;
    Shl32(a: u32, b: u32) -> u32 = if b > 31 { 0 } else { a << (b & 31) };
    ShrU32(a: u32, b: u32) -> u32 = if b > 31 { 0 } else { a >> (b & 31) };
    ShrS32(a: u32, b: u32) -> u32 = ((a as i32) >> b.min(31)) as u32;

    Add64(a: u64, b: u64) -> u64 = a.wrapping_add(b);
    Sub64(a: u64, b: u64) -> u64 = a.wrapping_sub(b);
    Mul64(a: u64, b: u64) -> u64 = a.wrapping_mul(b);
    MulHiU64(a: u64, b: u64) -> u64 = ((u128::from(a) * u128::from(b)) >> 64) as u64;
    MulHiS64(a: u64, b: u64) -> u64 = ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64;
    DivU64(a: u64, b: u64) -> u64 = a.checked_div(b).unwrap_or(u64::MAX);
    DivS64(a: u64, b: u64) -> u64 = if b == 0 { u64::MAX } else { (a as i64).wrapping_div(b as i64) as u64 };
    RemU64(a: u64, b: u64) -> u64 = a.checked_rem(b).unwrap_or(a);
    RemS64(a: u64, b: u64) -> u64 = if b == 0 { a } else { (a as i64).wrapping_rem(b as i64) as u64 };
    MinU64(a: u64, b: u64) -> u64 = a.min(b);
    MaxU64(a: u64, b: u64) -> u64 = a.max(b);
    MinS64(a: u64, b: u64) -> u64 = (a as i64).min(b as i64) as u64;
    MaxS64(a: u64, b: u64) -> u64 = (a as i64).max(b as i64) as u64;
    And64(a: u64, b: u64) -> u64 = a & b;
    Or64(a: u64, b: u64) -> u64 = a | b;
    Xor64(a: u64, b: u64) -> u64 = a ^ b;
    Shl64(a: u64, b: u32) -> u64 = if b > 63 { 0 } else { a << (b & 63) };
    ShrU64(a: u64, b: u32) -> u64 = if b > 63 { 0 } else { a >> (b & 63) };
    ShrS64(a: u64, b: u32) -> u64 = ((a as i64) >> b.min(63)) as u64;

    MulHiU16(a: u32, b: u32) -> u32 = a.wrapping_mul(b) >> 16;
    MulHiS16(a: u32, b: u32) -> u32 = ((a as i32).wrapping_mul(b as i32) >> 16) as u32;

    AddPacked16(a: u32, b: u32) -> u32 = packed16(a, b, u16::wrapping_add);
    MinPackedU16(a: u32, b: u32) -> u32 = packed16(a, b, u16::min);
    MaxPackedU16(a: u32, b: u32) -> u32 = packed16(a, b, u16::max);
    MinPackedS16(a: u32, b: u32) -> u32 = packed16(a, b, |a, b| (a as i16).min(b as i16) as u16);
    MaxPackedS16(a: u32, b: u32) -> u32 = packed16(a, b, |a, b| (a as i16).max(b as i16) as u16);

    Neg32(a: u32) -> u32 = a.wrapping_neg();
    Abs32(a: u32) -> u32 = (a as i32).wrapping_abs() as u32;
    Not32(a: u32) -> u32 = !a;
    Cnot32(a: u32) -> u32 = u32::from(a == 0);
    Popc32(a: u32) -> u32 = a.count_ones();
    Clz32(a: u32) -> u32 = a.leading_zeros();
    BfindU32(a: u32) -> u32 = 31u32.wrapping_sub(a.leading_zeros());
    BfindS32(a: u32) -> u32 = 31u32.wrapping_sub((a ^ ((a as i32) >> 31) as u32).leading_zeros());
    BfindShiftU32(a: u32) -> u32 = if a == 0 { u32::MAX } else { a.leading_zeros() };
    BfindShiftS32(a: u32) -> u32 = {
        let magnitude = a ^ ((a as i32) >> 31) as u32;
        if magnitude == 0 { u32::MAX } else { magnitude.leading_zeros() }
    };
    Brev32(a: u32) -> u32 = a.reverse_bits();
    Neg64(a: u64) -> u64 = a.wrapping_neg();
    Abs64(a: u64) -> u64 = (a as i64).wrapping_abs() as u64;
    Not64(a: u64) -> u64 = !a;
    Cnot64(a: u64) -> u64 = u64::from(a == 0);
    Popc64(a: u64) -> u32 = a.count_ones();
    Clz64(a: u64) -> u32 = a.leading_zeros();
    BfindU64(a: u64) -> u32 = 63u32.wrapping_sub(a.leading_zeros());
    BfindS64(a: u64) -> u32 = 63u32.wrapping_sub((a ^ ((a as i64) >> 63) as u64).leading_zeros());
    BfindShiftU64(a: u64) -> u32 = if a == 0 { u32::MAX } else { a.leading_zeros() };
    BfindShiftS64(a: u64) -> u32 = {
        let magnitude = a ^ ((a as i64) >> 63) as u64;
        if magnitude == 0 { u32::MAX } else { magnitude.leading_zeros() }
    };
    Brev64(a: u64) -> u64 = a.reverse_bits();

    Pack32(a: u32, b: u32) -> u64 = u64::from(a) | u64::from(b) << 32;
    Pack16(a: u32, b: u32) -> u32 = (a & 0xffff) | b << 16;

    MadWideU(a: u32, b: u32, c: u64) -> u64 = (u64::from(a) * u64::from(b)).wrapping_add(c);
    MadWideS(a: u32, b: u32, c: u64) -> u64 = ((i64::from(a as i32) * i64::from(b as i32)) as u64).wrapping_add(c);
    SadU32(a: u32, b: u32, c: u32) -> u32 = c.wrapping_add(a.abs_diff(b));
    SadS32(a: u32, b: u32, c: u32) -> u32 = c.wrapping_add((a as i32).abs_diff(b as i32));
    SadU64(a: u64, b: u64, c: u64) -> u64 = c.wrapping_add(a.abs_diff(b));
    SadS64(a: u64, b: u64, c: u64) -> u64 = c.wrapping_add((a as i64).abs_diff(b as i64));
    BfeU32(a: u32, p: u32, n: u32) -> u32 = bfe(u64::from(a), p, n, 32, false) as u32;
    BfeS32(a: u32, p: u32, n: u32) -> u32 = bfe(u64::from(a), p, n, 32, true) as u32;
    BfeU64(a: u64, p: u32, n: u32) -> u64 = bfe(a, p, n, 64, false);
    BfeS64(a: u64, p: u32, n: u32) -> u64 = bfe(a, p, n, 64, true);
    ShfLClamp(lo: u32, hi: u32, n: u32) -> u32 = (((u64::from(hi) << 32 | u64::from(lo)) << n.min(32)) >> 32) as u32;
    ShfLWrap(lo: u32, hi: u32, n: u32) -> u32 = (((u64::from(hi) << 32 | u64::from(lo)) << (n & 31)) >> 32) as u32;
    ShfRClamp(lo: u32, hi: u32, n: u32) -> u32 = ((u64::from(hi) << 32 | u64::from(lo)) >> n.min(32)) as u32;
    ShfRWrap(lo: u32, hi: u32, n: u32) -> u32 = ((u64::from(hi) << 32 | u64::from(lo)) >> (n & 31)) as u32;

    EqU32(a: u32, b: u32) -> bool = a == b;
    NeU32(a: u32, b: u32) -> bool = a != b;
    LtU32(a: u32, b: u32) -> bool = a < b;
    LeU32(a: u32, b: u32) -> bool = a <= b;
    GtU32(a: u32, b: u32) -> bool = a > b;
    GeU32(a: u32, b: u32) -> bool = a >= b;
    LtS32(a: u32, b: u32) -> bool = (a as i32) < b as i32;
    LeS32(a: u32, b: u32) -> bool = (a as i32) <= b as i32;
    GtS32(a: u32, b: u32) -> bool = a as i32 > b as i32;
    GeS32(a: u32, b: u32) -> bool = a as i32 >= b as i32;
    EqU64(a: u64, b: u64) -> bool = a == b;
    NeU64(a: u64, b: u64) -> bool = a != b;
    LtU64(a: u64, b: u64) -> bool = a < b;
    LeU64(a: u64, b: u64) -> bool = a <= b;
    GtU64(a: u64, b: u64) -> bool = a > b;
    GeU64(a: u64, b: u64) -> bool = a >= b;
    LtS64(a: u64, b: u64) -> bool = (a as i64) < b as i64;
    LeS64(a: u64, b: u64) -> bool = (a as i64) <= b as i64;
    GtS64(a: u64, b: u64) -> bool = a as i64 > b as i64;
    GeS64(a: u64, b: u64) -> bool = a as i64 >= b as i64;
}

/// Quotient by way of doubles, which divide as vectors: the rounded quotient of two 32-bit integers
/// never reaches the next integer (their true quotient is at least 1/b below it).
#[inline(always)]
fn quotient(a: u32, b: u32) -> u32 {
    (f64::from(a) / f64::from(b)) as u64 as u32
}

#[inline(always)]
fn product24u(a: u32, b: u32) -> u64 {
    u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)
}

#[inline(always)]
fn product24s(a: u32, b: u32) -> i64 {
    let extend = |v: u32| i64::from((v << 8) as i32 >> 8);
    extend(a) * extend(b)
}

#[inline(always)]
fn packed16(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let lo = f(a as u16, b as u16);
    let hi = f((a >> 16) as u16, (b >> 16) as u16);
    u32::from(lo) | u32::from(hi) << 16
}

/// Bit field extract; past the operand's end a signed field is filled with its sign bit.
#[inline(always)]
fn bfe(a: u64, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let top = width - 1;
    let sign_at = (position + length).wrapping_sub(1).min(top);
    let sign = signed && length != 0 && a >> sign_at & 1 != 0;
    let field = if position > top { 0 } else { a >> position };
    let ones = if length > 63 {
        u64::MAX
    } else {
        (1 << length) - 1
    };
    // Bits at and above width - position come from the sign as well.
    let valid = width.saturating_sub(position);
    let inside = ones
        & if valid > 63 {
            u64::MAX
        } else {
            (1 << valid) - 1
        };
    if sign {
        (field & inside) | !inside
    } else {
        field & inside
    }
}

/// `bfi`: the low `length` bits of `a` into `b` at `position`.
#[inline(always)]
fn bfi(a: u64, b: u64, position: u32, length: u32, width: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if position >= width {
        return b;
    }
    let ones = if length > 63 {
        u64::MAX
    } else {
        (1 << length) - 1
    };
    let field = ones << position;
    (b & !field) | ((a << position) & field)
}

/// Runs a 32-bit function on 16-bit values: operands are extended, the result cut and extended again.
pub(crate) struct Narrow<F, const SIGNED: bool>(PhantomData<F>);

#[inline(always)]
fn extend16<const SIGNED: bool>(a: u32) -> u32 {
    if SIGNED {
        a as u16 as i16 as i32 as u32
    } else {
        a & 0xffff
    }
}

impl<F: Fn1<A = u32, R = u32>, const SIGNED: bool> Fn1 for Narrow<F, SIGNED> {
    type A = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32) -> u32 {
        extend16::<SIGNED>(F::f(extend16::<SIGNED>(a)))
    }
}

impl<F: Fn2<A = u32, B = u32, R = u32>, const SIGNED: bool> Fn2 for Narrow<F, SIGNED> {
    type A = u32;
    type B = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> u32 {
        extend16::<SIGNED>(F::f(extend16::<SIGNED>(a), extend16::<SIGNED>(b)))
    }
}

/// Shifts of 16-bit values: the amount is a whole 32-bit operand.
pub(crate) struct NarrowShift<F, const SIGNED: bool>(PhantomData<F>);

impl<F: Fn2<A = u32, B = u32, R = u32>, const SIGNED: bool> Fn2 for NarrowShift<F, SIGNED> {
    type A = u32;
    type B = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> u32 {
        extend16::<SIGNED>(F::f(extend16::<SIGNED>(a), b))
    }
}

/// `mul.wide` of 16-bit values: operands are extended, the result is whole.
pub(crate) struct Widen16<const SIGNED: bool>;

impl<const SIGNED: bool> Fn2 for Widen16<SIGNED> {
    type A = u32;
    type B = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> u32 {
        extend16::<SIGNED>(a).wrapping_mul(extend16::<SIGNED>(b))
    }
}

/// A comparison of 16-bit values.
pub(crate) struct NarrowTest<F, const SIGNED: bool>(PhantomData<F>);

impl<F: super::Test2<A = u32>, const SIGNED: bool> super::Test2 for NarrowTest<F, SIGNED> {
    type A = u32;
    #[inline(always)]
    fn f(a: u32, b: u32) -> bool {
        F::f(extend16::<SIGNED>(a), extend16::<SIGNED>(b))
    }
}

/// `c + f(a, b)`, for `mad`, at 32 or 64 bits.
pub(crate) struct ThenAdd<F>(PhantomData<F>);

impl<T: Lane, F: Fn2<A = T, B = T, R = T>> Fn3 for ThenAdd<F> {
    type A = T;
    type B = T;
    type C = T;
    type R = T;
    #[inline(always)]
    fn f(a: T, b: T, c: T) -> T {
        T::from_u64(F::f(a, b).to_u64().wrapping_add(c.to_u64()))
    }
}

/// [`ThenAdd`] (or another) on 16-bit values.
impl<F: Fn3<A = u32, B = u32, C = u32, R = u32>, const SIGNED: bool> Fn3 for Narrow<F, SIGNED> {
    type A = u32;
    type B = u32;
    type C = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32, c: u32) -> u32 {
        let extend = extend16::<SIGNED>;
        extend(F::f(extend(a), extend(b), extend(c)))
    }
}

/// `mad.wide` of 16-bit values with a 32-bit addend.
pub(crate) struct MadWiden16<const SIGNED: bool>;

impl<const SIGNED: bool> Fn3 for MadWiden16<SIGNED> {
    type A = u32;
    type B = u32;
    type C = u32;
    type R = u32;
    #[inline(always)]
    fn f(a: u32, b: u32, c: u32) -> u32 {
        Widen16::<SIGNED>::f(a, b).wrapping_add(c)
    }
}

/// `lop3`: truth table in `x`, bit `a*4 + b*2 + c`.
pub(crate) struct Lop3;

impl Handle for Lop3 {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose 32-bit registers.
        unsafe {
            let (a, b, c) = (
                x.read::<u32>(op.a),
                x.read::<u32>(op.b),
                x.read::<u32>(op.c),
            );
            let bit = |row: u64| if op.x >> row & 1 != 0 { u32::MAX } else { 0 };
            let mut r = [0u32; 32];
            for row in 0..8u64 {
                let keep = bit(row);
                let (fa, fb, fc) = (
                    if row & 4 != 0 { 0 } else { u32::MAX },
                    if row & 2 != 0 { 0 } else { u32::MAX },
                    if row & 1 != 0 { 0 } else { u32::MAX },
                );
                for lane in 0..32 {
                    r[lane] |= keep & (a[lane] ^ fa) & (b[lane] ^ fb) & (c[lane] ^ fc);
                }
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `bfi`; `x` is the register of the length, plus 2^32 where 64 bits wide.
pub(crate) struct Bfi;

impl Handle for Bfi {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let (position, length) = (x.read::<u32>(op.c), x.read::<u32>(op.x as u32));
            if op.x >> 32 == 0 {
                let (a, b) = (x.read::<u32>(op.a), x.read::<u32>(op.b));
                let r = std::array::from_fn(|lane| {
                    let (a, b) = (u64::from(a[lane]), u64::from(b[lane]));
                    bfi(a, b, position[lane], length[lane], 32) as u32
                });
                x.write::<u32>(op.dst, mask, r);
            } else {
                let (a, b) = (x.read::<u64>(op.a), x.read::<u64>(op.b));
                let r = std::array::from_fn(|lane| {
                    bfi(a[lane], b[lane], position[lane], length[lane], 64)
                });
                x.write::<u64>(op.dst, mask, r);
            }
        }
        pc + 1
    }
}

/// `prmt`; `x` is the mode.
pub(crate) struct Prmt;

impl Prmt {
    pub fn code(mode: PermuteMode) -> u64 {
        match mode {
            PermuteMode::Index => 0,
            PermuteMode::F4e => 1,
            PermuteMode::B4e => 2,
            PermuteMode::Rc8 => 3,
            PermuteMode::Ecl => 4,
            PermuteMode::Ecr => 5,
            PermuteMode::Rc16 => 6,
        }
    }

    /// The four selector nibbles that a mode means.
    #[inline(always)]
    fn selector(mode: u64, selector: u32) -> u32 {
        let s = selector & 3;
        let nibbles = |f: &dyn Fn(u32) -> u32| f(0) | f(1) << 4 | f(2) << 8 | f(3) << 12;
        match mode {
            0 => selector,
            1 => nibbles(&|i| s + i),
            2 => nibbles(&|i| s.wrapping_sub(i) & 7),
            3 => s * 0x1111,
            4 => nibbles(&|i| s.max(i)),
            5 => nibbles(&|i| s.min(i)),
            _ => (selector & 1) * 0x2222 + 0x1010,
        }
    }
}

impl Handle for Prmt {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose 32-bit registers.
        unsafe {
            let (a, b, s) = (
                x.read::<u32>(op.a),
                x.read::<u32>(op.b),
                x.read::<u32>(op.c),
            );
            let mut r = [0u32; 32];
            for lane in 0..32 {
                let pool = u64::from(b[lane]) << 32 | u64::from(a[lane]);
                let selector = if op.x == 0 {
                    s[lane]
                } else {
                    Self::selector(op.x, s[lane])
                };
                let mut value = 0;
                for byte in 0..4 {
                    let nibble = selector >> (4 * byte);
                    let picked = (pool >> (8 * (nibble & 7))) as u32 & 0xff;
                    let sign = if picked & 0x80 != 0 { 0xff } else { 0 };
                    let picked = if nibble & 8 != 0 { sign } else { picked };
                    value |= picked << (8 * byte);
                }
                r[lane] = value;
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `dp4a` and `dp2a`: bit 0 of `x` is a's sign, bit 1 b's, bit 2 two-way, bit 3 the high half of b.
pub(crate) struct DotProduct;

impl Handle for DotProduct {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose 32-bit registers.
        unsafe {
            let (a, b, c) = (
                x.read::<u32>(op.a),
                x.read::<u32>(op.b),
                x.read::<u32>(op.c),
            );
            let (a_signed, b_signed) = (op.x & 1 != 0, op.x & 2 != 0);
            let byte = |v: u32, i: u32, signed: bool| {
                let v = (v >> (8 * i)) as u8;
                if signed {
                    i64::from(v as i8)
                } else {
                    i64::from(v)
                }
            };
            let half = |v: u32, i: u32, signed: bool| {
                let v = (v >> (16 * i)) as u16;
                if signed {
                    i64::from(v as i16)
                } else {
                    i64::from(v)
                }
            };
            let mut r = [0u32; 32];
            for lane in 0..32 {
                let (a, b) = (a[lane], b[lane]);
                let sum: i64 = if op.x & 4 == 0 {
                    (0..4)
                        .map(|i| byte(a, i, a_signed) * byte(b, i, b_signed))
                        .sum()
                } else {
                    let from = if op.x & 8 != 0 { 2 } else { 0 };
                    (0..2)
                        .map(|i| half(a, i, a_signed) * byte(b, from + i, b_signed))
                        .sum()
                };
                r[lane] = c[lane].wrapping_add(sum as u32);
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `addc`, `subc`: carry in at predicate `c`; `x` holds the predicate of the carry out (0 = none), bit
/// 32 for subtraction, bit 33 for 64 bits.
pub(crate) struct Carry;

impl Handle for Carry {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let carry_in = x.pred(op.c);
            let subtract = op.x >> 32 & 1 != 0;
            let wide = op.x >> 33 & 1 != 0;
            let (a, b) = (x.read_any(op.a, wide), x.read_any(op.b, wide));
            let bits = if wide { 64 } else { 32 };
            let mut r = [0u64; 32];
            let mut carry_out = 0u32;
            for lane in 0..32 {
                let (a, b) = (u128::from(a[lane]), u128::from(b[lane]));
                let carry = u128::from(carry_in >> lane & 1);
                let value = if subtract {
                    a.wrapping_sub(b).wrapping_sub(carry)
                } else {
                    a + b + carry
                };
                r[lane] = value as u64;
                carry_out |= ((value >> bits) as u32 & 1) << lane;
            }
            if wide {
                x.write(op.dst, mask, r);
            } else {
                x.write(op.dst, mask, r.map(|v| v as u32));
            }
            let out = op.x as u32;
            if out != 0 {
                x.set_pred(out, mask, carry_out);
            }
        }
        pc + 1
    }
}
