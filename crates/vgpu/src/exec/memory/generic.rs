//! Generic addresses: any space, by the address.

use super::*;

/// Any space, by the address.
pub(crate) struct ReachGeneric;

/// A generic address's window: its mask of lanes, and their offsets in it.
#[inline(always)]
pub(super) fn in_window(at: &[u64; 32], mask: u32, window: u64) -> (u32, [u64; 32]) {
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
pub(super) fn all_global(at: &[u64; 32], mask: u32) -> bool {
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
pub(super) unsafe fn load_in<S: Reach, C: Cell, const N: usize>(
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
pub(super) unsafe fn store_in<S: Reach, C: Cell, const N: usize>(
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
pub(super) fn is_global(address: u64) -> bool {
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
