//! What happens during a run, as data. Whoever shows or logs a run listens; nothing here prints.

use mkb_catalog::Rewards;
use serde::Serialize;

/// One thing that happened. Trials are named by problem and coordinate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The plan is made, and this is what it holds.
    Planned {
        /// Trials whose records stand.
        reuse: usize,
        /// Trials without a record.
        run: usize,
        /// Trials whose record holds an error.
        rerun: usize,
        /// Trials whose task or skill has changed.
        stale: usize,
        /// Trials that would meet the same gap in the virtual GPU again.
        held: usize,
    },
    /// A trial has begun.
    Started {
        /// Problem.
        problem: String,
        /// Coordinate.
        trial: String,
    },
    /// An attempt at a trial has begun.
    Attempting {
        /// Problem.
        problem: String,
        /// Coordinate.
        trial: String,
        /// Which try, counted from 1.
        attempt: u32,
    },
    /// A submission was answered.
    Submitted {
        /// Problem.
        problem: String,
        /// Coordinate.
        trial: String,
        /// Whether it counts.
        counted: bool,
        /// Its numbers, if it counts.
        rewards: Option<Rewards>,
        /// Why it does not count.
        note: Option<String>,
    },
    /// What the attempt left is being graded.
    Grading {
        /// Problem.
        problem: String,
        /// Coordinate.
        trial: String,
        /// Which try, counted from 1.
        attempt: u32,
    },
    /// A phase failed and is tried again after a wait.
    Retrying {
        /// Problem.
        problem: String,
        /// Coordinate.
        trial: String,
        /// `attempt` or `final grading`.
        phase: &'static str,
        /// Which try failed, counted from 1.
        attempt: u32,
        /// Why.
        error: String,
        /// How long until the next try, in seconds.
        wait_sec: u64,
    },
    /// A trial's record stands.
    Finished {
        /// Problem.
        problem: String,
        /// Coordinate.
        trial: String,
        /// The final numbers.
        rewards: Rewards,
        /// Whether the budget ended the attempt.
        timed_out: bool,
        /// Why there is no verdict.
        error: Option<String>,
        /// Why nothing was attempted.
        skipped: Option<String>,
    },
    /// A trial is left for the next run, without a record.
    Left {
        /// Problem.
        problem: String,
        /// Coordinate.
        trial: String,
        /// Why.
        why: String,
    },
    /// The figures of the whole store were written.
    Snapshot {
        /// How many cell-replicates are resolved.
        resolved: usize,
        /// Of how many.
        total: usize,
    },
}
