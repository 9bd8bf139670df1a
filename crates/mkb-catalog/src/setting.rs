//! Device, clock, workload and budget: the conditions that a result depends on, so that results
//! under different ones never meet in a ratio.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Computed from counts and a device description; no device is there.
    Modelled,
    /// Measured on a device.
    Measured,
}

/// Which sizes a problem is posed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// The sizes of the paper.
    Full,
    /// The smaller sizes that a problem file declares under `REDUCED`.
    Reduced,
}

macro_rules! lowercase_names {
    ($type:ident { $($variant:ident = $name:literal),+ }) => {
        impl $type {
            /// The name as it stands in files and options.
            pub fn as_str(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }

            /// Reads the name back.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some($type::$variant),)+ _ => None }
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
lowercase_names!(Clock { Modelled = "modelled", Measured = "measured" });
lowercase_names!(Workload { Full = "full", Reduced = "reduced" });

/// On what a submission is judged. `device` is a device description's name, e.g. `b200`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// A device description's name, `[a-z0-9_]+`.
    pub device: String,
    /// Where times come from.
    pub clock: Clock,
    /// Which sizes problems are posed with.
    pub workload: Workload,
}

impl Setting {
    /// The setting of the paper: a B200, a measured clock, full workloads.
    pub fn paper() -> Self {
        Self {
            device: "b200".to_owned(),
            clock: Clock::Measured,
            workload: Workload::Full,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.device, self.clock, self.workload)
    }
}

/// What an attempt may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Budget {
    /// Seconds of wall clock, waiting for reports included.
    pub wall_sec: u32,
    /// Submissions that count.
    pub submissions: u32,
}

/// The most that a kernel file may hold, in bytes.
pub const KERNEL_BYTE_LIMIT: usize = 300_000;

/// Where an attempt leaves its kernel, in its sandbox.
pub const KERNEL_PATH: &str = "/app/kernel.py";

/// Where an attempt leaves its skill, in its sandbox.
pub const SKILL_PATH: &str = "/app/SKILL.md";

impl Budget {
    /// The budget of the paper: 2,400 s and ten submissions.
    pub const PAPER: Budget = Budget {
        wall_sec: 2_400,
        submissions: 10,
    };

    /// The wall clock as a duration.
    pub fn wall(self) -> Duration {
        Duration::from_secs(u64::from(self.wall_sec))
    }
}
