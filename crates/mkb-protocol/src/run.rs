//! The dispatcher: takes up what the plan lacks, many trials at once, solos before the skills
//! that need them, each trial failing alone.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use mkb_catalog::fingerprint::FileTree;
use mkb_catalog::{Cancel, Catalog, TaskId};
use mkb_store::{StoreError, StoreWriter};

use crate::attempt::{Attempter, Graders};
use crate::event::Event;
use crate::invocation;
use crate::plan::{Circumstances, Plan, Status};
use crate::selection::{Selection, SelectionError};
use crate::snapshot;
use crate::transfer::Transfer;
use crate::trial::{self, End, Shared, TrialError, Wait};

/// How many trials are in flight by default.
pub const CONCURRENT: usize = 10;

/// All that a run is made of.
pub struct Run<'a> {
    /// Where results are kept.
    pub store: &'a StoreWriter,
    /// The problems.
    pub catalog: &'a Catalog,
    /// The rendered folder of every task of the selected problems.
    pub tasks: &'a BTreeMap<TaskId, FileTree>,
    /// Which trials are wanted.
    pub selection: &'a Selection,
    /// Who attempts.
    pub attempter: &'a dyn Attempter,
    /// Who grades.
    pub graders: &'a dyn Graders,
    /// What skills turn into.
    pub transfer: Transfer<'a>,
    /// The versions that results depend on, by name.
    pub versions: &'a BTreeMap<String, String>,
    /// How many trials are in flight at once, at least 1.
    pub concurrent: usize,
    /// Whether stale trials are archived and redone.
    pub rerun_stale: bool,
    /// From which agents' seeds follow.
    pub seed: u64,
    /// How to wait between tries; [`wait`] outside tests.
    pub wait: Wait<'a>,
    /// Set to end the run soon: what is in flight ends without a record.
    pub cancel: Cancel,
    /// This program's name and version.
    pub version: &'a str,
    /// The commit that this program was made from.
    pub commit: &'a str,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Trials that now have a record made by this run.
    pub recorded: usize,
    /// Those of them whose record holds an error.
    pub errors: usize,
    /// Trials left for the next run.
    pub left: usize,
    /// Resolved cell-replicates in the whole store.
    pub resolved: usize,
    /// Of how many.
    pub total: usize,
}

/// Why a run stopped. Records that were made before stand.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nothing is selected.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stale trials are there, and it was not said to redo them.
    #[error(
        "{} stale {} the run: {}; --rerun-stale archives and redoes what is stale",
        .0.len(),
        if .0.len() == 1 { "trial blocks" } else { "trials block" },
        .0.join(", ")
    )]
    Stale(Vec<String>),
}

/// Fingerprints of rendered tasks.
pub fn fingerprints(tasks: &BTreeMap<TaskId, FileTree>) -> BTreeMap<TaskId, String> {
    tasks
        .iter()
        .map(|(task, files)| (task.clone(), files.fingerprint()))
        .collect()
}

/// Waits that long, or until told to stop.
pub fn wait(time: Duration, cancel: &Cancel) {
    let end = Instant::now() + time;
    while !cancel.is_cancelled() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}

