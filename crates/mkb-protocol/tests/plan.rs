//! The statuses of a small store, worked out by hand in the golden file, and rules of our own.

mod common;

use std::collections::BTreeMap;
use std::fs;

use common::{identity, selection, transfer};
use mkb_catalog::fingerprint::sha256_hex;
use mkb_catalog::{Catalog, TaskId, Trial, skill};
use mkb_protocol::plan::Circumstances;
use mkb_protocol::{Plan, Selection, Status};
use mkb_store::{Record, Stamps, StoreWriter};
use serde_json::{Value, json};

/// The golden store on disk, and the fingerprints that its stamps hold.
struct Golden {
    folder: tempfile::TempDir,
    catalog: Catalog,
    fingerprints: BTreeMap<TaskId, String>,
}

fn golden_file() -> Value {
    let text = include_str!("../../mkb-analysis/tests/data/small-store.json");
    serde_json::from_str(text).expect("golden")
}

impl Golden {
    fn new() -> Self {
        let golden = golden_file();
        let folder = tempfile::tempdir().expect("a folder");
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let problems: Vec<String> = golden["problems"]
            .as_array()
            .expect("problems")
            .iter()
            .map(|p| format!("{}/{}", text(&p["category"]), text(&p["problem"])))
            .collect();
        let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
        let catalog = common::catalog(&folder.path().join("problems"), &problems);
        let tasks = common::tasks(&catalog);
        let fingerprints = mkb_protocol::run::fingerprints(&tasks);
        let this = Self {
            folder,
            catalog,
            fingerprints,
        };
        let store = this.store();
        for entry in golden["trials"].as_array().expect("trials") {
            let trial = common::trial(&text(&entry["problem"]), 1, &text(&entry["arm"]));
            assert_eq!(trial.coordinate().to_string(), text(&entry["coordinate"]));
            let record = serde_json::from_value(entry["record"].clone()).expect("a record");
            this.write(&store, &trial, record, entry["skill_md"].as_str());
        }
        this
    }

    fn store(&self) -> StoreWriter {
        let results = self.folder.path().join("results");
        StoreWriter::open(&results, identity(), &BTreeMap::new())
            .expect("a store")
            .0
    }

    /// Writes a trial whose stamps are those of the store as it stands: solos come first.
    fn write(&self, store: &StoreWriter, trial: &Trial, record: Record, skill_md: Option<&str>) {
        let given = transfer().attachment(store, trial).expect("readable");
        let writer = store.begin(trial).expect("begun");
        if record.error.is_none() && record.skipped.is_none() {
            let files = skill_md.map(|text| ("/app/SKILL.md", text.as_bytes()));
            writer
                .write_artifacts(&files.into_iter().collect::<Vec<_>>())
                .expect("written");
        }
        let stamps = Stamps {
            task_fingerprint: self.fingerprints[&trial.task()].clone(),
            skill_sha256: given.as_deref().map(skill::digest),
        };
        writer
            .finish(record, stamps, &BTreeMap::new())
            .expect("finished");
    }

    fn plan(&self, selection: &Selection) -> Plan {
        let versions = BTreeMap::new();
        let now = Circumstances {
            fingerprints: &self.fingerprints,
            transfer: transfer(),
            versions: &versions,
        };
        let trials = selection.trials(&self.catalog).expect("some");
        Plan::make(&self.store(), trials, now).expect("a plan")
    }

