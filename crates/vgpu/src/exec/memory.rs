//! Loads and stores in every space, each checked for bounds and alignment and counted by sector, bank
//! or request. The whole warp at consecutive addresses is one check and one copy.

use super::registers::lanes;
use super::{Exec, FULL, Handle, Lane};
use crate::ir::{CONST_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::lower::Op;
use std::marker::PhantomData;

/// A value in memory.
pub(crate) trait Cell {
    /// What a lane of its register is.
    type Lane: Lane;
    const SIZE: u64;
    /// # Safety
    /// `from` must be readable for `SIZE` bytes.
    unsafe fn load(from: *const u8) -> Self::Lane;
    /// # Safety
    /// `to` must be writable for `SIZE` bytes.
    unsafe fn store(to: *mut u8, value: Self::Lane);
}

macro_rules! cell {
    ($name:ident, $memory:ty, $lane:ty) => {
        pub(crate) struct $name;
        impl Cell for $name {
            type Lane = $lane;
            const SIZE: u64 = size_of::<$memory>() as u64;
            #[inline(always)]
            unsafe fn load(from: *const u8) -> $lane {
                // SAFETY: the caller's contract.
                unsafe { from.cast::<$memory>().read_unaligned() as $lane }
            }
            #[inline(always)]
            unsafe fn store(to: *mut u8, value: $lane) {
                // SAFETY: the caller's contract.
                unsafe { to.cast::<$memory>().write_unaligned(value as $memory) }
            }
        }
    };
}

cell!(U8, u8, u32);
cell!(S8, i8, u32);
cell!(U16, u16, u32);
cell!(S16, i16, u32);
cell!(W32, u32, u32);
cell!(W64, u64, u64);

/// The lanes' addresses: a base register, 64 bits wide or 32, plus an offset.
///
/// # Safety
/// `base` must be the offset of a register of that width.
#[inline(always)]
pub(crate) unsafe fn addresses(x: &Exec<'_>, base: u32, wide: bool, offset: u64) -> [u64; 32] {
    // SAFETY: the caller's contract.
    let mut addresses = unsafe { x.read_any(base, wide) };
    for address in &mut addresses {
        *address = address.wrapping_add(offset);
    }
    addresses
}

/// How a whole warp's addresses lie.
enum Pattern {
    /// Side by side from the first, which is aligned.
    Run(u64),
    /// All alike, and aligned.
    Same(u64),
    Other,
}

/// The pattern of a full warp's addresses, told in the width of their base.
///
/// # Safety
/// `op` must be a load or store that lowering made.
#[inline(always)]
unsafe fn pattern(x: &Exec<'_>, op: &Op, size: u64) -> Pattern {
    let (first, run, same, overflow);
    // SAFETY: lowering chose a register of the width that `c` says.
    unsafe {
        if op.c == 0 {
            let base = x.read::<u32>(op.a);
            let (mut steps, mut differences) = (0, 0);
            for lane in 0..32 {
                steps |= base[lane] ^ base[0].wrapping_add(lane as u32 * size as u32);
                differences |= base[lane] ^ base[0];
            }
            first = u64::from(base[0]).wrapping_add(op.x);
            (run, same) = (steps == 0, differences == 0);
            overflow = base[0].checked_add(31 * size as u32).is_none();
        } else {
            let base = x.read::<u64>(op.a);
            let (mut steps, mut differences) = (0, 0);
            for lane in 0..32 {
                steps |= base[lane] ^ base[0].wrapping_add(lane as u64 * size);
                differences |= base[lane] ^ base[0];
            }
            first = base[0].wrapping_add(op.x);
            (run, same) = (steps == 0, differences == 0);
            overflow = first.checked_add(32 * size).is_none();
        }
    }
    if first & (size - 1) != 0 || overflow {
        Pattern::Other
    } else if run {
        Pattern::Run(first)
    } else if same {
        Pattern::Same(first)
    } else {
        Pattern::Other
    }
}

/// Least and greatest address of the active lanes, and the bits that any of them has.
#[inline(always)]
fn extent(addresses: &[u64; 32], mask: u32) -> (u64, u64, u64) {
    let (mut least, mut greatest, mut any) = (u64::MAX, 0, 0);
    for lane in 0..32 {
        let active = mask >> lane & 1 != 0;
        let address = addresses[lane];
        least = least.min(if active { address } else { u64::MAX });
        greatest = greatest.max(if active { address } else { 0 });
        any |= if active { address } else { 0 };
    }
    (least, greatest, any)
}

/// The registers of a vector access.
#[inline(always)]
unsafe fn register<const N: usize>(x: &Exec<'_>, first: u32, k: usize) -> u32 {
    if N == 1 {
        first
    } else {
        // SAFETY: lowering made a list of `N` registers there.
        unsafe { *x.code.lists.get_unchecked(first as usize + k) }
    }
}

/// Bytes that the active lanes ask for.
#[inline(always)]
fn asked(mask: u32, size: u64) -> u64 {
    u64::from(mask.count_ones()) * size
}

impl Exec<'_> {
    /// Whether `first..end` lies in one live allocation, which the site remembers.
    #[inline(always)]
    pub fn allocated(&mut self, site: u32, first: u64, end: u64) -> bool {
        // SAFETY: lowering numbered the sites.
        let (low, high) = unsafe { *self.sites.get_unchecked(site as usize) };
        (first >= low && end <= high && first < end) || self.find_allocation(site, first, end)
    }

    #[cold]
    #[inline(never)]
    fn find_allocation(&mut self, site: u32, first: u64, end: u64) -> bool {
        let table = &self.launch.allocations;
        let index = table.partition_point(|&(start, _)| start <= first);
        let Some(&(low, high)) = index.checked_sub(1).and_then(|index| table.get(index)) else {
            return false;
        };
        if first < end && end <= high {
            self.sites[site as usize] = (low, high);
            return true;
        }
        false
    }

    /// Checks the active lanes' accesses of global memory; the error is where to go on.
    #[inline(always)]
    pub fn check_global(
        &mut self,
        pc: usize,
        site: u32,
        addresses: &[u64; 32],
        mask: u32,
        size: u64,
    ) -> Result<(), usize> {
        let (least, greatest, any) = extent(addresses, mask);
        let aligned = any & (size - 1) == 0;
        if aligned && self.allocated(site, least, greatest.wrapping_add(size)) {
            return Ok(());
        }
        self.check_lanes(pc, site, addresses, mask, size)
    }

    #[cold]
    #[inline(never)]
    fn check_lanes(
        &mut self,
        pc: usize,
        site: u32,
        addresses: &[u64; 32],
        mask: u32,
        size: u64,
    ) -> Result<(), usize> {
        for lane in lanes(mask) {
            let address = addresses[lane];
            if address & (size - 1) != 0 {
                return Err(self.misaligned(pc, lane, address, size));
            }
            if !self.allocated(site, address, address.wrapping_add(size)) {
                return Err(self.outside(pc, lane, address, size));
            }
        }
        Ok(())
    }

    /// Checks accesses of a window that begins at 0.
    #[inline(always)]
    pub fn check_window(
        &mut self,
        pc: usize,
        space: &'static str,
        limit: u64,
        addresses: &[u64; 32],
        mask: u32,
        size: u64,
    ) -> Result<(), usize> {
        let (_, greatest, any) = extent(addresses, mask);
        if any & (size - 1) == 0 && greatest < limit && size <= limit - greatest {
            return Ok(());
        }
        for lane in lanes(mask) {
            let address = addresses[lane];
            if address & (size - 1) != 0 {
                return Err(self.misaligned(pc, lane, address, size));
            }
            if address >= limit || size > limit - address {
                return Err(self.outside_window(pc, lane, space, address, size, limit));
            }
        }
        Ok(())
    }

    /// Counts a read of global memory by scattered lanes.
    #[inline(never)]
    pub fn count_gather(&mut self, addresses: &[u64; 32], mask: u32, size: u64) {
        let base = self.launch.memory.base();
        let sectors = sectors(addresses, mask);
        self.counts.global_loads.requests += 1;
        self.counts.global_loads.bytes += asked(mask, size);
        self.counts.global_loads.sectors += sectors.count as u64;
        for &sector in &sectors.list[..sectors.count] {
            let sector = sector - base / 32;
            self.read_sectors.insert_range(sector, sector);
        }
    }

    /// Counts a write of global memory by scattered lanes.
    #[inline(never)]
    pub fn count_scatter(&mut self, addresses: &[u64; 32], mask: u32, size: u64) {
        let sectors = self.mark_scatter(addresses, mask, size);
        self.counts.global_stores.requests += 1;
        self.counts.global_stores.bytes += asked(mask, size);
        self.counts.global_stores.sectors += sectors;
    }

    /// Marks sectors and bytes that scattered lanes write; the number of sectors.
    pub fn mark_scatter(&mut self, addresses: &[u64; 32], mask: u32, size: u64) -> u64 {
        let base = self.launch.memory.base();
        let sectors = sectors(addresses, mask);
        for &sector in &sectors.list[..sectors.count] {
            let sector = sector - base / 32;
            self.written_sectors.insert_range(sector, sector);
        }
        if let Some(bytes) = &mut self.written_bytes {
            for lane in lanes(mask) {
                let first = addresses[lane] - base;
                bytes.insert_range(first, first + size - 1);
            }
        }
        sectors.count as u64
    }
}

