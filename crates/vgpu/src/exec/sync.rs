//! CTA barriers, mbarriers, and asynchronous copies.

use super::memory::{addresses, wavefronts};
use super::registers::lanes;
use super::state::{Cta, Reduction, Warp};
use super::{Barrier, Exec, Handle, WarpState};
use crate::check::FaultKind;
use crate::lower::{Extra, Op};

/// Threads that a warp counts for at a barrier, whatever its number of lanes.
const WARP_THREADS: u32 = 32;

/// What a barrier instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    /// Destination, 0 popc, 1 and, 2 or; predicate, and what it is xored with.
    Reduce {
        dst: u32,
        kind: u64,
        pred: u32,
        flip: u32,
    },
}

/// `barrier`: number `a`, count `b` where `x` is not 0, aligned where `dst` is not 0, kind in extra `c`.
pub(crate) struct CtaBarrier;

impl Handle for CtaBarrier {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        let Extra::Barrier(kind) = x.code.extras[op.c as usize] else {
            unreachable!("lowering made a barrier's extra")
        };
        match barrier(x, op, kind, mask, pc) {
            Ok(next) | Err(next) => next,
        }
    }
}

fn barrier(
    x: &mut Exec<'_>,
    op: &Op,
    kind: BarrierKind,
    mask: u32,
    pc: usize,
) -> Result<usize, usize> {
    let fail = |x: &mut Exec<'_>, message: String| {
        let lane = mask.trailing_zeros() as usize;
        Err(x.fault(pc, FaultKind::Barrier, Some(lane), message))
    };
    if mask != x.live {
        let elsewhere = x.live & !mask;
        if op.dst == 0 {
            let what = format!(
                "barrier by a part of a warp (lanes {mask:#010x}, while {elsewhere:#010x} are elsewhere)"
            );
            return Err(x.incomplete(pc, what));
        }
        return fail(
            x,
            format!(
                "lanes {mask:#010x} of the warp are at this barrier while lanes {elsewhere:#010x} are in \
                 another branch; all threads of a warp must reach it together"
            ),
        );
    }
    let id = uniform(x, op.a, mask);
    let count = if op.x != 0 {
        uniform(x, op.b, mask).map(Some)
    } else {
        Some(None)
    };
    let (Some(id), Some(count)) = (id, count) else {
        return fail(x, "lanes name different barriers or counts".to_string());
    };
    if id > 15 {
        return fail(x, format!("there is no barrier {id}; they are 0 to 15"));
    }
    if let Some(count) = count
        && (count == 0 || count % WARP_THREADS != 0)
    {
        return fail(
            x,
            format!("a barrier's count is a positive multiple of 32, not {count}"),
        );
    }
    let state = &mut x.cta.barriers[id as usize];
    let expected = count.unwrap_or(0);
    if state.open && state.expected != expected {
        let words = |count: u32| match count {
            0 => "all threads".to_string(),
            count => format!("{count} threads"),
        };
        let message = format!(
            "barrier {id} waits for {}, but this arrival says {}",
            words(state.expected),
            words(expected)
        );
        return fail(x, message);
    }
    if !state.open {
        *state = Barrier {
            open: true,
            expected,
            all: true,
            ..Barrier::default()
        };
        x.cta.open |= 1 << id;
    }
    let state = &mut x.cta.barriers[id as usize];
    state.arrived += WARP_THREADS;
    x.counts.barriers += 1;
    let mut reduction = None;
    if let BarrierKind::Reduce {
        dst,
        kind,
        pred,
        flip,
    } = kind
    {
        // SAFETY: lowering chose a predicate.
        let value = (unsafe { x.pred(pred) } ^ flip) & mask;
        let state = &mut x.cta.barriers[id as usize];
        state.popc += value.count_ones();
        state.all &= value == mask;
        state.any |= value != 0;
        reduction = Some(Reduction { dst, kind, mask });
    }
    let waits = kind != BarrierKind::Arrive;
    if waits {
        let warp = x.warp();
        warp.state = WarpState::Barrier { id };
        warp.reduction = reduction;
    }
    if x.cta.barriers[id as usize].arrived > expected.max(WARP_THREADS) && expected != 0 {
        return fail(
            x,
            format!("more than the {expected} threads that barrier {id} waits for arrive at it"),
        );
    }
    x.cta.complete_barriers();
    if x.warp().state == WarpState::Ready {
        x.chain.waits += u64::from(waits);
        return Ok(pc + 1);
    }
    Ok(x.wait(WarpState::Barrier { id }, pc + 1))
}

