//! The judge: graders of tasks, and the workers that they share.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mkb_catalog::dsl::DslSet;
use mkb_catalog::grading::{Cancel, GradeFailure, Graded, Grader, Purpose, Verdict};
use mkb_catalog::setting::{KERNEL_BYTE_LIMIT, KERNEL_PATH};
use mkb_catalog::{DslId, Problem, ProblemName, Workload};
use mkb_device::client::DeviceOptions;
use mkb_sandbox::Isolation;
use serde_json::json;

use crate::carried::Carrying;
use crate::evaluation::{Evaluation, Incomplete, Outcome, Seeds};
use crate::limits::Limits;
use crate::policy;
use crate::station::{Role, Runtime, SharedTemplate, Station};
use crate::template::{Kind, Template};

/// What a judge works with.
#[derive(Debug)]
pub struct Judge {
    runtime: Runtime,
    device: vgpu::cost::Device,
    server: DeviceOptions,
    workload: Workload,
    dsls: DslSet,
    scratch: PathBuf,
    limits: Limits,
    /// Forks reference workers; started when first needed.
    trusted: Mutex<Option<SharedTemplate>>,
    /// Forks replay workers; started when first needed.
    player: Mutex<Option<SharedTemplate>>,
    /// Templates of submissions that are free.
    submissions: Mutex<Vec<Warm>>,
    /// Reference workers that are free, by problem.
    references: Mutex<Vec<(ProblemName, Station)>>,
}

/// A sandboxed template, and the folder from which it takes kernel files.
#[derive(Debug)]
struct Warm {
    dsl: DslId,
    template: SharedTemplate,
    app: tempfile::TempDir,
}

/// Free reference workers that are kept; each holds a torch process.
const KEPT_REFERENCES: usize = 4;

/// Free templates of submissions that are kept; each holds a torch process.
const KEPT_TEMPLATES: usize = 4;

impl Judge {
    /// One that grades on a virtual device. `scratch` is a folder for kernel files while they are judged.
    ///
    /// # Errors
    /// Where the scratch folder cannot be written.
    pub fn new(
        runtime: Runtime,
        device: vgpu::cost::Device,
        server: DeviceOptions,
        workload: Workload,
        dsls: DslSet,
        scratch: PathBuf,
    ) -> std::io::Result<Self> {
        fs::create_dir_all(&scratch)?;
        let info = scratch.join(format!("device-{}.json", device.arch));
        write_once(&info, device_info(&device).to_string().as_bytes())?;
        let mut runtime = runtime;
        runtime
            .env
            .push(("MKB_DEVICE_INFO".to_owned(), info.display().to_string()));
        runtime.read_only.push(info);
        Ok(Self {
            runtime,
            device,
            server,
            workload,
            dsls,
            scratch,
            limits: Limits::default(),
            trusted: Mutex::new(None),
            player: Mutex::new(None),
            submissions: Mutex::new(Vec::new()),
            references: Mutex::new(Vec::new()),
        })
    }

    /// The same with other limits.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A grader of one task.
    pub fn grader(self: &Arc<Self>, problem: &Problem, dsl: &DslId) -> TaskGrader {
        TaskGrader {
            judge: Arc::clone(self),
            problem: problem.clone(),
            dsl: dsl.clone(),
            seeds: None,
        }
    }

    /// The template of reference workers.
    fn trusted(&self) -> Result<SharedTemplate, GradeFailure> {
        self.shared(&self.trusted, Kind::Trusted)
    }

    /// The template of replay workers.
    fn player(&self) -> Result<SharedTemplate, GradeFailure> {
        match self.runtime.isolation {
            Isolation::Namespaces => self.shared(&self.player, Kind::Player),
            // Without a sandbox they are alike.
            Isolation::None => self.trusted(),
        }
    }

    fn shared(
        &self,
        slot: &Mutex<Option<SharedTemplate>>,
        kind: Kind,
    ) -> Result<SharedTemplate, GradeFailure> {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(template) = &*slot {
            return Ok(Arc::clone(template));
        }
        let template = Template::start(&self.runtime, kind).map_err(infrastructure)?;
        let shared = Arc::new(Mutex::new(template));
        *slot = Some(Arc::clone(&shared));
        Ok(shared)
    }

