//! A run through the binary that is killed at any instant: nothing finished is lost, no process is
//! left, and the next run finishes the job.
//!
//! `MKB_TEST_KILLS` sets how often (5 at first; each costs some seconds).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Seconds within which a killed driver's processes must be gone.
const GRACE: Duration = Duration::from_secs(10);
/// A kill comes at most so many milliseconds after the start; a run takes about as long.
const LONGEST: u64 = 20_000;
/// Milliseconds that the longest grows by with each kill: so that trials end on a slow machine too.
const MORE: u64 = 1_000;

fn mkb(results: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mkb"));
    for name in ["MKB_HOME", "MKB_DEVICE", "MKB_WORKLOAD", "MKB_SANDBOX"] {
        command.env_remove(name);
    }
    command.env("MKB_RESULTS", results).args(arguments);
    command
}

fn run(results: &Path) -> Command {
    let mut command = mkb(results, &["run", "--problems", "49_*", "--replicates", "1"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Records by trial; the store must open whatever happened to it. None where there is no store yet.
fn records(results: &Path) -> BTreeMap<String, Value> {
    if fs::read_dir(results).expect("results").next().is_none() {
        return BTreeMap::new();
    }
    let output = mkb(results, &["status", "--json"])
        .output()
        .expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    rows.into_iter()
        .map(|row| {
            (
                row["trial"].as_str().expect("a name").to_owned(),
                row["record"].clone(),
            )
        })
        .filter(|(_, record)| !record.is_null())
        .collect()
}

/// Processes that descend from this one, by their names. As a reaper of orphans, none escapes it.
fn descendants() -> Vec<String> {
    let mut parents: BTreeMap<u32, (u32, String)> = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let Some((name, rest)) = stat.rsplit_once(')') else {
            continue;
        };
        let mut fields = rest.split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        // What is dead and waits for its parent runs no more.
        if state != Some("Z")
            && let Some(parent) = parent.and_then(|p| p.parse().ok())
        {
            parents.insert(pid, (parent, name.to_owned()));
        }
    }
    let me = std::process::id();
    let is_below = |mut pid: u32| {
        while let Some((parent, _)) = parents.get(&pid) {
            if *parent == me {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let below = parents.iter().filter(|(pid, _)| is_below(**pid));
    below
        .map(|(pid, (_, name))| format!("{pid} {name}"))
        .collect()
}

#[test]
fn a_killed_run_leaves_no_process_and_loses_nothing_and_the_next_finishes() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("a reaper");
    let kills: u64 = std::env::var("MKB_TEST_KILLS").map_or(5, |n| n.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    let mut random = now.subsec_nanos() as u64;
    println!("seed {random}");
    let mut kept = BTreeMap::new();
    for kill in 0..kills {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let after = Duration::from_millis((random >> 33) % (LONGEST + kill * MORE));
        let mut child = run(results).spawn().expect("it starts");
        std::thread::sleep(after);
        child.kill().expect("killed");
        child.wait().expect("ended");
        let began = Instant::now();
        while !descendants().is_empty() {
            let left = descendants();
            assert!(
                began.elapsed() < GRACE,
                "kill {kill} after {after:?} left {left:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let records = records(results);
        for (trial, record) in &kept {
            assert_eq!(
                records.get(trial),
                Some(record),
                "kill {kill} after {after:?}"
            );
        }
        println!("kill {kill} after {after:?}: {} trials kept", records.len());
        kept = records;
    }
    let output = run(results).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let records = records(results);
    assert_eq!(records.len(), 4, "{records:?}");
    for (trial, record) in &records {
        assert_eq!(record["rewards"]["passed"], 1.0, "{trial}: {record}");
        assert!(
            kept.get(trial).is_none_or(|before| before == record),
            "{trial}"
        );
    }
}
