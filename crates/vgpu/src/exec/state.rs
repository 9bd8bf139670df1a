//! What a running kernel consists of: the executor of one host thread, its CTA, that CTA's warps.

use super::{PendingCopy, STOP};
use crate::check::{Fault, FaultKind, Incomplete};
use crate::device::{Chain, Counts, GlobalMemory, Neighbour, SparseSet};
use crate::lower::{Code, LANES, SLOT};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Bytes aligned to 128, so that registers and vector accesses are.
#[derive(Debug)]
pub(crate) struct AlignedBytes {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory, like a `Vec<u8>`.
unsafe impl Send for AlignedBytes {}

impl AlignedBytes {
    pub fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(128), 1024).expect("sizes are bounded");
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
        let pointer =
            NonNull::new(pointer).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self { pointer, layout }
    }

    pub fn pointer(&mut self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub fn fill(&mut self, value: u8) {
        // SAFETY: the whole allocation is ours.
        unsafe { std::ptr::write_bytes(self.pointer.as_ptr(), value, self.layout.size()) }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { std::alloc::dealloc(self.pointer.as_ptr(), self.layout) }
    }
}

/// What a warp does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarpState {
    Ready,
    /// At a CTA barrier.
    Barrier {
        id: u32,
    },
    /// At an mbarrier's phase.
    Mbarrier {
        address: u64,
        parity: u32,
    },
    /// Told to sleep; runs again when its turn comes.
    Asleep,
    Done,
}

/// What a barrier reduction gives to a warp that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduction {
    pub dst: u32,
    /// 0 popc, 1 and, 2 or.
    pub kind: u64,
    pub mask: u32,
}

/// A warp.
#[derive(Debug)]
pub(crate) struct Warp {
    pub registers: AlignedBytes,
    pub predicates: Vec<u32>,
    pub masks: Vec<u32>,
    pub local: AlignedBytes,
    /// Lanes that exist.
    pub lanes: u32,
    /// Lanes that have not returned.
    pub live: u32,
    /// Lanes that run.
    pub mask: u32,
    pub pc: usize,
    pub state: WarpState,
    pub chain: Chain,
    pub reduction: Option<Reduction>,
    /// `%tid`, for each dimension.
    pub tid: [[u32; LANES]; 3],
    /// The number of `cp.async` groups that each lane has committed.
    pub groups: [u32; LANES],
    pub copies: Vec<PendingCopy>,
    /// Turns in a row that ended at the slice's end without finishing.
    pub slices: u64,
    /// Whether the mbarrier wait that it is in is to answer now, whatever the phase.
    pub timed_out: bool,
}

/// A CTA barrier.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Barrier {
    /// Threads that have arrived.
    pub arrived: u32,
    /// Threads that it waits for; 0 while nobody has said (all of the CTA).
    pub expected: u32,
    /// Whether a phase is under way.
    pub open: bool,
    pub popc: u32,
    pub all: bool,
    pub any: bool,
}

/// A CTA.
#[derive(Debug)]
pub(crate) struct Cta {
    pub index: u64,
    pub id: [u32; 3],
    pub warps: Vec<Warp>,
    pub shared: AlignedBytes,
    pub barriers: [Barrier; 16],
    /// The barriers that some have arrived at, as a mask.
    pub open: u32,
    pub printed: String,
    pub random: u64,
    /// Rounds in a row in which only timed waits ran.
    pub fruitless: u32,
    /// Something that others may wait for happened in this round.
    pub progress: bool,
}

/// Why the interpreter's loop was left.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The warp's state says.
    State,
    /// Its slice is used up.
    Slice,
    Fault(Box<Fault>),
    Incomplete(Box<Incomplete>),
}

/// A float reduction to global memory that is applied when its CTA's turn comes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deferred {
    pub address: u64,
    pub value: u64,
    /// What [`super::AtomicKind`] it is, as its handler knows it.
    pub kind: super::AtomicKind,
}

