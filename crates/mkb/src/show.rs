//! Commands that only look: problems, status, results.

use anyhow::Result;
use mkb_catalog::Catalog;
use mkb_catalog::dsl::DslSet;
use mkb_catalog::glob::Globs;
use serde_json::json;

use crate::cli;
use crate::home::Home;
use crate::output::say;
use crate::run::{VERSION, choose_store};
use crate::usage::Usage;

/// Lists problems.
pub fn problems(home: &Home, pattern: Option<&str>, as_json: bool) -> Result<bool> {
    let catalog = Catalog::discover(&home.problems(), DslSet::builtin())?;
    let globs = Globs::new(pattern);
    let by_number = pattern.and_then(|p| catalog.get(p)).map(|p| p.name.clone());
    let chosen: Vec<_> = catalog
        .problems()
        .iter()
        .filter(|p| {
            by_number
                .as_ref()
                .map_or(globs.matches(p.name.as_str()), |name| *name == p.name)
        })
        .collect();
    if chosen.is_empty() {
        let pattern = pattern.unwrap_or("*");
        let what = format!("no problem matches {pattern:?}; `mkb problems` lists them all");
        return Err(Usage::error(what));
    }
    if as_json {
        let rows: Vec<_> = chosen
            .iter()
            .map(|p| {
                let solutions: Vec<_> = catalog.dsls().ids().filter(|dsl| p.solution_path(dsl).is_some()).map(|dsl| dsl.as_str()).collect();
                json!({"problem": p.name.as_str(), "family": p.family.as_str(), "description": p.description, "reduced": p.has_reduced, "solutions": solutions, "mutable_inputs": p.mutable_inputs})
            })
            .collect();
        say!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        say!("{}", mkb_report::tables::problems(&chosen));
    }
    Ok(true)
}

/// Prints a store's results.
pub fn results(home: &Home, choice: &cli::StoreChoice, as_json: bool) -> Result<bool> {
    let store = choose_store(choice)?;
    let catalog = Catalog::discover(&home.problems(), DslSet::builtin())?;
    let snapshot = mkb_protocol::snapshot::take(&store, &catalog, VERSION)?;
    if as_json {
        say!(
            "{}",
            serde_json::to_string_pretty(
                &json!({"results": snapshot.results, "paired": snapshot.paired})
            )?
        );
    } else {
        say!("{}", mkb_report::tables::results(&snapshot));
        say!("store: {}", store.folder().display());
    }
    Ok(true)
}

/// Prints what a store holds, trial by trial.
pub fn status(home: &Home, choice: &cli::StoreChoice, as_json: bool) -> Result<bool> {
    let store = choose_store(choice)?;
    let catalog = Catalog::discover(&home.problems(), DslSet::builtin())?;
    let mut rows = Vec::new();
    for problem in catalog.problems() {
        for replicate in store.replicates(&problem.name)? {
            for arm in catalog.dsls().all_arms() {
                let trial = mkb_catalog::Trial {
                    problem: problem.name.clone(),
                    replicate,
                    arm,
                };
                if let Some(stored) = store.record(&trial)? {
                    rows.push((trial, stored.record));
                }
            }
        }
    }
    let sound = rows.iter().all(|(_, record)| record.error.is_none());
    if as_json {
        let rows: Vec<_> = rows.iter().map(|(trial, record)| json!({"problem": trial.problem.as_str(), "trial": trial.coordinate().to_string(), "record": record})).collect();
        say!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        say!("{}", mkb_report::tables::trials(&rows));
        say!("store: {}", store.folder().display());
    }
    Ok(sound)
}
