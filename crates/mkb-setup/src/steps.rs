//! The steps of set-up: each leaves a mark when it is done, and the last makes the whole believed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;

use crate::environment::{
    self, COMPLETE, Complete, Environment, State, Versions, locate, lock_hash, native_hash,
    python_of,
};
use crate::process::{self, Outcome};
use crate::python;
use crate::{SetupError, describe};

/// Free disk space that set-up asks for before it begins: the packages, unpacked and as downloaded.
pub const NEEDED_BYTES: u64 = 3 << 30;

/// What to set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The repository's root.
    pub root: PathBuf,
    /// The Python to use (default: `MKB_PYTHON`, or the first on the path that fits).
    pub python: Option<PathBuf>,
    /// A folder of wheels to take before the registry's (default: `MKB_WHEELS`).
    pub wheels: Option<PathBuf>,
}

impl Options {
    /// For the repository at `root`, with what the environment's variables say.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let variable = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Self {
            root: root.into(),
            python: variable("MKB_PYTHON"),
            wheels: variable("MKB_WHEELS"),
        }
    }
}

/// One step of set-up, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Python, compilers, disk space.
    Check,
    /// The empty environment.
    Create,
    /// The packages, from the registry.
    Download,
    /// The packages, unpacked.
    Install,
    /// Our own native code, compiled.
    Compile,
    /// torch and TVM are imported and one operation runs.
    Verify,
    /// The documentation of what the environment holds: made once it is asked for.
    Document,
}

impl Step {
    /// Those that make the environment.
    const ENVIRONMENT: [Step; 6] = [
        Step::Check,
        Step::Create,
        Step::Download,
        Step::Install,
        Step::Compile,
        Step::Verify,
    ];

    /// What it does, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Step::Check => "check Python, compilers and disk space",
            Step::Create => "create the environment",
            Step::Download => "download packages (about 620 MB)",
            Step::Install => "install packages",
            Step::Compile => "compile the virtual GPU's side of torch",
            Step::Verify => "verify",
            Step::Document => "generate the documentation of the DSLs",
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Step::Check => "check",
            Step::Create => "create",
            Step::Download => "download",
            Step::Install => "install",
            Step::Compile => "compile",
            Step::Verify => "verify",
            Step::Document => "document",
        }
    }
}

/// Hears how set-up goes on. Every method has a default that does nothing.
pub trait Progress {
    /// A step begins; `skipped` if an earlier set-up did it.
    fn step(&self, _step: Step, _skipped: bool) {}
    /// A line of output of the step's program.
    fn line(&self, _line: &str) {}
    /// Another process sets up; this one waits for it.
    fn waiting(&self) {}
    /// Whether to stop. Asked about ten times a second.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A [`Progress`] that hears nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Progress for Quiet {}

/// Gives the environment, and makes it first if it is not there or not whole.
///
/// A killed set-up goes on at the step that it did not finish. Of several processes one sets up and
/// the others wait.
pub fn ensure(options: &Options, progress: &dyn Progress) -> Result<Environment, SetupError> {
    let root = absolute(&options.root)?;
    if let State::Ready(environment) = describe(&root)? {
        return Ok(*environment);
    }
    if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
        return Err(SetupError::Platform {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
        });
    }
    let shared = root.join(".mkb");
    fs::create_dir_all(&shared).map_err(SetupError::file(&shared))?;
    let _alone = alone(&shared.join("setup.lock"), progress)?;
    // Another process may have done it while this one waited.
    if let State::Ready(environment) = describe(&root)? {
        return Ok(*environment);
    }
    Setup::new(root, options)?.run(progress)
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, SetupError> {
    std::path::absolute(path).map_err(SetupError::file(path))
}

/// Where the output of the steps' programs goes.
pub(crate) fn log_of(root: &Path) -> PathBuf {
    root.join(".mkb/setup.log")
}

/// Holds the lock until it is dropped; the system frees it when the process dies.
pub(crate) fn alone(path: &Path, progress: &dyn Progress) -> Result<File, SetupError> {
    let file = File::create(path).map_err(SetupError::file(path))?;
    let mut said = false;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if !said => {
                progress.waiting();
                said = true;
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(SetupError::file(path)(error.into())),
        }
        if progress.cancelled() {
            return Err(SetupError::Cancelled);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(file)
}

struct Setup<'o> {
    root: PathBuf,
    folder: PathBuf,
    options: &'o Options,
}

impl<'o> Setup<'o> {
    fn new(root: PathBuf, options: &'o Options) -> Result<Self, SetupError> {
        let folder = locate(&root)?;
        Ok(Self {
            root,
            folder,
            options,
        })
    }

