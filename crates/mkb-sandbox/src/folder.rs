//! A folder that untrusted processes write to, used from outside without being led astray: no
//! link in it is followed, nothing that is not a plain file is opened.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use crate::error::{Error, Result, at};

/// A folder that untrusted processes write to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    root: OwnedFd,
    owner: Option<u32>,
}

/// A name in a [`Folder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// Whether it is a plain file.
    pub is_file: bool,
    /// Bytes of a plain file.
    pub size: u64,
}

impl Folder {
    /// Opens `path`, which the driver itself made. Files written through it belong to `owner`.
    ///
    /// # Errors
    /// If it is no folder.
    pub fn open(path: &Path, owner: Option<u32>) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(at(path))?;
        Ok(Folder {
            path: path.to_owned(),
            root,
            owner,
        })
    }

    /// Its path outside the sandbox.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn full(&self, relative: &Path) -> PathBuf {
        self.path.join(relative)
    }

    fn open_at(&self, relative: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let mut flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if !flags.contains(OFlags::PATH) {
            // A pipe of the agent's would hold us until somebody writes to it.
            flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
        }
        rustix::fs::openat2(&self.root, relative, flags, mode, resolve)
    }

    /// The bytes of a plain file; none where there is none, or where something else stands.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above `limit` bytes.
    pub fn read(&self, relative: impl AsRef<Path>, limit: u64) -> Result<Option<Vec<u8>>> {
        let relative = relative.as_ref();
        let fd = match self.open_at(relative, OFlags::RDONLY, Mode::empty()) {
            Ok(fd) => fd,
            // Absent, a link, a socket, a folder of another shape, unreadable to us.
            Err(
                Errno::NOENT
                | Errno::LOOP
                | Errno::NXIO
                | Errno::NOTDIR
                | Errno::ACCESS
                | Errno::PERM
                | Errno::XDEV,
            ) => return Ok(None),
            Err(e) => return Err(at(&self.full(relative))(e)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(at(&self.full(relative)))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let too_large = |size| Error::TooLarge {
            path: relative.to_owned(),
            size,
            limit,
        };
        let size = stat.st_size.unsigned_abs();
        if size > limit {
            return Err(too_large(size));
        }
        // It may grow while it is read.
        let mut bytes = Vec::new();
        let mut file = File::from(fd).take(limit + 1);
        file.read_to_end(&mut bytes)
            .map_err(at(&self.full(relative)))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(Some(bytes))
    }

    /// Writes a file whole: readers see the old one or the new one. Folders on the way are made.
    ///
    /// # Errors
    /// If something that is no folder stands in the way.
    pub fn write(&self, relative: impl AsRef<Path>, bytes: &[u8], mode: u32) -> Result<()> {
        let relative = relative.as_ref();
        let name = relative.file_name().ok_or_else(|| Error::BadPath {
            path: relative.to_owned(),
            why: "names no file",
        })?;
        let parent = self.make_folders(relative.parent().unwrap_or(Path::new("")))?;
        let mut temporary = name.to_owned();
        temporary.push(".tmp");
        let full = self.full(relative);
        match rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(at(&full)(e)),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600))
            .map_err(at(&full))?;
        let mut file = File::from(fd);
        file.write_all(bytes).map_err(at(&full))?;
        file.set_permissions(fs::Permissions::from_mode(mode))
            .map_err(at(&full))?;
        self.give(file.as_fd()).map_err(at(&full))?;
        rustix::fs::renameat(&parent, &temporary, &parent, name).map_err(at(&full))
    }

    /// Makes `relative` and the folders above it; opens it.
    fn make_folders(&self, relative: &Path) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut so_far = PathBuf::from(".");
        let mut fd = self
            .open_at(&so_far, flags, Mode::empty())
            .map_err(at(&self.full(&so_far)))?;
        for part in relative.components() {
            match rustix::fs::mkdirat(&fd, part.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) => {
                    so_far.push(part);
                    fd = self
                        .open_at(&so_far, flags, Mode::empty())
                        .map_err(at(&so_far))?;
                    let path = self.full(&so_far);
                    if let Some(owner) = self.owner {
                        let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
                        rustix::fs::chownat(&fd, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
                            .map_err(at(&path))?;
                    }
                }
                Err(Errno::EXIST) => {
                    so_far.push(part);
                    let path = self.full(&so_far);
                    fd = self
                        .open_at(&so_far, flags, Mode::empty())
                        .map_err(at(&path))?;
                }
                Err(e) => return Err(at(&self.full(&so_far))(e)),
            }
        }
        Ok(fd)
    }

    fn give(&self, fd: impl AsFd) -> rustix::io::Result<()> {
        match self.owner {
            Some(id) => rustix::fs::fchown(fd, Some(Uid::from_raw(id)), Some(Gid::from_raw(id))),
            None => Ok(()),
        }
    }

    /// The entries of a folder in it, at most `most` of them, sorted; none where there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn list(&self, relative: impl AsRef<Path>, most: usize) -> Result<Vec<Entry>> {
        let relative = relative.as_ref();
        let full = self.full(relative);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = match self.open_at(relative, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ACCESS) => return Ok(vec![]),
            Err(e) => return Err(at(&full)(e)),
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&fd).map_err(at(&full))? {
            let entry = entry.map_err(at(&full))?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." {
                continue;
            }
            if found.len() == most {
                break;
            }
            let stat = rustix::fs::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let Ok(stat) = stat else { continue };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            found.push(Entry {
                name,
                is_file,
                size: stat.st_size.unsigned_abs(),
            });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Removes a file in it; one that is absent is right.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, relative: impl AsRef<Path>) -> Result<()> {
        let relative = relative.as_ref();
        let full = self.full(relative);
        let Some(name) = relative.file_name() else {
            return Ok(());
        };
        let parent = relative.parent().filter(|p| !p.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let parent = match self.open_at(parent, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(()),
            Err(e) => return Err(at(&full)(e)),
        };
        match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(at(&full)(e)),
        }
    }
}

