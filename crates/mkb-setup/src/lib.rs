//! The Python environment that workers run in: create, lock, verify, describe.
//!
//! - [`Environment`]: where it is and how to start its Python.
//! - [`ensure`]: makes it if it is not there; resumable, believed only when it is whole.
//! - [`documentation`]: the pages that attempts get, generated from what it holds.
//! - [`describe`]: what there is, for a person; [`needs`]: what making it takes of the machine.
//!
//! It lies in `<root>/.mkb/env-<hash of python/requirements.lock>`. Packages come from the registry by
//! the hashes of that file; torch comes without NVIDIA's packages, for the stand-ins of
//! `python/mkb_shim` take their place.

mod documentation;
mod environment;
mod error;
mod needs;
mod process;
mod python;
mod steps;

pub use documentation::{Documentation, documentation};
pub use environment::{Environment, State, describe, locate};
pub use error::SetupError;
pub use needs::{Need, free_bytes, needs};
pub use python::SUPPORTED;
pub use steps::{NEEDED_BYTES, Options, Progress, Quiet, Step, ensure};
