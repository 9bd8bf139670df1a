//! The verdict: draws, correctness contract, clock, legality and report.
//!
//! - [`judge`]: graders of tasks, and the workers that they share.
//! - [`evaluation`]: one kernel file through its draws; [`limits`]: its stages.
//! - [`contract`], [`value`], [`dtype`]: whether outputs are right.
//! - [`policy`]: what a submission's text may not refer to.
//! - [`charge`]: what a call costs on the modelled clock.
//! - [`report`]: an outcome as its verdict.
//! - [`again`]: a recorded verdict judged again.
//! - [`station`], [`worker`], [`template`]: the processes.

pub mod again;
pub mod charge;
pub mod contract;
pub mod dtype;
pub mod evaluation;
pub mod judge;
pub mod limits;
pub mod policy;
pub mod report;
pub mod station;
pub mod template;
pub mod value;
pub mod worker;
