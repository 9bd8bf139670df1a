//! The executable form: flat code whose operands are byte offsets into a warp's register file.

use crate::device::{Chain, Pipe};
use crate::exec::{AtomicSite, BarrierKind, Handler, MbarrierKind, Reference};
use crate::ir;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// Bytes of a register of 32-bit lanes.
pub(crate) const SLOT: u32 = 128;
/// Predicate slot that always holds.
pub(crate) const TRUE: u32 = 0;
/// Predicate slot that never holds.
pub(crate) const FALSE: u32 = 1;

/// One operation. What `dst`, `a`, `b`, `c` and `x` mean is the handler's: byte offsets of
/// registers, indices of predicates, targets, or indices into the kernel's side tables.
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub run: Handler,
    /// Index of the predicate that guards it, and what it is xored with.
    pub guard: u32,
    pub flip: u32,
    pub dst: u32,
    pub a: u32,
    pub b: u32,
    pub c: u32,
    pub x: u64,
}

/// What a straight run of operations costs each time a warp enters it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Block {
    pub issued: [u32; Pipe::COUNT],
    pub chain: Chain,
}

impl Block {
    pub fn instructions(&self) -> u32 {
        self.issued.iter().sum()
    }
}

/// Where an operation comes from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    pub location: ir::Location,
    /// Index into [`Code::names`].
    pub name: u32,
}

/// What does not fit an [`Op`].
#[derive(Debug, Clone)]
pub(crate) enum Extra {
    /// Text of an assertion, or the name of an operation that is not modelled.
    Text(String),
    /// A printf: format, and for each argument its type and register.
    Print(String, Vec<(ir::Type, u32)>),
    Atomic(AtomicSite),
    /// An operation by the scalar reference semantics.
    Reference(Reference),
    /// Operation, type, whether of magnitudes.
    Redux(ir::ReduxOp, ir::Type, bool),
    Special(ir::Special),
    Barrier(BarrierKind),
    Mbarrier(MbarrierKind),
    /// A `cp.async`: bytes, its shared address, the register of its source bytes.
    Copy {
        bytes: u32,
        shared_wide: bool,
        shared_offset: u64,
        source: Option<u32>,
    },
}

/// A kernel in executable form.
pub(crate) struct Code {
    pub name: String,
    pub ops: Vec<Op>,
    pub origins: Vec<Origin>,
    pub names: Vec<String>,
    pub files: Vec<String>,
    pub blocks: Vec<Block>,
    pub extras: Vec<Extra>,
    /// Registers of vector accesses.
    pub lists: Vec<u32>,
    /// Bytes of a warp's register file.
    pub register_bytes: u32,
    /// Constants: offset in the register file, value, whether 64 bits wide.
    pub constants: Vec<(u32, u64, bool)>,
    /// Registers that may be read before they are written: offset, bytes.
    pub unset: Vec<(u32, u32)>,
    /// Predicate slots, the two constant ones first.
    pub predicates: u32,
    /// Mask slots.
    pub masks: u32,
    /// Memory sites, each with a cached allocation.
    pub sites: u32,
    pub constant_bank: Vec<u8>,
    pub params: Vec<ir::Param>,
    pub param_bytes: u32,
    pub shared_bytes: u32,
    pub local_bytes: u32,
    pub max_threads: u32,
    pub registers_per_thread: u32,
    /// Whether CTAs may depend on each other's order, and why.
    pub ordered: Option<&'static str>,
    /// Whether it has sums of floats in global memory, which are applied in CTA order.
    pub defers: bool,
}

impl Code {
    /// A text among the extras.
    pub fn text(&self, extra: u64) -> &str {
        match self.extras.get(extra as usize) {
            Some(Extra::Text(text)) => text,
            _ => "",
        }
    }
}