/// What a launch is, for all host threads.
pub(crate) struct Launch<'a> {
    pub code: &'a Code,
    pub memory: &'a GlobalMemory,
    pub allocations: Vec<(u64, u64)>,
    /// Host address minus device address.
    pub delta: u64,
    pub params: &'a [u8],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub threads: u32,
    pub warps: u32,
    pub shared_bytes: u32,
    pub dynamic_base: u32,
    pub dynamic_bytes: u32,
    pub seed: u64,
    pub step_budget: u64,
    /// What of it any one warp may have.
    pub warp_budget: u64,
    pub sm_count: u32,
    pub grid_id: u32,
    pub track_writes: bool,
    /// Whether CTAs run one after another on one thread.
    pub ordered: bool,
    /// Warp instructions of a turn.
    pub slice: i64,
}

// SAFETY: `GlobalMemory` is not `Sync` only because it hands out raw pointers; during a launch its
// table is read only, and its bytes are accessed through raw pointers alone.
unsafe impl Sync for Launch<'_> {}

/// The executor of one host thread.
pub(crate) struct Exec<'a> {
    pub regs: *mut u8,
    pub preds: *mut u32,
    pub masks: *mut u32,
    pub mask: u32,
    pub live: u32,
    /// Warp instructions left in this turn.
    pub slice: i64,
    pub block_counts: Vec<u64>,
    pub sites: Vec<(u64, u64)>,
    pub launch: &'a Launch<'a>,
    pub code: &'a Code,
    /// Host address minus device address.
    pub delta: u64,
    pub shared: *mut u8,
    pub shared_bytes: u64,
    pub chain: Chain,
    pub counts: Counts,
    pub read_sectors: SparseSet,
    pub written_sectors: SparseSet,
    pub written_bytes: Option<SparseSet>,
    pub stop: Stop,
    pub resume: usize,
    /// Warp instructions issued that the launch's budget does not know of yet.
    pub unreported: u64,
    pub deferred: Vec<Deferred>,
    pub cta: Box<Cta>,
    /// The warp that runs.
    pub warp: usize,
}

impl<'a> Exec<'a> {
    pub fn new(launch: &'a Launch<'a>) -> Self {
        let code = launch.code;
        let last = launch.allocations.last().map_or(0, |&(_, end)| end);
        let bytes = last.saturating_sub(launch.memory.base());
        Self {
            regs: std::ptr::null_mut(),
            preds: std::ptr::null_mut(),
            masks: std::ptr::null_mut(),
            mask: 0,
            live: 0,
            slice: 0,
            block_counts: vec![0; code.blocks.len()],
            sites: vec![(1, 0); code.sites as usize],
            launch,
            code,
            delta: launch.delta,
            shared: std::ptr::null_mut(),
            shared_bytes: u64::from(launch.shared_bytes),
            chain: Chain::default(),
            counts: Counts::default(),
            read_sectors: SparseSet::new(bytes / 32 + 1),
            written_sectors: SparseSet::new(bytes / 32 + 1),
            written_bytes: launch.track_writes.then(|| SparseSet::new(bytes + 64)),
            stop: Stop::State,
            resume: 0,
            unreported: 0,
            deferred: Vec::new(),
            cta: Box::new(Cta::new(launch)),
            warp: 0,
        }
    }

    /// Runs the warp until it stops.
    pub fn run_warp(&mut self, index: usize, slice: i64) {
        self.warp = index;
        let warp = &mut self.cta.warps[index];
        self.regs = warp.registers.pointer();
        self.preds = warp.predicates.as_mut_ptr();
        self.masks = warp.masks.as_mut_ptr();
        self.mask = warp.mask;
        self.live = warp.live;
        self.chain = warp.chain;
        self.shared = self.cta.shared.pointer();
        self.slice = slice;
        self.stop = Stop::State;
        let mut pc = warp.pc;
        let ops = self.code.ops.as_ptr();
        while pc != STOP {
            // SAFETY: lowering gives only targets inside the code, whose last operation stops; the
            // register file, predicates and masks are those of a warp of this code.
            unsafe {
                let op = &*ops.add(pc);
                let mask = self.mask & (*self.preds.add(op.guard as usize) ^ op.flip);
                pc = (op.run)(self, op, mask, pc);
            }
        }
        let warp = &mut self.cta.warps[index];
        warp.pc = self.resume;
        warp.mask = self.mask;
        warp.live = self.live;
        warp.chain = self.chain;
    }

    /// The warp that runs.
    pub fn warp(&mut self) -> &mut Warp {
        &mut self.cta.warps[self.warp]
    }

