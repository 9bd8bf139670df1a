//! `mkb calibrate`: the tuner's paired lift with its own skill, a wrong one and a placebo.

use anyhow::{Context, Result};
use mkb_analysis::calibration::{Calibration, Expected, Finding, calibrate as judge};
use mkb_analysis::paired::{PairedSettings, comparisons};
use mkb_catalog::{Arm, Payload, dsl::DslSet};
use mkb_protocol::{Arms, snapshot};
use serde_json::json;

use crate::cli;
use crate::home::Home;
use crate::output::say;
use crate::run::{VERSION, World};
use crate::usage::Usage;

/// Transfers that are calibrated, by name.
const TRANSFERS: [(&str, Payload); 3] = [
    ("own skill", Payload::Skill),
    ("wrong skill", Payload::Wrong),
    ("placebo", Payload::Placebo),
];

/// Not a run's default: the tuner's rules were last changed after its lifts over the seeds of base 1
/// were seen, so that these seeds judge no rule that they have made.
const SEED: u64 = 2;

/// Runs what the calibration's store lacks and prints the lifts. Whether each is as it should be, and
/// no trial ended in error.
pub fn calibrate(home: &Home, options: &cli::Calibrate, json: bool) -> Result<bool> {
    if options.seeds == 0 {
        return Err(Usage::error("--seeds must be at least 1"));
    }
    let run = as_run(options);
    let mut world = World::open(home, &run, Arms::Some(arms(&DslSet::builtin())))?;
    let (summary, store) = world.run(home, &run, json)?;
    let figures = snapshot::take(&store, &world.catalog, VERSION)?;
    let settings: PairedSettings = serde_json::from_value(figures.paired["settings"].clone())
        .context("the settings of the paired figures")?;
    let mut rows: Vec<(&str, Calibration)> = Vec::new();
    for (name, payload) in TRANSFERS {
        let Some(expected) = Expected::of(payload) else {
            continue;
        };
        let cells = snapshot::collect(&store, &world.catalog, payload)?;
        rows.push((
            name,
            judge(expected, settings, &comparisons(settings, &cells)),
        ));
    }
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, row)| json!({"transfer": name, "figures": row}))
            .collect();
        let shown = json!({"calibration": rows, "settings": settings, "noise": figures.paired["noise"], "errors": summary.errors, "left": summary.left, "store": store.folder()});
        say!("{shown}");
    } else {
        say!("\n{}", mkb_report::tables::calibration(&rows));
        say!(
            "\npaired lift: 100 x (geometric mean of the speedup with the text / the solo's - 1), over {} problems and {} seeds so far",
            world.selection.problems(&world.catalog)?.len(),
            rows.iter().map(|(_, row)| row.seeds).max().unwrap_or(0),
        );
        say!("neutral band: {:.1}%", 100.0 * settings.band);
        say!("store: {}", store.folder().display());
    }
    let sound = rows.iter().all(|(_, row)| row.finding != Finding::Fails);
    Ok(sound && summary.errors == 0 && summary.left == 0)
}

/// Solos first, then each transfer in each direction.
fn arms(dsls: &DslSet) -> Vec<Arm> {
    let transfers = TRANSFERS.into_iter().flat_map(|(_, payload)| {
        let directions = dsls.directions().into_iter();
        directions.map(move |direction| Arm::Transfer { direction, payload })
    });
    dsls.ids()
        .cloned()
        .map(Arm::Solo)
        .chain(transfers)
        .collect()
}

/// The run that makes what is missing, in a store of its own.
fn as_run(options: &cli::Calibrate) -> cli::Run {
    cli::Run {
        problems: options.problems.clone(),
        families: Vec::new(),
        trials: Vec::new(),
        replicates: Some(options.seeds),
        concurrent: options.concurrent,
        rerun_stale: options.rerun_stale,
        dry_run: false,
        agent: cli::Agent::Tuner,
        from: None,
        seed: SEED,
        results: options.results.join("calibration"),
        conditions: options.conditions.clone(),
    }
}