struct Sectors {
    list: [u64; 32],
    count: usize,
}

/// The distinct 32-byte sectors of aligned accesses of at most 32 bytes.
fn sectors(addresses: &[u64; 32], mask: u32) -> Sectors {
    let mut list = [0; 32];
    let mut count = 0;
    let mut sorted = true;
    for lane in lanes(mask) {
        let sector = addresses[lane] >> 5;
        if count == 0 || list[count - 1] != sector {
            sorted &= count == 0 || list[count - 1] < sector;
            list[count] = sector;
            count += 1;
        }
    }
    if !sorted {
        list[..count].sort_unstable();
        let mut kept = 1;
        for index in 1..count {
            if list[index] != list[kept - 1] {
                list[kept] = list[index];
                kept += 1;
            }
        }
        count = kept;
    }
    Sectors { list, count }
}

/// Passes through the banks that one access of shared memory takes: lanes go in groups that together
/// ask for 128 bytes; a group takes as many passes as the most distinct words that it wants of one bank.
pub(crate) fn wavefronts(addresses: &[u64; 32], mask: u32, size: u64) -> u64 {
    // Words that lie in one row of the banks never meet in one.
    let (least, greatest, _) = extent(addresses, mask);
    if size <= 4 && greatest / 4 - least.min(greatest) / 4 < 32 {
        return 1;
    }
    let lanes_at_once = (128 / size.max(4)) as usize;
    let words = (size / 4).max(1);
    let mut passes = 0;
    let mut first = 0;
    while first < 32 {
        let group = (u64::MAX >> (64 - lanes_at_once)) as u32;
        let active = mask & (group << first);
        first += lanes_at_once;
        // Words that still wait, each a lane's.
        let mut waiting = [0u32; 32];
        let mut count = 0;
        for lane in lanes(active) {
            for word in 0..words {
                waiting[count] = (addresses[lane] / 4 + word) as u32;
                count += 1;
            }
        }
        while count > 0 {
            passes += 1;
            let mut taken = 0u32;
            let mut holds = [0u32; 32];
            let mut rest = 0;
            for index in 0..count {
                let word = waiting[index];
                let bank = word as usize % 32;
                if taken >> bank & 1 == 0 {
                    taken |= 1 << bank;
                    holds[bank] = word;
                } else if holds[bank] != word {
                    waiting[rest] = word;
                    rest += 1;
                }
            }
            count = rest;
        }
    }
    passes
}

