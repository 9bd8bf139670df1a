//! An agent's sandbox: folders that last, and a fresh set of namespaces for each command in it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result, at, call};
use crate::folder::{Folder, remove_tree};
use crate::identity::Identity;
use crate::limits::Limits;
use crate::plan::View;
use crate::process::{Isolation, Outcome, Process, Start};
use crate::seccomp::Strictness;
use crate::submission::{Stream, environment, input, output};
use crate::sweep::{PREFIX, own};

/// What an attempt's sandbox is made from.
#[derive(Debug, Clone)]
pub struct AttemptSpec {
    /// The folder in which sandboxes stand, outside; made if absent.
    pub state: PathBuf,
    /// How it is kept in.
    pub isolation: Isolation,
    /// What it may use.
    pub limits: Limits,
    /// Paths and bytes of the files of `/tests`, unchangeable.
    pub tests: Vec<(String, Vec<u8>)>,
    /// Paths and bytes of the files of `/docs`, unchangeable.
    pub docs: Vec<(String, Vec<u8>)>,
    /// Seen at their own path, unchangeable (a Python environment).
    pub read_only: Vec<PathBuf>,
    /// Variables of every command.
    pub env: Vec<(String, String)>,
}

/// How one command runs in an attempt's sandbox.
#[derive(Debug, Default)]
pub struct Exec {
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Working folder inside; `/app` where none is given.
    pub folder: Option<PathBuf>,
    /// Time after which the whole command, with all that it has started, is ended.
    pub time: Option<Duration>,
}

/// What a finished command left.
#[derive(Debug, Clone)]
pub struct ExecOutput {
    /// How it ended.
    pub outcome: Outcome,
    /// Its standard output, the last mebibyte.
    pub stdout: Vec<u8>,
    /// Its standard error, the last mebibyte.
    pub stderr: Vec<u8>,
}

/// An agent's sandbox: `/app` and `/tmp` to write to, `/tests` and `/docs` to read. Commands see
/// each other's files and not each other's processes. Dropping it removes the folders.
#[derive(Debug)]
pub struct AttemptSandbox {
    spec: AttemptSpec,
    identity: Identity,
    root: PathBuf,
    app: Folder,
    lock: Option<File>,
}

