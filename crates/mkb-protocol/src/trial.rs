//! One trial from its first attempt to its record.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mkb_agent::Left;
use mkb_catalog::fingerprint::FileTree;
use mkb_catalog::setting::{KERNEL_PATH, SKILL_PATH};
use mkb_catalog::{
    Cancel, GradeFailure, Graded, Grader, Purpose, Rewards, TaskId, Trial, Verdict, skill,
};
use mkb_store::{Record, Stamps, StoreError, StoreWriter, SubmissionEntry, TrialWriter};
use sha2::{Digest, Sha256};

use crate::attempt::{
    AttemptFailure, AttemptOutcome, AttemptRequest, Attempter, Graders, Submissions,
};
use crate::event::Event;
use crate::plan::{INCOMPLETE, PlannedTrial};
use crate::transfer::Transfer;

/// How often a phase is tried.
pub const TRIES: u32 = 3;
/// How long to wait before another try.
pub const RETRY_WAIT: Duration = Duration::from_secs(30);
/// What the attempt's phase may take beside the agent's own budget: 1,800 s to build, 360 s to
/// set up, 1,200 s to spare.
pub const PHASE_SLACK: Duration = Duration::from_secs(1_800 + 360 + 1_200);

/// Waits, unless told to stop meanwhile.
pub type Wait<'a> = &'a (dyn Fn(Duration, &Cancel) + Sync);

/// What every trial of a run shares.
pub struct Shared<'a> {
    /// Where trials are kept.
    pub store: &'a StoreWriter,
    /// The tasks' folders.
    pub tasks: &'a BTreeMap<TaskId, FileTree>,
    /// Who attempts.
    pub attempter: &'a dyn Attempter,
    /// Who grades.
    pub graders: &'a dyn Graders,
    /// What skills turn into.
    pub transfer: Transfer<'a>,
    /// The versions that results depend on.
    pub versions: &'a BTreeMap<String, String>,
    /// From which agents' seeds follow.
    pub seed: u64,
    /// How to wait between tries.
    pub wait: Wait<'a>,
    /// Set when the run should end.
    pub cancel: Cancel,
}

/// How a trial ended.
#[derive(Debug)]
pub enum End {
    /// With a record.
    Recorded(Record),
    /// Without one: the run was asked to stop.
    Cancelled,
    /// Without one: the store refused, or something failed outside the attempt.
    Failed(TrialError),
}

/// Why a trial has no record.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of this program.
    #[error("{0}")]
    Internal(String),
}

/// Told of what happens, from several threads.
pub type Tell<'a> = &'a (dyn Fn(Event) + Sync);

/// Runs one trial to its record.
pub fn run(shared: &Shared<'_>, planned: &PlannedTrial, tell: Tell<'_>) -> End {
    let running = Running {
        shared,
        planned,
        tell,
    };
    running.run().unwrap_or_else(End::Failed)
}

/// The seed that an agent draws from in a trial: the same each time, another for each trial.
pub fn seed(base: u64, trial: &Trial) -> u64 {
    let text = format!("{base}/{}/{}", trial.problem, trial.coordinate());
    let digest = Sha256::digest(text);
    u64::from_le_bytes(std::array::from_fn(|index| digest[index]))
}

struct Running<'a> {
    shared: &'a Shared<'a>,
    planned: &'a PlannedTrial,
    tell: Tell<'a>,
}

/// A phase that did not come to its end.
enum Stop {
    /// It failed, for good or for too often; this is the record's error.
    Failed {
        kind: String,
        message: String,
    },
    Cancelled,
    Broken(TrialError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Stop::Broken(error.into())
    }
}

/// The final grading's result.
struct Final {
    record: Record,
    verdict: Verdict,
    evidence: Vec<(String, Vec<u8>)>,
}

