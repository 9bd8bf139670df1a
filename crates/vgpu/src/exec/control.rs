//! Control flow: masks kept in slots, one or two for each structure, and targets known at lowering.
//!
//! Where no lane is left, a warp goes on at the end of the block that it is in; every block ends with
//! an operation that gathers lanes (`else`, the end of an `if`, of a loop, of the kernel).

use super::{Exec, Handle, STOP, Stop, WarpState};
use crate::check::FaultKind;
use crate::lower::Op;

/// Begins a straight run: counts it, and gives way where the warp's turn is over. `a` is the block,
/// `x` its instructions.
pub(crate) struct EnterBlock;

impl Handle for EnterBlock {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, _: u32, pc: usize) -> usize {
        // SAFETY: lowering numbered the blocks.
        unsafe {
            *x.block_counts.get_unchecked_mut(op.a as usize) += 1;
            let block = x.code.blocks.get_unchecked(op.a as usize);
            x.chain.add(&block.chain);
        }
        x.slice -= op.x as i64;
        if x.slice < 0 {
            return give_way(x, pc);
        }
        pc + 1
    }
}

#[cold]
#[inline(never)]
fn give_way(x: &mut Exec<'_>, pc: usize) -> usize {
    if x.chain.instructions > x.launch.warp_budget {
        let message = format!(
            "a warp issued more than {} instructions; does this loop end?",
            x.launch.warp_budget
        );
        let lane = x.mask.trailing_zeros() as usize % 32;
        return x.fault(pc, FaultKind::StepBudget, Some(lane), message);
    }
    x.stop = Stop::Slice;
    x.resume = pc + 1;
    STOP
}

/// `if`: keeps the others in slot `a`, clears slot `b`, goes to `c` (the `else`) where nobody enters.
pub(crate) struct If;

impl Handle for If {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering numbered the slots.
        unsafe {
            *x.masks.add(op.a as usize) = x.mask & !mask;
            *x.masks.add(op.b as usize) = 0;
        }
        x.mask = mask;
        if mask == 0 { op.c as usize } else { pc + 1 }
    }
}

/// `else`: keeps who finished in slot `b`, goes on with slot `a`; to `c` (the end) where nobody is.
pub(crate) struct Else;

impl Handle for Else {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, _: u32, pc: usize) -> usize {
        // SAFETY: lowering numbered the slots.
        unsafe {
            *x.masks.add(op.b as usize) = x.mask;
            x.mask = *x.masks.add(op.a as usize);
        }
        if x.mask == 0 { op.c as usize } else { pc + 1 }
    }
}

/// End of an `if`: gathers slot `b`; to `c` (the end of the block around it) where nobody is left.
pub(crate) struct EndIf;

impl Handle for EndIf {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, _: u32, pc: usize) -> usize {
        // SAFETY: lowering numbered the slots.
        unsafe { x.mask |= *x.masks.add(op.b as usize) }
        if x.mask == 0 { op.c as usize } else { pc + 1 }
    }
}

/// Begins a loop: clears slot `a` (left) and slot `b` (next turn).
pub(crate) struct BeginLoop;

impl Handle for BeginLoop {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, _: u32, pc: usize) -> usize {
        // SAFETY: lowering numbered the slots.
        unsafe {
            *x.masks.add(op.a as usize) = 0;
            *x.masks.add(op.b as usize) = 0;
        }
        pc + 1
    }
}

/// `break`, `continue`: moves the guard's lanes to slot `a`; to `c` (the block's end) where nobody is
/// left.
pub(crate) struct Leave;

impl Handle for Leave {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering numbered the slots.
        unsafe { *x.masks.add(op.a as usize) |= mask }
        x.mask &= !mask;
        if x.mask == 0 { op.c as usize } else { pc + 1 }
    }
}

/// End of a loop: another turn (at `dst`) for who reached it or slot `b`, else on with slot `a`; to `c`
/// (the end of the block around it) where nobody is left.
pub(crate) struct EndLoop;

impl Handle for EndLoop {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, _: u32, pc: usize) -> usize {
        // SAFETY: lowering numbered the slots.
        unsafe {
            let again = x.masks.add(op.b as usize);
            x.mask |= *again;
            *again = 0;
            if x.mask != 0 {
                return op.dst as usize;
            }
            x.mask = *x.masks.add(op.a as usize);
        }
        if x.mask == 0 { op.c as usize } else { pc + 1 }
    }
}

/// `return`: the guard's lanes are gone; to `c` (the block's end) where nobody is left.
pub(crate) struct Return;

impl Handle for Return {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        x.mask &= !mask;
        x.live &= !mask;
        if x.mask == 0 { op.c as usize } else { pc + 1 }
    }
}

/// The kernel's end.
pub(crate) struct End;

impl Handle for End {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, _: &Op, _: u32, pc: usize) -> usize {
        x.mask = 0;
        x.live = 0;
        x.wait(WarpState::Done, pc)
    }
}

/// `trap`.
pub(crate) struct Trap;

impl Handle for Trap {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, _: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        let lane = mask.trailing_zeros() as usize;
        x.fault(
            pc,
            FaultKind::Trap,
            Some(lane),
            "the kernel trapped".to_string(),
        )
    }
}

/// Device assertion: predicate `a`, xored with `b`, must hold; the text is extra `x`.
pub(crate) struct Assert;

impl Handle for Assert {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose a predicate.
        let holds = unsafe { x.pred(op.a) } ^ op.b;
        let failed = mask & !holds;
        if failed == 0 {
            return pc + 1;
        }
        let lane = failed.trailing_zeros() as usize;
        let message = x.code.text(op.x).to_string();
        x.fault(pc, FaultKind::Assert, Some(lane), message)
    }
}

/// An operation that is not modelled; its name is extra `x`.
pub(crate) struct Unmodelled;

impl Handle for Unmodelled {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        let name = x.code.text(op.x).to_string();
        x.incomplete(pc, name)
    }
}

/// `nanosleep`: gives way.
pub(crate) struct Nanosleep;

impl Handle for Nanosleep {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, _: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        x.wait(WarpState::Asleep, pc + 1)
    }
}

/// Nothing that has an effect here (fences, prefetches).
pub(crate) struct Nothing;

impl Handle for Nothing {
    unsafe fn run<const I: u8>(_: &mut Exec<'_>, _: &Op, _: u32, pc: usize) -> usize {
        pc + 1
    }
}
