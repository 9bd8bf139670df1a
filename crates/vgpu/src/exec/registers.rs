//! Registers as vectors: 32 lanes side by side, read and written whole or by mask.

use super::Exec;

/// Every lane.
pub(crate) const FULL: u32 = u32::MAX;

/// A register of 32 lanes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Vector<T>(pub [T; 32]);

/// What a lane holds.
pub(crate) trait Lane: Copy + PartialEq {
    const ZERO: Self;
    fn to_u64(self) -> u64;
    fn from_u64(value: u64) -> Self;
}

impl Lane for u32 {
    const ZERO: Self = 0;
    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value as u32
    }
}

impl Lane for u64 {
    const ZERO: Self = 0;
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value
    }
}

impl Exec<'_> {
    /// # Safety
    /// `offset` must be that of a register of `T` lanes.
    #[inline(always)]
    pub unsafe fn read<T: Lane>(&self, offset: u32) -> [T; 32] {
        // SAFETY: by contract the offset is 64-byte aligned and within the register file.
        unsafe { (*self.regs.add(offset as usize).cast::<Vector<T>>()).0 }
    }

    /// Writes the lanes of `mask`.
    ///
    /// # Safety
    /// As for [`Exec::read`].
    #[inline(always)]
    pub unsafe fn write<T: Lane>(&mut self, offset: u32, mask: u32, value: [T; 32]) {
        // SAFETY: as for `read`; no reference to the register file is held.
        unsafe {
            let target = self.regs.add(offset as usize).cast::<Vector<T>>();
            if mask == FULL {
                *target = Vector(value);
            } else {
                let mut merged = (*target).0;
                for lane in 0..32 {
                    merged[lane] = if mask >> lane & 1 != 0 {
                        value[lane]
                    } else {
                        merged[lane]
                    };
                }
                *target = Vector(merged);
            }
        }
    }

    /// # Safety
    /// As for [`Exec::read`]; `lane` below 32.
    #[inline(always)]
    pub unsafe fn read_lane<T: Lane>(&self, offset: u32, lane: usize) -> T {
        // SAFETY: as for `read`.
        unsafe { *self.regs.add(offset as usize).cast::<T>().add(lane) }
    }

    /// # Safety
    /// As for [`Exec::read`]; `lane` below 32.
    #[inline(always)]
    pub unsafe fn write_lane<T: Lane>(&mut self, offset: u32, lane: usize, value: T) {
        // SAFETY: as for `write`.
        unsafe { *self.regs.add(offset as usize).cast::<T>().add(lane) = value }
    }

    /// The lanes of a register of either width as 64 bits.
    ///
    /// # Safety
    /// As for [`Exec::read`], of the width that `wide` says.
    #[inline(always)]
    pub unsafe fn read_any(&self, offset: u32, wide: bool) -> [u64; 32] {
        // SAFETY: the caller's contract.
        unsafe {
            if wide {
                self.read::<u64>(offset)
            } else {
                let narrow = self.read::<u32>(offset);
                let mut values = [0; 32];
                for lane in 0..32 {
                    values[lane] = u64::from(narrow[lane]);
                }
                values
            }
        }
    }

    /// # Safety
    /// `index` must be that of a predicate.
    #[inline(always)]
    pub unsafe fn pred(&self, index: u32) -> u32 {
        // SAFETY: by contract.
        unsafe { *self.preds.add(index as usize) }
    }

    /// Writes a predicate in the lanes of `mask`.
    ///
    /// # Safety
    /// As for [`Exec::pred`].
    #[inline(always)]
    pub unsafe fn set_pred(&mut self, index: u32, mask: u32, value: u32) {
        // SAFETY: by contract.
        unsafe {
            let target = self.preds.add(index as usize);
            *target = (*target & !mask) | (value & mask);
        }
    }
}

/// The lanes of a mask, ascending.
#[inline(always)]
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(lane)
    })
}
