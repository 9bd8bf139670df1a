//! From records to rates, lifts, tiers and `results.json`; pure: what goes in is data, what comes
//! out is data, and nothing is read, written or timed here.
//!
//! - [`cell`]: the records of a cell's replicates, and what follows from three of them.
//! - [`results`]: `results.json`, number for number as the reference implementation gives it.
//! - [`paired`]: tiers, help and harm, paired lift, its interval, and the noise between equals.
//! - [`calibration`]: whether skills help, wrong ones harm, and placebos do neither.
//! - [`number`]: means that are rounded once, sums that are compensated, and when a number is an
//!   integer.

pub mod calibration;
pub mod cell;
pub mod number;
pub mod paired;
pub mod results;

pub use cell::{Cell, CellResult, Replicate};
pub use paired::{Comparison, Outcome, PairedSettings};
