//! The lock that lets one process at a time write a store.
//!
//! The file's first line is the holder's pid in decimal, as the formats have it. The lines after
//! it name host, boot, pid namespace and start time, so that a pid that was given to another
//! process, or a holder on another machine of a shared file system, is told from a live holder
//! here. A reader that knows the pid alone takes such a file for one that must be removed by
//! hand, which is safe.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, test_kill_process};

use crate::error::StoreError;

/// A held lock; released when dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    inode: u64,
}

/// A dead holder's lock that was cleared, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared(pub String);

impl Lock {
    /// Takes the lock. A lock whose holder is known to be gone is cleared first.
    ///
    /// # Errors
    /// [`StoreError::Locked`] where the holder lives, may live (another host, another user), or
    /// cannot be told.
    pub fn acquire(path: &Path) -> Result<(Self, Option<Cleared>), StoreError> {
        let mut cleared = None;
        loop {
            match create(path) {
                Ok(inode) => {
                    let lock = Self {
                        path: path.to_owned(),
                        inode,
                    };
                    return Ok((lock, cleared));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    cleared = clear_if_dead(path)?.or(cleared);
                }
                Err(error) => return Err(StoreError::io(path)(error)),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Someone may have removed ours by hand and another run may have taken its own since.
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the lock file with its whole content at once: written beside it, then linked, which
/// fails where the name is taken. Returns its inode.
fn create(path: &Path) -> io::Result<u64> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // Threads of one process may contend too.
    name.push(format!(
        ".{:?}.{}.tmp",
        std::thread::current().id(),
        std::process::id()
    ));
    let temporary = path.with_file_name(name);
    let linked = File::create(&temporary).and_then(|mut file| {
        file.write_all(Holder::this_process().to_text().as_bytes())?;
        file.sync_all()?;
        let inode = file.metadata()?.ino();
        fs::hard_link(&temporary, path)?;
        Ok(inode)
    });
    fs::remove_file(&temporary)?;
    linked
}

/// Removes the lock where its holder is known to be gone, and says whose it was; `None` where the
/// file is gone meanwhile.
fn clear_if_dead(path: &Path) -> Result<Option<Cleared>, StoreError> {
    let io_error = |error| StoreError::io(path)(error);
    let file = match OpenOptions::new().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    // Of two runs that find one dead lock, the second must not remove what the first has taken.
    rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|e| io_error(e.into()))?;
    let opened = file.metadata().map_err(io_error)?.ino();
    match fs::metadata(path) {
        Ok(found) if found.ino() == opened => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(error)),
    }
    let text = io::read_to_string(&file).map_err(io_error)?;
    let verdict = match Holder::parse(&text) {
        Some(holder) => holder.state(&Holder::this_process()),
        None => State::Unknown("someone unknown (the file holds no pid)".to_owned()),
    };
    match verdict {
        State::Dead(who) => {
            fs::remove_file(path).map_err(io_error)?;
            Ok(Some(Cleared(who)))
        }
        State::Alive(holder) | State::Unknown(holder) => Err(StoreError::Locked {
            path: path.to_owned(),
            holder,
        }),
    }
}

/// What a lock says of its holder. Only the pid is always there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    host: Option<String>,
    boot: Option<String>,
    namespace: Option<String>,
    start: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Alive(String),
    Dead(String),
    Unknown(String),
}

impl Holder {
    fn this_process() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            host: Some(
                rustix::system::uname()
                    .nodename()
                    .to_string_lossy()
                    .into_owned(),
            ),
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .ok()
                .map(|text| text.trim().to_owned()),
            namespace: fs::read_link("/proc/self/ns/pid")
                .ok()
                .map(|link| link.to_string_lossy().into_owned()),
            start: process_stat(pid).map(|(_, start)| start),
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}", self.pid);
        for (name, value) in [
            ("host", &self.host),
            ("boot", &self.boot),
            ("namespace", &self.namespace),
            ("start", &self.start),
        ] {
            if let Some(value) = value {
                text.push_str(&format!("\n{name} {value}"));
            }
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok().filter(|&pid| pid > 0)?;
        let mut holder = Self {
            pid,
            host: None,
            boot: None,
            namespace: None,
            start: None,
        };
        for line in lines {
            let (name, value) = line.split_once(' ')?;
            let value = Some(value.to_owned());
            match name {
                "host" => holder.host = value,
                "boot" => holder.boot = value,
                "namespace" => holder.namespace = value,
                "start" => holder.start = value,
                _ => return None,
            }
        }
        Some(holder)
    }

    /// Whether the holder still runs, judged from `here`, a process on this machine.
    fn state(&self, here: &Holder) -> State {
        let pid = self.pid;
        let differs = |theirs: &Option<String>, ours: &Option<String>| {
            theirs.is_some() && ours.is_some() && theirs != ours
        };
        if differs(&self.host, &here.host) {
            let host = self.host.as_deref().unwrap_or_default();
            return State::Unknown(format!("process {pid} on host {host}"));
        }
        if differs(&self.boot, &here.boot) {
            return State::Dead(format!(
                "process {pid}, from before this machine's last start"
            ));
        }
        if differs(&self.namespace, &here.namespace) {
            return State::Unknown(format!("process {pid} in another container of this host"));
        }
        let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
            return State::Unknown(format!("process {pid}, which is no pid"));
        };
        match test_kill_process(raw) {
            Err(rustix::io::Errno::SRCH) => return State::Dead(format!("process {pid}")),
            Err(_) => return State::Alive(format!("process {pid} of another user")),
            Ok(()) => {}
        }
        match process_stat(pid) {
            Some((_, start)) if self.start.as_ref().is_some_and(|known| *known != start) => {
                State::Dead(format!(
                    "process {pid}, whose number another process has since"
                ))
            }
            Some(('Z' | 'X', _)) => State::Dead(format!("process {pid}")),
            _ => State::Alive(format!("process {pid}")),
        }
    }
}

