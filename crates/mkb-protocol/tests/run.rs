//! Convergence: what runs, in which order, what is kept, and what another run finds.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Scripted, WAITED_SEC, World, leaves, selection, trial};
use mkb_agent::Left;
use mkb_catalog::{DslSet, Rewards};
use mkb_protocol::{Arms, AttemptFailure, AttemptOutcome, Event, RunError, Selection};
use serde_json::Value;

fn finished(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Finished { trial, .. } => Some(trial.clone()),
            _ => None,
        })
        .collect()
}

fn left(events: &[Event]) -> Vec<(String, String)> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Left { trial, why, .. } => Some((trial.clone(), why.clone())),
            _ => None,
        })
        .collect()
}

#[test]
fn a_whole_run_records_every_trial_and_a_second_one_nothing() {
    let world = World::new(&["moe/44_a", "attention/01_b"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    let (summary, events) = world.run(&selection("*", 2), &agent);
    let summary = summary.expect("converged");
    assert_eq!((summary.recorded, summary.errors, summary.left), (16, 0, 0));
    assert_eq!((summary.resolved, summary.total), (8, 8));
    assert_eq!(finished(&events).len(), 16);
    assert_eq!(agent.calls().len(), 16);
    let results = fs::read_to_string(world.store().results_path()).expect("read");
    let results: Value = serde_json::from_str(&results).expect("json");
    assert_eq!(results["overall"]["n_resolved"], 8);
    assert_eq!(results["overall"]["base"]["R@2"], 1);

    let (summary, events) = world.run(&selection("*", 2), &agent);
    assert_eq!(summary.expect("converged").recorded, 0);
    assert_eq!(agent.calls().len(), 16, "nothing finished is redone");
    assert!(matches!(
        events.last(),
        Some(Event::Snapshot { resolved: 8, .. })
    ));
    assert_eq!(
        world.store().invocations().expect("log").len(),
        1,
        "nothing ran: no line"
    );
}

#[test]
fn solos_stand_before_the_skills_that_need_them() {
    let mut world = World::new(&["moe/44_a"]);
    world.concurrent = 10;
    let agent = Scripted::new(&|name, _| {
        Ok(leaves(if name.contains("cutedsl") {
            "3.0"
        } else {
            "1.5"
        }))
    });
    let (summary, events) = world.run(&selection("*", 3), &agent);
    summary.expect("converged");
    let mut seen = BTreeSet::new();
    for event in &events {
        match event {
            Event::Finished { trial, .. } => {
                seen.insert(trial.clone());
            }
            Event::Started { trial, .. } if trial.ends_with("_skill") => {
                let arm = trial.splitn(3, '_').nth(2).expect("an arm");
                let dsl = arm.split('2').next().expect("a source");
                let source = format!("{}_solo_{dsl}", &trial[..6]);
                assert!(
                    seen.contains(&source),
                    "{trial} began before {source} ended"
                );
            }
            _ => {}
        }
    }
    let attachments = agent.attachments.lock().expect("attachments");
    assert_eq!(
        attachments.len(),
        6,
        "skill attempts alone are given something"
    );
    let given = &attachments["p44_r2_cutedsl2tirx_skill"];
    assert!(given.ends_with("It ran at 3.0x.\n"), "{given}");
    let store = world.store();
    let kept = store.attachment(&trial("44_a", 2, "cutedsl2tirx_skill"));
    assert_eq!(kept.expect("readable").as_deref(), Some(given.as_bytes()));
}

#[test]
fn as_many_trials_are_in_flight_as_was_said() {
    for concurrent in [1, 3] {
        let mut world = World::new(&["moe/44_a", "attention/01_b"]);
        world.concurrent = concurrent;
        let mut agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
        agent.takes = Duration::from_millis(30);
        world
            .run(&selection("*_solo_*", 2), &agent)
            .0
            .expect("converged");
        assert_eq!(agent.most_in_flight.load(Ordering::SeqCst), concurrent);
    }
}

#[test]
fn a_trial_that_fails_fails_alone_and_its_skill_waits_for_the_next_run() {
    let world = World::new(&["moe/44_a"]);
    let fails = |name: &str, _: usize| match name {
        "p44_r1_solo_tirx" => Err(AttemptFailure::of_kind("SetupError", "no such image")),
        _ => Ok(leaves("2.0")),
    };
    let agent = Scripted::new(&fails);
    let (summary, events) = world.run(&selection("*", 1), &agent);
    let summary = summary.expect("converged");
    assert_eq!((summary.recorded, summary.errors, summary.left), (3, 1, 1));
    assert_eq!(left(&events)[0].0, "p44_r1_tirx2cutedsl_skill");
    let store = world.store();
    let record = store
        .record(&trial("44_a", 1, "solo_tirx"))
        .expect("readable");
    let record = record.expect("an error is recorded too").record;
    assert_eq!(record.error.as_deref(), Some("SetupError: no such image"));
    assert!(record.rewards.is_empty() && record.usage.is_none());
    let waiting = store.record(&trial("44_a", 1, "tirx2cutedsl_skill"));
    assert!(waiting.expect("readable").is_none());
    drop(store);

    // The next run takes up exactly those two.
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    let (summary, _) = world.run(&selection("*", 1), &agent);
    assert_eq!(summary.expect("converged").resolved, 2);
    assert_eq!(
        agent.calls(),
        ["p44_r1_solo_tirx", "p44_r1_tirx2cutedsl_skill"]
    );
}

#[test]
fn of_many_trials_only_the_three_without_a_record_run_again() {
    let world = World::new(&["moe/44_a"]);
    let broken = [
        "p44_r7_solo_tirx",
        "p44_r10_solo_cutedsl",
        "p44_r20_solo_tirx",
    ];
    let fails = |name: &str, _: usize| match broken.contains(&name) {
        true => panic!("the driver's own fault"),
        false => Ok(leaves("2.0")),
    };
    let agent = Scripted::new(&fails);
    let (summary, events) = world.run(&selection("*_solo_*", 20), &agent);
    let summary = summary.expect("converged");
    assert_eq!((summary.recorded, summary.left), (37, 3));
    assert!(
        left(&events)
            .iter()
            .all(|(_, why)| why.contains("the driver's own fault"))
    );
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    world
        .run(&selection("*_solo_*", 20), &agent)
        .0
        .expect("converged");
    let mut calls = agent.calls();
    calls.sort_by_key(|name| broken.iter().position(|b| b == name));
    assert_eq!(calls, broken);
}

#[test]
fn transient_failures_are_tried_three_times_thirty_seconds_apart() {
    let world = World::new(&["moe/44_a"]);
    let fails = |name: &str, call: usize| match (name, call) {
        ("p44_r1_solo_tirx", 1 | 2) => Err(AttemptFailure::of_kind("RateLimitError", "slow down")),
        ("p44_r1_solo_cutedsl", _) => Err(AttemptFailure::of_kind("APIError", "down")),
        _ => Ok(leaves("2.0")),
    };
    let agent = Scripted::new(&fails);
    let waited = WAITED_SEC.load(Ordering::SeqCst);
    let (summary, events) = world.run(&selection("*_solo_*", 1), &agent);
    assert_eq!(summary.expect("converged").errors, 1);
    assert_eq!(agent.calls().len(), 6);
    // Other tests of this program wait too, so at least.
    assert!(WAITED_SEC.load(Ordering::SeqCst) - waited >= 4 * 30);
    let retries = events
        .iter()
        .filter(|e| matches!(e, Event::Retrying { wait_sec: 30, .. }));
    assert_eq!(retries.count(), 4);
    // Each try is a new attempt in a new folder: the two before it are in the archive.
    let archive = world.store().folder().join("archive");
    assert_eq!(fs::read_dir(archive).expect("listed").count(), 4);
    let store = world.store();
    let log = store
        .submissions(&trial("44_a", 1, "solo_tirx"))
        .expect("log");
    assert_eq!(log.len(), 1, "only the last attempt's submission stands");
}

#[test]
fn a_judge_that_fails_is_tried_again_and_then_recorded_as_an_error() {
    let world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("judge down")));
    let (summary, events) = world.run(&selection("*_solo_tirx", 1), &agent);
    assert_eq!(summary.expect("converged").errors, 1);
    assert_eq!(agent.calls().len(), 1, "the attempt itself is not repeated");
    let gradings = events.iter().filter(|e| matches!(e, Event::Grading { .. }));
    assert_eq!(gradings.count(), 3);
    let store = world.store();
    let this = trial("44_a", 1, "solo_tirx");
    let record = store
        .record(&this)
        .expect("readable")
        .expect("there")
        .record;
    assert_eq!(
        record.error.as_deref(),
        Some("JudgeFailure: no room in memory")
    );
    assert!(
        store.verdict(&this).expect("readable").is_none(),
        "never a number"
    );
    assert!(
        store
            .artifact(&this, "/app/kernel.py")
            .expect("kept")
            .is_some()
    );
}

