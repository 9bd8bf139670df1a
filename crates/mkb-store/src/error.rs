//! What can go wrong with a store, with the path and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a store could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused. Nothing that was complete before is lost.
    #[error("{}: {source}{}", path.display(), advice(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file does not hold what it must.
    #[error("{}{}: {what}", path.display(), line.map(|n| format!(":{n}")).unwrap_or_default())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1, where lines have a meaning.
        line: Option<usize>,
        /// Which field, and what is wrong with it.
        what: String,
    },
    /// A model id that gives no folder name.
    #[error(
        "the model id {0:?} has no ASCII letter or digit after its last `/`, so it names no store"
    )]
    Model(String),
    /// The store holds results of another model or of other conditions.
    #[error("{} holds results with {field} {stored}, not {wanted}; results under different conditions are kept apart: choose another results folder", path.display())]
    OtherIdentity {
        /// The store's folder.
        path: PathBuf,
        /// What differs.
        field: &'static str,
        /// What the store has.
        stored: String,
        /// What was asked for.
        wanted: String,
    },
    /// The store was written by a later version of this program.
    #[error("{} has schema {stored}, later than {known}, the latest that this build knows: use a later build", path.display())]
    LaterSchema {
        /// The store's folder.
        path: PathBuf,
        /// Its schema.
        stored: u64,
        /// The latest known.
        known: u64,
    },
    /// Another process writes to the store, or may.
    #[error("{} is locked by {holder}; if that process is gone, delete the file", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, as far as the file says.
        holder: String,
    },
}

impl StoreError {
    /// Wraps a system error that met `path`.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room and run again: what was finished is kept"
        }
        _ => "",
    }
}