impl Running<'_> {
    fn run(&self) -> Result<End, TrialError> {
        let Shared { store, .. } = self.shared;
        let trial = &self.planned.trial;
        let (problem, name) = self.names();
        (self.tell)(Event::Started {
            problem,
            trial: name,
        });
        let attachment = self.shared.transfer.attachment(store, trial)?;
        if trial.source().is_some() && attachment.is_none() {
            let record = Record::skipped("the source solo left nothing to transfer");
            return self.finish(store.begin(trial)?, record, None);
        }
        if let Some(text) = &attachment {
            store.write_attachment(trial, text)?;
        }
        let digest = attachment.as_deref().map(skill::digest);
        let grader = match self.grader() {
            Ok(grader) => grader,
            Err(stop) => return self.stop(store.begin(trial)?, stop, digest),
        };
        let (folder, outcome) = match self.attempt(attachment.as_deref(), &grader)? {
            (folder, Ok(outcome)) => (folder, outcome),
            (folder, Err(stop)) => return self.stop(folder, stop, digest),
        };
        self.keep_artifacts(&folder, &outcome)?;
        match self.grade(&outcome, &*grader) {
            Ok(graded) => {
                folder.write_verdict(&graded.verdict, &graded.evidence)?;
                self.finish(folder, graded.record, digest)
            }
            Err(stop) => self.stop(folder, stop, digest),
        }
    }

    fn grader(&self) -> Result<Arc<dyn Grader>, Stop> {
        self.with_tries("set-up of the judge", |_| {
            let grader = self.shared.graders.grader(&self.planned.task);
            grader.map_err(|failure| Try::of_judge(&failure))
        })
    }

    /// The sandbox phase: an attempt in a folder of its own, anew for each try.
    fn attempt(
        &self,
        attachment: Option<&str>,
        grader: &Arc<dyn Grader>,
    ) -> Result<(TrialWriter<'_>, Result<AttemptOutcome, Stop>), TrialError> {
        let trial = &self.planned.trial;
        let Some(task) = self.shared.tasks.get(&self.planned.task) else {
            let message = format!("the task {} was not rendered", self.planned.task);
            return Err(TrialError::Internal(message));
        };
        let mut folder = None;
        let outcome = self.with_tries("attempt", |attempt| {
            let (problem, name) = self.names();
            (self.tell)(Event::Attempting {
                problem,
                trial: name,
                attempt,
            });
            let fresh = folder.insert(self.shared.store.begin(trial)?);
            let cancel = self.shared.cancel.child();
            let keeper = Keeper {
                running: self,
                folder: fresh,
                cancel: cancel.clone(),
                refused: Mutex::new(None),
            };
            let outcome = self.attempt_once(&AttemptRequest {
                trial,
                task,
                attachment,
                budget: self.shared.store.identity().budget,
                seed: seed(self.shared.seed, trial),
                grader: Arc::clone(grader),
                submissions: &keeper,
                cancel: cancel.clone(),
            });
            match keeper.refused.into_inner() {
                Ok(None) | Err(_) => outcome,
                Ok(Some(error)) => Err(error.into()),
            }
        });
        match (folder, outcome) {
            (Some(folder), outcome) => Ok((folder, outcome)),
            (None, Err(Stop::Broken(error))) => Err(error),
            (None, _) => Ok((self.shared.store.begin(trial)?, Err(Stop::Cancelled))),
        }
    }

    /// One try, ended when the phase's time is over.
    fn attempt_once(&self, request: &AttemptRequest<'_>) -> Result<AttemptOutcome, Try> {
        let limit = request.budget.wall() + PHASE_SLACK;
        let over = AtomicBool::new(false);
        let (done, waiting) = mpsc::channel::<()>();
        let outcome = std::thread::scope(|scope| {
            let cancel = &request.cancel;
            let over = &over;
            scope.spawn(move || {
                if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    over.store(true, Ordering::SeqCst);
                    cancel.cancel();
                }
            });
            let outcome = self.shared.attempter.attempt(request);
            drop(done);
            outcome
        });
        if over.load(Ordering::SeqCst) {
            let message = format!("the attempt's phase took longer than {} s", limit.as_secs());
            return Err(AttemptFailure::of_kind("TimeoutError", message).into());
        }
        Ok(outcome?)
    }

    fn keep_artifacts(
        &self,
        folder: &TrialWriter<'_>,
        outcome: &AttemptOutcome,
    ) -> Result<(), StoreError> {
        let files = [(KERNEL_PATH, &outcome.kernel), (SKILL_PATH, &outcome.skill)];
        let present: Vec<(&str, &[u8])> = files
            .iter()
            .filter_map(|(path, left)| match left {
                Left::File(bytes) => Some((*path, bytes.as_slice())),
                Left::Nothing | Left::TooLarge { .. } => None,
            })
            .collect();
        folder.write_artifacts(&present)?;
        folder.write_logs(&outcome.logs)
    }

    /// The final grading of what the attempt left; it alone is the trial's score.
    fn grade(&self, outcome: &AttemptOutcome, grader: &dyn Grader) -> Result<Final, Stop> {
        let ungraded = |why: String| Final {
            record: Record {
                timed_out: outcome.timed_out,
                usage: outcome.usage.clone(),
                ..Record::default()
            },
            verdict: Verdict::unevaluated(&why),
            evidence: Vec::new(),
        };
        let kernel = match &outcome.kernel {
            Left::File(kernel) => kernel,
            Left::Nothing => return Ok(ungraded(format!("no {KERNEL_PATH} was left"))),
            Left::TooLarge { size, limit } => {
                let why = format!("{KERNEL_PATH} holds {size} bytes; the limit is {limit}");
                return Ok(ungraded(why));
            }
        };
        let graded = self.with_tries("final grading", |attempt| {
            let (problem, name) = self.names();
            (self.tell)(Event::Grading {
                problem,
                trial: name,
                attempt,
            });
            let graded = grader.grade(kernel, Purpose::Final, &self.shared.cancel);
            graded.map_err(|failure| Try::of_judge(&failure))
        })?;
        Ok(match graded {
            Graded::Evaluated { verdict, evidence } => Final {
                record: Record {
                    rewards: verdict.rewards.clone(),
                    ..ungraded(String::new()).record
                },
                verdict,
                evidence,
            },
            Graded::Refused { reason } => {
                let rewards = Rewards::graded(false, false, None);
                Final {
                    record: Record {
                        rewards: rewards.clone(),
                        ..ungraded(String::new()).record
                    },
                    verdict: Verdict {
                        rewards,
                        ..Verdict::unevaluated(&reason)
                    },
                    evidence: Vec::new(),
                }
            }
            Graded::Incomplete {
                operation,
                verdict,
                evidence,
            } => Final {
                record: Record::failed(INCOMPLETE, &operation),
                verdict,
                evidence,
            },
        })
    }

    /// Tries a phase up to three times, with a wait after each failure that may pass.
    fn with_tries<T>(
        &self,
        phase: &'static str,
        mut action: impl FnMut(u32) -> Result<T, Try>,
    ) -> Result<T, Stop> {
        let mut attempt = 1;
        loop {
            let result = action(attempt);
            if self.shared.cancel.is_cancelled() && !matches!(result, Ok(_) | Err(Try::Broken(_))) {
                return Err(Stop::Cancelled);
            }
            let failure = match result {
                Ok(value) => return Ok(value),
                Err(Try::Broken(error)) => return Err(Stop::Broken(error)),
                Err(Try::Failed(failure)) => failure,
            };
            if !failure.transient || attempt == TRIES {
                return Err(Stop::Failed {
                    kind: failure.kind,
                    message: failure.message,
                });
            }
            let (problem, name) = self.names();
            (self.tell)(Event::Retrying {
                problem,
                trial: name,
                phase,
                attempt,
                error: failure.to_string(),
                wait_sec: RETRY_WAIT.as_secs(),
            });
            (self.shared.wait)(RETRY_WAIT, &self.shared.cancel);
            if self.shared.cancel.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            attempt += 1;
        }
    }

    fn stop(
        &self,
        folder: TrialWriter<'_>,
        stop: Stop,
        digest: Option<String>,
    ) -> Result<End, TrialError> {
        match stop {
            Stop::Failed { kind, message } => {
                self.finish(folder, Record::failed(&kind, &message), digest)
            }
            Stop::Cancelled => Ok(End::Cancelled),
            Stop::Broken(error) => Err(error),
        }
    }

    fn finish(
        &self,
        folder: TrialWriter<'_>,
        record: Record,
        skill_sha256: Option<String>,
    ) -> Result<End, TrialError> {
        let stamps = Stamps {
            task_fingerprint: self.planned.fingerprint.clone(),
            skill_sha256,
        };
        folder.finish(record.clone(), stamps, self.shared.versions)?;
        let (problem, name) = self.names();
        (self.tell)(Event::Finished {
            problem,
            trial: name,
            rewards: record.rewards.clone(),
            timed_out: record.timed_out,
            error: record.error.clone(),
            skipped: record.skipped.clone(),
        });
        Ok(End::Recorded(record))
    }

    fn names(&self) -> (String, String) {
        let trial = &self.planned.trial;
        (trial.problem.to_string(), trial.coordinate().to_string())
    }
}

