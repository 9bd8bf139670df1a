//! A judged process: started with exactly the descriptors, files and limits that it is given.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::error::{Result, at, call};
use crate::identity::Identity;
use crate::limits::Limits;
use crate::plan::View;
use crate::process::{Isolation, Process, SharedMemory, Start, pipe};
use crate::seccomp::Strictness;

/// Where a standard stream leads.
#[derive(Debug, Default)]
pub enum Stream {
    /// Nowhere.
    #[default]
    Null,
    /// To the driver, which must read it: [`Process::stdout`].
    Pipe,
    /// To an open file.
    File(OwnedFd),
    /// The driver keeps the last so many bytes: [`Process::stdout_tail`].
    Tail(usize),
}

/// A judged process, before it starts: no network, the system read-only, a private `/tmp` in
/// memory, and nothing else but what is given here.
#[derive(Debug)]
pub struct Submission {
    /// How it is kept in.
    pub isolation: Isolation,
    /// What it sees beside the system.
    pub view: View,
    /// What it may use.
    pub limits: Limits,
    /// Program (an absolute path inside) and arguments.
    pub argv: Vec<String>,
    /// Its environment, beside `PATH`, `HOME` and `LANG`.
    pub env: Vec<(String, String)>,
    /// Its working folder, as seen inside.
    pub folder: PathBuf,
    /// Memory shared with the driver, to look after.
    pub shared: Vec<SharedMemory>,
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Time after which it is ended.
    pub time: Option<Duration>,
    passed: Vec<OwnedFd>,
}

impl Submission {
    /// Starts from nothing but a program and its arguments.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Submission {
            isolation: Isolation::Namespaces,
            view: View::default(),
            limits: Limits::submission(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: vec![],
            folder: PathBuf::from("/tmp"),
            shared: vec![],
            stdin: Stream::Null,
            stdout: Stream::Null,
            stderr: Stream::Null,
            time: None,
            passed: vec![],
        }
    }

    /// Hands an open file over; returns its number inside.
    pub fn pass(&mut self, fd: OwnedFd) -> i32 {
        self.passed.push(fd);
        self.passed.len() as i32 + 2
    }

    /// Starts it; returns when the program has been executed.
    ///
    /// # Errors
    /// See [`Error`](crate::Error): namespaces refused, a path that does not exist, a program that
    /// cannot be executed.
    pub fn spawn(self) -> Result<Process> {
        let identity = Identity::fresh()?;
        let (stdin, stdin_ours) = input(self.stdin)?;
        let (stdout, stdout_ours) = output(self.stdout)?;
        let (stderr, stderr_ours) = output(self.stderr)?;
        let mut fds = vec![stdin, stdout, stderr];
        fds.extend(self.passed);
        let mut process = Process::start(Start {
            isolation: self.isolation,
            identity,
            view: &self.view,
            memory_tmp: true,
            limits: &self.limits,
            strictness: Strictness::Submission,
            argv: &self.argv,
            env: &environment(&self.env),
            folder: &self.folder,
            fds,
            shared: self.shared,
            disk: self.view.writable_at.iter().map(|b| b.0.clone()).collect(),
            time: self.time,
        })?;
        process.stdin = stdin_ours;
        (process.stdout, process.stdout_tail) = stdout_ours;
        (process.stderr, process.stderr_tail) = stderr_ours;
        Ok(process)
    }
}

/// The variables that every sandboxed program gets, then the caller's.
pub(crate) fn environment(own: &[(String, String)]) -> Vec<(String, String)> {
    let basic = [
        ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
        ("HOME", "/tmp"),
        ("LANG", "C.UTF-8"),
    ];
    let given = |name: &str| own.iter().any(|(n, _)| n == name);
    let basic = basic.iter().filter(|(name, _)| !given(name));
    let mut all: Vec<_> = basic
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    all.extend(own.iter().cloned());
    all
}

fn null(flags: OFlags) -> Result<OwnedFd> {
    let path = "/dev/null";
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(at(path.as_ref()))
}

/// The child's end of standard input and the driver's.
pub(crate) fn input(stream: Stream) -> Result<(OwnedFd, Option<File>)> {
    match stream {
        Stream::Null | Stream::Tail(_) => Ok((null(OFlags::RDONLY)?, None)),
        Stream::File(fd) => Ok((fd, None)),
        Stream::Pipe => {
            let (read, write) = pipe()?;
            Ok((read, Some(write.into())))
        }
    }
}

/// The driver's end of an output stream.
pub(crate) type Ours = (Option<File>, Option<Tail>);

/// The child's end of an output stream and the driver's.
pub(crate) fn output(stream: Stream) -> Result<(OwnedFd, Ours)> {
    match stream {
        Stream::Null => Ok((null(OFlags::WRONLY)?, (None, None))),
        Stream::File(fd) => Ok((fd, (None, None))),
        Stream::Pipe => {
            let (read, write) = pipe()?;
            Ok((write, (Some(read.into()), None)))
        }
        Stream::Tail(most) => {
            let (read, write) = pipe()?;
            Ok((write, (None, Some(Tail::start(read.into(), most)?))))
        }
    }
}

/// The last bytes of a stream, collected by a thread.
#[derive(Debug)]
pub(crate) struct Tail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    thread: thread::JoinHandle<()>,
}

impl Tail {
    fn start(mut file: File, most: usize) -> Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let ours = Arc::clone(&kept);
        let read = move || {
            let mut buffer = [0; 8192];
            while let Ok(n @ 1..) = file.read(&mut buffer) {
                let mut kept = ours.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&buffer[..n]);
                let excess = kept.len().saturating_sub(most);
                kept.drain(..excess);
            }
        };
        let name = "sandbox output".to_owned();
        let thread = thread::Builder::new()
            .name(name)
            .spawn(read)
            .map_err(call("thread"))?;
        Ok(Tail { kept, thread })
    }

    /// The bytes so far; of an ended process, when `ended`, all that it wrote is in.
    pub(crate) fn bytes(&self, ended: bool) -> Vec<u8> {
        // Whoever else holds the other end (a descriptor passed on) must not hold us.
        for _ in 0..100 {
            if !ended || self.thread.is_finished() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().copied().collect()
    }
}
