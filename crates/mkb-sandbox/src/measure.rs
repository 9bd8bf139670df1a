//! What the processes of a sandbox use, read from `/proc` outside it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

/// The longest path that is looked into; the kernel takes 4,096 bytes.
const DEEPEST: usize = 3000;

/// The most files and folders that are counted: beyond, a look would take too long.
const MOST_ENTRIES: u32 = 200_000;

/// All descendants of `first`, itself included. Processes that come and go meanwhile may be
/// missed; none of another sandbox is ever in it, but for a number that is reused in between.
pub(crate) fn tree(first: i32) -> Vec<i32> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let Ok(text) = fs::read_to_string(thread.path().join("children")) else {
                continue;
            };
            found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|w| w.parse::<i32>().ok()),
            );
        }
    }
    found
}

/// Memory of a set of processes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Private memory.
    pub private: u64,
    /// Memory shared through files in memory. The largest of the processes' figures: the same
    /// pages may be in many, and for what differs `/tmp` and `/dev/shm` have limits of their own.
    pub shared: u64,
}

/// What `pids` use by the quick count, in which pages that a fork left common count for each.
pub(crate) fn memory(pids: &[i32]) -> Memory {
    let mut sum = Memory::default();
    for pid in pids {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        sum.private += field(&text, "RssAnon:");
        sum.shared = sum.shared.max(field(&text, "RssShmem:"));
    }
    sum
}

/// Private memory by the exact count, in which a page in n processes counts 1/n for each; none
/// where it can't be read.
pub(crate) fn exact_private(pids: &[i32]) -> Option<u64> {
    let mut sum = 0;
    for pid in pids {
        match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => sum += field(&text, "Pss_Anon:"),
            // Ended meanwhile (ESRCH), or an emptied address space.
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return None,
            Err(_) => {}
        }
    }
    Some(sum)
}

/// A field in kB, in bytes.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    let number = line.and_then(|l| l.split_ascii_whitespace().next());
    number.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The state letters of a process's threads (proc_pid_stat(5)); none once it has ended.
pub(crate) fn states(pid: i32) -> Vec<u8> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return vec![];
    };
    let state = |thread: fs::DirEntry| {
        let text = fs::read(thread.path().join("stat")).ok()?;
        // The name before it may hold anything, parentheses too: the last one ends it.
        let end = text.iter().rposition(|&b| b == b')')?;
        text.get(end + 2).copied()
    };
    threads.flatten().filter_map(state).collect()
}

/// Bytes on disk below `folder`, which untrusted processes may be changing: no link is followed.
/// Unreadable parts count as nothing; a tree with more entries or longer paths than anybody needs
/// counts as more than any limit.
pub(crate) fn disk(folder: &Path) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Ok(root) = rustix::fs::open(folder, flags, Mode::empty()) else {
        return 0;
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let (mut sum, mut entries) = (0u64, 0);
    let mut todo = vec![PathBuf::from(".")];
    while let Some(path) = todo.pop() {
        let fd = rustix::fs::openat2(&root, &path, flags, Mode::empty(), resolve);
        let Ok(fd) = fd else { continue };
        let Ok(names) = Dir::read_from(&fd) else {
            continue;
        };
        for entry in names.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            entries += 1;
            sum = sum.saturating_add(stat.st_blocks.unsigned_abs() * 512);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                todo.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
            if entries > MOST_ENTRIES || path.as_os_str().len() > DEEPEST {
                return u64::MAX;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_in_bytes_and_absent_is_zero() {
        let text = "Name:\tx\nRssAnon:\t    12 kB\nRssShmem:\t 1 kB\n";
        assert_eq!(field(text, "RssAnon:"), 12 * 1024);
        assert_eq!(field(text, "VmSwap:"), 0);
    }

    #[test]
    fn this_process_runs() {
        let pid = std::process::id() as i32;
        assert!(tree(pid).contains(&pid));
        assert!(states(pid).iter().all(|s| b"RSD".contains(s)));
        assert!(memory(&[pid]).private > 0);
        assert_eq!(states(i32::MAX), b"");
    }

    #[test]
    fn disk_counts_files_and_not_what_links_point_to() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("root")).unwrap();
        let deep = std::iter::repeat_n("d".repeat(200), 16).collect::<PathBuf>();
        let bytes = disk(dir.path());
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        fs::create_dir_all(dir.path().join(deep)).unwrap();
        assert_eq!(disk(dir.path()), u64::MAX);
        assert_eq!(disk(&dir.path().join("root")), 0);
    }
}
