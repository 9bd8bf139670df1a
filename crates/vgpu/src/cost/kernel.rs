//! The time of one launch, from its counts.

use std::fmt;

use super::device::Device;
use crate::device::{Counts, Pipe};

/// Which resource takes most of a launch's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// Submitting the kernel takes longer than running it.
    Launch,
    /// Device memory's bandwidth.
    Dram,
    /// L2's bandwidth, or that of an SM's path to it.
    L2,
    /// Shared memory's bandwidth.
    Shared,
    /// A pipe's issue rate.
    Issue(Pipe),
    /// The warp schedulers, over all pipes.
    Schedulers,
    /// Waiting: dependent memory accesses, barriers and instructions with too few warps to hide them.
    Latency,
    /// Atomic operations in L2.
    Atomics,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Launch => f.write_str("launch"),
            Bound::Dram => f.write_str("dram"),
            Bound::L2 => f.write_str("l2"),
            Bound::Shared => f.write_str("shared"),
            Bound::Issue(pipe) => write!(f, "issue({})", pipe.name()),
            Bound::Schedulers => f.write_str("issue"),
            Bound::Latency => f.write_str("latency"),
            Bound::Atomics => f.write_str("atomics"),
        }
    }
}

/// Seconds that each resource would need alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Terms {
    /// Device memory.
    pub dram: f64,
    /// L2 and the paths to it.
    pub l2: f64,
    /// Shared memory.
    pub shared: f64,
    /// The schedulers.
    pub schedulers: f64,
    /// Each pipe, in the order of [`Pipe::ALL`].
    pub pipes: [f64; Pipe::COUNT],
    /// Waiting.
    pub latency: f64,
    /// Atomics.
    pub atomics: f64,
    /// The host.
    pub launch: f64,
}

/// What a launch would take.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Seconds, the launch included.
    pub seconds: f64,
    /// The resource that takes most of it.
    pub bound: Bound,
    /// The same in words, with the figures that matter.
    pub bottleneck: String,
    /// The parts.
    pub terms: Terms,
    /// What fits an SM.
    pub residency: Residency,
}

/// What keeps more CTAs from an SM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Warps.
    Warps,
    /// The number of CTAs that an SM holds.
    Ctas,
    /// Registers.
    Registers,
    /// Shared memory.
    Shared,
    /// The grid has no more.
    Grid,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Warps => "warps",
            Limit::Ctas => "CTAs",
            Limit::Registers => "registers",
            Limit::Shared => "shared memory",
            Limit::Grid => "the size of the grid",
        })
    }
}

/// CTAs and warps that stand on an SM at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residency {
    /// CTAs that fit an SM.
    pub ctas_per_sm: u32,
    /// Warps that are there at once, no more than the grid has for an SM.
    pub warps_per_sm: f64,
    /// What limits them.
    pub limit: Limit,
    /// How many times all SMs are filled; the last time may be partial.
    pub waves: u64,
}

/// Terms that are nearly equal disturb each other; with this exponent two equal ones give 1.19 times
/// one, and a term of half the size of another 1.015 times (an assumption of the model).
const OVERLAP: f64 = 4.0;

/// Of this many instructions of a warp one waits for the one before (an assumption of the model:
/// compilers interleave independent work).
const INDEPENDENT_INSTRUCTIONS: f64 = 2.0;

/// CTAs and warps that an SM holds of this launch.
pub fn residency(counts: &Counts, device: &Device) -> Residency {
    let o = &device.occupancy;
    let warps = counts.warps_per_cta.max(1);
    let per_warp = (counts.registers_per_thread.max(16) * 32).next_multiple_of(o.register_unit);
    let shared = counts
        .shared_per_cta
        .saturating_add(o.shared_reserved_per_cta);
    let candidates = [
        (o.max_warps_per_sm / warps, Limit::Warps),
        (o.max_ctas_per_sm, Limit::Ctas),
        (o.registers_per_sm / per_warp / warps, Limit::Registers),
        (o.shared_per_sm / shared.max(1), Limit::Shared),
    ];
    let (fits, mut limit) = candidates
        .into_iter()
        .min_by_key(|candidate| candidate.0)
        .unwrap_or((1, Limit::Ctas));
    // A launch that ran had at least one CTA on an SM.
    let fits = fits.max(1);
    let slots = u64::from(device.sms) * u64::from(fits);
    let waves = counts.ctas.div_ceil(slots).max(1);
    let on_an_sm = counts.ctas as f64 / f64::from(device.sms);
    if waves == 1 && counts.ctas < slots {
        limit = Limit::Grid;
    }
    Residency {
        ctas_per_sm: fits,
        warps_per_sm: f64::from(warps) * on_an_sm.max(1.0).min(f64::from(fits)),
        limit,
        waves,
    }
}

