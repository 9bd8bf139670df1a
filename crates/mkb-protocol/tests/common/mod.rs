//! A small world for the protocol's tests: a catalog in a folder, tasks, an agent and a judge
//! that do as a script says.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mkb_agent::Left;
use mkb_catalog::fingerprint::FileTree;
use mkb_catalog::glob::Globs;
use mkb_catalog::{
    Budget, Cancel, Catalog, DslSet, GradeFailure, Graded, Grader, ProblemName, Purpose, Rewards,
    Setting, TaskId, Trial, Verdict,
};
use mkb_protocol::{
    AttemptFailure, AttemptOutcome, AttemptRequest, Attempter, Event, Graders, Run, RunError,
    Selection, Summary, Transfer,
};
use mkb_store::{Identity, StoreWriter, SubmissionEntry, Usage};

pub const SOURCE: &str = "'A task.'\ndef reference(): pass\ndef make_inputs(): return []\n";

pub fn identity() -> Identity {
    Identity {
        model: "vendor/Tiny Model:v1".to_owned(),
        setting: Setting::paper(),
        budget: Budget::PAPER,
    }
}

/// A catalog of those problems, each given as `family/name`.
pub fn catalog(root: &Path, problems: &[&str]) -> Catalog {
    for problem in problems {
        let path = root.join(format!("{problem}.py"));
        fs::create_dir_all(path.parent().expect("a family")).expect("mkdir");
        // Another process may read it meanwhile.
        if !path.exists() {
            fs::write(path, SOURCE).expect("written");
        }
    }
    Catalog::discover(root, DslSet::builtin()).expect("a catalog")
}

/// A folder for each task that differs from every other.
pub fn tasks(catalog: &Catalog) -> BTreeMap<TaskId, FileTree> {
    let mut tasks = BTreeMap::new();
    for problem in catalog.problems() {
        for dsl in catalog.dsls().ids() {
            let task = TaskId {
                problem: problem.name.clone(),
                dsl: dsl.clone(),
            };
            let mut files = FileTree::default();
            files.insert("instruction.md", format!("Solve {task}.\n"));
            tasks.insert(task, files);
        }
    }
    tasks
}

pub fn trial(problem: &str, replicate: u32, arm: &str) -> Trial {
    Trial {
        problem: ProblemName::parse(problem).expect("a name"),
        replicate,
        arm: DslSet::builtin().parse_arm(arm).expect("an arm"),
    }
}

pub fn transfer() -> Transfer<'static> {
    Transfer {
        wrong: &|text| Some(format!("Not so: {text}")),
        placebo: &|_| Some("The attempt went well.\n".to_owned()),
    }
}

pub fn selection(trials: &str, replicates: u32) -> Selection {
    Selection {
        trials: Globs::new([trials]),
        replicates,
        ..Selection::default()
    }
}

/// What the agent does on each call: by the trial's coordinate and which call it is for it.
pub type Script<'a> = dyn Fn(&str, usize) -> Result<AttemptOutcome, AttemptFailure> + Sync + 'a;

/// An agent that does as its script says, counts its calls, and submits once.
pub struct Scripted<'a> {
    pub script: &'a Script<'a>,
    pub calls: Mutex<Vec<String>>,
    pub attachments: Mutex<BTreeMap<String, String>>,
    pub in_flight: AtomicUsize,
    pub most_in_flight: AtomicUsize,
    pub takes: Duration,
}

impl<'a> Scripted<'a> {
    pub fn new(script: &'a Script<'a>) -> Self {
        Self {
            script,
            calls: Mutex::default(),
            attachments: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            takes: Duration::ZERO,
        }
    }

    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("calls").clone()
    }
}

