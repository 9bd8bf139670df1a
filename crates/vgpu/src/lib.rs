//! The virtual GPU: device IR, executor, memory spaces, checks and cost model; no IO, no benchmark, no Python.

pub mod check;
pub mod cost;
pub mod device;
mod exec;
pub mod ir;
mod lower;
pub mod numeric;

pub use check::{Fault, FaultKind, Incomplete};
pub use device::{Counts, GlobalMemory, Gpu, LaunchConfig, LaunchError, LaunchReport, Options};
pub use lower::{CompileError, KernelInfo, Program};