impl Run<'_> {
    /// The plan as the store stands.
    ///
    /// # Errors
    /// Where nothing is selected, or the store cannot be read.
    pub fn plan(&self) -> Result<Plan, RunError> {
        let fingerprints = fingerprints(self.tasks);
        let now = Circumstances {
            fingerprints: &fingerprints,
            transfer: self.transfer,
            versions: self.versions,
        };
        let trials = self.selection.trials(self.catalog)?;
        Ok(Plan::make(self.store, trials, now)?)
    }

    /// Converges the store towards the selection, telling `listener` what happens.
    ///
    /// # Errors
    /// See [`RunError`]. Trials that fail are no error; the [`Summary`] counts them.
    pub fn converge(&self, listener: &mut dyn FnMut(&Event)) -> Result<Summary, RunError> {
        let plan = self.plan()?;
        listener(&Event::Planned {
            reuse: plan.count(Status::Reuse),
            run: plan.count(Status::Run),
            rerun: plan.count(Status::Rerun),
            stale: plan.count(Status::Stale),
            held: plan.count(Status::Held),
        });
        let stale = plan.trials.iter().filter(|t| t.status == Status::Stale);
        let stale: Vec<String> = stale
            .map(|planned| planned.trial.coordinate().to_string())
            .collect();
        if !stale.is_empty() && !self.rerun_stale {
            return Err(RunError::Stale(stale));
        }
        let mut summary = Summary::default();
        if plan
            .trials
            .iter()
            .any(|planned| planned.status.is_runnable())
        {
            self.store.append_invocation(&invocation::entry(
                &self.store.identity().model,
                self.selection,
                self.concurrent,
                self.rerun_stale,
                self.version,
                self.commit,
                &plan,
            ))?;
            let shared = Shared {
                store: self.store,
                tasks: self.tasks,
                attempter: self.attempter,
                graders: self.graders,
                transfer: self.transfer,
                versions: self.versions,
                seed: self.seed,
                wait: self.wait,
                cancel: self.cancel.clone(),
            };
            let mut dispatcher = Dispatcher {
                run: self,
                shared: &shared,
                plan: &plan,
                states: plan.trials.iter().map(|t| State::of(t.status)).collect(),
                summary,
                broken: None,
                listener,
            };
            dispatcher.dispatch();
            summary = dispatcher.summary;
            if let Some(error) = dispatcher.broken {
                return Err(error.into());
            }
        }
        let snapshot = snapshot::write(self.store, self.catalog, self.version)?;
        summary.resolved = snapshot.resolved;
        summary.total = snapshot.total;
        listener(&Event::Snapshot {
            resolved: snapshot.resolved,
            total: snapshot.total,
        });
        Ok(summary)
    }
}

/// Where a planned trial stands in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has a record that a skill can be taken from.
    Stands,
    /// It waits for a slot, or for its source.
    Waiting,
    Running,
    /// It has no record that a skill can be taken from, and will get none in this run.
    Void,
}

impl State {
    fn of(status: Status) -> Self {
        match status {
            Status::Reuse => State::Stands,
            Status::Run | Status::Rerun | Status::Stale => State::Waiting,
            Status::Held => State::Void,
        }
    }
}

struct Dispatcher<'a, 'l> {
    run: &'a Run<'a>,
    shared: &'a Shared<'a>,
    plan: &'a Plan,
    states: Vec<State>,
    summary: Summary,
    /// The first thing that went wrong with the store; nothing new is started after it.
    broken: Option<StoreError>,
    listener: &'l mut dyn FnMut(&Event),
}

