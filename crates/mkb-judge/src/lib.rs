//! The verdict: draws, correctness contract, clock, legality and report.

pub mod contract;
pub mod dtype;
pub mod policy;
pub mod station;
pub mod value;
pub mod worker;
