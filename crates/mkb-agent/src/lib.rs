//! Who attempts a task: the built-in tuner, oracle, replay and nop; and the attempt around them.
//!
//! - [`world`]: what an agent is given, and the trait of those who attempt.
//! - [`mod@attempt`]: one attempt from start to end.
//! - [`mailbox`]: the host's side of submissions.
//! - [`builtin`]: agents that do not search.
//! - [`tuner`]: the agent that searches, with [`template`] (a solution with its parameters),
//!   [`reply`] (a report, read) and [`skill`] (sentences, written, read and turned round).
//! - [`assets`]: the scripts that an agent finds.
//!
//! Invariant: an agent acts through [`World`] alone, so that nothing it does could not be done by
//! a model in a terminal; no score is read from where an agent can write.

pub mod assets;
pub mod attempt;
pub mod builtin;
pub mod mailbox;
pub mod reply;
pub mod skill;
pub mod template;
pub mod tuner;
pub mod world;

pub use attempt::{AttemptConfig, AttemptEnd, AttemptError, Left, attempt};
pub use builtin::{Nop, Oracle, Replay};
pub use mailbox::{Mailbox, Served};
pub use template::{Template, TemplateError};
pub use tuner::Tuner;
pub use world::{Agent, Ran, Stop, World};
