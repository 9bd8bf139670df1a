//! `mkb replay`: a recorded trial's final kernel, judged again from its kept seeds.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use mkb_catalog::grading::{Cancel, Graded, Grader, Purpose, Verdict};
use mkb_catalog::setting::KERNEL_PATH;
use mkb_catalog::{Catalog, Coordinate, Trial, dsl::DslSet};
use mkb_judge::again::{Compared, Strictness, compare};
use mkb_store::Store;
use serde_json::{Value, json};

use crate::home::Home;
use crate::output::say;
use crate::run::{load, newest};
use crate::usage::Usage;
use crate::{cli, grade, setup};

/// Versions that verdicts depend on to the last bit.
const DECISIVE: [&str; 3] = ["torch", "cpu", "vgpu"];

/// Judges again and compares. Whether nothing that counts differs.
pub fn replay(home: &Home, options: &cli::Replay, json: bool) -> Result<bool> {
    let catalog = Catalog::discover(&home.problems(), DslSet::builtin())?;
    let (store, trial) = find(&catalog, options)?;
    let name = trial.coordinate().to_string();
    let recorded = recorded(&store, &trial)?;
    let kernel = store
        .artifact(&trial, KERNEL_PATH)?
        .ok_or_else(|| Usage::error(format!("{name} left no kernel: there is nothing to judge")))?;
    let environment = setup::ensure(home.root())?;
    let mut now = setup::versions(&environment);
    now.insert("vgpu".to_owned(), crate::run::JUDGE_REVISION.to_owned());
    let provenance = store.provenance(&trial)?.unwrap_or_default();
    let differences = differences(&provenance, |name| now.get(name).cloned());
    let how = match differences.is_empty() {
        true => Strictness::Exact,
        false => Strictness::Contract,
    };
    let setting = &store.identity().setting;
    let problem = grade::problem(&catalog, trial.problem.as_str())?;
    let judge = grade::judge(
        home,
        options.sandbox,
        &setting.device,
        setting.workload,
        catalog.dsls().clone(),
    )?;
    let grader = Arc::new(judge).grader(problem, trial.arm.target());
    let grader = grader
        .as_recorded(&recorded)
        .map_err(|error| Usage::error(format!("{name}: {error}")))?;
    let again = match grader.grade(&kernel, Purpose::Final, &Cancel::new())? {
        Graded::Evaluated { verdict, .. } => verdict,
        Graded::Refused { reason } => Verdict::unevaluated(&format!("refused: {reason}")),
        Graded::Incomplete { verdict, .. } => verdict,
    };
    let figures = compare(&recorded, &again, how);
    let same = !figures.iter().any(Compared::differs);
    if json {
        let shown = json!({"trial": name, "problem": trial.problem.as_str(), "compared": how, "other_versions": differences, "same": same, "figures": figures, "report": again.report});
        say!("{}", serde_json::to_string_pretty(&shown)?);
    } else {
        say!("{} ({}), from its kept seeds", name, trial.problem);
        for difference in &differences {
            say!("note: {difference}");
        }
        say!("{}", mkb_report::tables::compared(&rows(&figures)));
        say!("{}", conclusion(same, how));
        if !same {
            say!(
                "\nthe new report:\n{}",
                mkb_report::text::harmless(&again.report)
            );
        }
    }
    Ok(same)
}

fn conclusion(same: bool, how: Strictness) -> &'static str {
    match (same, how) {
        (true, Strictness::Exact) => "the same, to the last bit",
        (true, Strictness::Contract) => {
            "the same by the contract: under other versions times may differ in the last bits"
        }
        (false, _) => "NOT the same",
    }
}

/// Each figure as text: name, recorded, again, and what that means.
fn rows(figures: &[Compared]) -> Vec<[String; 4]> {
    let shown = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        other => other.to_string(),
    };
    let row = |figure: &Compared| {
        let meaning = match (figure.differs(), figure.recorded == figure.again) {
            (true, _) => "differs",
            (false, true) => "same",
            (false, false) => "differs, does not count",
        };
        [
            figure.name.to_owned(),
            shown(&figure.recorded),
            shown(&figure.again),
            meaning.to_owned(),
        ]
    };
    figures.iter().map(row).collect()
}

/// The recorded verdict, where there is one that an evaluation gave.
fn recorded(store: &Store, trial: &Trial) -> Result<Verdict> {
    let name = trial.coordinate();
    let stored = store.record(trial)?.ok_or_else(|| {
        Usage::error(format!(
            "{} has no record of {name}; `mkb status` lists what there is",
            store.folder().display()
        ))
    })?;
    if let Some(error) = stored.record.error {
        return Err(Usage::error(format!(
            "{name} ended in an error, so it has no verdict to compare with: {error}"
        )));
    }
    if let Some(why) = stored.record.skipped {
        return Err(Usage::error(format!("{name} was skipped: {why}")));
    }
    store
        .verdict(trial)?
        .with_context(|| format!("{name} has a record and no verdict"))
}

/// Where a record's versions differ from those that are here, in words; empty where all that decide
/// are the same.
fn differences(provenance: &Value, now: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let then = |name: &str| provenance["versions"][name].as_str().map(str::to_owned);
    DECISIVE
        .into_iter()
        .filter(|name| then(name).is_none() || then(name) != now(name))
        .map(|name| {
            let words = |version: Option<String>| version.unwrap_or("unknown".to_owned());
            format!(
                "{name} was {} and is {}: compared by the contract",
                words(then(name)),
                words(now(name))
            )
        })
        .collect()
}

/// The store and the trial that are meant: by coordinate, or by the trial's folder.
fn find(catalog: &Catalog, options: &cli::Replay) -> Result<(Store, Trial)> {
    let given = Path::new(&options.trial);
    let (store, coordinate) = if given.is_dir() {
        let folder = given.canonicalize()?;
        let store = folder.ancestors().nth(3);
        let store = store.ok_or_else(|| Usage::error(format!("{} is no trial", options.trial)))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let coordinate = name.split_once('_').map_or("", |(_, rest)| rest).to_owned();
        (load(store)?, coordinate)
    } else {
        let store = match &options.store {
            Some(folder) => load(folder)?,
            None => newest(&options.results)?,
        };
        (store, options.trial.clone())
    };
    let trial = parse(catalog, &coordinate).ok_or_else(|| {
        Usage::error(format!(
            "{:?} is no trial of a known problem and arm; `mkb status` lists them, as p28_r1_solo_tirx",
            options.trial
        ))
    })?;
    Ok((store, trial))
}

fn parse(catalog: &Catalog, coordinate: &str) -> Option<Trial> {
    let coordinate = Coordinate::parse(coordinate)?;
    Some(Trial {
        problem: catalog.get(coordinate.number())?.name.clone(),
        replicate: coordinate.replicate(),
        arm: catalog.dsls().parse_arm(coordinate.arm())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_decide_how_a_replay_is_compared() {
        let now = |name: &str| Some(format!("{name} 1"));
        let same = json!({"versions": {"torch": "torch 1", "cpu": "cpu 1", "vgpu": "vgpu 1", "python": "old"}});
        assert!(differences(&same, now).is_empty());
        let other = json!({"versions": {"torch": "torch 1", "cpu": "cpu 2", "vgpu": "vgpu 1"}});
        assert_eq!(differences(&other, now).len(), 1);
        assert_eq!(differences(&Value::Null, now).len(), 3);
    }
}