#[test]
fn an_attempt_that_ran_out_of_time_is_graded_all_the_same() {
    let world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| {
        Ok(AttemptOutcome {
            timed_out: true,
            ..leaves("2.5")
        })
    });
    world
        .run(&selection("*_solo_tirx", 1), &agent)
        .0
        .expect("converged");
    let stored = world
        .store()
        .record(&trial("44_a", 1, "solo_tirx"))
        .expect("readable");
    let record = stored.expect("there").record;
    assert!(record.timed_out && record.passed());
    assert_eq!(record.rewards, Rewards::graded(true, true, Some(2.5)));
}

#[test]
fn an_attempt_without_a_kernel_or_with_too_large_a_one_is_resolved_and_failed() {
    let world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|name, _| {
        Ok(match name {
            "p44_r1_solo_tirx" => AttemptOutcome {
                kernel: Left::Nothing,
                ..leaves("1.0")
            },
            _ => AttemptOutcome {
                kernel: Left::TooLarge {
                    size: 300_001,
                    limit: 300_000,
                },
                ..leaves("1.0")
            },
        })
    });
    let (summary, _) = world.run(&selection("*", 1), &agent);
    assert_eq!(summary.expect("converged").resolved, 2);
    let store = world.store();
    for (arm, says) in [
        ("solo_tirx", "no /app/kernel.py"),
        ("solo_cutedsl", "300001 bytes"),
    ] {
        let this = trial("44_a", 1, arm);
        let record = store
            .record(&this)
            .expect("readable")
            .expect("there")
            .record;
        assert!(record.rewards.is_empty() && record.is_resolved() && !record.passed());
        assert!(record.usage.is_some());
        let verdict = store.verdict(&this).expect("readable").expect("there");
        assert!(verdict.report.contains(says), "{}", verdict.report);
    }
}

