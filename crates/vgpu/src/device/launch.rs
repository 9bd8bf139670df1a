//! Launches: what they are asked for, what is wrong with that, and what they report.

use super::schedule;
use super::{Counts, GlobalMemory, SparseSet};
use crate::check::{Fault, Incomplete};
use crate::exec::Launch;
use crate::lower::Program;

/// Threads that a block may have.
pub const MAX_BLOCK_THREADS: u32 = 1024;
/// Blocks that a grid may have along y and z; along x it is 2^31 - 1.
pub const MAX_GRID_YZ: u32 = 65_535;
/// Shared bytes that a block may have, static and dynamic together.
pub const MAX_SHARED_BYTES: u32 = 227 * 1024;
/// Dynamic shared memory begins at a multiple of this.
pub const DYNAMIC_SHARED_ALIGNMENT: u32 = 1024;

/// Warp instructions in a row that a warp may issue before others of its CTA have their turn.
const SLICE: i64 = 20_000;
/// The like where CTAs may wait for each other: what they spin is charged, so turns are short.
const ORDERED_SLICE: i64 = 1_000;

/// A virtual GPU.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// Streaming multiprocessors, which `%nsmid` tells.
    pub sm_count: u32,
    launches: u32,
}

/// The shape of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y, z; ones without clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared bytes of each block.
    pub dynamic_shared: u32,
}

impl LaunchConfig {
    /// A one-dimensional launch without clusters and dynamic shared memory.
    pub const fn linear(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
        }
    }
}

/// How a launch is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Host threads; 0 for all that the machine has. Results do not depend on it.
    pub threads: usize,
    /// Decides when asynchronous operations complete.
    pub seed: u64,
    /// Warp instructions that the launch may issue in all; any one warp a sixteenth of them, or a
    /// million where that is more.
    pub step_budget: u64,
    /// Whether the report says which bytes of global memory were written.
    pub track_writes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 0,
            seed: 0,
            step_budget: 20_000_000_000,
            track_writes: false,
        }
    }
}

/// What a launch did.
#[derive(Debug, Clone, Default)]
pub struct LaunchReport {
    /// Its counts.
    pub counts: Counts,
    /// Text that it printed, by CTA.
    pub printed: String,
    /// Ranges of device addresses that it wrote, first and past the last, ascending, where asked for.
    pub written: Vec<(u64, u64)>,
}

/// Why a launch did not run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The kernel did something wrong.
    #[error("{0}")]
    Fault(Box<Fault>),
    /// The kernel reached an operation that is not modelled.
    #[error("{0}")]
    Incomplete(Box<Incomplete>),
    /// The request makes no sense.
    #[error("{0}")]
    Bad(String),
}

impl Default for Gpu {
    fn default() -> Self {
        Self::new(148)
    }
}

impl Gpu {
    /// A GPU with a number of SMs (at least one).
    pub fn new(sm_count: u32) -> Self {
        Self {
            sm_count: sm_count.max(1),
            launches: 0,
        }
    }

