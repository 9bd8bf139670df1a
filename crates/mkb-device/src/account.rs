//! What a virtual GPU did for its worker, as it tells its driver.

use serde::{Deserialize, Serialize};
use vgpu::device::Counts;

/// One launch that ran to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchAccount {
    /// The module's handle.
    pub module: u64,
    /// The kernel's name.
    pub kernel: String,
    /// CTAs along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y, z.
    pub block: [u32; 3],
    /// What it did.
    pub counts: Counts,
    /// Bytes of global memory that it wrote; known only while writes are tracked.
    pub written_bytes: Option<u64>,
    /// Whether all that it wrote is, byte for byte, the content of one other allocation that it was
    /// given and that is no input of the call; known only while writes are tracked.
    pub copies: Option<bool>,
}

/// With what the bytes that a launch wrote are overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Garbage {
    /// All bits set: NaN in every floating format, -1 in every signed integer.
    Nan,
    /// Bytes from a seeded generator.
    Random {
        /// The seed.
        seed: u64,
    },
}

/// What a driver asks of its virtual GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum ControlRequest {
    /// The launches since the last time.
    Account,
    /// Track which bytes each launch writes, and overwrite them with `garbage` where given.
    Track {
        /// Whether to track at all.
        on: bool,
        /// With what to overwrite.
        garbage: Option<Garbage>,
        /// Address ranges (start, bytes) of the call's inputs.
        inputs: Vec<(u64, u64)>,
    },
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub enum ControlReply {
    /// The launches.
    Account {
        /// In the order in which they ran.
        launches: Vec<LaunchAccount>,
    },
    /// It is done.
    Done,
}
