//! What messages call an instruction and a memory space.

use crate::ir::{Inst, MbarrierOp, Space, Type};

/// A memory space's name.
pub(crate) const fn space_name(space: Space) -> &'static str {
    match space {
        Space::Generic => "generic",
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Const => "const",
        Space::Param => "param",
    }
}

/// What messages call an instruction.
pub(crate) fn mnemonic(inst: &Inst) -> String {
    let access = |what: &str, space: Space, count: usize, ty: Type| {
        let vector = if count > 1 {
            format!(".v{count}")
        } else {
            String::new()
        };
        format!("{what}.{}{vector}.{}", space_name(space), ty.name())
    };
    let typed = |op: &dyn std::fmt::Debug, ty: Type| {
        format!("{}.{}", format!("{op:?}").to_lowercase(), ty.name())
    };
    match inst {
        Inst::Ld { space, ty, dst, .. } => access("ld", *space, dst.len(), *ty),
        Inst::St { space, ty, src, .. } => access("st", *space, src.len(), *ty),
        Inst::Atomic {
            op, space, ty, dst, ..
        } => {
            let what = if dst.is_some() { "atom" } else { "red" };
            let op = format!("{op:?}").to_lowercase();
            access(&format!("{what}.{op}"), *space, 1, *ty)
        }
        Inst::IntBinary { op, ty, .. } => typed(op, *ty),
        Inst::IntUnary { op, ty, .. } => typed(op, *ty),
        Inst::FloatBinary { op, ty, .. } => typed(op, *ty),
        Inst::FloatUnary { op, ty, .. } => typed(op, *ty),
        Inst::Mad { ty, .. } => format!("mad.{}", ty.name()),
        Inst::Fma { ty, .. } => format!("fma.{}", ty.name()),
        Inst::Cvt { to, from, .. } => format!("cvt.{}.{}", to.name(), from.name()),
        Inst::CvtPack { to, .. } => format!("cvt.pack.{}", to.name()),
        Inst::Setp { cmp, ty, .. } => {
            format!("setp.{}.{}", format!("{cmp:?}").to_lowercase(), ty.name())
        }
        Inst::CpAsync { bytes, .. } => format!("cp.async.{bytes}"),
        Inst::Mbarrier { op, .. } => {
            let name = match op {
                MbarrierOp::Init { .. } => "init",
                MbarrierOp::Inval => "inval",
                MbarrierOp::Arrive {
                    expect_tx: Some(_), ..
                } => "arrive.expect_tx",
                MbarrierOp::Arrive { .. } => "arrive",
                MbarrierOp::ExpectTx { .. } => "expect_tx",
                MbarrierOp::CompleteTx { .. } => "complete_tx",
                MbarrierOp::TestWaitParity { .. } => "test_wait.parity",
                MbarrierOp::TryWaitParity { .. } => "try_wait.parity",
                MbarrierOp::TestWait { .. } => "test_wait",
                MbarrierOp::CpAsyncArrive { .. } => "cp_async_arrive",
            };
            format!("mbarrier.{name}")
        }
        Inst::Shfl { mode, .. } => format!("shfl.{}.b32", format!("{mode:?}").to_lowercase()),
        Inst::Vote { mode, .. } => format!("vote.{}", format!("{mode:?}").to_lowercase()),
        Inst::Redux { op, ty, .. } => {
            format!("redux.{}.{}", format!("{op:?}").to_lowercase(), ty.name())
        }
        Inst::BarrierSync { aligned: true, .. } => "bar.sync".to_string(),
        Inst::BarrierSync { aligned: false, .. } => "barrier.sync".to_string(),
        Inst::BarrierArrive { aligned: true, .. } => "bar.arrive".to_string(),
        Inst::BarrierArrive { aligned: false, .. } => "barrier.arrive".to_string(),
        Inst::BarrierReduce { .. } => "bar.red".to_string(),
        Inst::Unmodelled { name } => name.clone(),
        other => {
            let debug = format!("{other:?}");
            let name = debug.split([' ', '{', '(']).next().unwrap_or_default();
            name.to_lowercase()
        }
    }
}
