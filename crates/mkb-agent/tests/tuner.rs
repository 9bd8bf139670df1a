//! The tuner against a made-up judge: what it finds, what it writes, and what skills, wrong skills
//! and placebos do to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mkb_agent::skill::{Claim, claims, placebo, wrong};
use mkb_agent::template::Choice;
use mkb_agent::{Agent, AttemptConfig, Left, Ran, Stop, Template, Tuner, World, assets, attempt};
use mkb_catalog::{Budget, Cancel, GradeFailure, Graded, Grader, Purpose, Rewards, Verdict};
use mkb_sandbox::{Isolation, Limits};

/// Spaces like those of real solutions.
const SPACES: [&str; 4] = [
    r#"{"threads": [64, 128, 256, 512], "vector": [1, 2, 4, 8], "layout": ["blocked", "contiguous"], "fused": [False, True], "rows": [1, 2, 4]}"#,
    r#"{"threads": [64, 128, 256], "vector": [2, 4, 8], "split": [1, 2, 4, 8, 16]}"#,
    r#"{"threads": [32, 64, 128, 256], "vector": [1, 2, 4], "fused": [False, True], "rows": [1, 2, 4]}"#,
    r#"{"threads": [64, 128, 256], "vector": [1, 2, 4], "rows": [8, 16, 32, 64, 128], "fused": [False, True]}"#,
];

fn solution(space: &str) -> String {
    let first: Vec<String> = Template::parse(&format!("SPACE = {space}\nPARAMS = {{}}\n"))
        .err()
        .map(|_| {
            let map: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&space.replace("False", "false").replace("True", "true"))
                    .expect("a space");
            map.iter()
                .map(|(name, values)| format!("\"{name}\": {}", values[0]))
                .collect()
        })
        .expect("an empty choice is refused");
    let first = first
        .join(", ")
        .replace("false", "False")
        .replace("true", "True");
    format!("SPACE = {space}\nPARAMS = {{{first}}}\n\ndef solve(x):\n    return x\n")
}

/// A time for each point: factors per value, the slower the further from a best one, with a
/// launch's fixed cost below it, and what two DSLs differ by.
struct Model {
    template: Template,
    factors: Vec<Vec<f64>>,
    broken: Option<(usize, usize)>,
}

/// A stand-in for luck, apart from the tuner's own: a linear congruential generator (Knuth).
struct Luck(u64);

impl Luck {
    fn unit(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Model {
    fn new(space: &str, problem: u64, dsl: u64) -> Self {
        let template = Template::parse(&solution(space)).expect("a template");
        let mut luck = Luck(problem.wrapping_mul(77).wrapping_add(5));
        let mut own = Luck(problem.wrapping_mul(1000).wrapping_add(dsl));
        for _ in 0..8 {
            luck.unit();
            own.unit();
        }
        let factors = template
            .space
            .iter()
            .map(|p| {
                let best = (luck.unit() * p.values.len() as f64) as usize;
                // A third of the parameters do next to nothing.
                let slope = if luck.unit() < 0.33 {
                    0.002
                } else {
                    0.1 + 0.6 * luck.unit()
                };
                let values = 0..p.values.len();
                values
                    .map(|v| (slope * v.abs_diff(best) as f64).exp() * (1.0 + 0.02 * own.unit()))
                    .collect()
            })
            .collect();
        Model {
            template,
            factors,
            broken: None,
        }
    }

    fn time_ms(&self, point: &[usize]) -> f64 {
        0.004
            + 0.01
                * point
                    .iter()
                    .zip(&self.factors)
                    .map(|(&v, f)| f[v])
                    .product::<f64>()
    }

    fn report(&self, kernel: &str) -> String {
        let point = Template::parse(kernel)
            .expect("the tuner fills the template")
            .choice;
        if let Some((p, v)) = self.broken
            && point[p] == v
        {
            return "imported: yes\ncorrect: 2/5\nmismatch: output 0: 3 of 9 elements\npassed: no\n"
                .to_owned();
        }
        let (time, eager) = (self.time_ms(&point), 0.1);
        let bound = if time > 0.02 {
            "issue, bottleneck: instructions"
        } else {
            "dram, bottleneck: reads"
        };
        format!(
            "imported: yes\ncorrect: 5/5\ntime: {time:.4} ms (modelled)\neager: {eager:.4} ms \
             (modelled)\nspeedup: {:.3}\npassed: yes\nbound: {bound}\n",
            eager / time
        )
    }
}

/// A seed for each trial (FNV-1a).
fn trial_seed(seed: u64, name: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    name.bytes().fold(start, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A world in memory.
struct Memory<'a> {
    model: &'a Model,
    instruction: String,
    files: BTreeMap<String, Vec<u8>>,
    submissions: u32,
    /// The first so many evaluations fail through no fault of the kernel.
    failing: u32,
    time: Duration,
}

impl<'a> Memory<'a> {
    fn new(model: &'a Model, instruction: &str) -> Self {
        Memory {
            model,
            instruction: instruction.to_owned(),
            files: BTreeMap::new(),
            submissions: 0,
            failing: 0,
            time: Duration::from_secs(2400),
        }
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.files.get(path).cloned().unwrap_or_default()).expect("UTF-8")
    }

    /// The time of what was left, as the final grading would find it.
    fn result(&self) -> f64 {
        let point = Template::parse(&self.text("/app/kernel.py"))
            .expect("a kernel")
            .choice;
        self.model.time_ms(&point)
    }
}

impl World for Memory<'_> {
    fn instruction(&self) -> &str {
        &self.instruction
    }

    fn inside(&self, path: &str) -> String {
        path.to_owned()
    }

    fn put(&mut self, path: &str, bytes: &[u8]) -> Result<(), Stop> {
        self.files.insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn get(&mut self, path: &str, _: u64) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.files.get(path).cloned())
    }

