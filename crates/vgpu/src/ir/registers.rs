//! Which registers an instruction reads and writes.

use super::{Address, Guard, Inst, MbarrierOp, Operand, PrintArg, Reg};

/// A register's part in an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterUse {
    /// Its value goes in.
    Read,
    /// A result goes there.
    Write,
}

/// The registers among operands.
macro_rules! reads {
    ($visit:ident; $($operand:expr),+) => {{
        $( if let Operand::Reg(reg) = $operand {
            $visit(reg, RegisterUse::Read);
        } )+
    }};
}

/// One walk for both, since a pattern binds by reference or by mutable reference as its value is.
macro_rules! for_each_register {
    ($inst:expr, $visit:ident) => {
        match $inst {
        Inst::Mov { dst, src } => {
            reads!($visit; src);
            $visit(dst, RegisterUse::Write);
        }
        Inst::ReadSpecial { dst, .. } | Inst::ActiveMask { dst } => $visit(dst, RegisterUse::Write),
        Inst::Pack { dst, lo, hi } | Inst::CvtPack { dst, lo, hi, .. } => {
            reads!($visit; lo, hi);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Unpack { lo, hi, src } => {
            reads!($visit; src);
            $visit(lo, RegisterUse::Write);
            $visit(hi, RegisterUse::Write);
        }
        Inst::IntBinary { dst, a, b, .. }
        | Inst::FloatBinary { dst, a, b, .. }
        | Inst::PredBinary { dst, a, b, .. } => {
            reads!($visit; a, b);
            $visit(dst, RegisterUse::Write);
        }
        Inst::IntUnary { dst, a, .. }
        | Inst::FloatUnary { dst, a, .. }
        | Inst::Testp { dst, a, .. }
        | Inst::Cvt { dst, a, .. }
        | Inst::PredNot { dst, a }
        | Inst::CvtaToGeneric { dst, a, .. }
        | Inst::CvtaFromGeneric { dst, a, .. }
        | Inst::IsSpace { dst, a, .. } => {
            reads!($visit; a);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Mad { dst, a, b, c, .. }
        | Inst::Sad { dst, a, b, c, .. }
        | Inst::Lop3 { dst, a, b, c, .. }
        | Inst::Dp4a { dst, a, b, c, .. }
        | Inst::Dp2a { dst, a, b, c, .. }
        | Inst::Fma { dst, a, b, c, .. } => {
            reads!($visit; a, b, c);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Carry {
            dst,
            carry_out,
            a,
            b,
            carry_in,
            ..
        } => {
            reads!($visit; a, b);
            if let Some(carry) = carry_in {
                $visit(carry, RegisterUse::Read);
            }
            $visit(dst, RegisterUse::Write);
            if let Some(carry) = carry_out {
                $visit(carry, RegisterUse::Write);
            }
        }
        Inst::Bfe {
            dst, a, pos, len, ..
        } => {
            reads!($visit; a, pos, len);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Bfi {
            dst,
            a,
            b,
            pos,
            len,
            ..
        } => {
            reads!($visit; a, b, pos, len);
            $visit(dst, RegisterUse::Write);
        }
        Inst::FunnelShift {
            dst,
            lo,
            hi,
            amount,
            ..
        } => {
            reads!($visit; lo, hi, amount);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Prmt {
            dst,
            a,
            b,
            selector,
            ..
        } => {
            reads!($visit; a, b, selector);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Setp {
            dst, a, b, combine, ..
        } => {
            reads!($visit; a, b);
            if let Some((_, Guard { pred, .. })) = combine {
                $visit(pred, RegisterUse::Read);
            }
            $visit(dst, RegisterUse::Write);
        }
        Inst::Selp { dst, a, b, pred } => {
            reads!($visit; a, b);
            $visit(pred, RegisterUse::Read);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Ld { dst, addr: Address { base, .. }, .. } => {
            reads!($visit; base);
            for reg in dst {
                $visit(reg, RegisterUse::Write);
            }
        }
        Inst::St { src, addr: Address { base, .. }, .. } => {
            reads!($visit; base);
            for value in src {
                reads!($visit; value);
            }
        }
        Inst::Atomic {
            dst, addr: Address { base, .. }, b, c, ..
        } => {
            reads!($visit; base, b);
            if let Some(Operand::Reg(c)) = c { $visit(c, RegisterUse::Read); }
            if let Some(dst) = dst {
                $visit(dst, RegisterUse::Write);
            }
        }
        Inst::Prefetch { addr: Address { base, .. }, .. } => reads!($visit; base),
        Inst::CpAsync {
            shared: Address { base: shared, .. },
            global: Address { base: global, .. },
            src_bytes,
            ..
        } => {
            reads!($visit; shared, global);
            if let Some(Operand::Reg(bytes)) = src_bytes { $visit(bytes, RegisterUse::Read); }
        }
        Inst::Mbarrier { addr: Address { base, .. }, op } => {
            reads!($visit; base);
            match op {
                MbarrierOp::Init { count } => reads!($visit; count),
                MbarrierOp::Inval | MbarrierOp::CpAsyncArrive { .. } => {}
                MbarrierOp::Arrive {
                    state,
                    count,
                    expect_tx,
                } => {
                    reads!($visit; count);
                    if let Some(Operand::Reg(bytes)) = expect_tx { $visit(bytes, RegisterUse::Read); }
                    if let Some(state) = state {
                        $visit(state, RegisterUse::Write);
                    }
                }
                MbarrierOp::ExpectTx { bytes } | MbarrierOp::CompleteTx { bytes } => reads!($visit; bytes),
                MbarrierOp::TestWaitParity { done, parity }
                | MbarrierOp::TryWaitParity { done, parity } => {
                    reads!($visit; parity);
                    $visit(done, RegisterUse::Write);
                }
                MbarrierOp::TestWait { done, state } => {
                    reads!($visit; state);
                    $visit(done, RegisterUse::Write);
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
            reads!($visit; a, lane, clamp, members);
            $visit(dst, RegisterUse::Write);
            if let Some(in_range) = in_range {
                $visit(in_range, RegisterUse::Write);
            }
        }
        Inst::Vote {
            dst, pred: Guard { pred, .. }, members, ..
        }
        | Inst::Ballot { dst, pred: Guard { pred, .. }, members } => {
            reads!($visit; members);
            $visit(pred, RegisterUse::Read);
            $visit(dst, RegisterUse::Write);
        }
        Inst::MatchAny {
            dst, a, members, ..
        }
        | Inst::Redux {
            dst, a, members, ..
        } => {
            reads!($visit; a, members);
            $visit(dst, RegisterUse::Write);
        }
        Inst::MatchAll {
            dst,
            pred,
            a,
            members,
            ..
        } => {
            reads!($visit; a, members);
            $visit(dst, RegisterUse::Write);
            if let Some(pred) = pred {
                $visit(pred, RegisterUse::Write);
            }
        }
        Inst::Elect {
            leader,
            is_leader,
            members,
        } => {
            reads!($visit; members);
            $visit(is_leader, RegisterUse::Write);
            if let Some(leader) = leader {
                $visit(leader, RegisterUse::Write);
            }
        }
        Inst::WarpSync { members } => reads!($visit; members),
        Inst::BarrierSync { id, count, .. } => {
            reads!($visit; id);
            if let Some(Operand::Reg(count)) = count { $visit(count, RegisterUse::Read); }
        }
        Inst::BarrierArrive { id, count, .. } => reads!($visit; id, count),
        Inst::BarrierReduce {
            dst,
            id,
            count,
            pred: Guard { pred, .. },
            ..
        } => {
            reads!($visit; id);
            if let Some(Operand::Reg(count)) = count { $visit(count, RegisterUse::Read); }
            $visit(pred, RegisterUse::Read);
            $visit(dst, RegisterUse::Write);
        }
        Inst::Nanosleep { nanoseconds } => reads!($visit; nanoseconds),
        Inst::Assert { pred: Guard { pred, .. }, .. } => $visit(pred, RegisterUse::Read),
        Inst::Printf { args, .. } => {
            for arg in args {
                let PrintArg { value, .. } = arg;
                reads!($visit; value);
            }
        }
        Inst::CpAsyncCommit
        | Inst::CpAsyncWaitGroup { .. }
        | Inst::CpAsyncWaitAll
        | Inst::Fence { .. }
        | Inst::Trap
        | Inst::Unmodelled { .. } => {}
        }
    };
}

impl Inst {
    /// Calls `visit` for every register that the instruction reads, then for every one that it
    /// writes. A guard over the instruction is not part of it.
    pub fn registers(&self, visit: &mut impl FnMut(Reg, RegisterUse)) {
        let mut each = |reg: &Reg, part| visit(*reg, part);
        for_each_register!(self, each);
    }

    /// The same, where the registers may be exchanged for others.
    pub fn registers_mut(&mut self, visit: &mut impl FnMut(&mut Reg, RegisterUse)) {
        for_each_register!(self, visit);
    }
}
