//! Atomics and reductions (PTX ISA, "atom" and "red"), lane by lane in lane order.
//!
//! Where CTAs run on several host threads only operations that commute touch memory at once; sums of
//! floats are kept and applied in CTA order, so that their bits do not depend on the number of threads.

use super::alu::Fn2;
use super::float::{AddF32, AddF64, Brain, Half, MaxF32, MinF32, Mods, On16, Packed, flush32};
use super::memory::windows;
use super::registers::lanes;
use super::{Deferred, Exec, Handle};
use crate::ir::{AtomicOp, Space, Type};
use crate::lower::{Extra, Op};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// What an atomic does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AtomicKind {
    pub op: AtomicOp,
    pub ty: Type,
}

/// An atomic's operands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtomicSite {
    pub kind: AtomicKind,
    pub space: Space,
    /// Whether the address's base is 64 bits wide.
    pub wide_base: bool,
    pub value: u32,
    /// New value of a compare-and-swap, else as `value`.
    pub new: u32,
    pub dst: Option<u32>,
}

impl AtomicKind {
    /// Bytes in memory.
    pub fn size(self) -> u64 {
        u64::from(self.ty.memory_bytes().unwrap_or(8))
    }

    /// Whether it is a sum of floats, whose bits depend on the order.
    pub fn depends_on_order(self) -> bool {
        self.op == AtomicOp::Add && !self.ty.is_integer()
    }

    /// The value after the operation. `flush` is whether subnormal singles count as zero.
    fn apply(self, old: u64, b: u64, new: u64, flush: bool) -> u64 {
        let (x, y) = (old as u32, b as u32);
        match (self.op, self.ty) {
            (AtomicOp::Exch, _) => b,
            (AtomicOp::Cas, _) => {
                if old == b {
                    new
                } else {
                    old
                }
            }
            (AtomicOp::And, _) => old & b,
            (AtomicOp::Or, _) => old | b,
            (AtomicOp::Xor, _) => old ^ b,
            (AtomicOp::Inc, _) => u64::from(if x >= y { 0 } else { x + 1 }),
            (AtomicOp::Dec, _) => u64::from(if x == 0 || x > y { y } else { x - 1 }),
            (AtomicOp::Add, Type::F32) if flush => {
                u64::from(flush32(AddF32::f(flush32(x), flush32(y))))
            }
            (AtomicOp::Add, Type::F32) => u64::from(AddF32::f(x, y)),
            (AtomicOp::Add, Type::F64) => AddF64::f(old, b),
            (AtomicOp::Add, Type::F16) => {
                u64::from(On16::<AddF32, Half, false, false, false>::f(x, y))
            }
            (AtomicOp::Add, Type::BF16) => {
                u64::from(On16::<AddF32, Brain, false, false, false>::f(x, y))
            }
            (AtomicOp::Add, Type::F16x2) => {
                u64::from(Packed::<On16<AddF32, Half, false, false, false>>::f(x, y))
            }
            (AtomicOp::Add, Type::BF16x2) => {
                u64::from(Packed::<On16<AddF32, Brain, false, false, false>>::f(x, y))
            }
            (AtomicOp::Add, _) => old.wrapping_add(b),
            (AtomicOp::Min, Type::F32) => u64::from(Mods::<MinF32, false, false>::f(x, y)),
            (AtomicOp::Max, Type::F32) => u64::from(Mods::<MaxF32, false, false>::f(x, y)),
            (AtomicOp::Min, Type::F16x2) => {
                u64::from(Packed::<On16<MinF32, Half, false, false, false>>::f(x, y))
            }
            (AtomicOp::Max, Type::F16x2) => {
                u64::from(Packed::<On16<MaxF32, Half, false, false, false>>::f(x, y))
            }
            (AtomicOp::Min, Type::BF16x2) => {
                u64::from(Packed::<On16<MinF32, Brain, false, false, false>>::f(x, y))
            }
            (AtomicOp::Max, Type::BF16x2) => {
                u64::from(Packed::<On16<MaxF32, Brain, false, false, false>>::f(x, y))
            }
            (AtomicOp::Min, Type::S32) => u64::from((x as i32).min(y as i32) as u32),
            (AtomicOp::Max, Type::S32) => u64::from((x as i32).max(y as i32) as u32),
            (AtomicOp::Min, Type::S64) => (old as i64).min(b as i64) as u64,
            (AtomicOp::Max, Type::S64) => (old as i64).max(b as i64) as u64,
            (AtomicOp::Min, _) => old.min(b),
            (AtomicOp::Max, _) => old.max(b),
        }
    }

    /// Performs it on host memory, atomically; the value before.
    ///
    /// # Safety
    /// `host` must be readable, writable and aligned to [`AtomicKind::size`].
    pub unsafe fn perform(self, host: *mut u8, b: u64, new: u64, flush: bool) -> u64 {
        let relaxed = Ordering::Relaxed;
        // SAFETY: by contract; other threads access the place atomically or race, as on the device.
        unsafe {
            match self.size() {
                2 => {
                    let cell = AtomicU16::from_ptr(host.cast());
                    let (b, new) = (u64::from(b as u16), u64::from(new as u16));
                    let step = |old| Some(self.apply(u64::from(old), b, new, flush) as u16);
                    cell.fetch_update(relaxed, relaxed, step)
                        .map_or(0, u64::from)
                }
                4 => {
                    let cell = AtomicU32::from_ptr(host.cast());
                    let step = |old| Some(self.apply(u64::from(old), b, new, flush) as u32);
                    cell.fetch_update(relaxed, relaxed, step)
                        .map_or(0, u64::from)
                }
                _ => {
                    let cell = AtomicU64::from_ptr(host.cast());
                    let step = |old| Some(self.apply(old, b, new, flush));
                    cell.fetch_update(relaxed, relaxed, step).unwrap_or(0)
                }
            }
        }
    }
}

