//! Which CTA runs when: spread over host threads where their order cannot matter, else on one thread,
//! a fixed turn for each; and, inside a CTA, which warp.

use super::{Counts, LaunchError, SparseSet};
use crate::check::{Fault, FaultKind, deadlock};
use crate::exec::{Cta, Deferred, Exec, Launch, Stop, WarpState};
use crate::lower::Code;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rounds in a row in which only timed waits ran, after which a CTA counts as stuck.
const FRUITLESS_ROUNDS: u32 = 64;
/// Sums of floats that may wait for earlier CTAs.
const SUMS_LIMIT: usize = 1 << 24;
/// Bytes of text that a launch may print.
const PRINT_LIMIT: usize = 1 << 20;

/// What a launch amounts to.
#[derive(Default)]
pub(super) struct Outcome {
    pub counts: Counts,
    pub read_sectors: SparseSet,
    pub written_sectors: SparseSet,
    pub written_bytes: Option<SparseSet>,
    pub printed: String,
}

/// Runs all CTAs.
pub(super) fn run(launch: &Launch<'_>, threads: usize) -> Result<Outcome, LaunchError> {
    let ctas: u64 = launch.grid.iter().map(|&n| u64::from(n)).product();
    let machine = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { machine() } else { threads };
    let threads = threads.min(usize::try_from(ctas).unwrap_or(usize::MAX));
    let shared = Shared::new(ctas, threads as u64);
    if launch.ordered {
        let mut exec = Exec::new(launch);
        let result = run_in_turns(&mut exec, ctas, &shared);
        shared.collect(exec);
        if let Err((cta, error)) = result {
            shared.fail(cta, error);
        }
    } else if threads <= 1 {
        run_share(launch, &shared);
    } else {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| run_share(launch, &shared));
            }
            run_share(launch, &shared);
        });
    }
    shared.finish()
}

/// What host threads share.
struct Shared {
    ctas: u64,
    chunk: u64,
    next: AtomicU64,
    /// CTAs from here on need not run, since an earlier one failed.
    end: AtomicU64,
    issued: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outcome: Outcome,
    failure: Option<(u64, LaunchError)>,
    printed: BTreeMap<u64, String>,
    printed_bytes: usize,
    /// Sums of floats of chunks that wait for earlier ones, by chunk.
    waiting: BTreeMap<u64, Vec<Deferred>>,
    waiting_sums: usize,
    applied: u64,
}

impl Shared {
    fn new(ctas: u64, threads: u64) -> Self {
        Self {
            ctas,
            chunk: (ctas / (threads * 16).max(1)).clamp(1, 64),
            next: AtomicU64::new(0),
            end: AtomicU64::new(u64::MAX),
            issued: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A thread that panicked leaves numbers that nobody will read.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn fail(&self, cta: u64, error: LaunchError) {
        self.end.fetch_min(cta, Ordering::Relaxed);
        let mut state = self.state();
        if state.failure.as_ref().is_none_or(|(first, _)| cta < *first) {
            state.failure = Some((cta, error));
        }
    }

    fn print(&self, cta: u64, text: &mut String) {
        if text.is_empty() {
            return;
        }
        let text = std::mem::take(text);
        let mut state = self.state();
        // By CTA, so that what is cut off does not depend on the number of threads.
        state.printed_bytes += text.len();
        state.printed.insert(cta, text);
        while state.printed_bytes > 2 * PRINT_LIMIT {
            let Some((_, last)) = state.printed.pop_last() else {
                break;
            };
            state.printed_bytes -= last.len();
        }
    }

    /// Applies the sums of a chunk, once those of all earlier chunks are.
    fn apply(&self, exec: &mut Exec<'_>, chunk: u64) {
        let sums = std::mem::take(&mut exec.deferred);
        let mut state = self.state();
        // Whoever has the next chunk never waits here, so this ends.
        while state.applied != chunk && state.waiting_sums > SUMS_LIMIT {
            drop(state);
            std::thread::sleep(std::time::Duration::from_millis(1));
            if self.end.load(Ordering::Relaxed) != u64::MAX {
                return;
            }
            state = self.state();
        }
        state.waiting_sums += sums.len();
        state.waiting.insert(chunk, sums);
        while let Some(sums) = {
            let applied = state.applied;
            state.waiting.remove(&applied)
        } {
            state.waiting_sums -= sums.len();
            for sum in sums {
                // SAFETY: the access was checked when it was deferred.
                unsafe {
                    let host = sum.address.wrapping_add(exec.delta) as *mut u8;
                    sum.kind.perform(host, sum.value, sum.value, true);
                }
            }
            state.applied += 1;
        }
    }

    /// Takes what a host thread counted.
    fn collect(&self, mut exec: Exec<'_>) {
        exec.finish_counts();
        let mut state = self.state();
        let outcome = &mut state.outcome;
        outcome.counts.merge(&exec.counts);
        outcome.read_sectors.merge(exec.read_sectors);
        outcome.written_sectors.merge(exec.written_sectors);
        if let Some(bytes) = exec.written_bytes {
            outcome
                .written_bytes
                .get_or_insert_with(SparseSet::default)
                .merge(bytes);
        }
    }

    fn finish(self) -> Result<Outcome, LaunchError> {
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, error)) = state.failure {
            return Err(error);
        }
        let mut outcome = state.outcome;
        for text in state.printed.values() {
            if outcome.printed.len() + text.len() > PRINT_LIMIT {
                outcome
                    .printed
                    .push_str("[more was printed than is kept]\n");
                break;
            }
            outcome.printed.push_str(text);
        }
        Ok(outcome)
    }
}

