//! The folder that an attempt is given, rendered: problem, contract, scripts, documentation,
//! instruction, and the conditions as data.

use serde::Serialize;

use crate::catalog::Catalog;
use crate::dsl::DslSpec;
use crate::fingerprint::FileTree;
use crate::problem::Problem;
use crate::setting::{
    Budget, Clock, KERNEL_BYTE_LIMIT, KERNEL_PATH, SKILL_PATH, Setting, Workload,
};
use crate::trial::TaskId;

/// The correctness contract as Python, for the agent to read.
pub const CONTRACT_PY: &str = include_str!("../assets/contract.py");

/// The sandbox of an attempt: CPUs.
pub const SANDBOX_CPUS: u32 = 2;
/// The sandbox of an attempt: memory in MB.
pub const SANDBOX_MEMORY_MB: u32 = 8_192;

/// Where the files that stand in `/tests` in the sandbox lie in a task's folder.
const TESTS: &str = "environment";
/// Where the files that stand in `/docs` in the sandbox lie in a task's folder.
const DOCS: &str = "environment/docs";
/// The instruction's file.
const INSTRUCTION: &str = "instruction.md";

/// What tasks are rendered with, beside the problems.
#[derive(Clone, Debug)]
pub struct TaskSettings<'a> {
    /// Device, clock and workload.
    pub setting: &'a Setting,
    /// What an attempt may spend.
    pub budget: Budget,
    /// The device in words, e.g. `NVIDIA B200 (sm_100a, 148 SMs)`.
    pub device: &'a str,
    /// The agent's scripts, by name: `test.sh` and `clock.sh`.
    pub scripts: &'a [(String, Vec<u8>)],
    /// The judge's revision: another one may judge otherwise, so it is a part of the task.
    pub judge: &'a str,
}

/// Renders a task. `docs` is the DSL's documentation, which may be empty.
///
/// # Panics
/// When the task's problem or DSL is not of this catalog.
pub fn render(
    catalog: &Catalog,
    task: &TaskId,
    docs: &FileTree,
    settings: &TaskSettings<'_>,
) -> FileTree {
    let problem = catalog
        .get(task.problem.as_str())
        .expect("a task is made from the catalog's problems");
    let spec = catalog.dsls().spec(&task.dsl);
    let mut files = FileTree::default();
    files.insert("environment/task.py", problem.source.as_bytes());
    files.insert("environment/contract.py", CONTRACT_PY);
    for (name, bytes) in settings.scripts {
        files.insert(&format!("{TESTS}/{name}"), bytes.as_slice());
    }
    files.graft(DOCS, docs);
    files.insert(
        INSTRUCTION,
        instruction(task, problem, spec, docs, settings),
    );
    files.insert("task.toml", conditions(task, problem, settings));
    files
}

/// The files of a task that stand in the sandbox's `/tests`, by name.
pub fn tests(task: &FileTree) -> Vec<(String, Vec<u8>)> {
    below(task, TESTS)
        .filter(|(name, _)| !name.contains('/'))
        .collect()
}

/// The files of a task that stand in the sandbox's `/docs`.
pub fn docs(task: &FileTree) -> FileTree {
    let mut tree = FileTree::default();
    for (path, bytes) in below(task, DOCS) {
        tree.insert(&path, bytes);
    }
    tree
}

/// The task in words, with the attachment at its end where there is one.
pub fn instruction_text(task: &FileTree, attachment: Option<&str>) -> String {
    let text = task.get(INSTRUCTION).unwrap_or_default();
    let mut text = String::from_utf8_lossy(text).into_owned();
    if let Some(attachment) = attachment {
        text.push('\n');
        text.push_str(attachment);
    }
    text
}

fn below<'a>(task: &'a FileTree, folder: &str) -> impl Iterator<Item = (String, Vec<u8>)> + 'a {
    let head = format!("{folder}/");
    task.iter().filter_map(move |(path, bytes)| {
        let rest = path.strip_prefix(&head)?;
        Some((rest.to_owned(), bytes.to_vec()))
    })
}