impl Attempter for Scripted<'_> {
    fn attempt(&self, request: &AttemptRequest<'_>) -> Result<AttemptOutcome, AttemptFailure> {
        let now = 1 + self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
        let name = request.trial.coordinate().to_string();
        let call = {
            let mut calls = self.calls.lock().expect("calls");
            calls.push(name.clone());
            calls.iter().filter(|call| **call == name).count()
        };
        if let Some(text) = request.attachment {
            let mut attachments = self.attachments.lock().expect("attachments");
            attachments.insert(name.clone(), text.to_owned());
        }
        std::thread::sleep(self.takes);
        let outcome = (self.script)(&name, call);
        if let Ok(AttemptOutcome {
            kernel: Left::File(kernel),
            ..
        }) = &outcome
        {
            let graded = request
                .grader
                .grade(kernel, Purpose::Submission, &request.cancel);
            if let Ok(Graded::Evaluated { verdict, evidence }) = graded {
                let entry = SubmissionEntry {
                    id: "1700000000000000000".to_owned(),
                    elapsed_sec: 1.0,
                    counted: true,
                    rewards: Some(verdict.rewards.clone()),
                    note: None,
                    wall_sec: Some(0.1),
                    eval_sec: Some(0.1),
                };
                request
                    .submissions
                    .keep(&entry, Some(kernel), Some(&verdict), &evidence);
            }
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

/// An attempt that leaves a kernel of that speedup and a skill that says so.
pub fn leaves(speedup: &str) -> AttemptOutcome {
    AttemptOutcome {
        kernel: Left::File(speedup.as_bytes().to_vec()),
        skill: Left::File(format!("It ran at {speedup}x.\n").into_bytes()),
        timed_out: false,
        usage: Some(Usage::without_model(1.5)),
        logs: Vec::new(),
    }
}

/// A judge to which a kernel file is its own speedup; other words have other meanings.
pub struct BySpeedup;

impl Graders for BySpeedup {
    fn grader(&self, _task: &TaskId) -> Result<Arc<dyn Grader>, GradeFailure> {
        Ok(Arc::new(BySpeedup))
    }
}

impl Grader for BySpeedup {
    fn grade(&self, kernel: &[u8], purpose: Purpose, _: &Cancel) -> Result<Graded, GradeFailure> {
        let text = String::from_utf8_lossy(kernel);
        let verdict = |rewards| Verdict {
            rewards,
            report: format!("kernel: {text}\n"),
            ..Verdict::default()
        };
        match (&*text, purpose) {
            ("judge down", Purpose::Final) => {
                Err(GradeFailure::Infrastructure("no room in memory".to_owned()))
            }
            ("unparsable", _) => Ok(Graded::Refused {
                reason: "line 1: not Python".to_owned(),
            }),
            ("unmodelled", _) => Ok(Graded::Incomplete {
                operation: "tcgen05.mma at kernel.py:7".to_owned(),
                verdict: Verdict::unevaluated("incomplete: tcgen05.mma"),
                evidence: Vec::new(),
            }),
            _ => Ok(Graded::Evaluated {
                verdict: verdict(Rewards::graded(true, true, text.parse().ok())),
                evidence: vec![("tape.bin.zst".to_owned(), vec![1, 2, 3])],
            }),
        }
    }

    fn device(&self) -> String {
        "none".to_owned()
    }
}

/// A world with a store, to run in again and again.
pub struct World {
    /// Where it lies; kept for as long as the world where it is a temporary one.
    pub folder: PathBuf,
    pub temporary: Option<tempfile::TempDir>,
    pub catalog: Catalog,
    pub tasks: BTreeMap<TaskId, FileTree>,
    pub versions: BTreeMap<String, String>,
    pub concurrent: usize,
    pub rerun_stale: bool,
    pub cancel: Cancel,
}

/// How long the protocol waited between tries, in all.
pub static WAITED_SEC: AtomicUsize = AtomicUsize::new(0);

impl World {
    pub fn new(problems: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            versions: BTreeMap::from([("vgpu".to_owned(), "1".to_owned())]),
            ..Self::in_folder(folder.path(), problems)
        }
        .keeping(folder)
    }

    pub fn in_folder(folder: &Path, problems: &[&str]) -> Self {
        let catalog = catalog(&folder.join("problems"), problems);
        Self {
            folder: folder.to_owned(),
            temporary: None,
            tasks: tasks(&catalog),
            catalog,
            versions: BTreeMap::new(),
            concurrent: 4,
            rerun_stale: false,
            cancel: Cancel::new(),
        }
    }

    fn keeping(self, temporary: tempfile::TempDir) -> Self {
        Self {
            temporary: Some(temporary),
            ..self
        }
    }

    pub fn store(&self) -> StoreWriter {
        let results = self.folder.join("results");
        StoreWriter::open(&results, identity(), &self.versions)
            .expect("a store")
            .0
    }

    pub fn run(
        &self,
        selection: &Selection,
        attempter: &dyn Attempter,
    ) -> (Result<Summary, RunError>, Vec<Event>) {
        let mut events = Vec::new();
        let summary = self.run_telling(selection, attempter, &mut |event| {
            events.push(event.clone());
        });
        (summary, events)
    }

    pub fn run_telling(
        &self,
        selection: &Selection,
        attempter: &dyn Attempter,
        listener: &mut dyn FnMut(&Event),
    ) -> Result<Summary, RunError> {
        let store = self.store();
        Run {
            store: &store,
            catalog: &self.catalog,
            tasks: &self.tasks,
            selection,
            attempter,
            graders: &BySpeedup,
            transfer: transfer(),
            versions: &self.versions,
            concurrent: self.concurrent,
            rerun_stale: self.rerun_stale,
            seed: 1,
            wait: &|time, _| {
                WAITED_SEC.fetch_add(time.as_secs() as usize, Ordering::SeqCst);
            },
            cancel: self.cancel.clone(),
            version: "mkb test",
            commit: "unavailable",
        }
        .converge(listener)
    }
}
