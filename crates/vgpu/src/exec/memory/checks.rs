//! Bounds and alignment of lanes' accesses, and what they cost: sectors, requests, passes through banks.

use super::*;

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

pub(super) struct Sectors {
    pub(super) list: [u64; 32],
    pub(super) count: usize,
}

/// The distinct 32-byte sectors of aligned accesses of at most 32 bytes.
pub(super) fn sectors(addresses: &[u64; 32], mask: u32) -> Sectors {
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
