//! What this machine offers for sandboxes, found by trying.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::identity::Identity;
use crate::process::Outcome;
use crate::submission::{Stream, Submission};

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// In words: what holds, or what holds instead.
    pub detail: String,
}

/// What this machine offers.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Whether sandboxes by namespaces work here.
    pub works: bool,
    /// Time from start to end of an empty sandboxed program, if they work.
    pub start: Option<Duration>,
    /// Each thing found.
    pub findings: Vec<Finding>,
}

/// Starts a sandbox and looks around in it and outside.
pub fn probe() -> Probe {
    let mut findings = Vec::new();
    let mut add = |name, holds, detail: String| {
        findings.push(Finding {
            name,
            holds,
            detail,
        })
    };

    let identity = Identity::fresh();
    match &identity {
        Ok(Identity::Mapped { uid, .. }) => {
            add(
                "identity",
                true,
                format!("user {uid}, in a user namespace of the sandbox's own"),
            );
        }
        Ok(Identity::Dropped(_)) => {
            let detail = "root here; each sandbox drops to an unprivileged user of its own";
            add("identity", true, detail.to_owned());
        }
        Err(error) => add("identity", false, error.to_string()),
    }

    let began = Instant::now();
    let tried = try_out();
    let start = tried.is_ok().then(|| began.elapsed());
    match &tried {
        Ok(seen) => {
            let detail = "user, mount, process, network, IPC, host name, cgroup".to_owned();
            add("namespaces", true, detail);
            let filter = seen.contains("Seccomp:\t2");
            add("system call filter", filter, "seccomp".to_owned());
            let bare =
                seen.contains("NoNewPrivs:\t1") && seen.contains("CapEff:\t0000000000000000");
            add(
                "no privileges inside",
                bare,
                "no capabilities, none to be gained".to_owned(),
            );
        }
        Err(why) => add("namespaces", false, why.clone()),
    }

    let children = Path::new("/proc/thread-self/children").exists();
    let detail = if children {
        "looked at every 25 ms over all processes of a sandbox; one process's private memory is \
         also bounded by the kernel"
    } else {
        "this kernel does not list a process's children; only each process's private memory is \
         bounded"
    };
    add("memory limit", children, detail.to_owned());
    add("processor limit", true, "by affinity".to_owned());
    let (delegated, detail) = cgroups();
    add("cgroups", delegated, detail);
    Probe {
        works: tried.is_ok(),
        start,
        findings,
    }
}

fn try_out() -> Result<String, String> {
    let mut submission = Submission::new(["/bin/cat", "/proc/self/status"]);
    submission.stdout = Stream::Tail(1 << 16);
    submission.time = Some(Duration::from_secs(10));
    let process = submission.spawn().map_err(|e: Error| e.to_string())?;
    match process.wait() {
        Outcome::Exited(0) => Ok(String::from_utf8_lossy(&process.stdout_tail()).into_owned()),
        other => Err(format!("a trial program {other}")),
    }
}

/// Whether a cgroup of version 2 is this user's to divide. Sandboxes do not need it.
fn cgroups() -> (bool, String) {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = own.lines().find_map(|l| l.strip_prefix("0::")) else {
        return (false, "no version 2 hierarchy; not needed".to_owned());
    };
    let folder = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
    let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    let writable = rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK).is_ok();
    if writable && controllers.contains("memory") {
        (
            true,
            format!("delegated ({}); not needed", controllers.trim()),
        )
    } else {
        (false, "not delegated; not needed".to_owned())
    }
}