/// One host thread's share: chunk after chunk, in order.
fn run_share(launch: &Launch<'_>, shared: &Shared) {
    let mut exec = Exec::new(launch);
    loop {
        let first = shared.next.fetch_add(shared.chunk, Ordering::Relaxed);
        if first >= shared.ctas.min(shared.end.load(Ordering::Relaxed)) {
            break;
        }
        let last = (first + shared.chunk).min(shared.ctas);
        for cta in first..last {
            if cta >= shared.end.load(Ordering::Relaxed) {
                break;
            }
            exec.cta.reset(launch, cta);
            let result = run_to_end(&mut exec, shared);
            shared.print(cta, &mut exec.cta.printed);
            if let Err(error) = result {
                shared.fail(cta, error);
                break;
            }
        }
        if launch.code.defers {
            shared.apply(&mut exec, first / shared.chunk);
        }
    }
    shared.collect(exec);
}

/// Runs the executor's CTA to its end.
fn run_to_end(exec: &mut Exec<'_>, shared: &Shared) -> Result<(), LaunchError> {
    loop {
        match run_round(exec, shared)? {
            Round::Done => return Ok(()),
            Round::Progress => {}
            Round::Stuck => {
                return Err(LaunchError::Fault(Box::new(deadlock(exec))));
            }
        }
    }
}

/// CTAs on one thread: each runs until none of its warps can go on without others, or its turn is over;
/// as many are begun as the device could hold at once.
fn run_in_turns(exec: &mut Exec<'_>, ctas: u64, shared: &Shared) -> Result<(), (u64, LaunchError)> {
    let launch = exec.launch;
    let resident = residents(launch);
    let mut begun = 0;
    let mut running: Vec<Box<Cta>> = Vec::new();
    let mut spare: Vec<Box<Cta>> = Vec::new();
    let mut idle_rounds = 0;
    while begun < ctas || !running.is_empty() {
        let mut progress = false;
        if begun < ctas && running.len() < resident {
            let mut cta = spare.pop().unwrap_or_else(|| Box::new(Cta::new(launch)));
            cta.reset(launch, begun);
            begun += 1;
            running.push(cta);
            progress = true;
        }
        let mut index = 0;
        while index < running.len() {
            std::mem::swap(&mut exec.cta, &mut running[index]);
            let number = exec.cta.index;
            let round = run_round(exec, shared);
            shared.print_part(number, &mut exec.cta.printed);
            std::mem::swap(&mut exec.cta, &mut running[index]);
            match round.map_err(|error| (number, error))? {
                Round::Done => {
                    spare.push(running.remove(index));
                    progress = true;
                }
                Round::Progress => {
                    progress = true;
                    index += 1;
                }
                Round::Stuck => index += 1,
            }
        }
        idle_rounds = if progress { 0 } else { idle_rounds + 1 };
        if idle_rounds > FRUITLESS_ROUNDS {
            std::mem::swap(&mut exec.cta, &mut running[0]);
            let number = exec.cta.index;
            return Err((number, LaunchError::Fault(Box::new(deadlock(exec)))));
        }
    }
    Ok(())
}

/// CTAs that the device holds at once, by threads, registers and shared memory.
fn residents(launch: &Launch<'_>) -> usize {
    let by_threads = 2048 / (launch.warps * 32);
    let by_registers = 65_536 / (launch.code.registers_per_thread.max(16) * launch.warps * 32);
    let by_shared = (228 * 1024) / (launch.shared_bytes + 1024);
    let each = by_threads.min(by_registers).min(by_shared).clamp(1, 32);
    (launch.sm_count * each) as usize
}

/// How a round went.
enum Round {
    /// All warps have ended.
    Done,
    /// Some warp ran.
    Progress,
    /// None can.
    Stuck,
}