fn instruction(
    task: &TaskId,
    problem: &Problem,
    spec: &DslSpec,
    docs: &FileTree,
    settings: &TaskSettings<'_>,
) -> String {
    let TaskSettings {
        setting, budget, ..
    } = settings;
    let device = settings.device;
    let dsl = spec.display;
    let parameters = problem.parameters.join(", ");
    let mutable = match &problem.mutable_inputs[..] {
        [] => "It must leave its inputs as they are.".to_owned(),
        names => format!(
            "It may change {} in place, and must leave every other input as it is.",
            list(names)
        ),
    };
    let provider = match setting.clock {
        Clock::Modelled => spec.virtual_provider,
        Clock::Measured => spec.real_provider,
    };
    let sizes = match (setting.workload, problem.has_reduced) {
        (Workload::Reduced, true) => {
            "Here the constants that `REDUCED` names in that file have the values that it gives \
             them; everything is judged at those sizes.\n\n"
        }
        _ => "",
    };
    let clock = match setting.clock {
        Clock::Modelled => format!(
            "The device is a virtual {device}: no GPU is there. Kernels run with real numerics on \
             a model of it, and times are computed, not measured: from the traffic to DRAM, L2 and \
             shared memory, the instructions by pipe, launches, occupancy and the longest chain of \
             dependences, against the device's published figures. Eager PyTorch is charged by the \
             same model. The report says what bounds each kernel. What the virtual device does not \
             model, it refuses by name: such a submission does not count, and a final kernel of the \
             kind is not scored. The same kernel and inputs always get the same time. The time is \
             the median over three fresh draws."
        ),
        Clock::Measured => format!(
            "The device is an {device}. After ten warm-up calls, fifty calls with fresh inputs are \
             timed one by one, each from a synchronised device to a synchronised device, and the \
             median is taken."
        ),
    };
    let docs = docs_line(docs, dsl);
    format!(
        "# {task}

{description}

## The task

Write `{KERNEL_PATH}`: a Python module that defines `solve({parameters})`. It is called with the \
items of the list that `make_inputs()` in `/tests/task.py` returns, in that order, and must return \
what `reference` there returns for them, as fast as you can make it on the device. {mutable} The \
file may hold at most {limit} bytes.

{sizes}The heavy part of the work is to be done by kernels that you write in {dsl} (`import \
{import}`). {provider}

While you work, keep `{SKILL_PATH}` up to date with what you learn. It is read by someone who will \
attempt the same problem in another kernel DSL and has none of your context. It should hold \
conclusions, each with its evidence (numbers from your reports) and its cause; what is and is not \
worth moving out of eager PyTorch; why failed attempts failed; under which conditions a conclusion \
holds; and what is worth testing next. It should not hold code, commands, instructions for an \
interface, a story of what you did, these rules, or advice that holds for any kernel. Mention \
{dsl} itself only where the evidence needs it. Write no heading; one is added.

What stands at those two paths when your time is over is what counts.

## What is allowed

`solve` may mix eager PyTorch, plain Python and {dsl}. Every call must run at least one {dsl} \
kernel that computes or moves data on which a returned tensor depends; if the outputs are still \
right with that kernel's results withheld, it does not count, nor does a kernel that only copies \
what eager PyTorch computed. You may keep compiled kernels, static \
metadata and output buffers between calls, but nothing that was computed from an input.

Not allowed, and checked: calling or copying the task's own `reference`, `make_inputs` or helpers; \
any other kernel language or compiler (`torch.compile`, `torch.jit`, Triton, CUDA C++ in any form, \
extensions, `subprocess`, `ctypes`); ready-made kernels from {dsl} libraries; CUDA graphs; looking \
at seeds, the order of calls, whether a call is timed, or anything else of the evaluation; changing \
what evaluates you, or parts of torch, the DSL or Python; code that cannot be read in the file \
(`exec`, `eval`, computed imports); the network; bringing more than 4 KiB that the host computed (for \
small outputs, an eighth of their size) into a call, as data, arguments or constants of kernels. A \
submission that does any of this does not pass and counts all the same; the report names the line \
and the rule.

## How it is judged

Correctness: five draws with fresh seeds that nobody knows beforehand. Containers, shapes, dtypes \
and devices must be those of `reference`. Integers and booleans must be equal. For a floating \
tensor, let `anchor` be the reference computed in float64: the largest `|yours - anchor|` may be at \
most three times the larger of the largest `|reference - anchor|` and eps(dtype) x the largest \
`|anchor|`. NaN never passes; an infinity must stand where the reference's does. \
`/tests/contract.py` states the rule as code.

Time: {clock} Every timed output is checked as well. Your speedup is eager PyTorch's time on the \
same draws over yours. `reference` runs with TF32 off and without reduced-precision accumulation, \
`solve` under PyTorch's defaults or what it sets itself.

A submission passes when all five draws are right, timing is completed, and nothing in it is \
forbidden. What counts is whether it passes and, if so, its speedup, which has no upper limit; one \
that does not pass has none.

Limits: import, compilation, all draws and timing have {process} s together. Past them, or after a \
crash, the submission has failed and counts; the report names the stage.

## Your environment

A shell with {cpus} CPUs and {memory} MB of memory, no network and no GPU; the kernel cannot be run \
here. There are:

- `/tests/task.py`: the problem. `/tests/contract.py`: the correctness rule.
- `bash /tests/test.sh`: submits `{KERNEL_PATH}` as it stands and waits for the report. If you \
interrupt it, the report still comes, in `/app/.submissions`.
{docs}
You have {minutes} minutes of wall clock, waiting for reports included, and {submissions} \
submissions that count. A submission that is never evaluated (no valid Python, too large, a fault \
of the infrastructure) does not count; past the last one, further ones are refused. Each report says \
how many submissions and minutes are left, and the prompt shows the minutes. When the time is over, the kernel that stands there is judged once more on a fresh device, \
and that verdict alone is your score.
",
        description = problem.description,
        limit = KERNEL_BYTE_LIMIT,
        import = spec.import_name,
        process = 600,
        cpus = SANDBOX_CPUS,
        memory = SANDBOX_MEMORY_MB,
        minutes = budget.wall_sec / 60,
        submissions = budget.submissions,
    )
}

