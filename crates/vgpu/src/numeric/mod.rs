//! Scalar reference semantics of the operations, bit for bit as the ISA gives them; the executor's vector code is tested against it.
//!
//! Everything here works on the bits of a register ([`crate::ir::Type`] says how a value sits in
//! them) and favours plainness over speed. It shares nothing with the executor.

mod convert;
mod float;
mod format;
mod int;
mod special;

#[cfg(test)]
mod tests;

pub use convert::{cvt, cvt_pack};
pub use float::{compare, float_binary, float_unary, fma, testp};
pub use format::{Format, Top, Value};
pub use int::{
    add_with_carry, atomic, bfe, bfi, dp2a, dp4a, funnel_shift, int_binary, int_compare, int_unary,
    lop3, mad, prmt, sad,
};
pub use special::{Approximation, Bound, special, special_division};

use crate::ir::Type;

/// The low bits that a type occupies.
pub(crate) const fn mask(ty: Type) -> u64 {
    u64::MAX >> (64 - ty.bits())
}

/// A value of a type as it stands in a register: signed types narrower than 32 bits are
/// sign-extended to 32, others zero-extended.
pub(crate) const fn to_register(value: u64, ty: Type) -> u64 {
    match ty {
        Type::S8 => value as u8 as i8 as i32 as u32 as u64,
        Type::S16 => value as u16 as i16 as i32 as u32 as u64,
        _ => value & mask(ty),
    }
}

/// The low bits of a register read as an integer of a type.
pub(crate) const fn as_integer(bits: u64, ty: Type) -> i128 {
    let value = bits & mask(ty);
    if ty.is_signed() {
        let shift = 64 - ty.bits();
        (((value << shift) as i64) >> shift) as i128
    } else {
        value as i128
    }
}

/// Applies an operation on scalars to both halves of a packed type, or once to a scalar.
pub(crate) fn elementwise<const N: usize>(
    ty: Type,
    sources: [u64; N],
    f: impl Fn(Type, [u64; N]) -> u64,
) -> u64 {
    let element = ty.element();
    if !ty.is_packed() {
        return f(element, sources);
    }
    // The 4-bit pair alone is dense; a pair of 6-bit codes has one code in each byte.
    let step = ty.bits() / 2;
    let low = f(element, sources.map(|bits| bits & mask(element)));
    let high = f(element, sources.map(|bits| bits >> step & mask(element)));
    low & mask(element) | (high & mask(element)) << step
}