/// A space that loads and stores reach: how lanes' addresses are checked, counted, and found. The ways
/// for whole warps say whether they did it; where not, the general way says why not.
pub(crate) trait Reach {
    /// Loads for the whole warp from consecutive places.
    ///
    /// # Safety
    /// As for [`Reach::load`].
    #[inline(always)]
    unsafe fn load_run<C: Cell, const N: usize>(_: &mut Exec<'_>, _: &Op, _: u64) -> bool {
        false
    }

    /// Loads for the whole warp from one place.
    ///
    /// # Safety
    /// As for [`Reach::load`].
    #[inline(always)]
    unsafe fn load_same<C: Cell, const N: usize>(_: &mut Exec<'_>, _: &Op, _: u64) -> bool {
        false
    }

    /// Stores for the whole warp to consecutive places.
    ///
    /// # Safety
    /// As for [`Reach::load`].
    #[inline(always)]
    unsafe fn store_run<C: Cell, const N: usize>(_: &mut Exec<'_>, _: &Op, _: u64) -> bool {
        false
    }

    /// # Safety
    /// As for [`Handle::run`]; `op` is a load or store that lowering made.
    unsafe fn load<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize>;

    /// # Safety
    /// As for [`Reach::load`].
    unsafe fn store<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize>;
}

