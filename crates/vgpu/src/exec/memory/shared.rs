//! Shared memory.

use super::*;

/// Shared memory.
pub(crate) struct ReachShared;

impl Reach for ReachShared {
    #[inline(always)]
    unsafe fn load_run<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let bytes = 32 * C::SIZE * N as u64;
        if first >= x.shared_bytes || bytes > x.shared_bytes - first {
            return false;
        }
        // SAFETY: the run lies in the CTA's shared memory.
        unsafe { load_run::<C, N>(x, op.dst, x.shared.add(first as usize)) }
        x.counts.shared_loads.requests += 1;
        x.counts.shared_loads.bytes += bytes;
        x.counts.shared_loads.wavefronts += bytes.div_ceil(128);
        true
    }

    #[inline(always)]
    unsafe fn load_same<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let bytes = C::SIZE * N as u64;
        if first >= x.shared_bytes || bytes > x.shared_bytes - first {
            return false;
        }
        // SAFETY: the place lies in the CTA's shared memory.
        unsafe { load_one::<C, N>(x, op.dst, x.shared.add(first as usize)) }
        x.counts.shared_loads.requests += 1;
        x.counts.shared_loads.bytes += 32 * bytes;
        x.counts.shared_loads.wavefronts += 1;
        true
    }

    #[inline(always)]
    unsafe fn store_run<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let bytes = 32 * C::SIZE * N as u64;
        if first >= x.shared_bytes || bytes > x.shared_bytes - first {
            return false;
        }
        // SAFETY: the run lies in the CTA's shared memory.
        unsafe { store_run::<C, N>(x, op.dst, x.shared.add(first as usize)) }
        x.counts.shared_stores.requests += 1;
        x.counts.shared_stores.bytes += bytes;
        x.counts.shared_stores.wavefronts += bytes.div_ceil(128);
        true
    }

    #[inline(always)]
    unsafe fn load<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize> {
        let size = C::SIZE * N as u64;
        x.check_window(pc, "shared", x.shared_bytes, at, mask, size)?;
        let shared = x.shared;
        x.counts.shared_loads.requests += 1;
        x.counts.shared_loads.bytes += asked(mask, size);
        // SAFETY: every active lane's access lies in the CTA's shared memory.
        unsafe { gather::<C, N>(x, op.dst, mask, |lane| shared.add(at[lane] as usize)) }
        x.counts.shared_loads.wavefronts += wavefronts(at, mask, size);
        Ok(())
    }

    #[inline(always)]
    unsafe fn store<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize> {
        let size = C::SIZE * N as u64;
        x.check_window(pc, "shared", x.shared_bytes, at, mask, size)?;
        let shared = x.shared;
        x.counts.shared_stores.requests += 1;
        x.counts.shared_stores.bytes += asked(mask, size);
        // SAFETY: every active lane's access lies in the CTA's shared memory.
        unsafe { scatter::<C, N>(x, op.dst, mask, |lane| shared.add(at[lane] as usize)) }
        x.counts.shared_stores.wavefronts += wavefronts(at, mask, size);
        Ok(())
    }
}
