//! The commands and their options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Does what an agent learned from one GPU-kernel attempt help its next one, in another kernel language?
#[derive(Debug, Parser)]
#[command(
    name = "mkb",
    version,
    propagate_version = true,
    after_help = "Examples:\n  mkb run                                   the demonstration: six problems, both directions, no GPU, no key\n  mkb grade kernel.py --problem 28 --dsl tirx   judge one file\n  mkb results                               the table of the last run\n\nExit codes: 0 all is well, 1 a trial ended in error or a grade did not pass, 2 wrong usage."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print JSON for machines instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// The folder with `problems/`, `python/` and `devices/` [default: where this program was built].
    #[arg(long, global = true, value_name = "DIR", env = "MKB_HOME")]
    pub home: Option<PathBuf>,
    /// Print every setting of the command with where its value comes from, and stop.
    #[arg(long, global = true)]
    pub show_config: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run trials until the store has them all; without options, the demonstration.
    #[command(
        after_help = "Examples:\n  mkb run\n  mkb run --problems '28_*' --replicates 3\n  mkb run --agent oracle --dry-run"
    )]
    Run(Run),
    /// Judge one kernel file: no agent, no store.
    #[command(
        after_help = "Examples:\n  mkb grade kernel.py --problem 28 --dsl cutedsl\n  mkb grade kernel.py --problem 21 --dsl tirx --workload full --json"
    )]
    Grade(Grade),
    /// List the problems.
    #[command(
        after_help = "Examples:\n  mkb problems\n  mkb problems 28\n  mkb problems '*decode*' --json"
    )]
    Problems {
        /// Only names that match this pattern, or number.
        pattern: Option<String>,
    },
    /// Show what `run` would do, and why.
    #[command(after_help = "Example:\n  mkb plan --problems '28_*' --replicates 3")]
    Plan(Run),
    /// Show what a store holds; exit code 1 where a trial ended in error.
    #[command(
        after_help = "Examples:\n  mkb status\n  mkb status results/tuner@b200-modelled-reduced --json"
    )]
    Status(StoreChoice),
    /// Print a store's results.
    #[command(
        after_help = "Examples:\n  mkb results\n  mkb results results/tuner@b200-modelled-reduced --json"
    )]
    Results(StoreChoice),
    /// Judge a recorded trial's final kernel again from its kept seeds, and compare.
    #[command(
        after_help = "Examples:\n  mkb replay p28_r1_solo_tirx\n  mkb replay results/<store>/problems/<problem>/<trial> --json\n\nExit code 1 where anything that counts differs from the record."
    )]
    Replay(Replay),
    /// Make the Python environment that workers run in.
    #[command(
        after_help = "Examples:\n  mkb setup\n  mkb setup --check\n\nMKB_PYTHON names the Python to use, MKB_WHEELS a folder of wheels to take before the registry's."
    )]
    Setup {
        /// Only say what is there.
        #[arg(long)]
        check: bool,
    },
    /// Measure the tuner's paired lift with its own skill, a wrong one and a placebo.
    #[command(
        after_help = "Examples:\n  mkb calibrate\n  mkb calibrate --seeds 3 --problems '28_*'\n\nExit code 1 where a trial ended in error, or a transfer did not do what it should."
    )]
    Calibrate(Calibrate),
    /// Say what this machine can do, what is missing, and which limits hold.
    #[command(
        after_help = "Example:\n  mkb doctor --json\n\nExit code 1 where something that is needed is missing."
    )]
    Doctor,
    /// The virtual GPU's process; started by the driver.
    #[command(hide = true)]
    DeviceServer {
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Which built-in agent attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Agent {
    /// Searches the oracle's parameters within its submissions, writes and reads skills.
    Tuner,
    /// Submits the problem's own solution.
    Oracle,
    /// Does nothing.
    Nop,
    /// Puts back the files of a recorded trial of the same coordinate.
    Replay,
}

/// Which sizes a problem is posed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// The sizes of the paper.
    Full,
    /// The smaller sizes that a problem file declares.
    Reduced,
}