/// Loads `N` values of the active lanes from `host(lane)`.
#[inline(always)]
unsafe fn gather<C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    first: u32,
    mask: u32,
    host: impl Fn(usize) -> *const u8,
) {
    for k in 0..N {
        let mut values = [C::Lane::ZERO; 32];
        for lane in 0..32 {
            if mask >> lane & 1 != 0 {
                // SAFETY: the caller checked the active lanes' addresses.
                values[lane] = unsafe { C::load(host(lane).add(k * C::SIZE as usize)) };
            }
        }
        // SAFETY: lowering chose registers of this width.
        unsafe {
            let target = register::<N>(x, first, k);
            x.write(target, mask, values);
        }
    }
}

/// Stores `N` values of the active lanes to `host(lane)`, in lane order.
#[inline(always)]
unsafe fn scatter<C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    first: u32,
    mask: u32,
    host: impl Fn(usize) -> *mut u8,
) {
    for k in 0..N {
        // SAFETY: lowering chose registers of this width.
        let values = unsafe { x.read::<C::Lane>(register::<N>(x, first, k)) };
        for lane in 0..32 {
            if mask >> lane & 1 != 0 {
                // SAFETY: the caller checked the active lanes' addresses.
                unsafe { C::store(host(lane).add(k * C::SIZE as usize), values[lane]) }
            }
        }
    }
}

/// Loads `N` values of every lane from consecutive places.
#[inline(always)]
unsafe fn load_run<C: Cell, const N: usize>(x: &mut Exec<'_>, first: u32, host: *const u8) {
    for k in 0..N {
        let mut values = [C::Lane::ZERO; 32];
        for lane in 0..32 {
            // SAFETY: the caller checked the whole run.
            values[lane] = unsafe { C::load(host.add((lane * N + k) * C::SIZE as usize)) };
        }
        // SAFETY: lowering chose registers of this width.
        unsafe {
            let target = register::<N>(x, first, k);
            x.write(target, FULL, values);
        }
    }
}

/// Loads `N` values, the same for every lane.
#[inline(always)]
unsafe fn load_one<C: Cell, const N: usize>(x: &mut Exec<'_>, first: u32, host: *const u8) {
    for k in 0..N {
        // SAFETY: the caller checked the place; lowering chose registers of this width.
        unsafe {
            let value = C::load(host.add(k * C::SIZE as usize));
            let target = register::<N>(x, first, k);
            x.write(target, FULL, [value; 32]);
        }
    }
}

/// Stores `N` values of every lane to consecutive places.
#[inline(always)]
unsafe fn store_run<C: Cell, const N: usize>(x: &mut Exec<'_>, first: u32, host: *mut u8) {
    for k in 0..N {
        // SAFETY: lowering chose registers of this width.
        let values = unsafe { x.read::<C::Lane>(register::<N>(x, first, k)) };
        for lane in 0..32 {
            // SAFETY: the caller checked the whole run.
            unsafe { C::store(host.add((lane * N + k) * C::SIZE as usize), values[lane]) }
        }
    }
}

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

/// Local memory: word `w` of lane `l` stands at `(w * 32 + l) * 4`, so that a warp that indexes alike
/// reads side by side, as on the device.
pub(crate) struct ReachLocal;

/// Where byte `address` of a lane's local memory stands.
#[inline(always)]
fn local_place(address: u64, lane: usize) -> usize {
    (address as usize / 4 * 32 + lane) * 4 + address as usize % 4
}

