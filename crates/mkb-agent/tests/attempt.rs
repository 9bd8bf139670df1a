//! Whole attempts in real sandboxes, with a grader that answers at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mkb_agent::{
    Agent, AttemptConfig, AttemptEnd, AttemptError, Left, Nop, Oracle, Replay, Served, Stop, World,
    assets, attempt,
};
use mkb_catalog::{Budget, Cancel, GradeFailure, Graded, Grader, Purpose, Rewards, Verdict};
use mkb_sandbox::{Isolation, Limits, View};

/// Passes everything with a speedup of 3; a kernel that begins with `# later` takes two seconds,
/// one with `# slow` until it is cancelled.
#[derive(Default)]
struct Passes {
    calls: AtomicU32,
}

impl Grader for Passes {
    fn grade(&self, kernel: &[u8], _: Purpose, cancel: &Cancel) -> Result<Graded, GradeFailure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if kernel.starts_with(b"# later") {
            sleep(Duration::from_secs(2));
        }
        while kernel.starts_with(b"# slow") {
            if cancel.is_cancelled() {
                return Err(GradeFailure::Cancelled);
            }
            sleep(Duration::from_millis(5));
        }
        let verdict = Verdict {
            rewards: Rewards::graded(true, true, Some(3.0)),
            report: "imported: yes\nspeedup: 3.000".to_owned(),
            ..Verdict::default()
        };
        Ok(Graded::Evaluated {
            verdict,
            evidence: vec![],
        })
    }

    fn device(&self) -> String {
        "B200 (virtual)".to_owned()
    }
}

/// An agent that is a function.
struct Script<F>(F);

impl<F: Fn(&mut dyn World) -> Result<(), Stop> + Send + Sync> Agent for Script<F> {
    fn name(&self) -> String {
        "script".to_owned()
    }

    fn attempt(&self, world: &mut dyn World) -> Result<(), Stop> {
        (self.0)(world)
    }
}

const WHILE: Duration = Duration::from_secs(60);

struct Done {
    end: AttemptEnd,
    served: Vec<Served>,
    calls: u32,
}

/// What a sandbox must see, and be told, for `test.sh` to find a Python.
fn python() -> (Vec<PathBuf>, Vec<(String, String)>) {
    let common = ["/usr/bin/python3", "/usr/local/bin/python3"].map(PathBuf::from);
    let path = std::env::var("PATH").unwrap_or_default();
    let on_path = path
        .split(':')
        .map(|folder| Path::new(folder).join("python3"));
    let mut all = common.into_iter().chain(on_path);
    let python = all
        .find(|p| p.exists())
        .expect("these tests need a python3");
    let mut view = View::default();
    view.show_python(&python).expect("a Python");
    (
        view.read_only,
        vec![("MKB_PYTHON".to_owned(), python.display().to_string())],
    )
}

fn run_in(isolation: Isolation, seconds: u32, agent: &dyn Agent) -> Done {
    let state = tempfile::tempdir().expect("temporary folder");
    let grader = Arc::new(Passes::default());
    let (read_only, env) = python();
    let config = AttemptConfig {
        state: state.path().to_owned(),
        isolation,
        limits: Limits::attempt(),
        tests: assets::tests(),
        app: vec![("task.py".to_owned(), b"# the task\n".to_vec())],
        docs: vec![],
        read_only,
        env,
        instruction: "Solve it.".to_owned(),
        budget: Budget {
            wall_sec: seconds,
            submissions: 10,
        },
        grader: grader.clone(),
        look: Duration::from_millis(10),
        cancel: Cancel::new(),
    };
    let served = Mutex::new(Vec::new());
    let keep = |s| served.lock().expect("served").push(s);
    let end = attempt(agent, config, keep).expect("the attempt");
    assert_eq!(
        fs::read_dir(state.path()).expect("state").count(),
        0,
        "nothing stays"
    );
    let served = served.into_inner().expect("served");
    Done {
        end,
        served,
        calls: grader.calls.load(Ordering::SeqCst),
    }
}

fn run(agent: &dyn Agent) -> Done {
    run_in(Isolation::Namespaces, 120, agent)
}

#[test]
fn nop_leaves_nothing() {
    let done = run(&Nop);
    assert_eq!(
        (done.end.kernel, done.end.skill),
        (Left::Nothing, Left::Nothing)
    );
    assert_eq!(
        (done.served.len(), done.end.timed_out, done.calls),
        (0, false, 0)
    );
}

#[test]
fn the_oracle_submits_once_and_leaves_its_solution() {
    for isolation in [Isolation::Namespaces, Isolation::None] {
        let kernel = b"def solve(x):\n    return x\n".to_vec();
        let done = run_in(
            isolation,
            120,
            &Oracle {
                kernel: kernel.clone(),
            },
        );
        assert_eq!(done.end.kernel, Left::File(kernel.clone()));
        assert_eq!(done.served.len(), 1, "{isolation:?}");
        assert_eq!(done.served[0].kernel.as_ref(), Some(&kernel));
        let rewards = done.served[0].entry.rewards.clone().expect("rewards");
        assert_eq!(rewards.speedup(), 3.0);
        assert_eq!(done.end.submissions, 1);
    }
}