/// The value that a register has in every active lane.
fn uniform(x: &Exec<'_>, register: u32, mask: u32) -> Option<u32> {
    // SAFETY: lowering chose a 32-bit register.
    let values = unsafe { x.read::<u32>(register) };
    let first = values[mask.trailing_zeros() as usize % 32];
    lanes(mask)
        .all(|lane| values[lane] == first)
        .then_some(first)
}

impl Cta {
    /// Opens every barrier at which all have arrived; warps that ended count as having.
    pub fn complete_barriers(&mut self) {
        if self.open == 0 {
            return;
        }
        let alive = self
            .warps
            .iter()
            .filter(|warp| warp.state != WarpState::Done)
            .count() as u32;
        for id in lanes(self.open) {
            let state = self.barriers[id];
            let expected = if state.expected == 0 {
                alive * WARP_THREADS
            } else {
                state.expected
            };
            if !state.open || state.arrived < expected {
                continue;
            }
            self.barriers[id] = Barrier::default();
            self.open &= !(1 << id);
            self.progress = true;
            for warp in &mut self.warps {
                if warp.state == (WarpState::Barrier { id: id as u32 }) {
                    warp.state = WarpState::Ready;
                    warp.chain.waits += 1;
                    if let Some(reduction) = warp.reduction.take() {
                        warp.deliver(reduction, &state);
                    }
                }
            }
        }
    }

    /// The mbarrier at a shared address, as a word.
    pub fn mbarrier(&mut self, address: u64) -> Mbarrier {
        // SAFETY: the address was checked when a warp began to wait for it.
        Mbarrier(unsafe { *self.shared.pointer().add(address as usize).cast::<u64>() })
    }
}

impl Warp {
    fn deliver(&mut self, reduction: Reduction, state: &Barrier) {
        let Reduction { dst, kind, mask } = reduction;
        if kind == 0 {
            for lane in lanes(mask) {
                // SAFETY: lowering chose a 32-bit register.
                unsafe {
                    let target = self.registers.pointer().add(dst as usize);
                    *target.cast::<u32>().add(lane) = state.popc;
                }
            }
        } else {
            let value = if kind == 1 { state.all } else { state.any };
            let target = &mut self.predicates[dst as usize];
            *target = (*target & !mask) | if value { mask } else { 0 };
        }
    }
}

/// An mbarrier object's 64 bits: pending arrivals (20), expected arrivals (20), pending bytes (21,
/// biased), phase (1), and a mark (2) that tells it from memory that was never initialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mbarrier(pub u64);

const COUNT_MAX: u64 = (1 << 20) - 1;
const TX_BIAS: i64 = 1 << 20;
const MARK: u64 = 0b10 << 62;

impl Mbarrier {
    fn new(count: u64) -> Self {
        Self::pack(count, count, 0, 0)
    }

    fn pack(pending: u64, expected: u64, tx: i64, phase: u64) -> Self {
        let tx = ((tx + TX_BIAS) as u64) & 0x1f_ffff;
        Self(pending | expected << 20 | tx << 40 | phase << 61 | MARK)
    }

    pub fn valid(self) -> bool {
        self.0 >> 62 == 0b10
    }

    pub fn pending(self) -> u64 {
        self.0 & COUNT_MAX
    }

    pub fn expected(self) -> u64 {
        self.0 >> 20 & COUNT_MAX
    }

    pub fn tx(self) -> i64 {
        (self.0 >> 40 & 0x1f_ffff) as i64 - TX_BIAS
    }

    pub fn phase(self) -> u64 {
        self.0 >> 61 & 1
    }

    /// With other counts; a phase in which nothing is pending ends, and the next begins.
    fn with(self, pending: u64, tx: i64) -> Self {
        if pending == 0 && tx == 0 {
            Self::pack(self.expected(), self.expected(), 0, self.phase() ^ 1)
        } else {
            Self::pack(pending, self.expected(), tx, self.phase())
        }
    }
}

/// What an mbarrier instruction does; operands are registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MbarrierKind {
    Init {
        count: u32,
    },
    Inval,
    Arrive {
        state: Option<u32>,
        count: u32,
        expect: Option<u32>,
    },
    ExpectTx {
        bytes: u32,
    },
    CompleteTx {
        bytes: u32,
    },
    TestParity {
        done: u32,
        parity: u32,
        suspend: bool,
    },
    TestState {
        done: u32,
        state: u32,
    },
    CopyArrive {
        noinc: bool,
    },
}

