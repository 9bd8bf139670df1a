//! Every instruction to its handler.

use super::code::{Extra, Op, TRUE};
use super::structure::Lowerer;
use crate::exec::*;
use crate::ir::{
    BarrierReduction, BoolOp, Inst, Operand, Reg, RegClass, ShuffleMode, Type, VoteMode,
};

impl Lowerer<'_> {
    pub(super) fn lower(&mut self, inst: &Inst) {
        match inst {
            Inst::Mov { dst, src } => self.mov(*dst, *src),
            Inst::ReadSpecial { dst, special } => {
                let extra = self.extra(Extra::Special(*special));
                let op = Op {
                    dst: self.place(*dst),
                    c: extra,
                    x: special_code(*special),
                    ..self.fast::<ReadSpecial>()
                };
                self.emit(op);
            }
            Inst::Pack { dst, lo, hi } => {
                let wide = self.class(*dst) == RegClass::B64;
                let run = if wide {
                    self.isa.pick::<Map2<Pack32>>()
                } else {
                    self.isa.pick::<Map2<Pack16>>()
                };
                let op = Op {
                    dst: self.place(*dst),
                    a: self.v32(*lo),
                    b: self.v32(*hi),
                    ..self.op(run)
                };
                self.emit(op);
            }
            Inst::Unpack { lo, hi, src } => {
                let wide = match src {
                    Operand::Reg(reg) => self.class(*reg) == RegClass::B64,
                    Operand::Imm(value) => *value >> 32 != 0,
                };
                let op = Op {
                    dst: self.place(*lo),
                    a: self.value(*src, wide),
                    b: self.place(*hi),
                    x: u64::from(!wide),
                    ..self.fast::<Unpack2>()
                };
                self.emit(op);
            }
            Inst::IntBinary { op, ty, dst, a, b } => self.int_binary(*op, *ty, *dst, *a, *b),
            Inst::IntUnary { op, ty, dst, a } => self.int_unary(*op, *ty, *dst, *a),
            Inst::Mad {
                width,
                ty,
                dst,
                a,
                b,
                c,
            } => self.mad(*width, *ty, *dst, [*a, *b, *c]),
            Inst::Carry { .. }
            | Inst::Sad { .. }
            | Inst::Bfe { .. }
            | Inst::Bfi { .. }
            | Inst::Lop3 { .. }
            | Inst::FunnelShift { .. }
            | Inst::Prmt { .. }
            | Inst::Dp4a { .. }
            | Inst::Dp2a { .. } => self.bit_fields(inst),
            Inst::FloatBinary { .. } => self.float_binary(inst),
            Inst::FloatUnary { .. } => self.float_unary(inst),
            Inst::Fma { .. } => self.fma(inst),
            Inst::Testp { class, ty, dst, a } => self.testp(*class, *ty, *dst, *a),
            Inst::Cvt { .. } | Inst::CvtPack { .. } => self.convert(inst),
            Inst::Setp {
                cmp,
                ty,
                ftz,
                dst,
                a,
                b,
                combine,
            } => self.setp(*cmp, *ty, *ftz, *dst, *a, *b, *combine),
            Inst::Selp { dst, a, b, pred } => self.select(*dst, *a, *b, *pred),
            Inst::PredBinary { op, dst, a, b } => {
                let table = match op {
                    BoolOp::And => 0b1100_0000,
                    BoolOp::Or => 0b1111_1100,
                    BoolOp::Xor => 0b0011_1100,
                };
                self.predicate(*dst, *a, *b, table);
            }
            Inst::PredNot { dst, a } => self.predicate(*dst, *a, *a, 0b0000_1111),
            Inst::Ld {
                space,
                ty,
                dst,
                addr,
                ..
            } => self.load(*space, *ty, dst, *addr),
            Inst::St {
                space,
                ty,
                src,
                addr,
                ..
            } => self.store(*space, *ty, src, *addr),
            Inst::Atomic { .. } => self.atomic(inst),
            Inst::Prefetch { .. } | Inst::Fence { .. } => {
                let op = self.slow::<Nothing>();
                self.emit(op);
            }
            Inst::CvtaToGeneric { space, dst, a } => self.rebase(*space, *dst, *a, true),
            Inst::CvtaFromGeneric { space, dst, a } => self.rebase(*space, *dst, *a, false),
            Inst::IsSpace { space, dst, a } => self.is_space(*space, *dst, *a),
            Inst::CpAsync {
                bytes,
                shared,
                global,
                src_bytes,
                ..
            } => self.copy_async(*bytes, *shared, *global, *src_bytes),
            Inst::CpAsyncCommit => {
                let op = self.slow::<CommitCopies>();
                self.emit(op);
            }
            Inst::CpAsyncWaitGroup { pending } => {
                let op = Op {
                    x: u64::from(*pending),
                    ..self.slow::<WaitCopies>()
                };
                self.emit(op);
            }
            Inst::CpAsyncWaitAll => {
                let op = Op {
                    a: 1,
                    ..self.slow::<WaitCopies>()
                };
                self.emit(op);
            }
            Inst::Mbarrier { addr, op } => self.mbarrier(*addr, *op),
            _ => self.lower_warp(inst),
        }
    }

    fn mov(&mut self, dst: Reg, src: Operand) {
        let op = match self.class(dst) {
            RegClass::Pred => {
                let src = self.pred(src);
                return self.predicate_op(dst, src, src, 0b1111_0000);
            }
            RegClass::B32 => Op {
                dst: self.place(dst),
                a: self.v32(src),
                ..self.fast::<Map1<Copy1<u32>>>()
            },
            RegClass::B64 => Op {
                dst: self.place(dst),
                a: self.v64(src),
                ..self.fast::<Map1<Copy1<u64>>>()
            },
        };
        self.emit(op);
    }

    fn predicate(&mut self, dst: Reg, a: Operand, b: Operand, table: u64) {
        let (a, b) = (self.pred(a), self.pred(b));
        self.predicate_op(dst, a, b, table);
    }

    fn predicate_op(&mut self, dst: Reg, a: u32, b: u32, table: u64) {
        let op = Op {
            dst: self.place(dst),
            a,
            b,
            c: TRUE,
            x: table,
            ..self.fast::<PredicateTable>()
        };
        self.emit(op);
    }

    fn lower_warp(&mut self, inst: &Inst) {
        let op = match inst {
            Inst::Shfl {
                mode,
                dst,
                in_range,
                a,
                lane,
                clamp,
                members,
            } => {
                let isa = self.isa;
                let run = match mode {
                    ShuffleMode::Up => isa.pick::<Shuffle<0>>(),
                    ShuffleMode::Down => isa.pick::<Shuffle<1>>(),
                    ShuffleMode::Bfly => isa.pick::<Shuffle<2>>(),
                    ShuffleMode::Idx => isa.pick::<Shuffle<3>>(),
                };
                let in_range = in_range.map_or(0, |reg| self.place(reg));
                Op {
                    dst: self.place(*dst),
                    a: self.v32(*a),
                    b: self.v32(*lane),
                    c: self.v32(*clamp),
                    x: u64::from(self.v32(*members)) | u64::from(in_range) << 32,
                    ..self.op(run)
                }
            }
            Inst::Vote {
                mode,
                dst,
                pred,
                members,
            } => {
                let (a, b) = self.guard(*pred);
                Op {
                    dst: self.place(*dst),
                    a,
                    b,
                    c: self.v32(*members),
                    x: match mode {
                        VoteMode::All => 0,
                        VoteMode::Any => 1,
                        VoteMode::Uni => 2,
                    },
                    ..self.slow::<Vote>()
                }
            }
            Inst::Ballot { dst, pred, members } => {
                let (a, b) = self.guard(*pred);
                Op {
                    dst: self.place(*dst),
                    a,
                    b,
                    c: self.v32(*members),
                    x: 3,
                    ..self.slow::<Vote>()
                }
            }
            Inst::MatchAny {
                ty,
                dst,
                a,
                members,
            } => Op {
                dst: self.place(*dst),
                a: self.value(*a, ty.bits() == 64),
                c: self.v32(*members),
                x: u64::from(ty.bits() == 64) << 32,
                ..self.slow::<Match>()
            },
            Inst::MatchAll {
                ty,
                dst,
                pred,
                a,
                members,
            } => Op {
                dst: self.place(*dst),
                a: self.value(*a, ty.bits() == 64),
                b: pred.map_or(0, |pred| self.place(pred)),
                c: self.v32(*members),
                x: u64::from(ty.bits() == 64) << 32 | 1 << 33,
                ..self.slow::<Match>()
            },
            Inst::Redux {
                op,
                ty,
                abs,
                dst,
                a,
                members,
            } => Op {
                dst: self.place(*dst),
                a: self.v32(*a),
                c: self.v32(*members),
                x: u64::from(self.extra(Extra::Redux(*op, *ty, *abs))),
                ..self.slow::<Redux>()
            },
            Inst::Elect {
                leader,
                is_leader,
                members,
            } => Op {
                dst: leader.map_or(0, |leader| self.place(leader)),
                b: self.place(*is_leader),
                c: self.v32(*members),
                x: u64::from(leader.is_some()),
                ..self.slow::<Elect>()
            },
            Inst::ActiveMask { dst } => Op {
                dst: self.place(*dst),
                ..self.slow::<ActiveMask>()
            },
            Inst::WarpSync { members } => Op {
                c: self.v32(*members),
                ..self.slow::<WarpSync>()
            },
            Inst::BarrierSync { aligned, id, count } => {
                self.barrier(*aligned, *id, *count, BarrierKind::Sync)
            }
            Inst::BarrierArrive { aligned, id, count } => {
                self.barrier(*aligned, *id, Some(*count), BarrierKind::Arrive)
            }
            Inst::BarrierReduce {
                aligned,
                op,
                dst,
                id,
                count,
                pred,
            } => {
                let (pred, flip) = self.guard(*pred);
                let kind = match op {
                    BarrierReduction::Popc => 0,
                    BarrierReduction::And => 1,
                    BarrierReduction::Or => 2,
                };
                let kind = BarrierKind::Reduce {
                    dst: self.place(*dst),
                    kind,
                    pred,
                    flip,
                };
                self.barrier(*aligned, *id, *count, kind)
            }
            Inst::Nanosleep { .. } => self.slow::<Nanosleep>(),
            Inst::Trap => self.slow::<Trap>(),
            Inst::Assert { pred, message } => {
                let (a, b) = self.guard(*pred);
                let extra = self.extra(Extra::Text(message.clone()));
                Op {
                    a,
                    b,
                    x: u64::from(extra),
                    ..self.slow::<Assert>()
                }
            }
            Inst::Printf { format, args } => {
                let args = args.iter().map(|arg| {
                    let wide = arg.ty.bits() == 64;
                    (arg.ty, self.value(arg.value, wide))
                });
                let args: Vec<(Type, u32)> = args.collect();
                let extra = self.extra(Extra::Print(format.clone(), args));
                Op {
                    x: u64::from(extra),
                    ..self.slow::<Printf>()
                }
            }
            Inst::Unmodelled { name } => return self.unmodelled(name.clone()),
            other => unreachable!("lowered elsewhere: {other:?}"),
        };
        self.emit(op);
    }

    fn barrier(
        &mut self,
        aligned: bool,
        id: Operand,
        count: Option<Operand>,
        kind: BarrierKind,
    ) -> Op {
        let extra = self.extra(Extra::Barrier(kind));
        Op {
            dst: u32::from(aligned),
            a: self.v32(id),
            b: count.map_or(0, |count| self.v32(count)),
            c: extra,
            x: u64::from(count.is_some()),
            ..self.slow::<CtaBarrier>()
        }
    }
}
