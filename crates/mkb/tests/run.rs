//! A run from plan to results, resumed, and its trial judged again, through the binary.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

const TRIAL: &str = "p28_r1_solo_tirx";

fn mkb(results: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mkb"));
    for name in ["MKB_HOME", "MKB_DEVICE", "MKB_WORKLOAD", "MKB_SANDBOX"] {
        command.env_remove(name);
    }
    command.env("MKB_RESULTS", results);
    command.args(arguments).output().expect("it runs")
}

/// The JSON values on standard output, one after another.
fn values(output: &Output) -> Vec<Value> {
    let stream = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    stream.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn a_run_is_resumed_and_its_verdict_comes_out_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path();
    let run = [
        "run",
        "--json",
        "--agent",
        "oracle",
        "--problems",
        "28_*",
        "--trials",
        TRIAL,
        "--replicates",
        "1",
    ];
    let first = mkb(results, &run);
    let stderr = String::from_utf8_lossy(&first.stderr).into_owned();
    assert_eq!(first.status.code(), Some(0), "{stderr}");
    let events = values(&first);
    assert!(
        events.len() >= 4,
        "planned, started, submitted, finished: {events:?}"
    );

    let status = values(&mkb(results, &["status", "--json"]));
    let rows = status[0].as_array().expect("a list");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["trial"], TRIAL);
    assert_eq!(rows[0]["record"]["rewards"]["passed"], 1.0, "{rows:?}");

    let plan = values(&mkb(results, &[&["plan"], &run[1..]].concat()));
    assert_eq!(plan[0][0]["status"], "reuse", "nothing finished is redone");

    let again = mkb(results, &["replay", TRIAL, "--json"]);
    let told = values(&again).remove(0);
    assert_eq!(again.status.code(), Some(0), "{told:#}");
    assert_eq!(told["compared"], "exact");
    assert_eq!(told["same"], true);

    // A record that says something else is found out.
    let store = fs::read_dir(results).expect("stores").next().expect("one");
    let problem = store.expect("a store").path().join("problems");
    let problem = problem.join("28_fused_add_rmsnorm_h4096_llama31_8b_bf16");
    let trial = fs::read_dir(&problem)
        .expect("trials")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.join("verdict.json").is_file())
        .expect("a trial");
    let path = trial.join("verdict.json");
    let mut verdict: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    verdict["rewards"]["speedup_vs_eager"] = serde_json::json!(1000.0);
    fs::write(&path, verdict.to_string()).expect("written");
    let forged = mkb(
        results,
        &["replay", trial.to_str().expect("UTF-8"), "--json"],
    );
    assert_eq!(forged.status.code(), Some(1));
    let figures = values(&forged).remove(0)["figures"].clone();
    let speedup = figures.as_array().expect("a list");
    let speedup = speedup.iter().find(|f| f["name"] == "speedup");
    let speedup = speedup.expect("the speedup");
    assert_eq!(speedup["recorded"], 1000.0);
    assert_ne!(speedup["again"], 1000.0);

    let unknown = mkb(results, &["replay", "p28_r9_solo_tirx"]);
    assert_eq!(unknown.status.code(), Some(2));
}