#[test]
fn a_replay_submits_and_leaves_what_was_recorded() {
    let agent = Replay {
        submissions: vec![b"a = 1\n".to_vec(), b"a = 2\n".to_vec()],
        kernel: Some(b"a = 3\n".to_vec()),
        skill: Some(b"One finding.\n".to_vec()),
    };
    let done = run(&agent);
    let kernels: Vec<_> = done
        .served
        .iter()
        .filter_map(|s| s.kernel.clone())
        .collect();
    assert_eq!(kernels, agent.submissions);
    assert_eq!(done.end.kernel, Left::File(b"a = 3\n".to_vec()));
    assert_eq!(done.end.skill, Left::File(b"One finding.\n".to_vec()));

    let done = run(&Replay {
        kernel: None,
        ..agent
    });
    assert_eq!(done.end.kernel, Left::Nothing);
}

#[test]
fn the_test_script_refuses_what_is_missing_empty_or_not_python() {
    let done = run(&Script(|world: &mut dyn World| {
        let mut submit = |kernel: Option<&[u8]>| {
            if let Some(kernel) = kernel {
                world.put("/app/kernel.py", kernel)?;
            }
            world.bash("bash /tests/test.sh", WHILE)
        };
        let cases: [(Option<&[u8]>, &str); 5] = [
            (None, "there is no"),
            (Some(b""), "is empty"),
            (Some(b"def solve(:\n"), "SyntaxError"),
            (Some(b"x = 1\0\n"), "not valid Python"),
            (Some(b"\xff\xfe\xfd"), "not valid Python"),
        ];
        for (kernel, word) in cases {
            let ran = submit(kernel)?;
            assert_eq!(ran.code, Some(1), "{}", ran.text);
            assert!(ran.text.contains(word), "{word}: {}", ran.text);
        }
        let ran = submit(Some(b"x = 1\n"))?;
        assert_eq!(ran.code, Some(0), "{}", ran.text);
        let lines: Vec<_> = ran.text.lines().collect();
        assert_eq!(lines[0], "submission 1 of 10, B200 (virtual), 0 s");
        assert!(
            lines[1].starts_with("9 submissions and 1 minutes left"),
            "{}",
            ran.text
        );
        assert_eq!(lines[2..], ["", "imported: yes", "speedup: 3.000"]);
        Ok(())
    }));
    assert_eq!((done.served.len(), done.calls), (1, 1));
}

#[test]
fn an_interrupted_wait_exits_with_2_and_the_report_still_comes() {
    let done = run(&Script(|world: &mut dyn World| {
        world.put("/app/kernel.py", b"# later\n")?;
        let ran = world.bash(
            "bash /tests/test.sh & pid=$!; sleep 0.5; kill -TERM $pid; wait $pid; echo code $?; \
             while ! cat /app/.submissions/*.result 2>/dev/null; do sleep 0.2; done",
            WHILE,
        )?;
        assert!(ran.text.contains("code 2"), "{}", ran.text);
        assert!(ran.text.contains("speedup: 3.000"), "{}", ran.text);
        Ok(())
    }));
    assert_eq!(done.end.submissions, 1);
}

#[test]
fn an_agent_out_of_time_keeps_its_kernel_and_the_running_evaluation_is_dropped() {
    let began = Instant::now();
    let done = run_in(
        Isolation::Namespaces,
        3,
        &Script(|world: &mut dyn World| {
            world.put("/app/kernel.py", b"# slow\nx = 1\n")?;
            world.bash("bash /tests/test.sh; sleep 100", WHILE)?;
            panic!("the time is over");
        }),
    );
    assert!(done.end.timed_out);
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(
        (2.9..60.0).contains(&done.end.agent_sec),
        "{}",
        done.end.agent_sec
    );
    assert_eq!(done.end.kernel, Left::File(b"# slow\nx = 1\n".to_vec()));
    assert_eq!(done.end.submissions, 0);
    assert_eq!(
        done.served[0].entry.note.as_deref(),
        Some("cancelled at agent end")
    );
}

