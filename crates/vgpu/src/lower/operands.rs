//! Which registers an instruction reads and writes, and what it is called.

use crate::ir::{Guard, Inst, MbarrierOp, Operand, Reg, Space, Type};

/// A register's part in an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    Write,
}

/// Calls `visit` for every register that the instruction reads, then for every one that it writes.
pub(crate) fn registers(inst: &Inst, visit: &mut dyn FnMut(Reg, Role)) {
    let mut reads: Vec<Operand> = Vec::new();
    let mut writes: Vec<Reg> = Vec::new();
    collect(inst, &mut reads, &mut writes);
    for operand in reads {
        if let Operand::Reg(reg) = operand {
            visit(reg, Role::Read);
        }
    }
    for reg in writes {
        visit(reg, Role::Write);
    }
}

fn collect(inst: &Inst, reads: &mut Vec<Operand>, writes: &mut Vec<Reg>) {
    let guard = |guard: &Guard| Operand::Reg(guard.pred);
    match inst {
        Inst::Mov { dst, src } => {
            reads.push(*src);
            writes.push(*dst);
        }
        Inst::ReadSpecial { dst, .. } | Inst::ActiveMask { dst } => writes.push(*dst),
        Inst::Pack { dst, lo, hi } | Inst::CvtPack { dst, lo, hi, .. } => {
            reads.extend([*lo, *hi]);
            writes.push(*dst);
        }
        Inst::Unpack { lo, hi, src } => {
            reads.push(*src);
            writes.extend([*lo, *hi]);
        }
        Inst::IntBinary { dst, a, b, .. } | Inst::FloatBinary { dst, a, b, .. } => {
            reads.extend([*a, *b]);
            writes.push(*dst);
        }
        Inst::IntUnary { dst, a, .. }
        | Inst::FloatUnary { dst, a, .. }
        | Inst::Testp { dst, a, .. }
        | Inst::Cvt { dst, a, .. }
        | Inst::PredNot { dst, a }
        | Inst::CvtaToGeneric { dst, a, .. }
        | Inst::CvtaFromGeneric { dst, a, .. }
        | Inst::IsSpace { dst, a, .. } => {
            reads.push(*a);
            writes.push(*dst);
        }
        Inst::Mad { dst, a, b, c, .. }
        | Inst::Sad { dst, a, b, c, .. }
        | Inst::Lop3 { dst, a, b, c, .. }
        | Inst::Dp4a { dst, a, b, c, .. }
        | Inst::Dp2a { dst, a, b, c, .. }
        | Inst::Fma { dst, a, b, c, .. } => {
            reads.extend([*a, *b, *c]);
            writes.push(*dst);
        }
        Inst::Carry {
            dst,
            carry_out,
            a,
            b,
            carry_in,
            ..
        } => {
            reads.extend([*a, *b]);
            reads.extend(carry_in.map(Operand::Reg));
            writes.push(*dst);
            writes.extend(*carry_out);
        }
        Inst::Bfe {
            dst, a, pos, len, ..
        } => {
            reads.extend([*a, *pos, *len]);
            writes.push(*dst);
        }
        Inst::Bfi {
            dst,
            a,
            b,
            pos,
            len,
            ..
        } => {
            reads.extend([*a, *b, *pos, *len]);
            writes.push(*dst);
        }
        Inst::FunnelShift {
            dst,
            lo,
            hi,
            amount,
            ..
        } => {
            reads.extend([*lo, *hi, *amount]);
            writes.push(*dst);
        }
        Inst::Prmt {
            dst,
            a,
            b,
            selector,
            ..
        } => {
            reads.extend([*a, *b, *selector]);
            writes.push(*dst);
        }
        Inst::Setp {
            dst, a, b, combine, ..
        } => {
            reads.extend([*a, *b]);
            reads.extend(combine.iter().map(|(_, other)| guard(other)));
            writes.push(*dst);
        }
        Inst::Selp { dst, a, b, pred } => {
            reads.extend([*a, *b, Operand::Reg(*pred)]);
            writes.push(*dst);
        }
        Inst::PredBinary { dst, a, b, .. } => {
            reads.extend([*a, *b]);
            writes.push(*dst);
        }
        Inst::Ld { dst, addr, .. } => {
            reads.push(addr.base);
            writes.extend(dst);
        }
        Inst::St { src, addr, .. } => {
            reads.push(addr.base);
            reads.extend(src);
        }
        Inst::Atomic {
            dst, addr, b, c, ..
        } => {
            reads.extend([addr.base, *b]);
            reads.extend(*c);
            writes.extend(*dst);
        }
        Inst::Prefetch { addr, .. } => reads.push(addr.base),
        Inst::CpAsync {
            shared,
            global,
            src_bytes,
            ..
        } => {
            reads.extend([shared.base, global.base]);
            reads.extend(*src_bytes);
        }
        Inst::Mbarrier { addr, op } => {
            reads.push(addr.base);
            match op {
                MbarrierOp::Init { count } => reads.push(*count),
                MbarrierOp::Inval | MbarrierOp::CpAsyncArrive { .. } => {}
                MbarrierOp::Arrive {
                    state,
                    count,
                    expect_tx,
                } => {
                    reads.push(*count);
                    reads.extend(*expect_tx);
                    writes.extend(*state);
                }
                MbarrierOp::ExpectTx { bytes } | MbarrierOp::CompleteTx { bytes } => {
                    reads.push(*bytes);
                }
                MbarrierOp::TestWaitParity { done, parity }
                | MbarrierOp::TryWaitParity { done, parity } => {
                    reads.push(*parity);
                    writes.push(*done);
                }
                MbarrierOp::TestWait { done, state } => {
                    reads.push(*state);
                    writes.push(*done);
                }
            }
        }
        Inst::Shfl {
            dst,
            in_range,
            a,
            lane,
            clamp,
            members,
            ..
        } => {
            reads.extend([*a, *lane, *clamp, *members]);
            writes.push(*dst);
            writes.extend(*in_range);
        }
        Inst::Vote {
            dst, pred, members, ..
        }
        | Inst::Ballot { dst, pred, members } => {
            reads.extend([guard(pred), *members]);
            writes.push(*dst);
        }
        Inst::MatchAny {
            dst, a, members, ..
        }
        | Inst::Redux {
            dst, a, members, ..
        } => {
            reads.extend([*a, *members]);
            writes.push(*dst);
        }
        Inst::MatchAll {
            dst,
            pred,
            a,
            members,
            ..
        } => {
            reads.extend([*a, *members]);
            writes.push(*dst);
            writes.extend(*pred);
        }
        Inst::Elect {
            leader,
            is_leader,
            members,
        } => {
            reads.push(*members);
            writes.extend(*leader);
            writes.push(*is_leader);
        }
        Inst::WarpSync { members } => reads.push(*members),
        Inst::BarrierSync { id, count, .. } => {
            reads.push(*id);
            reads.extend(*count);
        }
        Inst::BarrierArrive { id, count, .. } => reads.extend([*id, *count]),
        Inst::BarrierReduce {
            dst,
            id,
            count,
            pred,
            ..
        } => {
            reads.extend([*id, guard(pred)]);
            reads.extend(*count);
            writes.push(*dst);
        }
        Inst::Nanosleep { nanoseconds } => reads.push(*nanoseconds),
        Inst::Assert { pred, .. } => reads.push(guard(pred)),
        Inst::Printf { args, .. } => reads.extend(args.iter().map(|arg| arg.value)),
        Inst::CpAsyncCommit
        | Inst::CpAsyncWaitGroup { .. }
        | Inst::CpAsyncWaitAll
        | Inst::Fence { .. }
        | Inst::Trap
        | Inst::Unmodelled { .. } => {}
    }
}

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