    fn run(&self, progress: &dyn Progress) -> Result<Environment, SetupError> {
        let _ = fs::remove_file(self.folder.join(COMPLETE));
        let mut versions = None;
        for step in Step::ENVIRONMENT {
            // Cheap ones, and those whose input may have changed, are always done.
            let always = matches!(step, Step::Check | Step::Compile | Step::Verify);
            let skipped = !always && self.mark(step).exists();
            progress.step(step, skipped);
            if skipped {
                continue;
            }
            match step {
                Step::Check => self.check()?,
                Step::Create => self.create(progress)?,
                Step::Download => self.download(progress)?,
                Step::Install => self.install(progress)?,
                Step::Compile => self.compile(progress)?,
                Step::Verify => versions = Some(self.verify(progress)?),
                Step::Document => unreachable!("it is no step of the environment"),
            }
            if !always {
                let mark = self.mark(step);
                fs::write(&mark, "").map_err(SetupError::file(&mark))?;
            }
        }
        let versions = versions.expect("the last step gives them");
        self.complete(&versions)?;
        Ok(environment::environment(
            &self.root,
            self.folder.clone(),
            versions,
        ))
    }

    fn mark(&self, step: Step) -> PathBuf {
        self.folder.join(format!(".{}-done", step.mark()))
    }

    fn log(&self) -> PathBuf {
        log_of(&self.root)
    }

    /// Packages as downloaded: taken away once they are installed.
    fn packages(&self) -> PathBuf {
        self.folder.join("packages")
    }

    /// For pip's unfinished work: emptied before and after.
    fn scratch(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    fn clear_scratch(&self) -> Result<(), SetupError> {
        let scratch = self.scratch();
        match fs::remove_dir_all(&scratch) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(SetupError::file(&scratch)(error))
            }
            _ => Ok(()),
        }
    }

    fn check(&self) -> Result<(), SetupError> {
        python::check_compilers()?;
        if self.mark(Step::Install).exists() {
            return Ok(());
        }
        let shared = self.root.join(".mkb");
        let about = statvfs(&shared).map_err(|error| SetupError::file(&shared)(error.into()))?;
        let free = about.f_bavail * about.f_frsize;
        // What an unfinished set-up left is part of what is needed.
        let have = free + folder_size(&self.folder);
        if have < NEEDED_BYTES {
            let gib = |bytes| bytes as f64 / f64::from(1 << 30);
            return Err(SetupError::DiskSpace {
                path: shared,
                free_gib: gib(free),
                needed_gib: gib(NEEDED_BYTES - (have - free)),
            });
        }
        Ok(())
    }

