//! The device: its memory, launches, and what each launch counted.

mod counts;

pub use counts::*;