    /// A template for a submission, for its use alone.
    fn take_warm(&self, dsl: &DslId) -> Result<Warm, GradeFailure> {
        let mut free = self
            .submissions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = free.iter().position(|warm| warm.dsl == *dsl) {
            return Ok(free.swap_remove(index));
        }
        drop(free);
        let app = tempfile::Builder::new()
            .prefix("app-")
            .tempdir_in(&self.scratch)
            .map_err(infrastructure)?;
        fs::set_permissions(app.path(), fs::Permissions::from_mode(0o755))
            .map_err(infrastructure)?;
        let kind = Kind::Sandboxed {
            dsl: dsl.to_string(),
            app: app.path().to_owned(),
        };
        let template = Template::start(&self.runtime, kind).map_err(infrastructure)?;
        Ok(Warm {
            dsl: dsl.clone(),
            template: Arc::new(Mutex::new(template)),
            app,
        })
    }

    fn keep_warm(&self, warm: Warm) {
        let mut free = self
            .submissions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if free.len() >= KEPT_TEMPLATES {
            free.remove(0);
        }
        free.push(warm);
    }

    fn take_reference(&self, problem: &Problem, cancel: &Cancel) -> Result<Station, GradeFailure> {
        let mut free = self
            .references
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = free.iter().position(|(name, _)| *name == problem.name) {
            return Ok(free.swap_remove(index).1);
        }
        drop(free);
        let mut station =
            Station::open(self.trusted()?, Role::Reference, None).map_err(infrastructure)?;
        let request =
            json!({"op": "load", "path": problem.path, "workload": self.workload.as_str()});
        let loaded: Result<serde_json::Value, _> =
            station.request(request, Duration::from_secs(120), &|| cancel.is_cancelled());
        loaded.map_err(|e| {
            infrastructure(format!(
                "problem {}: {e}\n{}",
                problem.name,
                station.output_tail()
            ))
        })?;
        Ok(station)
    }

    fn give_back(&self, problem: &Problem, station: Station) {
        let mut free = self
            .references
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if free.len() >= KEPT_REFERENCES {
            free.remove(0);
        }
        free.push((problem.name.clone(), station));
    }
}

/// Grades kernel files for one task.
#[derive(Debug, Clone)]
pub struct TaskGrader {
    judge: Arc<Judge>,
    problem: Problem,
    dsl: DslId,
    seeds: Option<Seeds>,
}

impl TaskGrader {
    /// The same with given seeds instead of fresh ones: to judge a recorded verdict again.
    pub fn with_seeds(mut self, seeds: Seeds) -> Self {
        self.seeds = Some(seeds);
        self
    }

    fn evaluate(
        &self,
        kernel: &[u8],
        outcome: &mut Outcome,
        seeds: &Seeds,
        cancel: &Cancel,
    ) -> Result<Result<(), Incomplete>, GradeFailure> {
        let judge = &self.judge;
        let warm = judge.take_warm(&self.dsl)?;
        // All three import side by side.
        judge.trusted()?;
        let player = judge.player()?;
        let file = warm.app.path().join("kernel.py");
        write_once(&file, kernel).map_err(infrastructure)?;
        let role = Role::Submission {
            dsl: self.dsl.as_str(),
        };
        let server = Some(&judge.server);
        let submission = Station::open(Arc::clone(&warm.template), role, server);
        let mut submission = submission.map_err(infrastructure)?;
        let replay = Station::open(player, Role::Replay, server);
        let mut replay = replay.map_err(infrastructure)?;
        let inside = match judge.runtime.isolation {
            Isolation::Namespaces => PathBuf::from(KERNEL_PATH),
            Isolation::None => file,
        };
        let mut reference = judge.take_reference(&self.problem, cancel)?;
        let mutable: Vec<bool> = self
            .problem
            .parameters
            .iter()
            .map(|p| self.problem.mutable_inputs.contains(p))
            .collect();
        let spec = judge.dsls.spec(&self.dsl);
        let evaluation = Evaluation {
            dsl: spec,
            reference: &mut reference,
            submission: &mut submission,
            replay: &mut replay,
            kernel: &inside,
            mutable: &mutable,
            device: &judge.device,
            seeds,
            cancel,
            // Starting Python is not the submission's work, and so not in its time.
            started: Instant::now(),
            limits: &judge.limits,
            tracking: None,
            carrying: Carrying::default(),
            modules: HashMap::new(),
            recorded: 0,
        };
        let result = evaluation.run(outcome)?;
        judge.give_back(&self.problem, reference);
        // One whose template has gone with it is of no more use.
        if submission.end().is_ok() {
            drop(submission);
            judge.keep_warm(warm);
        }
        Ok(result)
    }
}