/// Removes `root` with all in it, however deep, and whatever its modes are. Deep trees are taken
/// apart rather than walked, so neither the stack nor the longest path bounds them.
pub(crate) fn remove_tree(root: &Path) -> Result<()> {
    let mut next = 0u64;
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&folder, mode).map_err(at(&folder))?;
        for entry in fs::read_dir(&folder).map_err(at(&folder))? {
            let entry = entry.map_err(at(&folder))?;
            let path = entry.path();
            let meta = entry.metadata().map_err(at(&path))?;
            if !meta.is_dir() {
                fs::remove_file(&path).map_err(at(&path))?;
            } else if folder == root {
                todo.push(path);
            } else {
                if meta.mode() & 0o700 != 0o700 {
                    let mode = fs::Permissions::from_mode(0o700);
                    fs::set_permissions(&path, mode).map_err(at(&path))?;
                }
                let moved = loop {
                    let moved = root.join(format!("removing-{next}"));
                    next += 1;
                    if !moved.exists() {
                        break moved;
                    }
                };
                fs::rename(&path, &moved).map_err(at(&path))?;
                todo.push(moved);
            }
        }
        if folder != root {
            fs::remove_dir(&folder).map_err(at(&folder))?;
        }
    }
    fs::remove_dir(root).map_err(at(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app");
        fs::create_dir(&path).unwrap();
        let folder = Folder::open(&path, None).unwrap();
        (dir, folder)
    }

    #[test]
    fn what_is_written_is_read_and_replaces_whole() {
        let (_dir, folder) = folder();
        folder.write("a/b/c.txt", b"one", 0o644).unwrap();
        folder.write("a/b/c.txt", b"two", 0o644).unwrap();
        assert_eq!(folder.read("a/b/c.txt", 10).unwrap().unwrap(), b"two");
        assert_eq!(folder.list("a/b", 10).unwrap().len(), 1);
        folder.remove("a/b/c.txt").unwrap();
        folder.remove("a/b/c.txt").unwrap();
        assert_eq!(folder.read("a/b/c.txt", 10).unwrap(), None);
    }

    #[test]
    fn links_lead_nowhere_for_reading_or_writing() {
        let (dir, folder) = folder();
        let secret = dir.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, folder.path().join("kernel.py")).unwrap();
        symlink(dir.path(), folder.path().join("up")).unwrap();
        assert_eq!(folder.read("kernel.py", 100).unwrap(), None);
        assert_eq!(folder.read("up/secret", 100).unwrap(), None);
        assert!(folder.read("../secret", 100).unwrap().is_none());
        assert!(folder.write("up/secret", b"x", 0o644).is_err());
        assert!(folder.write("up/new", b"x", 0o644).is_err());
        assert!(folder.write("../new", b"x", 0o644).is_err());
        folder.write("kernel.py", b"x", 0o644).unwrap();
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
        assert!(!dir.path().join("new").exists());
        assert!(folder.list("up", 10).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_plain_file_is_not_opened() {
        let (_dir, folder) = folder();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(folder.read("pipe", 100).unwrap(), None);
        assert_eq!(folder.read("folder", 100).unwrap(), None);
        let entries = folder.list(".", 10).unwrap();
        assert!(entries.iter().all(|e| !e.is_file), "{entries:?}");
    }

    #[test]
    fn a_file_over_the_limit_is_refused_with_its_size() {
        let (_dir, folder) = folder();
        folder.write("f", &[7; 101], 0o644).unwrap();
        assert!(matches!(
            folder.read("f", 100),
            Err(Error::TooLarge { size: 101, .. })
        ));
        assert_eq!(folder.read("f", 101).unwrap().unwrap().len(), 101);
    }

    #[test]
    fn a_tree_of_any_depth_and_mode_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut fd = File::open(&root).unwrap();
        for depth in 0..3000 {
            let name = "d".repeat(60);
            rustix::fs::mkdirat(&fd, &name, Mode::from_raw_mode(0o700)).unwrap();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let next = rustix::fs::openat(&fd, &name, flags, Mode::empty()).unwrap();
            if depth % 7 == 3 {
                rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o500)).unwrap();
            }
            fd = File::from(next);
        }
        drop(fd);
        fs::create_dir(root.join("shut")).unwrap();
        fs::write(root.join("shut/file"), "x").unwrap();
        fs::set_permissions(root.join("shut"), fs::Permissions::from_mode(0o0)).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists());
    }
}
