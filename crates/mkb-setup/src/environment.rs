//! Where the environment is, whether it is whole, and how to start its Python.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::SetupError;

/// The file whose presence, with the right content, makes an environment believed.
pub(crate) const COMPLETE: &str = "complete.json";
const LOCK: &str = "python/requirements.lock";
const NATIVE: [&str; 2] = ["python/mkb_shim/native", "python/mkb_shim"];

/// A whole environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its folder.
    pub root: PathBuf,
    /// Its Python.
    pub python: PathBuf,
    /// What goes on `PYTHONPATH`: the repository's own Python. (The CuTe DSL's folder is added by the
    /// worker itself, for its submissions alone.)
    pub pythonpath: Vec<PathBuf>,
    /// Variables that a worker's environment must have, `PYTHONPATH` among them.
    pub variables: Vec<(String, String)>,
    /// Versions of what it holds.
    pub versions: Versions,
}

/// Versions of what the environment holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Python's, in full.
    pub python: String,
    /// torch's.
    pub torch: String,
    /// TVM's.
    pub tvm: String,
    /// What torch calls the processor's vector instructions; results depend on it.
    pub cpu_capability: String,
}

/// What [`COMPLETE`] holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Complete {
    pub lock: String,
    pub native: String,
    pub versions: Versions,
}

/// The state of the environment, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Missing,
    /// A set-up began and did not end: the next goes on.
    Unfinished,
    /// It is whole, but our own native code has changed since: the next set-up compiles it again.
    Outdated,
    /// It is whole.
    Ready(Box<Environment>),
}

/// The folder of the environment for the repository at `root`, there or not.
pub fn locate(root: &Path) -> Result<PathBuf, SetupError> {
    Ok(root
        .join(".mkb")
        .join(format!("env-{}", &lock_hash(root)?[..12])))
}

/// What there is, without changing anything. Takes milliseconds.
pub fn describe(root: &Path) -> Result<State, SetupError> {
    let folder = locate(root)?;
    if !folder.exists() {
        return Ok(State::Missing);
    }
    let Some(complete) = read_complete(&folder) else {
        return Ok(State::Unfinished);
    };
    if complete.lock != lock_hash(root)? || !python_of(&folder).exists() {
        return Ok(State::Unfinished);
    }
    if complete.native != native_hash(root)? {
        return Ok(State::Outdated);
    }
    Ok(State::Ready(Box::new(environment(
        root,
        folder,
        complete.versions,
    ))))
}

pub(crate) fn environment(root: &Path, folder: PathBuf, versions: Versions) -> Environment {
    let pythonpath = vec![root.join("python")];
    let joined = std::env::join_paths(&pythonpath)
        .map(|paths| paths.to_string_lossy().into_owned())
        .unwrap_or_default();
    let mut variables = vec![("PYTHONPATH".to_owned(), joined)];
    let fixed = [
        ("PYTHONNOUSERSITE", "1"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        // Each tensor is an allocation of its own.
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
        ("TORCHDYNAMO_DISABLE", "1"),
        // torch's results depend on the number of threads.
        ("OMP_NUM_THREADS", "1"),
        ("MKL_NUM_THREADS", "1"),
        ("OPENBLAS_NUM_THREADS", "1"),
    ];
    variables.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Environment {
        python: python_of(&folder),
        root: folder,
        pythonpath,
        variables,
        versions,
    }
}

pub(crate) fn python_of(folder: &Path) -> PathBuf {
    folder.join("bin/python")
}

pub(crate) fn read_complete(folder: &Path) -> Option<Complete> {
    serde_json::from_slice(&fs::read(folder.join(COMPLETE)).ok()?).ok()
}

/// Hash of the lock file: what packages the environment holds.
pub(crate) fn lock_hash(root: &Path) -> Result<String, SetupError> {
    let path = root.join(LOCK);
    let bytes = fs::read(&path).map_err(repository(root, &path))?;
    Ok(hex(&Sha256::digest(bytes)))
}

/// Hash of our native sources and the scripts that build them.
pub(crate) fn native_hash(root: &Path) -> Result<String, SetupError> {
    let mut sum = Sha256::new();
    for folder in NATIVE {
        let folder = root.join(folder);
        let mut files: Vec<PathBuf> = fs::read_dir(&folder)
            .map_err(repository(root, &folder))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path
                    .file_name()
                    .and_then(|n| n.to_str())
                    .unwrap_or_default();
                let native = [".c", ".cpp", ".h"].iter().any(|end| name.ends_with(end));
                native || ["build.py", "stubs.py", "elf.py", "paths.py"].contains(&name)
            })
            .collect();
        files.sort();
        for file in files {
            let bytes = fs::read(&file).map_err(repository(root, &file))?;
            sum.update(file.file_name().unwrap_or_default().as_encoded_bytes());
            sum.update([0]);
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
        }
    }
    Ok(hex(&sum.finalize()))
}

