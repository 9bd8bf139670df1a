//! The binary used wrongly, and what it prints for machines; none of this needs the environment.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// The binary, with none of the person's own settings.
fn mkb(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mkb"));
    for name in [
        "MKB_HOME",
        "MKB_DEVICE",
        "MKB_WORKLOAD",
        "MKB_SANDBOX",
        "MKB_RESULTS",
    ] {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn json(arguments: &[&str]) -> (i32, Value) {
    let output = mkb(arguments).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    (output.status.code().expect("a code"), value)
}

/// Each must end with exit code 2 and name the thing.
fn refused(arguments: &[&str], names: &[&str]) {
    let output = mkb(arguments).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    for name in names {
        assert!(error.contains(name), "{arguments:?}: {error}");
    }
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

#[test]
fn wrong_usage_ends_with_2_and_names_the_thing() {
    let grade = |rest: &[&'static str]| [&["grade", "Cargo.toml"], rest].concat();
    refused(
        &grade(&["--problem", "99", "--dsl", "tirx"]),
        &["99", "mkb problems"],
    );
    refused(
        &grade(&["--problem", "28", "--dsl", "triton"]),
        &["triton", "cutedsl and tirx"],
    );
    refused(
        &grade(&["--problem", "28", "--dsl", "tirx", "--device", "a100"]),
        &["a100", "b200 and h200"],
    );
    for odd in ["/dev/zero", "/"] {
        refused(
            &["grade", odd, "--problem", "28", "--dsl", "tirx"],
            &[odd, "plain file"],
        );
    }
    refused(
        &["run", "--concurrent", "0", "--dry-run"],
        &["--concurrent must be at least 1"],
    );
    refused(
        &["grade", "none.py", "--problem", "28", "--dsl", "tirx"],
        &["none.py"],
    );
    refused(&["grade", "x.py", "--problem", "28"], &["--dsl"]);
    refused(&["run", "--workload", "tiny"], &["tiny", "full", "reduced"]);
    refused(&["problems", "no_such*"], &["no_such*"]);
    refused(&["plan", "--problems", "no_such*"], &["no_such*"]);
    refused(
        &["plan", "--families", "cooking"],
        &["cooking", "attention"],
    );
    refused(&["plan", "--trials", "p99_*"], &["p99_*"]);
    refused(&["calibrate", "--seeds", "0"], &["--seeds"]);
    refused(&["frobnicate"], &["frobnicate"]);
}

#[test]
fn a_store_that_is_not_there_is_wrong_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    for command in ["status", "results"] {
        refused(&[command, "--results", path], &[path, "mkb run"]);
        refused(&[command, path], &[path, "store.json"]);
    }
    refused(&["replay", "p28_r1_solo_tirx", "--results", path], &[path]);
    refused(&["problems", "--home", path], &[path, "--home"]);
}

#[test]
fn an_ambiguous_problem_lists_what_it_could_mean() {
    let arguments = [
        "grade",
        "Cargo.toml",
        "--problem",
        "*decode*",
        "--dsl",
        "tirx",
    ];
    refused(
        &arguments,
        &[
            "01_gqa_paged_decode_h32_kv8_d128_ps1_bf16",
            "72_gdn_decode_qwen3next_bf16",
        ],
    );
}

#[test]
fn errors_for_machines_are_json_on_standard_output() {
    let (code, value) = json(&["--json", "problems", "no_such*"]);
    assert_eq!(code, 2);
    assert_eq!(value["kind"], "usage");
    assert!(value["error"].as_str().expect("text").contains("no_such*"));
}

#[test]
fn problems_say_where_they_stand_and_what_solves_them() {
    let (code, value) = json(&["problems", "28", "--json"]);
    assert_eq!(code, 0);
    let problem = &value.as_array().expect("a list")[0];
    assert_eq!(problem["family"], "mlp_norm");
    assert_eq!(problem["reduced"], true);
    let (_, all) = json(&["problems", "--json"]);
    assert!(all.as_array().expect("a list").len() >= 6);
}

#[test]
fn a_plan_lists_every_trial_of_the_demonstration_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().to_str().expect("UTF-8");
    let (code, value) = json(&["plan", "--json", "--results", results]);
    assert_eq!(code, 0);
    let trials = value.as_array().expect("a list");
    assert_eq!(
        trials.len(),
        6 * 4,
        "six problems, four arms, one replicate"
    );
    assert!(trials.iter().all(|t| t["status"] == "run"));
    let (_, chosen) = json(&["plan", "--json", "--results", results, "--problems", "28_*"]);
    assert_eq!(chosen.as_array().expect("a list").len(), 3 * 4);
    let entries = fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(entries.count(), 0, "a plan writes nothing");
}

#[test]
fn the_command_line_wins_over_a_variable_and_a_variable_over_the_default() {
    let source = |command: &mut Command| {
        let output = command.output().expect("it runs");
        assert!(output.status.success());
        let settings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let device = settings
            .as_array()
            .expect("a list")
            .iter()
            .find(|s| s["name"] == "--device")
            .expect("the device")
            .clone();
        (
            device["value"].as_str().expect("text").to_owned(),
            device["source"].as_str().expect("text").to_owned(),
        )
    };
    let told = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    let mut bare = mkb(&["plan", "--show-config", "--json"]);
    assert_eq!(source(&mut bare), told("b200", "the default"));
    let mut variable = mkb(&["plan", "--show-config", "--json"]);
    variable.env("MKB_DEVICE", "h200");
    assert_eq!(
        source(&mut variable),
        told("h200", "the variable MKB_DEVICE")
    );
    let mut both = mkb(&["plan", "--show-config", "--json", "--device", "b200"]);
    both.env("MKB_DEVICE", "h200");
    assert_eq!(source(&mut both), told("b200", "the command line"));
}

#[test]
fn doctor_looks_at_everything_whatever_is_missing() {
    let output = mkb(&["doctor", "--json"])
        .env("MKB_PYTHON", "/no/such/python")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "a Python is needed");
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["ready"], false);
    let findings = value["findings"].as_array().expect("a list");
    let python = findings.iter().find(|f| f["name"] == "Python");
    let python = python.expect("Python is looked at");
    assert_eq!(python["standing"], "missing");
    assert!(
        python["detail"]
            .as_str()
            .expect("text")
            .contains("MKB_PYTHON")
    );
    for name in ["disk", "memory", "cores", "GPU", "sandboxes", "device b200"] {
        assert!(findings.iter().any(|f| f["name"] == name), "{name}");
    }
}

#[test]
fn every_command_has_an_example_in_its_help() {
    for command in [
        "run",
        "grade",
        "problems",
        "plan",
        "status",
        "results",
        "replay",
        "setup",
        "calibrate",
        "doctor",
    ] {
        let output = mkb(&[command, "--help"]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("mkb {command}")), "{text}");
        assert!(text.contains("Example"), "{text}");
    }
}

#[test]
fn a_path_that_cannot_be_printed_safely_is_made_harmless() {
    let name = "bad\u{1b}[2Jname.py";
    let output = mkb(&["grade", name, "--problem", "28", "--dsl", "tirx"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(!Path::new(name).exists());
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn a_reader_that_has_gone_is_no_error_and_a_full_disk_is_one() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mkb"));
    command.arg("problems").stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ends").success());
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let output = command.stdout(full.expect("a full device")).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("standard output"), "{error}");
}

#[test]
fn a_cause_is_said_once() {
    let arguments = ["run", "--problems", "28_*", "--agent", "nop", "--results"];
    let output = mkb(&[&arguments[..], &["/proc/none"]].concat()).output();
    let output = output.expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.matches("os error").count(), 1, "{error}");
}
