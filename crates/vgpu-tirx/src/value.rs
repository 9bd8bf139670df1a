//! What a TIR expression becomes: scalars, vectors of scalars, pointers and texts.

use vgpu::ir::{Operand, Space};

use crate::dtype::Elem;

/// A scalar with the C type that it has in the program that TVM's CUDA code generator would print.
///
/// C promotes integers narrower than `int`: a sum of two `int8` is an `int` until it is stored,
/// bound or cast. So the type here may be wider than the TIR expression's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) op: Operand,
    pub(crate) ty: Elem,
}

impl Scalar {
    pub(crate) fn new(op: Operand, ty: Elem) -> Scalar {
        Scalar { op, ty }
    }

    pub(crate) fn imm(bits: u64, ty: Elem) -> Scalar {
        Scalar::new(Operand::Imm(bits), ty)
    }

    pub(crate) fn constant(self) -> Option<u64> {
        match self.op {
            Operand::Imm(bits) => Some(bits),
            Operand::Reg(_) => None,
        }
    }
}

/// Index into the translator's table of memory roots.
pub(crate) type Root = usize;

/// A pointer, as far as it is known where it points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// Into a memory space.
    Memory {
        /// Where.
        space: Space,
        /// 64 bits for global and generic, 32 elsewhere.
        base: Operand,
        /// Bytes.
        offset: i64,
        /// What it was derived from.
        root: Root,
    },
    /// Into a local array that lives in registers.
    Array {
        /// Index of the array.
        array: usize,
        /// Bytes from its start.
        byte: i64,
    },
}

/// An expression's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Scalar(Scalar),
    /// At least two lanes.
    Vector(Vec<Scalar>),
    Pointer(Pointer),
    Text(String),
    Void,
}

impl Value {
    /// One scalar, or a vector of them.
    pub(crate) fn lanes(lanes: Vec<Scalar>) -> Value {
        match lanes.as_slice() {
            [one] => Value::Scalar(*one),
            _ => Value::Vector(lanes),
        }
    }
}
