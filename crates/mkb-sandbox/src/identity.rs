//! As whom the sandbox's processes run.

use std::fs;

use crate::error::{Error, Result, at};

/// User and group id inside a user namespace of our own.
pub(crate) const INSIDE_ID: u32 = 1000;

/// As whom the sandbox's processes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The driver is an ordinary user: a user namespace maps that user to [`INSIDE_ID`].
    Mapped {
        /// The driver's user id.
        uid: u32,
        /// The driver's group id.
        gid: u32,
    },
    /// The driver is root: it mounts as root, then becomes this unprivileged id for good. An id of
    /// its own for each sandbox, so that process limits and signals don't meet.
    Dropped(u32),
}

impl Identity {
    /// A fresh identity for one sandbox.
    pub(crate) fn fresh() -> Result<Self> {
        // SAFETY: these two calls have no precondition and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        if uid != 0 {
            return Ok(Identity::Mapped { uid, gid });
        }
        let map = read_proc("/proc/self/uid_map")?;
        let Some(chosen) = pick(&map, random()?) else {
            // Only root itself is mapped: this root is somebody's ordinary user.
            return Ok(Identity::Mapped { uid, gid });
        };
        let held = effective_capabilities(&read_proc("/proc/self/status")?);
        let needed = [
            (21, "CAP_SYS_ADMIN"),
            (7, "CAP_SETUID"),
            (6, "CAP_SETGID"),
            (0, "CAP_CHOWN"),
        ];
        for (bit, name) in needed {
            if held & (1 << bit) == 0 {
                return Err(Error::HalfRoot(name));
            }
        }
        Ok(Identity::Dropped(chosen))
    }

    /// The id that processes inside see as their own.
    pub(crate) fn inside(self) -> u32 {
        match self {
            Identity::Mapped { .. } => INSIDE_ID,
            Identity::Dropped(id) => id,
        }
    }

    /// The id that files of the sandbox must belong to outside, where it isn't the driver's.
    pub(crate) fn owner(self) -> Option<u32> {
        match self {
            Identity::Mapped { .. } => None,
            Identity::Dropped(id) => Some(id),
        }
    }
}

fn read_proc(path: &str) -> Result<String> {
    fs::read_to_string(path).map_err(at(path.as_ref()))
}

fn random() -> Result<u32> {
    getrandom::u32().map_err(|e| Error::System {
        call: "getrandom",
        source: e.into(),
    })
}

fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok())
        .unwrap_or(0)
}

/// An unprivileged id that the user namespace of the driver maps: far above those of people and
/// services where it maps them all, else the highest part of its largest range.
fn pick(uid_map: &str, random: u32) -> Option<u32> {
    const WANTED: u64 = 0x6b6d_0000;
    const SPAN: u64 = 0x1_0000;
    let ranges = uid_map.lines().filter_map(|line| {
        let mut words = line.split_whitespace().map(|w| w.parse::<u64>().ok());
        let (first, _, count) = (words.next()??, words.next()??, words.next()??);
        Some((first, count))
    });
    let ranges: Vec<(u64, u64)> = ranges.filter(|&(first, count)| first + count > 1).collect();
    let holds = |&(first, count): &(u64, u64)| first <= WANTED && WANTED + SPAN <= first + count;
    if ranges.iter().any(holds) {
        return u32::try_from(WANTED + u64::from(random) % SPAN).ok();
    }
    let &(first, count) = ranges.iter().max_by_key(|r| r.1)?;
    let usable = (count / 2).clamp(1, SPAN);
    u32::try_from(first + count - 1 - u64::from(random) % usable)
        .ok()
        .filter(|&id| id != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_map_gives_an_id_of_our_own_range() {
        let map = "         0          0 4294967295\n";
        assert_eq!(pick(map, 0), Some(0x6b6d_0000));
        assert_eq!(pick(map, u32::MAX), Some(0x6b6d_ffff));
    }

    #[test]
    fn a_small_map_gives_an_id_inside_it() {
        let map = "0 1000 1\n1 100000 65536\n";
        for random in [0, 1, 7, 65_535, u32::MAX] {
            let id = pick(map, random).unwrap();
            assert!((32_769..=65_536).contains(&id), "{id}");
        }
    }

    #[test]
    fn root_alone_in_its_map_has_nobody_to_become() {
        assert_eq!(pick("0 1000 1\n", 5), None);
        assert_eq!(pick("", 5), None);
    }

    #[test]
    fn capabilities_are_read_from_their_line() {
        assert_eq!(
            effective_capabilities("CapPrm:\tff\nCapEff:\t00000000a80425fb\n"),
            0xa804_25fb
        );
        assert_eq!(effective_capabilities("nothing"), 0);
    }
}
