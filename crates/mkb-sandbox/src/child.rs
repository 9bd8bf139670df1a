//! From the driver's fork to the first process of a sandbox: everything is prepared before, and
//! nothing here allocates, locks, or returns.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use libc::{c_char, c_int, c_ulong};
use seccompiler::BpfProgram;

use crate::plan::{Step, carry_out, errno, ok};

/// Length of a record on the status pipe: a tag and two numbers.
pub(crate) const RECORD: usize = 9;

/// Tags of those records; the first process sends all but `FAILED`.
pub(crate) mod tag {
    pub const RUNS: u8 = 1;
    pub const EXEC_FAILED: u8 = 2;
    pub const ENDED: u8 = 3;
    pub const OBEYED: u8 = 4;
    /// Sent by this module: stage, errno.
    pub const FAILED: u8 = 5;
}

/// Stages that are not steps of the plan; a step of the plan stands at its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Stage {
    Descriptors = -1,
    Maps = -2,
    Limits = -3,
    Identity = -4,
    Folder = -5,
    Filter = -6,
    Execute = -7,
}

impl Stage {
    /// In words.
    pub(crate) fn describe(number: i32) -> &'static str {
        match number {
            -1 => "arranging file descriptors",
            -2 => "mapping user and group",
            -3 => "setting limits",
            -4 => "dropping privileges",
            -5 => "changing to the working folder",
            -6 => "installing the system call filter",
            _ => "starting the first process",
        }
    }
}

/// What the new process is to become.
pub(crate) struct Prepared {
    /// Text for `/proc/self/uid_map` and `gid_map`, in a new user namespace.
    pub maps: Option<(Vec<u8>, Vec<u8>)>,
    /// The file tree; empty without namespaces.
    pub steps: Vec<Step>,
    /// Descriptors to stand at 0, 1, 2, ... in this order.
    pub fds: Vec<RawFd>,
    /// Stand behind them: commands to the first process, and its status.
    pub commands: RawFd,
    /// See `commands`.
    pub status: RawFd,
    /// Resource and value (both soft and hard).
    pub limits: Vec<(u32, u64)>,
    /// Processors.
    pub affinity: libc::cpu_set_t,
    /// The user to become for good, where the driver is root.
    pub become_id: Option<u32>,
    /// Working folder, as seen inside.
    pub folder: CString,
    /// System call filters.
    pub filters: Vec<BpfProgram>,
    /// The first process's program: a path inside, or an open file.
    pub init: Init,
    /// Its arguments.
    pub argv: Strings,
    /// Its environment.
    pub envp: Strings,
}

