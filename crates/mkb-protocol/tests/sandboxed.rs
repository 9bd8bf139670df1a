//! A run with real sandboxes: agents act through the shell and the mailbox, skills cross over.

mod common;

use std::time::Duration;

use common::{World, selection, trial};
use mkb_agent::{Agent, Stop};
use mkb_catalog::TaskSettings;
use mkb_protocol::Sandboxed;
use mkb_sandbox::{Isolation, Limits};

/// Submits once, looks around, and leaves a skill of what it saw.
struct Looker;

impl Agent for Looker {
    fn name(&self) -> String {
        "looker".to_owned()
    }

    fn attempt(&self, world: &mut dyn mkb_agent::World) -> Result<(), Stop> {
        world.put("/app/kernel.py", b"2.0")?;
        let time = Duration::from_secs(60);
        let report = world
            .bash("MKB_LOOK_SEC=0.05 bash /tests/test.sh", time)?
            .text;
        let docs = world
            .bash("cat /docs/guide.md; head -1 /tests/task.py", time)?
            .text;
        let given = world
            .instruction()
            .contains("Notes from an earlier attempt");
        let skill = format!("given: {given}\n{report}{docs}");
        world.put("/app/SKILL.md", skill.as_bytes())
    }
}

#[test]
fn agents_in_sandboxes_submit_and_hand_their_skills_on() {
    let mut world = World::new(&["moe/44_a"]);
    let scripts = mkb_agent::assets::tests();
    let mut docs = mkb_catalog::fingerprint::FileTree::default();
    docs.insert("guide.md", "The guide.\n");
    let setting = common::identity().setting;
    let settings = TaskSettings {
        setting: &setting,
        budget: common::identity().budget,
        device: "NVIDIA B200",
        scripts: &scripts,
        judge: "1",
    };
    for (task, files) in &mut world.tasks {
        *files = mkb_catalog::render(&world.catalog, task, &docs, &settings);
    }
    let state = tempfile::tempdir().expect("a folder");
    let attempter = Sandboxed {
        choose: &|_| Ok(Box::new(Looker)),
        state: state.path().to_owned(),
        isolation: Isolation::Namespaces,
        limits: Limits::attempt(),
        read_only: Vec::new(),
        env: Vec::new(),
        look: Duration::from_millis(20),
    };
    let (summary, events) = world.run(&selection("*", 1), &attempter);
    let summary = summary.expect("converged");
    assert_eq!((summary.recorded, summary.errors), (4, 0), "{events:#?}");
    let store = world.store();
    let skill = |arm: &str| {
        let bytes = store.artifact(&trial("44_a", 1, arm), "/app/SKILL.md");
        String::from_utf8(bytes.expect("readable").expect("left")).expect("UTF-8")
    };
    let solo = skill("solo_tirx");
    assert!(
        solo.starts_with("given: false\nsubmission 1 of 10, none, 0 s\n"),
        "{solo}"
    );
    assert!(
        solo.contains("9 submissions and 39 minutes left\n\nkernel: 2.0\n"),
        "{solo}"
    );
    assert!(solo.ends_with("The guide.\n'A task.'\n"), "{solo}");
    assert!(skill("tirx2cutedsl_skill").starts_with("given: true\n"));
    let this = trial("44_a", 1, "tirx2cutedsl_skill");
    assert_eq!(store.submissions(&this).expect("log").len(), 1);
    let record = store
        .record(&this)
        .expect("readable")
        .expect("there")
        .record;
    assert!(record.passed() && record.usage.is_some());
}