    /// Makes the change that a golden case names.
    fn change(&mut self, what: &str) {
        let store = self.store();
        let p72 = common::trial("72_gdn_decode_qwen3next_bf16", 1, "solo_tirx");
        match what {
            "none" => {}
            "the fingerprint of task 01_gqa_paged_decode_h32_kv8_d128_ps1_bf16_tirx" => {
                let task =
                    common::trial("01_gqa_paged_decode_h32_kv8_d128_ps1_bf16", 1, "solo_tirx")
                        .task();
                self.fingerprints.insert(task, "changed".to_owned());
            }
            "p28 solo_cutedsl has a SKILL.md that is not blank" => {
                let problem = "28_fused_add_rmsnorm_h4096_llama31_8b_bf16";
                let trial = common::trial(problem, 1, "solo_cutedsl");
                let path = store.trial_folder(&trial).join("artifacts/app/SKILL.md");
                fs::write(path, "One pass: 0.75x.\n").expect("written");
            }
            "the text of p01 solo_tirx's SKILL.md" => {
                let problem = "01_gqa_paged_decode_h32_kv8_d128_ps1_bf16";
                let trial = common::trial(problem, 1, "solo_tirx");
                let path = store.trial_folder(&trial).join("artifacts/app/SKILL.md");
                fs::write(path, "Draw 1 differed in 4 elements.\n").expect("written");
            }
            "p72 solo_tirx's record holds an error" => {
                let path = store.trial_folder(&p72).join("record.json");
                let text = fs::read_to_string(&path).expect("read");
                let mut record: Value = serde_json::from_str(&text).expect("json");
                record["error"] = json!("AgentSetupTimeoutError: slow");
                fs::write(path, record.to_string()).expect("written");
            }
            "p72 solo_tirx's record.json is gone" => {
                fs::remove_file(store.trial_folder(&p72).join("record.json")).expect("removed");
            }
            other => panic!("the golden file has a change that this test cannot make: {other}"),
        }
    }
}

#[test]
fn all_plans_of_the_golden_store_are_as_worked_out() {
    let golden = golden_file();
    let cases = golden["plans"].as_array().expect("plans");
    assert_eq!(cases.len(), 8);
    for case in cases {
        let mut world = Golden::new();
        let change = case["change"].as_str().expect("text");
        world.change(change);
        let replicates = case["replicates"].as_u64().expect("a count") as u32;
        let plan = world.plan(&selection(
            case["trials"].as_str().expect("text"),
            replicates,
        ));
        for (status, count) in case["counts"].as_object().expect("counts") {
            let of_status = Status::ALL.into_iter().find(|s| s.to_string() == *status);
            let actual = plan.count(of_status.expect("a status"));
            assert_eq!(json!(actual), *count, "{change}: {status}");
        }
        let not_reused: serde_json::Map<String, Value> = plan
            .trials
            .iter()
            .filter(|t| t.trial.replicate == 1 && t.status != Status::Reuse)
            .map(|t| (t.trial.coordinate().to_string(), json!(t.status)))
            .collect();
        assert_eq!(Value::Object(not_reused), case["not_reused"], "{change}");
    }
}

#[test]
fn a_plan_prints_counts_then_what_is_stale_and_in_full_what_would_run() {
    let mut world = Golden::new();
    world.change("the text of p01 solo_tirx's SKILL.md");
    let plan = world.plan(&selection("*", 1));
    let stale = "  stale: p01_r1_tirx2cutedsl_skill \
                 [01_gqa_paged_decode_h32_kv8_d128_ps1_bf16_cutedsl]\n";
    let rerun = "  rerun: p72_r1_cutedsl2tirx_skill [72_gdn_decode_qwen3next_bf16_tirx]\n";
    let counts = "plan: 10 reuse, 0 run, 1 rerun, 1 stale\n";
    assert_eq!(plan.to_text(false), format!("{counts}{stale}"));
    assert_eq!(plan.to_text(true), format!("{counts}{stale}{rerun}"));
}

#[test]
fn trials_stand_by_problem_replicate_solos_and_then_directions() {
    let world = Golden::new();
    let plan = world.plan(&selection("*", 2));
    let names: Vec<String> = plan.trials[..8]
        .iter()
        .map(|t| t.trial.coordinate().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "p01_r1_solo_cutedsl",
            "p01_r1_solo_tirx",
            "p01_r1_cutedsl2tirx_skill",
            "p01_r1_tirx2cutedsl_skill",
            "p01_r2_solo_cutedsl",
            "p01_r2_solo_tirx",
            "p01_r2_cutedsl2tirx_skill",
            "p01_r2_tirx2cutedsl_skill",
        ]
    );
}

#[test]
fn a_skill_trial_brings_in_its_source_and_not_its_base() {
    let world = Golden::new();
    let plan = world.plan(&selection("p28_r1_cutedsl2tirx_skill", 1));
    let names: Vec<String> = plan
        .trials
        .iter()
        .map(|t| t.trial.coordinate().to_string())
        .collect();
    assert_eq!(names, ["p28_r1_solo_cutedsl", "p28_r1_cutedsl2tirx_skill"]);
}

