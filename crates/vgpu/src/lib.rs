//! The virtual GPU: device IR, executor, memory spaces, checks and cost model; no IO, no benchmark, no Python.

pub mod cost;
pub mod device;
pub mod ir;
pub mod numeric;