/// What is in `/docs`, where there is something.
fn docs_line(docs: &FileTree, dsl: &str) -> String {
    if docs.is_empty() {
        return String::new();
    }
    let parts = [
        (
            "index.md",
            "`index.md` lists the pages and says how to search them",
        ),
        ("guide.md", "`guide.md` has complete programs and rules"),
        (
            "device.md",
            "`device.md` says what the device is, what it does not model and how its times come about",
        ),
    ];
    let mut said: Vec<&str> = parts
        .iter()
        .filter(|(path, _)| docs.get(path).is_some())
        .map(|(_, what)| *what)
        .collect();
    if docs.iter().any(|(path, _)| path.starts_with("api/")) {
        said.push("`api/` has a page a module with the call and description of every name");
    }
    if said.is_empty() {
        return format!("- `/docs`: documentation of {dsl}.\n");
    }
    format!(
        "- `/docs`: documentation of {dsl}, made for grep: {}.\n",
        said.join("; ")
    )
}

/// `task.toml`: the conditions as data.
#[derive(Serialize)]
struct Conditions<'a> {
    task: About<'a>,
    agent: Agent,
    environment: Environment,
    judge: Judge<'a>,
}

#[derive(Serialize)]
struct About<'a> {
    name: String,
    problem: &'a str,
    family: &'a str,
    dsl: &'a str,
    description: &'a str,
    mutable_inputs: &'a [String],
}

#[derive(Serialize)]
struct Agent {
    timeout_sec: u32,
    submissions: u32,
}

#[derive(Serialize)]
struct Environment {
    cpus: u32,
    memory_mb: u32,
    network: bool,
    gpu: bool,
}

#[derive(Serialize)]
struct Judge<'a> {
    revision: &'a str,
    #[serde(flatten)]
    setting: &'a Setting,
    kernel_bytes: usize,
}

fn conditions(task: &TaskId, problem: &Problem, settings: &TaskSettings<'_>) -> String {
    let conditions = Conditions {
        task: About {
            name: task.to_string(),
            problem: problem.name.as_str(),
            family: problem.family.as_str(),
            dsl: task.dsl.as_str(),
            description: &problem.description,
            mutable_inputs: &problem.mutable_inputs,
        },
        agent: Agent {
            timeout_sec: settings.budget.wall_sec,
            submissions: settings.budget.submissions,
        },
        environment: Environment {
            cpus: SANDBOX_CPUS,
            memory_mb: SANDBOX_MEMORY_MB,
            network: false,
            gpu: false,
        },
        judge: Judge {
            revision: settings.judge,
            setting: settings.setting,
            kernel_bytes: KERNEL_BYTE_LIMIT,
        },
    };
    toml::to_string(&conditions).expect("text, numbers and flags are TOML")
}

