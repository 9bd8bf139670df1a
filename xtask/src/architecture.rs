//! The invariants of ARCHITECTURE.md that can be checked, each as the list of what breaks it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::source::{Mention, mentions, rust_files};

/// Crates that touch neither files nor the network nor processes.
const PURE: [&str; 3] = ["vgpu", "vgpu-tirx", "mkb-analysis"];
/// What a pure crate may not name.
const OUTSIDE: [&str; 4] = ["std::fs", "std::net", "std::process", "std::os"];
/// The one crate that draws seeds and holds them.
const SEES_SEEDS: &str = "mkb-judge";
/// Workers' modules that must not know of seeds: what runs a submission, and what replays it.
const NO_SEED: [&str; 3] = [
    "mkb_worker/submission.py",
    "mkb_worker/replay.py",
    "mkb_worker/tape.py",
];
/// Crates that may change files, and which: results, sandboxes' folders, the environment, kernels
/// while they are judged, rendered tasks; the command line keeps what `grade --keep` asks for, and
/// `xtask` is no part of the product.
const WRITES_FILES: [&str; 8] = [
    "mkb-store",
    "mkb-catalog",
    "mkb-sandbox",
    "mkb-setup",
    "mkb-judge",
    "mkb-agent",
    "mkb",
    "xtask",
];
/// Files of the command line that may change files.
const COMMANDS_THAT_WRITE: [&str; 1] = ["grade.rs"];
/// What changes files.
const WRITING: [&str; 12] = [
    "fs::write",
    "fs::rename",
    "fs::copy",
    "fs::create_dir",
    "fs::create_dir_all",
    "fs::remove_file",
    "fs::remove_dir",
    "fs::remove_dir_all",
    "fs::hard_link",
    "fs::set_permissions",
    "File::create",
    "OpenOptions::new",
];

/// The page that names the tests which hold what has gone wrong elsewhere.
const CASES: &str = "docs/cases.md";

/// A check: its name, and what it finds.
pub type Check = (&'static str, fn(&Workspace) -> Result<Vec<String>>);

/// All checks.
pub const CHECKS: [Check; 5] = [
    ("dependencies point down the table", dependencies),
    (
        "pure crates use no files, network or processes",
        pure_crates,
    ),
    ("only the judge sees seeds", seeds),
    ("only the store writes results", writers),
    ("the tests that docs/cases.md names are there", cases),
];

/// The workspace, as the checks look at it.
#[derive(Debug)]
pub struct Workspace {
    /// ARCHITECTURE.md's crates, top to bottom.
    pub order: Vec<String>,
    /// Crates and the crates of the workspace that each needs (development dependencies left out).
    pub needs: BTreeMap<String, Vec<String>>,
    /// External crates that each needs.
    pub external: BTreeMap<String, Vec<String>>,
    /// Crates' source files with what they name, by path below the root.
    pub sources: BTreeMap<String, Vec<(String, Vec<Mention>)>>,
    /// The Python modules that must not know of seeds, with their text.
    pub seedless: Vec<(String, String)>,
    /// The tests that the page of cases names, each with the text of the file that should hold it.
    pub named_tests: Vec<(NamedTest, Option<String>)>,
}

/// A test that a page names, as `file::function`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTest {
    /// The file, below the root.
    pub file: String,
    /// The function.
    pub function: String,
}

impl Workspace {
    /// Reads the workspace at `root`.
    pub fn read(root: &Path) -> Result<Self> {
        let page = root.join("ARCHITECTURE.md");
        let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        let packages = packages(root)?;
        let members: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
        let (mut needs, mut external, mut sources) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for package in &packages {
            let needed = package.dependencies.iter();
            let needed = needed.filter(|d| d.kind.as_deref() != Some("dev"));
            let (inside, outside): (Vec<_>, Vec<_>) = needed
                .map(|d| d.name.clone())
                .partition(|name| members.contains(&name.as_str()));
            needs.insert(package.name.clone(), inside);
            external.insert(package.name.clone(), outside);
            let folder = Path::new(&package.manifest_path)
                .with_file_name("src")
                .canonicalize()?;
            let mut files = Vec::new();
            for path in rust_files(&folder)? {
                let text = fs::read_to_string(&path)?;
                let found = mentions(&text).with_context(|| path.display().to_string())?;
                let shown = path.strip_prefix(root).unwrap_or(&path);
                files.push((shown.display().to_string(), found));
            }
            sources.insert(package.name.clone(), files);
        }
        let mut seedless = Vec::new();
        for name in NO_SEED {
            let path = root.join("python").join(name);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            seedless.push((name.to_owned(), text));
        }
        let cases = fs::read_to_string(root.join(CASES)).context(CASES)?;
        let named_tests = named_tests(&cases)
            .into_iter()
            .map(|test| {
                let text = fs::read_to_string(root.join(&test.file)).ok();
                (test, text)
            })
            .collect();
        Ok(Self {
            order: table(&page),
            needs,
            external,
            sources,
            seedless,
            named_tests,
        })
    }
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.packages)
}

