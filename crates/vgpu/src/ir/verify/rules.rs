//! Which types and modifiers each operation has in the ISA.

use crate::ir::*;

pub(super) fn signed_or_unsigned(ty: Type) -> bool {
    ty.is_integer() && !matches!(ty, Type::B8 | Type::B16 | Type::B32 | Type::B64)
}

pub(super) fn int_binary_types(op: IntBinary, ty: Type) -> bool {
    use IntBinary::*;
    let wide_enough = ty.is_integer() && ty.bits() >= 16;
    match op {
        AddSat | SubSat => ty == Type::S32,
        Mul24Lo | Mul24Hi => matches!(ty, Type::U32 | Type::S32),
        MulWide => signed_or_unsigned(ty) && matches!(ty.bits(), 16 | 32),
        Add | Min | Max if matches!(ty, Type::U16x2 | Type::S16x2) => true,
        Add | Sub | MulLo | MulHi | Div | Rem | Min | Max => wide_enough && signed_or_unsigned(ty),
        And | Or | Xor | Shl | Shr => wide_enough,
    }
}

pub(super) fn int_unary_types(op: IntUnary, ty: Type) -> bool {
    let bits = ty.bits();
    ty.is_integer()
        && match op {
            IntUnary::Neg | IntUnary::Abs => ty.is_signed() && bits >= 16,
            IntUnary::Not | IntUnary::Cnot => bits >= 16,
            IntUnary::Popc | IntUnary::Clz | IntUnary::Brev => bits >= 32,
            IntUnary::Bfind | IntUnary::BfindShiftAmt => signed_or_unsigned(ty) && bits >= 32,
        }
}

pub(super) fn atomic_types(op: AtomicOp, ty: Type) -> bool {
    use Type::*;
    match op {
        AtomicOp::Add => {
            matches!(
                ty,
                U32 | S32 | U64 | S64 | F16 | F16x2 | BF16 | BF16x2 | F32 | F64
            )
        }
        AtomicOp::Min | AtomicOp::Max => matches!(ty, U32 | S32 | U64 | S64),
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch => {
            ty.is_integer() && ty.bits() >= 32
        }
        AtomicOp::Cas => ty.is_integer() && ty.bits() >= 16,
        AtomicOp::Inc | AtomicOp::Dec => ty == U32,
    }
}

/// Modifiers that an operation has for a type; rounding to nearest even is always there.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    /// `rz`, `rm`, `rp`.
    pub rounding: bool,
    pub ftz: bool,
    pub sat: bool,
    pub relu: bool,
}

const fn allow(rounding: bool, ftz: bool, sat: bool, relu: bool) -> Option<Allowed> {
    Some(Allowed {
        rounding,
        ftz,
        sat,
        relu,
    })
}

pub(super) fn float_binary_mods(op: FloatBinary, ty: Type) -> Option<Allowed> {
    use FloatBinary::*;
    use Type::*;
    match (op, ty) {
        (Add | Sub | Mul, F32) => allow(true, true, true, false),
        (Add | Sub | Mul, F64) => allow(true, false, false, false),
        (Add | Sub | Mul, F16 | F16x2) => allow(false, true, true, false),
        (Add | Sub | Mul, BF16 | BF16x2) => allow(false, false, false, false),
        (Add | Sub | Mul, F32x2) => allow(true, true, false, false),
        (Div, F32) => allow(true, true, false, false),
        (Div, F64) => allow(true, false, false, false),
        (DivFull | DivApprox, F32) => allow(false, true, false, false),
        (Min | Max, F64) => allow(false, false, false, false),
        (Min | Max | MinNan | MaxNan | MinXorsignAbs | MaxXorsignAbs, F32 | F16 | F16x2) => {
            allow(false, true, false, false)
        }
        (Min | Max | MinNan | MaxNan | MinXorsignAbs | MaxXorsignAbs, BF16 | BF16x2) => {
            allow(false, false, false, false)
        }
        (Copysign, F32 | F64) => allow(false, false, false, false),
        _ => None,
    }
}

pub(super) fn float_unary_mods(op: FloatUnary, ty: Type) -> Option<Allowed> {
    use FloatUnary::*;
    use Type::*;
    match (op, ty) {
        (Neg | Abs, F32 | F16 | F16x2) => allow(false, true, false, false),
        (Neg | Abs, F64 | BF16 | BF16x2) => allow(false, false, false, false),
        (Rcp | Sqrt, F32) => allow(true, true, false, false),
        (Rcp | Sqrt, F64) => allow(true, false, false, false),
        (RcpApprox | SqrtApprox | RsqrtApprox | Ex2Approx | Lg2Approx, F32) => {
            allow(false, true, false, false)
        }
        (SinApprox | CosApprox, F32) => allow(false, true, false, false),
        (Ex2Approx, BF16 | BF16x2) => allow(false, true, false, false),
        (Ex2Approx, F16 | F16x2) => allow(false, false, false, false),
        (TanhApprox, F32 | F16 | F16x2 | BF16 | BF16x2) => allow(false, false, false, false),
        _ => None,
    }
}

