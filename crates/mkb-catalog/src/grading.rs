//! What a judge gives back, and the trait through which it is asked.
//!
//! The trait stands here, below both sides of it: a judge implements it, an agent's mailbox and
//! the protocol's final grading call it, and neither needs to know the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The four numbers of a graded kernel. Empty where nothing was evaluated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Rewards(Map<String, Value>);

impl TryFrom<Map<String, Value>> for Rewards {
    type Error = String;

    /// Every reward must be a number; it is kept as a float.
    fn try_from(map: Map<String, Value>) -> Result<Self, String> {
        map.into_iter()
            .map(|(name, value)| match value.as_f64() {
                Some(number) => Ok((name, Value::from(number))),
                None => Err(format!("reward {name:?} must be a number")),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Rewards {
    /// Of a kernel that was evaluated. `speedup` is the eager median over the kernel's median
    /// where timing was completed and nothing forbids that the kernel scores; it is `None` where
    /// timing was not completed or the submission is illegal. A kernel passes when it is correct
    /// and has a speedup; without passing its speedup is 0.
    pub fn graded(imported: bool, correct: bool, speedup: Option<f64>) -> Self {
        let correct = imported && correct;
        let speedup = speedup.filter(|_| correct);
        let flag = |set: bool| Value::from(if set { 1.0 } else { 0.0 });
        Self(Map::from_iter([
            ("imported".to_owned(), flag(imported)),
            ("correct".to_owned(), flag(correct)),
            (
                "speedup_vs_eager".to_owned(),
                Value::from(speedup.unwrap_or(0.0)),
            ),
            ("passed".to_owned(), flag(speedup.is_some())),
        ]))
    }

    /// Whether nothing was evaluated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A reward by name; 0 where it is absent.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Whether the kernel passed.
    pub fn passed(&self) -> bool {
        self.get("passed") >= 1.0
    }

    /// Eager time over the kernel's time; 0 unless it passed.
    pub fn speedup(&self) -> f64 {
        self.get("speedup_vs_eager")
    }

    /// The rewards by name, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_f64().unwrap_or(0.0)))
    }
}

/// One evaluation's result, as `verdict.json` holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The four numbers, or none.
    pub rewards: Rewards,
    /// `error`, `mismatch`, `assignment`, `n_correct_draws`, `median_ms`, and what a judge adds.
    pub details: Map<String, Value>,
    /// What the agent reads; its last [`Verdict::REPORT_CHARS`] characters are kept.
    pub report: String,
    /// The evaluated process's own words; its last [`Verdict::STDERR_CHARS`] characters are kept.
    pub stderr: String,
    /// Seconds spent on the evaluation, waiting for a slot excluded.
    pub eval_sec: f64,
}

impl Verdict {
    /// How much of a report is kept.
    pub const REPORT_CHARS: usize = 20_000;
    /// How much of a process's standard error is kept.
    pub const STDERR_CHARS: usize = 2_000;

    /// A verdict on what was never evaluated: no numbers, and the reason as its report.
    pub fn unevaluated(reason: &str) -> Self {
        Self {
            report: reason.to_owned(),
            ..Self::default()
        }
    }

    /// The verdict with its texts cut to what is kept.
    pub fn trimmed(mut self) -> Self {
        keep_last(&mut self.report, Self::REPORT_CHARS);
        keep_last(&mut self.stderr, Self::STDERR_CHARS);
        self
    }
}

/// Cuts `text` to its last `chars` characters.
fn keep_last(text: &mut String, chars: usize) {
    if let Some((start, _)) = text.char_indices().rev().nth(chars.saturating_sub(1)) {
        text.drain(..start);
    }
}

/// What for a kernel is graded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A submission during an attempt.
    Submission,
    /// The kernel that the attempt left, for its score.
    Final,
}

/// A kernel file, looked at.
#[derive(Clone, Debug)]
pub enum Graded {
    /// It entered evaluation; the submission counts.
    Evaluated {
        /// What came out.
        verdict: Verdict,
        /// Further files to keep beside the verdict, by name (e.g. the tape).
        evidence: Vec<(String, Vec<u8>)>,
    },
    /// It never entered evaluation (too large, unreadable, not Python); not counted.
    Refused {
        /// Why, for the agent.
        reason: String,
    },
    /// It met what the device does not model; not counted, and never a number.
    Incomplete {
        /// The operation that is missing, and where.
        operation: String,
        /// A verdict without rewards whose report names the operation.
        verdict: Verdict,
        /// Further files to keep beside the verdict, by name.
        evidence: Vec<(String, Vec<u8>)>,
    },
}

/// Why a kernel could not be graded through no fault of its own; not counted, and worth another
/// try.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GradeFailure {
    /// The judge itself failed.
    #[error("{0}")]
    Infrastructure(String),
    /// The caller asked to stop.
    #[error("the evaluation was cancelled")]
    Cancelled,
}