impl Reach for ReachLocal {
    #[inline(always)]
    unsafe fn load_same<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        let limit = u64::from(x.code.local_bytes);
        let bytes = 4 * N as u64;
        if C::SIZE != 4 || first >= limit || bytes > limit - first {
            return false;
        }
        let local = x.warp().local.pointer();
        for k in 0..N {
            // SAFETY: the word lies in each thread's local memory, and the lanes' words side by side.
            unsafe {
                let host = local.add(local_place(first + 4 * k as u64, 0));
                let target = register::<N>(x, op.dst, k);
                load_run::<C, 1>(x, target, host);
            }
        }
        x.counts.local.requests += 1;
        x.counts.local.bytes += 32 * bytes;
        x.counts.local.sectors += 4 * N as u64;
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
        let limit = u64::from(x.code.local_bytes);
        x.check_window(pc, "local", limit, at, mask, size)?;
        let local = x.warp().local.pointer();
        for k in 0..N {
            let mut values = [C::Lane::ZERO; 32];
            for lane in lanes(mask) {
                let address = at[lane] + k as u64 * C::SIZE;
                // SAFETY: the access lies in the thread's local memory.
                values[lane] = unsafe {
                    if C::SIZE <= 4 {
                        C::load(local.add(local_place(address, lane)))
                    } else {
                        let lo = W32::load(local.add(local_place(address, lane)));
                        let hi = W32::load(local.add(local_place(address + 4, lane)));
                        C::Lane::from_u64(u64::from(lo) | u64::from(hi) << 32)
                    }
                };
            }
            // SAFETY: lowering chose registers of this width.
            unsafe {
                let target = register::<N>(x, op.dst, k);
                x.write(target, mask, values);
            }
        }
        count_local(x, at, mask, size);
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
        let limit = u64::from(x.code.local_bytes);
        x.check_window(pc, "local", limit, at, mask, size)?;
        let local = x.warp().local.pointer();
        for k in 0..N {
            // SAFETY: lowering chose registers of this width.
            let values = unsafe { x.read::<C::Lane>(register::<N>(x, op.dst, k)) };
            for lane in lanes(mask) {
                let address = at[lane] + k as u64 * C::SIZE;
                // SAFETY: the access lies in the thread's local memory.
                unsafe {
                    if C::SIZE <= 4 {
                        C::store(local.add(local_place(address, lane)), values[lane]);
                    } else {
                        let value = values[lane].to_u64();
                        W32::store(local.add(local_place(address, lane)), value as u32);
                        let high = local.add(local_place(address + 4, lane));
                        W32::store(high, (value >> 32) as u32);
                    }
                }
            }
        }
        count_local(x, at, mask, size);
        Ok(())
    }
}

/// Counts an access of local memory, by the sectors that its words stand in on the device.
fn count_local(x: &mut Exec<'_>, at: &[u64; 32], mask: u32, size: u64) {
    let mut total = 0;
    for word in 0..size.div_ceil(4) {
        let mut places = [0; 32];
        for lane in lanes(mask) {
            places[lane] = local_place(at[lane] + word * 4, lane) as u64;
        }
        total += sectors(&places, mask).count as u64;
    }
    x.counts.local.requests += 1;
    x.counts.local.bytes += asked(mask, size);
    x.counts.local.sectors += total;
}

/// The constant bank.
pub(crate) struct ReachConst;
/// The kernel's parameters.
pub(crate) struct ReachParam;

/// Loads from bytes that nobody writes.
#[inline(always)]
unsafe fn load_bank<C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    op: &Op,
    mask: u32,
    pc: usize,
    at: &[u64; 32],
    space: &'static str,
    bank: &[u8],
) -> Result<(), usize> {
    let size = C::SIZE * N as u64;
    x.check_window(pc, space, bank.len() as u64, at, mask, size)?;
    x.counts.constant_loads += 1;
    let bank = bank.as_ptr();
    // SAFETY: every active lane's access lies in the bank.
    unsafe { gather::<C, N>(x, op.dst, mask, |lane| bank.add(at[lane] as usize)) }
    Ok(())
}

impl Reach for ReachConst {
    #[inline(always)]
    unsafe fn load<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize> {
        let code = x.code;
        // SAFETY: the caller's contract.
        unsafe { load_bank::<C, N>(x, op, mask, pc, at, "constant", &code.constant_bank) }
    }

    unsafe fn store<C: Cell, const N: usize>(
        _: &mut Exec<'_>,
        _: &Op,
        _: u32,
        _: usize,
        _: &[u64; 32],
    ) -> Result<(), usize> {
        unreachable!("lowering refuses stores to read-only spaces")
    }
}

impl Reach for ReachParam {
    #[inline(always)]
    unsafe fn load<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize> {
        let bank = x.launch.params;
        // SAFETY: the caller's contract.
        unsafe { load_bank::<C, N>(x, op, mask, pc, at, "parameter", bank) }
    }

    unsafe fn store<C: Cell, const N: usize>(
        _: &mut Exec<'_>,
        _: &Op,
        _: u32,
        _: usize,
        _: &[u64; 32],
    ) -> Result<(), usize> {
        unreachable!("lowering refuses stores to read-only spaces")
    }
}

