//! Files of one JSON object a line, and the repair of a torn last line.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use crate::error::StoreError;
use crate::json;

/// What was done to a last line that did not end in LF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The line was whole but for its LF, which was added.
    Completed,
    /// The line was half written; its bytes were cut off.
    Dropped {
        /// How many bytes.
        bytes: usize,
    },
}

/// Appends a line and makes it durable. On an error nothing is appended.
///
/// # Errors
/// Where the system refuses.
pub fn append(path: &Path, entry: &Value) -> Result<(), StoreError> {
    let text = json::line(entry) + "\n";
    let append = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        let before = file.metadata()?.len();
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_data());
        if written.is_err() {
            // A full disk may have taken half of the line.
            let _ = file.set_len(before);
        }
        written
    };
    append().map_err(StoreError::io(path))
}

/// Repairs a file whose writer was killed in the middle of a line. `None` where there is nothing
/// to repair, or no file.
///
/// # Errors
/// Where the system refuses.
pub fn repair(path: &Path) -> Result<Option<Repair>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(path)(error)),
    };
    let start = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let tail = &bytes[start..];
    if tail.is_empty() {
        return Ok(None);
    }
    let is_whole = serde_json::from_slice::<serde_json::Map<String, Value>>(tail).is_ok();
    let fix = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(path)?;
        if is_whole {
            file.write_all(b"\n")?;
        } else {
            file.set_len(start as u64)?;
        }
        file.sync_all()
    };
    fix().map_err(StoreError::io(path))?;
    Ok(Some(if is_whole {
        Repair::Completed
    } else {
        Repair::Dropped { bytes: tail.len() }
    }))
}

/// Reads the lines; a torn last line is passed over, any other must be JSON. No file reads as no
/// lines.
///
/// # Errors
/// Where the system refuses, or a line that ends in LF is no JSON: path and line are named.
pub fn read(path: &Path) -> Result<Vec<Value>, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io(path)(error)),
    };
    let mut entries = Vec::new();
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        match serde_json::from_slice(line) {
            Ok(entry) => entries.push(entry),
            Err(_) if !line.ends_with(b"\n") => {}
            Err(error) => {
                return Err(StoreError::Malformed {
                    path: path.to_owned(),
                    line: Some(index + 1),
                    what: format!("no JSON: {error}"),
                });
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_half_written_line_is_cut_off_and_the_rest_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("submissions.jsonl");
        append(&path, &json!({"id": "1", "note": "é"})).expect("appended");
        let whole = fs::read(&path).expect("read");
        assert_eq!(whole, b"{\"id\": \"1\", \"note\": \"\\u00e9\"}\n");
        fs::write(&path, [&whole, &b"{\"id\": \"2\", \"no"[..]].concat()).expect("torn");
        assert_eq!(read(&path).expect("read").len(), 1);
        assert_eq!(
            repair(&path).expect("repaired"),
            Some(Repair::Dropped { bytes: 15 })
        );
        assert_eq!(fs::read(&path).expect("read"), whole);
        assert_eq!(repair(&path).expect("nothing to do"), None);
    }

    #[test]
    fn a_line_that_lacks_only_its_newline_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.jsonl");
        fs::write(&path, "{\"a\": 1}\n{\"a\": 2}").expect("written");
        assert_eq!(repair(&path).expect("repaired"), Some(Repair::Completed));
        append(&path, &json!({"a": 3})).expect("appended");
        assert_eq!(read(&path).expect("read").len(), 3);
    }

    #[test]
    fn a_broken_line_in_the_middle_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.jsonl");
        fs::write(&path, "{\"a\": 1}\n{\"a\"\n{\"a\": 2}\n").expect("written");
        let error = read(&path).expect_err("broken").to_string();
        assert!(error.contains("a.jsonl:2: no JSON"), "{error}");
    }

    proptest! {
        #[test]
        fn cut_anywhere_whole_lines_survive(texts in prop::collection::vec(".{0,8}", 1..5), cut in 0usize..200) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("a.jsonl");
            for text in &texts {
                append(&path, &json!({ "t": text })).expect("appended");
            }
            let mut bytes = fs::read(&path).expect("read");
            let ends: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] == b'\n').collect();
            bytes.truncate(cut);
            fs::write(&path, &bytes).expect("cut");
            repair(&path).expect("repaired");
            append(&path, &json!({"t": "after"})).expect("appended");
            // A line is whole once its closing brace is there, one byte before its newline.
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            let read = read(&path).expect("read");
            prop_assert_eq!(read.len(), whole + 1);
            for (entry, text) in read.iter().zip(&texts[..whole]) {
                prop_assert_eq!(entry, &json!({ "t": text }));
            }
        }
    }
}