impl<'a> Dispatcher<'a, '_> {
    fn dispatch(&mut self) {
        thread::scope(|scope| {
            let (messages, inbox) = mpsc::channel();
            loop {
                self.start_what_can(scope, &messages);
                if !self.states.contains(&State::Running) {
                    break;
                }
                self.hear(&inbox);
            }
        });
        // What is still waiting was never started: the run was told to stop.
        for index in 0..self.states.len() {
            if self.states[index] == State::Waiting {
                self.leave(index, "the run ended before it");
            }
        }
    }

    fn start_what_can<'s>(&mut self, scope: &'s Scope<'s, '_>, messages: &mpsc::Sender<Message>)
    where
        'a: 's,
    {
        for index in 0..self.states.len() {
            let running = self.states.iter().filter(|s| **s == State::Running).count();
            let is_stopping = self.shared.cancel.is_cancelled() || self.broken.is_some();
            if running >= self.run.concurrent.max(1) || is_stopping {
                return;
            }
            if self.states[index] != State::Waiting {
                continue;
            }
            match self.source_state(index) {
                None | Some(State::Stands) => {}
                Some(State::Waiting | State::Running) => continue,
                Some(State::Void) => {
                    self.leave(index, "its source solo has no record that stands");
                    self.finish_problem(index);
                    continue;
                }
            }
            if let Err(error) = self.clear_replicate(index) {
                self.broken.get_or_insert(error);
                return;
            }
            self.states[index] = State::Running;
            let (shared, planned, messages) =
                (self.shared, &self.plan.trials[index], messages.clone());
            scope.spawn(move || {
                // The dispatcher hears out every trial that it started.
                let tell = |event| drop(messages.send(Message::Event(event)));
                let end = catch_unwind(AssertUnwindSafe(|| trial::run(shared, planned, &tell)))
                    .unwrap_or_else(|panic| End::Failed(TrialError::Internal(said(&*panic))));
                let _ = messages.send(Message::Ended(index, end));
            });
        }
    }

    fn hear(&mut self, inbox: &Receiver<Message>) {
        let Ok(message) = inbox.recv() else { return };
        let (index, end) = match message {
            Message::Event(event) => return (self.listener)(&event),
            Message::Ended(index, end) => (index, end),
        };
        self.states[index] = State::Void;
        match end {
            End::Recorded(record) => {
                self.summary.recorded += 1;
                if record.is_resolved() {
                    self.states[index] = State::Stands;
                } else {
                    self.summary.errors += 1;
                }
            }
            End::Cancelled => self.leave(index, "the run was stopped"),
            End::Failed(error) => {
                self.leave(index, &error.to_string());
                if let TrialError::Store(error) = error {
                    self.broken.get_or_insert(error);
                }
            }
        }
        self.finish_problem(index);
    }

    /// The state of the trial's source, for one that has a source.
    fn source_state(&self, index: usize) -> Option<State> {
        let source = self.plan.trials[index].trial.source()?;
        let place = self.plan.trials.iter().position(|t| t.trial == source);
        Some(place.map_or(State::Void, |place| self.states[place]))
    }

    /// Archives what the trials of a replicate left before, when the first of them is started: a
    /// skill's old record must not stand beside its source's new one.
    fn clear_replicate(&mut self, index: usize) -> Result<(), StoreError> {
        let first = &self.plan.trials[index].trial;
        let of_replicate: Vec<usize> = (0..self.states.len())
            .filter(|&other| {
                let trial = &self.plan.trials[other].trial;
                trial.problem == first.problem && trial.replicate == first.replicate
            })
            .filter(|&other| self.plan.trials[other].status.is_runnable())
            .collect();
        if of_replicate
            .iter()
            .any(|&other| self.states[other] != State::Waiting)
        {
            return Ok(());
        }
        for other in of_replicate {
            self.run.store.archive(&self.plan.trials[other].trial)?;
        }
        Ok(())
    }

    fn leave(&mut self, index: usize, why: &str) {
        self.states[index] = State::Void;
        self.summary.left += 1;
        let trial = &self.plan.trials[index].trial;
        (self.listener)(&Event::Left {
            problem: trial.problem.to_string(),
            trial: trial.coordinate().to_string(),
            why: why.to_owned(),
        });
    }

    /// Writes the store's figures once a problem has nothing more to run.
    fn finish_problem(&mut self, index: usize) {
        let problem = &self.plan.trials[index].trial.problem;
        let is_busy = self
            .plan
            .trials
            .iter()
            .zip(&self.states)
            .any(|(planned, state)| {
                planned.trial.problem == *problem
                    && matches!(state, State::Waiting | State::Running)
            });
        if is_busy {
            return;
        }
        match snapshot::write(self.run.store, self.run.catalog, self.run.version) {
            Ok(snapshot) => (self.listener)(&Event::Snapshot {
                resolved: snapshot.resolved,
                total: snapshot.total,
            }),
            Err(error) => {
                self.broken.get_or_insert(error);
            }
        }
    }
}

enum Message {
    Event(Event),
    Ended(usize, End),
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "internal error: {}",
        text.unwrap_or_else(|| "unknown".to_owned())
    )
}
