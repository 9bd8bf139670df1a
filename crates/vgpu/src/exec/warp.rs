//! Operations across the lanes of a warp: shuffles, votes, matches, reductions, elections.

use super::alu::Fn2;
use super::float::{MaxF32, MaxNanF32, MinF32, MinNanF32};
use super::registers::lanes;
use super::{Exec, Handle, mask_of, permute, top_bits};
use crate::check::FaultKind;
use crate::ir::{ReduxOp, Type};
use crate::lower::{Extra, Op};

/// The member mask of a `*.sync` operation, the same in every active lane; a fault where a member is
/// alive but not here, since structured execution brings it here no more.
#[inline(always)]
fn members<const I: u8>(
    x: &mut Exec<'_>,
    register: u32,
    mask: u32,
    pc: usize,
) -> Result<u32, usize> {
    // SAFETY: lowering chose a 32-bit register.
    let named = unsafe { x.read::<u32>(register) };
    let first = mask.trailing_zeros() as usize % 32;
    // SAFETY: as above; read from the register, since the copy may be a vector.
    let members = unsafe { x.read_lane::<u32>(register, first) };
    let differs = mask_of::<I>(|lane| named[lane] != members);
    // Lanes that returned count as having arrived.
    let missing = members & x.live & !mask;
    let outside = mask & !members;
    if differs & mask | missing | outside != 0 {
        return Err(bad_members(x, pc, mask, &named, differs & mask, missing));
    }
    Ok(members)
}

#[cold]
#[inline(never)]
fn bad_members(
    x: &mut Exec<'_>,
    pc: usize,
    mask: u32,
    named: &[u32; 32],
    differs: u32,
    missing: u32,
) -> usize {
    let first = mask.trailing_zeros() as usize % 32;
    let members = named[first];
    let (lane, message) = if differs != 0 {
        let lane = differs.trailing_zeros() as usize;
        let message = format!(
            "lanes name different members: lane {first} has {members:#010x}, lane {lane} has {:#010x}",
            named[lane]
        );
        (lane, message)
    } else if missing != 0 {
        let message = format!(
            "members {members:#010x} include lanes {missing:#010x}, which are in another branch and \
             cannot arrive here; lanes {mask:#010x} are here"
        );
        (first, message)
    } else {
        let lane = (mask & !members).trailing_zeros() as usize;
        (
            lane,
            format!("lane {lane} is here but is not among the members {members:#010x}"),
        )
    };
    x.fault(pc, FaultKind::WarpSync, Some(lane), message)
}

macro_rules! try_members {
    ($x:expr, $register:expr, $mask:expr, $pc:expr) => {
        match members::<I>($x, $register, $mask, $pc) {
            Ok(members) => members,
            Err(stop) => return stop,
        }
    };
}

/// `shfl.sync`: value `a`, lane `b`, clamp `c`, members and the in-range predicate (0 = none) in `x`'s
/// halves; `MODE` 0 up, 1 down, 2 butterfly, 3 index.
pub(crate) struct Shuffle<const MODE: u8>;

impl<const MODE: u8> Handle for Shuffle<MODE> {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        try_members!(x, op.x as u32, mask, pc);
        // SAFETY: lowering chose 32-bit registers.
        let (value, from, clamp) = unsafe {
            (
                x.read::<u32>(op.a),
                x.read::<u32>(op.b),
                x.read::<u32>(op.c),
            )
        };
        let mut sources = [0u32; 32];
        let mut in_range = [0u32; 32];
        for lane in 0..32u32 {
            let i = lane as usize;
            let offset = from[i] & 0x1f;
            let limit = clamp[i] & 0x1f;
            let segment = clamp[i] >> 8 & 0x1f;
            let most = (lane & segment) | (limit & !segment);
            let least = lane & segment;
            let (source, ok) = match MODE {
                0 => {
                    let source = lane.wrapping_sub(offset);
                    (source, source as i32 >= most as i32)
                }
                1 => (lane + offset, lane + offset <= most),
                2 => (lane ^ offset, (lane ^ offset) <= most),
                _ => {
                    let source = least | (offset & !segment);
                    (source, source <= most)
                }
            };
            sources[i] = if ok { source } else { lane };
            in_range[i] = if ok { u32::MAX } else { 0 };
        }
        let r = permute::<I>(&value, &sources);
        let predicate = (op.x >> 32) as u32;
        // SAFETY: lowering chose a 32-bit register and a predicate.
        unsafe {
            x.write(op.dst, mask, r);
            if predicate != 0 {
                x.set_pred(predicate, mask, top_bits::<I>(&in_range));
            }
        }
        pc + 1
    }
}