/// How untrusted code is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sandbox {
    /// Linux namespaces.
    Namespaces,
    /// Not at all: only for code that you would run yourself. The results say so.
    None,
}

/// The conditions that a verdict depends on.
#[derive(Debug, Clone, Args)]
pub struct Conditions {
    /// The virtual device, a file of `devices/`.
    #[arg(long, default_value = "b200", value_name = "NAME", env = "MKB_DEVICE")]
    pub device: String,
    /// Which sizes problems are posed with.
    #[arg(long, value_enum, default_value_t = Workload::Reduced, env = "MKB_WORKLOAD")]
    pub workload: Workload,
    /// How untrusted code is kept in.
    #[arg(long, value_enum, default_value_t = Sandbox::Namespaces, env = "MKB_SANDBOX")]
    pub sandbox: Sandbox,
}

/// Options of `run` and `plan`.
#[derive(Debug, Args)]
pub struct Run {
    /// Only problems whose name matches (shell pattern; may be repeated).
    #[arg(long, value_name = "PATTERN")]
    pub problems: Vec<String>,
    /// Only problems of this family (may be repeated).
    #[arg(long, value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Only trials whose coordinate matches (shell pattern; may be repeated).
    #[arg(long, value_name = "PATTERN")]
    pub trials: Vec<String>,
    /// Replicates of each trial [default: 1 in the demonstration, else 3].
    #[arg(long, value_name = "N")]
    pub replicates: Option<u32>,
    /// Trials in flight [default: one a core in virtual mode, at most 10].
    #[arg(long, value_name = "N")]
    pub concurrent: Option<usize>,
    /// Archive and redo trials whose task or skill has changed.
    #[arg(long)]
    pub rerun_stale: bool,
    /// Print the plan and stop.
    #[arg(long)]
    pub dry_run: bool,
    /// Who attempts.
    #[arg(long, value_enum, default_value_t = Agent::Tuner)]
    pub agent: Agent,
    /// The store whose trials `--agent replay` puts back.
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Seed of the tuner's search order.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where stores lie.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "MKB_RESULTS"
    )]
    pub results: PathBuf,
    /// Conditions.
    #[command(flatten)]
    pub conditions: Conditions,
}

/// Options of `grade`.
#[derive(Debug, Args)]
pub struct Grade {
    /// The kernel file.
    pub file: PathBuf,
    /// The problem: its number, name or a pattern that only it matches.
    #[arg(long)]
    pub problem: String,
    /// The DSL.
    #[arg(long)]
    pub dsl: String,
    /// Conditions.
    #[command(flatten)]
    pub conditions: Conditions,
    /// Write the verdict and its evidence (tape, seeds) here.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// Which store.
#[derive(Debug, Args)]
pub struct StoreChoice {
    /// The store's folder [default: the only, or the newest, one in `--results`].
    pub store: Option<PathBuf>,
    /// Where stores lie.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "MKB_RESULTS"
    )]
    pub results: PathBuf,
}

/// Options of `replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// The trial's coordinate, or its folder.
    pub trial: String,
    /// Which store [default: the newest in `--results`].
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// How untrusted code is kept in.
    #[arg(long, value_enum, default_value_t = Sandbox::Namespaces, env = "MKB_SANDBOX")]
    pub sandbox: Sandbox,
    /// Where stores lie.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "MKB_RESULTS"
    )]
    pub results: PathBuf,
}

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// How many seeds: each is one replicate of every arm.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub seeds: u32,
    /// Only problems whose name matches (shell pattern; may be repeated) [default: those of the
    /// demonstration].
    #[arg(long, value_name = "PATTERN")]
    pub problems: Vec<String>,
    /// Trials in flight [default: one a core, at most 10].
    #[arg(long, value_name = "N")]
    pub concurrent: Option<usize>,
    /// Archive and redo trials whose task or skill has changed.
    #[arg(long)]
    pub rerun_stale: bool,
    /// Where stores lie; calibration's lies in the folder `calibration` there.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "results",
        env = "MKB_RESULTS"
    )]
    pub results: PathBuf,
    /// Conditions.
    #[command(flatten)]
    pub conditions: Conditions,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
