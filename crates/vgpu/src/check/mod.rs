//! Checks: what a kernel may do wrong, said so that a person can act on it.

mod deadlock;
mod fault;

pub(crate) use deadlock::deadlock;
pub use fault::*;