/// A process's state letter and its start time in clock ticks since boot.
fn process_stat(pid: u32) -> Option<(char, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may hold anything.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some((
        fields.first()?.chars().next()?,
        (*fields.get(19)?).to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn folder_with(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".lock");
        fs::write(&path, text).expect("written");
        (folder, path)
    }

    /// The pid of a process that has ended and was waited for.
    fn dead_pid() -> u32 {
        let mut child = Command::new("true").spawn().expect("spawned");
        child.wait().expect("waited");
        child.id()
    }

    #[test]
    fn a_held_lock_refuses_and_is_gone_when_released() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".lock");
        let (lock, cleared) = Lock::acquire(&path).expect("free");
        assert_eq!(cleared, None);
        let text = fs::read_to_string(&path).expect("read");
        assert_eq!(text.lines().next(), Some(&*std::process::id().to_string()));
        let refused = Lock::acquire(&path).expect_err("held").to_string();
        assert!(
            refused.contains(&format!("process {}", std::process::id())),
            "{refused}"
        );
        drop(lock);
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 0);
    }

    #[test]
    fn a_dead_holders_lock_is_cleared_and_said() {
        let pid = dead_pid();
        let (_folder, path) = folder_with(&pid.to_string());
        let (_lock, cleared) = Lock::acquire(&path).expect("cleared");
        assert_eq!(cleared, Some(Cleared(format!("process {pid}"))));
    }

    #[test]
    fn a_reused_pid_and_an_earlier_boot_are_told_from_the_holder() {
        let here = Holder::this_process();
        let reused = Holder {
            start: Some("1".to_owned()),
            ..here.clone()
        };
        let rebooted = Holder {
            boot: Some("another".to_owned()),
            ..here.clone()
        };
        for holder in [reused, rebooted] {
            let (_folder, path) = folder_with(&holder.to_text());
            assert!(
                Lock::acquire(&path).expect("cleared").1.is_some(),
                "{holder:?}"
            );
        }
    }

    #[test]
    fn who_may_be_alive_holds_it_until_removed_by_hand() {
        let here = Holder::this_process();
        let dead = Holder {
            pid: dead_pid(),
            ..here.clone()
        };
        let texts = [
            std::process::id().to_string(),
            "not a number".to_owned(),
            String::new(),
            "0".to_owned(),
            "1".to_owned(),
            format!("{}\nhello", dead.pid),
            Holder {
                host: Some("elsewhere".to_owned()),
                ..dead.clone()
            }
            .to_text(),
            Holder {
                namespace: Some("pid:[1]".to_owned()),
                ..dead
            }
            .to_text(),
        ];
        for text in texts {
            let (_folder, path) = folder_with(&text);
            let error = Lock::acquire(&path).expect_err(&text);
            assert!(
                matches!(error, StoreError::Locked { .. }),
                "{text:?}: {error}"
            );
            assert_eq!(fs::read_to_string(&path).expect("still there"), text);
        }
    }

    #[test]
    fn of_many_who_find_a_dead_lock_one_gets_it() {
        let (_folder, path) = folder_with(&dead_pid().to_string());
        let taken: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| Lock::acquire(&path).ok()))
                .collect();
            threads
                .into_iter()
                .filter_map(|t| t.join().expect("no panic"))
                .collect()
        });
        assert_eq!(taken.len(), 1);
    }
}
