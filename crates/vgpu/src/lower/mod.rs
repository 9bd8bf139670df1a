//! From the IR to the executable form: operands become places in a register file, structures become
//! jumps with mask slots, instructions become handlers.

mod analyse;
mod code;
mod convert;
mod float;
mod inst;
mod int;
mod memory;
mod mnemonic;
mod places;
mod program;
mod structure;

pub(crate) use code::*;
pub use program::*;