/// Any space, by the address.
pub(crate) struct ReachGeneric;

/// A generic address's window: its mask of lanes, and their offsets in it.
#[inline(always)]
fn in_window(at: &[u64; 32], mask: u32, window: u64) -> (u32, [u64; 32]) {
    let mut offsets = [0; 32];
    let mut inside = 0;
    for lane in 0..32 {
        offsets[lane] = at[lane].wrapping_sub(window);
        inside |= u32::from(offsets[lane] < WINDOW_BYTES) << lane;
    }
    (inside & mask, offsets)
}

/// The shared, local and constant lanes of generic addresses, with their offsets; the rest are global.
#[inline(always)]
pub(crate) fn windows(at: &[u64; 32], mask: u32) -> [(u32, [u64; 32]); 3] {
    [SHARED_WINDOW, LOCAL_WINDOW, CONST_WINDOW].map(|window| in_window(at, mask, window))
}

/// Whether every active lane's address lies above all windows or below them, as device memory does.
#[inline(always)]
fn all_global(at: &[u64; 32], mask: u32) -> bool {
    const SPAN: u64 = CONST_WINDOW + WINDOW_BYTES - SHARED_WINDOW;
    let mut inside = 0;
    for lane in 0..32 {
        inside |= u32::from(at[lane].wrapping_sub(SHARED_WINDOW) < SPAN) << lane;
    }
    inside & mask == 0
}

/// A space's load, out of line.
///
/// # Safety
/// As for [`Reach::load`].
#[inline(never)]
unsafe fn load_in<S: Reach, C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    op: &Op,
    mask: u32,
    pc: usize,
    at: &[u64; 32],
) -> Result<(), usize> {
    // SAFETY: the caller's contract.
    unsafe { S::load::<C, N>(x, op, mask, pc, at) }
}

/// A space's store, out of line.
///
/// # Safety
/// As for [`Reach::store`].
#[inline(never)]
unsafe fn store_in<S: Reach, C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    op: &Op,
    mask: u32,
    pc: usize,
    at: &[u64; 32],
) -> Result<(), usize> {
    // SAFETY: the caller's contract.
    unsafe { S::store::<C, N>(x, op, mask, pc, at) }
}

/// Whether an address lies in no window.
#[inline(always)]
fn is_global(address: u64) -> bool {
    const SPAN: u64 = CONST_WINDOW + WINDOW_BYTES - SHARED_WINDOW;
    address.wrapping_sub(SHARED_WINDOW) >= SPAN
}

impl Reach for ReachGeneric {
    #[inline(always)]
    unsafe fn load_run<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            if is_global(first) {
                ReachGlobal::load_run::<C, N>(x, op, first)
            } else {
                // Beyond the window it lies outside of shared memory as well.
                ReachShared::load_run::<C, N>(x, op, first.wrapping_sub(SHARED_WINDOW))
            }
        }
    }

    #[inline(always)]
    unsafe fn load_same<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            if is_global(first) {
                ReachGlobal::load_same::<C, N>(x, op, first)
            } else {
                ReachShared::load_same::<C, N>(x, op, first.wrapping_sub(SHARED_WINDOW))
            }
        }
    }

    #[inline(always)]
    unsafe fn store_run<C: Cell, const N: usize>(x: &mut Exec<'_>, op: &Op, first: u64) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            if is_global(first) {
                ReachGlobal::store_run::<C, N>(x, op, first)
            } else {
                ReachShared::store_run::<C, N>(x, op, first.wrapping_sub(SHARED_WINDOW))
            }
        }
    }

    #[inline(always)]
    unsafe fn load<C: Cell, const N: usize>(
        x: &mut Exec<'_>,
        op: &Op,
        mask: u32,
        pc: usize,
        at: &[u64; 32],
    ) -> Result<(), usize> {
        // SAFETY: the caller's contract, for a part of the lanes at a time.
        unsafe {
            if all_global(at, mask) {
                return load_in::<ReachGlobal, C, N>(x, op, mask, pc, at);
            }
            let [shared, local, constant] = windows(at, mask);
            if shared.0 != 0 {
                load_in::<ReachShared, C, N>(x, op, shared.0, pc, &shared.1)?;
            }
            if local.0 != 0 {
                load_in::<ReachLocal, C, N>(x, op, local.0, pc, &local.1)?;
            }
            if constant.0 != 0 {
                load_in::<ReachConst, C, N>(x, op, constant.0, pc, &constant.1)?;
            }
            let rest = mask & !(shared.0 | local.0 | constant.0);
            if rest != 0 {
                load_in::<ReachGlobal, C, N>(x, op, rest, pc, at)?;
            }
        }
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
        // SAFETY: the caller's contract, for a part of the lanes at a time.
        unsafe {
            if all_global(at, mask) {
                return store_in::<ReachGlobal, C, N>(x, op, mask, pc, at);
            }
            let [shared, local, _] = windows(at, mask);
            if shared.0 != 0 {
                store_in::<ReachShared, C, N>(x, op, shared.0, pc, &shared.1)?;
            }
            if local.0 != 0 {
                store_in::<ReachLocal, C, N>(x, op, local.0, pc, &local.1)?;
            }
            // A store to the constant window lies in no allocation, and is reported so.
            let rest = mask & !(shared.0 | local.0);
            if rest != 0 {
                store_in::<ReachGlobal, C, N>(x, op, rest, pc, at)?;
            }
        }
        Ok(())
    }
}

