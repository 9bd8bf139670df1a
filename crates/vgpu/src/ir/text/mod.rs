//! The IR's text form (`IR.md`): lexer, parser and printer, exact inverses of each other.

mod lex;
mod names;
mod parse;
mod parse_inst;
mod print;

#[cfg(test)]
mod tests;

use super::Module;

pub(crate) use lex::is_name;
pub use print::{print, print_inst};

/// Deepest nesting of `if` and `loop` that the parser reads and the verifier accepts.
pub const MAX_NESTING: usize = 256;

/// Why a text is not a module, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong there.
    pub message: String,
}

/// Reads a module. The text is checked for form and for names that do not exist; whether the
/// program is a legal one is [`super::verify`]'s question.
///
/// # Errors
/// The first place where the text departs from the form given in `IR.md`.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    parse::Parser::new(text).module()
}
