//! Device memory.

use super::*;

/// Device memory.
pub(crate) struct ReachGlobal;

impl ReachGlobal {
    /// Counts a read of the bytes up to `end`, which lie in the memory.
    #[inline(always)]
    fn count_read(x: &mut Exec<'_>, first: u64, end: u64, asked: u64) {
        let base = x.launch.memory.base();
        let (low, high) = ((first - base) / 32, (end - 1 - base) / 32);
        x.counts.global_loads.requests += 1;
        x.counts.global_loads.bytes += asked;
        x.counts.global_loads.sectors += high - low + 1;
        x.read_sectors.insert_range(low, high);
    }
}

impl Reach for ReachGlobal {
    #[inline(always)]
    unsafe fn load_run<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let bytes = 32 * C::SIZE * N as u64;
        let end = first.wrapping_add(bytes);
        if !x.allocated(op.b, first, end) {
            return false;
        }
        let host = first.wrapping_add(x.delta) as *const u8;
        // SAFETY: the run lies in a live allocation.
        unsafe { load_run::<C, N>(x, op.dst, host) }
        Self::count_read(x, first, end, bytes);
        true
    }

    #[inline(always)]
    unsafe fn load_same<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let bytes = C::SIZE * N as u64;
        let end = first.wrapping_add(bytes);
        if !x.allocated(op.b, first, end) {
            return false;
        }
        let host = first.wrapping_add(x.delta) as *const u8;
        // SAFETY: the place lies in a live allocation.
        unsafe { load_one::<C, N>(x, op.dst, host) }
        Self::count_read(x, first, end, 32 * bytes);
        true
    }

    #[inline(always)]
    unsafe fn store_run<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let size = 32 * C::SIZE * N as u64;
        let end = first.wrapping_add(size);
        if !x.allocated(op.b, first, end) {
            return false;
        }
        let host = first.wrapping_add(x.delta) as *mut u8;
        // SAFETY: the run lies in a live allocation.
        unsafe { store_run::<C, N>(x, op.dst, host) }
        let base = x.launch.memory.base();
        let (low, high) = ((first - base) / 32, (end - 1 - base) / 32);
        x.counts.global_stores.requests += 1;
        x.counts.global_stores.bytes += size;
        x.counts.global_stores.sectors += high - low + 1;
        x.written_sectors.insert_range(low, high);
        if let Some(bytes) = &mut x.written_bytes {
            bytes.insert_range(first - base, end - 1 - base);
        }
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
        x.check_global(pc, op.b, at, mask, size)?;
        let delta = x.delta;
        // SAFETY: every active lane's access lies in a live allocation.
        unsafe {
            gather::<C, N>(x, op.dst, mask, |lane| {
                at[lane].wrapping_add(delta) as *const u8
            });
        }
        x.count_gather(at, mask, size);
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
        x.check_global(pc, op.b, at, mask, size)?;
        let delta = x.delta;
        // SAFETY: every active lane's access lies in a live allocation.
        unsafe {
            scatter::<C, N>(x, op.dst, mask, |lane| {
                at[lane].wrapping_add(delta) as *mut u8
            });
        }
        x.count_scatter(at, mask, size);
        Ok(())
    }
}