    /// Runs a kernel to its end. `params` are the bytes of its parameters as laid out (see
    /// [`crate::ir::Kernel::param_layout`]).
    ///
    /// # Errors
    /// Where the request makes no sense, the kernel faults, or it reaches what is not modelled.
    /// Memory then has what was written until that.
    pub fn launch(
        &mut self,
        program: &Program,
        kernel: &str,
        config: LaunchConfig,
        params: &[u8],
        memory: &mut GlobalMemory,
        options: &Options,
    ) -> Result<LaunchReport, LaunchError> {
        let code = program.kernel(kernel).ok_or_else(|| {
            LaunchError::Bad(format!("there is no kernel `{kernel}` in the module"))
        })?;
        let dynamic_base = code.shared_bytes.next_multiple_of(DYNAMIC_SHARED_ALIGNMENT);
        let shared_bytes = if config.dynamic_shared == 0 {
            code.shared_bytes
        } else {
            dynamic_base.saturating_add(config.dynamic_shared)
        };
        check(config, code.max_threads)?;
        // What the device has is counted without the gap before dynamic memory.
        let asked = u64::from(code.shared_bytes) + u64::from(config.dynamic_shared);
        if asked > u64::from(MAX_SHARED_BYTES) {
            return Err(LaunchError::Bad(format!(
                "{asked} bytes of shared memory ({} static, {} dynamic); a block may have {MAX_SHARED_BYTES}",
                code.shared_bytes, config.dynamic_shared
            )));
        }
        if params.len() != code.param_bytes as usize {
            return Err(LaunchError::Bad(format!(
                "kernel `{kernel}` takes {} bytes of parameters, {} are given",
                code.param_bytes,
                params.len()
            )));
        }
        self.launches = self.launches.wrapping_add(1);
        let threads: u32 = config.block.iter().product();
        let allocations: Vec<(u64, u64)> = memory
            .allocations()
            .map(|(start, size)| (start, start + size))
            .collect();
        let host = memory
            .host_pointer(memory.base(), 0)
            .map_or(0, |pointer| pointer.as_ptr() as u64);
        let launch = Launch {
            code,
            memory,
            allocations,
            delta: host.wrapping_sub(memory.base()),
            params,
            grid: config.grid,
            block: config.block,
            cluster: config.cluster,
            threads,
            warps: threads.div_ceil(32),
            shared_bytes,
            dynamic_base,
            dynamic_bytes: config.dynamic_shared,
            seed: options.seed,
            step_budget: options.step_budget,
            warp_budget: (options.step_budget / 16).max(options.step_budget.min(1_000_000)),
            sm_count: self.sm_count,
            grid_id: self.launches,
            track_writes: options.track_writes,
            ordered: code.ordered.is_some(),
            slice: if code.ordered.is_some() {
                ORDERED_SLICE
            } else {
                SLICE
            },
        };
        let outcome = schedule::run(&launch, options.threads)?;
        let base = memory.base();
        let mut counts = outcome.counts;
        counts.ctas = config.grid.iter().map(|&n| u64::from(n)).product();
        counts.threads_per_cta = threads;
        counts.warps_per_cta = threads.div_ceil(32);
        counts.registers_per_thread = code.registers_per_thread;
        counts.shared_per_cta = shared_bytes;
        counts.ctas_per_cluster = config.cluster.iter().product();
        counts.unique_read_bytes = 32 * outcome.read_sectors.count();
        counts.unique_write_bytes = 32 * outcome.written_sectors.count();
        let written = outcome.written_bytes.as_ref().map(SparseSet::runs);
        let written = written.unwrap_or_default().into_iter();
        Ok(LaunchReport {
            counts,
            printed: outcome.printed,
            written: written
                .map(|(first, last)| (base + first, base + last + 1))
                .collect(),
        })
    }
}

fn check(config: LaunchConfig, max_threads: u32) -> Result<(), LaunchError> {
    let bad = |message: String| Err(LaunchError::Bad(message));
    let LaunchConfig {
        grid,
        block,
        cluster,
        ..
    } = config;
    if grid.contains(&0) || block.contains(&0) || cluster.contains(&0) {
        return bad(format!(
            "grid {grid:?}, block {block:?}, cluster {cluster:?}: none may be 0"
        ));
    }
    if grid[0] > i32::MAX as u32 || grid[1] > MAX_GRID_YZ || grid[2] > MAX_GRID_YZ {
        return bad(format!(
            "grid {grid:?}; at most 2147483647 x {MAX_GRID_YZ} x {MAX_GRID_YZ} blocks are possible"
        ));
    }
    let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
    if threads > u64::from(MAX_BLOCK_THREADS) || block[2] > 64 {
        return bad(format!(
            "block {block:?} has {threads} threads; at most {MAX_BLOCK_THREADS} (64 along z) are possible"
        ));
    }
    if max_threads != 0 && threads > u64::from(max_threads) {
        return bad(format!(
            "block {block:?} has {threads} threads; the kernel declares at most {max_threads}"
        ));
    }
    let in_cluster: u64 = cluster.iter().map(|&n| u64::from(n)).product();
    if in_cluster > 16 {
        return bad(format!(
            "cluster {cluster:?} has {in_cluster} blocks; at most 16 are possible"
        ));
    }
    if (0..3).any(|axis| grid[axis] % cluster[axis] != 0) {
        return bad(format!(
            "grid {grid:?} is no multiple of cluster {cluster:?}"
        ));
    }
    Ok(())
}
