//! A running command of a sandbox: start, watch, freeze, kill, wait.

use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::child::{Init, Prepared, RECORD, Stage, Strings, enter, tag};
use crate::error::{Error, Result, call};
use crate::identity::Identity;
use crate::limits::Limits;
use crate::measure;
use crate::plan::{INIT_PATH, Step, Tree, View, steps};
use crate::seccomp::{Strictness, filters};
use crate::submission::Tail;

/// The program of `init/init.rs`, compiled.
static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// How often the watch looks at memory.
const LOOK: Duration = Duration::from_millis(25);
/// How often it looks at disk use, which costs more.
const LOOK_DISK: Duration = Duration::from_millis(1000);
/// How long the set-up of a sandbox may take.
const SETUP: Duration = Duration::from_secs(30);
/// How long a thread of it may seem to be at work within the kernel.
const WAITS: Duration = Duration::from_millis(300);
/// How long a frozen sandbox may take to stand still.
const STILL: Duration = Duration::from_secs(5);

/// Whether namespaces keep untrusted code in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Linux namespaces: the default.
    Namespaces,
    /// None: the processes see and may change all that the driver's user may. Time, memory and
    /// file limits, and the end of all processes with the driver, still hold; a process limit
    /// does not. Only after an explicit yes, which the results state.
    None,
}

/// Memory that the driver shares with a sandbox, outside its memory limit but with a limit of its
/// own, as filling it costs the machine all the same.
#[derive(Debug)]
pub struct SharedMemory {
    /// The file (a memfd).
    pub file: OwnedFd,
    /// Bytes that may be filled.
    pub max_bytes: u64,
}

/// How a sandboxed command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal of its own making (a crash, an abort, a limit of processor time).
    Signaled(i32),
    /// The time that it was given is over; it was ended.
    TimedOut,
    /// It used too much memory; it was ended. Bytes used and allowed.
    OverMemory {
        /// Bytes in use when it was seen.
        used: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// It wrote too much to disk, or too many files; it was ended. Bytes used (the largest number
    /// for too many files) and allowed.
    OverDisk {
        /// Bytes in use when it was seen.
        used: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The driver ended it.
    Killed,
    /// Its first process ended without a word: something outside (an out-of-memory killer, a
    /// person) ended it.
    Lost,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        match self {
            Outcome::Exited(code) => write!(f, "exited with code {code}"),
            Outcome::Signaled(signal) => match Signal::from_named_raw(*signal) {
                Some(name) => write!(f, "ended by signal {signal} ({name:?})"),
                None => write!(f, "ended by signal {signal}"),
            },
            Outcome::TimedOut => write!(f, "ran out of time"),
            Outcome::OverMemory { used, limit } => {
                write!(
                    f,
                    "used {} MiB of memory; the limit is {} MiB",
                    used / MIB,
                    limit / MIB
                )
            }
            Outcome::OverDisk { used: u64::MAX, .. } => {
                write!(f, "wrote more files than are counted")
            }
            Outcome::OverDisk { used, limit } => {
                write!(
                    f,
                    "used {} MiB of disk; the limit is {} MiB",
                    used / MIB,
                    limit / MIB
                )
            }
            Outcome::Killed => write!(f, "was ended by the driver"),
            Outcome::Lost => write!(f, "was ended from outside"),
        }
    }
}

/// All that a command is started from; the two public builders fill it.
pub(crate) struct Start<'a> {
    pub isolation: Isolation,
    pub identity: Identity,
    pub view: &'a View,
    /// An in-memory `/tmp`, else the view has one.
    pub memory_tmp: bool,
    pub limits: &'a Limits,
    pub strictness: Strictness,
    pub argv: &'a [String],
    pub env: &'a [(String, String)],
    pub folder: &'a Path,
    /// To stand at 0, 1, 2, ...
    pub fds: Vec<OwnedFd>,
    pub shared: Vec<SharedMemory>,
    /// Folders whose bytes count against `limits.disk_bytes`.
    pub disk: Vec<PathBuf>,
    pub time: Option<Duration>,
}

