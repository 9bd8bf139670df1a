//! What can go wrong while a device module is translated.

/// Why a device module could not be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// The bytes are not a device module as TVM writes it.
    #[error("malformed TIRx device module: {0}")]
    Malformed(String),
    /// The module is well formed, but needs what the virtual GPU does not model.
    #[error("the virtual GPU does not model {operator} (in kernel {kernel}{place})")]
    Incomplete {
        /// The operator, type or scope.
        operator: String,
        /// The kernel.
        kernel: String,
        /// `, FILE:LINE` where the module says; else empty.
        place: String,
    },
    /// CUDA source text that TVM's own lowering did not insert.
    #[error(
        "inline source: the function {name:?} carries CUDA source of its own (SHA-256 {digest}); \
         only TVM's operators may stand in a TIRx program"
    )]
    InlineSource {
        /// The function that is called.
        name: String,
        /// Digest of the text, in hex.
        digest: String,
    },
    /// The module is larger than the limits allow.
    #[error("TIRx device module too large: {0}")]
    TooLarge(String),
}

impl TranslateError {
    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        TranslateError::Malformed(what.into())
    }

    /// A data type that TVM has and the virtual GPU has not, in a kernel that is still to be named.
    pub(crate) fn unmodelled_type(name: &str) -> Self {
        TranslateError::Incomplete {
            operator: format!("data type {name}"),
            kernel: String::new(),
            place: String::new(),
        }
    }

    /// The error with its kernel's name, where it had none.
    pub(crate) fn in_kernel(mut self, name: &str) -> Self {
        if let TranslateError::Incomplete { kernel, .. } = &mut self
            && kernel.is_empty()
        {
            name.clone_into(kernel);
        }
        self
    }
}
