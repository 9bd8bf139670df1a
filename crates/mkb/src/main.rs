//! MetaKernelBench on the command line.

mod cli;
mod grade;
mod home;
mod run;
mod setup;
mod show;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use cli::{Cli, Command};
use home::Home;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("mkb: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// Runs the command. Whether all is well.
fn run(cli: &Cli) -> Result<bool> {
    if let Command::DeviceServer { args } = &cli.command {
        mkb_device::server::run_from_args(args)?;
        return Ok(true);
    }
    let home = Home::find(cli.home.as_deref())?;
    match &cli.command {
        Command::Grade(options) => grade::grade(&home, options, cli.json),
        Command::Run(options) => run::run(&home, options, cli.json),
        Command::Plan(options) => run::plan(&home, options, cli.json),
        Command::Problems { pattern } => show::problems(&home, pattern.as_deref(), cli.json),
        Command::Status(choice) => show::status(&home, choice, cli.json),
        Command::Results(choice) => show::results(&home, choice, cli.json),
        Command::Setup { check } => setup::setup(home.root(), *check, cli.json),
        _ => anyhow::bail!("not wired"),
    }
}