    fn create(&self, progress: &dyn Progress) -> Result<(), SetupError> {
        let python = python::find(self.options.python.as_deref())?;
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(SetupError::file(&self.folder))?;
        }
        let mut command = Command::new(&python.path);
        command.args(["-I", "-m", "venv"]).arg(&self.folder);
        self.step(Step::Create, command, progress)
    }

    fn download(&self, progress: &dyn Progress) -> Result<(), SetupError> {
        let packages = self.packages();
        let mut command = self.pip("download");
        command.arg("--dest").arg(&packages);
        if let Some(wheels) = &self.options.wheels {
            command.arg("--find-links").arg(absolute(wheels)?);
        }
        self.with_pip(Step::Download, command, progress)
    }

    fn install(&self, progress: &dyn Progress) -> Result<(), SetupError> {
        let packages = self.packages();
        let mut command = self.pip("install");
        command.arg("--no-index").arg("--find-links").arg(&packages);
        // Byte code of what is used comes with the first imports, in the last step.
        command.arg("--no-compile");
        self.with_pip(Step::Install, command, progress)?;
        fs::remove_dir_all(&packages).map_err(SetupError::file(&packages))
    }

    fn with_pip(
        &self,
        step: Step,
        command: Command,
        progress: &dyn Progress,
    ) -> Result<(), SetupError> {
        self.clear_scratch()?;
        let scratch = self.scratch();
        fs::create_dir_all(&scratch).map_err(SetupError::file(&scratch))?;
        self.step(step, command, progress)?;
        self.clear_scratch()
    }

    /// pip, on the lock's packages and no others.
    fn pip(&self, what: &str) -> Command {
        let mut command = self.python();
        // Large files must not fill a small /tmp.
        command.env("TMPDIR", self.scratch());
        command.args(["-m", "pip", what, "--disable-pip-version-check"]);
        command.args(["--no-input", "--no-cache-dir", "--no-deps"]);
        command.args(["--require-hashes", "--only-binary=:all:", "--requirement"]);
        command.arg(self.root.join("python/requirements.lock"));
        command
    }

    fn compile(&self, progress: &dyn Progress) -> Result<(), SetupError> {
        let mut command = self.python();
        command.args(["-m", "mkb_shim.build"]);
        self.step(Step::Compile, command, progress)
    }

    fn verify(&self, progress: &dyn Progress) -> Result<Versions, SetupError> {
        let answer = self.folder.join("verified.json");
        let mut command = self.python();
        command.args(["-m", "mkb_shim.verify"]).arg(&answer);
        self.step(Step::Verify, command, progress)?;
        let bytes = fs::read(&answer).map_err(SetupError::file(&answer))?;
        serde_json::from_slice(&bytes).map_err(|error| SetupError::Step {
            step: Step::Verify.title(),
            detail: error.to_string(),
            log: self.log(),
        })
    }

    /// The last step: the file that makes the environment believed appears at once and whole.
    fn complete(&self, versions: &Versions) -> Result<(), SetupError> {
        let complete = Complete {
            lock: lock_hash(&self.root)?,
            native: native_hash(&self.root)?,
            versions: versions.clone(),
        };
        let unfinished = self.folder.join("complete.tmp");
        let text = serde_json::to_vec_pretty(&complete).expect("strings make JSON");
        fs::write(&unfinished, text).map_err(SetupError::file(&unfinished))?;
        fs::rename(&unfinished, self.folder.join(COMPLETE)).map_err(SetupError::file(&unfinished))
    }

    /// The environment's Python, with none of the person's own settings.
    fn python(&self) -> Command {
        let mut command = Command::new(python_of(&self.folder));
        command.env("PYTHONPATH", self.root.join("python"));
        command.env("PYTHONNOUSERSITE", "1");
        command.env_remove("PYTHONHOME");
        command
    }

    fn step(
        &self,
        step: Step,
        command: Command,
        progress: &dyn Progress,
    ) -> Result<(), SetupError> {
        match process::run(command, &self.log(), progress)? {
            Outcome::Done => Ok(()),
            Outcome::Failed(detail) => Err(self.explain(step, detail)),
        }
    }

    fn explain(&self, step: Step, detail: String) -> SetupError {
        let line_with = |words: &[&str]| {
            detail
                .lines()
                .find(|line| words.iter().any(|word| line.contains(word)))
                .map(|line| line.trim().to_owned())
        };
        let unreachable = [
            "Temporary failure in name resolution",
            "Failed to establish a new connection",
            "Max retries exceeded",
            "Connection refused",
            "ConnectionError",
            "ReadTimeoutError",
            "ProxyError",
            "SSLError",
            "No matching distribution found",
        ];
        let packages = matches!(step, Step::Download | Step::Install);
        if packages && let Some(detail) = line_with(&["DO NOT MATCH THE HASHES", "HashMismatch"]) {
            return SetupError::Hash { detail };
        }
        if step == Step::Download
            && let Some(detail) = line_with(&unreachable)
        {
            return SetupError::Registry { detail };
        }
        SetupError::Step {
            step: step.title(),
            detail,
            log: self.log(),
        }
    }
}

/// Bytes in a folder's files; what cannot be read counts as nothing.
fn folder_size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => folder_size(&entry.path()),
            Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |about| about.len()),
            _ => 0,
        })
        .sum()
}
