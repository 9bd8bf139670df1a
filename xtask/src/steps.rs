//! What `cargo xtask test` does: set up what is missing, then every test, each step told and timed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use mkb_setup::{Environment, Options, Progress, State};

use crate::architecture::{CHECKS, Workspace};

/// A step of `cargo xtask test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// The invariants of ARCHITECTURE.md.
    Architecture,
    /// The Python environment, made if it is not whole.
    Environment,
    /// The tests of every crate.
    Rust,
    /// The tests of the Python parts.
    Python,
    /// Lints and format of the Python files.
    Style,
}

impl Step {
    const ALL: [Step; 5] = [
        Step::Architecture,
        Step::Environment,
        Step::Style,
        Step::Python,
        Step::Rust,
    ];

    fn title(self) -> &'static str {
        match self {
            Step::Architecture => "architecture",
            Step::Environment => "Python environment",
            Step::Rust => "Rust tests (cargo test --workspace)",
            Step::Python => "Python tests (pytest python/tests)",
            Step::Style => "Python style (ruff)",
        }
    }

    fn run(self, root: &Path) -> Result<()> {
        match self {
            Step::Architecture => architecture(root),
            Step::Environment => environment(root).map(drop),
            Step::Rust => rust(root),
            Step::Python => python(root),
            Step::Style => style(root),
        }
    }
}

/// Runs the steps, all of them where none is named. Whether all went well.
pub fn test(root: &Path, chosen: &[Step]) -> bool {
    let steps: Vec<Step> = Step::ALL
        .into_iter()
        .filter(|step| chosen.is_empty() || chosen.contains(step))
        .collect();
    let mut lines = Vec::new();
    let mut errors = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        println!("[{}/{}] {}", number + 1, steps.len(), step.title());
        let began = Instant::now();
        let result = step.run(root);
        let took = began.elapsed().as_secs();
        match result {
            Ok(()) => lines.push(format!("  ok      {} ({took} s)", step.title())),
            Err(error) => {
                println!("{error:#}");
                errors.push(format!("{}:\n{error:#}\n", step.title()));
                lines.push(format!("  FAILED  {} ({took} s)", step.title()));
            }
        }
    }
    if steps.len() > 1 && !errors.is_empty() {
        println!("\nWhat failed\n\n{}", errors.join("\n"));
    }
    println!("\n{}", lines.join("\n"));
    errors.is_empty()
}

fn architecture(root: &Path) -> Result<()> {
    let workspace = Workspace::read(root)?;
    let mut broken = Vec::new();
    for (name, check) in CHECKS {
        let found = check(&workspace)?;
        println!("  {name}: {}", if found.is_empty() { "yes" } else { "NO" });
        broken.extend(found.into_iter().map(|what| format!("{name}: {what}")));
    }
    all_well(&broken)
}

struct Told;

impl Progress for Told {
    fn step(&self, step: mkb_setup::Step, skipped: bool) {
        if !skipped {
            println!("  {}", step.title());
        }
    }

    fn waiting(&self) {
        println!("  another process sets up; waiting");
    }
}

fn environment(root: &Path) -> Result<Environment> {
    Ok(mkb_setup::ensure(&Options::new(root), &Told)?)
}

/// The environment as it is: an earlier step makes it.
fn ready(root: &Path) -> Result<Environment> {
    match mkb_setup::describe(root)? {
        State::Ready(environment) => Ok(*environment),
        _ => environment(root),
    }
}

fn rust(root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["test", "--workspace", "--no-fail-fast"]);
    told(command.current_dir(root))
}

fn python(root: &Path) -> Result<()> {
    // Some of the tests run kernels, which takes the program that has the virtual GPU.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    told(build.args(["build", "--package", "mkb"]).current_dir(root))?;
    let environment = ready(root)?;
    let mut failed = Vec::new();
    for tests in sessions(&root.join("python/tests"))? {
        let mut command = python_of(&environment);
        command.env("MKB_PROGRAM", built_program(root));
        command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
        command.args(tests);
        if let Err(error) = told(command.current_dir(root)) {
            failed.push(error.to_string());
        }
    }
    all_well(&failed)
}

/// What pytest is started on, one process each: torch's CUDA side is there once in a process, with a
/// device or without one, so each folder's tests have a process, and so have those beside the folders.
fn sessions(tests: &Path) -> Result<Vec<Vec<PathBuf>>> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(tests).with_context(|| tests.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with("__") {
            folders.push(path);
        } else if name.starts_with("test_") {
            files.push(path);
        }
    }
    folders.sort();
    files.sort();
    let folders = folders.into_iter().map(|folder| vec![folder]);
    Ok(folders.chain([files]).collect())
}

/// Where `cargo build --package mkb` leaves its program.
fn built_program(root: &Path) -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder));
    folder.join("debug").join("mkb")
}

fn style(root: &Path) -> Result<()> {
    let environment = ready(root)?;
    let folders = ["python", "problems", "benches"];
    let mut failed = Vec::new();
    for arguments in [
        &["check", "--no-cache"][..],
        &["format", "--check", "--no-cache"],
    ] {
        let mut command = python_of(&environment);
        command.args(["-m", "ruff"]).args(arguments).args(folders);
        if let Err(error) = told(command.current_dir(root)) {
            failed.push(error.to_string());
        }
    }
    all_well(&failed)
}

fn all_well(failed: &[String]) -> Result<()> {
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

fn python_of(environment: &Environment) -> Command {
    let mut command = Command::new(&environment.python);
    command.envs(environment.variables.iter().map(|(n, v)| (n, v)));
    command
}

/// Runs a program whose output the person sees. What it says of failures stands in the error again,
/// so that it is found at the end of a long log.
fn told(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| shown.clone())?;
    let mut failures = Failures::default();
    let output = child.stdout.take().context("no standard output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        failures.line(&line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{}{shown}: {status}", failures.text);
    }
    Ok(())
}

/// Lines of `cargo test`'s and pytest's output from which failures are told to where a summary ends
/// them.
#[derive(Debug, Default)]
struct Failures {
    inside: bool,
    text: String,
}

impl Failures {
    /// Bytes that are kept.
    const LIMIT: usize = 20_000;

    fn line(&mut self, line: &str) {
        let title = line.trim_matches('=').trim();
        if line == "failures:"
            || (line.starts_with("==") && ["FAILURES", "ERRORS"].contains(&title))
        {
            self.inside = true;
        } else if line.starts_with("test result:") {
            self.inside = false;
        }
        if self.inside && self.text.len() + line.len() < Self::LIMIT {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> String {
        let mut failures = Failures::default();
        text.lines().for_each(|line| failures.line(line));
        failures.text
    }

    #[test]
    fn what_cargo_says_of_failures_is_kept() {
        let text = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nleft: 1\n\ntest result: FAILED. 0 passed\ntest b ... ok\n";
        assert_eq!(kept(text), "failures:\n\n---- a stdout ----\nleft: 1\n\n");
    }

    #[test]
    fn what_pytest_says_of_failures_is_kept() {
        let text = "..F\n==== FAILURES ====\nE  assert 1 == 2\n==== short test summary info ====\nFAILED a.py\n";
        assert_eq!(kept(text), text.strip_prefix("..F\n").expect("its start"));
    }
}
