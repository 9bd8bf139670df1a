//! One model's results on disk: layout, identity, records, lock, archive and torn-line repair.
//!
//! - [`identity`]: whose results a store holds and under which conditions, and its folder's name.
//! - [`record`]: what is kept of a trial, as data.
//! - [`store`]: the folder, read.
//! - [`writer`]: the folder, written by the one process that holds its [`lock`].
//! - [`json`]: JSON text as Python's `json` module writes it.
//! - [`lines`]: files of one JSON object a line, and the repair of a torn last line.
//! - [`atomic`]: files that are whole or absent, whatever happens meanwhile.
//!
//! Nothing else in the workspace writes results.

pub mod atomic;
pub mod error;
pub mod identity;
pub mod json;
pub mod lines;
pub mod lock;
pub mod record;
pub mod store;
pub mod writer;

pub use error::StoreError;
pub use identity::Identity;
pub use record::{Record, Stamps, StoredTrial, SubmissionEntry, Usage};
pub use store::{Kept, Store};
pub use writer::{Notice, StoreWriter, TrialWriter};
