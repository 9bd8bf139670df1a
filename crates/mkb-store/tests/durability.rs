//! A store survives what happens to the process that writes it: a kill at any instant, and a disk
//! that takes no more.
//!
//! The writer is this test program itself, started again with a role in its environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use mkb_catalog::{Budget, DslSet, ProblemName, Rewards, Setting, Trial, Verdict};
use mkb_store::lines::{self, Repair};
use mkb_store::{
    Identity, Notice, Record, Stamps, Store, StoreError, StoreWriter, SubmissionEntry,
};
use serde_json::json;

const ROLE: &str = "MKB_STORE_TEST_ROLE";
const RESULTS: &str = "MKB_STORE_TEST_RESULTS";

fn identity() -> Identity {
    Identity {
        model: "vendor/Tiny Model:v1".to_owned(),
        setting: Setting::paper(),
        budget: Budget::PAPER,
    }
}

fn trial(replicate: u32) -> Trial {
    Trial {
        problem: ProblemName::parse("01_a").expect("a name"),
        replicate,
        arm: DslSet::builtin().parse_arm("solo_tirx").expect("an arm"),
    }
}

fn open(results: &Path) -> (StoreWriter, Vec<Notice>) {
    StoreWriter::open(results, identity(), &BTreeMap::new()).expect("opened")
}

fn entry(n: usize) -> SubmissionEntry {
    SubmissionEntry {
        id: format!("17000000000000000{n}"),
        elapsed_sec: 1.5,
        counted: true,
        rewards: Some(Rewards::graded(true, true, Some(2.0))),
        note: None,
        wall_sec: Some(0.5),
        eval_sec: Some(0.4),
    }
}

fn stamps() -> Stamps {
    Stamps {
        task_fingerprint: "f".repeat(64),
        skill_sha256: None,
    }
}

/// Writes a whole trial: three submissions, artifacts, a verdict, a record.
fn write_trial(store: &StoreWriter, replicate: u32, kernel: &[u8]) -> Result<(), StoreError> {
    let verdict = Verdict {
        rewards: Rewards::graded(true, true, Some(2.0)),
        report: "correct: 5/5\n".to_owned(),
        ..Verdict::default()
    };
    let writer = store.begin(&trial(replicate))?;
    for n in 0..3 {
        writer.keep_submission(
            kernel,
            Some(&verdict),
            &[("tape.bin.zst".into(), vec![7; 64])],
        )?;
        writer.log_submission(&entry(n))?;
    }
    writer.write_artifacts(&[
        ("/app/kernel.py", kernel),
        ("/app/SKILL.md", b"It helped: 2x.\n"),
    ])?;
    writer.write_verdict(&verdict, &[])?;
    let record = Record {
        rewards: verdict.rewards.clone(),
        ..Record::default()
    };
    writer.finish(record, stamps(), &BTreeMap::new())
}

/// What this program does when it was started as the writer. In an ordinary run there is no role,
/// and the other tests do the checking.
#[test]
fn writer_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let results = std::env::var(RESULTS).expect("a results folder");
    let results = Path::new(&results);
    match role.as_str() {
        "forever" => {
            let (store, _) = open(results);
            for replicate in 1.. {
                if store.record(&trial(replicate)).expect("readable").is_some() {
                    continue;
                }
                store
                    .append_invocation(&json!({ "begins": replicate }))
                    .expect("logged");
                write_trial(&store, replicate, b"def solve(): pass\n").expect("written");
                println!("done {replicate}");
            }
        }
        "until-full" => {
            let (store, _) = open(results);
            write_trial(&store, 1, b"def solve(): pass\n").expect("small enough");
            let error = write_trial(&store, 2, &vec![b'#'; 1 << 20]).expect_err("too large");
            println!("kernel: {error}");
            let error = (0..10_000)
                .find_map(|n| store.append_invocation(&json!({ "begins": n })).err())
                .expect("the log fills up");
            println!("log: {error}");
        }
        role => panic!("no such role: {role}"),
    }
}

