//! The constant bank and a kernel's parameters.

use super::*;

/// The constant bank.
pub(crate) struct ReachConst;
/// The kernel's parameters.
pub(crate) struct ReachParam;

/// Loads from bytes that nobody writes.
#[inline(always)]
pub(super) unsafe fn load_bank<C: Cell, const N: usize>(
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
