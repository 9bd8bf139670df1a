//! The plan and its convergence: statuses, schedule, retries, skill transfer.
//!
//! - [`selection`]: which trials are wanted.
//! - [`transfer`]: what a trial is given of its source's work.
//! - [`plan`]: a status for every wanted trial; reads the store alone.
//! - [`attempt`]: the seam to whoever attempts a task, and to whoever grades it.
//! - [`sandboxed`]: the one who attempts: an agent of `mkb-agent` in a sandbox of `mkb-sandbox`.
//! - [`trial`]: one trial from its first attempt to its record.
//! - [`run`]: the dispatcher: many trials at once, solos before the skills that need them.
//! - [`event`]: what happens, as data; progress display and logs are listeners.
//! - [`snapshot`]: the figures of the whole store, written beside its records.
//! - [`invocation`]: the line that each run leaves in the store's log.
//!
//! This crate decides what runs and when. It does not know how a kernel is graded or what an
//! agent does, and it writes results through `mkb-store` only.

pub mod attempt;
pub mod event;
pub mod invocation;
pub mod plan;
pub mod run;
pub mod sandboxed;
pub mod selection;
pub mod snapshot;
pub mod transfer;
pub mod trial;

pub use attempt::{AttemptFailure, AttemptOutcome, AttemptRequest, Attempter, Graders};
pub use event::Event;
pub use plan::{Plan, PlannedTrial, Status};
pub use run::{Run, RunError, Summary};
pub use sandboxed::Sandboxed;
pub use selection::{Arms, Selection};
pub use transfer::Transfer;
