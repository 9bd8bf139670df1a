//! `mkb run` and `mkb plan`: wires catalog, judge, agents, store and protocol together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mkb_agent::{Agent, Nop, Oracle, Replay, Tuner};
use mkb_catalog::dsl::DslSet;
use mkb_catalog::fingerprint::FileTree;
use mkb_catalog::glob::Globs;
use mkb_catalog::setting::{KERNEL_PATH, SKILL_PATH};
use mkb_catalog::{
    Budget, Cancel, Catalog, Clock, DslId, GradeFailure, Grader, Setting, TaskId, TaskSettings,
};
use mkb_judge::judge::Judge;
use mkb_protocol::{
    Arms, AttemptFailure, AttemptRequest, Graders, Run, RunError, Sandboxed, Selection, Summary,
    Transfer,
};
use mkb_sandbox::Limits;
use mkb_setup::Documentation;
use mkb_store::{Identity, Store, StoreWriter};

use crate::cli;
use crate::grade;
use crate::home::Home;
use crate::output::say;
use crate::setup;
use crate::usage::Usage;
use mkb_report::progress::Progress;

/// Problems of the demonstration, one a family.
const DEMONSTRATION: [&str; 6] = ["01_*", "21_*", "28_*", "49_*", "53_*", "72_*"];

/// This program, as records name it.
pub const VERSION: &str = concat!("metakernelbench-rs ", env!("CARGO_PKG_VERSION"));

/// What verdicts depend on beside the setting; a trial whose kernel the virtual GPU could not run
/// is tried again when `vgpu` changes.
pub const JUDGE_REVISION: &str = env!("CARGO_PKG_VERSION");

/// Runs until the store has all that is selected. Whether no trial ended in error.
pub fn run(home: &Home, options: &cli::Run, json: bool) -> Result<bool> {
    let mut world = World::open(home, options, Arms::Paper)?;
    if options.dry_run {
        return world.print_plan(options, true, json);
    }
    let (summary, store) = world.run(home, options, json)?;
    if !json {
        let snapshot = mkb_protocol::snapshot::take(&store, &world.catalog, VERSION)?;
        say!("\n{}", mkb_report::tables::results(&snapshot));
        say!("results: {}", store.folder().display());
        let trial = world.first_judged(&store)?;
        let replay = trial.map_or(String::new(), |trial| {
            format!("mkb replay {} | ", trial.coordinate())
        });
        say!("next: mkb status | {replay}mkb run --problems '28_*' | mkb calibrate");
    }
    Ok(summary.errors == 0 && summary.left == 0)
}

/// Prints what a run would do.
pub fn plan(home: &Home, options: &cli::Run, json: bool) -> Result<bool> {
    World::open(home, options, Arms::Paper)?.print_plan(options, true, json)
}

/// What a run is made of, before the store is opened.
pub struct World {
    /// The problems.
    pub catalog: Catalog,
    identity: Identity,
    tasks: BTreeMap<TaskId, FileTree>,
    /// What is selected.
    pub selection: Selection,
    versions: BTreeMap<String, String>,
    concurrent: usize,
}

impl World {
    /// Reads problems, device and selection; nothing is written.
    pub fn open(home: &Home, options: &cli::Run, arms: Arms) -> Result<Self> {
        let dsls = DslSet::builtin();
        let catalog = Catalog::discover(&home.problems(), dsls)?;
        let setting = Setting {
            device: options.conditions.device.clone(),
            clock: Clock::Modelled,
            workload: grade::workload(&options.conditions),
        };
        let identity = Identity {
            model: format!("built-in/{}", agent_name(options.agent)),
            setting: setting.clone(),
            budget: Budget::PAPER,
        };
        let selection = selection(options, arms);
        let device = grade::device(&options.conditions.device)?;
        let described = format!(
            "{} ({}, {} SMs), modelled",
            device.name, device.arch, device.sms
        );
        let scripts = mkb_agent::assets::tests();
        let settings = TaskSettings {
            setting: &setting,
            budget: Budget::PAPER,
            device: &described,
            scripts: &scripts,
            judge: JUDGE_REVISION,
        };
        let documentation = home.documentation()?;
        let mut tasks = BTreeMap::new();
        for dsl in catalog.dsls().ids() {
            let docs = docs(&documentation, dsl, &setting);
            for problem in selection.problems(&catalog)? {
                let task = TaskId {
                    problem: problem.name.clone(),
                    dsl: dsl.clone(),
                };
                let files = mkb_catalog::render(&catalog, &task, &docs, &settings);
                tasks.insert(task, files);
            }
        }
        if options.concurrent == Some(0) {
            return Err(Usage::error("--concurrent must be at least 1"));
        }
        let concurrent = options.concurrent.unwrap_or_else(|| {
            std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(mkb_protocol::run::CONCURRENT)
        });
        let versions = BTreeMap::from([
            ("vgpu".to_owned(), JUDGE_REVISION.to_owned()),
            (
                "sandbox".to_owned(),
                grade::sandbox(options.conditions.sandbox).to_owned(),
            ),
        ]);
        Ok(Self {
            catalog,
            identity,
            tasks,
            selection,
            versions,
            concurrent,
        })
    }

