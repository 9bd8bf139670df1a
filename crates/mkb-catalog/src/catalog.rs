//! All problems under one folder, found and checked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::dsl::DslSet;
use crate::name::{Family, NameError, ProblemName};
use crate::problem::{Problem, ProblemError};

/// The problems and the DSLs that they are posed in.
#[derive(Clone, Debug)]
pub struct Catalog {
    dsls: DslSet,
    problems: Vec<Problem>,
}

/// Why a folder is no catalog. Paths are relative to the folder.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Reading failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A Python file lies at another depth than `<family>/<file>`.
    #[error("{}: a problem must lie at <family>/NN_name.py", .0.display())]
    Depth(PathBuf),
    /// A family or a problem is misnamed.
    #[error("{}: {source}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// What is wrong with its name.
        source: NameError,
    },
    /// Two problems have one number.
    #[error("{} and {} both have number {number}", first.display(), second.display())]
    Number {
        /// The number.
        number: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A file is no problem.
    #[error("{}: {source}", path.display())]
    Problem {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        source: ProblemError,
    },
}

impl Catalog {
    /// Reads every problem under `root`, a folder of families. A path part that begins with `.`
    /// or `_` is passed over.
    ///
    /// # Errors
    /// At the first file, in order of paths, that breaks a rule; see [`CatalogError`].
    pub fn discover(root: &Path, dsls: DslSet) -> Result<Self, CatalogError> {
        let mut problems: Vec<Problem> = Vec::new();
        for relative in python_files(root)? {
            let problem = read(root, &relative)?;
            let number = problem.name.number();
            if let Some(first) = problems.iter().find(|p| p.name.number() == number) {
                return Err(CatalogError::Number {
                    number: number.to_owned(),
                    first: below(root, &first.path),
                    second: relative,
                });
            }
            problems.push(problem);
        }
        problems.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { dsls, problems })
    }

    /// The DSLs.
    pub fn dsls(&self) -> &DslSet {
        &self.dsls
    }

    /// The problems, by number.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The problem of that name, or of that number given as two digits.
    pub fn get(&self, name_or_number: &str) -> Option<&Problem> {
        self.problems.iter().find(|problem| {
            problem.name.as_str() == name_or_number || problem.name.number() == name_or_number
        })
    }
}

fn read(root: &Path, relative: &Path) -> Result<Problem, CatalogError> {
    let parts: Vec<&str> = relative.iter().filter_map(|part| part.to_str()).collect();
    let [family, file] = parts[..] else {
        return Err(CatalogError::Depth(relative.to_owned()));
    };
    let name_error = |source| CatalogError::Name {
        path: relative.to_owned(),
        source,
    };
    let family = Family::parse(family).map_err(name_error)?;
    let stem = file.strip_suffix(".py").unwrap_or(file);
    let name = ProblemName::parse(stem).map_err(name_error)?;
    let path = root.join(relative);
    let source = fs::read_to_string(&path).map_err(|source| CatalogError::Io {
        path: path.clone(),
        source,
    })?;
    Problem::parse(name, family, &path, source).map_err(|source| CatalogError::Problem {
        path: relative.to_owned(),
        source,
    })
}

/// The Python files below `root`, relative to it, in order of paths.
fn python_files(root: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let io_error = |source| CatalogError::Io {
            path: folder.clone(),
            source,
        };
        for entry in fs::read_dir(&folder).map_err(io_error)? {
            let entry = entry.map_err(io_error)?;
            let name = entry.file_name();
            if matches!(name.as_encoded_bytes().first(), Some(b'.' | b'_')) {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if name.as_encoded_bytes().ends_with(b".py") {
                files.push(below(root, &path));
            }
        }
    }
    files.sort();
    Ok(files)
}

fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "'A task.'\ndef reference(): pass\ndef make_inputs(): return []\n";

    fn catalog(files: &[&str]) -> Result<Catalog, CatalogError> {
        let root = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            fs::write(path, SOURCE).expect("write");
        }
        Catalog::discover(root.path(), DslSet::builtin())
    }

    #[test]
    fn problems_stand_by_number_and_hidden_parts_are_passed_over() {
        let found = catalog(&[
            "moe/44_b.py",
            "attention/01_a.py",
            "moe/_solutions/44_b_tirx.py",
            ".git/x.py",
            "_helpers.py",
            "moe/README.md",
        ])
        .expect("a catalog");
        let names: Vec<&str> = found.problems().iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["01_a", "44_b"]);
        assert_eq!(found.get("44").expect("by number").name.as_str(), "44_b");
        assert_eq!(found.problems()[1].family.as_str(), "moe");
    }

    #[test]
    fn each_broken_rule_is_named_with_its_path() {
        for (files, expected) in [
            (&["01_a.py"][..], "01_a.py: a problem must lie at"),
            (
                &["moe/deep/01_a.py"][..],
                "moe/deep/01_a.py: a problem must lie at",
            ),
            (
                &["Moe/01_a.py"][..],
                "Moe/01_a.py: family \"Moe\" is not of the form",
            ),
            (
                &["moe/1_a.py"][..],
                "moe/1_a.py: problem \"1_a\" is not of the form",
            ),
            (
                &["attention/01_a.py", "moe/01_b.py"][..],
                "attention/01_a.py and moe/01_b.py both have number 01",
            ),
        ] {
            let error = catalog(files).expect_err(expected).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_solution_is_found_beside_its_problem() {
        let root = tempfile::tempdir().expect("a folder");
        let solutions = root.path().join("moe/_solutions");
        fs::create_dir_all(&solutions).expect("mkdir");
        fs::write(root.path().join("moe/44_b.py"), SOURCE).expect("write");
        fs::write(solutions.join("44_b_tirx.py"), "").expect("write");
        let found = Catalog::discover(root.path(), DslSet::builtin()).expect("a catalog");
        let dsl = |name| found.dsls().get(name).expect("built in");
        assert!(found.problems()[0].solution_path(dsl("tirx")).is_some());
        assert!(found.problems()[0].solution_path(dsl("cutedsl")).is_none());
    }
}