    /// Stops in a state, to go on at `resume`.
    pub fn wait(&mut self, state: WarpState, resume: usize) -> usize {
        self.warp().state = state;
        self.stop = Stop::State;
        self.resume = resume;
        STOP
    }

    /// The operation at `pc`, its place and its thread, as a fault names them.
    #[cold]
    #[inline(never)]
    pub fn fault(
        &mut self,
        pc: usize,
        kind: FaultKind,
        lane: Option<usize>,
        message: String,
    ) -> usize {
        let origin = self.code.origins[pc];
        let thread = lane.map(|lane| {
            let tid = &self.cta.warps[self.warp].tid;
            [tid[0][lane], tid[1][lane], tid[2][lane]]
        });
        self.resume = pc;
        self.stop = Stop::Fault(Box::new(Fault {
            kind,
            kernel: self.code.name.clone(),
            location: self.code.place(pc),
            operation: self.code.names[origin.name as usize].clone(),
            cta: Some(self.cta.id),
            thread,
            message,
        }));
        STOP
    }

    /// Stops at an operation that is not modelled.
    #[cold]
    #[inline(never)]
    pub fn incomplete(&mut self, pc: usize, operation: String) -> usize {
        self.resume = pc;
        self.stop = Stop::Incomplete(Box::new(Incomplete {
            kernel: self.code.name.clone(),
            location: self.code.place(pc),
            operation,
        }));
        STOP
    }

    /// A fault of a global access of `size` bytes that lies in no live allocation.
    #[cold]
    #[inline(never)]
    pub fn outside(&mut self, pc: usize, lane: usize, address: u64, size: u64) -> usize {
        // An access that begins inside but ends outside is near to the allocation that it leaves.
        let near = self.launch.memory.neighbour(address);
        let (kind, place) = match near {
            Neighbour::Freed(start, bytes) => (
                FaultKind::UseAfterFree,
                format!(
                    "lies {} bytes into the freed allocation of {bytes} bytes at {start:#x}",
                    address - start
                ),
            ),
            Neighbour::Before(start, bytes, gap) => (
                FaultKind::OutOfBounds,
                format!(
                    "lies {gap} bytes before the nearest live allocation, {bytes} bytes at {start:#x}"
                ),
            ),
            Neighbour::After(start, bytes, 0) if address < start + bytes => (
                FaultKind::OutOfBounds,
                format!(
                    "ends {} bytes past the end of the allocation of {bytes} bytes at {start:#x}",
                    (address + size) - (start + bytes)
                ),
            ),
            Neighbour::After(start, bytes, gap) => (
                FaultKind::OutOfBounds,
                format!(
                    "lies {gap} bytes past the end of the nearest live allocation, {bytes} bytes at {start:#x}"
                ),
            ),
            Neighbour::Nothing => (
                FaultKind::OutOfBounds,
                "lies in no allocation; there is none".to_string(),
            ),
        };
        let message = format!("address {address:#x} ({size} bytes) {place}");
        self.fault(pc, kind, Some(lane), message)
    }

    /// A fault of an access that is not aligned to its size.
    #[cold]
    #[inline(never)]
    pub fn misaligned(&mut self, pc: usize, lane: usize, address: u64, size: u64) -> usize {
        let message = format!("address {address:#x} is no multiple of the access's {size} bytes");
        self.fault(pc, FaultKind::Misaligned, Some(lane), message)
    }

    /// A fault of an access outside a window of `limit` bytes.
    #[cold]
    #[inline(never)]
    pub fn outside_window(
        &mut self,
        pc: usize,
        lane: usize,
        space: &str,
        address: u64,
        size: u64,
        limit: u64,
    ) -> usize {
        let message = format!(
            "offset {address:#x} ({size} bytes) lies outside the {limit} bytes of {space} memory"
        );
        self.fault(pc, FaultKind::OutOfBounds, Some(lane), message)
    }

    /// The next number of the CTA's own seeded sequence.
    pub fn random(&mut self) -> u64 {
        let mut value = self.cta.random;
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        self.cta.random = value;
        value
    }
}

