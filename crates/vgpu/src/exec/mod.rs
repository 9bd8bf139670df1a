//! The executor: one small function for each operation, over the 32 lanes of a warp.

// Loops over lanes index several vectors at once.
#![allow(clippy::needless_range_loop)]

mod alu;
mod atomic;
mod control;
mod convert;
mod float;
mod int;
mod isa;
mod memory;
mod print;
mod registers;
mod special;
mod special_register;
mod state;
mod sync;
mod vector;
mod warp;

pub(crate) use alu::*;
pub(crate) use atomic::*;
pub(crate) use control::*;
pub(crate) use convert::*;
pub(crate) use float::*;
pub(crate) use int::*;
pub(crate) use isa::*;
pub(crate) use memory::*;
pub(crate) use print::*;
pub(crate) use registers::*;
pub(crate) use special::*;
pub(crate) use special_register::*;
pub(crate) use state::*;
pub(crate) use sync::*;
pub(crate) use vector::*;
pub(crate) use warp::*;

#[cfg(test)]
mod tests;