#[test]
fn a_final_kernel_that_is_not_python_has_failed_with_all_four_numbers() {
    let world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("unparsable")));
    world
        .run(&selection("*_solo_tirx", 1), &agent)
        .0
        .expect("converged");
    let this = trial("44_a", 1, "solo_tirx");
    let record = world
        .store()
        .record(&this)
        .expect("readable")
        .expect("there")
        .record;
    assert_eq!(record.rewards, Rewards::graded(false, false, None));
    assert!(record.is_resolved());
}

#[test]
fn what_the_virtual_gpu_does_not_model_is_an_error_that_names_it_and_is_not_run_in_vain() {
    let mut world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("unmodelled")));
    let selection = selection("*_solo_tirx", 1);
    world.run(&selection, &agent).0.expect("converged");
    let this = trial("44_a", 1, "solo_tirx");
    let record = world
        .store()
        .record(&this)
        .expect("readable")
        .expect("there")
        .record;
    assert_eq!(
        record.error.as_deref(),
        Some("Incomplete: tcgen05.mma at kernel.py:7")
    );
    world.run(&selection, &agent).0.expect("converged");
    assert_eq!(
        agent.calls().len(),
        1,
        "the same version would say the same"
    );
    world.versions.insert("vgpu".to_owned(), "2".to_owned());
    world.run(&selection, &agent).0.expect("converged");
    assert_eq!(agent.calls().len(), 2);
}

