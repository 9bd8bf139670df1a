//! `results.json`, number for number as the reference implementation gives it from the same
//! records.

use std::collections::{BTreeMap, BTreeSet};

use mkb_catalog::Payload;
use mkb_store::Record;
use serde_json::{Map, Value, json};

use crate::cell::{CellResult, Replicate, Resolved};
use crate::number::{mean, quotient, share, total};

/// The speedups at which a rate is taken.
pub const THRESHOLDS: [(&str, f64); 5] = [
    ("R@0", 0.0),
    ("R@0.5", 0.5),
    ("R@1", 1.0),
    ("R@2", 2.0),
    ("R@4", 4.0),
];

/// The snapshot of a store. Cells with another payload than a skill are passed over; the others
/// may come in any order. `version` names the program that made it.
pub fn results(model: &str, version: &str, cells: &[CellResult]) -> Value {
    let mut ordered: Vec<&CellResult> = cells
        .iter()
        .filter(|result| result.cell.payload == Payload::Skill)
        .collect();
    ordered.sort_by_key(|r| (r.cell.problem.clone(), r.cell.direction.to_string()));
    json!({
        "legend": legend(),
        "model": model,
        "harbor_version": version,
        "overall": overall(&ordered),
        "cells": ordered.iter().map(|result| cell(result)).collect::<Vec<_>>(),
    })
}

/// What the names mean, for someone who has this file alone.
fn legend() -> Value {
    json!({
        "arms": "solo_<dsl>: an attempt from nothing in that DSL, which leaves a SKILL.md. \
                 <a>2<b>_skill: an attempt from nothing in DSL b that was given the SKILL.md of \
                 solo_<a>.",
        "records": "For each cell and replicate: source, the solo in the source DSL; base, the \
                    solo in the target DSL; skill, the attempt with the attachment. Resolved: all \
                    three exist without an error. A skipped skill record: the source wrote no \
                    SKILL.md, so nothing was attempted.",
        "rates": "R@t: the share of resolved cell-replicates that passed with a speedup over eager \
                  PyTorch of at least t. S: 100 times the mean of the five. lift: skill minus \
                  base, a skipped one counting as its base. with_skill: over those alone whose \
                  source wrote a SKILL.md. by_source_verdict: apart by whether the source passed.",
        "source_coverage": "The share of resolved cell-replicates whose source passed.",
        "skill_coverage": "The share of resolved cell-replicates whose source wrote a SKILL.md.",
        "usage": "For each arm, over every trial whose record has a usage, each counted once: how \
                  many, the sums of cost in US dollars and of tokens (input with the cached ones, \
                  cached, output), and the mean wall time of the agent in seconds. A sum is null \
                  where one of the records does not know that number.",
    })
}

fn overall(cells: &[&CellResult]) -> Value {
    let split = |key: &dyn Fn(&CellResult) -> String| -> Value {
        let names: BTreeSet<String> = cells.iter().map(|result| key(result)).collect();
        let groups = names.into_iter().map(|name| {
            let members: Vec<_> = cells.iter().copied().filter(|r| key(r) == name).collect();
            (name, Value::Object(group(&members)))
        });
        Value::Object(groups.collect())
    };
    let mut overall = Map::new();
    overall.insert("n_cells".to_owned(), json!(cells.len()));
    overall.extend(group(cells));
    overall.insert(
        "by_direction".to_owned(),
        split(&|result| result.cell.direction.to_string()),
    );
    overall.insert(
        "by_category".to_owned(),
        split(&|result| result.cell.family.to_string()),
    );
    Value::Object(overall)
}

fn cell(result: &CellResult) -> Value {
    let mut entry = Map::new();
    entry.insert(
        "cell".to_owned(),
        json!({
            "problem": result.cell.problem,
            "category": result.cell.family,
            "direction": result.cell.direction.to_string(),
            "source_task": result.cell.source_task().to_string(),
            "target_task": result.cell.target_task().to_string(),
        }),
    );
    entry.extend(group(&[result]));
    let replicates: Vec<Value> = result.replicates.iter().map(replicate).collect();
    entry.insert("replicates".to_owned(), Value::Array(replicates));
    Value::Object(entry)
}

fn replicate(replicate: &Replicate) -> Value {
    json!({
        "resolved": replicate.resolved().is_some(),
        "n_replicate": replicate.number,
        "source": replicate.source,
        "base": replicate.base,
        "skill": replicate.skill,
    })
}

fn group(cells: &[&CellResult]) -> Map<String, Value> {
    let replicates: Vec<&Replicate> = cells.iter().flat_map(|r| &r.replicates).collect();
    let resolved: Vec<Resolved> = replicates.iter().filter_map(|r| r.resolved()).collect();
    let filtered = |keep: &dyn Fn(&Resolved) -> bool| {
        let kept: Vec<Resolved> = resolved.iter().copied().filter(|r| keep(r)).collect();
        Value::Object(contrast(&kept))
    };
    let coverage = |covered: &dyn Fn(&Resolved) -> bool| match resolved.len() {
        0 => Value::Null,
        n => share(resolved.iter().filter(|r| covered(r)).count(), n),
    };
    let mut group = Map::new();
    group.insert("n_cell_replicates".to_owned(), json!(replicates.len()));
    group.insert("n_resolved".to_owned(), json!(resolved.len()));
    group.insert(
        "source_coverage".to_owned(),
        coverage(&|r| r.source.passed()),
    );
    group.insert("skill_coverage".to_owned(), coverage(&|r| r.has_skill()));
    group.extend(contrast(&resolved));
    group.insert("with_skill".to_owned(), filtered(&|r| r.has_skill()));
    group.insert(
        "by_source_verdict".to_owned(),
        json!({
            "passed": filtered(&|r| r.source.passed()),
            "failed": filtered(&|r| !r.source.passed()),
        }),
    );
    group.insert("usage".to_owned(), usage(cells));
    group
}

