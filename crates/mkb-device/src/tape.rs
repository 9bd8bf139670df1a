//! The tape of a worker (`docs/tape.md`), read from bytes that nobody vouches for.
//!
//! [`parse`] gives a segment's entries; [`write()`] is its inverse, for tests and tools.

mod read;
mod write;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use read::{body, parse};
pub use write::write;

/// The bytes with which a tape's file begins.
pub const MAGIC: [u8; 8] = *b"MKBTAPE\x01";

/// Why bytes are no tape, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tape: entry at byte {entry}: {what}")]
pub struct TapeError {
    /// Where the entry begins, from the segment's start.
    pub entry: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

/// One thing that a worker did.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry<'a> {
    /// Memory whose content does not matter yet.
    Alloc {
        /// The allocation's number, from 1.
        allocation: u64,
        /// Its size.
        bytes: u64,
    },
    /// The end of an allocation.
    Free {
        /// The allocation's number.
        allocation: u64,
    },
    /// An operation of torch on device tensors.
    Op(Op<'a>),
    /// A copy to the host, or one element read there.
    Read(Value<'a>),
    /// The program waited for the device.
    Sync,
    /// A module of kernels.
    Module {
        /// Its number, which launches name.
        module: u64,
        /// 0: IR text; 2: an enveloped TIRx module.
        format: u8,
        /// The module itself.
        source: &'a [u8],
    },
    /// A kernel launch.
    Launch(Launch<'a>),
    /// A draw begins with these inputs.
    Begin(Value<'a>),
    /// A draw ends with these outputs.
    End(Value<'a>),
}

/// An operation of torch.
#[derive(Debug, Clone, PartialEq)]
pub struct Op<'a> {
    /// The dispatcher's name with the overload: `aten::add.Tensor`.
    pub name: &'a str,
    /// Seed and offset of the generator that it drew random numbers from.
    pub random: Option<(u64, u64)>,
    /// Its arguments, in the schema's order.
    pub arguments: Vec<Value<'a>>,
    /// Its results.
    pub results: Vec<Value<'a>>,
}

impl Op<'_> {
    /// The tensors among the arguments, those in lists included.
    pub fn operands(&self) -> impl Iterator<Item = &Tensor> {
        tensors(&self.arguments)
    }

    /// The tensors among the results. One that is an operand as it was is that operand.
    pub fn result_tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.results
            .iter()
            .filter_map(|result| match result {
                Value::Same(argument) => self.arguments.get(usize::try_from(*argument).ok()?),
                other => Some(other),
            })
            .flat_map(|value| tensors(std::slice::from_ref(value)))
    }

    /// Bytes of host data that went to the device in this operation. A Python number that takes part
    /// in arithmetic is no data.
    pub fn host_bytes(&self) -> u64 {
        fn of(values: &[Value]) -> u64 {
            values
                .iter()
                .map(|value| match value {
                    Value::HostTensor(host) if !host.wrapped_number => host.data.len() as u64,
                    Value::List(items) | Value::Tuple(items) => of(items),
                    _ => 0,
                })
                .sum()
        }
        of(&self.arguments)
    }
}

fn tensors<'v>(values: &'v [Value]) -> impl Iterator<Item = &'v Tensor> {
    let mut found = Vec::new();
    collect(values, &mut found);
    found.into_iter()
}

fn collect<'v>(values: &'v [Value], found: &mut Vec<&'v Tensor>) {
    for value in values {
        match value {
            Value::Tensor(tensor) => found.push(tensor),
            Value::List(items) | Value::Tuple(items) => collect(items, found),
            Value::Dict(pairs) => {
                for (key, item) in pairs {
                    collect(std::slice::from_ref(key), found);
                    collect(std::slice::from_ref(item), found);
                }
            }
            _ => {}
        }
    }
}

/// A kernel launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch<'a> {
    /// The module's number.
    pub module: u64,
    /// The kernel's name in it.
    pub kernel: &'a str,
    /// The DSL whose front end launched it.
    pub dsl: &'a str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads in x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y, z.
    pub cluster: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared_bytes: u32,
    /// The arguments.
    pub arguments: Vec<Argument<'a>>,
}

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument<'a> {
    /// Its bytes, in which pointers have no meaning yet.
    pub bytes: &'a [u8],
    /// The device addresses in it.
    pub pointers: Vec<Pointer>,
}