fn writer(role: &str, results: &Path, shell: &str) -> Child {
    let program = std::env::current_exe().expect("this program");
    Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
        .arg(program)
        .args([
            "--exact",
            "writer_process",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ROLE, role)
        .env(RESULTS, results)
        .stdout(Stdio::piped())
        .spawn()
        .expect("spawned")
}

#[test]
fn nothing_finished_is_lost_and_nothing_half_written_is_believed_after_a_kill() {
    let results = tempfile::tempdir().expect("a folder");
    let mut done: Vec<u32> = Vec::new();
    let mut noticed = 0;
    for round in 0..30_u64 {
        let mut child = writer("forever", results.path(), "");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, finished) = mpsc::channel::<u32>();
        let reader = std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            for line in lines {
                if let Some(number) = line.strip_prefix("done ") {
                    let _ = sender.send(number.parse().expect("a number"));
                }
            }
        });
        // Every other round lets a trial finish first, so that there is something to lose.
        if round % 2 == 0 {
            done.extend(finished.recv());
        }
        std::thread::sleep(Duration::from_micros((round * 7_919) % 40_000));
        child.kill().expect("killed");
        child.wait().expect("waited");
        reader.join().expect("no panic");
        done.extend(finished.try_iter());

        let (store, notices) = open(results.path());
        noticed += notices.len();
        for &replicate in &done {
            let stored = store.record(&trial(replicate)).expect("readable");
            assert!(stored.is_some(), "round {round}: trial {replicate} is lost");
        }
        for replicate in store.replicates(&trial(1).problem).expect("listed") {
            let this = trial(replicate);
            let Some(stored) = store.record(&this).expect("never half a record") else {
                continue;
            };
            assert!(stored.record.passed());
            assert_eq!(store.submissions(&this).expect("whole lines").len(), 3);
            assert!(
                store
                    .artifact(&this, "/app/kernel.py")
                    .expect("kept")
                    .is_some()
            );
            assert!(store.verdict(&this).expect("whole").is_some());
        }
        store.invocations().expect("whole lines");
    }
    assert!(done.len() >= 15);
    assert!(noticed >= 15, "a killed writer leaves its lock at least");
}

#[test]
fn a_full_disk_is_said_and_costs_nothing_that_was_finished() {
    let results = tempfile::tempdir().expect("a folder");
    // A limit on file size (32 to 64 KiB, by shell) stands for the full disk: writes succeed in
    // part, then fail.
    let child = writer("until-full", results.path(), "trap '' XFSZ; ulimit -f 64;");
    let output = child.wait_with_output().expect("waited");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("kernel.py: File too large"), "{text}");
    assert!(text.contains("invocations.jsonl: File too large"), "{text}");

    let (store, notices) = open(results.path());
    assert_eq!(notices, [], "nothing half-written is left behind");
    assert!(store.record(&trial(1)).expect("readable").is_some());
    assert!(store.record(&trial(2)).expect("readable").is_none());
    assert!(store.invocations().expect("whole lines").len() > 100);
}

#[test]
fn a_torn_line_and_a_leftover_file_are_mended_and_said() {
    let results = tempfile::tempdir().expect("a folder");
    drop(open(results.path()));
    let folder = results.path().join("Tiny-Model-v1");
    fs::write(folder.join("invocations.jsonl"), "{\"a\": 1}\n{\"a\": ").expect("torn");
    fs::write(folder.join("results.json.999999999.tmp"), "{").expect("leftover");
    let (store, notices) = open(results.path());
    assert_eq!(
        notices,
        [
            Notice::Swept {
                path: folder.join("results.json.999999999.tmp")
            },
            Notice::Repaired {
                path: folder.join("invocations.jsonl"),
                repair: Repair::Dropped { bytes: 6 }
            },
        ]
    );
    store.append_invocation(&json!({"a": 2})).expect("logged");
    assert_eq!(store.invocations().expect("whole").len(), 2);
}

#[test]
fn a_store_of_another_model_device_or_budget_is_refused() {
    let results = tempfile::tempdir().expect("a folder");
    drop(open(results.path()));
    let other_model = Identity {
        model: "other/Tiny Model:v1".to_owned(),
        ..identity()
    };
    let error = Store::open(results.path(), other_model).expect_err("another model");
    assert!(
        error.to_string().contains("model vendor/Tiny Model:v1"),
        "{error}"
    );
    let mut longer = identity();
    longer.budget.wall_sec *= 2;
    let error = Store::open(results.path(), longer).expect_err("another budget");
    assert!(
        error
            .to_string()
            .contains("budget 2400 s and 10 submissions, not 4800 s"),
        "{error}"
    );
    // Another device has a folder of its own; a store that was moved onto it is found out.
    let mut other_device = identity();
    other_device.setting.device = "h200".to_owned();
    let folder = results.path().join(other_device.folder().expect("a slug"));
    fs::rename(results.path().join("Tiny-Model-v1"), &folder).expect("moved");
    let error = Store::open(results.path(), other_device).expect_err("another device");
    assert!(
        error.to_string().contains("device b200, not h200"),
        "{error}"
    );
}