/// What a launch with these counts would take on a device.
///
/// Each resource's time is its work over its rate, on the SM with the most CTAs; waiting is a warp's
/// chain of dependent accesses, once for each wave. They overlap but for what [`Terms`] of similar
/// size cost each other; submitting the launch comes before. L2 is cold at the start; there is no
/// L1, so a sector that two requests touch is charged to L2 twice.
pub fn kernel_time(counts: &Counts, device: &Device) -> Estimate {
    let residency = residency(counts, device);
    let terms = terms(counts, device, &residency);
    let mut parts = vec![
        (Bound::Dram, terms.dram),
        (Bound::L2, terms.l2),
        (Bound::Shared, terms.shared),
        (Bound::Schedulers, terms.schedulers),
        (Bound::Latency, terms.latency),
        (Bound::Atomics, terms.atomics),
    ];
    // Pipes feed from the schedulers: only the slowest counts beside the other resources.
    let slowest = Pipe::ALL
        .into_iter()
        .max_by(|a, b| terms.pipes[*a as usize].total_cmp(&terms.pipes[*b as usize]));
    if let Some(pipe) = slowest {
        parts.push((Bound::Issue(pipe), terms.pipes[pipe as usize]));
    }
    let running = parts
        .iter()
        .map(|part| part.1.powf(OVERLAP))
        .sum::<f64>()
        .powf(1.0 / OVERLAP);
    let (mut bound, largest) = parts
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((Bound::Launch, 0.0));
    if terms.launch > running {
        bound = Bound::Launch;
    }
    Estimate {
        seconds: terms.launch + running,
        bound,
        bottleneck: describe(bound, largest, running, counts, device, &residency),
        terms,
        residency,
    }
}

fn terms(counts: &Counts, device: &Device, residency: &Residency) -> Terms {
    let sms = f64::from(device.sms);
    let ctas = counts.ctas.max(1) as f64;
    // The SM with the most CTAs has this share of the work; it is 1 / SMs for a grid that divides.
    let share = (ctas / sms).ceil() / ctas;
    let on_busiest_sm = |work: f64, rate: f64| device.seconds(work * share / rate);

    let memory = &device.memory;
    let sectors = counts.global_loads.sectors + counts.global_stores.sectors + counts.local.sectors;
    let l2_bytes = sectors as f64 * 32.0;
    let read_again =
        (counts.global_loads.sectors as f64 * 32.0 - counts.unique_read_bytes as f64).max(0.0);
    // Of what is read again, L2 still has the share of the working set that fits it.
    let working_set = counts.unique_read_bytes as f64;
    let missing = if working_set > memory.l2_bytes as f64 {
        1.0 - memory.l2_bytes as f64 / working_set
    } else {
        0.0
    };
    let dram_bytes =
        (counts.unique_read_bytes + counts.unique_write_bytes) as f64 + read_again * missing;
    let wavefronts = counts.shared_loads.wavefronts
        + counts.shared_stores.wavefronts
        + counts.shared_atomics.serialized;
    let global_atomics = counts
        .global_atomics
        .operations
        .max(counts.global_atomics.serialized);

    let mut pipes = [0.0; Pipe::COUNT];
    for pipe in Pipe::ALL {
        let work = counts.issued_to(pipe) as f64;
        pipes[pipe as usize] = on_busiest_sm(work, device.rates.of(pipe));
    }
    let l2_device = device.seconds(l2_bytes / memory.l2_bytes_per_clock);
    let l2_path = on_busiest_sm(l2_bytes, memory.l2_bytes_per_clock_per_sm);
    Terms {
        dram: dram_bytes / device.dram_bandwidth(),
        l2: l2_device.max(l2_path),
        shared: on_busiest_sm(
            wavefronts as f64 * 128.0,
            memory.shared_bytes_per_clock_per_sm,
        ),
        schedulers: on_busiest_sm(
            counts.instructions() as f64,
            f64::from(device.occupancy.schedulers_per_sm),
        ),
        pipes,
        latency: latency(counts, device, residency),
        atomics: device.seconds(global_atomics as f64 / memory.l2_atomics_per_clock),
        launch: device.host.launch,
    }
}