/// The first column of the first table that has a column `crate`.
fn table(page: &str) -> Vec<String> {
    page.lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| Some(line.split('`').nth(1)?.to_owned()))
        .collect()
}

/// What a page names as `file::function` between backquotes.
fn named_tests(page: &str) -> Vec<NamedTest> {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| {
            let (file, function) = code.split_once("::")?;
            Some(NamedTest {
                file: file.to_owned(),
                function: function.to_owned(),
            })
        })
        .collect()
}

fn dependencies(workspace: &Workspace) -> Result<Vec<String>> {
    let place = |name: &str| workspace.order.iter().position(|n| n == name);
    let mut broken = Vec::new();
    for name in &workspace.order {
        if !workspace.needs.contains_key(name) {
            broken.push(format!("{name} stands in the table and is no crate"));
        }
    }
    for (name, needs) in &workspace.needs {
        if name == "xtask" {
            continue;
        }
        let Some(own) = place(name) else {
            broken.push(format!("{name} does not stand in the table"));
            continue;
        };
        for needed in needs {
            if place(needed).is_some_and(|other| other <= own) {
                broken.push(format!("{name} depends on {needed}, which stands above it"));
            }
        }
    }
    Ok(broken)
}

fn pure_crates(workspace: &Workspace) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for name in PURE {
        let outside = |mention: &Mention| {
            OUTSIDE
                .iter()
                .any(|o| mention.path == *o || mention.path.starts_with(&format!("{o}::")))
        };
        broken.extend(found(workspace, name, outside));
        let external = workspace.external.get(name).into_iter().flatten();
        broken.extend(
            external
                .filter(|e| {
                    ["libc", "rustix", "memmap2", "tempfile", "getrandom"].contains(&e.as_str())
                })
                .map(|e| format!("{name} depends on {e}")),
        );
    }
    Ok(broken)
}

fn seeds(workspace: &Workspace) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for name in workspace.sources.keys() {
        if name == SEES_SEEDS {
            continue;
        }
        let names_seeds = |mention: &Mention| mention.path.split("::").any(|part| part == "Seeds");
        broken.extend(found(workspace, name, names_seeds));
    }
    for (module, text) in &workspace.seedless {
        let lines = text.lines().enumerate();
        broken.extend(
            lines
                .filter(|(_, line)| line.to_lowercase().contains("seed"))
                .map(|(number, _)| format!("python/{module}:{}: speaks of seeds", number + 1)),
        );
    }
    Ok(broken)
}

fn writers(workspace: &Workspace) -> Result<Vec<String>> {
    let writes = |mention: &Mention| {
        WRITING
            .iter()
            .any(|w| mention.path == *w || mention.path.ends_with(&format!("::{w}")))
    };
    let mut broken = Vec::new();
    for name in workspace.sources.keys() {
        let all = found(workspace, name, writes).into_iter();
        if name == "mkb" {
            broken.extend(all.filter(|where_| {
                !COMMANDS_THAT_WRITE
                    .iter()
                    .any(|file| where_.contains(&format!("/{file}:")))
            }));
        } else if !WRITES_FILES.contains(&name.as_str()) {
            broken.extend(all);
        }
    }
    Ok(broken)
}

fn cases(workspace: &Workspace) -> Result<Vec<String>> {
    if workspace.named_tests.is_empty() {
        return Ok(vec![format!("{CASES} names no test")]);
    }
    let missing = workspace.named_tests.iter().filter(|(test, text)| {
        let written = |word| format!("{word} {}(", test.function);
        !text
            .as_ref()
            .is_some_and(|text| text.contains(&written("fn")) || text.contains(&written("def")))
    });
    Ok(missing
        .map(|(test, _)| format!("{} has no {}", test.file, test.function))
        .collect())
}