/// What the device says of itself to a program that asks, in the form that the workers read.
fn device_info(device: &vgpu::cost::Device) -> serde_json::Value {
    let occupancy = &device.occupancy;
    json!({
        "name": device.name,
        "major": device.capability[0],
        "minor": device.capability[1],
        "sm_count": device.sms,
        "total_memory": device.memory_bytes,
        "shared_per_block_optin": occupancy.shared_per_cta,
        "shared_per_sm": occupancy.shared_per_sm,
        "shared_reserved_per_block": occupancy.shared_reserved_per_cta,
        "registers_per_block": occupancy.registers_per_sm,
        "registers_per_sm": occupancy.registers_per_sm,
        "threads_per_sm": occupancy.max_warps_per_sm * 32,
        "blocks_per_sm": occupancy.max_ctas_per_sm,
        "l2_bytes": device.memory.l2_bytes,
        "clock_khz": (device.clock_hz / 1e3) as u64,
    })
}

/// Writes a file whole or not at all; several judges may do so at once.
fn write_once(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut file, bytes)?;
    make_readable(file.path())?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// A sandboxed worker runs as another user.
fn make_readable(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

impl Grader for TaskGrader {
    fn grade(
        &self,
        kernel: &[u8],
        _purpose: Purpose,
        cancel: &Cancel,
    ) -> Result<Graded, GradeFailure> {
        let started = Instant::now();
        if kernel.len() > KERNEL_BYTE_LIMIT {
            return Ok(Graded::Refused {
                reason: format!(
                    "kernel.py has {} bytes; at most {KERNEL_BYTE_LIMIT} are allowed",
                    kernel.len()
                ),
            });
        }
        let dsls = &self.judge.dsls;
        let others: Vec<&str> = dsls
            .ids()
            .filter(|id| **id != self.dsl)
            .map(|id| dsls.spec(id).import_name)
            .collect();
        let findings = match policy::check(kernel, &others) {
            Ok(findings) => findings,
            Err(error) => {
                return Ok(Graded::Refused {
                    reason: error.to_string(),
                });
            }
        };
        let seeds = match &self.seeds {
            Some(seeds) => seeds.clone(),
            None => Seeds::fresh()?,
        };
        let mut outcome = Outcome {
            findings,
            ..Outcome::default()
        };
        let result = self.evaluate(kernel, &mut outcome, &seeds, cancel)?;
        let eval_sec = started.elapsed().as_secs_f64();
        let tape = zstd::encode_all(outcome.tape.as_slice(), 3).map_err(infrastructure)?;
        let evidence = vec![("tape.bin.zst".to_owned(), tape)];
        Ok(match result {
            Ok(()) => Graded::Evaluated {
                verdict: outcome.verdict(&seeds, &self.device(), eval_sec),
                evidence,
            },
            Err(Incomplete { operation }) => {
                let report = format!(
                    "incomplete: the virtual GPU does not model this, so there is no verdict and nothing is counted\n{operation}"
                );
                let verdict = Verdict {
                    eval_sec,
                    stderr: outcome.stderr.clone(),
                    ..Verdict::unevaluated(&report)
                }
                .trimmed();
                Graded::Incomplete {
                    operation,
                    verdict,
                    evidence,
                }
            }
        })
    }

    fn device(&self) -> String {
        format!("{} (virtual)", self.judge.device.name)
    }
}

fn infrastructure(error: impl ToString) -> GradeFailure {
    GradeFailure::Infrastructure(error.to_string())
}
