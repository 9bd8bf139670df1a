//! The report of a deadlock: which warps wait for what, since which line, and who should come.

use super::{Fault, FaultKind};
use crate::exec::{Exec, WarpState};
use std::fmt::Write;

/// Warps that a report names one by one.
const NAMED: usize = 8;

/// The fault of a CTA that none of its warps can go on in.
pub(crate) fn deadlock(exec: &mut Exec<'_>) -> Fault {
    let mut message = String::from("no warp of the CTA can go on");
    let mut first_place = None;
    let mut named = 0;
    let (mut ended, mut others) = (Vec::new(), 0);
    for index in 0..exec.cta.warps.len() {
        let warp = &exec.cta.warps[index];
        let state = warp.state;
        // A warp that waits at a barrier is to go on behind it.
        let at = match state {
            WarpState::Barrier { .. } => warp.pc.saturating_sub(1),
            _ => warp.pc,
        };
        if state == WarpState::Done {
            ended.push(index);
            continue;
        }
        named += 1;
        if named > NAMED {
            others += 1;
            continue;
        }
        let place = exec.code.place(at);
        let line = place
            .as_ref()
            .map_or(String::new(), |(file, line)| format!(" at {file}:{line}"));
        if first_place.is_none() {
            first_place = place;
        }
        let what = waits(exec, state);
        let _ = write!(message, "; warp {index} waits{line} for {what}");
    }
    if others > 0 {
        let _ = write!(message, "; {others} more warps wait");
    }
    if !ended.is_empty() {
        let shown: Vec<String> = ended.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if ended.len() > NAMED { ", ..." } else { "" };
        let _ = write!(message, "; ended: warps {}{more}", shown.join(", "));
    }
    Fault {
        kind: FaultKind::Deadlock,
        kernel: exec.code.name.clone(),
        location: first_place,
        operation: String::new(),
        cta: Some(exec.cta.id),
        thread: None,
        message,
    }
}

fn waits(exec: &mut Exec<'_>, state: WarpState) -> String {
    match state {
        WarpState::Barrier { id } => {
            let barrier = exec.cta.barriers[id as usize];
            if barrier.expected == 0 {
                let total = exec.cta.warps.len();
                let done = exec.cta.warps.iter();
                let done = done.filter(|warp| warp.state == WarpState::Done).count();
                format!(
                    "barrier {id}, at which {} of {} warps that run have arrived",
                    barrier.arrived / 32,
                    total - done
                )
            } else {
                format!(
                    "barrier {id}, at which {} of {} threads have arrived",
                    barrier.arrived, barrier.expected
                )
            }
        }
        WarpState::Mbarrier { address, parity } => {
            let word = exec.cta.mbarrier(address);
            let bytes = match word.tx() {
                0 => String::new(),
                bytes => format!(" and {bytes} bytes of transactions"),
            };
            format!(
                "phase {parity} of the mbarrier at shared {address:#x}, which lacks {} of {} arrivals{bytes}",
                word.pending(),
                word.expected()
            )
        }
        WarpState::Ready | WarpState::Asleep => "its turn".to_string(),
        WarpState::Done => "nothing".to_string(),
    }
}
