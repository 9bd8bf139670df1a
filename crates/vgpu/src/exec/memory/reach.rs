//! What a space must say for loads and stores to reach it, and the moves between registers and bytes.

use super::*;

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
pub(super) unsafe fn gather<C: Cell, const N: usize>(
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
pub(super) unsafe fn scatter<C: Cell, const N: usize>(
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
pub(super) unsafe fn load_run<C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    first: u32,
    host: *const u8,
) {
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
pub(super) unsafe fn load_one<C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    first: u32,
    host: *const u8,
) {
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
pub(super) unsafe fn store_run<C: Cell, const N: usize>(
    x: &mut Exec<'_>,
    first: u32,
    host: *mut u8,
) {
    for k in 0..N {
        // SAFETY: lowering chose registers of this width.
        let values = unsafe { x.read::<C::Lane>(register::<N>(x, first, k)) };
        for lane in 0..32 {
            // SAFETY: the caller checked the whole run.
            unsafe { C::store(host.add((lane * N + k) * C::SIZE as usize), values[lane]) }
        }
    }
}
