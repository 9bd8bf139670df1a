//! MetaKernelBench on the command line.
//!
//! - [`cli`]: the commands and their options; [`config`]: where each option's value came from.
//! - [`mod@run`], [`mod@grade`], [`mod@replay`], [`mod@calibrate`]: the commands that judge.
//! - [`mod@show`], [`mod@doctor`], [`mod@setup`]: the commands that look, and the one that prepares.
//! - [`home`]: where the program finds its parts; [`usage`]: what ends with exit code 2.

mod calibrate;
mod cli;
mod config;
mod doctor;
mod grade;
mod home;
mod output;
mod replay;
mod run;
mod setup;
mod show;
mod usage;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches};

use cli::{Cli, Command};
use home::Home;
use output::say;

fn main() -> ExitCode {
    let mut command = Cli::command();
    let matches = command.clone().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.format(&mut command).exit(),
    };
    let result = if cli.show_config {
        config::print(&config::settings(&command, &matches), cli.json).map(|()| true)
    } else {
        run(&cli)
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let code = if usage::is_usage(&error) { 2 } else { 1 };
            let message = mkb_report::text::harmless(&in_words(&error));
            eprintln!("mkb: {message}");
            if cli.json {
                let kind = if code == 2 { "usage" } else { "failure" };
                say!("{}", serde_json::json!({"error": message, "kind": kind}));
            }
            ExitCode::from(code)
        }
    }
}

/// An error with its causes, each said once: some already end with what caused them.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
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
        Command::Replay(options) => replay::replay(&home, options, cli.json),
        Command::Setup { check } => setup::setup(home.root(), *check, cli.json),
        Command::Calibrate(options) => calibrate::calibrate(&home, options, cli.json),
        Command::Doctor => doctor::doctor(&home, cli.json),
        Command::DeviceServer { .. } => unreachable!("handled above, without a home"),
    }
}
