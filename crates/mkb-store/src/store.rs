//! A store's folder, read.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mkb_catalog::{Arm, Coordinate, Payload, ProblemName, Trial, Verdict};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::StoreError;
use crate::identity::{Identity, SCHEMA};
use crate::lines;
use crate::record::{StoredTrial, SubmissionEntry};

pub(crate) const IDENTITY: &str = "store.json";
pub(crate) const INVOCATIONS: &str = "invocations.jsonl";
pub(crate) const RESULTS: &str = "results.json";
pub(crate) const LOCK: &str = ".lock";
pub(crate) const ARCHIVE: &str = "archive";
pub(crate) const PROBLEMS: &str = "problems";
pub(crate) const RECORD: &str = "record.json";
pub(crate) const VERDICT: &str = "verdict.json";
pub(crate) const PROVENANCE: &str = "provenance.json";
pub(crate) const SUBMISSIONS: &str = "submissions.jsonl";
pub(crate) const KEPT: &str = "submissions";
pub(crate) const ARTIFACTS: &str = "artifacts";
pub(crate) const FINAL: &str = "final";
pub(crate) const KERNEL: &str = "kernel.py";

/// A submission that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Counted from 1, in the order in which they were served.
    pub number: usize,
    /// Where its files lie: `kernel.py`, and where it was evaluated `report.txt`, `verdict.json`
    /// and the judge's evidence.
    pub folder: PathBuf,
    /// Its kernel.
    pub kernel: Vec<u8>,
    /// Its verdict, where it was evaluated.
    pub verdict: Option<Verdict>,
}

/// The results of one model under one setting; it may not exist yet, and then it is empty.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    identity: Identity,
    prefix: String,
}

impl Store {
    /// The store for `identity` below `results`, whether it exists or not. Nothing is written.
    ///
    /// # Errors
    /// Where its `store.json` names another model or other conditions, or cannot be read.
    pub fn open(results: &Path, identity: Identity) -> Result<Self, StoreError> {
        let folder = results.join(identity.folder()?);
        if let Some(stored) = stored_identity(&folder)?
            && let Some((field, stored, wanted)) = identity.difference(&stored)
        {
            return Err(StoreError::OtherIdentity {
                path: folder,
                field,
                stored,
                wanted,
            });
        }
        Ok(Self {
            prefix: identity.prefix(),
            folder,
            identity,
        })
    }

    /// The store that lies in `folder`, whoever's it is.
    ///
    /// # Errors
    /// Where there is no `store.json`, or it cannot be read.
    pub fn load(folder: &Path) -> Result<Self, StoreError> {
        let identity = stored_identity(folder)?.ok_or_else(|| StoreError::Io {
            path: folder.join(IDENTITY),
            source: io::Error::from(io::ErrorKind::NotFound),
        })?;
        Ok(Self {
            prefix: identity.prefix(),
            folder: folder.to_owned(),
            identity,
        })
    }

    /// Every store below `results`, by folder name.
    ///
    /// # Errors
    /// Where the folder or a `store.json` in it cannot be read; no folder reads as no stores.
    pub fn list(results: &Path) -> Result<Vec<Self>, StoreError> {
        let mut stores = Vec::new();
        for name in entries(results)? {
            let folder = results.join(name);
            if folder.join(IDENTITY).is_file() {
                stores.push(Self::load(&folder)?);
            }
        }
        Ok(stores)
    }

