//! What a killed driver leaves behind: folders, each with a lock that its driver held. The kernel
//! lets go of the lock with the driver, so what is not held is nobody's.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::error::{Result, at};
use crate::folder::remove_tree;

/// Folders of sandboxes begin so.
pub(crate) const PREFIX: &str = "attempt-";
/// In each such folder.
const OWNER: &str = "owner.json";

/// Who made a sandbox's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: i32,
}

/// A sandbox that its driver left behind, now removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The folder that was removed.
    pub folder: PathBuf,
    /// The process number of the driver that made it, if it got to say so.
    pub driver: Option<i32>,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the sandbox {}", self.folder.display())?;
        match self.driver {
            Some(pid) => write!(f, " of the ended process {pid}"),
            None => Ok(()),
        }
    }
}

/// Marks `folder` as this process's; it is so while the file lives.
pub(crate) fn own(folder: &Path) -> Result<File> {
    let path = folder.join(OWNER);
    let owner = Owner {
        pid: std::process::id() as i32,
    };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(at(&path))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(at(&path))?;
    serde_json::to_writer(&file, &owner).map_err(at(&path))?;
    Ok(file)
}

/// Removes the sandboxes in `state` whose driver is gone; says which. Their processes went with
/// the driver.
///
/// # Errors
/// If `state` cannot be read or a folder not be removed; a `state` that does not exist is empty.
pub fn sweep(state: &Path) -> Result<Vec<Leftover>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(state) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(e) => return Err(at(state)(e)),
    };
    for entry in entries {
        let entry = entry.map_err(at(state))?;
        let folder = entry.path();
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !ours || !folder.is_dir() {
            continue;
        }
        let mut driver = None;
        match File::open(folder.join(OWNER)) {
            Ok(mut file) => {
                if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                    continue;
                }
                let mut text = String::new();
                // A torn file is a driver killed early, unless it is just being written.
                let _ = file.read_to_string(&mut text);
                driver = serde_json::from_str::<Owner>(&text).ok().map(|o| o.pid);
                if driver.is_none() && is_young(&folder) {
                    continue;
                }
            }
            // A driver between the folder's making and the lock's: young folders are let be.
            Err(_) if is_young(&folder) => continue,
            Err(_) => {}
        }
        remove_tree(&folder)?;
        found.push(Leftover { folder, driver });
    }
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(found)
}

fn is_young(folder: &Path) -> bool {
    let made = fs::metadata(folder).and_then(|m| m.modified());
    made.ok()
        .and_then(|t| t.elapsed().ok())
        .is_some_and(|age| age.as_secs() < 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_stays_and_what_is_not_goes() {
        let state = tempfile::tempdir().unwrap();
        let held = state.path().join("attempt-held");
        let left = state.path().join("attempt-left");
        let other = state.path().join("something-else");
        for folder in [&held, &left, &other] {
            fs::create_dir(folder).unwrap();
        }
        let lock = own(&held).unwrap();
        drop(own(&left).unwrap());
        fs::create_dir_all(left.join("app/deep")).unwrap();
        fs::write(left.join("app/deep/kernel.py"), "x").unwrap();
        let gone = sweep(state.path()).unwrap();
        let pid = std::process::id() as i32;
        assert_eq!(
            gone,
            vec![Leftover {
                folder: left.clone(),
                driver: Some(pid)
            }]
        );
        assert!(held.exists() && other.exists() && !left.exists());
        drop(lock);
        assert_eq!(sweep(state.path()).unwrap().len(), 1);
        assert_eq!(sweep(&state.path().join("absent")).unwrap(), vec![]);
    }

    #[test]
    fn a_torn_mark_is_nobodys_once_it_is_old() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("attempt-torn");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(OWNER), "{\"pid\":12").unwrap();
        assert_eq!(sweep(state.path()).unwrap(), vec![]);
        let an_hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        File::open(&folder)
            .unwrap()
            .set_modified(an_hour_ago)
            .unwrap();
        let gone = sweep(state.path()).unwrap();
        assert_eq!(
            gone,
            vec![Leftover {
                folder,
                driver: None
            }]
        );
    }
}
