//! The numbers of a small store, worked out by hand in `data/small-store.json`.

use mkb_analysis::results::results;
use mkb_analysis::{Cell, CellResult, Replicate};
use mkb_catalog::{Arm, DslSet, Family, Payload, ProblemName};
use mkb_store::Record;
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("data/small-store.json")).expect("golden")
}

fn cells(golden: &Value) -> Vec<CellResult> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let record = |problem: &str, arm: &Arm| -> Option<Record> {
        let trials = golden["trials"].as_array().expect("trials");
        let arm = arm.to_string();
        trials
            .iter()
            .find(|trial| trial["problem"] == problem && trial["arm"] == *arm)
            .map(|trial| serde_json::from_value(trial["record"].clone()).expect("a record"))
    };
    let mut cells = Vec::new();
    for problem in golden["problems"].as_array().expect("problems") {
        let name = text(&problem["problem"]);
        // In the wrong order on purpose: the snapshot sorts.
        for direction in DslSet::builtin().directions().into_iter().rev() {
            let cell = Cell {
                problem: ProblemName::parse(&name).expect("a name"),
                family: Family::parse(&text(&problem["category"])).expect("a family"),
                direction,
                payload: Payload::Skill,
            };
            let [source, base, skill] = cell.arms().map(|arm| record(&name, &arm));
            let replicates = vec![Replicate {
                number: 1,
                source,
                base,
                skill,
            }];
            cells.push(CellResult { cell, replicates });
        }
    }
    cells
}

/// Fails where `actual` differs from `expected`: numbers beyond the stated tolerance, all else at
/// all, keys and their order included.
fn agree(path: &str, actual: &Value, expected: &Value) {
    match (actual, expected) {
        (Value::Object(a), Value::Object(e)) => {
            let keys =
                |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            if !path.ends_with("/replicates/0") {
                assert_eq!(keys(a), keys(e), "{path}");
            }
            for (key, value) in e {
                agree(&format!("{path}/{key}"), &a[key], value);
            }
        }
        (Value::Array(a), Value::Array(e)) => {
            assert_eq!(a.len(), e.len(), "{path}");
            for (index, (a, e)) in a.iter().zip(e).enumerate() {
                agree(&format!("{path}/{index}"), a, e);
            }
        }
        (Value::Number(a), Value::Number(e)) => {
            let (a, e) = (a.as_f64().expect("a number"), e.as_f64().expect("a number"));
            let allowed = if e == 0.0 { 1e-13 } else { 1e-12 * e.abs() };
            assert!((a - e).abs() <= allowed, "{path}: {a}, not {e}");
        }
        _ => assert_eq!(actual, expected, "{path}"),
    }
}

#[test]
fn every_number_null_key_and_order_of_the_small_store_is_as_worked_out() {
    let golden = golden();
    let actual = results("vendor/Tiny Model:v1", "test", &cells(&golden));
    agree(
        "/overall",
        &actual["overall"],
        &golden["expected"]["overall"],
    );
    agree("/cells", &actual["cells"], &golden["expected"]["cells"]);
    let keys: Vec<&String> = actual.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        ["legend", "model", "harbor_version", "overall", "cells"]
    );
    let replicate = actual["cells"][0]["replicates"][0]
        .as_object()
        .expect("an object");
    let keys: Vec<&String> = replicate.keys().collect();
    assert_eq!(keys, ["resolved", "n_replicate", "source", "base", "skill"]);
    assert!(
        actual["cells"][0]["replicates"][0]["source"]
            .get("stamps")
            .is_none()
    );
}

#[test]
fn whole_rates_print_as_integers_and_others_as_floats() {
    let actual = results("m", "test", &cells(&golden()));
    let text = |path: &str| actual.pointer(path).expect(path).to_string();
    // Six cells of one replicate each: every rate is 0 or 1.
    assert_eq!(text("/cells/0/base/R@0"), "0");
    assert_eq!(text("/cells/0/base/S"), "0");
    assert_eq!(text("/cells/0/skill/S"), "60.0");
    assert_eq!(text("/cells/0/lift/R@0"), "1");
    assert_eq!(text("/cells/0/lift/S"), "60.0");
    assert_eq!(text("/cells/1/skill/S"), "100");
    assert_eq!(text("/overall/lift/R@1"), "0.2");
    assert_eq!(text("/overall/lift/R@2"), "0.0");
    assert_eq!(text("/overall/base/R@4"), "0");
    assert_eq!(text("/overall/lift/R@4"), "0.2");
}

#[test]
fn a_store_without_trials_has_nulls_and_empty_groups() {
    let actual = results("m", "test", &[]);
    assert_eq!(actual["overall"]["n_cells"], 0);
    assert_eq!(actual["overall"]["base"], Value::Null);
    assert_eq!(actual["overall"]["by_direction"], serde_json::json!({}));
    assert_eq!(actual["cells"], serde_json::json!([]));
}