/// Load `N` values: base `a` (64 bits wide where `c` is not 0) plus `x`, to `dst` (a list for N > 1),
/// at site `b`.
pub(crate) struct Load<S, C, const N: usize>(PhantomData<(S, C)>);

impl<S: Reach, C: Cell, const N: usize> Handle for Load<S, C, N> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        // SAFETY: lowering chose the registers; the space checks the addresses.
        unsafe {
            if mask == FULL {
                let done = match pattern(x, op, C::SIZE * N as u64) {
                    Pattern::Run(first) => S::load_run::<C, N>(x, op, first),
                    Pattern::Same(first) => S::load_same::<C, N>(x, op, first),
                    Pattern::Other => false,
                };
                if done {
                    return pc + 1;
                }
            }
            let at = addresses(x, op.a, op.c != 0, op.x);
            match S::load::<C, N>(x, op, mask, pc, &at) {
                Ok(()) => pc + 1,
                Err(stop) => stop,
            }
        }
    }
}

/// Store `N` values, as [`Load`].
pub(crate) struct Store<S, C, const N: usize>(PhantomData<(S, C)>);

impl<S: Reach, C: Cell, const N: usize> Handle for Store<S, C, N> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        // SAFETY: lowering chose the registers; the space checks the addresses.
        unsafe {
            if mask == FULL
                && let Pattern::Run(first) = pattern(x, op, C::SIZE * N as u64)
                && S::store_run::<C, N>(x, op, first)
            {
                return pc + 1;
            }
            let at = addresses(x, op.a, op.c != 0, op.x);
            match S::store::<C, N>(x, op, mask, pc, &at) {
                Ok(()) => pc + 1,
                Err(stop) => stop,
            }
        }
    }
}

/// A load of one value at a constant place in parameter space: `x` is its offset, which lowering
/// checked against the layout.
pub(crate) struct LoadParam<C>(PhantomData<C>);

impl<C: Cell> Handle for LoadParam<C> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: the launch gives as many parameter bytes as lowering checked against.
        unsafe {
            let value = C::load(x.launch.params.as_ptr().add(op.x as usize));
            x.write(op.dst, mask, [value; 32]);
        }
        x.counts.constant_loads += u64::from(mask != 0);
        pc + 1
    }
}

/// `cvta`: adds `x` to an address of width `A`, giving one of width `R`.
pub(crate) struct Rebase<A, R>(PhantomData<(A, R)>);

impl<A: Lane, R: Lane> Handle for Rebase<A, R> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let a = x.read::<A>(op.a);
            let mut r = [R::ZERO; 32];
            for lane in 0..32 {
                r[lane] = R::from_u64(a[lane].to_u64().wrapping_add(op.x));
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `isspace`: whether address `a` lies in the window at `x`; 0 stands for global.
pub(crate) struct IsSpace;

impl Handle for IsSpace {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose a 64-bit register and a predicate.
        unsafe {
            let at = x.read::<u64>(op.a);
            let answer = if op.x == 0 {
                let [shared, local, constant] = windows(&at, FULL);
                !(shared.0 | local.0 | constant.0)
            } else {
                in_window(&at, FULL, op.x).0
            };
            x.set_pred(op.dst, mask, answer);
        }
        pc + 1
    }
}