pub(super) fn fma_mods(ty: Type) -> Option<Allowed> {
    use Type::*;
    match ty {
        F32 => allow(true, true, true, false),
        F32x2 => allow(true, true, false, false),
        F64 => allow(true, false, false, false),
        F16 | F16x2 => allow(false, true, true, true),
        BF16 | BF16x2 => allow(false, false, false, true),
        _ => None,
    }
}

/// A narrow floating type of 4 to 8 bits, one value.
pub(crate) const fn is_narrow(ty: Type) -> bool {
    matches!(
        ty,
        Type::E4M3 | Type::E5M2 | Type::E2M1 | Type::E2M3 | Type::E3M2 | Type::UE8M0
    )
}

pub(super) fn conversion(
    to: Type,
    from: Type,
    mods: &FloatMods,
    satfinite: bool,
) -> Result<(), &'static str> {
    use Type::*;
    let integer = |ty| signed_or_unsigned(ty);
    let float = |ty: Type| ty.is_float_scalar();
    let pair = |ty| matches!(ty, F16x2 | BF16x2);
    let narrow_pair = |ty: Type| ty.is_packed() && is_narrow(ty.element());
    let exists = (integer(to) || float(to)) && (integer(from) || float(from))
        || to == TF32 && from == F32
        || is_narrow(to) && matches!(from, F32 | F16 | BF16)
        || is_narrow(from) && matches!(to, F32 | F16 | BF16)
        || narrow_pair(to) && pair(from)
        || narrow_pair(from) && pair(to);
    if !exists {
        return Err("this conversion does not exist");
    }
    if is_narrow(to.element()) {
        return narrow_conversion(to.element(), mods, satfinite);
    }
    if satfinite && !(from == F32 && matches!(to, F16 | BF16 | TF32)) {
        return Err("`satfinite` belongs to conversions to narrower floating types");
    }
    if mods.rounding == Rounding::NearestAway && to != TF32 {
        return Err("`rna` belongs to conversions to tf32");
    }
    if to == TF32
        && !matches!(
            mods.rounding,
            Rounding::NearestEven | Rounding::Zero | Rounding::NearestAway
        )
    {
        return Err("a conversion to tf32 rounds rn, rz or rna");
    }
    if integer(to) && integer(from) && mods.rounding != Rounding::NearestEven {
        return Err("a conversion between integers does not round");
    }
    if mods.ftz && to != F32 && from != F32 {
        return Err("`ftz` belongs to conversions from or to f32");
    }
    let clampable = matches!(to, F16 | BF16 | TF32 | F16x2 | BF16x2) && !integer(from);
    if mods.relu && !clampable {
        return Err("`relu` belongs to conversions to f16, bf16 and tf32");
    }
    if mods.sat && !(integer(to) || matches!(to, F16 | F32 | F64)) {
        return Err("`sat` does not exist for this conversion");
    }
    if mods.sat && (mods.relu || satfinite) {
        return Err("`sat` excludes `relu` and `satfinite`");
    }
    Ok(())
}

fn narrow_conversion(to: Type, mods: &FloatMods, satfinite: bool) -> Result<(), &'static str> {
    let rounding = match to {
        Type::UE8M0 => matches!(mods.rounding, Rounding::Zero | Rounding::Up),
        _ => mods.rounding == Rounding::NearestEven,
    };
    if !rounding {
        return Err("conversions to ue8m0 round rz or rp, to other narrow types rn");
    }
    if mods.ftz || mods.sat || mods.relu && to == Type::UE8M0 {
        return Err("this modifier does not exist for conversions to a narrow type");
    }
    if matches!(to, Type::E2M1 | Type::E2M3 | Type::E3M2) && !satfinite {
        return Err("the type has no infinity and no NaN: the conversion must be `satfinite`");
    }
    Ok(())
}

pub(super) fn pack_conversion(
    to: Type,
    mods: &FloatMods,
    satfinite: bool,
) -> Result<(), &'static str> {
    match to {
        Type::F16x2 | Type::BF16x2 => {
            if !matches!(mods.rounding, Rounding::NearestEven | Rounding::Zero) {
                return Err("the conversion rounds rn or rz");
            }
            if mods.ftz || mods.sat {
                return Err("this modifier does not exist for the conversion");
            }
            Ok(())
        }
        _ if to.is_packed() && is_narrow(to.element()) => {
            narrow_conversion(to.element(), mods, satfinite)
        }
        _ => Err("two f32 are packed into f16x2, bf16x2 or a pair of a narrow type"),
    }
}

/// How many values a format takes; `None` where it ends inside of a conversion.
pub(super) fn conversions(format: &str) -> Option<usize> {
    let mut count = 0;
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            continue;
        }
        let mut first = true;
        loop {
            match rest.next()? {
                '%' if first => break,
                '*' => count += 1,
                c if c.is_ascii_alphabetic()
                    && !matches!(c, 'h' | 'l' | 'j' | 'z' | 't' | 'L' | 'q') =>
                {
                    count += 1;
                    break;
                }
                _ => {}
            }
            first = false;
        }
    }
    Some(count)
}
