//! Modules, kernels and their structured bodies.

use super::inst::{Guard, Inst, Reg};
use super::types::RegClass;

/// A compiled unit: kernels, and a bank of constants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Module {
    /// Kernels, by unique name.
    pub kernels: Vec<Kernel>,
    /// Bytes of the constant bank.
    pub constants: Vec<u8>,
    /// Source files that locations refer to.
    pub files: Vec<String>,
}

/// A kernel entry point.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kernel {
    /// Name, unique in the module.
    pub name: String,
    /// Parameters, laid out in order, each at the next multiple of its alignment.
    pub params: Vec<Param>,
    /// Registers, by index.
    pub regs: Vec<RegDecl>,
    /// Bytes of static shared memory, from offset 0. Dynamic shared memory begins at the next multiple of 1,024.
    pub shared_bytes: u32,
    /// Bytes of local memory of each thread.
    pub local_bytes: u32,
    /// Most threads that a block may have; 0 where not declared.
    pub max_threads: u32,
    /// Registers of each thread as a real compiler would allot them, where the front end has an estimate; 0 = estimate from liveness.
    pub register_estimate: u32,
    /// The body.
    pub body: Block,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name, for messages.
    pub name: String,
    /// Bytes, 1 to 4,096.
    pub size: u32,
    /// Alignment, a power of two up to 64.
    pub align: u32,
}

impl Kernel {
    /// Byte offset of each parameter in parameter space, and the size of the whole.
    pub fn param_layout(&self) -> (Vec<u32>, u32) {
        let mut offset = 0u32;
        let mut offsets = Vec::with_capacity(self.params.len());
        for param in &self.params {
            offset = offset.next_multiple_of(param.align.max(1));
            offsets.push(offset);
            offset += param.size;
        }
        (offsets, offset)
    }
}

/// A register's declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegDecl {
    /// Name without the percent sign, unique in the kernel.
    pub name: String,
    /// Class.
    pub class: RegClass,
}

/// Where a node comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Location {
    /// Index into [`Module::files`] plus one; 0 where unknown.
    pub file: u32,
    /// Line, from 1; 0 where unknown.
    pub line: u32,
}

/// A sequence of nodes.
pub type Block = Vec<Node>;

/// A node of the structured program, with its source location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it comes from.
    pub location: Location,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node does. Lanes that leave (`Return`), or wait at a loop's end (`Break`), rejoin at the
/// end of the structure that they left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// An instruction, for the lanes where the guard holds.
    Inst {
        /// Guard.
        guard: Option<Guard>,
        /// Instruction.
        inst: Inst,
    },
    /// Two-way branch.
    If {
        /// Predicate.
        cond: Reg,
        /// Where it holds.
        then: Block,
        /// Where it does not.
        otherwise: Block,
    },
    /// Repeat until every lane has left by `Break` or `Return`.
    Loop {
        /// Body.
        body: Block,
    },
    /// Leave the innermost loop, for the lanes where the guard holds.
    Break {
        /// Guard.
        guard: Option<Guard>,
    },
    /// Begin the innermost loop's next turn.
    Continue {
        /// Guard.
        guard: Option<Guard>,
    },
    /// End the thread.
    Return {
        /// Guard.
        guard: Option<Guard>,
    },
}
