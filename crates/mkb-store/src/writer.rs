//! A store's folder, written by the one process that holds its lock.
//!
//! A trial is believed once its `record.json` stands, and that file is written last, whole and
//! durable. Whatever else is in a trial's folder then was written before it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Zoned;
use mkb_catalog::{Trial, Verdict};
use serde_json::{Value, json};

use crate::atomic;
use crate::error::StoreError;
use crate::identity::Identity;
use crate::lines::{self, Repair};
use crate::lock::Lock;
use crate::record::{Record, Stamps, StoredTrial, SubmissionEntry};
use crate::store::{
    ARCHIVE, ARTIFACTS, FINAL, IDENTITY, INVOCATIONS, KEPT, KERNEL, LOCK, PROBLEMS, PROVENANCE,
    RECORD, SUBMISSIONS, Store, VERDICT, entries,
};

/// Something about the store that a person should hear of when it is opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The lock of a process that is gone was cleared.
    LockCleared {
        /// Who held it.
        holder: String,
    },
    /// A file's last line was torn.
    Repaired {
        /// The file.
        path: PathBuf,
        /// What was done.
        repair: Repair,
    },
    /// A file that a killed process was writing was removed; the one that it was to replace
    /// stands.
    Swept {
        /// The temporary file.
        path: PathBuf,
    },
    /// The store was begun under other versions; its trials say under which each ran.
    OtherVersions {
        /// What differs: name, version when the store was begun, version now.
        differences: Vec<(String, String, String)>,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::LockCleared { holder } => {
                write!(f, "cleared the lock of {holder}, which is gone")
            }
            Notice::Repaired {
                path,
                repair: Repair::Completed,
            } => {
                write!(
                    f,
                    "{}: ended its last line, which was whole",
                    path.display()
                )
            }
            Notice::Repaired {
                path,
                repair: Repair::Dropped { bytes },
            } => write!(
                f,
                "{}: cut off a half-written last line ({bytes} bytes); the lines before it are kept",
                path.display()
            ),
            Notice::Swept { path } => {
                write!(
                    f,
                    "{}: removed, a killed run left it half-written",
                    path.display()
                )
            }
            Notice::OtherVersions { differences } => {
                write!(f, "the store was begun under other versions:")?;
                for (name, then, now) in differences {
                    write!(f, " {name} {then} then, {now} now;")?;
                }
                write!(f, " compare its trials with care")
            }
        }
    }
}

/// A store that this process may write. Dereferences to the [`Store`] for reading.
#[derive(Debug)]
pub struct StoreWriter {
    store: Store,
    /// Serialises what threads would do to one file or name.
    order: Mutex<()>,
    _lock: Lock,
}

impl Deref for StoreWriter {
    type Target = Store;
    fn deref(&self) -> &Store {
        &self.store
    }
}

impl StoreWriter {
    /// Takes the store's lock, creates what is missing, and mends what a killed run left.
    /// `versions` names what results depend on beside the setting, e.g. `torch`.
    ///
    /// # Errors
    /// As [`Store::open`]; [`StoreError::Locked`]; where the system refuses.
    pub fn open(
        results: &Path,
        identity: Identity,
        versions: &BTreeMap<String, String>,
    ) -> Result<(Self, Vec<Notice>), StoreError> {
        let store = Store::open(results, identity)?;
        let folder = store.folder();
        fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        let (lock, cleared) = Lock::acquire(&folder.join(LOCK))?;
        // Another run may have begun the store between the first look and the lock.
        let store = Store::open(results, store.identity().clone())?;
        let mut notices = Vec::new();
        notices.extend(cleared.map(|cleared| Notice::LockCleared { holder: cleared.0 }));
        notices.extend(sweep(&store)?);
        let log = store.folder().join(INVOCATIONS);
        if let Some(repair) = lines::repair(&log)? {
            notices.push(Notice::Repaired { path: log, repair });
        }
        match store.identity_file()? {
            Some(stored) => notices.extend(other_versions(&stored, versions)),
            None => {
                let identity = store.identity().to_json(&timestamp(), versions);
                atomic::write_json(&store.folder().join(IDENTITY), &identity)?;
            }
        }
        let writer = Self {
            store,
            order: Mutex::new(()),
            _lock: lock,
        };
        Ok((writer, notices))
    }