    fn bash(&mut self, command: &str, _: Duration) -> Result<Ran, Stop> {
        assert!(command.ends_with("bash /tests/test.sh"), "{command}");
        self.time = self
            .time
            .checked_sub(Duration::from_secs(60))
            .ok_or(Stop::Budget)?;
        let text = if self.failing > 0 {
            self.failing -= 1;
            format!(
                "not counted: evaluation failed\n{} submissions and 9 minutes left\n",
                10 - self.submissions
            )
        } else if self.submissions == 10 {
            "not counted: the limit of 10 submissions is reached\n0 submissions and 9 minutes left\n".to_owned()
        } else {
            self.submissions += 1;
            let report = self.model.report(&self.text("/app/kernel.py"));
            let (n, left) = (self.submissions, 10 - self.submissions);
            format!(
                "submission {n} of 10, B200 (virtual), 1 s\n{left} submissions and 9 minutes left\n\n{report}"
            )
        };
        Ok(Ran {
            code: Some(0),
            text,
        })
    }

    fn time_left(&self) -> Duration {
        self.time
    }
}

struct Attempt {
    time: f64,
    submissions: u32,
    skill: String,
}

fn tune(model: &Model, instruction: &str, seed: u64) -> Attempt {
    let mut world = Memory::new(model, instruction);
    let tuner = Tuner::new(&solution_of(model), seed).expect("a template");
    tuner.attempt(&mut world).expect("an attempt");
    Attempt {
        time: world.result(),
        submissions: world.submissions,
        skill: world.text("/app/SKILL.md"),
    }
}

fn solution_of(model: &Model) -> String {
    model.template.fill(&model.template.choice)
}

