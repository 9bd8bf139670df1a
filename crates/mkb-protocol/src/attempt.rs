//! The seam to whoever attempts a task, and to whoever grades it.

use std::sync::Arc;

use mkb_agent::Left;
use mkb_catalog::fingerprint::FileTree;
use mkb_catalog::{Budget, Cancel, GradeFailure, Grader, TaskId, Trial, Verdict};
use mkb_store::{SubmissionEntry, Usage};

/// Who attempts tasks: an agent in a sandbox, seen from outside. Called from several threads.
pub trait Attempter: Sync {
    /// Makes one attempt, from sandbox to what was left in it. Ends the attempt when the budget
    /// does, and soon after the request's `cancel` is set.
    ///
    /// # Errors
    /// Where there was no attempt to speak of. An agent that ran out of time, or left nothing, is
    /// no error.
    fn attempt(&self, request: &AttemptRequest<'_>) -> Result<AttemptOutcome, AttemptFailure>;
}

/// Gives a grader for a task. Called from several threads.
pub trait Graders: Sync {
    /// The grader for that task.
    ///
    /// # Errors
    /// Where the judge cannot be set up.
    fn grader(&self, task: &TaskId) -> Result<Arc<dyn Grader>, GradeFailure>;
}

/// What an attempt is given.
pub struct AttemptRequest<'a> {
    /// Which trial it is for.
    pub trial: &'a Trial,
    /// The task's folder.
    pub task: &'a FileTree,
    /// What is added to the task's instruction, if anything.
    pub attachment: Option<&'a str>,
    /// What it may spend.
    pub budget: Budget,
    /// For an agent that draws: the same for a trial each time, another for each trial.
    pub seed: u64,
    /// Grades its submissions.
    pub grader: Arc<dyn Grader>,
    /// Told of each submission as it is answered.
    pub submissions: &'a dyn Submissions,
    /// Set when the attempt should end at once.
    pub cancel: Cancel,
}

/// Keeps an attempt's submissions.
pub trait Submissions: Sync {
    /// Keeps one: its line in the log, and where the kernel could be read, the kernel with its
    /// verdict and evidence. Where the store refuses, the protocol hears of it and cancels the
    /// attempt: what follows could not be kept.
    fn keep(
        &self,
        entry: &SubmissionEntry,
        kernel: Option<&[u8]>,
        verdict: Option<&Verdict>,
        evidence: &[(String, Vec<u8>)],
    );
}

/// What an attempt left.
#[derive(Clone, Debug)]
pub struct AttemptOutcome {
    /// `/app/kernel.py`, of at most 300,000 bytes.
    pub kernel: Left,
    /// `/app/SKILL.md`.
    pub skill: Left,
    /// Whether the budget ended it.
    pub timed_out: bool,
    /// What it spent.
    pub usage: Option<Usage>,
    /// Further files to keep with the trial, by name (e.g. the agent's log).
    pub logs: Vec<(String, Vec<u8>)>,
}

/// Why there was no attempt to speak of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct AttemptFailure {
    /// The failure's type, which stands before the `:` in the record.
    pub kind: String,
    /// What happened.
    pub message: String,
    /// Whether another try may go better.
    pub transient: bool,
}

/// Failure types that another try may not meet.
const TRANSIENT: [&str; 10] = [
    "EnvironmentStartTimeoutError",
    "AgentSetupTimeoutError",
    "RateLimitError",
    "APIConnectionError",
    "ServiceUnavailableError",
    "BadGatewayError",
    "InternalServerError",
    "Timeout",
    "TimeoutError",
    "APIError",
];

impl AttemptFailure {
    /// A failure whose type decides whether it is transient, as the formats list them.
    pub fn of_kind(kind: &str, message: impl Into<String>) -> Self {
        Self {
            kind: kind.to_owned(),
            message: message.into(),
            transient: TRANSIENT.contains(&kind),
        }
    }
}
