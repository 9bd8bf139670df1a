//! Developer commands: `cargo xtask test`.
//!
//! - [`steps`]: what `test` does, step by step.
//! - [`architecture`]: the invariants of ARCHITECTURE.md that can be checked.
//! - [`source`]: what Rust files refer to.

mod architecture;
mod source;
mod steps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use steps::Step;

/// Developer commands of the workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set up what is missing, then run every test: Rust, Python, style, architecture.
    #[command(
        after_help = "Examples:\n  cargo xtask test\n  cargo xtask test architecture style\n\nExit code 1 where a step failed; the steps after it run all the same."
    )]
    Test {
        /// Only these steps.
        #[arg(value_enum)]
        steps: Vec<Step>,
    },
}

fn main() -> ExitCode {
    let Command::Test { steps } = Cli::parse().command;
    if steps::test(&root(), &steps) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The repository's root.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