/// An atomic or reduction: base `a` plus `x`, site `b`, the rest in extra `c`.
pub(crate) struct Atomic;

impl Handle for Atomic {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        let Extra::Atomic(site) = x.code.extras[op.c as usize] else {
            unreachable!("lowering made an atomic's extra")
        };
        // SAFETY: lowering chose registers of these widths.
        let (at, value, new) = unsafe {
            let base = x.read_any(op.a, site.wide_base);
            let wide = site.kind.size() == 8;
            (
                base.map(|base| base.wrapping_add(op.x)),
                x.read_any(site.value, wide),
                x.read_any(site.new, wide),
            )
        };
        let mut old = [0u64; 32];
        let done = match site.space {
            Space::Shared => on_shared(x, &site, pc, mask, &at, &value, &new, &mut old),
            Space::Global => on_global(x, &site, op.b, pc, mask, &at, &value, &new, &mut old),
            _ => {
                let [shared, local, constant] = windows(&at, mask);
                let rest = mask & !shared.0;
                if local.0 | constant.0 != 0 {
                    let lane = (local.0 | constant.0).trailing_zeros() as usize;
                    Err(x.outside(pc, lane, at[lane], site.kind.size()))
                } else {
                    let in_shared = if shared.0 == 0 {
                        Ok(())
                    } else {
                        on_shared(x, &site, pc, shared.0, &shared.1, &value, &new, &mut old)
                    };
                    in_shared.and_then(|()| {
                        if rest == 0 {
                            Ok(())
                        } else {
                            on_global(x, &site, op.b, pc, rest, &at, &value, &new, &mut old)
                        }
                    })
                }
            }
        };
        if let Err(stop) = done {
            return stop;
        }
        if let Some(dst) = site.dst {
            // SAFETY: lowering chose a register of this width.
            unsafe {
                if site.kind.size() == 8 {
                    x.write(dst, mask, old);
                } else {
                    let signed = site.kind.ty == Type::S16;
                    let extend = |v: u64| {
                        if signed {
                            v as u16 as i16 as i32 as u32
                        } else {
                            v as u32
                        }
                    };
                    x.write(dst, mask, old.map(extend));
                }
            }
        }
        pc + 1
    }
}

/// The most lanes that meet at one address.
fn most_at_one(at: &[u64; 32], mask: u32) -> u64 {
    let mut sorted = [0; 32];
    let mut count = 0;
    for lane in lanes(mask) {
        sorted[count] = at[lane];
        count += 1;
    }
    sorted[..count].sort_unstable();
    let runs = sorted[..count].chunk_by(|a, b| a == b);
    runs.map(|run| run.len() as u64).max().unwrap_or(0)
}

#[allow(clippy::too_many_arguments)]
fn on_shared(
    x: &mut Exec<'_>,
    site: &AtomicSite,
    pc: usize,
    mask: u32,
    at: &[u64; 32],
    value: &[u64; 32],
    new: &[u64; 32],
    old: &mut [u64; 32],
) -> Result<(), usize> {
    x.check_window(pc, "shared", x.shared_bytes, at, mask, site.kind.size())?;
    for lane in lanes(mask) {
        // SAFETY: the access lies in the CTA's shared memory, whose buffer is aligned to 1,024.
        old[lane] = unsafe {
            let host = x.shared.add(at[lane] as usize);
            site.kind.perform(host, value[lane], new[lane], false)
        };
    }
    x.cta.progress = true;
    let counts = &mut x.counts.shared_atomics;
    counts.requests += 1;
    counts.operations += u64::from(mask.count_ones());
    counts.serialized += most_at_one(at, mask);
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn on_global(
    x: &mut Exec<'_>,
    site: &AtomicSite,
    cache: u32,
    pc: usize,
    mask: u32,
    at: &[u64; 32],
    value: &[u64; 32],
    new: &[u64; 32],
    old: &mut [u64; 32],
) -> Result<(), usize> {
    let kind = site.kind;
    x.check_global(pc, cache, at, mask, kind.size())?;
    if !x.launch.ordered && kind.depends_on_order() {
        x.deferred.extend(lanes(mask).map(|lane| Deferred {
            address: at[lane],
            value: value[lane],
            kind,
        }));
    } else {
        for lane in lanes(mask) {
            // SAFETY: the access lies in a live allocation and is aligned; the memory's host
            // address is page-aligned as its device address is.
            old[lane] = unsafe {
                let host = at[lane].wrapping_add(x.delta) as *mut u8;
                kind.perform(host, value[lane], new[lane], true)
            };
        }
    }
    x.mark_scatter(at, mask, kind.size());
    let counts = &mut x.counts.global_atomics;
    counts.requests += 1;
    counts.operations += u64::from(mask.count_ones());
    counts.serialized += most_at_one(at, mask);
    Ok(())
}
