//! Loads and stores in every space, each checked for bounds and alignment and counted by sector, bank
//! or request. The whole warp at consecutive addresses is one check and one copy.

mod checks;
mod constant;
mod generic;
mod global;
mod local;
mod reach;
mod shared;

use super::registers::lanes;
use super::{Exec, FULL, Handle, Lane};
use crate::ir::{CONST_WINDOW, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::lower::Op;
use std::marker::PhantomData;

pub(crate) use checks::*;
pub(crate) use constant::*;
pub(crate) use generic::*;
pub(crate) use global::*;
pub(crate) use local::*;
pub(crate) use reach::*;
pub(crate) use shared::*;

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
