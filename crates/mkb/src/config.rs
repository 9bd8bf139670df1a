//! `--show-config`: every setting of a command, and where its value came from.

use crate::output::say;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use serde::Serialize;

/// Variables that other parts read, with what they set.
const READ_ELSEWHERE: [(&str, &str); 2] = [
    ("MKB_PYTHON", "the Python that set-up uses"),
    ("MKB_WHEELS", "a folder of wheels that set-up takes first"),
];

/// A setting with its value and where that came from.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Setting {
    name: String,
    value: Option<String>,
    source: String,
}

/// The settings of the command that was given. The command line wins over variables, and these over
/// defaults.
pub fn settings(command: &Command, matches: &ArgMatches) -> Vec<Setting> {
    let mut all = Vec::new();
    add(command, matches, &mut all);
    if let Some((name, inner)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        add(command, inner, &mut all);
    }
    for (name, what) in READ_ELSEWHERE {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        all.push(Setting {
            name: what.to_owned(),
            source: match value {
                Some(_) => format!("the variable {name}"),
                None => format!("not set ({name})"),
            },
            value: value.map(|v| v.to_string_lossy().into_owned()),
        });
    }
    all
}

fn add(command: &Command, matches: &ArgMatches, all: &mut Vec<Setting>) {
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if ["help", "version", "show_config"].contains(&id) {
            continue;
        }
        let name = match argument.get_long() {
            Some(long) => format!("--{long}"),
            None => id.to_uppercase(),
        };
        if all.iter().any(|s| s.name == name) {
            continue; // A global option stands in the command too.
        }
        let values = matches.get_raw(id).map(|values| {
            let texts: Vec<_> = values.map(|v| v.to_string_lossy().into_owned()).collect();
            texts.join(" ")
        });
        let source = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => "the command line".to_owned(),
            Some(ValueSource::EnvVariable) => match argument.get_env() {
                Some(name) => format!("the variable {}", name.to_string_lossy()),
                None => "a variable".to_owned(),
            },
            Some(_) => "the default".to_owned(),
            None => "not given".to_owned(),
        };
        all.push(Setting {
            name,
            value: values,
            source,
        });
    }
}

/// Prints settings, a line each.
pub fn print(settings: &[Setting], json: bool) -> anyhow::Result<()> {
    if json {
        say!("{}", serde_json::to_string_pretty(settings)?);
        return Ok(());
    }
    for setting in settings {
        let value = setting.value.as_deref().unwrap_or("-");
        say!(
            "{:<28} {value:<24} {}",
            setting.name,
            mkb_report::text::harmless(&setting.source)
        );
    }
    Ok(())
}
