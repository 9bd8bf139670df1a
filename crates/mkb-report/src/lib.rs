//! What a person sees: terminal tables and progress.
//!
//! - [`tables`]: problems, trials and results as text.
//! - [`progress`]: a run as it goes, for a terminal, a log, or a machine.
//! - [`text`]: text from submissions, made harmless to a terminal.
//!
//! Nothing here computes a result; it shows those that it is given.

pub mod progress;
pub mod tables;
pub mod text;
