//! TIR's data types, by name, and how the virtual GPU holds them.

use vgpu::ir::{RegClass, Type};

use crate::error::TranslateError;

/// A scalar type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Elem {
    Bool,
    /// An integer of 8, 16, 32 or 64 bits.
    Int {
        bits: u8,
        signed: bool,
    },
    F16,
    BF16,
    F32,
    F64,
    E4M3,
    E5M2,
    E8M0,
    /// Four bits; two in a byte.
    E2M1,
    /// A pointer.
    Handle,
    Void,
}

pub(crate) const S32: Elem = Elem::Int {
    bits: 32,
    signed: true,
};
pub(crate) const U32: Elem = Elem::Int {
    bits: 32,
    signed: false,
};
pub(crate) const S64: Elem = Elem::Int {
    bits: 64,
    signed: true,
};
pub(crate) const U64: Elem = Elem::Int {
    bits: 64,
    signed: false,
};
pub(crate) const U16: Elem = Elem::Int {
    bits: 16,
    signed: false,
};

impl Elem {
    /// Bits of a value; a `bool` takes a byte.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Elem::Bool | Elem::E4M3 | Elem::E5M2 | Elem::E8M0 => 8,
            Elem::Int { bits, .. } => u32::from(bits),
            Elem::F16 | Elem::BF16 => 16,
            Elem::F32 => 32,
            Elem::F64 | Elem::Handle => 64,
            Elem::E2M1 => 4,
            Elem::Void => 0,
        }
    }

    /// Bytes in memory; `None` for types that share a byte.
    pub(crate) fn bytes(self) -> Option<u32> {
        let bits = self.bits();
        (bits >= 8).then_some(bits / 8)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Elem::F16 | Elem::BF16 | Elem::F32 | Elem::F64)
    }

    /// The 8-bit and 4-bit floats, which have conversions and no arithmetic.
    pub(crate) fn is_narrow_float(self) -> bool {
        matches!(self, Elem::E4M3 | Elem::E5M2 | Elem::E8M0 | Elem::E2M1)
    }

    pub(crate) fn is_int(self) -> bool {
        matches!(self, Elem::Int { .. })
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Elem::Int { signed: true, .. })
    }

    /// The class of register that holds a value.
    pub(crate) fn class(self) -> RegClass {
        match self {
            Elem::Bool => RegClass::Pred,
            _ if self.bits() == 64 => RegClass::B64,
            _ => RegClass::B32,
        }
    }

    /// The IR type of its arithmetic and conversions.
    pub(crate) fn ir(self) -> Type {
        match self {
            Elem::Int { bits: 8, signed } => [Type::U8, Type::S8][usize::from(signed)],
            Elem::Int { bits: 16, signed } => [Type::U16, Type::S16][usize::from(signed)],
            Elem::Int { bits: 32, signed } => [Type::U32, Type::S32][usize::from(signed)],
            Elem::Int { signed, .. } => [Type::U64, Type::S64][usize::from(signed)],
            Elem::F16 => Type::F16,
            Elem::BF16 => Type::BF16,
            Elem::F32 => Type::F32,
            Elem::F64 => Type::F64,
            Elem::Handle => Type::U64,
            Elem::Bool => Type::U8,
            Elem::E4M3 | Elem::E5M2 | Elem::E8M0 | Elem::E2M1 | Elem::Void => Type::B8,
        }
    }

    /// The IR type of its loads and stores.
    pub(crate) fn memory(self) -> Type {
        match self {
            Elem::Bool => Type::U8,
            Elem::F16 | Elem::BF16 => Type::B16,
            Elem::F32 => Type::B32,
            Elem::F64 => Type::B64,
            other => other.ir(),
        }
    }
}

/// A scalar or a vector of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DType {
    pub(crate) elem: Elem,
    /// 1 to 64.
    pub(crate) lanes: u16,
}

impl DType {
    pub(crate) const fn scalar(elem: Elem) -> DType {
        DType { elem, lanes: 1 }
    }

    /// Reads a name as TVM prints it: `int32`, `bfloat16x8`, `float8_e4m3fnx4`, `handle`.
    pub(crate) fn parse(name: &str) -> Result<DType, TranslateError> {
        let known = |name: &str| -> Option<Elem> {
            let int = |bits, signed| Some(Elem::Int { bits, signed });
            match name {
                "bool" => Some(Elem::Bool),
                "int8" => int(8, true),
                "int16" => int(16, true),
                "int32" => int(32, true),
                "int64" => int(64, true),
                "uint8" => int(8, false),
                "uint16" => int(16, false),
                "uint32" => int(32, false),
                "uint64" => int(64, false),
                "float16" => Some(Elem::F16),
                "bfloat16" => Some(Elem::BF16),
                "float32" => Some(Elem::F32),
                "float64" => Some(Elem::F64),
                "float8_e4m3fn" => Some(Elem::E4M3),
                "float8_e5m2" => Some(Elem::E5M2),
                "float8_e8m0fnu" => Some(Elem::E8M0),
                "float4_e2m1fn" => Some(Elem::E2M1),
                "handle" => Some(Elem::Handle),
                "void" | "" => Some(Elem::Void),
                _ => None,
            }
        };
        if let Some(elem) = known(name) {
            return Ok(DType::scalar(elem));
        }
        if is_other(name) {
            return Err(TranslateError::unmodelled_type(name));
        }
        let unknown = || TranslateError::malformed(format!("{name:?} is no data type"));
        let (head, tail) = name.rsplit_once('x').ok_or_else(unknown)?;
        let lanes: u16 = tail.parse().map_err(|_| unknown())?;
        if lanes == 0 || lanes > 64 {
            return Err(unknown());
        }
        match known(head) {
            Some(Elem::Handle | Elem::Void) => Err(unknown()),
            Some(elem) => Ok(DType { elem, lanes }),
            None if is_other(head) => Err(TranslateError::unmodelled_type(name)),
            None => Err(unknown()),
        }
    }
}

/// Whether TVM has a scalar type of this name that the virtual GPU does not model.
fn is_other(name: &str) -> bool {
    matches!(
        name,
        "int1"
            | "int2"
            | "int4"
            | "uint1"
            | "uint2"
            | "uint4"
            | "float8_e3m4"
            | "float8_e4m3"
            | "float8_e4m3b11fnuz"
            | "float8_e4m3fnuz"
            | "float8_e5m2fnuz"
            | "float6_e2m3fn"
            | "float6_e3m2fn"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_scalars_and_vectors_are_read() {
        assert_eq!(DType::parse("int32").unwrap(), DType::scalar(S32));
        let vector = DType::parse("float8_e4m3fnx4").unwrap();
        assert_eq!((vector.elem, vector.lanes), (Elem::E4M3, 4));
        assert_eq!(DType::parse("bfloat16x8").unwrap().lanes, 8);
        for bad in [
            "int7",
            "float32x0",
            "float32x65",
            "handlex2",
            "x4",
            "float32x",
            "int4x0",
        ] {
            let error = DType::parse(bad).unwrap_err();
            assert!(matches!(error, TranslateError::Malformed(_)), "{bad}");
        }
    }

    #[test]
    fn types_that_are_not_modelled_are_incomplete_by_name() {
        for name in [
            "int4",
            "uint1",
            "int4x8",
            "float6_e2m3fn",
            "float8_e5m2fnuzx4",
        ] {
            let error = DType::parse(name).unwrap_err().in_kernel("scale_kernel");
            assert_eq!(
                error.to_string(),
                format!("the virtual GPU does not model data type {name} (in kernel scale_kernel)")
            );
        }
    }
}
