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
    /// Running the kernel file.
    Import,
    /// A correctness draw, counted from 1.
    Draw(usize),
    /// A timed draw, counted from 1.
    Timing(usize),
}

/// What the stages of an evaluation may take, and all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Running the kernel file.
    pub import: Duration,
    /// A correctness draw, in which most kernels are compiled.
    pub draw: Duration,
    /// A timed draw.
    pub timing: Duration,
    /// The whole, once Python has started.
    pub whole: Duration,
}

impl Limits {
    /// What `stage` may take.
    pub const fn of(&self, stage: Stage) -> Duration {
        match stage {
            Stage::Import => self.import,
            Stage::Draw(_) => self.draw,
            Stage::Timing(_) => self.timing,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            import: Duration::from_secs(300),
            draw: Duration::from_secs(120),
            timing: Duration::from_secs(300),
            whole: Duration::from_secs(600),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Import => f.write_str("import"),
            Stage::Draw(n) => write!(f, "draw {n} of {CORRECTNESS_DRAWS}"),
            Stage::Timing(n) => write!(f, "timing, draw {n} of {MODELLED_DRAWS}"),
        }
    }
}
