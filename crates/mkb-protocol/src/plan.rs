//! A status for every wanted trial and the solos that they need; reads the store alone.

use std::collections::BTreeMap;
use std::fmt;

use mkb_catalog::{TaskId, Trial};
use mkb_store::{Store, StoreError, StoredTrial};
use serde::Serialize;

use crate::transfer::Transfer;

/// The error type of a trial whose kernel met what the virtual GPU does not model.
pub const INCOMPLETE: &str = "Incomplete";

/// What the store has of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A record that stands.
    Reuse,
    /// No record.
    Run,
    /// A record of an error.
    Rerun,
    /// A record of another task or another skill than the ones that are there now.
    Stale,
    /// A record of what the virtual GPU did not model, made by the version that is there now: to
    /// run it again would say the same.
    Held,
}

impl Status {
    /// In the order in which counts are printed.
    pub const ALL: [Status; 5] = [
        Status::Reuse,
        Status::Run,
        Status::Rerun,
        Status::Stale,
        Status::Held,
    ];

    /// Whether a run takes the trial up.
    pub fn is_runnable(self) -> bool {
        matches!(self, Status::Run | Status::Rerun | Status::Stale)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Status::Reuse => "reuse",
            Status::Run => "run",
            Status::Rerun => "rerun",
            Status::Stale => "stale",
            Status::Held => "held",
        })
    }
}

/// A trial with its status.
#[derive(Clone, Debug)]
pub struct PlannedTrial {
    /// The trial.
    pub trial: Trial,
    /// Its task.
    pub task: TaskId,
    /// The task's fingerprint as it is now.
    pub fingerprint: String,
    /// What the store has.
    pub status: Status,
}

/// The trials in the order in which they are printed and taken up.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By problem, replicate, then arm.
    pub trials: Vec<PlannedTrial>,
}

/// What a plan is made against.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    /// The fingerprints of the tasks as they are now; every wanted trial's task must be there.
    pub fingerprints: &'a BTreeMap<TaskId, String>,
    /// How attachments are made.
    pub transfer: Transfer<'a>,
    /// The versions that results depend on, by name; `vgpu` decides what is held.
    pub versions: &'a BTreeMap<String, String>,
}

impl Plan {
    /// Plans trials that stand in order, sources before what needs them (as
    /// [`crate::Selection::trials`] gives them).
    ///
    /// # Errors
    /// Where the store cannot be read, or a source has a record that stands and no artifacts.
    pub fn make(
        store: &Store,
        trials: Vec<Trial>,
        now: Circumstances<'_>,
    ) -> Result<Self, StoreError> {
        let mut planned: Vec<PlannedTrial> = Vec::with_capacity(trials.len());
        for trial in trials {
            let source = trial.source().and_then(|source| {
                let found = planned.iter().rev().find(|other| other.trial == source);
                found.map(|other| other.status)
            });
            let task = trial.task();
            let fingerprint = now.fingerprints.get(&task).cloned().unwrap_or_default();
            let status = status(store, &trial, &fingerprint, source, now)?;
            planned.push(PlannedTrial {
                trial,
                task,
                fingerprint,
                status,
            });
        }
        Ok(Self { trials: planned })
    }

    /// How many trials have that status.
    pub fn count(&self, status: Status) -> usize {
        self.trials.iter().filter(|t| t.status == status).count()
    }

    /// The plan in words: the counts, then a line for each stale trial, and with `in_full` for
    /// each one that would run.
    pub fn to_text(&self, in_full: bool) -> String {
        let counts: Vec<String> = Status::ALL
            .into_iter()
            .filter(|status| *status != Status::Held || self.count(Status::Held) > 0)
            .map(|status| format!("{} {status}", self.count(status)))
            .collect();
        let mut text = format!("plan: {}\n", counts.join(", "));
        for planned in &self.trials {
            let is_shown = match planned.status {
                Status::Stale => true,
                Status::Run | Status::Rerun | Status::Held => in_full,
                Status::Reuse => false,
            };
            if is_shown {
                let (status, coordinate) = (planned.status, planned.trial.coordinate());
                text += &format!("  {status}: {coordinate} [{}]\n", planned.task);
            }
        }
        text
    }
}

/// The rules, in their order. `source` is the status of the trial's source, for one that has one.
fn status(
    store: &Store,
    trial: &Trial,
    fingerprint: &str,
    source: Option<Status>,
    now: Circumstances<'_>,
) -> Result<Status, StoreError> {
    let Some(stored) = store.record(trial)? else {
        return Ok(Status::Run);
    };
    let is_current = || -> Result<bool, StoreError> {
        if stored.stamps.task_fingerprint != fingerprint {
            return Ok(false);
        }
        match source {
            None => Ok(true),
            Some(Status::Reuse) => {
                let given = stored.stamps.skill_sha256.as_deref();
                now.transfer.is_current(store, trial, given)
            }
            Some(_) => Ok(false),
        }
    };
    if stored.record.error.is_some() {
        let is_held = is_incomplete_here(store, trial, &stored, now)? && is_current()?;
        return Ok(if is_held { Status::Held } else { Status::Rerun });
    }
    Ok(if is_current()? {
        Status::Reuse
    } else {
        Status::Stale
    })
}

/// Whether the record says that the virtual GPU lacked something, and it is still of the version
/// that said so.
fn is_incomplete_here(
    store: &Store,
    trial: &Trial,
    stored: &StoredTrial,
    now: Circumstances<'_>,
) -> Result<bool, StoreError> {
    if stored.record.error_kind() != Some(INCOMPLETE) {
        return Ok(false);
    }
    let provenance = store.provenance(trial)?.unwrap_or_default();
    let then = provenance
        .pointer("/versions/vgpu")
        .and_then(|v| v.as_str());
    let now = now.versions.get("vgpu").map(String::as_str);
    Ok(then.is_some() && then == now)
}