#[test]
fn figures_over_trials_of_several_versions_say_so() {
    let mut world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    world
        .run(&selection("*_solo_tirx", 1), &agent)
        .0
        .expect("converged");
    world.versions.insert("vgpu".to_owned(), "2".to_owned());
    world
        .run(&selection("*_solo_*", 1), &agent)
        .0
        .expect("converged");
    let text = fs::read_to_string(world.store().folder().join("paired.json")).expect("read");
    let paired: Value = serde_json::from_str(&text).expect("json");
    assert_eq!(paired["versions"]["vgpu"], serde_json::json!(["1", "2"]));
}

#[test]
fn a_blank_skill_is_recorded_as_skipped_and_runs_once_there_is_one() {
    let world = World::new(&["moe/44_a"]);
    let blank = Scripted::new(&|_, _| {
        Ok(AttemptOutcome {
            skill: Left::File(b" \n\t\n".to_vec()),
            ..leaves("2.0")
        })
    });
    let (summary, _) = world.run(&selection("*", 1), &blank);
    assert_eq!(summary.expect("converged").resolved, 2);
    assert_eq!(blank.calls().len(), 2, "no skill attempt");
    let this = trial("44_a", 1, "cutedsl2tirx_skill");
    let stored = world
        .store()
        .record(&this)
        .expect("readable")
        .expect("there");
    assert!(stored.record.skipped.is_some() && stored.stamps.skill_sha256.is_none());
}

#[test]
fn a_changed_skill_makes_what_it_was_given_to_stale_and_blocks_until_said() {
    let mut world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    world.run(&selection("*", 1), &agent).0.expect("converged");
    let solo = trial("44_a", 1, "solo_cutedsl");
    let path = world
        .store()
        .trial_folder(&solo)
        .join("artifacts/app/SKILL.md");
    // A learning store that was emptied, or a skill that was edited: never mixed with old results.
    fs::write(&path, "").expect("written");
    let (blocked, _) = world.run(&selection("*", 1), &agent);
    let error = blocked.expect_err("stale");
    assert!(matches!(&error, RunError::Stale(stale) if stale == &["p44_r1_cutedsl2tirx_skill"]));
    assert!(error.to_string().contains("--rerun-stale"), "{error}");
    assert_eq!(agent.calls().len(), 4);
    world.rerun_stale = true;
    let (summary, _) = world.run(&selection("*", 1), &agent);
    assert_eq!(summary.expect("converged").recorded, 1);
    let this = trial("44_a", 1, "cutedsl2tirx_skill");
    let record = world
        .store()
        .record(&this)
        .expect("readable")
        .expect("there")
        .record;
    assert!(record.skipped.is_some(), "nothing is left to transfer");
}

#[test]
fn a_changed_task_redoes_its_solo_and_the_skills_made_from_it() {
    let mut world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    world.run(&selection("*", 1), &agent).0.expect("converged");
    let task = trial("44_a", 1, "solo_tirx").task();
    let files = world.tasks.get_mut(&task).expect("a task");
    files.insert("instruction.md", "Solve it otherwise.\n");
    world.rerun_stale = true;
    let agent = Scripted::new(&|_, _| Ok(leaves("3.0")));
    world.run(&selection("*", 1), &agent).0.expect("converged");
    let calls: BTreeSet<String> = agent.calls().into_iter().collect();
    let expected = [
        "p44_r1_cutedsl2tirx_skill",
        "p44_r1_solo_tirx",
        "p44_r1_tirx2cutedsl_skill",
    ];
    assert_eq!(calls, expected.map(str::to_owned).into());
    let archived = fs::read_dir(world.store().folder().join("archive")).expect("listed");
    assert_eq!(archived.count(), 3);
}

#[test]
fn a_stopped_run_keeps_what_was_finished_and_the_next_one_does_the_rest() {
    let mut world = World::new(&["moe/44_a"]);
    world.concurrent = 1;
    let cancel = world.cancel.clone();
    let done = AtomicUsize::new(0);
    let script = |_: &str, _: usize| {
        if done.fetch_add(1, Ordering::SeqCst) == 1 {
            cancel.cancel();
            return Err(AttemptFailure::of_kind("Cancelled", "as asked"));
        }
        Ok(leaves("2.0"))
    };
    let agent = Scripted::new(&script);
    let (summary, events) = world.run(&selection("*", 1), &agent);
    let summary = summary.expect("ended in order");
    assert_eq!((summary.recorded, summary.errors, summary.left), (1, 0, 3));
    assert_eq!(finished(&events), ["p44_r1_solo_cutedsl"]);
    world.cancel = mkb_catalog::Cancel::new();
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    let (summary, _) = world.run(&selection("*", 1), &agent);
    assert_eq!(summary.expect("converged").recorded, 3);
}

