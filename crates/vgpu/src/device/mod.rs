//! The device: its memory, launches, and what each launch counted.

mod counts;
mod launch;
mod memory;
mod schedule;
mod sets;

pub use counts::*;
pub use launch::*;
pub use memory::*;
pub use sets::*;