/// A running command of a sandbox. Dropping it ends the command and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    /// The write end of its standard input, if that is a pipe.
    pub stdin: Option<File>,
    /// The read end of its standard output, if that is a pipe.
    pub stdout: Option<File>,
    /// The read end of its standard error, if that is a pipe.
    pub stderr: Option<File>,
    pub(crate) stdout_tail: Option<Tail>,
    pub(crate) stderr_tail: Option<Tail>,
    pid: i32,
    isolation: Isolation,
    watched: Arc<Watched>,
    watch: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Watched {
    pidfd: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The write end of the first process's command pipe; its end ends the sandbox.
    commands: Option<OwnedFd>,
    /// Why the watch or the driver ended it, if one did.
    reason: Option<Outcome>,
    outcome: Option<Outcome>,
    deadline: Option<Instant>,
    obeyed: u64,
    peak: u64,
    shared: Vec<SharedMemory>,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the sandbox for `reason`, unless it has ended or is about to.
    fn end(&self, reason: Outcome, isolation: Isolation) {
        let mut state = self.lock();
        if state.outcome.is_some() || state.reason.is_some() {
            return;
        }
        state.reason = Some(reason);
        state.commands = None;
        drop(state);
        if isolation == Isolation::Namespaces {
            // The namespace goes with its first process; nothing to do if that has just ended.
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
    }
}

impl Process {
    /// Starts the command; returns when it has been executed.
    pub(crate) fn start(start: Start<'_>) -> Result<Process> {
        if INIT.is_empty() {
            return Err(Error::Unsupported(
                "this build is for another platform".to_owned(),
            ));
        }
        let alone = start.isolation == Isolation::Namespaces;
        let (command_read, command_write) = pipe()?;
        let (status_read, status_write) = pipe()?;
        let init_file = if alone { None } else { Some(init_file()?) };
        let steps = match start.isolation {
            Isolation::None => vec![],
            Isolation::Namespaces => steps(&Tree {
                view: start.view,
                tmp_bytes: start.memory_tmp.then_some(start.limits.disk_bytes),
                id: start.identity.inside(),
                init: INIT,
            })?,
        };
        let count = start.fds.len();
        let mut argv = vec![
            "mkb-init".to_owned(),
            if alone { "n" } else { "g" }.to_owned(),
            count.to_string(),
            (count + 1).to_string(),
        ];
        argv.extend(start.argv.iter().cloned());
        let envp = start
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let prepared = Prepared {
            maps: match (alone, start.identity) {
                (true, Identity::Mapped { uid, gid }) => {
                    let inside = start.identity.inside();
                    let line = |outside| format!("{inside} {outside} 1\n").into_bytes();
                    Some((line(uid), line(gid)))
                }
                _ => None,
            },
            steps,
            fds: start.fds.iter().map(AsRawFd::as_raw_fd).collect(),
            commands: command_read.as_raw_fd(),
            status: status_write.as_raw_fd(),
            limits: resource_limits(start.limits, start.isolation),
            affinity: affinity(start.limits.cpus)?,
            become_id: if alone { start.identity.owner() } else { None },
            folder: c_string(start.folder.to_string_lossy().into_owned())?,
            filters: filters(start.strictness)?,
            init: match &init_file {
                Some(file) => Init::Open(file.as_raw_fd()),
                None => Init::Path(INIT_PATH),
            },
            argv: Strings::new(argv.into_iter().map(c_string).collect::<Result<_>>()?),
            envp: Strings::new(envp.map(c_string).collect::<Result<_>>()?),
        };

        let mut flags = libc::CLONE_PIDFD as u64;
        if alone {
            flags |= (libc::CLONE_NEWNS
                | libc::CLONE_NEWPID
                | libc::CLONE_NEWNET
                | libc::CLONE_NEWIPC
                | libc::CLONE_NEWUTS
                | libc::CLONE_NEWCGROUP) as u64;
            if prepared.maps.is_some() {
                flags |= libc::CLONE_NEWUSER as u64;
            }
        }
        let (pid, pidfd) = clone(flags, &prepared)?;
        drop((command_read, status_write, start.fds));

        let mut status = File::from(status_read);
        if let Err(error) = first_record(&mut status, &prepared, start.argv) {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
            return Err(error);
        }
        let watched = Arc::new(Watched {
            pidfd,
            state: Mutex::new(State {
                commands: Some(command_write),
                deadline: start.time.map(|t| Instant::now() + t),
                shared: start.shared,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let watch = Watch {
            watched: Arc::clone(&watched),
            status,
            pid,
            isolation: start.isolation,
            limits: start.limits.clone(),
            disk: start.disk,
        };
        let thread = thread::Builder::new()
            .name("sandbox watch".to_owned())
            .spawn(move || watch.run())
            .map_err(call("thread"))?;
        Ok(Process {
            stdin: None,
            stdout: None,
            stderr: None,
            stdout_tail: None,
            stderr_tail: None,
            pid,
            isolation: start.isolation,
            watched,
            watch: Some(thread),
        })
    }

    /// The number of its first process outside the sandbox.
    pub fn id(&self) -> i32 {
        self.pid
    }

    /// Sets the time from now after which it is ended; none: no end.
    pub fn set_time(&self, time: Option<Duration>) {
        self.watched.lock().deadline = time.map(|t| Instant::now() + t);
    }

    /// Replaces the memory shared with the driver, for a process that is handed it while it runs.
    pub fn set_shared(&self, shared: Vec<SharedMemory>) {
        self.watched.lock().shared = shared;
    }

    /// The outcome, if it has ended.
    pub fn outcome(&self) -> Option<Outcome> {
        self.watched.lock().outcome.clone()
    }

    /// Waits until it has ended, and every process of it with it.
    pub fn wait(&self) -> Outcome {
        let mut state = self.watched.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self
                .watched
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits at most `time`; none if it still runs then.
    pub fn wait_for(&self, time: Duration) -> Option<Outcome> {
        let end = Instant::now() + time;
        let mut state = self.watched.lock();
        while state.outcome.is_none() {
            let left = end.checked_duration_since(Instant::now())?;
            let waited = self.watched.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.outcome.clone()
    }

    /// Ends it with every process of it. Returns when they are gone.
    pub fn kill(&self) -> Outcome {
        self.watched.end(Outcome::Killed, self.isolation);
        self.wait()
    }

    /// Stops every process of it; returns when all stand still.
    ///
    /// # Errors
    /// [`Error::Unresponsive`] if they don't within five seconds, or it has ended.
    pub fn freeze(&self) -> Result<()> {
        self.command(b'S')?;
        let began = Instant::now();
        loop {
            let others = measure::tree(self.pid).into_iter().skip(1);
            let states: Vec<u8> = others.flat_map(measure::states).collect();
            let stands = |s: &u8| b"TtZX".contains(s);
            // A thread that waits within the kernel for a child that is stopped (vfork) stays so;
            // it stops before it would run on.
            let waits = |s: &u8| stands(s) || *s == b'D';
            if states.iter().all(stands) || began.elapsed() > WAITS && states.iter().all(waits) {
                return Ok(());
            }
            if began.elapsed() > STILL {
                return Err(Error::Unresponsive("stand still"));
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Lets a frozen sandbox go on.
    ///
    /// # Errors
    /// [`Error::Unresponsive`] if it has ended.
    pub fn thaw(&self) -> Result<()> {
        self.command(b'C')
    }

    fn command(&self, command: u8) -> Result<()> {
        let mut state = self.watched.lock();
        let before = state.obeyed;
        let pipe = state
            .commands
            .as_ref()
            .ok_or(Error::Unresponsive("listen"))?;
        rustix::io::write(pipe, &[command]).map_err(|_| Error::Unresponsive("listen"))?;
        let end = Instant::now() + STILL;
        while state.obeyed == before {
            if state.outcome.is_some() {
                return Err(Error::Unresponsive("live on"));
            }
            let left = end
                .checked_duration_since(Instant::now())
                .ok_or(Error::Unresponsive("obey"))?;
            let waited = self.watched.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// The last bytes of its standard output, if these are kept.
    pub fn stdout_tail(&self) -> Vec<u8> {
        self.tail(&self.stdout_tail)
    }

    /// The last bytes of its standard error, if these are kept.
    pub fn stderr_tail(&self) -> Vec<u8> {
        self.tail(&self.stderr_tail)
    }

    fn tail(&self, tail: &Option<Tail>) -> Vec<u8> {
        let ended = self.outcome().is_some();
        tail.as_ref().map(|t| t.bytes(ended)).unwrap_or_default()
    }

    /// The most memory that was seen in use, in bytes, by all its processes together.
    pub fn peak_memory(&self) -> u64 {
        self.watched.lock().peak
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

/// The thread that looks after one command.
struct Watch {
    watched: Arc<Watched>,
    status: File,
    pid: i32,
    isolation: Isolation,
    limits: Limits,
    disk: Vec<PathBuf>,
}

impl Watch {
    fn run(mut self) {
        let mut ended = None;
        let mut disk_due = Instant::now() + LOOK_DISK;
        loop {
            match self.record(LOOK) {
                Record::None => {}
                Record::End => break,
                Record::Some(tag::ENDED, status) => ended = Some(status),
                Record::Some(tag::OBEYED, _) => {
                    self.watched.lock().obeyed += 1;
                    self.watched.changed.notify_all();
                }
                Record::Some(..) => {}
            }
            let deadline = self.watched.lock().deadline;
            if deadline.is_some_and(|d| Instant::now() >= d) {
                self.end(Outcome::TimedOut);
            }
            self.look_at_memory();
            if Instant::now() >= disk_due && !self.disk.is_empty() {
                let each = self.disk.iter().map(|d| measure::disk(d));
                let used = each.fold(0, u64::saturating_add);
                if used > self.limits.disk_bytes {
                    self.end(Outcome::OverDisk {
                        used,
                        limit: self.limits.disk_bytes,
                    });
                }
                disk_due = Instant::now() + LOOK_DISK;
            }
        }
        // The pipe has ended: the first process has, or is about to.
        let _ = waitid(
            WaitId::PidFd(self.watched.pidfd.as_fd()),
            WaitIdOptions::EXITED,
        );
        let mut state = self.watched.lock();
        state.commands = None;
        // A target that had ended before somebody wanted its end ended by itself.
        let by_itself = ended.map(|status| {
            if libc::WIFSIGNALED(status) {
                Outcome::Signaled(libc::WTERMSIG(status))
            } else {
                Outcome::Exited(libc::WEXITSTATUS(status))
            }
        });
        state.outcome = by_itself.or(state.reason.take()).or(Some(Outcome::Lost));
        drop(state);
        self.watched.changed.notify_all();
    }

    fn end(&self, reason: Outcome) {
        self.watched.end(reason, self.isolation);
    }

    fn record(&mut self, patience: Duration) -> Record {
        let time = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(patience.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.status, PollFlags::IN)];
        match poll(&mut fds, Some(&time)) {
            Ok(0) | Err(_) => return Record::None,
            Ok(_) => {}
        }
        let mut record = [0; RECORD];
        match self.status.read_exact(&mut record) {
            Ok(()) => Record::Some(record[0], number(&record[1..5])),
            Err(_) => Record::End,
        }
    }

    fn look_at_memory(&self) {
        let limit = self.limits.memory_bytes;
        let mut filled = 0;
        let mut over = None;
        for memory in &self.watched.lock().shared {
            let Ok(stat) = rustix::fs::fstat(&memory.file) else {
                continue;
            };
            let bytes = stat.st_blocks.unsigned_abs() * 512;
            filled += bytes;
            if bytes > memory.max_bytes {
                over = Some(Outcome::OverMemory {
                    used: bytes,
                    limit: memory.max_bytes,
                });
            }
        }
        if let Some(over) = over {
            self.end(over);
        }
        let pids = measure::tree(self.pid);
        let memory = measure::memory(&pids);
        // What the driver shares may be in any of the processes: it does not count.
        let own_shared = memory.shared.saturating_sub(filled);
        let mut used = memory.private + own_shared;
        if used > limit
            && let Some(private) = measure::exact_private(&pids)
        {
            used = private + own_shared;
        }
        let mut state = self.watched.lock();
        state.peak = state.peak.max(used);
        drop(state);
        if used > limit {
            self.end(Outcome::OverMemory { used, limit });
        }
    }
}

enum Record {
    None,
    Some(u8, i32),
    End,
}

fn number(bytes: &[u8]) -> i32 {
    i32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// Waits for the first word of a sandbox: that the target runs, or what went wrong.
fn first_record(status: &mut File, prepared: &Prepared, argv: &[String]) -> Result<()> {
    let time = Timespec {
        tv_sec: SETUP.as_secs() as i64,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(&*status, PollFlags::IN)];
    if poll(&mut fds, Some(&time)).map_err(call("poll"))? == 0 {
        return Err(Error::Unresponsive("start"));
    }
    let mut record = [0; RECORD];
    status
        .read_exact(&mut record)
        .map_err(|_| Error::Unresponsive("live through its start"))?;
    let (first, second) = (number(&record[1..5]), number(&record[5..9]));
    match record[0] {
        tag::RUNS => Ok(()),
        tag::EXEC_FAILED => {
            let program = argv.first().cloned().unwrap_or_default();
            Err(Error::Exec {
                program,
                source: io::Error::from_raw_os_error(first),
            })
        }
        _ => Err(setup_error(first, second, &prepared.steps)),
    }
}

fn setup_error(stage: i32, errno: i32, steps: &[Step]) -> Error {
    let source = io::Error::from_raw_os_error(errno);
    let refused = errno == libc::EPERM || errno == libc::EACCES;
    let step = usize::try_from(stage)
        .ok()
        .and_then(|index| steps.get(index));
    match step {
        // Some distributions let a user namespace be made, but give no rights in it.
        Some(Step::Private | Step::Mount { .. } | Step::Pivot) if refused => {
            Error::NamespacesRefused(source)
        }
        None if stage == Stage::Maps as i32 && refused => Error::NamespacesRefused(source),
        Some(step) => Error::Setup {
            step: step.to_string(),
            source,
        },
        None => Error::Setup {
            step: Stage::describe(stage).to_owned(),
            source,
        },
    }
}

/// A copy of this process that becomes what `prepared` says.
fn clone(flags: u64, prepared: &Prepared) -> Result<(i32, OwnedFd)> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain data, for which zero is "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flags;
    args.pidfd = &raw mut pidfd as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // No signal handler of the driver may run in the copy.
    // SAFETY: both sets live; the child resets its own mask and never returns from `enter`,
    // which allocates nothing, as other threads may have held the allocator's lock.
    let (result, error) = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
        let result = libc::syscall(
            libc::SYS_clone3,
            &raw mut args,
            size_of::<libc::clone_args>(),
        );
        if result == 0 {
            enter(prepared);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        (result, error)
    };
    if result < 0 {
        return Err(match error.raw_os_error() {
            // ENOSPC and EUSERS: the number of namespaces is limited, often to none.
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS) => {
                Error::NamespacesRefused(error)
            }
            Some(libc::ENOSYS | libc::EINVAL) => Error::Unsupported(format!("clone3: {error}")),
            _ => Error::System {
                call: "clone3",
                source: error,
            },
        });
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok((result as i32, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

fn resource_limits(limits: &Limits, isolation: Isolation) -> Vec<(u32, u64)> {
    let mut list = vec![
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_FSIZE, limits.file_bytes),
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_MSGQUEUE, 0),
        // Private writable memory of one process: the kernel says no at once, where the watch
        // would come too late. The arena is shared memory, which this does not count.
        (libc::RLIMIT_DATA, limits.memory_bytes),
    ];
    if let Some(time) = limits.cpu_time {
        list.push((libc::RLIMIT_CPU, time.as_secs().max(1)));
    }
    if isolation == Isolation::Namespaces {
        list.push((libc::RLIMIT_NPROC, limits.processes));
    }
    for (resource, value) in &mut list {
        let mut now = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `now` lives; process 0 is this one.
        if unsafe { libc::prlimit64(0, *resource, std::ptr::null(), &mut now) } == 0 {
            *value = (*value).min(now.rlim_max);
        }
    }
    list
}

/// `cpus` of the processors that the driver may use, in turn, so that sandboxes spread.
fn affinity(cpus: u32) -> Result<libc::cpu_set_t> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: cpu_set_t is plain bits; the call fills it up to the size given, and the macros
    // index within it.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) != 0 {
            return Err(call("sched_getaffinity")(io::Error::last_os_error()));
        }
        let all: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
            .filter(|&c| libc::CPU_ISSET(c, &allowed))
            .collect();
        let take = (cpus.max(1) as usize).min(all.len());
        let first = TURN.fetch_add(take, Ordering::Relaxed);
        let mut chosen: libc::cpu_set_t = std::mem::zeroed();
        for k in 0..take {
            libc::CPU_SET(all[(first + k) % all.len()], &mut chosen);
        }
        Ok(chosen)
    }
}

/// Both ends of a pipe, read end first; closed on `execve`.
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(call("pipe2"))
}

/// The first process's program as an open file, where there is no new file tree for it.
fn init_file() -> Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("mkb-init", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(call("memfd_create"))?;
    let mut rest = INIT;
    while !rest.is_empty() {
        let n = rustix::io::write(&fd, rest).map_err(call("write"))?;
        rest = &rest[n..];
    }
    Ok(fd)
}

fn c_string(text: String) -> Result<CString> {
    let why = "an argument, variable or path cannot hold a NUL byte";
    CString::new(text).map_err(|e| Error::BadPath {
        path: String::from_utf8_lossy(&e.into_vec()).into_owned().into(),
        why,
    })
}
