//! Special registers (PTX ISA, "Special Registers").

use super::{Exec, Handle};
use crate::ir::Special;
use crate::lower::{Extra, Op};

/// The number that stands for a special register in an operation.
pub(crate) fn special_code(special: Special) -> u64 {
    special as u64
}

/// Reads the special register that `x` stands for, which extra `c` names.
pub(crate) struct ReadSpecial;

impl Handle for ReadSpecial {
    #[inline(always)]
    unsafe fn run<const I: u8>(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) -> usize {
        const TID_X: u64 = Special::TidX as u64;
        const TID_Y: u64 = Special::TidY as u64;
        const TID_Z: u64 = Special::TidZ as u64;
        const CTAID_X: u64 = Special::CtaidX as u64;
        const NTID_X: u64 = Special::NtidX as u64;
        // SAFETY: lowering chose a register of the special register's class; the warp exists.
        unsafe {
            let tid = |x: &Exec<'_>, axis: usize| x.cta.warps.get_unchecked(x.warp).tid[axis];
            match op.x {
                TID_X => x.write(op.dst, mask, tid(x, 0)),
                TID_Y => x.write(op.dst, mask, tid(x, 1)),
                TID_Z => x.write(op.dst, mask, tid(x, 2)),
                CTAID_X => x.write(op.dst, mask, [x.cta.id[0]; 32]),
                NTID_X => x.write(op.dst, mask, [x.launch.block[0]; 32]),
                _ => other(x, op, mask, pc),
            }
        }
        pc + 1
    }
}

/// # Safety
/// As for [`ReadSpecial`].
#[inline(never)]
unsafe fn other(x: &mut Exec<'_>, op: &Op, mask: u32, pc: usize) {
    const LANES: [u32; 32] = {
        let mut lanes = [0; 32];
        let mut lane = 0;
        while lane < 32 {
            lanes[lane] = lane as u32;
            lane += 1;
        }
        lanes
    };
    let Extra::Special(special) = x.code.extras[op.c as usize] else {
        unreachable!("lowering made a special register's extra")
    };
    let launch = x.launch;
    let cta = x.cta.id;
    let [cx, cy, cz] = launch.cluster;
    let in_cluster = |axis: usize| cta[axis] % launch.cluster[axis];
    let clusters = |axis: usize| launch.grid[axis] / launch.cluster[axis];
    // Every instruction of the straight run has been counted; which of them is here tells them apart.
    let now = x.chain.instructions.wrapping_add(pc as u64);
    let value = match special {
        Special::TidX | Special::TidY | Special::TidZ => return,
        Special::LaneId | Special::LanemaskEq | Special::LanemaskLt => {
            let lanes = LANES.map(|lane| match special {
                Special::LaneId => lane,
                Special::LanemaskEq => 1 << lane,
                _ => (1 << lane) - 1,
            });
            // SAFETY: the caller's contract.
            return unsafe { x.write(op.dst, mask, lanes) };
        }
        Special::LanemaskLe | Special::LanemaskGt | Special::LanemaskGe => {
            let lanes = LANES.map(|lane| {
                let below = (1u32 << lane) - 1;
                match special {
                    Special::LanemaskLe => below | 1 << lane,
                    Special::LanemaskGt => !(below | 1 << lane),
                    _ => !below,
                }
            });
            // SAFETY: the caller's contract.
            return unsafe { x.write(op.dst, mask, lanes) };
        }
        Special::Clock64 | Special::GlobalTimer => {
            // SAFETY: the caller's contract.
            return unsafe { x.write(op.dst, mask, [now; 32]) };
        }
        Special::Clock => now as u32,
        Special::NtidX => launch.block[0],
        Special::NtidY => launch.block[1],
        Special::NtidZ => launch.block[2],
        Special::CtaidX => cta[0],
        Special::CtaidY => cta[1],
        Special::CtaidZ => cta[2],
        Special::NctaidX => launch.grid[0],
        Special::NctaidY => launch.grid[1],
        Special::NctaidZ => launch.grid[2],
        Special::WarpId => x.warp as u32,
        Special::NwarpId => launch.warps,
        Special::SmId => (x.cta.index % u64::from(launch.sm_count)) as u32,
        Special::NsmId => launch.sm_count,
        Special::GridId => launch.grid_id,
        Special::DynamicSharedBase => launch.dynamic_base,
        Special::DynamicSharedSize => launch.dynamic_bytes,
        Special::TotalSharedSize => launch.shared_bytes,
        Special::ClusterCtaidX => in_cluster(0),
        Special::ClusterCtaidY => in_cluster(1),
        Special::ClusterCtaidZ => in_cluster(2),
        Special::ClusterNctaidX => cx,
        Special::ClusterNctaidY => cy,
        Special::ClusterNctaidZ => cz,
        Special::ClusterCtaRank => (in_cluster(2) * cy + in_cluster(1)) * cx + in_cluster(0),
        Special::ClusterNctaRank => cx * cy * cz,
        Special::ClusteridX => cta[0] / cx,
        Special::ClusteridY => cta[1] / cy,
        Special::ClusteridZ => cta[2] / cz,
        Special::NclusteridX => clusters(0),
        Special::NclusteridY => clusters(1),
        Special::NclusteridZ => clusters(2),
    };
    // SAFETY: the caller's contract.
    unsafe { x.write(op.dst, mask, [value; 32]) }
}
