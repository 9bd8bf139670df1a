//! Types of operands that differ from the type an instruction names.

use super::inst::{IntBinary, IntUnary, MadWidth};
use super::types::{RegClass, Type};

impl Type {
    /// The integer type of twice the width and the same signedness; `None` at 8 and 64 bits.
    pub const fn doubled(self) -> Option<Type> {
        match self {
            Type::B16 => Some(Type::B32),
            Type::U16 => Some(Type::U32),
            Type::S16 => Some(Type::S32),
            Type::B32 => Some(Type::B64),
            Type::U32 => Some(Type::U64),
            Type::S32 => Some(Type::S64),
            _ => None,
        }
    }

    /// Whether it is one floating-point value with arithmetic in the ISA.
    pub const fn is_float_scalar(self) -> bool {
        matches!(self, Type::F16 | Type::BF16 | Type::F32 | Type::F64)
    }

    /// Whether it is two floating-point values with arithmetic in the ISA.
    pub const fn is_float_packed(self) -> bool {
        matches!(self, Type::F16x2 | Type::BF16x2 | Type::F32x2)
    }

    /// The element of a packed type, itself for a scalar.
    pub const fn element(self) -> Type {
        match self {
            Type::F16x2 => Type::F16,
            Type::BF16x2 => Type::BF16,
            Type::F32x2 => Type::F32,
            Type::U16x2 => Type::U16,
            Type::S16x2 => Type::S16,
            Type::E4M3x2 => Type::E4M3,
            Type::E5M2x2 => Type::E5M2,
            Type::E2M1x2 => Type::E2M1,
            Type::E2M3x2 => Type::E2M3,
            Type::E3M2x2 => Type::E3M2,
            Type::UE8M0x2 => Type::UE8M0,
            other => other,
        }
    }

    /// Whether it holds two values.
    pub const fn is_packed(self) -> bool {
        self.element().bits() != self.bits()
    }
}

impl RegClass {
    /// The untyped bits of a register of this class; a predicate is `None`.
    pub const fn bits_type(self) -> Option<Type> {
        match self {
            RegClass::Pred => None,
            RegClass::B32 => Some(Type::B32),
            RegClass::B64 => Some(Type::B64),
        }
    }
}

impl IntBinary {
    /// Type of the result for operands of type `ty`.
    pub const fn result(self, ty: Type) -> Type {
        match (self, ty.doubled()) {
            (IntBinary::MulWide, Some(wide)) => wide,
            _ => ty,
        }
    }

    /// Type of the second operand: a shift's amount is an unsigned 32-bit value at every width.
    pub const fn second(self, ty: Type) -> Type {
        match self {
            IntBinary::Shl | IntBinary::Shr => Type::U32,
            _ => ty,
        }
    }
}

impl IntUnary {
    /// Type of the result for an operand of type `ty`.
    pub const fn result(self, ty: Type) -> Type {
        match self {
            IntUnary::Popc | IntUnary::Clz | IntUnary::Bfind | IntUnary::BfindShiftAmt => Type::U32,
            _ => ty,
        }
    }
}

impl MadWidth {
    /// Type of the addend and the result for factors of type `ty`.
    pub const fn result(self, ty: Type) -> Type {
        match (self, ty.doubled()) {
            (MadWidth::Wide, Some(wide)) => wide,
            _ => ty,
        }
    }
}
