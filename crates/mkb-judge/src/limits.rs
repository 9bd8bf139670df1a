//! How long each stage of an evaluation may take, and how an outcome names it.

use std::fmt;
use std::time::Duration;

/// Draws that check correctness.
pub const CORRECTNESS_DRAWS: usize = 5;
/// Timed draws on the modelled clock, which is a function of the draw.
pub const MODELLED_DRAWS: usize = 3;

/// Where in an evaluation something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Starting Python.
    StartUp,
    /// Running the kernel file.
    Import,
    /// A correctness draw, counted from 1.
    Draw(usize),
    /// A timed draw, counted from 1.
    Timing(usize),
}

impl Stage {
    /// What the stage may take.
    pub const fn limit(self) -> Duration {
        match self {
            Stage::StartUp => Duration::from_secs(120),
            Stage::Import | Stage::Timing(_) => Duration::from_secs(300),
            Stage::Draw(_) => Duration::from_secs(120),
        }
    }
}

/// What an evaluation may take in all, starting Python included.
pub const EVALUATION: Duration = Duration::from_secs(600);

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::StartUp => f.write_str("start-up"),
            Stage::Import => f.write_str("import"),
            Stage::Draw(n) => write!(f, "draw {n} of {CORRECTNESS_DRAWS}"),
            Stage::Timing(n) => write!(f, "timing, draw {n} of {MODELLED_DRAWS}"),
        }
    }
}