#[test]
fn an_agent_that_writes_verdicts_itself_gains_nothing() {
    let done = run(&Script(|world: &mut dyn World| {
        let forged = r#"{"rewards": {"passed": 1.0, "speedup_vs_eager": 100.0}}"#;
        world.put("/app/verdict.json", forged.as_bytes())?;
        world.put("/app/.submissions/1.result", forged.as_bytes())?;
        let ran = world.bash(
            "for d in / /logs /logs/verifier /results /tests /app/.. /tmp/..; do \
             mkdir -p $d 2>/dev/null; echo 1 > $d/verdict.json; echo 1 > $d/reward.txt; \
             echo '{}' > $d/record.json; done 2>&1 | grep -vc 'Read-only\\|No such\\|denied'; \
             find / -name record.json -not -path '/proc/*' -not -path '/app/*' 2>/dev/null; \
             grep -rl speedup_vs_eager / --include=record.json --include=verdict.json 2>/dev/null",
            WHILE,
        )?;
        assert_eq!(
            ran.text, "0\n/app/verdict.json\n",
            "nowhere to write, nothing to find"
        );
        Ok(())
    }));
    assert_eq!((done.served.len(), done.calls), (0, 0));
    assert_eq!(done.end.kernel, Left::Nothing);
}

#[test]
fn a_command_that_ran_out_of_time_does_not_go_on() {
    run(&Script(|world: &mut dyn World| {
        let ran = world.bash(
            "(setsid sh -c 'trap \"\" TERM HUP; while :; do date +%s%N > /app/beat; sleep 0.05; \
             done' &); sleep 100",
            Duration::from_secs(1),
        )?;
        assert_eq!(ran.code, None);
        assert!(ran.text.contains("ran out of time"), "{}", ran.text);
        let beat = world.get("/app/beat", 100)?;
        sleep(Duration::from_millis(300));
        assert_eq!(world.get("/app/beat", 100)?, beat);
        assert!(beat.is_some());
        Ok(())
    }));
}

#[test]
fn a_kernel_over_the_limit_or_that_is_a_link_is_not_collected() {
    let done = run(&Script(|world: &mut dyn World| {
        world.bash(
            "head -c 300001 /dev/zero > /app/kernel.py; ln -s /etc/passwd SKILL.md",
            WHILE,
        )?;
        Ok(())
    }));
    assert_eq!(
        done.end.kernel,
        Left::TooLarge {
            size: 300_001,
            limit: 300_000
        }
    );
    assert_eq!(done.end.skill, Left::Nothing);
}

#[test]
fn the_clock_and_the_files_of_the_task_are_there() {
    run(&Script(|world: &mut dyn World| {
        let ran = world.bash(
            "cat task.py; echo '# mine' >> task.py && read -r start budget < .started; \
             echo $(( $(date +%s) - start < 30 )) $budget; echo x >> /tests/test.sh; \
             bash --rcfile /tests/clock.sh -i <<< 'echo hello' 2>&1 | grep min",
            WHILE,
        )?;
        assert!(ran.text.starts_with("# the task\n1 120\n"), "{}", ran.text);
        let refused = ["Read-only file system", "Permission denied"];
        assert!(refused.iter().any(|r| ran.text.contains(r)), "{}", ran.text);
        assert!(ran.text.contains("[0 min used, "), "{}", ran.text);
        assert_eq!(world.instruction(), "Solve it.");
        Ok(())
    }));
}

#[test]
fn an_agent_that_fails_is_named() {
    let state = tempfile::tempdir().expect("temporary folder");
    let config = AttemptConfig {
        state: state.path().to_owned(),
        isolation: Isolation::Namespaces,
        limits: Limits::attempt(),
        tests: vec![],
        app: vec![],
        docs: vec![],
        read_only: vec!["/no/such/environment".into()],
        env: vec![],
        instruction: String::new(),
        budget: Budget::PAPER,
        grader: Arc::new(Passes::default()),
        look: Duration::from_millis(10),
        cancel: Cancel::new(),
    };
    let agent = Script(|world: &mut dyn World| world.bash("true", WHILE).map(|_| ()));
    let error = attempt(&agent, config, |_| {})
        .expect_err("no environment")
        .to_string();
    assert!(
        error.contains("script") && error.contains("/no/such/environment"),
        "{error}"
    );
}

#[test]
fn a_cancelled_attempt_ends_at_once_with_what_it_runs() {
    let state = tempfile::tempdir().expect("temporary folder");
    let cancel = Cancel::new();
    let config = AttemptConfig {
        state: state.path().to_owned(),
        isolation: Isolation::Namespaces,
        limits: Limits::attempt(),
        tests: assets::tests(),
        app: vec![],
        docs: vec![],
        read_only: vec![],
        env: vec![],
        instruction: String::new(),
        budget: Budget::PAPER,
        grader: Arc::new(Passes::default()),
        look: Duration::from_millis(10),
        cancel: cancel.clone(),
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_millis(500));
            cancel.cancel();
        });
        let agent = Script(|world: &mut dyn World| {
            world.put("/app/kernel.py", b"# slow\nx = 1\n")?;
            world
                .bash("bash /tests/test.sh; sleep 100", WHILE)
                .map(|_| ())
        });
        let error = attempt(&agent, config, |_| {}).expect_err("cancelled");
        assert!(matches!(error, AttemptError::Cancelled), "{error}");
    });
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(fs::read_dir(state.path()).expect("state").count(), 0);
}