/// Every warp of the CTA that can run runs until it waits, ends, or has had its turn.
fn run_round(exec: &mut Exec<'_>, shared: &Shared) -> Result<Round, LaunchError> {
    exec.cta.progress = false;
    let mut ran = false;
    let mut alive = false;
    for index in 0..exec.cta.warps.len() {
        match exec.cta.warps[index].state {
            WarpState::Done => continue,
            WarpState::Ready => {}
            WarpState::Asleep => exec.cta.warps[index].state = WarpState::Ready,
            WarpState::Barrier { .. } => {
                alive = true;
                continue;
            }
            WarpState::Mbarrier { address, parity } => {
                if exec.cta.mbarrier(address).phase() == u64::from(parity) {
                    alive = true;
                    continue;
                }
                exec.cta.warps[index].state = WarpState::Ready;
            }
        }
        ran = true;
        run_turn(exec, index, shared)?;
        alive |= exec.cta.warps[index].state != WarpState::Done;
    }
    if !alive {
        return Ok(Round::Done);
    }
    if exec.cta.progress {
        exec.cta.fruitless = 0;
    }
    if ran {
        return Ok(Round::Progress);
    }
    unstick(exec).map_err(|stop| error(exec, stop))
}

fn run_turn(exec: &mut Exec<'_>, index: usize, shared: &Shared) -> Result<(), LaunchError> {
    let before = exec.cta.warps[index].chain.instructions;
    exec.run_warp(index, exec.launch.slice);
    let warp = &exec.cta.warps[index];
    let issued = warp.chain.instructions - before;
    if warp.state == WarpState::Done {
        let chain = warp.chain;
        exec.counts.longest.max_with(&chain);
        exec.counts.total.add(&chain);
        while !exec.cta.warps[index].copies.is_empty() {
            if exec.complete_copy(index, 0, u32::MAX).is_err() {
                return Err(error(exec, ()));
            }
        }
        exec.cta.complete_barriers();
    }
    exec.unreported += issued.max(1);
    if exec.unreported >= exec.launch.slice as u64 {
        let issued = std::mem::take(&mut exec.unreported);
        let total = shared.issued.fetch_add(issued, Ordering::Relaxed) + issued;
        if total > exec.launch.step_budget {
            return Err(over_budget(exec.code));
        }
    }
    match exec.stop {
        Stop::State | Stop::Slice => Ok(()),
        Stop::Fault(_) | Stop::Incomplete(_) => Err(error(exec, ())),
    }
}

fn over_budget(code: &Code) -> LaunchError {
    LaunchError::Fault(Box::new(Fault {
        kind: FaultKind::StepBudget,
        kernel: code.name.clone(),
        location: None,
        operation: String::new(),
        cta: None,
        thread: None,
        message: "the launch issued more warp instructions than its budget".to_string(),
    }))
}

/// No warp can run: an asynchronous copy completes, or timed waits come to their end.
fn unstick(exec: &mut Exec<'_>) -> Result<Round, ()> {
    let pending: Vec<(usize, usize)> = exec
        .cta
        .warps
        .iter()
        .enumerate()
        .flat_map(|(warp, state)| (0..state.copies.len()).map(move |copy| (warp, copy)))
        .collect();
    if !pending.is_empty() {
        let pick = exec.random() as usize % pending.len();
        // An arrival may have to wait for copies before it, so from the pick on, the first that moves.
        for offset in 0..pending.len() {
            let (warp, copy) = pending[(pick + offset) % pending.len()];
            exec.complete_copy(warp, copy, u32::MAX).map_err(|_| ())?;
            if exec.cta.progress {
                exec.cta.fruitless = 0;
                return Ok(Round::Progress);
            }
        }
    }
    let timed = |state: WarpState| matches!(state, WarpState::Mbarrier { .. });
    exec.cta.fruitless += 1;
    let waits = exec.cta.warps.iter().any(|warp| timed(warp.state));
    if !waits || exec.cta.fruitless > FRUITLESS_ROUNDS {
        return Ok(Round::Stuck);
    }
    for warp in &mut exec.cta.warps {
        if timed(warp.state) {
            warp.state = WarpState::Ready;
            warp.timed_out = true;
        }
    }
    Ok(Round::Progress)
}

/// The error that the executor stopped with.
fn error(exec: &mut Exec<'_>, (): ()) -> LaunchError {
    match std::mem::replace(&mut exec.stop, Stop::State) {
        Stop::Fault(fault) => LaunchError::Fault(fault),
        Stop::Incomplete(incomplete) => LaunchError::Incomplete(incomplete),
        Stop::State | Stop::Slice => LaunchError::Bad("the executor stopped".to_string()),
    }
}

impl Shared {
    /// Adds to what a CTA printed before.
    fn print_part(&self, cta: u64, text: &mut String) {
        if text.is_empty() {
            return;
        }
        let before = self.state().printed.remove(&cta).unwrap_or_default();
        self.state().printed_bytes -= before.len();
        let mut whole = before + text;
        text.clear();
        self.print(cta, &mut whole);
    }
}

impl Exec<'_> {
    /// Adds up what straight runs cost.
    fn finish_counts(&mut self) {
        for (block, &times) in self.code.blocks.iter().zip(&self.block_counts) {
            for (total, &each) in self.counts.issued.iter_mut().zip(&block.issued) {
                *total += times * u64::from(each);
            }
        }
    }
}
