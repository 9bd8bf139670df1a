//! The workers' environment, made on first use with progress on the terminal.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::output::say;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use mkb_setup::{Documentation, Environment, Options, Progress, State, Step};

/// Gives the environment, made first if it is not whole.
pub fn ensure(root: &Path) -> Result<Environment> {
    let shown = Shown::new();
    let environment = mkb_setup::ensure(&Options::new(root), &shown);
    shown.bar.finish_and_clear();
    Ok(environment?)
}

/// Gives the documentation of DSLs and devices, made first if it is not there; so is the environment.
pub fn documentation(root: &Path) -> Result<Documentation> {
    let environment = ensure(root)?;
    let shown = Shown::new();
    let made = mkb_setup::documentation(&Options::new(root), &environment, &shown);
    shown.bar.finish_and_clear();
    Ok(made?)
}

/// Its versions that results depend on, by name.
pub fn versions(environment: &Environment) -> BTreeMap<String, String> {
    let versions = &environment.versions;
    let named = [
        ("python", &versions.python),
        ("torch", &versions.torch),
        ("tvm", &versions.tvm),
        ("cpu", &versions.cpu_capability),
    ];
    named
        .map(|(name, version)| (name.to_owned(), version.clone()))
        .into()
}

/// `mkb setup`: makes the environment and the documentation, or with `check` only says what is there. Whether it is whole.
pub fn setup(root: &Path, check: bool, json: bool) -> Result<bool> {
    if !check {
        documentation(root)?;
    }
    let state = mkb_setup::describe(root)?;
    let (whole, text) = match &state {
        State::Missing => (
            false,
            "there is no environment; `mkb setup` makes it".to_owned(),
        ),
        State::Unfinished => (
            false,
            "a set-up was cut off; `mkb setup` goes on with it".to_owned(),
        ),
        State::Outdated => (
            false,
            "native code has changed; `mkb setup` compiles it again".to_owned(),
        ),
        State::Ready(e) => (
            true,
            format!(
                "ready: {} (Python {}, torch {}, TVM {}, {})",
                e.root.display(),
                e.versions.python,
                e.versions.torch,
                e.versions.tvm,
                e.versions.cpu_capability
            ),
        ),
    };
    if json {
        say!("{}", serde_json::json!({"ready": whole, "state": text}));
    } else {
        say!("{text}");
    }
    Ok(whole)
}

/// Set-up as it goes on, on standard error.
struct Shown {
    bar: ProgressBar,
}

impl Shown {
    fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} set-up: {prefix}  {elapsed}  {wide_msg}")
        {
            bar.set_style(style);
        }
        Self { bar }
    }
}

impl Progress for Shown {
    fn step(&self, step: Step, skipped: bool) {
        if skipped {
            return;
        }
        self.bar.enable_steady_tick(Duration::from_millis(200));
        self.bar.set_prefix(step.title());
        self.bar.set_message("");
        if self.bar.is_hidden() {
            eprintln!("set-up: {}", step.title());
        }
    }

    fn line(&self, line: &str) {
        self.bar.set_message(line.to_owned());
    }

    fn waiting(&self) {
        eprintln!("set-up: another process is at it; waiting");
    }
}
