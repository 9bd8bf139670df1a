//! The digest of a task: sha256 over its visible files, so that a changed task is noticed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// Lower-case hexadecimal sha256.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A folder's files in memory, by their path's components, so that they stand in the order in
/// which they are hashed (`a/b` before `a-b`). Copies share their files' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTree {
    files: BTreeMap<Vec<String>, Arc<[u8]>>,
}

impl FileTree {
    /// Adds a file under a relative path with `/` between components.
    pub fn insert(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        let parts = path.split('/').map(str::to_owned).collect();
        self.files.insert(parts, bytes.into().into());
    }

    /// Adds another tree's files below a folder.
    pub fn graft(&mut self, folder: &str, tree: &Self) {
        let head: Vec<String> = folder.split('/').map(str::to_owned).collect();
        for (parts, bytes) in &tree.files {
            let path = head.iter().chain(parts).cloned().collect();
            self.files.insert(path, bytes.clone());
        }
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files in order, with `/` between path components.
    pub fn iter(&self) -> impl Iterator<Item = (String, &[u8])> {
        self.files
            .iter()
            .map(|(parts, bytes)| (parts.join("/"), bytes.as_ref()))
    }

    /// A file's bytes.
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        self.files.get(&parts).map(AsRef::as_ref)
    }

    /// Reads a folder: the regular files below it (links followed) whose path has no hidden part
    /// and no `__pycache__`.
    ///
    /// # Errors
    /// Where a folder or file cannot be read, or a name is not UTF-8.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let mut folders: Vec<Vec<String>> = vec![Vec::new()];
        while let Some(parts) = folders.pop() {
            for entry in fs::read_dir(root.join(parts.join("/")))? {
                let entry = entry?;
                let name = entry.file_name().into_string().map_err(|name| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("the file name {name:?} is not UTF-8"),
                    )
                })?;
                if is_left_out(&name) {
                    continue;
                }
                let mut path = parts.clone();
                path.push(name);
                if entry.path().is_dir() {
                    folders.push(path);
                } else {
                    tree.files.insert(path, fs::read(entry.path())?.into());
                }
            }
        }
        Ok(tree)
    }

    /// Writes the files below `root`.
    ///
    /// # Errors
    /// Where a folder or file cannot be written.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        for (path, bytes) in self.iter() {
            let target = root.join(path);
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(target, bytes)?;
        }
        Ok(())
    }

    /// The fingerprint: for each visible file in order its path, NUL, its bytes, NUL.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (parts, bytes) in &self.files {
            if parts.iter().any(|part| is_left_out(part)) {
                continue;
            }
            hash.update(parts.join("/"));
            hash.update([0]);
            hash.update(bytes);
            hash.update([0]);
        }
        hex(&hash.finalize())
    }
}

fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || name == "__pycache__"
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> FileTree {
        let mut tree = FileTree::default();
        tree.insert("a-b", "2");
        tree.insert("a/b", "1");
        tree.insert("instruction.md", "do\n");
        tree
    }

    #[test]
    fn the_fingerprint_is_that_of_the_specification() {
        // hashlib.sha256(b"a/b\x001\x00a-b\x002\x00instruction.md\x00do\n\x00").hexdigest(), by Python.
        assert_eq!(tree().fingerprint(), EXPECTED);
        assert_eq!(
            FileTree::default().fingerprint(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    const EXPECTED: &str = "9124675d97e660a919e94e963c76ebbf0734b51c4f42959b182549df2547cede";

    #[test]
    fn hidden_files_and_caches_do_not_count() {
        let mut more = tree();
        more.insert(".hidden", "x");
        more.insert("a/.x/y", "x");
        more.insert("a/__pycache__/z.pyc", "x");
        assert_eq!(more.fingerprint(), EXPECTED);
        let folder = tempfile::tempdir().expect("a folder");
        more.write(folder.path()).expect("written");
        let read = FileTree::read(folder.path()).expect("read");
        assert_eq!(read, tree());
    }

    #[test]
    fn a_tree_is_put_below_a_folder() {
        let mut whole = FileTree::default();
        whole.insert("top", "0");
        whole.graft("x/y", &tree());
        let paths: Vec<String> = whole.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["top", "x/y/a/b", "x/y/a-b", "x/y/instruction.md"]);
        assert_eq!(whole.get("x/y/a/b"), tree().get("a/b"));
    }

    #[test]
    fn any_change_of_a_byte_or_a_name_changes_it() {
        let mut renamed = FileTree::default();
        for (path, bytes) in tree().iter() {
            renamed.insert(&path.replace("a-b", "a-c"), bytes);
        }
        assert_ne!(renamed.fingerprint(), EXPECTED);
        let mut moved = tree();
        moved.insert("a/b", "1\0");
        assert_ne!(moved.fingerprint(), EXPECTED);
    }
}
