//! `mkb grade` on kernel files of many kinds, through the binary: the whole way through sandbox,
//! tape, replay and comparison. The environment is made first where it is not whole.

mod judging;

use std::fs;

use judging::{grade, judged};
use serde_json::Value;

/// A kernel file for problem 28 whose `solve` has this body; `right()` is the right answer by eager
/// PyTorch.
fn submission(body: &str) -> String {
    format!(
        "import torch\n\n\ndef right(hidden_states, residual, weight):\n    \
         x = hidden_states.float() + residual.float()\n    \
         scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)\n    \
         return (x * scale * weight.float()).to(torch.bfloat16)\n\n\n\
         def solve(hidden_states, residual, weight):\n    {body}\n"
    )
}

/// Evaluated, not passed, with so many correct draws; gives the report.
fn failed(kernel: &str, correct: u64) -> String {
    let value = judged(kernel);
    let verdict = &value["verdict"];
    let report = verdict["report"].as_str().expect("a report").to_owned();
    assert_eq!(value["outcome"], "evaluated", "{report}");
    assert_eq!(value["passed"], false, "{report}");
    assert_eq!(verdict["details"]["n_correct_draws"], correct, "{report}");
    assert_eq!(verdict["rewards"]["speedup_vs_eager"], 0.0, "{report}");
    report
}

#[test]
fn eager_code_is_right_and_does_not_pass() {
    let value = judged(&submission("return right(hidden_states, residual, weight)"));
    let verdict = &value["verdict"];
    assert_eq!(verdict["details"]["n_correct_draws"], 5, "{verdict:#}");
    assert_eq!(verdict["rewards"]["correct"], 1.0);
    assert_eq!(verdict["rewards"]["passed"], 0.0);
    let findings = verdict["details"]["findings"].as_array().expect("a list");
    assert!(findings.iter().any(|f| f["rule"] == "no-kernel"));
    assert_eq!(value["clock"], "modelled");
}

#[test]
fn answers_without_a_computation_are_wrong() {
    for body in [
        "return torch.zeros_like(hidden_states)",
        "return torch.full_like(hidden_states, float('nan'))",
        "return torch.empty_like(hidden_states)",
        "return hidden_states",
    ] {
        let report = failed(&submission(body), 0);
        assert!(report.contains("mismatch: draw 1 of 5"), "{report}");
    }
}

#[test]
fn a_small_part_that_is_wrong_makes_it_wrong() {
    let body =
        "out = right(hidden_states, residual, weight)\n    out[-1, -1] += 1.0\n    return out";
    let report = failed(&submission(body), 0);
    assert!(report.contains("mismatch"), "{report}");
}

#[test]
fn an_input_that_is_changed_is_named() {
    let body = "out = right(hidden_states, residual, weight)\n    residual.zero_()\n    return out";
    let report = failed(&submission(body), 0);
    assert!(report.contains("input 2 was changed"), "{report}");
}

#[test]
fn an_exception_is_reported_with_its_place_and_made_harmless() {
    let body = "raise ValueError('\\x1b[2J\\x1b]0;owned\\x07')";
    let output = grade(&submission(body), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("draw 1 of 5") && text.contains("ValueError"),
        "{text}"
    );
    assert!(text.contains("correct: 0/5"), "{text}");
}

#[test]
fn a_process_that_ends_itself_is_told_and_the_next_is_unaffected() {
    let report = failed(&submission("import os; os._exit(0)"), 0);
    assert!(report.contains("exited with code 0"), "{report}");
    let value = judged(&submission("return right(hidden_states, residual, weight)"));
    assert_eq!(value["verdict"]["details"]["n_correct_draws"], 5);
}

#[test]
fn what_is_no_kernel_file_is_refused_and_counts_nothing() {
    let long = format!("def solve(*a):\n    pass\n# {}\n", "x".repeat(300_000));
    for (kernel, named) in [
        ("def solve(:\n", "line 1"),
        ("x = 1\n", "solve"),
        (long.as_str(), "300000"),
    ] {
        let value = judged(kernel);
        assert_eq!(value["outcome"], "refused", "{value:#}");
        assert!(value["verdict"].is_null());
        let reason = value["reason"].as_str().expect("a reason");
        assert!(reason.contains(named), "{reason}");
    }
}

#[test]
fn what_was_judged_is_kept_where_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("a/b");
    let body = "return torch.zeros_like(hidden_states)";
    let output = grade(
        &submission(body),
        &["--keep", kept.to_str().expect("UTF-8")],
    );
    assert_eq!(output.status.code(), Some(1));
    let verdict = fs::read(kept.join("verdict.json")).expect("a verdict");
    let verdict: Value = serde_json::from_slice(&verdict).expect("JSON");
    let seeds = &verdict["details"]["assignment"]["correctness"];
    assert_eq!(seeds.as_array().expect("seeds").len(), 5);
    for name in ["kernel.py", "report.txt", "tape.bin.zst"] {
        assert!(kept.join(name).is_file(), "{name}");
    }
}

#[test]
fn an_operation_that_does_not_check_its_indices_is_not_played() {
    // It adds its first operand to its result at places that nothing checks.
    let body = "out = right(hidden_states, residual, weight)\n    \
                t = torch.ones(1, 1, 2, 2, device='cuda')\n    \
                at = torch.full((1, 1, 2, 2), 10**9, device='cuda', dtype=torch.int64)\n    \
                torch.ops.aten.max_pool2d_with_indices_backward(\
                t, torch.ones(1, 1, 4, 4, device='cuda'), [2, 2], [2, 2], [0, 0], [1, 1], False, at)\n    \
                return out";
    let value = judged(&submission(body));
    assert_eq!(value["outcome"], "incomplete", "{value:#}");
    let reason = value["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("max_pool2d_with_indices_backward"),
        "{reason}"
    );
}