/// Base, skill and lift over the resolved replicates; null over none.
fn contrast(resolved: &[Resolved]) -> Map<String, Value> {
    let ladders = (!resolved.is_empty()).then(|| {
        let base = Ladder::of(resolved.iter().map(|r| r.base));
        let skill = Ladder::of(resolved.iter().map(Resolved::outcome));
        (base.to_json(), skill.to_json(), skill.minus(&base))
    });
    let (base, skill, lift) = ladders.unwrap_or_default();
    Map::from_iter([
        ("base".to_owned(), base),
        ("skill".to_owned(), skill),
        ("lift".to_owned(), lift),
    ])
}

/// How many of `n` records reach each threshold: all that the rates are made of, still exact.
struct Ladder {
    n: usize,
    reached: [usize; THRESHOLDS.len()],
}

impl Ladder {
    fn of<'a>(records: impl Iterator<Item = &'a Record>) -> Self {
        let mut ladder = Self {
            n: 0,
            reached: [0; THRESHOLDS.len()],
        };
        for record in records {
            ladder.n += 1;
            for (count, (_, threshold)) in ladder.reached.iter_mut().zip(THRESHOLDS) {
                *count += usize::from(record.passed() && record.rewards.speedup() >= threshold);
            }
        }
        ladder
    }

    fn sum(&self) -> i64 {
        self.reached.iter().sum::<usize>() as i64
    }

    /// Whether a rate is 0 or 1, which stands as an integer.
    fn is_whole(&self, count: usize) -> bool {
        count == 0 || count == self.n
    }

    /// Whether all rates are 0 or all are 1, so that S stands as an integer.
    fn is_flat(&self) -> bool {
        let first = self.reached[0];
        self.is_whole(first) && self.reached.iter().all(|&count| count == first)
    }

    fn to_json(&self) -> Value {
        let rates = THRESHOLDS.iter().zip(self.reached);
        let mut ladder: Map<String, Value> = rates
            .map(|((name, _), count)| ((*name).to_owned(), share(count, self.n)))
            .collect();
        ladder.insert("S".to_owned(), score(self.sum(), self.n, self.is_flat()));
        Value::Object(ladder)
    }

    /// This ladder's rates minus another's over as many records: integers where both are.
    fn minus(&self, base: &Ladder) -> Value {
        let mut lift = Map::new();
        for (index, (name, _)) in THRESHOLDS.iter().enumerate() {
            let (skill, base_count) = (self.reached[index], base.reached[index]);
            let difference = skill as i64 - base_count as i64;
            let value = if self.is_whole(skill) && base.is_whole(base_count) {
                json!(difference / self.n as i64)
            } else {
                json!(quotient(difference, self.n))
            };
            lift.insert((*name).to_owned(), value);
        }
        let is_integer = self.is_flat() && base.is_flat();
        lift.insert(
            "S".to_owned(),
            score(self.sum() - base.sum(), self.n, is_integer),
        );
        Value::Object(lift)
    }
}

/// 100 times the mean of five rates whose counts among `n` add up to `sum`.
fn score(sum: i64, n: usize, is_integer: bool) -> Value {
    let scaled = sum * 100 / THRESHOLDS.len() as i64;
    if is_integer {
        json!(scaled / n as i64)
    } else {
        json!(quotient(scaled, n))
    }
}

fn usage(cells: &[&CellResult]) -> Value {
    // A solo is the source of one cell and the base of another: each trial counts once.
    let mut trials: BTreeMap<(String, &str, u32), &Option<Record>> = BTreeMap::new();
    for result in cells {
        let arms = result.cell.arms();
        for replicate in &result.replicates {
            let records = [&replicate.source, &replicate.base, &replicate.skill];
            for (arm, record) in arms.iter().zip(records) {
                let problem = result.cell.problem.as_str();
                trials.insert((arm.to_string(), problem, replicate.number), record);
            }
        }
    }
    let mut arms: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for ((arm, _, _), record) in &trials {
        arms.entry(arm).or_default().extend(record.as_ref());
    }
    let entries = arms
        .into_iter()
        .map(|(arm, records)| (arm.to_owned(), arm_usage(&records)));
    Value::Object(entries.collect())
}

fn arm_usage(records: &[&Record]) -> Value {
    let usages: Vec<_> = records.iter().filter_map(|r| r.usage.as_ref()).collect();
    let sum = |number: &dyn Fn(&mkb_store::Usage) -> Option<serde_json::Number>| {
        total(&usages.iter().map(|usage| number(usage)).collect::<Vec<_>>())
    };
    let agent_sec: Vec<_> = usages.iter().map(|usage| usage.agent_sec.clone()).collect();
    json!({
        "n_trials": usages.len(),
        "cost_usd": sum(&|usage| usage.cost_usd.clone()),
        "n_input_tokens": sum(&|usage| usage.n_input_tokens.clone()),
        "n_cache_tokens": sum(&|usage| usage.n_cache_tokens.clone()),
        "n_output_tokens": sum(&|usage| usage.n_output_tokens.clone()),
        "agent_sec": mean(&agent_sec),
    })
}
