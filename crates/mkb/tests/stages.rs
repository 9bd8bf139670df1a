//! What does not end is stopped at its stage's limit, and the report says how far it had come.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mkb_catalog::dsl::DslSet;
use mkb_catalog::grading::{Cancel, Graded, Grader, Purpose, Verdict};
use mkb_catalog::{Catalog, Workload};
use mkb_device::client::DeviceOptions;
use mkb_judge::judge::Judge;
use mkb_judge::limits::Limits;
use mkb_judge::station::Runtime;
use mkb_sandbox::{Isolation, View};

/// What a judge with limits of seconds says of a kernel file for problem 28.
fn judged(kernel: &str, limits: Limits) -> Verdict {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository");
    let options = mkb_setup::Options::new(&root);
    let environment = mkb_setup::ensure(&options, &mkb_setup::Quiet).expect("an environment");
    let mut view = View::default();
    view.read_only.push(root.join("python"));
    view.show_python(&environment.python).expect("a Python");
    let runtime = Runtime {
        python: environment.python,
        python_path: environment.pythonpath,
        env: environment.variables,
        read_only: view.read_only,
        isolation: Isolation::Namespaces,
    };
    let server = DeviceOptions {
        program: env!("CARGO_BIN_EXE_mkb").into(),
        arguments: vec!["device-server".to_owned()],
        server: mkb_device::server::ServerOptions::default(),
    };
    let scratch = tempfile::tempdir().expect("a folder");
    let dsls = DslSet::builtin();
    let catalog = Catalog::discover(&root.join("problems"), dsls.clone()).expect("a catalog");
    let problem = catalog.get("28").expect("the problem");
    let judge = Judge::new(
        runtime,
        vgpu::cost::Device::by_name("b200").expect("the device"),
        server,
        Workload::Reduced,
        dsls.clone(),
        scratch.path().to_owned(),
    );
    let judge = Arc::new(judge.expect("a judge").with_limits(limits));
    let dsl = dsls.ids().next().expect("a DSL");
    let grader = judge.grader(problem, dsl);
    match grader.grade(kernel.as_bytes(), Purpose::Submission, &Cancel::new()) {
        Ok(Graded::Evaluated { verdict, .. }) => verdict,
        other => panic!("{other:?}"),
    }
}

/// Right for two calls, and then it waits for ever.
const STOPS_AT_THE_THIRD: &str = r#"
import time, torch
calls = 0
def solve(hidden_states, residual, weight):
    global calls
    calls += 1
    if calls == 3:
        print("about to wait", flush=True)
        time.sleep(1000)
    x = hidden_states.float() + residual.float()
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (x * scale * weight.float()).to(torch.bfloat16)
"#;

#[test]
fn an_import_without_end_is_stopped_at_its_own_limit() {
    let limits = Limits {
        import: Duration::from_secs(2),
        ..Limits::default()
    };
    let kernel = "while True:\n    pass\n\ndef solve(hidden_states, residual, weight):\n    pass\n";
    let verdict = judged(kernel, limits);
    assert!(!verdict.rewards.passed());
    let report = verdict.report;
    assert!(report.contains("import: no result within 2 s"), "{report}");
}

#[test]
fn a_call_without_end_is_stopped_and_what_had_finished_is_told() {
    let limits = Limits {
        draw: Duration::from_secs(20),
        ..Limits::default()
    };
    let verdict = judged(STOPS_AT_THE_THIRD, limits);
    let report = verdict.report;
    let said = "draw 3 of 5: no result within 20 s\nabout to wait";
    assert!(report.contains(said), "{report}");
    assert!(report.contains("2/5"), "{report}");
}

#[test]
fn stages_within_their_limits_do_not_last_longer_than_the_whole_may() {
    let limits = Limits {
        whole: Duration::from_secs(20),
        ..Limits::default()
    };
    let verdict = judged(STOPS_AT_THE_THIRD, limits);
    let report = verdict.report;
    assert!(report.contains("draw 3 of 5"), "{report}");
    assert!(!report.contains("within 120 s"), "{report}");
}