/// A try that did not come to its end.
enum Try {
    Failed(AttemptFailure),
    Broken(TrialError),
}

impl Try {
    fn of_judge(failure: &GradeFailure) -> Self {
        Try::Failed(AttemptFailure {
            kind: "JudgeFailure".to_owned(),
            message: failure.to_string(),
            transient: true,
        })
    }
}

impl From<AttemptFailure> for Try {
    fn from(failure: AttemptFailure) -> Self {
        Try::Failed(failure)
    }
}

impl From<StoreError> for Try {
    fn from(error: StoreError) -> Self {
        Try::Broken(error.into())
    }
}

/// Keeps an attempt's submissions and tells of them.
struct Keeper<'a> {
    running: &'a Running<'a>,
    folder: &'a TrialWriter<'a>,
    cancel: Cancel,
    /// The first thing that the store refused.
    refused: Mutex<Option<StoreError>>,
}

impl Submissions for Keeper<'_> {
    fn keep(
        &self,
        entry: &SubmissionEntry,
        kernel: Option<&[u8]>,
        verdict: Option<&Verdict>,
        evidence: &[(String, Vec<u8>)],
    ) {
        let kept = kernel
            .map_or(Ok(()), |kernel| {
                let kept = self.folder.keep_submission(kernel, verdict, evidence);
                kept.map(drop)
            })
            .and_then(|()| self.folder.log_submission(entry));
        if let Err(error) = kept {
            self.cancel.cancel();
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.get_or_insert(error);
            return;
        }
        let (problem, trial) = self.running.names();
        (self.running.tell)(Event::Submitted {
            problem,
            trial,
            counted: entry.counted,
            rewards: entry.rewards.clone(),
            note: entry.note.clone(),
        });
    }
}
