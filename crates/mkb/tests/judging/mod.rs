//! What the tests of `mkb grade` share: a kernel file judged through the binary.

use std::fs;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// What the binary says of a kernel file for problem 28 in CuTe DSL.
pub fn grade(kernel: &str, extra: &[&str]) -> Output {
    grade_as("cutedsl", kernel, extra)
}

/// The same for a DSL.
pub fn grade_as(dsl: &str, kernel: &str, extra: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel.py");
    fs::write(&path, kernel).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mkb"));
    command.env_remove("MKB_HOME").arg("grade").arg(&path);
    command.args(["--problem", "28", "--dsl", dsl, "--device", "b200"]);
    command.args(["--workload", "reduced", "--sandbox", "namespaces"]);
    command.args(extra).output().expect("it runs")
}

/// Its judgement; the exit code agrees with it.
pub fn judged(kernel: &str) -> Value {
    let output = grade(kernel, &["--json"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let value: Value = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    let passed = value["passed"].as_bool().expect("whether it passed");
    assert_eq!(output.status.code(), Some(i32::from(!passed)));
    value
}
