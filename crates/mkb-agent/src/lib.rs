//! Who attempts a task: the built-in tuner, oracle, replay and nop; and the attempt around them.
//!
//! - [`world`]: what an agent is given, and the trait of those who attempt.
//! - [`mod@attempt`]: one attempt from start to end.
//! - [`mailbox`]: the host's side of submissions.
//! - [`builtin`]: agents that do not search.
//! - [`assets`]: the scripts that an agent finds.
//!
//! Invariant: an agent acts through [`World`] alone, so that nothing it does could not be done by
//! a model in a terminal; no score is read from where an agent can write.

pub mod assets;
pub mod attempt;
pub mod builtin;
pub mod mailbox;
pub mod world;

pub use attempt::{AttemptConfig, AttemptEnd, AttemptError, Left, attempt};
pub use builtin::{Nop, Oracle, Replay};
pub use mailbox::{Mailbox, Served};
pub use world::{Agent, Ran, Stop, World};