#[test]
fn control_arms_run_when_asked_and_leave_the_papers_numbers_alone() {
    let world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|name, _| {
        Ok(leaves(if name.ends_with("_wrong") {
            "0.5"
        } else {
            "2.0"
        }))
    });
    let arms = DslSet::builtin().all_arms();
    let all = Selection {
        arms: Arms::Some(arms.clone()),
        ..selection("*", 1)
    };
    let (summary, _) = world.run(&all, &agent);
    assert_eq!(summary.expect("converged").recorded, arms.len());
    let given = |arm: &str| {
        agent.attachments.lock().expect("attachments")[&format!("p44_r1_{arm}")].clone()
    };
    assert!(given("cutedsl2tirx_wrong").ends_with("Not so: It ran at 2.0x.\n"));
    assert!(given("cutedsl2tirx_placebo").ends_with("The attempt went well.\n"));
    assert!(given("cutedsl2tirx_code").contains("```python\n2.0\n```"));
    assert!(given("tirx2tirx_skill").contains("the same kernel DSL"));
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(world.store().folder().join(name)).expect("read");
        serde_json::from_str(&text).expect("json")
    };
    let usage = &read("results.json")["overall"]["usage"];
    assert_eq!(usage.as_object().expect("arms").len(), 4);
    let paired = read("paired.json");
    let lift =
        |transfer: &str| paired["transfers"][transfer]["overall"]["paired_lift_percent"].as_f64();
    assert_eq!(lift("skill"), Some(0.0));
    assert!((lift("wrong").expect("compared") + 75.0).abs() < 1e-9);
    assert_eq!(lift("placebo"), Some(0.0));
    assert_eq!(paired["noise"]["n_pairs"], 2);
}

#[test]
fn every_submission_and_the_final_evidence_are_kept() {
    let world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    world
        .run(&selection("*_solo_tirx", 1), &agent)
        .0
        .expect("converged");
    let folder = world.store().trial_folder(&trial("44_a", 1, "solo_tirx"));
    for file in [
        "submissions/1/kernel.py",
        "submissions/1/report.txt",
        "submissions/1/verdict.json",
        "submissions/1/tape.bin.zst",
        "final/tape.bin.zst",
        "verdict.json",
        "provenance.json",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
}

#[test]
fn the_invocation_log_has_the_formats_keys_in_order() {
    let world = World::new(&["moe/44_a"]);
    let agent = Scripted::new(&|_, _| Ok(leaves("2.0")));
    world
        .run(&selection("*_solo_tirx", 1), &agent)
        .0
        .expect("converged");
    let log = world.store().invocations().expect("log");
    let keys: Vec<&str> = log[0]
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [
            "started_at",
            "model",
            "categories",
            "problems",
            "trials",
            "n_replicates",
            "n_concurrent",
            "rerun_stale",
            "harbor_version",
            "commit",
            "plan"
        ]
    );
    assert_eq!(
        log[0]["plan"].to_string(),
        r#"{"reuse":0,"run":1,"rerun":0,"stale":0}"#
    );
}

#[test]
fn agents_draw_from_another_seed_in_each_trial_and_the_same_in_each_run() {
    use mkb_protocol::trial::seed;
    let one = trial("44_a", 1, "solo_tirx");
    let seeds: BTreeSet<u64> = (1..=20)
        .flat_map(|replicate| {
            ["solo_tirx", "solo_cutedsl"].map(|arm| seed(1, &trial("44_a", replicate, arm)))
        })
        .chain([seed(2, &one)])
        .collect();
    assert_eq!(seeds.len(), 41);
    assert_eq!(seed(1, &one), seed(1, &one));
}