pub(crate) fn repository<'a>(
    root: &'a Path,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> SetupError + 'a {
    move |source| SetupError::Repository {
        path: path.to_owned(),
        root: root.to_owned(),
        source,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("python/mkb_shim/native")).unwrap();
        fs::write(root.path().join(LOCK), "torch==1 --hash=sha256:00\n").unwrap();
        fs::write(root.path().join("python/mkb_shim/native/a.cpp"), "int x;").unwrap();
        root
    }

    fn versions() -> Versions {
        Versions {
            python: "3.11.2".into(),
            torch: "2.13.0".into(),
            tvm: "0.25".into(),
            cpu_capability: "AVX2".into(),
        }
    }

    fn complete(root: &Path) -> PathBuf {
        let folder = locate(root).unwrap();
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/python"), "").unwrap();
        let complete = Complete {
            lock: lock_hash(root).unwrap(),
            native: native_hash(root).unwrap(),
            versions: versions(),
        };
        fs::write(
            folder.join(COMPLETE),
            serde_json::to_vec(&complete).unwrap(),
        )
        .unwrap();
        folder
    }

    #[test]
    fn a_folder_without_its_last_file_is_unfinished() {
        let root = repository();
        assert_eq!(describe(root.path()).unwrap(), State::Missing);
        fs::create_dir_all(locate(root.path()).unwrap()).unwrap();
        assert_eq!(describe(root.path()).unwrap(), State::Unfinished);
        fs::write(locate(root.path()).unwrap().join(COMPLETE), "{\"lock\":").unwrap();
        assert_eq!(describe(root.path()).unwrap(), State::Unfinished);
    }

    #[test]
    fn a_whole_environment_is_ready_and_gone_with_its_python() {
        let root = repository();
        let folder = complete(root.path());
        let State::Ready(environment) = describe(root.path()).unwrap() else {
            panic!("not ready")
        };
        assert_eq!(environment.python, folder.join("bin/python"));
        assert_eq!(environment.versions, versions());
        assert!(environment.variables.contains(&(
            "PYTHONPATH".into(),
            root.path().join("python").display().to_string()
        )));
        fs::remove_file(folder.join("bin/python")).unwrap();
        assert_eq!(describe(root.path()).unwrap(), State::Unfinished);
    }

    #[test]
    fn changed_native_code_makes_it_outdated_and_a_changed_lock_another_folder() {
        let root = repository();
        let folder = complete(root.path());
        fs::write(root.path().join("python/mkb_shim/native/a.cpp"), "int y;").unwrap();
        assert_eq!(describe(root.path()).unwrap(), State::Outdated);
        fs::write(root.path().join(LOCK), "torch==2 --hash=sha256:00\n").unwrap();
        assert_ne!(locate(root.path()).unwrap(), folder);
        assert_eq!(describe(root.path()).unwrap(), State::Missing);
    }

    #[test]
    fn a_folder_that_is_no_repository_says_so() {
        let root = tempfile::tempdir().unwrap();
        let message = describe(root.path()).unwrap_err().to_string();
        assert!(message.contains("requirements.lock") && message.contains("repository's root"));
    }
}