    fn print_plan(&self, options: &cli::Run, in_full: bool, json: bool) -> Result<bool> {
        let store = Store::open(&options.results, self.identity.clone())?;
        let fingerprints = mkb_protocol::run::fingerprints(&self.tasks);
        let now = mkb_protocol::plan::Circumstances {
            fingerprints: &fingerprints,
            transfer: Transfer::builtin(),
            versions: &self.versions,
        };
        let plan = mkb_protocol::Plan::make(&store, self.selection.trials(&self.catalog)?, now)?;
        if json {
            let trials: Vec<_> = plan.trials.iter().map(|t| serde_json::json!({"trial": t.trial.coordinate().to_string(), "task": t.task.to_string(), "status": t.status.to_string()})).collect();
            say!("{}", serde_json::to_string_pretty(&trials)?);
        } else {
            say!("{}", plan.to_text(in_full).trim_end());
        }
        Ok(true)
    }

    /// Opens the store, runs what it lacks, and gives both back.
    ///
    /// # Errors
    /// Where the run could not begin or was interrupted; what had finished is kept.
    pub fn run(
        &mut self,
        home: &Home,
        options: &cli::Run,
        json: bool,
    ) -> Result<(Summary, StoreWriter)> {
        let environment = setup::ensure(home.root())?;
        self.versions.extend(setup::versions(&environment));
        let (store, notices) =
            StoreWriter::open(&options.results, self.identity.clone(), &self.versions)?;
        for notice in &notices {
            eprintln!("note: {notice}");
        }
        for leftover in mkb_sandbox::sweep(&home.state().join("sandboxes"))? {
            eprintln!("note: an earlier run left {leftover}; it is removed");
        }
        let cancel = Cancel::new();
        stop_on_interrupt(cancel.clone())?;
        let summary = self.converge(home, options, &store, cancel.clone(), json)?;
        if cancel.is_cancelled() {
            bail!(
                "interrupted; what had finished is kept, and trials left for the next run: {}",
                summary.left
            );
        }
        Ok((summary, store))
    }

    /// The first selected trial that has a verdict.
    fn first_judged(&self, store: &Store) -> Result<Option<mkb_catalog::Trial>> {
        for trial in self.selection.trials(&self.catalog)? {
            if store.verdict(&trial)?.is_some() {
                return Ok(Some(trial));
            }
        }
        Ok(None)
    }

    fn converge(
        &self,
        home: &Home,
        options: &cli::Run,
        store: &StoreWriter,
        cancel: Cancel,
        json: bool,
    ) -> Result<Summary> {
        let judge = Arc::new(grade::judge(
            home,
            options.conditions.sandbox,
            &options.conditions.device,
            grade::workload(&options.conditions),
            self.catalog.dsls().clone(),
        )?);
        let runtime = home.runtime(options.conditions.sandbox)?;
        let sources = replay_source(options)?;
        let choose = |request: &AttemptRequest<'_>| self.choose(options, sources.as_ref(), request);
        let attempter = Sandboxed {
            choose: &choose,
            state: home.state().join("sandboxes"),
            isolation: runtime.isolation,
            limits: Limits::attempt(),
            read_only: runtime.read_only.clone(),
            env: vec![
                (
                    "MKB_PYTHON".to_owned(),
                    runtime.python.display().to_string(),
                ),
                ("MKB_LOOK_SEC".to_owned(), "0.05".to_owned()),
            ],
            look: Duration::from_millis(50),
        };
        let graders = TaskGraders {
            judge: &judge,
            catalog: &self.catalog,
        };
        let commit = mkb_protocol::invocation::commit(home.root());
        let run = Run {
            store,
            catalog: &self.catalog,
            tasks: &self.tasks,
            selection: &self.selection,
            attempter: &attempter,
            graders: &graders,
            transfer: Transfer::builtin(),
            versions: &self.versions,
            concurrent: self.concurrent,
            rerun_stale: options.rerun_stale,
            seed: options.seed,
            wait: &mkb_protocol::run::wait,
            cancel,
            version: VERSION,
            commit: &commit,
        };
        let mut progress = Progress::new(json);
        match run.converge(&mut |event| progress.tell(event)) {
            Ok(summary) => {
                progress.finish();
                Ok(summary)
            }
            Err(error) => {
                progress.finish();
                Err(explain(error))
            }
        }
    }