/// A wish to stop, shared between the one who has it and the ones who should. A part of the work
/// can have one of its own that also ends with the whole: see [`Cancel::child`].
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Wish>);

#[derive(Debug, Default)]
struct Wish {
    asked: AtomicBool,
    whole: Option<Cancel>,
}

impl Cancel {
    /// One that nobody has asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One for a part: it is set when this one is, and may be set alone.
    pub fn child(&self) -> Self {
        Self(Arc::new(Wish {
            asked: AtomicBool::new(false),
            whole: Some(self.clone()),
        }))
    }

    /// Asks to stop. Cannot be taken back.
    pub fn cancel(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
    }

    /// Whether someone has asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
            || self.0.whole.as_ref().is_some_and(Cancel::is_cancelled)
    }
}

/// Grades kernels for one task. Calls may come from several threads; each call stands alone, with
/// fresh draws and a fresh process.
pub trait Grader: Send + Sync {
    /// Grades a kernel file's bytes. Looks at `cancel` at least once a second and gives up with
    /// [`GradeFailure::Cancelled`] once it is set.
    ///
    /// # Errors
    /// Where the judge failed, not the kernel; see [`GradeFailure`].
    fn grade(
        &self,
        kernel: &[u8],
        purpose: Purpose,
        cancel: &Cancel,
    ) -> Result<Graded, GradeFailure>;

    /// What the evaluations run on, in words, as a reply to a submission names it, e.g.
    /// `B200 (virtual)`.
    fn device(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_speedup_does_not_pass_and_has_speedup_zero() {
        let untimed = Rewards::graded(true, true, None);
        assert!(!untimed.passed());
        assert_eq!(untimed.get("correct"), 1.0);
        let wrong = Rewards::graded(true, false, Some(3.0));
        assert_eq!((wrong.passed(), wrong.speedup()), (false, 0.0));
        let right = Rewards::graded(true, true, Some(2.5));
        assert_eq!((right.passed(), right.speedup()), (true, 2.5));
    }

    #[test]
    fn rewards_stand_in_the_formats_order_as_floats() {
        let text = serde_json::to_string(&Rewards::graded(true, true, Some(2.0))).expect("json");
        assert_eq!(
            text,
            r#"{"imported":1.0,"correct":1.0,"speedup_vs_eager":2.0,"passed":1.0}"#
        );
    }

    #[test]
    fn a_part_stops_with_the_whole_and_not_the_other_way_round() {
        let whole = Cancel::new();
        let (one, other) = (whole.child(), whole.child());
        one.cancel();
        assert!(one.is_cancelled() && !other.is_cancelled() && !whole.is_cancelled());
        whole.cancel();
        assert!(other.is_cancelled());
    }

    #[test]
    fn long_texts_keep_their_end_in_characters() {
        let verdict = Verdict {
            report: format!("x{}", "é".repeat(Verdict::REPORT_CHARS)),
            stderr: "short".to_owned(),
            ..Verdict::default()
        }
        .trimmed();
        assert_eq!(verdict.report, "é".repeat(Verdict::REPORT_CHARS));
        assert_eq!(verdict.stderr, "short");
    }
}
