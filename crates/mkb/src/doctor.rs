//! `mkb doctor`: what this machine can do, what is missing, and which limits hold.

use std::path::Path;

use anyhow::Result;
use mkb_setup::{NEEDED_BYTES, Options, State};
use serde::Serialize;
use serde_json::json;

use crate::home::Home;
use crate::output::say;

/// Memory that a trial in flight takes: three torch processes and its tensors.
const MEMORY_A_TRIAL: u64 = 3 << 30;

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Standing {
    /// It is there.
    Ok,
    /// It is needed and missing.
    Missing,
    /// It is not there, or not so, and that does no harm.
    Note,
}

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Finding {
    name: String,
    standing: Standing,
    detail: String,
}

/// Looks at everything and prints it. Whether nothing that is needed is missing.
pub fn doctor(home: &Home, json: bool) -> Result<bool> {
    let mut all = Vec::new();
    let ready = environment(home.root(), &mut all);
    machine(home.root(), ready, &mut all);
    sandbox(&mut all);
    devices(&mut all);
    let well = all.iter().all(|f| f.standing != Standing::Missing);
    if json {
        say!(
            "{}",
            serde_json::to_string_pretty(&json!({"ready": well, "findings": all}))?
        );
        return Ok(well);
    }
    let rows: Vec<[String; 3]> = all
        .iter()
        .map(|finding| {
            let standing = match finding.standing {
                Standing::Ok => "ok",
                Standing::Missing => "MISSING",
                Standing::Note => "-",
            };
            [
                finding.name.clone(),
                standing.to_owned(),
                finding.detail.clone(),
            ]
        })
        .collect();
    say!("{}", mkb_report::tables::findings(&rows));
    say!(
        "\n{}",
        if well {
            "all that is needed is here; `mkb run` runs the demonstration"
        } else {
            "what is marked MISSING is needed"
        }
    );
    Ok(well)
}

fn add(all: &mut Vec<Finding>, name: &str, standing: Standing, detail: impl Into<String>) {
    all.push(Finding {
        name: name.to_owned(),
        standing,
        detail: detail.into(),
    });
}

/// What set-up needs and what it made. Whether the environment is whole.
fn environment(root: &Path, all: &mut Vec<Finding>) -> bool {
    for need in mkb_setup::needs(&Options::new(root)) {
        match need.found {
            Ok(detail) => add(all, need.name, Standing::Ok, detail),
            Err(error) => add(all, need.name, Standing::Missing, error.to_string()),
        }
    }
    let (standing, detail, ready) = match mkb_setup::describe(root) {
        Ok(State::Ready(e)) => {
            let v = &e.versions;
            let detail = format!(
                "Python {}, torch {}, TVM {}, vector instructions {}",
                v.python, v.torch, v.tvm, v.cpu_capability
            );
            (Standing::Ok, detail, true)
        }
        Ok(State::Missing) => (
            Standing::Note,
            "not made yet; the first command that needs it makes it, or `mkb setup`".to_owned(),
            false,
        ),
        Ok(State::Unfinished) => (
            Standing::Note,
            "a set-up was cut off; the next goes on with it".to_owned(),
            false,
        ),
        Ok(State::Outdated) => (
            Standing::Note,
            "native code has changed; the next set-up compiles it again".to_owned(),
            false,
        ),
        Err(error) => (Standing::Missing, error.to_string(), false),
    };
    add(all, "environment", standing, detail);
    ready
}

fn machine(root: &Path, ready: bool, all: &mut Vec<Finding>) {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    match mkb_setup::free_bytes(&Options::new(root)) {
        Ok(free) if ready || free >= NEEDED_BYTES => {
            add(all, "disk", Standing::Ok, format!("{} free", gib(free)));
        }
        Ok(free) => {
            let detail = format!("{} free; set-up needs {}", gib(free), gib(NEEDED_BYTES));
            add(all, "disk", Standing::Missing, detail);
        }
        Err(error) => add(all, "disk", Standing::Note, error.to_string()),
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match available_memory() {
        Some(bytes) => {
            let trials = (bytes / MEMORY_A_TRIAL).min(cores as u64);
            let (standing, advice) = match trials {
                0 => (
                    Standing::Missing,
                    "; one trial needs about 3 GiB".to_owned(),
                ),
                n if n < cores as u64 => (
                    Standing::Note,
                    format!("; enough for `--concurrent {n}` at about 3 GiB a trial"),
                ),
                _ => (Standing::Ok, String::new()),
            };
            let detail = format!("{} available{advice}", gib(bytes));
            add(all, "memory", standing, detail);
        }
        None => add(
            all,
            "memory",
            Standing::Note,
            "/proc/meminfo does not say how much is available",
        ),
    }
    add(
        all,
        "cores",
        Standing::Ok,
        format!(
            "{cores}; so many trials are in flight unless --concurrent says otherwise (at most 10)"
        ),
    );
    let gpus = std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count);
    let detail = match gpus {
        0 => "none, and none is needed: kernels run on the virtual GPU".to_owned(),
        n => format!("{n} by NVIDIA; this version does not use it: kernels run on the virtual GPU"),
    };
    add(all, "GPU", Standing::Note, detail);
}

fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

fn sandbox(all: &mut Vec<Finding>) {
    let probe = mkb_sandbox::probe();
    let detail = match probe.start {
        Some(start) => format!("work; an empty program takes {} ms", start.as_millis()),
        None => "do not work here. Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
                 kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0), or \
                 judge only code that you trust with --sandbox none, which the results then say"
            .to_owned(),
    };
    let standing = if probe.works {
        Standing::Ok
    } else {
        Standing::Missing
    };
    add(all, "sandboxes", standing, detail);
    for finding in probe.findings {
        let standing = if finding.holds {
            Standing::Ok
        } else {
            Standing::Note
        };
        add(
            all,
            &format!("  {}", finding.name),
            standing,
            finding.detail,
        );
    }
}

fn devices(all: &mut Vec<Finding>) {
    for name in ["b200", "h200"] {
        match vgpu::cost::Device::by_name(name) {
            Some(device) => add(
                all,
                &format!("device {name}"),
                Standing::Ok,
                format!(
                    "{} ({}, {} SMs), virtual, modelled clock",
                    device.name, device.arch, device.sms
                ),
            ),
            None => add(
                all,
                &format!("device {name}"),
                Standing::Missing,
                "its description is not in this build",
            ),
        }
    }
}