    /// The agent for an attempt.
    fn choose(
        &self,
        options: &cli::Run,
        from: Option<&Store>,
        request: &AttemptRequest<'_>,
    ) -> Result<Box<dyn Agent>, AttemptFailure> {
        let failed = |message: String| AttemptFailure::of_kind("AgentError", message);
        let task = request.trial.task();
        let solution = || {
            let problem = self.catalog.get(task.problem.as_str());
            let path = problem
                .and_then(|p| p.solution_path(&task.dsl))
                .ok_or_else(|| failed(format!("{task} has no solution in _solutions/")))?;
            std::fs::read_to_string(&path).map_err(|e| failed(format!("{}: {e}", path.display())))
        };
        Ok(match options.agent {
            cli::Agent::Nop => Box::new(Nop),
            cli::Agent::Oracle => Box::new(Oracle {
                kernel: solution()?.into_bytes(),
            }),
            cli::Agent::Tuner => Box::new(
                Tuner::new(&solution()?, request.seed)
                    .map_err(|e| failed(format!("the solution of {task}: {e}")))?,
            ),
            cli::Agent::Replay => {
                let store = from.ok_or_else(|| failed("--agent replay needs --from".to_owned()))?;
                Box::new(recorded(store, request.trial).map_err(|e| failed(e.to_string()))?)
            }
        })
    }
}

/// What agents find in `/docs`.
fn docs(documentation: &Documentation, dsl: &DslId, setting: &Setting) -> FileTree {
    let mut tree = FileTree::default();
    for (path, text) in documentation.pages(dsl.as_str(), &setting.device) {
        tree.insert(&path, text);
    }
    tree
}

fn selection(options: &cli::Run, arms: Arms) -> Selection {
    let chosen =
        !options.problems.is_empty() || !options.families.is_empty() || !options.trials.is_empty();
    let problems = if chosen {
        options.problems.clone()
    } else {
        DEMONSTRATION.map(str::to_owned).to_vec()
    };
    Selection {
        problems: Globs::new(problems),
        families: options.families.iter().cloned().collect::<BTreeSet<_>>(),
        trials: Globs::new(options.trials.clone()),
        replicates: options.replicates.unwrap_or(if chosen { 3 } else { 1 }),
        arms,
    }
}

fn agent_name(agent: cli::Agent) -> &'static str {
    match agent {
        cli::Agent::Tuner => "tuner",
        cli::Agent::Oracle => "oracle",
        cli::Agent::Nop => "nop",
        cli::Agent::Replay => "replay",
    }
}

fn replay_source(options: &cli::Run) -> Result<Option<Store>> {
    match (&options.from, options.agent) {
        (Some(folder), _) => Ok(Some(load(folder)?)),
        (None, cli::Agent::Replay) => Err(Usage::error("--agent replay needs --from STORE")),
        (None, _) => Ok(None),
    }
}

/// A recorded trial's files, to put back.
fn recorded(store: &Store, trial: &mkb_catalog::Trial) -> Result<Replay> {
    let bytes = |path: &str| -> Result<Option<Vec<u8>>> { Ok(store.artifact(trial, path)?) };
    let mut submissions = Vec::new();
    for number in 1.. {
        let path = store
            .trial_folder(trial)
            .join("submissions")
            .join(number.to_string())
            .join("kernel.py");
        match std::fs::read(&path) {
            Ok(kernel) => submissions.push(kernel),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => break,
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        }
    }
    Ok(Replay {
        submissions,
        kernel: bytes(KERNEL_PATH)?,
        skill: bytes(SKILL_PATH)?,
    })
}

