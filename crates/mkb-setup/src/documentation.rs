//! The documentation that attempts get, generated once from what the environment holds.
//!
//! It is one file in the environment's folder, named after what it was made from: it appears at
//! once and whole, and what it was made from before is removed. `python/mkb_docs` makes it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::SetupError;
use crate::environment::{Environment, hex, repository};
use crate::process::{self, Outcome};
use crate::steps::{Options, Progress, Step, absolute, alone, log_of};

/// What the pages are made from, beside the environment's packages: folders below the root, and how
/// the names of their files end.
const SOURCES: [(&str, &str); 4] = [
    ("devices", ".toml"),
    ("docs", ".md"),
    ("python/cute", ".py"),
    ("python/mkb_docs", ".py"),
];
const PREFIX: &str = "documentation-";

/// The pages of every DSL and device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Documentation {
    dsls: BTreeMap<String, BTreeMap<String, String>>,
    devices: BTreeMap<String, String>,
}

impl Documentation {
    /// What stands in `/docs` for a DSL on a device: pages by path. Nothing for a DSL that has none.
    pub fn pages(&self, dsl: &str, device: &str) -> BTreeMap<String, String> {
        let mut pages = self.dsls.get(dsl).cloned().unwrap_or_default();
        if !pages.is_empty()
            && let Some(page) = self.devices.get(device)
        {
            pages.insert("device.md".to_owned(), page.clone());
        }
        pages
    }
}

/// Gives the documentation, and generates it first if there is none of what there is now. That takes
/// seconds; of several processes one does it and the others wait.
///
/// # Errors
/// Where a source cannot be read, or the generator fails.
pub fn documentation(
    options: &Options,
    environment: &Environment,
    progress: &dyn Progress,
) -> Result<Documentation, SetupError> {
    let root = absolute(&options.root)?;
    let file = environment
        .root
        .join(format!("{PREFIX}{}.json", &sources_hash(&root)?[..12]));
    if let Some(documentation) = read(&file) {
        return Ok(documentation);
    }
    let _alone = alone(&root.join(".mkb/setup.lock"), progress)?;
    if let Some(documentation) = read(&file) {
        return Ok(documentation);
    }
    generate(&root, environment, &file, progress)?;
    read(&file).ok_or_else(|| SetupError::Step {
        step: Step::Document.title(),
        detail: format!("{} cannot be read", file.display()),
        log: log_of(&root),
    })
}

fn read(file: &Path) -> Option<Documentation> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn generate(
    root: &Path,
    environment: &Environment,
    file: &Path,
    progress: &dyn Progress,
) -> Result<(), SetupError> {
    progress.step(Step::Document, false);
    let unfinished = environment.root.join("documentation.tmp.json");
    let mut command = Command::new(&environment.python);
    command.args(["-m", "mkb_docs"]).arg(&unfinished);
    command.env_remove("PYTHONHOME");
    command.envs(
        environment
            .variables
            .iter()
            .map(|(name, value)| (name, value)),
    );
    match process::run(command, &log_of(root), progress)? {
        Outcome::Done => {}
        Outcome::Failed(detail) => {
            return Err(SetupError::Step {
                step: Step::Document.title(),
                detail,
                log: log_of(root),
            });
        }
    }
    fs::rename(&unfinished, file).map_err(SetupError::file(&unfinished))?;
    remove_others(&environment.root, file)
}