#[test]
fn a_foreign_stores_attachment_is_checked_against_its_own_file() {
    let world = Golden::new();
    let store = world.store();
    let problem = "01_gqa_paged_decode_h32_kv8_d128_ps1_bf16";
    let trial = common::trial(problem, 1, "cutedsl2tirx_skill");
    let stored = store.record(&trial).expect("readable").expect("there");
    let foreign =
        "## Another heading\n\nAnother sentence.\n\nSplitting the sequence helped: 2.5x.\n";
    let writer = store.begin(&trial).expect("begun");
    writer.write_artifacts(&[]).expect("written");
    let stamps = Stamps {
        skill_sha256: Some(sha256_hex(foreign.as_bytes())),
        ..stored.stamps
    };
    writer
        .finish(stored.record, stamps, &BTreeMap::new())
        .expect("finished");
    drop(store);
    let status = |world: &Golden| {
        world
            .plan(&selection("p01_r1_cutedsl2tirx_skill", 1))
            .trials[1]
            .status
    };
    assert_eq!(status(&world), Status::Stale, "its attachment is not there");
    world
        .store()
        .write_attachment(&trial, foreign)
        .expect("written");
    assert_eq!(status(&world), Status::Reuse);
    let solo = common::trial(problem, 1, "solo_cutedsl");
    let skill = world
        .store()
        .trial_folder(&solo)
        .join("artifacts/app/SKILL.md");
    fs::write(skill, "Something else.\n").expect("written");
    assert_eq!(status(&world), Status::Stale);
}

#[test]
fn a_source_without_artifacts_is_an_error_that_names_the_folder() {
    let world = Golden::new();
    let problem = "01_gqa_paged_decode_h32_kv8_d128_ps1_bf16";
    let solo = common::trial(problem, 1, "solo_cutedsl");
    let artifacts = world.store().trial_folder(&solo).join("artifacts");
    fs::remove_dir_all(&artifacts).expect("removed");
    let versions = BTreeMap::new();
    let now = Circumstances {
        fingerprints: &world.fingerprints,
        transfer: transfer(),
        versions: &versions,
    };
    let trials = selection("*", 1).trials(&world.catalog).expect("some");
    let error = Plan::make(&world.store(), trials, now).expect_err("no artifacts");
    assert!(error.to_string().contains("artifacts: missing"), "{error}");
}

#[test]
fn what_the_virtual_gpu_lacks_is_held_until_its_version_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = common::catalog(&folder.path().join("problems"), &["moe/44_a"]);
    let fingerprints = mkb_protocol::run::fingerprints(&common::tasks(&catalog));
    let version = |v: &str| BTreeMap::from([("vgpu".to_owned(), v.to_owned())]);
    let open = || {
        StoreWriter::open(folder.path(), identity(), &BTreeMap::new())
            .expect("a store")
            .0
    };
    let trial = common::trial("44_a", 1, "solo_tirx");
    let store = open();
    let stamps = Stamps {
        task_fingerprint: fingerprints[&trial.task()].clone(),
        skill_sha256: None,
    };
    let record = Record::failed(mkb_protocol::plan::INCOMPLETE, "tcgen05.mma");
    let writer = store.begin(&trial).expect("begun");
    writer
        .finish(record, stamps, &version("1"))
        .expect("finished");
    let status = |v: &str| {
        let versions = version(v);
        let now = Circumstances {
            fingerprints: &fingerprints,
            transfer: transfer(),
            versions: &versions,
        };
        let trials = selection("*_solo_tirx", 1).trials(&catalog).expect("some");
        Plan::make(&store, trials, now).expect("a plan").trials[0].status
    };
    assert_eq!(status("1"), Status::Held);
    assert_eq!(status("2"), Status::Rerun);
}

#[test]
fn a_selection_that_selects_nothing_says_which_option() {
    let world = Golden::new();
    let error = |selection: &Selection| {
        selection
            .trials(&world.catalog)
            .expect_err("nothing")
            .to_string()
    };
    let mut wrong = selection("*", 1);
    wrong.families.insert("Attention".to_owned());
    assert!(error(&wrong).contains("no family \"Attention\"; there are attention,"));
    let mut wrong = selection("*", 1);
    wrong.problems = mkb_catalog::glob::Globs::new(["attention/*"]);
    assert!(error(&wrong).contains("--problems \"attention/*\""));
    assert!(error(&selection("P01*", 1)).contains("--trials \"P01*\""));
    assert!(error(&selection("*", 0)).contains("--replicates"));
}
