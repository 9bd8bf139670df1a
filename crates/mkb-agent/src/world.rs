//! What an agent is given, and the trait of those who attempt.

use std::time::Duration;

/// What an agent sees of its attempt: a shell, files, a text, a clock. Nothing else.
pub trait World {
    /// The task in words, with the skill attached where there is one.
    fn instruction(&self) -> &str;

    /// A sandbox path (`/app/...`, `/tests/...`, `/docs/...`) as a command must write it.
    fn inside(&self, path: &str) -> String;

    /// Puts a file below `/app`.
    ///
    /// # Errors
    /// [`Stop::Budget`] once the time is over; [`Stop::Failed`] if it cannot be put.
    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), Stop>;

    /// A file below `/app` of at most `limit` bytes; none where there is none.
    ///
    /// # Errors
    /// As [`World::put`].
    fn get(&mut self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Stop>;

    /// Runs a bash command to its end, or for `time` at most; whatever it has started ends with
    /// it.
    ///
    /// # Errors
    /// As [`World::put`].
    fn bash(&mut self, command: &str, time: Duration) -> Result<Ran, Stop>;

    /// What is left of the attempt's time.
    fn time_left(&self) -> Duration;
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit code; none if it was ended (a signal, its time, a limit).
    pub code: Option<i32>,
    /// What it printed, standard output first; the last mebibyte of each.
    pub text: String,
}

/// Why an agent stopped before it wanted to.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The attempt's time is over. No error: what is on disk is graded.
    #[error("the attempt's time is over")]
    Budget,
    /// The attempt was asked to end. No result.
    #[error("the attempt was cancelled")]
    Cancelled,
    /// The sandbox, or the agent itself, failed.
    #[error("{0}")]
    Failed(String),
}

/// Who attempts a task, acting from outside on a [`World`].
pub trait Agent: Send + Sync {
    /// Its name, as results state it.
    fn name(&self) -> String;

    /// Attempts the task; what counts is what it leaves in `/app`.
    ///
    /// # Errors
    /// [`Stop`] as the world gave it, or [`Stop::Failed`] of its own.
    fn attempt(&self, world: &mut dyn World) -> Result<(), Stop>;
}