/// Where the first process's program is.
pub(crate) enum Init {
    /// In the new file tree.
    Path(&'static CStr),
    /// An open file that `fexecve` starts.
    Open(RawFd),
}

/// Strings and the null-ended pointer list that `execve` takes.
pub(crate) struct Strings {
    _owned: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Strings {
    pub(crate) fn new(owned: Vec<CString>) -> Self {
        let mut pointers: Vec<_> = owned.iter().map(|s| s.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Strings {
            _owned: owned,
            pointers,
        }
    }
}

/// Becomes the first process of the sandbox, or reports the failure and ends.
///
/// # Safety
/// Only in a process that `clone` has just made, in which no other thread runs.
pub(crate) unsafe fn enter(p: &Prepared) -> ! {
    let mut status = p.status;
    // SAFETY: this process is a fresh copy, as our caller promises.
    let (stage, error) = unsafe { attempt(p, &mut status) };
    let (s, e) = (stage.to_le_bytes(), error.to_le_bytes());
    let record = [tag::FAILED, s[0], s[1], s[2], s[3], e[0], e[1], e[2], e[3]];
    // SAFETY: the record lives; `_exit` ends this process.
    unsafe {
        libc::write(status, record.as_ptr().cast(), record.len());
        libc::_exit(126)
    }
}

/// Returns only on failure.
unsafe fn attempt(p: &Prepared, status: &mut RawFd) -> (i32, c_int) {
    macro_rules! go {
        ($stage:expr, $result:expr) => {
            if let Err(error) = $result {
                return ($stage as i32, error);
            }
        };
    }
    // SAFETY: each function's demand is that this is the fresh child.
    unsafe {
        reset_signals();
        go!(Stage::Descriptors, arrange(p, status));
        if let Some((uid, gid)) = &p.maps {
            go!(Stage::Maps, write_file(c"/proc/self/setgroups", b"deny"));
            go!(Stage::Maps, write_file(c"/proc/self/uid_map", uid));
            go!(Stage::Maps, write_file(c"/proc/self/gid_map", gid));
        }
        libc::umask(0o022);
        for (index, step) in p.steps.iter().enumerate() {
            go!(index, carry_out(step));
        }
        go!(Stage::Limits, limit(p));
        go!(Stage::Identity, drop_privileges(p));
        go!(Stage::Folder, ok(libc::chdir(p.folder.as_ptr())));
        for filter in &p.filters {
            go!(Stage::Filter, install(filter));
        }
        let (argv, envp) = (p.argv.pointers.as_ptr(), p.envp.pointers.as_ptr());
        match p.init {
            Init::Path(path) => libc::execve(path.as_ptr(), argv, envp),
            Init::Open(_) => {
                // `arrange` put it behind the status pipe.
                libc::syscall(
                    libc::SYS_execveat,
                    *status + 1,
                    c"".as_ptr(),
                    argv,
                    envp,
                    libc::AT_EMPTY_PATH,
                ) as c_int
            }
        };
        (Stage::Execute as i32, errno())
    }
}

unsafe fn reset_signals() {
    // SAFETY: default dispositions and an empty mask need nothing to be alive.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Puts the descriptors in their places and closes all others, the driver's among them.
unsafe fn arrange(p: &Prepared, status: &mut RawFd) -> Result<(), c_int> {
    /// Above every place that is filled below.
    const HIGH: c_int = 256;
    let open = match p.init {
        Init::Open(fd) => Some(fd),
        Init::Path(_) => None,
    };
    let count = p.fds.len();
    if count + 3 > HIGH as usize {
        return Err(libc::EMFILE);
    }
    let all = || {
        p.fds
            .iter()
            .copied()
            .chain([p.commands, p.status])
            .chain(open)
    };
    let mut high = [0 as RawFd; HIGH as usize];
    for (place, source) in all().enumerate() {
        // SAFETY: duplicating any descriptor touches no memory.
        let fd = unsafe { libc::fcntl(source, libc::F_DUPFD, HIGH) };
        ok(fd)?;
        high[place] = fd;
    }
    let total = all().count();
    for (place, &fd) in high.iter().enumerate().take(total) {
        // SAFETY: as above. The copy is open after `execve`.
        ok(unsafe { libc::dup2(fd, place as c_int) })?;
    }
    *status = (count + 1) as RawFd;
    if open.is_some() {
        // SAFETY: as above.
        ok(unsafe { libc::fcntl(*status + 1, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    // SAFETY: this process owns all its descriptors and uses none of the others.
    ok(unsafe { libc::syscall(libc::SYS_close_range, total, c_int::MAX, 0) as c_int })
}

unsafe fn write_file(path: &CStr, bytes: &[u8]) -> Result<(), c_int> {
    // SAFETY: path is NUL-ended, bytes live.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        ok(fd)?;
        let written = libc::write(fd, bytes.as_ptr().cast(), bytes.len());
        let result = if written < 0 { Err(errno()) } else { Ok(()) };
        libc::close(fd);
        result
    }
}

unsafe fn limit(p: &Prepared) -> Result<(), c_int> {
    for &(resource, value) in &p.limits {
        let limit = libc::rlimit64 {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: limit lives; process 0 is this one.
        ok(unsafe { libc::prlimit64(0, resource, &limit, std::ptr::null_mut()) })?;
    }
    // SAFETY: the set lives and has the size given.
    ok(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &p.affinity) })
}

unsafe fn drop_privileges(p: &Prepared) -> Result<(), c_int> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    // SAFETY: plain system calls on this process; the direct calls are used because the C
    // library's versions would look for the driver's other threads, which don't exist here.
    unsafe {
        // Fails past the last capability, and where the right to do so is missing: harmless, as
        // no program started from here on can gain one anyway.
        for capability in 0..64 as c_ulong {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        if let Some(id) = p.become_id {
            ok(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) as c_int)?;
            ok(libc::syscall(libc::SYS_setresgid, id, id, id) as c_int)?;
            ok(libc::syscall(libc::SYS_setresuid, id, id, id) as c_int)?;
        }
        if !p.steps.is_empty() {
            let header = Header {
                version: 0x2008_0522,
                pid: 0,
            };
            let none = [0u32; 6];
            ok(libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) as c_int)?;
        }
        ok(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        ok(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0))
    }
}

unsafe fn install(filter: &BpfProgram) -> Result<(), c_int> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr() as *mut _,
    };
    const SECCOMP_SET_MODE_FILTER: c_int = 1;
    // SAFETY: the filter's instructions have the kernel's layout and live; the kernel copies them.
    ok(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        ) as c_int
    })
}
