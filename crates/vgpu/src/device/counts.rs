//! What a launch did, in the units that the modelled clock charges.

/// The pipe that a warp instruction issues to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pipe {
    /// Integer, logic, moves, selects and comparisons of integers.
    Int,
    /// Single-precision add, multiply, fused multiply-add, min, max, compare.
    Fp32,
    /// Double precision.
    Fp64,
    /// Half and bfloat16, packed or not.
    Fp16,
    /// Special functions, and each step of a division or square root that stands for one.
    Special,
    /// Conversions between formats.
    Convert,
    /// Loads, stores, atomics and asynchronous copies, in every space.
    Memory,
    /// Shuffles, votes, matches and reductions over a warp.
    Warp,
    /// Barriers, fences and waits.
    Sync,
    /// Branches, loop ends, returns, and operations on predicates.
    Control,
}

impl Pipe {
    /// Number of pipes.
    pub const COUNT: usize = 10;
    /// Every pipe, in the order of [`Counts::issued`].
    pub const ALL: [Pipe; Pipe::COUNT] = [
        Pipe::Int,
        Pipe::Fp32,
        Pipe::Fp64,
        Pipe::Fp16,
        Pipe::Special,
        Pipe::Convert,
        Pipe::Memory,
        Pipe::Warp,
        Pipe::Sync,
        Pipe::Control,
    ];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Pipe::Int => "int",
            Pipe::Fp32 => "fp32",
            Pipe::Fp64 => "fp64",
            Pipe::Fp16 => "fp16",
            Pipe::Special => "special",
            Pipe::Convert => "convert",
            Pipe::Memory => "memory",
            Pipe::Warp => "warp",
            Pipe::Sync => "sync",
            Pipe::Control => "control",
        }
    }
}

/// Accesses of device (global) or local memory, by warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SectorAccess {
    /// Warp instructions with at least one active lane.
    pub requests: u64,
    /// 32-byte sectors that the active lanes of each request touch, each counted once a request.
    pub sectors: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
}

/// Accesses of shared memory, by warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SharedAccess {
    /// Warp instructions with at least one active lane.
    pub requests: u64,
    /// Passes through the 32 four-byte banks; without conflicts, one for each 128 bytes.
    pub wavefronts: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
}

/// Atomic operations and reductions on one space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AtomicAccess {
    /// Warp instructions with at least one active lane.
    pub requests: u64,
    /// Operations, one for each active lane.
    pub operations: u64,
    /// Sum over requests of the largest number of lanes that met at one address.
    pub serialized: u64,
}

/// What one warp had to wait for, in order: the length of its dependent chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Chain {
    /// Rounds of global or local loads, or returning global atomics, each of which something later
    /// needed: loads issued together before the first use of any of them are one round.
    pub global_rounds: u64,
    /// The like for shared memory.
    pub shared_rounds: u64,
    /// Barriers, mbarrier and cp.async waits.
    pub waits: u64,
    /// Warp instructions issued.
    pub instructions: u64,
}

/// Counts of one launch. Sums over all warps unless said otherwise; the same for any number of host
/// threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    /// CTAs of the grid.
    pub ctas: u64,
    /// Threads of a CTA.
    pub threads_per_cta: u32,
    /// Warps of a CTA, a partial one included.
    pub warps_per_cta: u32,
    /// Registers (32 bits each) of a thread: the front end's estimate, or one from liveness.
    pub registers_per_thread: u32,
    /// Static and dynamic shared bytes of a CTA.
    pub shared_per_cta: u32,
    /// CTAs of a cluster (1 without clusters).
    pub ctas_per_cluster: u32,
    /// Warp instructions issued, by [`Pipe`] in the order of [`Pipe::ALL`].
    pub issued: [u64; Pipe::COUNT],
    /// Loads of global memory, `cp.async` included.
    pub global_loads: SectorAccess,
    /// Stores to global memory.
    pub global_stores: SectorAccess,
    /// Loads and stores of local memory.
    pub local: SectorAccess,
    /// Bytes of the distinct 32-byte sectors read over the whole launch: DRAM reads with a cold L2.
    pub unique_read_bytes: u64,
    /// Bytes of the distinct 32-byte sectors written (atomics included) over the whole launch.
    pub unique_write_bytes: u64,
    /// Loads of shared memory.
    pub shared_loads: SharedAccess,
    /// Stores to shared memory, `cp.async` included.
    pub shared_stores: SharedAccess,
    /// Loads of the constant bank and of parameters.
    pub constant_loads: u64,
    /// Atomics and reductions on global memory.
    pub global_atomics: AtomicAccess,
    /// Atomics and reductions on shared memory.
    pub shared_atomics: AtomicAccess,
    /// Warp arrivals at CTA barriers.
    pub barriers: u64,
    /// Operations on mbarriers.
    pub mbarrier_operations: u64,
    /// The longest chain that any one warp had (by [`Chain::weight`]).
    pub longest: Chain,
    /// Sum of the chains of all warps.
    pub total: Chain,
}

impl Chain {
    /// A rough length in cycles, to tell which of two chains is longer: 600 for a global round, 30
    /// for a shared one or a wait, 5 for an instruction. The clock has its own figures.
    pub const fn weight(&self) -> u64 {
        self.global_rounds * 600 + (self.shared_rounds + self.waits) * 30 + self.instructions * 5
    }

    pub(crate) fn add(&mut self, other: &Chain) {
        self.global_rounds += other.global_rounds;
        self.shared_rounds += other.shared_rounds;
        self.waits += other.waits;
        self.instructions += other.instructions;
    }

    pub(crate) fn max_with(&mut self, other: &Chain) {
        if (other.weight(), *other) > (self.weight(), *self) {
            *self = *other;
        }
    }
}

impl SectorAccess {
    fn add(&mut self, other: &SectorAccess) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.bytes += other.bytes;
    }
}

impl SharedAccess {
    fn add(&mut self, other: &SharedAccess) {
        self.requests += other.requests;
        self.wavefronts += other.wavefronts;
        self.bytes += other.bytes;
    }
}

impl AtomicAccess {
    fn add(&mut self, other: &AtomicAccess) {
        self.requests += other.requests;
        self.operations += other.operations;
        self.serialized += other.serialized;
    }
}

impl Counts {
    /// Warps of the launch.
    pub const fn warps(&self) -> u64 {
        self.ctas * self.warps_per_cta as u64
    }

    /// Warp instructions issued, over all pipes.
    pub fn instructions(&self) -> u64 {
        self.issued.iter().sum()
    }

    /// Warp instructions issued to one pipe.
    pub const fn issued_to(&self, pipe: Pipe) -> u64 {
        self.issued[pipe as usize]
    }

    /// Adds what another host thread counted of the same launch; the launch's own figures (geometry,
    /// unique bytes) stay.
    pub(crate) fn merge(&mut self, other: &Counts) {
        for (mine, theirs) in self.issued.iter_mut().zip(other.issued) {
            *mine += theirs;
        }
        self.global_loads.add(&other.global_loads);
        self.global_stores.add(&other.global_stores);
        self.local.add(&other.local);
        self.shared_loads.add(&other.shared_loads);
        self.shared_stores.add(&other.shared_stores);
        self.constant_loads += other.constant_loads;
        self.global_atomics.add(&other.global_atomics);
        self.shared_atomics.add(&other.shared_atomics);
        self.barriers += other.barriers;
        self.mbarrier_operations += other.mbarrier_operations;
        self.longest.max_with(&other.longest);
        self.total.add(&other.total);
    }
}