#[test]
fn a_store_of_a_later_schema_is_refused() {
    let results = tempfile::tempdir().expect("a folder");
    let folder = results.path().join("Tiny-Model-v1");
    fs::create_dir_all(&folder).expect("mkdir");
    let stored = json!({"model": "vendor/Tiny Model:v1", "schema": 99});
    fs::write(folder.join("store.json"), stored.to_string()).expect("written");
    assert!(matches!(
        Store::open(results.path(), identity()),
        Err(StoreError::LaterSchema { stored: 99, .. })
    ));
}

#[test]
fn other_versions_are_said_when_a_store_is_opened_again() {
    let results = tempfile::tempdir().expect("a folder");
    let versions = |torch: &str| BTreeMap::from([("torch".to_owned(), torch.to_owned())]);
    let open = |torch| StoreWriter::open(results.path(), identity(), &versions(torch));
    assert_eq!(open("2.13.0").expect("opened").1, []);
    assert_eq!(open("2.13.0").expect("opened").1, []);
    let notices = open("2.14.0").expect("opened").1;
    let differences = vec![("torch".to_owned(), "2.13.0".to_owned(), "2.14.0".to_owned())];
    assert_eq!(notices, [Notice::OtherVersions { differences }]);
}

#[test]
fn two_writers_at_once_are_refused() {
    let results = tempfile::tempdir().expect("a folder");
    let (store, _) = open(results.path());
    let second = StoreWriter::open(results.path(), identity(), &BTreeMap::new());
    assert!(matches!(second, Err(StoreError::Locked { .. })));
    drop(store);
    open(results.path());
}

#[test]
fn an_attempt_begins_in_an_empty_folder_and_the_old_one_is_archived() {
    let results = tempfile::tempdir().expect("a folder");
    let (store, _) = open(results.path());
    for _ in 0..3 {
        write_trial(&store, 1, b"a").expect("written");
    }
    store
        .archive(&trial(1))
        .expect("archived")
        .expect("there was a folder");
    assert_eq!(store.archive(&trial(1)).expect("nothing there"), None);
    let archived: Vec<_> = fs::read_dir(store.folder().join("archive"))
        .expect("listed")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    assert_eq!(archived.len(), 3, "{archived:?}");
    for name in archived {
        let (stamp, rest) = name.split_at(22);
        assert!(rest.starts_with("683ef0_p01_r1_solo_tirx"), "{name}");
        assert_eq!((&stamp[10..12], &stamp[20..]), ("__", "__"), "{name}");
    }
}

#[test]
fn the_files_lie_where_the_formats_say_and_read_as_they_say() {
    let results = tempfile::tempdir().expect("a folder");
    let (store, _) = open(results.path());
    write_trial(&store, 1, b"def solve(): pass\n").expect("written");
    let folder = results
        .path()
        .join("Tiny-Model-v1/problems/01_a/683ef0_p01_r1_solo_tirx");
    for file in [
        "record.json",
        "verdict.json",
        "submissions.jsonl",
        "artifacts/app/kernel.py",
        "artifacts/app/SKILL.md",
        "submissions/1/kernel.py",
        "submissions/3/report.txt",
        "submissions/3/verdict.json",
        "submissions/3/tape.bin.zst",
    ] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    let record = fs::read_to_string(folder.join("record.json")).expect("read");
    assert!(
        record.starts_with("{\n  \"rewards\": {\n    \"imported\": 1.0,"),
        "{record}"
    );
    assert!(
        record.ends_with("\"skill_sha256\": null\n  }\n}"),
        "{record}"
    );
    let lines = lines::read(&folder.join("submissions.jsonl")).expect("lines");
    assert_eq!(lines[0]["counted"], json!(true));
    let kept = store.kept_submissions(&trial(1)).expect("kept");
    let numbers: Vec<usize> = kept.iter().map(|kept| kept.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(kept[0].kernel, b"def solve(): pass\n");
    assert!(kept[0].verdict.as_ref().is_some_and(|v| v.rewards.passed()));
    let identity = store.identity_file().expect("readable").expect("there");
    let keys: Vec<&String> = identity.as_object().expect("an object").keys().collect();
    assert_eq!(keys[..3], ["model", "prefix", "created_at"]);
}