/// An mbarrier operation: base `a` (64 bits wide where `b` is not 0) plus `x`, the rest in extra `c`.
pub(crate) struct MbarrierOp;

impl Handle for MbarrierOp {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        let Extra::Mbarrier(kind) = x.code.extras[op.c as usize] else {
            unreachable!("lowering made an mbarrier's extra")
        };
        // SAFETY: lowering chose a register of this width.
        let at = unsafe { addresses(x, op.a, op.b != 0, op.x) };
        match mbarrier(x, kind, &at, mask, pc) {
            Ok(next) | Err(next) => next,
        }
    }
}

fn read_word(x: &Exec<'_>, address: u64) -> Mbarrier {
    // SAFETY: the caller checked the address against the window.
    Mbarrier(unsafe { *x.shared.add(address as usize).cast::<u64>() })
}

fn write_word(x: &mut Exec<'_>, address: u64, word: u64) {
    // SAFETY: the caller checked the address against the window.
    unsafe { *x.shared.add(address as usize).cast::<u64>() = word }
}

fn misuse(x: &mut Exec<'_>, pc: usize, lane: usize, message: String) -> usize {
    x.fault(pc, FaultKind::Mbarrier, Some(lane), message)
}

/// The mbarrier at an address, or a fault where there is none.
fn existing(x: &mut Exec<'_>, pc: usize, lane: usize, address: u64) -> Result<Mbarrier, usize> {
    let word = read_word(x, address);
    if word.valid() {
        return Ok(word);
    }
    let message = format!(
        "shared address {address:#x} holds no initialised mbarrier; is it initialised, and made \
         visible by a barrier, before this?"
    );
    Err(misuse(x, pc, lane, message))
}

/// Arrives `count` times and moves the pending bytes by `tx`.
fn update(
    x: &mut Exec<'_>,
    pc: usize,
    lane: usize,
    address: u64,
    count: u64,
    tx: i64,
) -> Result<Mbarrier, usize> {
    let before = existing(x, pc, lane, address)?;
    let bytes = before.tx() + tx;
    if bytes.abs() >= TX_BIAS {
        let message = format!(
            "the pending transaction count would be {bytes} bytes; its range is ±1,048,575"
        );
        return Err(misuse(x, pc, lane, message));
    }
    if count > before.pending() {
        let message = format!(
            "{count} arrivals at the mbarrier at {address:#x}, whose phase waits for {} more of {}",
            before.pending(),
            before.expected()
        );
        return Err(misuse(x, pc, lane, message));
    }
    write_word(x, address, before.with(before.pending() - count, bytes).0);
    x.cta.progress = true;
    Ok(before)
}

