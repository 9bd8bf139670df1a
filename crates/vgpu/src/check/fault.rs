//! Faults: what went wrong, where, and what would have made it right.

use std::fmt;

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An access outside every live allocation, or outside a window.
    OutOfBounds,
    /// An access of memory that was freed.
    UseAfterFree,
    /// An address that is no multiple of the access's size.
    Misaligned,
    /// Every warp that is left waits for something that cannot happen.
    Deadlock,
    /// `trap`.
    Trap,
    /// A device assertion that did not hold.
    Assert,
    /// More warp instructions than the launch's budget.
    StepBudget,
    /// A CTA barrier used against its rules.
    Barrier,
    /// An mbarrier used against its rules.
    Mbarrier,
    /// A warp-wide operation whose members cannot all arrive.
    WarpSync,
}

impl FaultKind {
    /// A short name, in words.
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::OutOfBounds => "out-of-bounds access",
            FaultKind::UseAfterFree => "use of freed memory",
            FaultKind::Misaligned => "misaligned access",
            FaultKind::Deadlock => "deadlock",
            FaultKind::Trap => "trap",
            FaultKind::Assert => "assertion failed",
            FaultKind::StepBudget => "step budget exceeded",
            FaultKind::Barrier => "barrier misuse",
            FaultKind::Mbarrier => "mbarrier misuse",
            FaultKind::WarpSync => "warp operation misuse",
        }
    }
}

/// A fault of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind it is.
    pub kind: FaultKind,
    /// The kernel's name.
    pub kernel: String,
    /// Source file and line, where known.
    pub location: Option<(String, u32)>,
    /// The instruction, as its text form names it; empty where no single one is meant.
    pub operation: String,
    /// `%ctaid` of the CTA, where one is meant.
    pub cta: Option<[u32; 3]>,
    /// `%tid` of the thread, where one is meant.
    pub thread: Option<[u32; 3]>,
    /// What happened, in words.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in kernel `{}`", self.kind.name(), self.kernel)?;
        if let Some((file, line)) = &self.location {
            write!(f, " at {file}:{line}")?;
        }
        if !self.operation.is_empty() {
            write!(f, ", {}", self.operation)?;
        }
        if let Some([x, y, z]) = self.cta {
            write!(f, ", CTA ({x}, {y}, {z})")?;
        }
        if let Some([x, y, z]) = self.thread {
            write!(f, ", thread ({x}, {y}, {z})")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// An operation that the virtual GPU does not model was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// The kernel's name.
    pub kernel: String,
    /// Source file and line, where known.
    pub location: Option<(String, u32)>,
    /// The operation.
    pub operation: String,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel `{}` reached `{}`, which the virtual GPU does not model",
            self.kernel, self.operation
        )?;
        if let Some((file, line)) = &self.location {
            write!(f, ", at {file}:{line}")?;
        }
        Ok(())
    }
}