    /// The store's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whose results it holds, under which conditions.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The whole of `store.json`, where there is one.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn identity_file(&self) -> Result<Option<Value>, StoreError> {
        read_json(&self.folder.join(IDENTITY))
    }

    /// Where `results.json` lies.
    pub fn results_path(&self) -> PathBuf {
        self.folder.join(RESULTS)
    }

    /// A problem's folder.
    pub fn problem_folder(&self, problem: &ProblemName) -> PathBuf {
        self.folder.join(PROBLEMS).join(problem.as_str())
    }

    /// A trial's folder.
    pub fn trial_folder(&self, trial: &Trial) -> PathBuf {
        let name = format!("{}_{}", self.prefix, trial.coordinate());
        self.problem_folder(&trial.problem).join(name)
    }

    /// Where the attachment that a trial is given lies, as it was given. `None` for solos.
    pub fn attachment_path(&self, trial: &Trial) -> Option<PathBuf> {
        let name = match &trial.arm {
            Arm::Solo(_) | Arm::SoloAgain(_) => return None,
            Arm::Transfer {
                direction,
                payload: Payload::Skill,
            } => direction.to_string(),
            control => control.to_string(),
        };
        let name = format!("r{}_{name}.md", trial.replicate);
        Some(
            self.problem_folder(&trial.problem)
                .join("skills")
                .join(name),
        )
    }

    /// The bytes of the attachment that a trial was given; `None` where there is none.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn attachment(&self, trial: &Trial) -> Result<Option<Vec<u8>>, StoreError> {
        match self.attachment_path(trial) {
            Some(path) => read_file(&path),
            None => Ok(None),
        }
    }

    /// A trial's record; `None` where it has none.
    ///
    /// # Errors
    /// Where the file is there and no record: a record is never half written, so someone changed
    /// it.
    pub fn record(&self, trial: &Trial) -> Result<Option<StoredTrial>, StoreError> {
        read_json(&self.trial_folder(trial).join(RECORD))
    }

    /// A trial's final verdict; `None` where it has none.
    ///
    /// # Errors
    /// Where the file is there and no verdict.
    pub fn verdict(&self, trial: &Trial) -> Result<Option<Verdict>, StoreError> {
        read_json(&self.trial_folder(trial).join(VERDICT))
    }

    /// Under which versions a trial ran; `None` for a trial of the reference implementation.
    ///
    /// # Errors
    /// Where the file is there and no JSON.
    pub fn provenance(&self, trial: &Trial) -> Result<Option<Value>, StoreError> {
        read_json(&self.trial_folder(trial).join(PROVENANCE))
    }

    /// A trial's submissions, in the order in which they were served.
    ///
    /// # Errors
    /// Where a line is no submission.
    pub fn submissions(&self, trial: &Trial) -> Result<Vec<SubmissionEntry>, StoreError> {
        let path = self.trial_folder(trial).join(SUBMISSIONS);
        lines::read(&path)?
            .into_iter()
            .enumerate()
            .map(|(index, line)| {
                serde_json::from_value(line).map_err(|error| StoreError::Malformed {
                    path: path.clone(),
                    line: Some(index + 1),
                    what: error.to_string(),
                })
            })
            .collect()
    }

    /// The submissions that a trial kept, in their order.
    ///
    /// # Errors
    /// Where a file cannot be read, or a verdict is none.
    pub fn kept_submissions(&self, trial: &Trial) -> Result<Vec<Kept>, StoreError> {
        let folder = self.trial_folder(trial).join(KEPT);
        let mut numbers: Vec<usize> = entries(&folder)?
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        numbers.sort_unstable();
        let mut kept = Vec::new();
        for number in numbers {
            let folder = folder.join(number.to_string());
            // A kernel is written first: without one, the writer was killed before it.
            if let Some(kernel) = read_file(&folder.join(KERNEL))? {
                kept.push(Kept {
                    number,
                    kernel,
                    verdict: read_json(&folder.join(VERDICT))?,
                    folder,
                });
            }
        }
        Ok(kept)
    }

    /// What the judge left beside a trial's final verdict (e.g. the tape), by name.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn final_evidence(&self, trial: &Trial) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let folder = self.trial_folder(trial).join(FINAL);
        let mut evidence = Vec::new();
        for name in entries(&folder)? {
            if let Some(bytes) = read_file(&folder.join(&name))? {
                evidence.push((name, bytes));
            }
        }
        Ok(evidence)
    }

    /// A file that a trial left in its sandbox, e.g. `/app/SKILL.md`; `None` where it left none.
    ///
    /// # Errors
    /// Where the trial's folder has no artifacts at all, or the file cannot be read.
    pub fn artifact(
        &self,
        trial: &Trial,
        sandbox_path: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let artifacts = self.trial_folder(trial).join(ARTIFACTS);
        if !artifacts.is_dir() {
            return Err(StoreError::Malformed {
                path: artifacts,
                line: None,
                what: "missing: the trial left no artifacts to learn from".to_owned(),
            });
        }
        read_file(&artifacts.join(sandbox_path.trim_start_matches('/')))
    }

    /// The replicates of a problem: those that its folder's entries name, in order.
    ///
    /// # Errors
    /// Where the folder cannot be read; no folder reads as no replicates.
    pub fn replicates(&self, problem: &ProblemName) -> Result<BTreeSet<u32>, StoreError> {
        let head = format!("{}_", self.prefix);
        Ok(entries(&self.problem_folder(problem))?
            .iter()
            .filter_map(|name| Coordinate::parse(name.strip_prefix(&head)?))
            .map(|coordinate| coordinate.replicate())
            .collect())
    }

    /// The lines of the invocation log.
    ///
    /// # Errors
    /// Where a line is no JSON.
    pub fn invocations(&self) -> Result<Vec<Value>, StoreError> {
        lines::read(&self.folder.join(INVOCATIONS))
    }
}

fn stored_identity(folder: &Path) -> Result<Option<Identity>, StoreError> {
    let path = folder.join(IDENTITY);
    let Some(value) = read_json::<Value>(&path)? else {
        return Ok(None);
    };
    let schema = value.get("schema").and_then(Value::as_u64).unwrap_or(0);
    if schema > SCHEMA {
        return Err(StoreError::LaterSchema {
            path: folder.to_owned(),
            stored: schema,
            known: SCHEMA,
        });
    }
    Identity::from_json(&value)
        .map(Some)
        .map_err(|what| StoreError::Malformed {
            path,
            line: None,
            what,
        })
}

/// The names in a folder that are UTF-8, sorted; no folder reads as no names.
pub(crate) fn entries(folder: &Path) -> Result<Vec<String>, StoreError> {
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(StoreError::io(folder)(error)),
    };
    let mut names = Vec::new();
    for entry in listing {
        let entry = entry.map_err(StoreError::io(folder))?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io(path)(error)),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    read_file(path)?
        .map(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| StoreError::Malformed {
                path: path.to_owned(),
                line: None,
                what: error.to_string(),
            })
        })
        .transpose()
}
