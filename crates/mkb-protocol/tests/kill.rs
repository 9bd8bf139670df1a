//! A run that is killed at any instant: nothing finished is redone, nothing half-done is believed,
//! and the next run finishes the job.
//!
//! The run is this test program itself, started again with a folder in its environment.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Scripted, World, leaves, selection};
use mkb_store::StoreWriter;

const FOLDER: &str = "MKB_PROTOCOL_TEST_FOLDER";
const PROBLEMS: [&str; 3] = ["moe/44_a", "attention/01_b", "mlp_norm/28_c"];
const REPLICATES: u32 = 3;

/// What this program does when it was started as the run. In an ordinary run there is no folder,
/// and the other test does the checking.
#[test]
fn run_process() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let log = Path::new(&folder).join("finished.log");
    let script = |_: &str, _: usize| Ok(leaves("2.0"));
    let mut agent = Scripted::new(&script);
    agent.takes = Duration::from_millis(2);
    let world = World::in_folder(Path::new(&folder), &PROBLEMS);
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(log)
        .expect("a log");
    let summary = world.run_telling(&selection("*", REPLICATES), &agent, &mut |event| {
        if let mkb_protocol::Event::Finished { problem, trial, .. } = event {
            // One write: whole or not at all.
            file.write_all(format!("{problem} {trial}\n").as_bytes())
                .expect("logged");
        }
    });
    let summary = summary.expect("converged");
    assert_eq!((summary.resolved, summary.total), (18, 18));
    println!("converged");
}

#[test]
fn a_run_killed_again_and_again_finishes_each_trial_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // Before any kill, so that no problem file is ever half-written.
    World::in_folder(folder.path(), &PROBLEMS);
    let log = folder.path().join("finished.log");
    let finished = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let mut converged = false;
    let mut kills = 0;
    for round in 0..200_u64 {
        let before = finished();
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "run_process", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("spawned");
        // Now before anything, now when a trial has ended: so that the run gets somewhere on a slow
        // machine and is killed often on a fast one.
        if round % 2 == 1 {
            while finished() == before && child.try_wait().expect("asked").is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        std::thread::sleep(Duration::from_millis((round * 7_919) % 23));
        if child.try_wait().expect("asked").is_none() {
            child.kill().expect("killed");
            kills += 1;
        }
        let output = child.wait_with_output().expect("waited");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("converged") {
            converged = true;
            break;
        }
        assert!(!output.status.success(), "{text}");
    }
    assert!(converged && kills >= 3, "{kills} kills");
    let log = fs::read_to_string(&log).expect("read");
    let mut finished: BTreeMap<&str, usize> = BTreeMap::new();
    for line in log.lines() {
        *finished.entry(line).or_default() += 1;
    }
    // A kill between record and log line leaves a trial out of the log, never twice in it.
    assert!(finished.values().all(|&count| count == 1), "{finished:?}");
    assert!(finished.len() + kills >= 36, "{finished:?}");
    let results = folder.path().join("results");
    let (store, notices) =
        StoreWriter::open(&results, common::identity(), &BTreeMap::new()).expect("a store");
    assert_eq!(notices, [], "the last run ended in order");
    assert!(store.invocations().expect("whole lines").len() > 1);
}
