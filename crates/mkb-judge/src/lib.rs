//! The verdict: draws, correctness contract, clock, legality and report.
//!
//! - [`judge`]: graders of tasks, and the workers that they share.
//! - [`evaluation`]: one kernel file through its draws; [`limits`]: its stages.
//! - [`contract`], [`value`], [`dtype`]: whether outputs are right.
//! - [`policy`]: what a submission's text may not refer to; `scopes`: which names are its own.
//! - [`charge`]: what a call costs on the modelled clock.
//! - [`carried`]: what a call brings in from the host beside torch's operations.
//! - [`report`]: an outcome as its verdict.
//! - [`again`]: a recorded verdict judged again.
//! - [`station`], [`worker`], [`template`]: the processes.

pub mod again;
pub mod carried;
pub mod charge;
pub mod contract;
pub mod dtype;
pub mod evaluation;
pub mod judge;
pub mod limits;
pub mod policy;
pub mod report;
mod scopes;
pub mod station;
pub mod template;
pub mod value;
pub mod worker;
