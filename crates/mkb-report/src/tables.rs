//! Problems, trials and results as text.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use mkb_analysis::calibration::Calibration;
use mkb_catalog::{Problem, Trial};
use mkb_protocol::snapshot::Snapshot;
use mkb_store::Record;
use serde_json::Value;

use crate::text::harmless;

fn table(header: &[&str], numbers_from: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.to_vec());
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= numbers_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Problems, a line each.
pub fn problems(problems: &[&Problem]) -> String {
    let mut table = table(&["problem", "family", "description"], 3);
    for problem in problems {
        table.add_row([
            problem.name.as_str(),
            problem.family.as_str(),
            problem.description.as_str(),
        ]);
    }
    table.trim_fmt()
}

/// Trials with what came of them, a line each.
pub fn trials(rows: &[(Trial, Record)]) -> String {
    let mut table = table(&["problem", "trial", "outcome", "speedup"], 3);
    for (trial, record) in rows {
        let outcome = match (&record.error, &record.skipped) {
            (Some(error), _) => format!(
                "error: {}",
                harmless(error.lines().next().unwrap_or_default())
            ),
            (None, Some(skipped)) => format!("skipped: {skipped}"),
            (None, None) if record.passed() => "passed".to_owned(),
            (None, None) if record.rewards.is_empty() => "failed: no kernel".to_owned(),
            (None, None) => "failed".to_owned(),
        };
        let late = if record.timed_out {
            ", out of time"
        } else {
            ""
        };
        let speedup = if record.passed() {
            format!("{:.3}", record.rewards.speedup())
        } else {
            "-".to_owned()
        };
        table.add_row([
            trial.problem.to_string(),
            trial.coordinate().to_string(),
            outcome + late,
            speedup,
        ]);
    }
    table.trim_fmt()
}

/// The figures of a store: a line a direction and one for all, then what they were made under.
pub fn results(snapshot: &Snapshot) -> String {
    let overall = &snapshot.results["overall"];
    let paired = &snapshot.paired["transfers"]["skill"];
    let mut text = table(
        &[
            "",
            "resolved",
            "S base",
            "S skill",
            "lift",
            "R@1 base",
            "R@1 skill",
            "paired lift",
            "helped",
            "neutral",
            "harmed",
        ],
        1,
    );
    let mut row = |name: &str, group: &Value, tally: &Value| {
        let percent = |v: &Value| {
            v.as_f64()
                .map_or("-".to_owned(), |x| format!("{:.1}%", 100.0 * x))
        };
        let number = |v: &Value| v.as_f64().map_or("-".to_owned(), |x| format!("{x:.1}"));
        let signed = |v: &Value, unit: &str| {
            v.as_f64()
                .map_or("-".to_owned(), |x| format!("{x:+.1}{unit}"))
        };
        let count = |v: &Value| v.as_u64().map_or("-".to_owned(), |n| n.to_string());
        text.add_row([
            name.to_owned(),
            format!(
                "{}/{}",
                count(&group["n_resolved"]),
                count(&group["n_cell_replicates"])
            ),
            number(&group["base"]["S"]),
            number(&group["skill"]["S"]),
            signed(&group["lift"]["S"], ""),
            percent(&group["base"]["R@1"]),
            percent(&group["skill"]["R@1"]),
            signed(&tally["paired_lift_percent"], "%"),
            count(&tally["helped"]),
            count(&tally["neutral"]),
            count(&tally["harmed"]),
        ]);
    };
    if let Some(directions) = overall["by_direction"].as_object() {
        for (name, group) in directions {
            row(
                &name.replace('2', " -> "),
                group,
                &paired["by_direction"][name],
            );
        }
    }
    row("all", overall, &paired["overall"]);
    format!("{}\n\n{}", text.trim_fmt(), conditions(snapshot))
}

/// Figures of two verdicts: name, recorded, again, and what that means.
pub fn compared(rows: &[[String; 4]]) -> String {
    let mut text = table(&["figure", "recorded", "again", ""], 4);
    for row in rows {
        text.add_row(row.each_ref().map(|cell| harmless(cell)));
    }
    text.trim_fmt()
}

/// What a machine offers: name, state, and that in words.
pub fn findings(rows: &[[String; 3]]) -> String {
    let mut text = table(&["looked at", "", "found"], 3);
    for row in rows {
        text.add_row(row.each_ref().map(|cell| harmless(cell)));
    }
    text.trim_fmt()
}

/// The figures of a calibration, a line for each transfer by its name.
pub fn calibration(rows: &[(&str, Calibration)]) -> String {
    let mut text = table(
        &[
            "transfer",
            "comparisons",
            "paired lift",
            "95% over seeds",
            "95% over problems",
            "helped",
            "neutral",
            "harmed",
            "finding",
        ],
        1,
    );
    if let Some(column) = text.column_mut(8) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    for (name, row) in rows {
        let interval = |of: Option<(f64, f64)>| {
            of.map_or("-".to_owned(), |(low, high)| {
                format!("{low:+.1}% to {high:+.1}%")
            })
        };
        text.add_row([
            (*name).to_owned(),
            row.n.to_string(),
            row.lift.map_or("-".to_owned(), |x| format!("{x:+.1}%")),
            interval(row.over_seeds),
            interval(row.over_problems),
            row.helped.to_string(),
            row.neutral.to_string(),
            row.harmed.to_string(),
            row.words.clone(),
        ]);
    }
    text.trim_fmt()
}

/// What the figures were made under, and what their names mean.
fn conditions(snapshot: &Snapshot) -> String {
    let paired = &snapshot.paired;
    let text = |v: &Value| v.as_str().unwrap_or("?").to_owned();
    let settings = &paired["settings"];
    let number = |v: &Value| v.as_f64().map_or("?".to_owned(), |x| format!("{x}"));
    format!(
        "{}, {} on {}, {} clock, {} workload\n\
         S: 100 x mean of R@0, R@0.5, R@1, R@2, R@4; R@t: share that passed with speedup >= t over eager PyTorch\n\
         paired lift: 100 x (geometric mean of skill / solo speedup - 1); failed counts as {}, ratios within {}x; neutral within {:.0}%",
        text(&paired["model"]),
        format_args!(
            "{} of {} comparisons resolved",
            snapshot.resolved, snapshot.total
        ),
        text(&paired["setting"]["device"]),
        text(&paired["setting"]["clock"]),
        text(&paired["setting"]["workload"]),
        number(&settings["floor"]),
        number(&settings["clip"]),
        100.0 * settings["band"].as_f64().unwrap_or(0.05),
    )
}
