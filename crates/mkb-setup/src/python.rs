//! Finds a Python and the compilers that set-up needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::SetupError;

/// Minor versions of Python 3 that the lock has packages for.
pub const SUPPORTED: std::ops::RangeInclusive<u32> = 11..=14;

/// Tried in this order: what the person's own `python3` is comes first.
const NAMES: [&str; 6] = [
    "python3",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.14",
    "python",
];

/// Prints implementation, major, minor, and whether `venv` and `ensurepip` are there.
const PROBE: &str = "import sys, importlib.util as u; \
    print(sys.implementation.name, sys.version_info[0], sys.version_info[1], \
    int(all(u.find_spec(m) is not None for m in ('venv', 'ensurepip'))), sys.executable)";

/// A Python that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Python {
    pub path: PathBuf,
    /// `3.11`.
    pub version: String,
}

/// The Python named, or the first on the path that fits and can make environments.
pub(crate) fn find(named: Option<&Path>) -> Result<Python, SetupError> {
    let candidates: Vec<PathBuf> = match named {
        Some(path) => vec![path.to_owned()],
        None => NAMES.iter().map(PathBuf::from).collect(),
    };
    let mut tried = Vec::new();
    let mut without_venv = None;
    for candidate in candidates {
        match probe(&candidate) {
            Ok((python, true)) => return Ok(python),
            Ok((python, false)) => {
                without_venv.get_or_insert(python);
            }
            Err(problem) => tried.push(format!("{}: {problem}", candidate.display())),
        }
    }
    Err(match without_venv {
        Some(python) => SetupError::NoVenv {
            python: python.path,
            version: python.version,
        },
        None => SetupError::NoPython {
            tried: tried.join("; "),
        },
    })
}

fn probe(candidate: &Path) -> Result<(Python, bool), String> {
    let output = Command::new(candidate)
        .args(["-I", "-c", PROBE])
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "not found".to_owned(),
            _ => error.to_string(),
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.trim_end().splitn(5, ' ');
    let (Some(name), Some(major), Some(minor), Some(venv), Some(path)) = (
        words.next(),
        words.next(),
        words.next(),
        words.next(),
        words.next(),
    ) else {
        return Err("it does not run".to_owned());
    };
    let version = format!("{major}.{minor}");
    let fits = major == "3" && minor.parse().is_ok_and(|m| SUPPORTED.contains(&m));
    if name != "cpython" || !fits {
        return Err(format!("{name} {version}"));
    }
    let path = PathBuf::from(path);
    Ok((Python { path, version }, venv == "1"))
}

/// Checks that both compilers run, and that the C++ one knows C++20.
pub(crate) fn check_compilers() -> Result<(), SetupError> {
    for (language, program, arguments) in [
        ("C", "cc", ["-x", "c", "-fsyntax-only"]),
        ("C++", "c++", ["-std=c++20", "-xc++", "-fsyntax-only"]),
    ] {
        let problem = match Command::new(program)
            .args(arguments)
            .arg("/dev/null")
            .output()
        {
            Ok(output) if output.status.success() => continue,
            Ok(output) => format!(
                "fails: {}",
                String::from_utf8_lossy(&output.stderr)
                    .lines()
                    .next()
                    .unwrap_or_default()
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                "is not on the PATH".to_owned()
            }
            Err(error) => error.to_string(),
        };
        return Err(SetupError::NoCompiler {
            language,
            program,
            problem,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Stdio;

    fn fake(folder: &Path, answer: &str) -> PathBuf {
        let path = folder.join("fake-python");
        // Written by another process: a file that this one has open for writing may be held open by
        // a child that another test's thread just forked, and would then not run ("text file busy").
        let written = Command::new("/bin/sh")
            .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .and_then(|mut shell| {
                let mut input = shell.stdin.take().unwrap();
                write!(input, "#!/bin/sh\necho '{answer}'\n")?;
                drop(input);
                shell.wait()
            });
        assert!(written.unwrap().success());
        path
    }

    #[test]
    fn a_fitting_python_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let python = fake(folder.path(), "cpython 3 12 1 /a b/python");
        assert_eq!(
            find(Some(&python)).unwrap(),
            Python {
                path: "/a b/python".into(),
                version: "3.12".into()
            }
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for (answer, shown) in [
            ("cpython 3 10 1 /p", "cpython 3.10"),
            ("cpython 3 15 1 /p", "cpython 3.15"),
            ("pypy 3 11 1 /p", "pypy 3.11"),
            ("", "does not run"),
        ] {
            let python = fake(folder.path(), answer);
            let message = find(Some(&python)).unwrap_err().to_string();
            assert!(message.contains(shown), "{message}");
            assert!(message.contains("MKB_PYTHON"), "{message}");
        }
        let missing = folder.path().join("none");
        let message = find(Some(&missing)).unwrap_err().to_string();
        assert!(message.contains("not found"), "{message}");
    }

    #[test]
    fn a_python_without_venv_says_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let python = fake(folder.path(), "cpython 3 11 0 /usr/bin/python3");
        let message = find(Some(&python)).unwrap_err().to_string();
        assert!(message.contains("python3.11-venv"), "{message}");
    }
}
