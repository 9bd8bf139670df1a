//! What can go wrong in set-up, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no environment. The message ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Not an x86-64 Linux machine.
    #[error("the environment is for Linux on x86-64; this is {os} on {arch}")]
    Platform {
        /// The operating system.
        os: &'static str,
        /// The processor.
        arch: &'static str,
    },
    /// A file of the repository is missing.
    #[error("{}: {source}. Is {} the repository's root?", path.display(), root.display())]
    Repository {
        /// The file.
        path: PathBuf,
        /// What was taken for the root.
        root: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// No Python that fits.
    #[error(
        "no Python from 3.11 to 3.14 was found ({tried}). Install one, or name it in MKB_PYTHON"
    )]
    NoPython {
        /// What was tried, and what it said.
        tried: String,
    },
    /// The Python that was found cannot make environments.
    #[error(
        "{} (Python {version}) has no `venv` with pip. Install it (Debian, Ubuntu: \
         `apt install python{version}-venv`), or name another Python in MKB_PYTHON",
        python.display()
    )]
    NoVenv {
        /// The Python.
        python: PathBuf,
        /// Its version, without the last part.
        version: String,
    },
    /// No compiler.
    #[error(
        "no {language} compiler: `{program}` {problem}. Install one (Debian, Ubuntu: `apt install g++`; \
         Fedora: `dnf install gcc-c++`)"
    )]
    NoCompiler {
        /// C or C++.
        language: &'static str,
        /// The program that was tried.
        program: &'static str,
        /// What happened.
        problem: String,
    },
    /// Too little room on the disk.
    #[error(
        "{} has {free_gib:.1} GiB free; set-up needs {needed_gib:.1} GiB. Make room, or move the \
         repository to a larger disk",
        path.display()
    )]
    DiskSpace {
        /// Where the environment would lie.
        path: PathBuf,
        /// Free space there.
        free_gib: f64,
        /// What is needed.
        needed_gib: f64,
    },
    /// The registry did not answer.
    #[error(
        "the package registry cannot be reached: {detail}. Check the network and the proxy \
         (HTTPS_PROXY, PIP_INDEX_URL), or put the wheels of python/requirements.lock in a folder and \
         name it in MKB_WHEELS"
    )]
    Registry {
        /// pip's words.
        detail: String,
    },
    /// A package is not the one that the lock names.
    #[error(
        "a package is not the one that python/requirements.lock names: {detail}. A mirror or a proxy \
         may have changed it: use another index (PIP_INDEX_URL)"
    )]
    Hash {
        /// pip's words.
        detail: String,
    },
    /// A step's program failed.
    #[error("{step} failed: {detail}\nThe whole output is in {}", log.display())]
    Step {
        /// Which step.
        step: &'static str,
        /// The end of what it said.
        detail: String,
        /// Where all of it is.
        log: PathBuf,
    },
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("set-up was interrupted; the next one goes on from here")]
    Cancelled,
}

impl SetupError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