fn mbarrier(
    x: &mut Exec<'_>,
    kind: MbarrierKind,
    at: &[u64; 32],
    mask: u32,
    pc: usize,
) -> Result<usize, usize> {
    x.check_window(pc, "shared", x.shared_bytes, at, mask, 8)?;
    x.counts.mbarrier_operations += 1;
    let read = |x: &Exec<'_>, register: u32| {
        // SAFETY: lowering chose 32-bit registers.
        unsafe { x.read::<u32>(register) }
    };
    match kind {
        MbarrierKind::Init { count } => {
            let count = read(x, count);
            for lane in lanes(mask) {
                let count = u64::from(count[lane]);
                if count == 0 || count > COUNT_MAX {
                    let message = format!("an mbarrier's count is 1 to {COUNT_MAX}, not {count}");
                    return Err(misuse(x, pc, lane, message));
                }
                write_word(x, at[lane], Mbarrier::new(count).0);
            }
        }
        MbarrierKind::Inval => {
            for lane in lanes(mask) {
                existing(x, pc, lane, at[lane])?;
                write_word(x, at[lane], u64::MAX);
            }
        }
        MbarrierKind::Arrive {
            state,
            count,
            expect,
        } => {
            let count = read(x, count);
            let expect = expect.map(|expect| read(x, expect));
            for lane in lanes(mask) {
                let bytes = expect.map_or(0, |expect| i64::from(expect[lane]));
                let before = update(x, pc, lane, at[lane], u64::from(count[lane]), bytes)?;
                if let Some(state) = state {
                    // SAFETY: lowering chose a 64-bit register.
                    unsafe { x.write_lane::<u64>(state, lane, before.0) }
                }
            }
        }
        MbarrierKind::ExpectTx { bytes } => {
            let bytes = read(x, bytes);
            for lane in lanes(mask) {
                // Raising the count alone never ends a phase: arrivals are pending, or it ended.
                update(x, pc, lane, at[lane], 0, i64::from(bytes[lane]))?;
            }
        }
        MbarrierKind::CompleteTx { bytes } => {
            let bytes = read(x, bytes);
            for lane in lanes(mask) {
                update(x, pc, lane, at[lane], 0, -i64::from(bytes[lane]))?;
            }
        }
        MbarrierKind::TestParity {
            done,
            parity,
            suspend,
        } => {
            let parity = read(x, parity);
            let mut answer = 0;
            let mut waiting = None;
            for lane in lanes(mask) {
                let word = existing(x, pc, lane, at[lane])?;
                if word.phase() != u64::from(parity[lane] & 1) {
                    answer |= 1 << lane;
                } else if waiting.is_none() {
                    waiting = Some((at[lane], parity[lane] & 1));
                }
            }
            let timed_out = std::mem::take(&mut x.warp().timed_out);
            if let Some((address, parity)) = waiting
                && suspend
                && !timed_out
            {
                return Ok(x.wait(WarpState::Mbarrier { address, parity }, pc));
            }
            // SAFETY: lowering chose a predicate.
            unsafe { x.set_pred(done, mask, answer) }
        }
        MbarrierKind::TestState { done, state } => {
            // SAFETY: lowering chose a 64-bit register.
            let state = unsafe { x.read::<u64>(state) };
            let mut answer = 0;
            for lane in lanes(mask) {
                let word = existing(x, pc, lane, at[lane])?;
                let complete = word.phase() != Mbarrier(state[lane]).phase();
                answer |= u32::from(complete) << lane;
            }
            // SAFETY: lowering chose a predicate.
            unsafe { x.set_pred(done, mask, answer) }
        }
        MbarrierKind::CopyArrive { noinc } => {
            for lane in lanes(mask) {
                let word = existing(x, pc, lane, at[lane])?;
                if !noinc {
                    let pending = word.pending() + 1;
                    if pending > COUNT_MAX {
                        return Err(misuse(x, pc, lane, "too many pending arrivals".into()));
                    }
                    let word = Mbarrier::pack(pending, word.expected(), word.tx(), word.phase());
                    write_word(x, at[lane], word.0);
                }
            }
            let group = x.warp().groups;
            x.warp().copies.push(PendingCopy {
                mask,
                group,
                what: CopyKind::Arrive { at: *at, pc },
            });
        }
    }
    Ok(pc + 1)
}

/// An asynchronous operation that some lanes of a warp have under way.
#[derive(Debug, Clone)]
pub(crate) struct PendingCopy {
    /// Lanes whose part is not done.
    pub mask: u32,
    /// The group of each lane's part.
    pub group: [u32; 32],
    pub what: CopyKind,
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // Both are arrays over lanes.
pub(crate) enum CopyKind {
    /// `cp.async`: shared offset, device address and source bytes of each lane.
    Copy {
        shared: [u64; 32],
        global: [u64; 32],
        take: [u32; 32],
        bytes: u32,
    },
    /// `cp.async.mbarrier.arrive`, once the lane's earlier copies are done.
    Arrive { at: [u64; 32], pc: usize },
}

/// `cp.async`: shared base `a` plus extra's offset, global base `c` plus `x`, site `b`, extra `dst`.
pub(crate) struct CopyAsync;

impl Handle for CopyAsync {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        match copy_async(x, op, mask, pc) {
            Ok(next) | Err(next) => next,
        }
    }
}