/// A warp's chain of waits, once for each wave: all warps on an SM wait at the same time.
fn latency(counts: &Counts, device: &Device, residency: &Residency) -> f64 {
    let l = &device.latency;
    let clocks = |global: f64, shared: f64, waits: f64, instructions: f64| {
        global * l.global
            + shared * l.shared
            + waits * l.barrier
            + instructions * l.alu / INDEPENDENT_INSTRUCTIONS
    };
    let longest = &counts.longest;
    let longest = clocks(
        longest.global_rounds as f64,
        longest.shared_rounds as f64,
        longest.waits as f64,
        longest.instructions as f64,
    );
    let warps = counts.warps().max(1) as f64;
    let total = &counts.total;
    let mean = clocks(
        total.global_rounds as f64 / warps,
        total.shared_rounds as f64 / warps,
        total.waits as f64 / warps,
        total.instructions as f64 / warps,
    );
    device.seconds((mean * residency.waves as f64).max(longest))
}

fn describe(
    bound: Bound,
    seconds: f64,
    running: f64,
    counts: &Counts,
    device: &Device,
    residency: &Residency,
) -> String {
    match bound {
        Bound::Launch => format!(
            "launch overhead: the kernel runs {}, submitting it takes {}; do more in one launch",
            time(running),
            time(device.host.launch)
        ),
        Bound::Dram => {
            let mut text = format!(
                "device memory: {} read and {} written take {} at {:.1} TB/s",
                bytes(counts.unique_read_bytes),
                bytes(counts.unique_write_bytes),
                time(seconds),
                device.dram_bandwidth() / 1e12
            );
            add_coalescing(&mut text, counts);
            text
        }
        Bound::L2 => {
            let sectors =
                counts.global_loads.sectors + counts.global_stores.sectors + counts.local.sectors;
            let mut text = format!(
                "L2: {} move in 32-byte sectors, of which {} differ",
                bytes(sectors * 32),
                bytes(counts.unique_read_bytes + counts.unique_write_bytes)
            );
            add_coalescing(&mut text, counts);
            if counts.ctas < u64::from(device.sms) {
                text.push_str(&format!(
                    "; only {} of {} SMs have work",
                    counts.ctas, device.sms
                ));
            }
            text
        }
        Bound::Shared => {
            let requests = counts.shared_loads.requests + counts.shared_stores.requests;
            let wavefronts = counts.shared_loads.wavefronts + counts.shared_stores.wavefronts;
            let moved = counts.shared_loads.bytes + counts.shared_stores.bytes;
            let needed = (moved as f64 / 128.0).max(requests as f64);
            format!(
                "shared memory: {wavefronts} wavefronts for {requests} requests, {:.1} times what \
                 they need without bank conflicts",
                wavefronts as f64 / needed.max(1.0)
            )
        }
        Bound::Issue(pipe) => format!(
            "issue: {} warp instructions on the {} pipe, {:.0} % of all",
            counts.issued_to(pipe),
            pipe.name(),
            100.0 * counts.issued_to(pipe) as f64 / counts.instructions().max(1) as f64
        ),
        Bound::Schedulers => format!(
            "issue: {} warp instructions over all pipes",
            counts.instructions()
        ),
        Bound::Latency => format!(
            "latency: a warp waits for {} rounds of global loads, {} of shared ones and {} barriers; \
             {:.0} warps stand on an SM, limited by {}, {} {}",
            counts.longest.global_rounds,
            counts.longest.shared_rounds,
            counts.longest.waits,
            residency.warps_per_sm,
            residency.limit,
            residency.waves,
            if residency.waves == 1 {
                "wave"
            } else {
                "waves"
            }
        ),
        Bound::Atomics => format!(
            "atomics: {} operations on global memory, {} after those of a warp on one address",
            counts.global_atomics.operations, counts.global_atomics.serialized
        ),
    }
}

/// Says when requests touch more sectors than their bytes need.
fn add_coalescing(text: &mut String, counts: &Counts) {
    let sectors = counts.global_loads.sectors + counts.global_stores.sectors;
    let needed = (counts.global_loads.bytes + counts.global_stores.bytes).div_ceil(32);
    if needed > 0 && sectors as f64 > 1.25 * needed as f64 {
        text.push_str(&format!(
            "; accesses are not coalesced: {:.1} times the sectors that their bytes need",
            sectors as f64 / needed as f64
        ));
    }
}

fn bytes(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.2} us", seconds * 1e6)
    } else {
        format!("{:.3} ms", seconds * 1e3)
    }
}