/// A device address in a kernel's argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointer {
    /// Where its eight bytes stand in the argument.
    pub position: u32,
    /// The allocation that it points into; 0 for a null pointer.
    pub allocation: u64,
    /// Bytes from the allocation's start.
    pub offset: u64,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// `None`.
    None,
    /// A device tensor.
    Tensor(Tensor),
    /// A tensor on the host, with its data.
    HostTensor(HostTensor<'a>),
    /// No tensor where there could be one.
    Undefined,
    /// An integer, or a dtype, layout or memory format by torch's number.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// Text.
    Text(&'a str),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
    /// A list.
    List(Vec<Value<'a>>),
    /// A device's name.
    Device(&'a str),
    /// A random generator was given.
    Generator,
    /// The result is the argument of that position, as it was.
    Same(u64),
    /// A dict in its order.
    Dict(Vec<(Value<'a>, Value<'a>)>),
    /// A tuple.
    Tuple(Vec<Value<'a>>),
    /// Something without a form on the tape: its type's qualified name.
    Other(&'a str),
    /// A host tensor that the operation fills.
    HostResult {
        /// Its type.
        dtype: Dtype,
        /// Its sizes.
        sizes: Vec<u64>,
    },
}

/// A tensor on the host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTensor<'a> {
    /// Its type.
    pub dtype: Dtype,
    /// Its sizes.
    pub sizes: Vec<u64>,
    /// Whether it stands for a Python number in arithmetic.
    pub wrapped_number: bool,
    /// Its elements in row-major order.
    pub data: &'a [u8],
}

/// A place in device memory with a type and a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its type.
    pub dtype: Dtype,
    /// Sizes.
    pub sizes: Vec<u64>,
    /// Distances between neighbours along each dimension, in elements.
    pub strides: Vec<u64>,
    /// The allocation in which it lies; 0 where it has no elements and no memory.
    pub allocation: u64,
    /// Bytes from the allocation's start to its first element.
    pub offset: u64,
    /// Whether the operation writes it.
    pub written: bool,
    /// Whether it reads as the complex conjugate of its memory.
    pub conjugate: bool,
    /// Whether it reads as the negative of its memory.
    pub negative: bool,
    /// Whether it stands for a Python number in arithmetic.
    pub wrapped_number: bool,
    /// The size of its allocation, where that is first seen here.
    pub born: Option<u64>,
}

impl Tensor {
    /// Number of elements, as the program sees them; saturating.
    pub fn elements(&self) -> u64 {
        self.sizes.iter().fold(1, |n, &size| n.saturating_mul(size))
    }

    /// Bytes of different memory that its elements occupy: dimensions of stride 0 count once.
    /// Saturating; overlaps of another kind are not seen.
    pub fn distinct_bytes(&self) -> u64 {
        if self.elements() == 0 {
            return 0;
        }
        let distinct = self
            .sizes
            .iter()
            .zip(&self.strides)
            .filter(|&(_, &stride)| stride != 0)
            .fold(1u64, |n, (&size, _)| n.saturating_mul(size));
        distinct.saturating_mul(self.dtype.size())
    }

    /// The bytes of its allocation from its first element to past its last; saturating.
    pub fn extent(&self) -> Range<u64> {
        if self.elements() == 0 {
            return self.offset..self.offset;
        }
        let last = self
            .sizes
            .iter()
            .zip(&self.strides)
            .fold(0u64, |n, (&size, &stride)| {
                n.saturating_add((size - 1).saturating_mul(stride))
            });
        let end = last
            .saturating_add(1)
            .saturating_mul(self.dtype.size())
            .saturating_add(self.offset);
        self.offset..end
    }

    /// Whether its elements follow each other in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1u64;
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            if size != 1 && stride != expected {
                return self.elements() == 0;
            }
            expected = expected.saturating_mul(size);
        }
        true
    }
}

/// An element type, by torch's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dtype(u8);

/// Number, torch's name, bytes of an element.
const DTYPES: [(u8, &str, u64); 22] = [
    (0, "uint8", 1),
    (1, "int8", 1),
    (2, "int16", 2),
    (3, "int32", 4),
    (4, "int64", 8),
    (5, "float16", 2),
    (6, "float32", 4),
    (7, "float64", 8),
    (8, "complex32", 4),
    (9, "complex64", 8),
    (10, "complex128", 16),
    (11, "bool", 1),
    (15, "bfloat16", 2),
    (23, "float8_e5m2", 1),
    (24, "float8_e4m3fn", 1),
    (25, "float8_e5m2fnuz", 1),
    (26, "float8_e4m3fnuz", 1),
    (27, "uint16", 2),
    (28, "uint32", 4),
    (29, "uint64", 8),
    (44, "float8_e8m0fnu", 1),
    (45, "float4_e2m1fn_x2", 1),
];

impl Dtype {
    fn from_code(code: u8) -> Option<Self> {
        DTYPES.iter().any(|row| row.0 == code).then_some(Self(code))
    }

    /// The type with torch's name `name` (`bfloat16`).
    pub fn from_name(name: &str) -> Option<Self> {
        DTYPES
            .iter()
            .find(|row| row.1 == name)
            .map(|row| Self(row.0))
    }

    fn row(self) -> &'static (u8, &'static str, u64) {
        DTYPES
            .iter()
            .find(|row| row.0 == self.0)
            .expect("a Dtype is made of a number that the table has")
    }

    /// torch's name (`bfloat16`).
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of an element.
    pub fn size(self) -> u64 {
        self.row().2
    }
}
