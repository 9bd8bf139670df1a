//! Agents that do not search: `nop`, `oracle`, `replay`; and how any built-in agent submits.

use std::time::Duration;

use mkb_catalog::setting::{KERNEL_PATH, SKILL_PATH};

use crate::world::{Agent, Stop, World};

/// Longer than `test.sh` waits.
const SUBMISSION: Duration = Duration::from_secs(1300);

/// Submits what stands in `/app/kernel.py` and gives the reply's text, with whatever else
/// `test.sh` said.
pub(crate) fn submit(world: &mut dyn World) -> Result<String, Stop> {
    // Looks often: a built-in agent has nothing else to wait for.
    let command = format!("MKB_LOOK_SEC=0.05 bash {}", world.inside("/tests/test.sh"));
    Ok(world.bash(&command, SUBMISSION)?.text)
}

/// Leaves nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nop;

impl Agent for Nop {
    fn name(&self) -> String {
        "nop".to_owned()
    }

    fn attempt(&self, _world: &mut dyn World) -> Result<(), Stop> {
        Ok(())
    }
}

/// Puts a known solution and submits it once.
#[derive(Debug, Clone)]
pub struct Oracle {
    /// The solution, a whole `kernel.py`.
    pub kernel: Vec<u8>,
}

impl Agent for Oracle {
    fn name(&self) -> String {
        "oracle".to_owned()
    }

    fn attempt(&self, world: &mut dyn World) -> Result<(), Stop> {
        world.put(KERNEL_PATH, &self.kernel)?;
        submit(world)?;
        Ok(())
    }
}

/// Puts back what a recorded trial submitted, in order, and what it left.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// Each submission's `kernel.py`, in order.
    pub submissions: Vec<Vec<u8>>,
    /// The `kernel.py` that was left.
    pub kernel: Option<Vec<u8>>,
    /// The `SKILL.md` that was left.
    pub skill: Option<Vec<u8>>,
}

impl Agent for Replay {
    fn name(&self) -> String {
        "replay".to_owned()
    }

    fn attempt(&self, world: &mut dyn World) -> Result<(), Stop> {
        for kernel in &self.submissions {
            world.put(KERNEL_PATH, kernel)?;
            submit(world)?;
        }
        if self.kernel.is_none() && !self.submissions.is_empty() {
            world.bash(&format!("rm -f {}", world.inside(KERNEL_PATH)), SUBMISSION)?;
        }
        for (path, bytes) in [(KERNEL_PATH, &self.kernel), (SKILL_PATH, &self.skill)] {
            if let Some(bytes) = bytes {
                world.put(path, bytes)?;
            }
        }
        Ok(())
    }
}
