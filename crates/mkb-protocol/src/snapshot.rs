//! The figures of the whole store, written beside its records: `results.json` as the paper has
//! it, and `paired.json` with what the paper reports and does not store.

use std::collections::{BTreeMap, BTreeSet};

use mkb_analysis::paired::{PairedSettings, comparisons, figures, noise};
use mkb_analysis::{Cell, CellResult, Replicate, results};
use mkb_catalog::{Arm, Catalog, Direction, Payload, Trial};
use mkb_store::{Record, Store, StoreError, StoreWriter};
use serde_json::{Value, json};

/// Where the paired figures lie.
pub const PAIRED: &str = "paired.json";

/// Both files, as data.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// `results.json`.
    pub results: Value,
    /// `paired.json`.
    pub paired: Value,
    /// How many cell-replicates are resolved.
    pub resolved: usize,
    /// Of how many.
    pub total: usize,
}

/// The cells of a store under one kind of transfer: those of the catalog's problems that have any
/// replicate, with every replicate that the store names.
///
/// # Errors
/// Where a record cannot be read.
pub fn collect(
    store: &Store,
    catalog: &Catalog,
    payload: Payload,
) -> Result<Vec<CellResult>, StoreError> {
    let dsls = catalog.dsls();
    let directions: Vec<Direction> = dsls
        .all_arms()
        .into_iter()
        .filter_map(|arm| match arm {
            Arm::Transfer {
                direction,
                payload: of_arm,
            } if of_arm == payload && direction.source != direction.target => Some(direction),
            _ => None,
        })
        .collect();
    let mut cells = Vec::new();
    for problem in catalog.problems() {
        let numbers = store.replicates(&problem.name)?;
        if numbers.is_empty() {
            continue;
        }
        for direction in &directions {
            let cell = Cell {
                problem: problem.name.clone(),
                family: problem.family.clone(),
                direction: direction.clone(),
                payload,
            };
            let mut replicates = Vec::new();
            for &number in &numbers {
                let record = |arm: &Arm| record(store, &problem.name, number, arm);
                let [source, base, skill] = &cell.arms();
                replicates.push(Replicate {
                    number,
                    source: record(source)?,
                    base: record(base)?,
                    skill: record(skill)?,
                });
            }
            cells.push(CellResult { cell, replicates });
        }
    }
    Ok(cells)
}

/// The figures of a store; nothing is written. `version` names the program.
///
/// # Errors
/// Where a record cannot be read.
pub fn take(store: &Store, catalog: &Catalog, version: &str) -> Result<Snapshot, StoreError> {
    let identity = store.identity();
    let cells = collect(store, catalog, Payload::Skill)?;
    let replicates = || cells.iter().flat_map(|cell| &cell.replicates);
    let defaults = PairedSettings::default();
    let noise = noise(defaults, &repeated_solos(store, catalog)?);
    let settings = defaults.with_noise(&noise);
    let mut transfers = serde_json::Map::new();
    for (name, payload) in [
        ("skill", Payload::Skill),
        ("wrong", Payload::Wrong),
        ("placebo", Payload::Placebo),
        ("code", Payload::Code),
    ] {
        let compared = comparisons(settings, &collect(store, catalog, payload)?);
        if !compared.is_empty() || payload == Payload::Skill {
            transfers.insert(name.to_owned(), figures(&compared));
        }
    }
    Ok(Snapshot {
        resolved: replicates().filter(|r| r.resolved().is_some()).count(),
        total: replicates().count(),
        results: results::results(&identity.model, version, &cells),
        paired: json!({
            "model": identity.model,
            "setting": identity.setting,
            "budget": identity.budget,
            "settings": settings,
            "versions": versions(store, catalog)?,
            "noise": {"n_pairs": noise.n_pairs, "p90_abs_ln_ratio": noise.p90},
            "transfers": transfers,
        }),
    })
}

/// Takes the figures of a store and writes both files.
///
/// # Errors
/// Where a record cannot be read or a file cannot be written.
pub fn write(
    store: &StoreWriter,
    catalog: &Catalog,
    version: &str,
) -> Result<Snapshot, StoreError> {
    let snapshot = take(store, catalog, version)?;
    store.write_figures("results.json", &snapshot.results)?;
    store.write_figures(PAIRED, &snapshot.paired)?;
    Ok(snapshot)
}

fn record(
    store: &Store,
    problem: &mkb_catalog::ProblemName,
    replicate: u32,
    arm: &Arm,
) -> Result<Option<Record>, StoreError> {
    let trial = Trial {
        problem: problem.clone(),
        replicate,
        arm: arm.clone(),
    };
    Ok(store.record(&trial)?.map(|stored| stored.record))
}

/// Under which versions the store's trials ran: by name, every version that any of them had. More
/// than one says that the figures mix them.
fn versions(
    store: &Store,
    catalog: &Catalog,
) -> Result<BTreeMap<String, BTreeSet<String>>, StoreError> {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for problem in catalog.problems() {
        for number in store.replicates(&problem.name)? {
            for arm in catalog.dsls().all_arms() {
                let trial = Trial {
                    problem: problem.name.clone(),
                    replicate: number,
                    arm,
                };
                let provenance = store.provenance(&trial)?.unwrap_or_default();
                let Some(of_trial) = provenance.get("versions").and_then(Value::as_object) else {
                    continue;
                };
                for (name, version) in of_trial {
                    if let Some(version) = version.as_str() {
                        let seen = versions.entry(name.clone()).or_default();
                        seen.insert(version.to_owned());
                    }
                }
            }
        }
    }
    Ok(versions)
}

/// For each task its solo attempts that have a record, over replicates and repeats.
fn repeated_solos(store: &Store, catalog: &Catalog) -> Result<Vec<Vec<Record>>, StoreError> {
    let mut by_task: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for problem in catalog.problems() {
        for number in store.replicates(&problem.name)? {
            for arm in catalog.dsls().all_arms() {
                if let Arm::Solo(dsl) | Arm::SoloAgain(dsl) = &arm {
                    let task = format!("{}_{dsl}", problem.name);
                    let found = record(store, &problem.name, number, &arm)?;
                    by_task.entry(task).or_default().extend(found);
                }
            }
        }
    }
    Ok(by_task.into_values().collect())
}