/// `vote.sync`: predicate `a` xored with `b`, members `c`; `x` is 0 all, 1 any, 2 uni, 3 ballot.
pub(crate) struct Vote;

impl Handle for Vote {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        try_members!(x, op.c, mask, pc);
        // SAFETY: lowering chose predicates and 32-bit registers.
        unsafe {
            let value = (x.pred(op.a) ^ op.b) & mask;
            let answer = match op.x {
                0 => value == mask,
                1 => value != 0,
                2 => value == mask || value == 0,
                _ => {
                    x.write(op.dst, mask, [value; 32]);
                    return pc + 1;
                }
            };
            x.set_pred(op.dst, mask, if answer { u32::MAX } else { 0 });
        }
        pc + 1
    }
}

/// `match.sync`: value `a` (64 bits wide where bit 32 of `x` is set), members `c`; predicate `b` (0 =
/// none) for all; bit 33 of `x` for `match.all`.
pub(crate) struct Match;

impl Handle for Match {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        try_members!(x, op.c, mask, pc);
        // SAFETY: lowering chose registers of these widths.
        unsafe {
            let value = x.read_any(op.a, op.x >> 32 & 1 != 0);
            let mut r = [0u32; 32];
            for lane in lanes(mask) {
                for other in lanes(mask) {
                    r[lane] |= u32::from(value[lane] == value[other]) << other;
                }
            }
            if op.x >> 33 & 1 != 0 {
                let all = lanes(mask).all(|lane| r[lane] == mask);
                r = [if all { mask } else { 0 }; 32];
                if op.b != 0 {
                    x.set_pred(op.b, mask, if all { u32::MAX } else { 0 });
                }
            }
            x.write(op.dst, mask, r);
        }
        pc + 1
    }
}

/// `redux.sync`: value `a`, members `c`, the operation in extra `x`.
pub(crate) struct Redux;

impl Handle for Redux {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        try_members!(x, op.c, mask, pc);
        let Extra::Redux(kind, ty, abs) = x.code.extras[op.x as usize] else {
            unreachable!("lowering made a redux's extra")
        };
        // SAFETY: lowering chose 32-bit registers.
        unsafe {
            let value = x.read::<u32>(op.a);
            let float = ty == Type::F32;
            let signed = ty == Type::S32;
            let strip = if abs { 0x7fff_ffff } else { u32::MAX };
            let values = lanes(mask).map(|lane| value[lane] & strip);
            let result = values.reduce(|a, b| match kind {
                ReduxOp::Add => a.wrapping_add(b),
                ReduxOp::And => a & b,
                ReduxOp::Or => a | b,
                ReduxOp::Xor => a ^ b,
                ReduxOp::Min if float => MinF32::f(a, b),
                ReduxOp::Max if float => MaxF32::f(a, b),
                ReduxOp::MinNan => MinNanF32::f(a, b),
                ReduxOp::MaxNan => MaxNanF32::f(a, b),
                ReduxOp::Min if signed => (a as i32).min(b as i32) as u32,
                ReduxOp::Max if signed => (a as i32).max(b as i32) as u32,
                ReduxOp::Min => a.min(b),
                ReduxOp::Max => a.max(b),
            });
            x.write(op.dst, mask, [result.unwrap_or(0); 32]);
        }
        pc + 1
    }
}

/// `elect.sync`: the lowest lane; members `c`, leader's lane to `dst` where `x` is not 0, predicate `b`.
pub(crate) struct Elect;

impl Handle for Elect {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        try_members!(x, op.c, mask, pc);
        let leader = mask.trailing_zeros();
        // SAFETY: lowering chose a 32-bit register and a predicate.
        unsafe {
            if op.x != 0 {
                x.write(op.dst, mask, [leader; 32]);
            }
            x.set_pred(op.b, mask, 1 << leader);
        }
        pc + 1
    }
}

/// `activemask`.
pub(crate) struct ActiveMask;

impl Handle for ActiveMask {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        // SAFETY: lowering chose a 32-bit register.
        unsafe { x.write(op.dst, mask, [mask; 32]) }
        pc + 1
    }
}

/// `bar.warp.sync`: members `c`.
pub(crate) struct WarpSync;

impl Handle for WarpSync {
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        if mask == 0 {
            return pc + 1;
        }
        try_members!(x, op.c, mask, pc);
        pc + 1
    }
}
