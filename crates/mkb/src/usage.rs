//! Wrong usage: what was asked for is not there, or cannot be meant.

use std::fmt;

/// An error that ends the program with exit code 2.
#[derive(Debug)]
pub struct Usage(String);

impl Usage {
    /// From what is wrong, and what to do.
    pub fn error(what: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(what.into()))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Whether an error says that the program was used wrongly.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Usage>()
            || cause.is::<mkb_protocol::selection::SelectionError>()
            || matches!(
                cause.downcast_ref(),
                Some(mkb_protocol::RunError::Selection(_))
            )
    })
}
