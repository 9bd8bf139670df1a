//! Files that are whole or absent, whatever happens meanwhile: a kill, a full disk, a power cut.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::StoreError;
use crate::json;

/// Writes a file as `<name>.<pid>.tmp` beside it, makes it durable, and renames it. On an error
/// the file that stood there before still does.
///
/// # Errors
/// Where the system refuses; the temporary file is removed.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temporary = temporary_path(path);
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Best effort: a leftover is swept when the store is next opened.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(StoreError::io(path))?;
    match path.parent() {
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Writes JSON as the formats have it: two-space indent, ASCII, no final newline.
///
/// # Errors
/// As [`write()`].
pub fn write_json(path: &Path, value: &Value) -> Result<(), StoreError> {
    write(path, json::pretty(value).as_bytes())
}

/// Makes the names in a folder durable.
///
/// # Errors
/// Where the system refuses.
pub fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder)
        .and_then(|handle| handle.sync_all())
        .map_err(StoreError::io(folder))
}

/// The process whose temporary file a name is: it ends in `.<pid>.tmp`. `None` for other names.
pub fn temporary_of(name: &str) -> Option<u32> {
    let (stem, pid) = name.strip_suffix(".tmp")?.rsplit_once('.')?;
    if stem.is_empty() || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    pid.parse().ok()
}

fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_temporary() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("record.json");
        write(&path, b"old").expect("written");
        // A folder in the way of the temporary file.
        let blocker = temporary_path(&path);
        fs::create_dir(&blocker).expect("mkdir");
        assert!(matches!(write(&path, b"new"), Err(StoreError::Io { .. })));
        fs::remove_dir(&blocker).expect("rmdir");
        assert_eq!(fs::read(&path).expect("read"), b"old");
        write(&path, b"new").expect("written");
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
    }

    #[test]
    fn temporary_names_are_told_from_others() {
        for (name, expected) in [
            ("record.json.12.tmp", Some(12)),
            ("12.tmp", None),
            (".12.tmp", None),
            ("a.tmp", None),
            ("a.x.tmp", None),
            ("a..tmp", None),
            ("record.json", None),
        ] {
            assert_eq!(temporary_of(name), expected, "{name}");
        }
    }
}