impl Cta {
    /// A CTA's memory, to be [`Cta::reset`] for each CTA that it stands for.
    pub fn new(launch: &Launch<'_>) -> Self {
        let code = launch.code;
        let warps = (0..launch.warps).map(|index| Warp::new(launch, index));
        Self {
            index: 0,
            id: [0; 3],
            warps: warps.collect(),
            shared: AlignedBytes::new(launch.shared_bytes as usize),
            barriers: [Barrier::default(); 16],
            open: 0,
            printed: String::new(),
            random: 1,
            fruitless: 0,
            progress: false,
        }
        .with_constants(code)
    }

    fn with_constants(mut self, code: &Code) -> Self {
        for warp in &mut self.warps {
            let registers = warp.registers.pointer();
            for &(offset, value, wide) in &code.constants {
                // SAFETY: lowering put the constants inside the register file.
                unsafe {
                    let target = registers.add(offset as usize);
                    for lane in 0..LANES {
                        if wide {
                            *target.cast::<u64>().add(lane) = value;
                        } else {
                            *target.cast::<u32>().add(lane) = value as u32;
                        }
                    }
                }
            }
        }
        self
    }

    /// Makes it CTA number `index` at its start.
    pub fn reset(&mut self, launch: &Launch<'_>, index: u64) {
        let [gx, gy, _] = launch.grid.map(u64::from);
        self.index = index;
        self.id = [
            (index % gx) as u32,
            (index / gx % gy) as u32,
            (index / gx / gy) as u32,
        ];
        if launch.shared_bytes > 0 {
            self.shared.fill(0xff);
        }
        if self.open != 0 {
            self.barriers = [Barrier::default(); 16];
            self.open = 0;
        }
        self.random = mix(launch.seed ^ mix(index)) | 1;
        self.fruitless = 0;
        for warp in &mut self.warps {
            warp.reset(launch.code);
        }
    }
}

/// A bijection that spreads bits (the finaliser of splitmix64).
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Warp {
    fn new(launch: &Launch<'_>, index: u32) -> Self {
        let code = launch.code;
        let first = index * LANES as u32;
        let count = (launch.threads - first).min(LANES as u32);
        let [bx, by, _] = launch.block;
        let mut tid = [[0; LANES]; 3];
        for lane in 0..LANES {
            let thread = first + lane as u32;
            tid[0][lane] = thread % bx;
            tid[1][lane] = thread / bx % by;
            tid[2][lane] = thread / bx / by;
        }
        Self {
            registers: AlignedBytes::new(code.register_bytes.max(SLOT) as usize),
            predicates: vec![0; code.predicates as usize],
            masks: vec![0; code.masks.max(1) as usize],
            local: AlignedBytes::new(code.local_words() * 4 * LANES),
            lanes: if count == 32 {
                u32::MAX
            } else {
                (1 << count) - 1
            },
            live: 0,
            mask: 0,
            pc: 0,
            state: WarpState::Ready,
            chain: Chain::default(),
            reduction: None,
            tid,
            groups: [0; LANES],
            copies: Vec::new(),
            slices: 0,
            timed_out: false,
        }
    }

    fn reset(&mut self, code: &Code) {
        self.predicates.fill(0);
        self.predicates[0] = u32::MAX;
        for &(offset, bytes) in &code.unset {
            // SAFETY: lowering put the registers inside the register file.
            unsafe {
                std::ptr::write_bytes(
                    self.registers.pointer().add(offset as usize),
                    0xff,
                    bytes as usize,
                );
            }
        }
        if code.local_bytes > 0 {
            self.local.fill(0xff);
        }
        self.live = self.lanes;
        self.mask = self.lanes;
        self.pc = 0;
        self.state = WarpState::Ready;
        self.chain = Chain::default();
        self.reduction = None;
        self.groups = [0; LANES];
        self.copies.clear();
        self.slices = 0;
        self.timed_out = false;
    }
}

impl Code {
    /// Source file and line of an operation, where known.
    pub fn place(&self, pc: usize) -> Option<(String, u32)> {
        let location = self.origins[pc].location;
        let file = self.files.get((location.file as usize).checked_sub(1)?)?;
        Some((file.clone(), location.line))
    }

    /// Words of local memory of each thread.
    pub fn local_words(&self) -> usize {
        self.local_bytes.div_ceil(4) as usize
    }
}