/// Where a crate names what it should not, as `file:line: path`.
fn found(workspace: &Workspace, name: &str, what: impl Fn(&Mention) -> bool) -> Vec<String> {
    let files = workspace.sources.get(name).into_iter().flatten();
    files
        .flat_map(|(file, mentions)| mentions.iter().map(move |m| (file, m)))
        .filter(|(_, mention)| what(mention))
        .map(|(file, mention)| format!("{file}:{}: {}", mention.line, mention.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(order: &[&str], needs: &[(&str, &[&str])], source: &str) -> Workspace {
        let owned = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        let found = mentions(source).expect("Rust");
        Workspace {
            order: owned(order),
            needs: needs
                .iter()
                .map(|(name, needed)| ((*name).to_owned(), owned(needed)))
                .collect(),
            external: BTreeMap::new(),
            sources: needs
                .iter()
                .map(|(name, _)| {
                    let file = format!("crates/{name}/src/lib.rs");
                    ((*name).to_owned(), vec![(file, found.clone())])
                })
                .collect(),
            seedless: Vec::new(),
            named_tests: Vec::new(),
        }
    }

    #[test]
    fn the_table_is_read_top_to_bottom() {
        let page =
            "text\n| crate | what |\n|---|---|\n| `a` | A |\n| `b-c` | B |\n\n| `x` | no |\n";
        assert_eq!(table(page), ["a", "b-c"]);
    }

    #[test]
    fn a_dependency_that_points_up_is_found() {
        let order = ["top", "low"];
        let down = workspace(&order, &[("top", &["low"]), ("low", &[])], "");
        assert!(dependencies(&down).expect("checked").is_empty());
        let up = workspace(&order, &[("top", &[]), ("low", &["top"])], "");
        assert_eq!(dependencies(&up).expect("checked").len(), 1);
        let unknown = workspace(&order, &[("top", &[]), ("low", &[]), ("new", &[])], "");
        assert_eq!(dependencies(&unknown).expect("checked").len(), 1);
    }

    #[test]
    fn a_pure_crate_that_opens_a_file_is_found() {
        let source = "use std::fs::File;\nfn f() { std::net::TcpStream::connect(1); }";
        let found = pure_crates(&workspace(&[], &[("vgpu", &[])], source)).expect("checked");
        assert_eq!(
            found,
            [
                "crates/vgpu/src/lib.rs:1: std::fs::File",
                "crates/vgpu/src/lib.rs:2: std::net::TcpStream::connect"
            ]
        );
        let other = workspace(&[], &[("mkb-store", &[])], source);
        assert!(pure_crates(&other).expect("checked").is_empty());
    }

    #[test]
    fn seeds_outside_the_judge_are_found() {
        let source = "use mkb_judge::evaluation::Seeds;";
        let outside = workspace(&[], &[("mkb", &[])], source);
        assert_eq!(seeds(&outside).expect("checked").len(), 1);
        let inside = workspace(&[], &[("mkb-judge", &[])], source);
        assert!(seeds(&inside).expect("checked").is_empty());
    }

    #[test]
    fn a_crate_that_writes_files_and_should_not_is_found() {
        let source = "fn f() { std::fs::write(\"a\", \"b\"); }";
        let report = workspace(&[], &[("mkb-report", &[])], source);
        assert_eq!(writers(&report).expect("checked").len(), 1);
        let store = workspace(&[], &[("mkb-store", &[])], source);
        assert!(writers(&store).expect("checked").is_empty());
    }

    #[test]
    fn a_test_that_a_page_names_and_that_is_not_there_is_found() {
        let page = "| a | b | `x.rs::is_there`, `y.py::is_not` |\n`plain`";
        let texts = [Some("fn is_there() {}"), Some("def other(): pass")];
        let named = named_tests(page).into_iter();
        let mut checked = workspace(&[], &[], "");
        checked.named_tests = named.zip(texts.map(|t| t.map(str::to_owned))).collect();
        assert_eq!(cases(&checked).expect("checked"), ["y.py has no is_not"]);
    }

    #[test]
    fn the_repository_keeps_its_invariants() {
        let workspace = Workspace::read(&crate::root()).expect("the workspace");
        assert!(workspace.order.len() > 10, "{:?}", workspace.order);
        for (name, check) in CHECKS {
            let broken = check(&workspace).expect("checked");
            assert!(broken.is_empty(), "{name}: {broken:#?}");
        }
    }
}