    /// Moves a trial's folder to the archive, record or not. `None` where there is no folder.
    ///
    /// # Errors
    /// Where the system refuses; the folder then stands where it stood.
    pub fn archive(&self, trial: &Trial) -> Result<Option<PathBuf>, StoreError> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.trial_folder(trial);
        if !folder.exists() {
            return Ok(None);
        }
        let archive = self.folder().join(ARCHIVE);
        fs::create_dir_all(&archive).map_err(StoreError::io(&archive))?;
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let stamp = Zoned::now().strftime("%Y-%m-%d__%H-%M-%S").to_string();
        // Two archivings of one trial within a second get numbers.
        let target = (1..)
            .map(|n| match n {
                1 => archive.join(format!("{stamp}__{name}")),
                n => archive.join(format!("{stamp}__{name}.{n}")),
            })
            .find(|path| !path.exists())
            .unwrap_or_else(|| archive.join(&name));
        fs::rename(&folder, &target).map_err(StoreError::io(&folder))?;
        atomic::sync_folder(&archive)?;
        Ok(Some(target))
    }

    /// Begins an attempt at a trial in an empty folder of its own; a folder that stands there is
    /// archived.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn begin(&self, trial: &Trial) -> Result<TrialWriter<'_>, StoreError> {
        self.archive(trial)?;
        let folder = self.trial_folder(trial);
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        Ok(TrialWriter {
            writer: self,
            folder,
            kept: AtomicUsize::new(0),
        })
    }

    /// Writes the attachment that a trial is given; one that stands there is replaced. Solos are
    /// given none, and nothing is written for them.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn write_attachment(&self, trial: &Trial, text: &str) -> Result<(), StoreError> {
        let Some(path) = self.attachment_path(trial) else {
            return Ok(());
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        }
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        atomic::write(&path, text.as_bytes())
    }

    /// Appends a line to the invocation log.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn append_invocation(&self, entry: &Value) -> Result<(), StoreError> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        lines::append(&self.folder().join(INVOCATIONS), entry)
    }

    /// Writes a file of figures at the top of the store, e.g. `results.json`.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn write_figures(&self, name: &str, figures: &Value) -> Result<PathBuf, StoreError> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.folder().join(name);
        atomic::write_json(&path, figures)?;
        Ok(path)
    }
}

/// One attempt at a trial, being written.
#[derive(Debug)]
pub struct TrialWriter<'a> {
    writer: &'a StoreWriter,
    folder: PathBuf,
    kept: AtomicUsize,
}

