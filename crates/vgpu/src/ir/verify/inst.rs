//! Instruction by instruction: the operands' classes, and what else the ISA asks of each.

use std::collections::HashSet;

use super::rules::*;
use super::{Checker, MAX_THREADS};
use crate::ir::*;

impl Checker<'_> {
    pub(super) fn instruction(&mut self, inst: &Inst) {
        match inst {
            Inst::Mov { dst, src } => {
                if let Some(class) = self.class(*dst) {
                    self.def(*dst, class);
                    self.source_of_class(*src, class);
                }
            }
            Inst::ReadSpecial { dst, special } => self.def(*dst, special.class()),
            Inst::Pack { dst, lo, hi } => match self.class(*dst) {
                Some(RegClass::B64) => {
                    self.def(*dst, RegClass::B64);
                    self.sources(&[*lo, *hi], Type::B32);
                }
                Some(RegClass::B32) => {
                    self.def(*dst, RegClass::B32);
                    self.sources(&[*lo, *hi], Type::B16);
                }
                Some(RegClass::Pred) => self.error("a predicate cannot be packed"),
                None => {}
            },
            Inst::Unpack { lo, hi, src } => {
                self.def(*lo, RegClass::B32);
                self.def(*hi, RegClass::B32);
                self.require(lo != hi, "both halves go to the same register");
                match src {
                    Operand::Reg(reg) => {
                        let pred = self.class(*reg) == Some(RegClass::Pred);
                        self.require(!pred, "a predicate cannot be unpacked");
                        self.mark_read(*reg);
                    }
                    Operand::Imm(_) => self.error("only a register can be unpacked"),
                }
            }
            Inst::IntBinary { op, ty, dst, a, b } => {
                let legal = int_binary_types(*op, *ty);
                self.require(legal, "the operation does not exist for this type");
                self.def_ty(*dst, op.result(*ty));
                self.source(*a, *ty);
                self.source(*b, op.second(*ty));
            }
            Inst::IntUnary { op, ty, dst, a } => {
                let legal = int_unary_types(*op, *ty);
                self.require(legal, "the operation does not exist for this type");
                self.def_ty(*dst, op.result(*ty));
                self.source(*a, *ty);
            }
            Inst::Mad {
                width,
                ty,
                dst,
                a,
                b,
                c,
            } => {
                let legal = match width {
                    MadWidth::Lo | MadWidth::Hi => signed_or_unsigned(*ty) && ty.bits() >= 16,
                    MadWidth::Wide => signed_or_unsigned(*ty) && matches!(ty.bits(), 16 | 32),
                    MadWidth::Lo24 | MadWidth::Hi24 => matches!(ty, Type::U32 | Type::S32),
                };
                self.require(legal, "the operation does not exist for this type");
                self.def_ty(*dst, width.result(*ty));
                self.sources(&[*a, *b], *ty);
                self.source(*c, width.result(*ty));
            }
            Inst::Carry {
                ty,
                dst,
                carry_out,
                a,
                b,
                carry_in,
                ..
            } => {
                let legal = signed_or_unsigned(*ty) && matches!(ty.bits(), 32 | 64);
                self.require(legal, "the operation does not exist for this type");
                self.def_ty(*dst, *ty);
                self.sources(&[*a, *b], *ty);
                if let Some(carry) = carry_in {
                    self.use_reg(*carry, RegClass::Pred);
                }
                if let Some(carry) = carry_out {
                    self.def(*carry, RegClass::Pred);
                }
            }
            Inst::Sad { ty, dst, a, b, c } => {
                let legal = signed_or_unsigned(*ty) && ty.bits() >= 16;
                self.require(legal, "the operation does not exist for this type");
                self.def_ty(*dst, *ty);
                self.sources(&[*a, *b, *c], *ty);
            }
            Inst::Bfe {
                ty,
                dst,
                a,
                pos,
                len,
            } => {
                let legal = signed_or_unsigned(*ty) && ty.bits() >= 32;
                self.require(legal, "the operation does not exist for this type");
                self.def_ty(*dst, *ty);
                self.source(*a, *ty);
                self.sources(&[*pos, *len], Type::U32);
            }
            Inst::Bfi {
                ty,
                dst,
                a,
                b,
                pos,
                len,
            } => {
                let legal = ty.is_integer() && ty.bits() >= 32;
                self.require(legal, "the operation does not exist for this type");
                self.def_ty(*dst, *ty);
                self.sources(&[*a, *b], *ty);
                self.sources(&[*pos, *len], Type::U32);
            }
            Inst::Lop3 { dst, a, b, c, .. }
            | Inst::FunnelShift {
                dst,
                lo: a,
                hi: b,
                amount: c,
                ..
            }
            | Inst::Prmt {
                dst,
                a,
                b,
                selector: c,
                ..
            }
            | Inst::Dp4a { dst, a, b, c, .. }
            | Inst::Dp2a { dst, a, b, c, .. } => {
                self.def(*dst, RegClass::B32);
                self.sources(&[*a, *b, *c], Type::B32);
            }
            Inst::FloatBinary {
                op,
                ty,
                mods,
                dst,
                a,
                b,
            } => {
                self.float(float_binary_mods(*op, *ty), mods);
                self.def_ty(*dst, *ty);
                self.sources(&[*a, *b], *ty);
            }
            Inst::FloatUnary {
                op,
                ty,
                mods,
                dst,
                a,
            } => {
                self.float(float_unary_mods(*op, *ty), mods);
                self.def_ty(*dst, *ty);
                self.source(*a, *ty);
            }
            Inst::Fma {
                ty,
                mods,
                dst,
                a,
                b,
                c,
            } => {
                self.float(fma_mods(*ty), mods);
                self.require(
                    !(mods.sat && mods.relu),
                    "`sat` and `relu` exclude each other",
                );
                self.def_ty(*dst, *ty);
                self.sources(&[*a, *b, *c], *ty);
            }
            Inst::Testp { ty, dst, a, .. } => {
                let legal = matches!(ty, Type::F32 | Type::F64);
                self.require(legal, "the operation does not exist for this type");
                self.def(*dst, RegClass::Pred);
                self.source(*a, *ty);
            }
            Inst::Cvt {
                to,
                from,
                mods,
                satfinite,
                dst,
                a,
            } => {
                if let Err(message) = conversion(*to, *from, mods, *satfinite) {
                    self.error(message);
                }
                self.def_ty(*dst, *to);
                self.source(*a, *from);
            }
            Inst::CvtPack {
                to,
                mods,
                satfinite,
                dst,
                hi,
                lo,
            } => {
                if let Err(message) = pack_conversion(*to, mods, *satfinite) {
                    self.error(message);
                }
                self.def_ty(*dst, *to);
                self.sources(&[*hi, *lo], Type::F32);
            }
            Inst::Setp {
                cmp,
                ty,
                ftz,
                dst,
                a,
                b,
                combine,
            } => {
                self.compare(*cmp, *ty, *ftz);
                self.def(*dst, RegClass::Pred);
                self.sources(&[*a, *b], *ty);
                self.guard(combine.as_ref().map(|(_, guard)| guard));
            }
            Inst::Selp { dst, a, b, pred } => {
                if let Some(class) = self.class(*dst) {
                    self.def(*dst, class);
                    self.source_of_class(*a, class);
                    self.source_of_class(*b, class);
                }
                self.use_reg(*pred, RegClass::Pred);
            }
            Inst::PredBinary { dst, a, b, .. } => {
                self.def(*dst, RegClass::Pred);
                self.pred_source(*a);
                self.pred_source(*b);
            }
            Inst::PredNot { dst, a } => {
                self.def(*dst, RegClass::Pred);
                self.pred_source(*a);
            }
            Inst::Ld {
                space,
                ty,
                dst,
                addr,
                order,
                scope,
                cache,
            } => {
                self.access(*space, *ty, dst.len(), addr, (*order, *scope), *cache);
                let legal = !matches!(order, Ordering::Release | Ordering::AcquireRelease);
                self.require(legal, "a load is weak, volatile, relaxed or acquire");
                for &reg in dst.iter().take(8) {
                    self.def_ty(reg, *ty);
                }
                let distinct = dst.iter().take(9).collect::<HashSet<_>>().len() == dst.len().min(9);
                self.require(distinct, "two values are loaded into one register");
            }
            Inst::St {
                space,
                ty,
                src,
                addr,
                order,
                scope,
                cache,
            } => {
                self.access(*space, *ty, src.len(), addr, (*order, *scope), *cache);
                let writable = !matches!(space, Space::Const | Space::Param);
                self.require(writable, "this space is read only");
                let legal = !matches!(order, Ordering::Acquire | Ordering::AcquireRelease);
                self.require(legal, "a store is weak, volatile, relaxed or release");
                self.sources(&src[..src.len().min(8)], *ty);
            }
            Inst::Atomic {
                op,
                space,
                ty,
                dst,
                addr,
                b,
                c,
                order,
                scope: _,
            } => {
                let spaces = matches!(space, Space::Global | Space::Shared | Space::Generic);
                self.require(spaces, "atomics exist in global, shared and generic space");
                let legal = atomic_types(*op, *ty);
                self.require(legal, "the operation does not exist for this type");
                let ordered = matches!(
                    order,
                    Ordering::Relaxed
                        | Ordering::Acquire
                        | Ordering::Release
                        | Ordering::AcquireRelease
                );
                self.require(ordered, "an atomic is relaxed, acquire, release or acq_rel");
                self.require(
                    c.is_some() == (*op == AtomicOp::Cas),
                    "`cas`, and nothing else, takes two values",
                );
                let reducible = !matches!(op, AtomicOp::Cas | AtomicOp::Exch);
                self.require(dst.is_some() || reducible, "`red` has no exch and no cas");
                self.address(addr, *space, ty.memory_bytes().unwrap_or(1));
                self.source(*b, *ty);
                if let Some(c) = c {
                    self.source(*c, *ty);
                }
                if let Some(dst) = dst {
                    self.def_ty(*dst, *ty);
                }
            }
            Inst::Prefetch { space, addr } => {
                let spaces = matches!(space, Space::Global | Space::Local | Space::Generic);
                self.require(spaces, "prefetch exists in global, local and generic space");
                self.prefetch_address(addr, *space);
            }
            Inst::CvtaToGeneric { space, dst, a } | Inst::CvtaFromGeneric { space, dst, a } => {
                let to = matches!(inst, Inst::CvtaToGeneric { .. });
                self.window(*space);
                let window = *space != Space::Global;
                self.pointer_def(*dst, !to && window);
                self.pointer_source(*a, to && window);
            }
            Inst::IsSpace { space, dst, a } => {
                self.window(*space);
                self.def(*dst, RegClass::Pred);
                self.pointer_source(*a, false);
            }
            Inst::CpAsync {
                bytes,
                shared,
                global,
                src_bytes,
                cache,
            } => {
                self.require(
                    matches!(bytes, 4 | 8 | 16),
                    "cp.async copies 4, 8 or 16 bytes",
                );
                let cached = matches!(cache, CacheHint::Default)
                    || (*cache == CacheHint::Global && *bytes == 16);
                self.require(cached, "cp.async takes `cg`, with 16 bytes, or no hint");
                self.shared_address(shared, *bytes);
                self.address(global, Space::Global, *bytes);
                if let Some(src_bytes) = src_bytes {
                    self.source(*src_bytes, Type::U32);
                    if let Operand::Imm(given) = src_bytes {
                        self.require(
                            *given <= u64::from(*bytes),
                            "more source bytes than are copied",
                        );
                    }
                }
            }
            Inst::CpAsyncCommit | Inst::CpAsyncWaitGroup { .. } | Inst::CpAsyncWaitAll => {}
            Inst::Mbarrier { addr, op } => {
                self.shared_address(addr, 8);
                self.mbarrier(op);
            }
            Inst::Fence { kind } => {
                if let FenceKind::Memory(order, _) = kind {
                    let legal = matches!(
                        order,
                        Ordering::SequentiallyConsistent
                            | Ordering::AcquireRelease
                            | Ordering::Acquire
                            | Ordering::Release
                    );
                    self.require(legal, "a fence is sc, acq_rel, acquire or release");
                }
            }
            _ => self.synchronisation(inst),
        }
    }

    /// Warp operations, barriers and the rest.
    fn synchronisation(&mut self, inst: &Inst) {
        match inst {
            Inst::Shfl {
                dst,
                in_range,
                a,
                lane,
                clamp,
                members,
                ..
            } => {
                self.def(*dst, RegClass::B32);
                if let Some(in_range) = in_range {
                    self.def(*in_range, RegClass::Pred);
                }
                self.source(*a, Type::B32);
                self.sources(&[*lane, *clamp], Type::U32);
                self.members(*members);
            }
            Inst::Vote {
                dst, pred, members, ..
            } => {
                self.def(*dst, RegClass::Pred);
                self.guard(Some(pred));
                self.members(*members);
            }
            Inst::Ballot { dst, pred, members } => {
                self.def(*dst, RegClass::B32);
                self.guard(Some(pred));
                self.members(*members);
            }
            Inst::MatchAny {
                ty,
                dst,
                a,
                members,
            } => self.matching(*ty, *dst, None, *a, *members),
            Inst::MatchAll {
                ty,
                dst,
                pred,
                a,
                members,
            } => {
                self.matching(*ty, *dst, *pred, *a, *members);
            }
            Inst::Redux {
                op,
                ty,
                abs,
                dst,
                a,
                members,
            } => {
                let legal = match op {
                    ReduxOp::Add => matches!(ty, Type::U32 | Type::S32),
                    ReduxOp::Min | ReduxOp::Max => {
                        matches!(ty, Type::U32 | Type::S32 | Type::F32)
                    }
                    ReduxOp::And | ReduxOp::Or | ReduxOp::Xor => ty.is_integer() && ty.bits() == 32,
                    ReduxOp::MinNan | ReduxOp::MaxNan => *ty == Type::F32,
                };
                self.require(legal, "the operation does not exist for this type");
                self.require(!abs || *ty == Type::F32, "`abs` belongs to f32");
                self.def_ty(*dst, *ty);
                self.source(*a, *ty);
                self.members(*members);
            }
            Inst::Elect {
                leader,
                is_leader,
                members,
            } => {
                if let Some(leader) = leader {
                    self.def(*leader, RegClass::B32);
                }
                self.def(*is_leader, RegClass::Pred);
                self.members(*members);
            }
            Inst::ActiveMask { dst } => self.def(*dst, RegClass::B32),
            Inst::WarpSync { members } => self.members(*members),
            Inst::BarrierSync { id, count, .. } => self.barrier(*id, *count),
            Inst::BarrierArrive { id, count, .. } => self.barrier(*id, Some(*count)),
            Inst::BarrierReduce {
                op,
                dst,
                id,
                count,
                pred,
                ..
            } => {
                self.barrier(*id, *count);
                self.guard(Some(pred));
                let class = match op {
                    BarrierReduction::Popc => RegClass::B32,
                    BarrierReduction::And | BarrierReduction::Or => RegClass::Pred,
                };
                self.def(*dst, class);
            }
            Inst::Nanosleep { nanoseconds } => self.source(*nanoseconds, Type::U32),
            Inst::Trap => {}
            Inst::Assert { pred, .. } => self.guard(Some(pred)),
            Inst::Printf { format, args } => {
                match conversions(format) {
                    Some(count) if count == args.len() => {}
                    Some(count) => self.error(format!(
                        "the format takes {count} values, {} are given",
                        args.len()
                    )),
                    None => self.error("the format ends inside of a conversion"),
                }
                self.require(args.len() <= 32, "printf takes at most 32 values");
                for arg in args.iter().take(32) {
                    self.source(arg.value, arg.ty);
                }
            }
            Inst::Unmodelled { name } => self.require(!name.is_empty(), "it has no name"),
            // Everything else is checked above.
            _ => {}
        }
    }

    fn float(&mut self, allowed: Option<Allowed>, mods: &FloatMods) {
        let Some(allowed) = allowed else {
            self.error("the operation does not exist for this type");
            return;
        };
        let rounding = match mods.rounding {
            Rounding::NearestEven => true,
            Rounding::NearestAway => false,
            _ => allowed.rounding,
        };
        self.require(
            rounding,
            "this rounding does not exist for the operation and type",
        );
        self.require(
            allowed.ftz || !mods.ftz,
            "`ftz` does not exist for the operation and type",
        );
        self.require(
            allowed.sat || !mods.sat,
            "`sat` does not exist for the operation and type",
        );
        self.require(
            allowed.relu || !mods.relu,
            "`relu` does not exist for the operation and type",
        );
    }

    fn compare(&mut self, cmp: Compare, ty: Type, ftz: bool) {
        let ordered = matches!(
            cmp,
            Compare::Eq | Compare::Ne | Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge
        );
        let legal = if ty.is_float_scalar() {
            true
        } else if signed_or_unsigned(ty) {
            ordered && ty.bits() >= 16
        } else {
            ty.is_integer() && ty.bits() >= 16 && matches!(cmp, Compare::Eq | Compare::Ne)
        };
        self.require(legal, "the comparison does not exist for this type");
        self.require(
            !ftz || matches!(ty, Type::F32 | Type::F16),
            "`ftz` belongs to f32 and f16 here",
        );
    }

    fn access(
        &mut self,
        space: Space,
        ty: Type,
        count: usize,
        addr: &Address,
        (order, _): (Ordering, Scope),
        cache: CacheHint,
    ) {
        self.require(
            matches!(count, 1 | 2 | 4 | 8),
            "1, 2, 4 or 8 values are moved at once",
        );
        let Some(size) = ty.memory_bytes() else {
            self.error(format!("memory holds no values of type {}", ty.name()));
            return;
        };
        let bytes = size.saturating_mul(count.min(64) as u32);
        self.require(bytes <= 32, "at most 32 bytes are moved at once");
        self.require(
            bytes <= 16 || matches!(space, Space::Global | Space::Generic),
            "32 bytes at once are moved in global memory only",
        );
        self.require(
            order != Ordering::SequentiallyConsistent,
            "an access is never sc; use a fence",
        );
        let strong = !matches!(order, Ordering::Weak | Ordering::Volatile);
        self.require(
            !strong || matches!(space, Space::Global | Space::Shared | Space::Generic),
            "only global, shared and generic accesses are ordered",
        );
        self.require(
            cache != CacheHint::NonCoherent || (space == Space::Global && order == Ordering::Weak),
            "`nc` belongs to weak global loads",
        );
        self.address(addr, space, bytes);
    }

    fn prefetch_address(&mut self, addr: &Address, space: Space) {
        // A prefetch checks nothing at run time, so its place is not checked here either.
        if let Operand::Reg(_) = addr.base {
            self.address(addr, space, 1);
        }
    }

    fn window(&mut self, space: Space) {
        self.require(space != Space::Generic, "the space must be a definite one");
    }

    fn pointer_def(&mut self, reg: Reg, may_be_32: bool) {
        match self.class(reg) {
            Some(RegClass::B32) if may_be_32 => self.def(reg, RegClass::B32),
            _ => self.def(reg, RegClass::B64),
        }
    }

    fn pointer_source(&mut self, operand: Operand, may_be_32: bool) {
        if let Operand::Reg(reg) = operand
            && may_be_32
            && self.class(reg) == Some(RegClass::B32)
        {
            self.use_reg(reg, RegClass::B32);
        } else {
            self.source(operand, Type::U64);
        }
    }

    fn mbarrier(&mut self, op: &MbarrierOp) {
        match op {
            MbarrierOp::Init { count } => {
                self.source(*count, Type::U32);
                if let Operand::Imm(count) = count {
                    self.require(
                        (1..1 << 20).contains(count),
                        "an mbarrier expects 1 to 2^20 - 1 arrivals",
                    );
                }
            }
            MbarrierOp::Inval | MbarrierOp::CpAsyncArrive { .. } => {}
            MbarrierOp::Arrive {
                state,
                count,
                expect_tx,
            } => {
                if let Some(state) = state {
                    self.def(*state, RegClass::B64);
                }
                self.source(*count, Type::U32);
                if let Some(bytes) = expect_tx {
                    self.source(*bytes, Type::U32);
                }
            }
            MbarrierOp::ExpectTx { bytes } | MbarrierOp::CompleteTx { bytes } => {
                self.source(*bytes, Type::U32);
            }
            MbarrierOp::TestWaitParity { done, parity }
            | MbarrierOp::TryWaitParity { done, parity } => {
                self.def(*done, RegClass::Pred);
                self.source(*parity, Type::U32);
            }
            MbarrierOp::TestWait { done, state } => {
                self.def(*done, RegClass::Pred);
                self.source(*state, Type::B64);
            }
        }
    }

    fn matching(&mut self, ty: Type, dst: Reg, pred: Option<Reg>, a: Operand, members: Operand) {
        let legal = ty.is_integer() && matches!(ty.bits(), 32 | 64);
        self.require(legal, "match compares 32 or 64 bits");
        self.def(dst, RegClass::B32);
        if let Some(pred) = pred {
            self.def(pred, RegClass::Pred);
        }
        self.source(a, ty);
        self.members(members);
    }

    fn barrier(&mut self, id: Operand, count: Option<Operand>) {
        self.source(id, Type::U32);
        if let Operand::Imm(id) = id {
            self.require(id < 16, "barriers are numbered 0 to 15");
        }
        if let Some(count) = count {
            self.source(count, Type::U32);
            if let Operand::Imm(count) = count {
                self.require(
                    count != 0 && count % 32 == 0 && count <= u64::from(MAX_THREADS),
                    "a barrier's count is a multiple of 32, from 32 to 1024",
                );
            }
        }
    }
}
