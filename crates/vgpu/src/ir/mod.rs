//! The device IR: a typed, structured program at the level of the PTX ISA (see `IR.md` for its text form).

mod inst;
mod module;
mod registers;
mod signature;
mod text;
mod types;
mod verify;

pub use inst::*;
pub use module::*;
pub use registers::RegisterUse;
pub use text::{MAX_NESTING, ParseError, parse, print, print_inst};
pub use types::*;
pub use verify::*;