fn copy_async(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> Result<usize, usize> {
    let Extra::Copy {
        bytes,
        shared_wide,
        shared_offset,
        source,
    } = x.code.extras[op.dst as usize]
    else {
        unreachable!("lowering made a copy's extra")
    };
    // SAFETY: lowering chose registers of these widths.
    let (shared, global, take) = unsafe {
        (
            x.read_any(op.a, shared_wide)
                .map(|base| base.wrapping_add(shared_offset)),
            addresses(x, op.c, true, op.x),
            source.map_or([bytes; 32], |source| x.read::<u32>(source)),
        )
    };
    let size = u64::from(bytes);
    x.check_window(pc, "shared", x.shared_bytes, &shared, mask, size)?;
    let mut reading = 0;
    let mut whole = true;
    for lane in lanes(mask) {
        if take[lane] > bytes {
            let message = format!("{} source bytes of a copy of {bytes}", take[lane]);
            return Err(x.fault(pc, FaultKind::OutOfBounds, Some(lane), message));
        }
        reading |= u32::from(take[lane] != 0) << lane;
        whole &= take[lane] == 0 || take[lane] == bytes;
    }
    if reading != 0 {
        if whole {
            x.check_global(pc, op.b, &global, reading, size)?;
        } else {
            for lane in lanes(reading) {
                let address = global[lane];
                if address % size != 0 {
                    return Err(x.misaligned(pc, lane, address, size));
                }
                let end = address.wrapping_add(u64::from(take[lane]));
                if !x.allocated(op.b, address, end) {
                    return Err(x.outside(pc, lane, address, u64::from(take[lane])));
                }
            }
        }
        x.count_gather(&global, reading, size);
    }
    let counts = &mut x.counts.shared_stores;
    counts.requests += 1;
    counts.bytes += u64::from(mask.count_ones()) * size;
    counts.wavefronts += wavefronts(&shared, mask, size);
    let group = x.warp().groups;
    x.warp().copies.push(PendingCopy {
        mask,
        group,
        what: CopyKind::Copy {
            shared,
            global,
            take,
            bytes,
        },
    });
    // Now and then something that is under way completes.
    let dice = x.random();
    if dice & 3 == 0 {
        let count = x.warp().copies.len() as u64;
        x.complete_copy(x.warp, (dice >> 2) as usize % count as usize, u32::MAX)?;
    }
    Ok(pc + 1)
}

/// `cp.async.commit_group`.
pub(crate) struct CommitCopies;

impl Handle for CommitCopies {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, _: &Op, mask: u32, pc: usize) -> usize {
        for lane in lanes(mask) {
            x.warp().groups[lane] += 1;
        }
        pc + 1
    }
}

/// `cp.async.wait_group x`, and `wait_all` where `a` is not 0.
pub(crate) struct WaitCopies;

impl Handle for WaitCopies {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        x.chain.waits += 1;
        let pending = op.x as u32;
        loop {
            let groups = x.warp().groups;
            let due = |copy: &PendingCopy| -> u32 {
                let lanes_due = lanes(copy.mask & mask).filter(|&lane| {
                    op.a != 0 || copy.group[lane] < groups[lane].saturating_sub(pending)
                });
                lanes_due.fold(0, |due, lane| due | 1 << lane)
            };
            let copies = x.warp().copies.iter();
            let mut candidates: Vec<(usize, u32)> = copies
                .enumerate()
                .filter(|(_, copy)| matches!(copy.what, CopyKind::Copy { .. }))
                .map(|(index, copy)| (index, due(copy)))
                .filter(|&(_, due)| due != 0)
                .collect();
            if candidates.is_empty() {
                return pc + 1;
            }
            let pick = x.random() as usize % candidates.len();
            let (index, due) = candidates.swap_remove(pick);
            if let Err(stop) = x.complete_copy(x.warp, index, due) {
                return stop;
            }
        }
    }
}

impl Exec<'_> {
    /// Completes the part of `lanes_due` of a warp's pending operation; an arrival only for lanes whose
    /// earlier copies are done.
    pub fn complete_copy(
        &mut self,
        warp: usize,
        index: usize,
        lanes_due: u32,
    ) -> Result<(), usize> {
        let copies = &mut self.cta.warps[warp].copies;
        let mut due = copies[index].mask & lanes_due;
        if matches!(copies[index].what, CopyKind::Arrive { .. }) {
            let earlier = copies[..index].iter();
            let busy = earlier
                .filter(|copy| matches!(copy.what, CopyKind::Copy { .. }))
                .fold(0, |busy, copy| busy | copy.mask);
            due &= !busy;
        }
        if due == 0 {
            return Ok(());
        }
        copies[index].mask &= !due;
        let what = copies[index].what.clone();
        if copies[index].mask == 0 {
            copies.remove(index);
        }
        self.cta.progress = true;
        self.shared = self.cta.shared.pointer();
        match what {
            CopyKind::Copy {
                shared,
                global,
                take,
                bytes,
            } => {
                for lane in lanes(due) {
                    let take = take[lane] as usize;
                    // SAFETY: both ranges were checked when the copy was issued.
                    unsafe {
                        let to = self.shared.add(shared[lane] as usize);
                        let from = global[lane].wrapping_add(self.delta) as *const u8;
                        std::ptr::copy_nonoverlapping(from, to, take);
                        std::ptr::write_bytes(to.add(take), 0, bytes as usize - take);
                    }
                }
            }
            CopyKind::Arrive { at, pc } => {
                for lane in lanes(due) {
                    update(self, pc, lane, at[lane], 1, 0)?;
                }
            }
        }
        Ok(())
    }
}