/// Names as they stand in a sentence: `a`, `b` and `c`.
fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dsl::DslSet;
    use crate::skill::{self, Origin};

    const SOURCE: &str = "'Quantise \"K\" and append.'\nREDUCED = {'N': 2}\nMUTABLE_INPUTS = ('cache', 'scale')\n\
                          def reference(key, cache, scale): pass\ndef make_inputs(): return []\n";

    fn catalog() -> (tempfile::TempDir, Catalog) {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("kv_cache")).expect("mkdir");
        fs::write(root.path().join("kv_cache/21_append.py"), SOURCE).expect("written");
        let catalog = Catalog::discover(root.path(), DslSet::builtin()).expect("a catalog");
        (root, catalog)
    }

    fn rendered(dsl: &str, setting: &Setting, docs: &FileTree) -> FileTree {
        let (_root, catalog) = catalog();
        let task = TaskId {
            problem: catalog.problems()[0].name.clone(),
            dsl: catalog.dsls().get(dsl).expect("built in").clone(),
        };
        let scripts = [
            ("test.sh".to_owned(), b"#!/bin/bash\n".to_vec()),
            ("clock.sh".to_owned(), b"PS1=\n".to_vec()),
        ];
        let settings = TaskSettings {
            setting,
            budget: Budget::PAPER,
            device: "NVIDIA B200 (sm_100a, 148 SMs)",
            scripts: &scripts,
            judge: "1",
        };
        render(&catalog, &task, docs, &settings)
    }

    fn virtual_setting() -> Setting {
        Setting {
            clock: Clock::Modelled,
            workload: Workload::Reduced,
            ..Setting::paper()
        }
    }

    fn text(files: &FileTree, path: &str) -> String {
        String::from_utf8(files.get(path).expect(path).to_vec()).expect("UTF-8")
    }

    #[test]
    fn a_task_holds_the_problem_the_scripts_the_docs_and_the_instruction() {
        let mut pages = FileTree::default();
        pages.insert("guide/loops.md", "Loops.\n");
        let files = rendered("tirx", &virtual_setting(), &pages);
        let paths: Vec<String> = files.iter().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            [
                "environment/clock.sh",
                "environment/contract.py",
                "environment/docs/guide/loops.md",
                "environment/task.py",
                "environment/test.sh",
                "instruction.md",
                "task.toml"
            ]
        );
        assert_eq!(text(&files, "environment/task.py"), SOURCE);
        let names: Vec<String> = tests(&files).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["clock.sh", "contract.py", "task.py", "test.sh"]);
        assert_eq!(docs(&files), pages);
    }

    #[test]
    fn the_instruction_says_what_an_agent_must_know() {
        let files = rendered("cutedsl", &virtual_setting(), &FileTree::default());
        let text = text(&files, "instruction.md");
        for part in [
            "# 21_append_cutedsl\n",
            "Quantise \"K\" and append.",
            "`solve(key, cache, scale)`",
            "It may change `cache` and `scale` in place",
            "`/app/kernel.py`",
            "`/app/SKILL.md`",
            "300000 bytes",
            "kernels that you write in CuTe DSL",
            "`import cutlass`",
            "`REDUCED`",
            "a virtual NVIDIA B200",
            "computed, not measured",
            "40 minutes",
            "10 submissions",
            "2 CPUs and 8192 MB",
            "bash /tests/test.sh",
            "three times the larger",
            "should not hold code, commands",
            "no upper limit",
            "600 s together",
            "only copies what eager PyTorch computed",
            "4 KiB",
            "line and the rule",
            "further ones are refused",
            "`/app/.submissions`",
            "that verdict alone is your score",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
        assert!(!text.contains("/docs"), "there are no docs here");
    }

    #[test]
    fn the_instruction_says_what_is_in_docs_and_only_that() {
        let mut pages = FileTree::default();
        for path in ["index.md", "guide.md", "device.md", "api/cutlass.cute.md"] {
            pages.insert(path, "Text.\n");
        }
        let of =
            |pages: &FileTree| text(&rendered("cutedsl", &virtual_setting(), pages), INSTRUCTION);
        let whole = of(&pages);
        for part in [
            "made for grep",
            "`index.md`",
            "`guide.md`",
            "`device.md`",
            "`api/`",
        ] {
            assert!(whole.contains(part), "{part:?} is missing in:\n{whole}");
        }
        let mut guide = FileTree::default();
        guide.insert("guide.md", "Text.\n");
        let some = of(&guide);
        assert!(some.contains("`guide.md`") && !some.contains("`device.md`"));
        assert!(!some.contains("`api/`"));
    }

    #[test]
    fn on_a_real_gpu_nothing_is_said_of_a_virtual_one() {
        let files = rendered("cutedsl", &Setting::paper(), &FileTree::default());
        let text = text(&files, "instruction.md");
        assert!(
            !text.contains("virtual") && !text.contains("REDUCED"),
            "{text}"
        );
        assert!(text.contains("fifty calls") && text.contains("nvidia-cutlass-dsl 4.7.0"));
    }

    #[test]
    fn the_tasks_of_two_dsls_differ_in_the_dsl_alone() {
        let [one, other] = ["cutedsl", "tirx"].map(|dsl| {
            text(
                &rendered(dsl, &virtual_setting(), &FileTree::default()),
                "instruction.md",
            )
        });
        let set = DslSet::builtin();
        let neutral = |text: &str, id: &str| {
            let spec = set.spec(set.get(id).expect("built in"));
            let words = [
                spec.virtual_provider,
                spec.display,
                spec.import_name,
                spec.id,
            ];
            words
                .iter()
                .fold(text.to_owned(), |text, word| text.replace(word, "DSL"))
        };
        assert_eq!(neutral(&one, "cutedsl"), neutral(&other, "tirx"));
        assert_ne!(one, other);
    }

    #[test]
    fn an_attachment_stands_at_the_end_under_its_heading() {
        let files = rendered("tirx", &virtual_setting(), &FileTree::default());
        let attachment = skill::attachment(Origin::OtherDsl, b"One pass: 1.3x.\n").expect("some");
        let alone = instruction_text(&files, None);
        let with = instruction_text(&files, Some(&attachment));
        assert_eq!(with, format!("{alone}\n{attachment}"));
    }

    #[test]
    fn what_a_verdict_depends_on_is_in_the_fingerprint() {
        let base = rendered("tirx", &virtual_setting(), &FileTree::default());
        let full = Setting {
            workload: Workload::Full,
            ..virtual_setting()
        };
        let mut prints = vec![
            base.fingerprint(),
            rendered("cutedsl", &virtual_setting(), &FileTree::default()).fingerprint(),
            rendered("tirx", &full, &FileTree::default()).fingerprint(),
            rendered("tirx", &Setting::paper(), &FileTree::default()).fingerprint(),
        ];
        assert_eq!(
            base.fingerprint(),
            rendered("tirx", &virtual_setting(), &FileTree::default()).fingerprint()
        );
        prints.sort_unstable();
        prints.dedup();
        assert_eq!(prints.len(), 4);
        let folder = tempfile::tempdir().expect("a folder");
        base.write(folder.path()).expect("written");
        let read = FileTree::read(folder.path()).expect("read");
        assert_eq!(read.fingerprint(), base.fingerprint());
    }

    #[test]
    fn task_toml_reads_back_as_toml() {
        let files = rendered("tirx", &virtual_setting(), &FileTree::default());
        let table: toml::Table = text(&files, "task.toml").parse().expect("TOML");
        assert_eq!(
            table["task"]["description"].as_str(),
            Some("Quantise \"K\" and append.")
        );
        assert_eq!(table["judge"]["clock"].as_str(), Some("modelled"));
        assert_eq!(table["agent"]["timeout_sec"].as_integer(), Some(2400));
    }

    #[test]
    fn the_contract_is_python() {
        assert!(ruff_python_parser::parse_module(CONTRACT_PY).is_ok());
    }
}
