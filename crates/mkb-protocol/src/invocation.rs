//! The line that each run leaves in the store's log.

use std::path::Path;
use std::process::Command;

use mkb_store::writer::timestamp;
use serde_json::{Value, json};

use crate::plan::{Plan, Status};
use crate::selection::Selection;

/// The entry of a run that takes something up. `version` names the program, `commit` its source.
pub fn entry(
    model: &str,
    selection: &Selection,
    concurrent: usize,
    rerun_stale: bool,
    version: &str,
    commit: &str,
    plan: &Plan,
) -> Value {
    let counts: serde_json::Map<String, Value> = Status::ALL
        .into_iter()
        .filter(|status| *status != Status::Held || plan.count(Status::Held) > 0)
        .map(|status| (status.to_string(), json!(plan.count(status))))
        .collect();
    json!({
        "started_at": timestamp(),
        "model": model,
        "categories": selection.families,
        "problems": selection.problems.to_text(),
        "trials": selection.trials.to_text(),
        "n_replicates": selection.replicates,
        "n_concurrent": concurrent,
        "rerun_stale": rerun_stale,
        "harbor_version": version,
        "commit": commit,
        "plan": counts,
    })
}

/// The commit that a checkout stands at: `+dirty` where a file outside `results/` differs from
/// it, `unavailable` where git cannot tell.
pub fn commit(repository: &Path) -> String {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git")
            .arg("-C")
            .arg(repository)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let head = git(&["rev-parse", "HEAD"]);
    let changes = git(&["status", "--porcelain", "--", ".", ":!results"]);
    match (head, changes) {
        (Some(head), Some(changes)) if changes.is_empty() => head,
        (Some(head), Some(_)) => head + "+dirty",
        _ => "unavailable".to_owned(),
    }
}