impl TrialWriter<'_> {
    /// The trial's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a line to the submission log.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn log_submission(&self, entry: &SubmissionEntry) -> Result<(), StoreError> {
        let _order = self
            .writer
            .order
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lines::append(&self.folder.join(SUBMISSIONS), &to_value(entry))
    }

    /// Keeps a submission as `submissions/<n>/` with `n` counted from 1: its kernel, and where
    /// there is a verdict, that, its report, and the evidence. Returns `n`.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn keep_submission(
        &self,
        kernel: &[u8],
        verdict: Option<&Verdict>,
        evidence: &[(String, Vec<u8>)],
    ) -> Result<usize, StoreError> {
        let number = 1 + self.kept.fetch_add(1, Ordering::SeqCst);
        let folder = self.folder.join(KEPT).join(number.to_string());
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        atomic::write(&folder.join(KERNEL), kernel)?;
        if let Some(verdict) = verdict {
            atomic::write(&folder.join("report.txt"), verdict.report.as_bytes())?;
            atomic::write_json(&folder.join(VERDICT), &to_value(verdict))?;
        }
        write_named(&folder, evidence)?;
        Ok(number)
    }

    /// Keeps what the attempt left in its sandbox, by sandbox path. The folder stands even where
    /// it left nothing.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn write_artifacts(&self, files: &[(&str, &[u8])]) -> Result<(), StoreError> {
        let root = self.folder.join(ARTIFACTS);
        fs::create_dir_all(&root).map_err(StoreError::io(&root))?;
        for (sandbox_path, bytes) in files {
            let path = root.join(sandbox_path.trim_start_matches('/'));
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
            }
            atomic::write(&path, bytes)?;
        }
        Ok(())
    }

    /// Keeps files of the agent's own, by name, below `agent/`.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn write_logs(&self, logs: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
        if logs.is_empty() {
            return Ok(());
        }
        let folder = self.folder.join("agent");
        fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
        write_named(&folder, logs)
    }

    /// Writes the final verdict, with its texts cut to what the formats keep, and the evidence
    /// beside it.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn write_verdict(
        &self,
        verdict: &Verdict,
        evidence: &[(String, Vec<u8>)],
    ) -> Result<(), StoreError> {
        let folder = self.folder.join(FINAL);
        if !evidence.is_empty() {
            fs::create_dir_all(&folder).map_err(StoreError::io(&folder))?;
            write_named(&folder, evidence)?;
        }
        let trimmed = verdict.clone().trimmed();
        atomic::write_json(&self.folder.join(VERDICT), &to_value(&trimmed))
    }

    /// Ends the attempt: the versions that it ran under, then its record, after which it stands.
    ///
    /// # Errors
    /// Where the system refuses; the trial then has no record and will be run again.
    pub fn finish(
        self,
        record: Record,
        stamps: Stamps,
        versions: &BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let identity = self.writer.identity();
        let provenance = json!({
            "finished_at": timestamp(),
            "device": identity.setting.device,
            "clock": identity.setting.clock,
            "workload": identity.setting.workload,
            "budget": identity.budget,
            "versions": versions,
        });
        atomic::write_json(&self.folder.join(PROVENANCE), &provenance)?;
        if let Some(problem_folder) = self.folder.parent() {
            atomic::sync_folder(problem_folder)?;
        }
        let stored = StoredTrial { record, stamps };
        atomic::write_json(&self.folder.join(RECORD), &to_value(&stored))
    }
}

/// Local time with its offset, in whole seconds, e.g. `2026-01-31T09:05:07+01:00`.
pub fn timestamp() -> String {
    Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

fn write_named(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
    for (name, bytes) in files {
        // Names come from our own judge and agents; a path would be their mistake.
        let name = Path::new(name).file_name().unwrap_or_default();
        atomic::write(&folder.join(name), bytes)?;
    }
    Ok(())
}

fn to_value(data: &impl serde::Serialize) -> Value {
    serde_json::to_value(data).expect("the formats' types have text keys and finite numbers")
}

/// Removes what killed writers left half-written: at the top, in problems' and in trials' folders.
/// A live process's temporary file is let be: it may be about to try for the lock.
fn sweep(store: &Store) -> Result<Vec<Notice>, StoreError> {
    let own = std::process::id();
    let mut notices = Vec::new();
    let problems = store.folder().join(PROBLEMS);
    let mut folders = vec![store.folder().to_owned()];
    for problem in entries(&problems)? {
        let problem = problems.join(problem);
        for trial in entries(&problem)? {
            folders.push(problem.join(trial));
        }
        folders.push(problem);
    }
    for folder in folders {
        for name in entries(&folder)? {
            let path = folder.join(&name);
            let is_leftover = atomic::temporary_of(&name)
                .is_some_and(|pid| !is_running(pid) || (pid == own && !name.starts_with(LOCK)));
            if is_leftover && path.is_file() {
                fs::remove_file(&path).map_err(StoreError::io(&path))?;
                notices.push(Notice::Swept { path });
            }
        }
    }
    Ok(notices)
}

fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn other_versions(stored: &Value, now: &BTreeMap<String, String>) -> Option<Notice> {
    let then = stored.get("versions")?.as_object()?;
    let differences: Vec<_> = now
        .iter()
        .filter_map(|(name, version)| {
            let old = then.get(name).and_then(Value::as_str).unwrap_or("unknown");
            (old != version).then(|| (name.clone(), old.to_owned(), version.clone()))
        })
        .collect();
    (!differences.is_empty()).then_some(Notice::OtherVersions { differences })
}