/// Geometric mean of solo time over the time with what `skill` makes of the source's skill, and
/// its standard error in ln, over all spaces and `seeds` seeds.
fn lift(seeds: u64, skill: impl Fn(&str) -> String) -> (f64, f64) {
    let mut logs = Vec::new();
    for (k, space) in SPACES.iter().enumerate() {
        for seed in 0..seeds {
            let problem = k as u64 * 1000 + seed;
            let (from, to) = (Model::new(space, problem, 1), Model::new(space, problem, 2));
            let source = tune(&from, "The task.", trial_seed(seed, &format!("{k} source")));
            let base = tune(&to, "The task.", trial_seed(seed, &format!("{k} base")));
            let text = format!("The task.\n\n{}", skill(&source.skill));
            let with = tune(&to, &text, trial_seed(seed, &format!("{k} skill")));
            logs.push((base.time / with.time).ln());
        }
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

#[test]
fn its_own_skill_helps_a_wrong_one_harms_and_a_placebo_does_nothing() {
    let (own, own_error) = lift(40, str::to_owned);
    let (turned, turned_error) = lift(40, |s| wrong(s).expect("claims"));
    let (nothing, nothing_error) = lift(40, placebo);
    println!(
        "own {own:.3} +- {own_error:.3}, wrong {turned:.3} +- {turned_error:.3}, placebo {nothing:.3} +- {nothing_error:.3}"
    );
    assert!(own > 3.0 * own_error && own > 0.05, "{own} +- {own_error}");
    assert!(
        turned < -3.0 * turned_error && turned < -0.05,
        "{turned} +- {turned_error}"
    );
    assert!(
        nothing.abs() < 3.0 * nothing_error,
        "{nothing} +- {nothing_error}"
    );
}

#[test]
fn a_text_without_claims_is_exactly_as_good_as_none() {
    for seed in 0..20 {
        let model = Model::new(SPACES[0], seed, 1);
        let none = tune(&model, "The task.", seed);
        let with = tune(
            &model,
            &format!("The task.\n\n{}", placebo(&none.skill)),
            seed,
        );
        assert_eq!(
            (none.time, none.submissions, none.skill),
            (with.time, with.submissions, with.skill)
        );
    }
}

#[test]
fn a_skill_saves_submissions() {
    let (mut without, mut with) = (0, 0);
    for seed in 0..40 {
        let (from, to) = (
            Model::new(SPACES[0], seed, 1),
            Model::new(SPACES[0], seed, 2),
        );
        let source = tune(&from, "The task.", trial_seed(seed, "a"));
        without += tune(&to, "The task.", trial_seed(seed, "b")).submissions;
        with += tune(&to, &source.skill, trial_seed(seed, "c")).submissions;
    }
    assert!(with < without, "{with} {without}");
}

#[test]
fn it_leaves_the_best_point_that_it_saw_and_stops_after_two_without_gain() {
    for seed in 0..60 {
        let model = Model::new(SPACES[seed as usize % 4], seed, 1);
        let done = tune(&model, "The task.", seed);
        assert!((3..=10).contains(&done.submissions), "{}", done.submissions);
        let fastest = claims(&done.skill).into_iter().find_map(|c| match c {
            Claim::Fastest(point) => Some(point),
            _ => None,
        });
        let fastest = fastest.expect("a fastest point");
        let point: Vec<usize> = model
            .template
            .space
            .iter()
            .zip(&fastest)
            .map(|(p, (name, value))| {
                assert_eq!(&p.name, name);
                p.values
                    .iter()
                    .position(|v| v.to_string() == *value)
                    .expect("a legal value")
            })
            .collect();
        assert_eq!(model.time_ms(&point), done.time);
    }
}

#[test]
fn its_skill_is_plain_sentences_about_dsl_neutral_names() {
    let model = Model::new(SPACES[0], 3, 1);
    let skill = tune(&model, "The task.", 3).skill;
    println!("{skill}");
    assert!(skill.lines().count() >= 5, "{skill}");
    for line in skill.lines() {
        assert!(
            line.ends_with('.') && line.starts_with(|c: char| c.is_ascii_uppercase()),
            "{line}"
        );
    }
    let forbidden = [
        "#", "`", "=", "{", "(x)", "def ", "import", "tvm", "cute", "solve", "PARAMS",
    ];
    assert!(forbidden.iter().all(|f| !skill.contains(f)), "{skill}");
    assert!(
        skill.contains("modelled times on B200 (virtual)"),
        "{skill}"
    );
    assert!(skill.contains("because it was bound by"), "{skill}");
}

#[test]
fn what_fails_is_told_and_avoided() {
    for seed in 0..40 {
        let mut model = Model::new(SPACES[0], seed, 1);
        let p = 1;
        model.broken = Some((p, 3));
        let done = tune(&model, "The task.", seed);
        let left = Template::parse(&done.skill).is_err();
        assert!(left);
        let failed = claims(&done.skill)
            .iter()
            .any(|c| matches!(c, Claim::Fails(_)));
        if failed {
            assert!(done.skill.contains(
                "With vector 8, all else equal, the submission failed: output 0: 3 of 9 elements."
            ));
            let again = tune(&model, &done.skill, seed + 1000);
            assert!(
                !again.skill.contains("the submission failed"),
                "{}",
                again.skill
            );
        }
    }
}

#[test]
fn it_goes_on_while_nothing_passes_and_says_so_little() {
    let mut model = Model::new(SPACES[2], 1, 1);
    model.broken = Some((2, 0));
    let template = model.template.clone();
    assert_eq!(template.space[2].values[0], Choice::Flag(false));
    let mut passed = 0;
    for seed in 0..20 {
        let mut world = Memory::new(&model, "The task.");
        Tuner::new(&solution_of(&model), seed)
            .expect("a template")
            .attempt(&mut world)
            .expect("an attempt");
        passed += u32::from(world.text("/app/SKILL.md").contains("The fastest of"));
    }
    assert!(passed >= 15, "it looks until something passes: {passed}");
}

#[test]
fn an_evaluation_that_failed_through_no_fault_of_the_kernel_is_repeated() {
    let model = Model::new(SPACES[1], 5, 1);
    let mut calm = Memory::new(&model, "The task.");
    let mut stormy = Memory::new(&model, "The task.");
    stormy.failing = 2;
    let tuner = Tuner::new(&solution_of(&model), 9).expect("a template");
    tuner.attempt(&mut calm).expect("an attempt");
    tuner.attempt(&mut stormy).expect("an attempt");
    assert_eq!(calm.text("/app/SKILL.md"), stormy.text("/app/SKILL.md"));
}

#[test]
fn it_ends_before_its_time_does() {
    let model = Model::new(SPACES[0], 5, 1);
    let mut world = Memory::new(&model, "The task.");
    world.time = Duration::from_secs(150);
    Tuner::new(&solution_of(&model), 9)
        .expect("a template")
        .attempt(&mut world)
        .expect("in time");
    assert!(world.submissions <= 2);
    assert!(world.text("/app/SKILL.md").contains("fastest"));
}

#[test]
fn values_that_the_other_dsl_does_not_have_are_passed_over() {
    let model = Model::new(SPACES[1], 5, 1);
    let skill = "The fastest of the points measured (4) had threads 1024, warps 4 and split 8: \
                 0.0100 ms against 0.1000 ms for eager PyTorch, a speedup of 10.000; it was bound \
                 by dram.";
    let done = tune(&model, skill, 1);
    assert!(done.skill.contains("split 8"), "{}", done.skill);
    assert!(!done.skill.contains("1024") && !done.skill.contains("warps"));
}

/// The model as a judge.
struct Judge(Model);

impl Grader for Judge {
    fn grade(&self, kernel: &[u8], _: Purpose, _: &Cancel) -> Result<Graded, GradeFailure> {
        let report = self.0.report(std::str::from_utf8(kernel).expect("UTF-8"));
        let rewards = Rewards::graded(true, true, Some(1.0));
        let verdict = Verdict {
            rewards,
            report,
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

#[test]
fn it_does_the_same_in_a_real_sandbox() {
    let model = Model::new(SPACES[3], 11, 1);
    let expected = tune(&model, "The task.", 4);
    let state = tempfile::tempdir().expect("temporary folder");
    let tuner = Tuner::new(&solution_of(&model), 4).expect("a template");
    let config = AttemptConfig {
        state: state.path().to_owned(),
        isolation: Isolation::Namespaces,
        limits: Limits::attempt(),
        tests: assets::tests(),
        app: vec![],
        docs: vec![],
        read_only: vec![],
        env: vec![],
        instruction: "The task.".to_owned(),
        budget: Budget::PAPER,
        grader: Arc::new(Judge(model)),
        look: Duration::from_millis(5),
        cancel: Cancel::new(),
    };
    let mut count = 0;
    let end = attempt(&tuner, config, |_| count += 1).expect("an attempt");
    assert_eq!(end.skill, Left::File(expected.skill.into_bytes()));
    assert_eq!(
        (end.submissions, count),
        (expected.submissions, expected.submissions)
    );
}