impl AttemptSandbox {
    /// Makes the folders.
    ///
    /// # Errors
    /// See [`Error`]; that namespaces are refused shows at the first command.
    pub fn create(spec: AttemptSpec) -> Result<Self> {
        let identity = match spec.isolation {
            Isolation::Namespaces => Identity::fresh()?,
            Isolation::None => Identity::Mapped { uid: 0, gid: 0 },
        };
        fs::create_dir_all(&spec.state).map_err(at(&spec.state))?;
        let state = spec.state.canonicalize().map_err(at(&spec.state))?;
        let root = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(&state)
            .map_err(at(&state))?
            .keep();
        let lock = Some(own(&root)?);
        for (name, mode) in [
            ("app", 0o755),
            ("tmp", 0o1777),
            ("tests", 0o755),
            ("docs", 0o755),
        ] {
            use std::os::unix::fs::{PermissionsExt, chown};
            let path = root.join(name);
            fs::create_dir(&path).map_err(at(&path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(at(&path))?;
            if ["app", "tmp"].contains(&name)
                && let Some(id) = identity.owner()
            {
                chown(&path, Some(id), Some(id)).map_err(at(&path))?;
            }
        }
        for (folder, files) in [("tests", &spec.tests), ("docs", &spec.docs)] {
            let folder = Folder::open(&root.join(folder), None)?;
            for (path, bytes) in files {
                folder.write(path, bytes, 0o644)?;
            }
        }
        let app = Folder::open(&root.join("app"), identity.owner())?;
        Ok(AttemptSandbox {
            spec,
            identity,
            root,
            app,
            lock,
        })
    }

    /// The folder `/app`, from outside.
    pub fn app(&self) -> &Folder {
        &self.app
    }

    /// The folder `/app`, from outside, as a handle of its own (for another thread).
    ///
    /// # Errors
    /// If it is gone.
    pub fn open_app(&self) -> Result<Folder> {
        Folder::open(&self.root.join("app"), self.identity.owner())
    }

    /// A path as commands inside see it: itself, but for [`Isolation::None`], where the sandbox's
    /// folders stand elsewhere.
    pub fn inside(&self, path: &str) -> String {
        if self.spec.isolation == Isolation::Namespaces {
            return path.to_owned();
        }
        let below = |folder: &str| {
            let rest = path.strip_prefix(folder)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
        };
        for name in ["app", "tests", "docs", "tmp"] {
            if let Some(rest) = below(&format!("/{name}")) {
                return format!("{}{rest}", self.root.join(name).display());
            }
        }
        path.to_owned()
    }

    /// Puts a file below `/app`, whole.
    ///
    /// # Errors
    /// For a path elsewhere, and where something of the agent's stands in the way.
    pub fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.app.write(self.below_app(path)?, bytes, 0o644)
    }

    /// The bytes of a plain file below `/app`; none where there is none.
    ///
    /// # Errors
    /// For a path elsewhere, and above `limit` bytes.
    pub fn get(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        self.app.read(self.below_app(path)?, limit)
    }

    fn below_app<'p>(&self, path: &'p str) -> Result<&'p Path> {
        Path::new(path)
            .strip_prefix("/app")
            .map_err(|_| Error::BadPath {
                path: path.into(),
                why: "only files below /app can be put or taken",
            })
    }

    /// Starts a command: program (an absolute path, as `inside` gives it) and arguments.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn exec(&self, argv: &[&str], how: Exec) -> Result<Process> {
        let mut view = View::default();
        view.read_only.clone_from(&self.spec.read_only);
        let folder = |name: &str| (self.root.join(name), PathBuf::from(format!("/{name}")));
        view.read_only_at.extend([folder("tests"), folder("docs")]);
        view.writable_at.extend([folder("app"), folder("tmp")]);
        let mut env = environment(&self.spec.env);
        if self.spec.isolation == Isolation::None {
            env.push(("MKB_APP".to_owned(), self.inside("/app")));
        }
        let argv: Vec<String> = argv.iter().map(|&a| a.to_owned()).collect();
        let working = match how.folder {
            Some(folder) => folder,
            None => PathBuf::from(self.inside("/app")),
        };
        let (stdin, stdin_ours) = input(how.stdin)?;
        let (stdout, stdout_ours) = output(how.stdout)?;
        let (stderr, stderr_ours) = output(how.stderr)?;
        let mut process = Process::start(Start {
            isolation: self.spec.isolation,
            identity: self.identity,
            view: &view,
            memory_tmp: false,
            limits: &self.spec.limits,
            strictness: Strictness::Attempt,
            argv: &argv,
            env: &env,
            folder: &working,
            fds: vec![stdin, stdout, stderr],
            shared: vec![],
            disk: vec![self.root.join("app"), self.root.join("tmp")],
            time: how.time,
        })?;
        process.stdin = stdin_ours;
        (process.stdout, process.stdout_tail) = stdout_ours;
        (process.stderr, process.stderr_tail) = stderr_ours;
        Ok(process)
    }

    /// Runs a command to its end and gives what it printed. `stop` is asked a few times a second
    /// whether to end it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(
        &self,
        argv: &[&str],
        stdin: &[u8],
        time: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<ExecOutput> {
        const MOST: usize = 1 << 20;
        let how = Exec {
            stdin: Stream::Pipe,
            stdout: Stream::Tail(MOST),
            stderr: Stream::Tail(MOST),
            folder: None,
            time: Some(time),
        };
        let mut process = self.exec(argv, how)?;
        let given = stdin.to_vec();
        let pipe = process.stdin.take();
        let feed = thread::Builder::new().spawn(move || {
            // A program that does not read its input is within its rights.
            let _ = pipe.map(|mut p| p.write_all(&given));
        });
        let outcome = loop {
            if let Some(outcome) = process.wait_for(Duration::from_millis(200)) {
                break outcome;
            }
            if stop() {
                break process.kill();
            }
        };
        // The other end is closed now, so the thread is through.
        let _ = feed.map_err(call("thread"))?.join();
        Ok(ExecOutput {
            outcome,
            stdout: process.stdout_tail(),
            stderr: process.stderr_tail(),
        })
    }

    /// Removes the folders, and says if that failed.
    ///
    /// # Errors
    /// If a folder could not be removed.
    pub fn remove(mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&mut self) -> Result<()> {
        if self.lock.take().is_none() {
            return Ok(());
        }
        remove_tree(&self.root)
    }
}

impl Drop for AttemptSandbox {
    fn drop(&mut self) {
        // The next sweep finds what could not be removed.
        let _ = self.clear();
    }
}

impl ExecOutput {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}