/// Graders of tasks.
pub struct TaskGraders<'a> {
    pub judge: &'a Arc<Judge>,
    pub catalog: &'a Catalog,
}

impl Graders for TaskGraders<'_> {
    fn grader(&self, task: &TaskId) -> Result<Arc<dyn Grader>, GradeFailure> {
        let problem = self
            .catalog
            .get(task.problem.as_str())
            .ok_or_else(|| GradeFailure::Infrastructure(format!("no problem {}", task.problem)))?;
        Ok(Arc::new(self.judge.grader(problem, &task.dsl)))
    }
}

fn explain(error: RunError) -> anyhow::Error {
    anyhow::Error::new(error)
}

/// The first interrupt ends the run soon and cleanly, the second at once.
fn stop_on_interrupt(cancel: Cancel) -> Result<()> {
    ctrlc::set_handler(move || {
        if cancel.is_cancelled() {
            std::process::exit(130);
        }
        eprintln!("\nstopping: trials in flight end without a record (again to stop at once)");
        cancel.cancel();
    })
    .context("cannot listen for interrupts")
}

/// The store that is meant: the one named, else the newest.
pub fn choose_store(choice: &cli::StoreChoice) -> Result<Store> {
    match &choice.store {
        Some(folder) => load(folder),
        None => newest(&choice.results),
    }
}

/// The store in a folder.
pub fn load(folder: &Path) -> Result<Store> {
    if !folder.join("store.json").is_file() {
        let what = format!("{} is no store: it has no store.json", folder.display());
        return Err(Usage::error(what));
    }
    Store::load(folder).with_context(|| folder.display().to_string())
}

/// The newest store below a folder.
pub fn newest(results: &Path) -> Result<Store> {
    let stores = Store::list(results).with_context(|| results.display().to_string())?;
    let changed = |store: &Store| {
        std::fs::metadata(store.results_path())
            .or_else(|_| std::fs::metadata(store.folder()))
            .and_then(|m| m.modified())
            .ok()
    };
    stores.into_iter().max_by_key(changed).ok_or_else(|| {
        Usage::error(format!(
            "there is no store in {}; `mkb run` makes one",
            results.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn world(device: &str) -> World {
        let words = ["mkb", "run", "--problems", "28_*", "--device", device];
        let Command::Run(options) = Cli::parse_from(words).command else {
            unreachable!("it says run")
        };
        let home = Home::find(None).expect("the repository");
        World::open(&home, &options, Arms::Paper).expect("a world")
    }

    #[test]
    fn a_task_has_its_dsls_documentation_and_the_same_fingerprint_each_time() {
        let (first, second, other) = (world("b200"), world("b200"), world("h200"));
        assert_eq!(first.tasks.len(), 2);
        for (task, files) in &first.tasks {
            let docs = mkb_catalog::task::docs(files);
            let text = |path: &str| {
                let bytes = docs
                    .get(path)
                    .unwrap_or_else(|| panic!("{task} has no {path}"));
                String::from_utf8_lossy(bytes).into_owned()
            };
            let api = match task.dsl.as_str() {
                "cutedsl" => [
                    "api/cutlass.md",
                    "api/cutlass.cute.md",
                    "api/cutlass.cute.arch.md",
                ],
                _ => [
                    "api/tvm.md",
                    "api/tvm.script.tirx.md",
                    "api/tvm.script.tirx.ptx.md",
                ],
            };
            let index = text("index.md");
            for page in api {
                assert!(
                    index.contains(page) && text(page).contains("\n## "),
                    "{task} {page}"
                );
            }
            assert!(text("guide.md").contains("def solve("));
            assert!(text("device.md").contains("NVIDIA B200, virtual"));
            let size: usize = docs.iter().map(|(_, bytes)| bytes.len()).sum();
            assert!((100_000..2_000_000).contains(&size), "{task}: {size} bytes");
            let instruction = mkb_catalog::task::instruction_text(files, None);
            assert!(instruction.contains("`device.md`") && instruction.contains("`api/`"));

            let print = files.fingerprint();
            assert_eq!(print, second.tasks[task].fingerprint());
            assert_ne!(
                print,
                other.tasks[task].fingerprint(),
                "the device's page is another"
            );
        }
    }
}
