//! How much a sandbox may use.

use std::time::Duration;

const MIB: u64 = 1 << 20;

/// How much a sandbox may use. Limits of one process bind each process; `memory_bytes` binds all
/// processes of the sandbox together, and is looked at every few milliseconds rather than enforced
/// at the allocation, except for what one process takes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Processors that it may run on (by affinity).
    pub cpus: u32,
    /// Memory of all processes. Memory that the driver shares with it (the arena) does not count;
    /// files in an in-memory `/tmp` (`disk_bytes`) and in `/dev/shm` (64 MiB) come on top.
    pub memory_bytes: u64,
    /// Processes and threads, those of the sandbox itself (one) included.
    pub processes: u64,
    /// Largest file that may be written.
    pub file_bytes: u64,
    /// Bytes on disk of the folders that it may write to, together; bytes of an in-memory `/tmp`.
    pub disk_bytes: u64,
    /// Open files of a process.
    pub open_files: u64,
    /// Processor time of a process, in whole seconds; none: no limit.
    pub cpu_time: Option<Duration>,
}

impl Limits {
    /// The attempt's of the protocol: 2 CPUs and 8,192 MB; the others are ours.
    pub fn attempt() -> Self {
        Limits {
            cpus: 2,
            memory_bytes: 8192 * MIB,
            processes: 512,
            file_bytes: 1024 * MIB,
            disk_bytes: 4096 * MIB,
            open_files: 4096,
            cpu_time: None,
        }
    }

    /// A judged process: 4 CPUs and 16,384 MB as the protocol's judge has; the others are ours.
    pub fn submission() -> Self {
        Limits {
            cpus: 4,
            memory_bytes: 16384 * MIB,
            processes: 128,
            file_bytes: 1024 * MIB,
            disk_bytes: 512 * MIB,
            open_files: 1024,
            cpu_time: Some(Duration::from_secs(3600)),
        }
    }
}