/// What was made from other sources is of no use any more.
fn remove_others(folder: &Path, kept: &Path) -> Result<(), SetupError> {
    let wrong = SetupError::file;
    for entry in fs::read_dir(folder).map_err(wrong(folder))? {
        let path = entry.map_err(wrong(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path != kept && name.starts_with(PREFIX) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(wrong(&path)(error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Hash of all that the pages are made from but the packages, which the environment's folder names.
fn sources_hash(root: &Path) -> Result<String, SetupError> {
    let mut sum = Sha256::new();
    for (folder, ending) in SOURCES {
        let folder = root.join(folder);
        let mut files = Vec::new();
        below(&folder, ending, &mut files).map_err(repository(root, &folder))?;
        files.sort();
        for file in files {
            let bytes = fs::read(&file).map_err(repository(root, &file))?;
            let name = file.strip_prefix(root).unwrap_or(&file);
            sum.update(name.as_os_str().as_encoded_bytes());
            sum.update([0]);
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        }
    }
    Ok(hex(&sum.finalize()))
}

fn below(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below(&entry.path(), ending, files)?;
        } else if entry.file_name().to_string_lossy().ends_with(ending) {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;
    use crate::environment::Versions;

    /// A repository whose Python is a script: it writes `answer` where the pages should go, and a
    /// line to `calls`.
    fn repository(answer: &str) -> (tempfile::TempDir, Options, Environment) {
        let root = tempfile::tempdir().unwrap();
        for (folder, ending) in SOURCES {
            fs::create_dir_all(root.path().join(folder).join("below")).unwrap();
            fs::write(
                root.path().join(folder).join(format!("below/a{ending}")),
                "1",
            )
            .unwrap();
        }
        let folder = root.path().join(".mkb/env");
        fs::create_dir_all(&folder).unwrap();
        fs::write(root.path().join("answer"), answer).unwrap();
        // Written by another process, lest a child that another test forks holds it open for writing.
        let python = root.path().join("python.sh");
        let script = "#!/bin/sh\necho x >> \"${0%python.sh}calls\"\ncat \"${0%python.sh}answer\" > \"$3\"\n[ -s \"$3\" ]\n";
        let written = Command::new("/bin/sh")
            .args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#])
            .args([python.as_os_str(), script.as_ref()])
            .status();
        assert!(written.unwrap().success());
        let environment = Environment {
            root: folder,
            python,
            pythonpath: Vec::new(),
            variables: Vec::new(),
            versions: Versions {
                python: String::new(),
                torch: String::new(),
                tvm: String::new(),
                cpu_capability: String::new(),
            },
        };
        let options = Options::new(root.path());
        (root, options, environment)
    }

    const ANSWER: &str =
        r#"{"dsls": {"tirx": {"index.md": "I"}}, "devices": {"b200": "B", "h200": "H"}}"#;

    fn calls(root: &Path) -> usize {
        let calls = fs::read_to_string(root.join("calls")).unwrap_or_default();
        calls.lines().count()
    }

    #[test]
    fn pages_are_made_once_and_again_when_a_source_has_changed() {
        let (root, options, environment) = repository(ANSWER);
        let get = || documentation(&options, &environment, &Quiet).unwrap();
        let first = get();
        assert_eq!(first, get());
        assert_eq!(calls(root.path()), 1);
        fs::write(root.path().join("python/cute/below/a.py"), "2").unwrap();
        assert_eq!(first, get());
        assert_eq!(calls(root.path()), 2);
        let files = fs::read_dir(&environment.root).unwrap().count();
        assert_eq!(files, 1, "what was made before is removed");
    }

    #[test]
    fn a_dsl_gets_its_pages_and_that_of_the_device() {
        let (_root, options, environment) = repository(ANSWER);
        let made = documentation(&options, &environment, &Quiet).unwrap();
        let pages = made.pages("tirx", "h200");
        let pages: Vec<_> = pages.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(pages, [("device.md", "H"), ("index.md", "I")]);
        assert!(made.pages("other", "h200").is_empty());
    }

    #[test]
    fn a_generator_that_fails_leaves_nothing_that_is_believed() {
        for answer in ["", "{\"dsls\": {"] {
            let (root, options, environment) = repository(answer);
            let error = documentation(&options, &environment, &Quiet).unwrap_err();
            assert!(error.to_string().contains("documentation"), "{error}");
            fs::write(root.path().join("answer"), ANSWER).unwrap();
            documentation(&options, &environment, &Quiet).unwrap();
        }
    }
}
