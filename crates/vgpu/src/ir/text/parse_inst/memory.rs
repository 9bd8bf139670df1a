//! Memory, asynchronous copies, warp operations, barriers and the rest.

use super::{Mnemonic, Result};
use crate::ir::text::lex::Kind;
use crate::ir::text::names::Named;
use crate::ir::text::parse::Parser;
use crate::ir::*;

impl<'a> Parser<'a> {
    /// `{.ORD.SCOPE}`; weak where absent.
    pub(super) fn ordering(
        &self,
        m: &mut Mnemonic<'_>,
        absent: Ordering,
    ) -> Result<(Ordering, Scope)> {
        let Some(order) = m.try_named::<Ordering>() else {
            return Ok((absent, Scope::Gpu));
        };
        if matches!(order, Ordering::Weak | Ordering::Volatile) {
            return Ok((order, Scope::Gpu));
        }
        Ok((order, m.named("a scope: cta, cluster, gpu or sys")?))
    }

    /// `.SPACE{.HINT}{.vN}.T`.
    pub(super) fn access(
        &self,
        m: &mut Mnemonic<'_>,
    ) -> Result<(Space, CacheHint, Option<usize>, Type)> {
        let space = m.named("a space: generic, global, shared, local, const or param")?;
        let cache = m.try_named().unwrap_or(CacheHint::Default);
        let count = match m.peek() {
            Some("v2") => Some(2),
            Some("v4") => Some(4),
            Some("v8") => Some(8),
            _ => None,
        };
        if count.is_some() {
            m.advance();
        }
        Ok((space, cache, count, m.ty()?))
    }

    pub(super) fn load(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        let (order, scope) = self.ordering(&mut m, Ordering::Weak)?;
        let (space, cache, count, ty) = self.access(&mut m)?;
        let dst = self.list(count, |parser| parser.reg())?;
        self.comma()?;
        let addr = self.address()?;
        Ok(Inst::Ld {
            space,
            ty,
            dst,
            addr,
            order,
            scope,
            cache,
        })
    }

    pub(super) fn store(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        let (order, scope) = self.ordering(&mut m, Ordering::Weak)?;
        let (space, cache, count, ty) = self.access(&mut m)?;
        let addr = self.address()?;
        self.comma()?;
        let src = self.list(count, |parser| parser.operand(ty))?;
        Ok(Inst::St {
            space,
            ty,
            src,
            addr,
            order,
            scope,
            cache,
        })
    }

    /// One value, or `{a, b, ...}` of the given count.
    pub(super) fn list<T>(
        &mut self,
        count: Option<usize>,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let Some(count) = count else {
            return Ok(vec![item(self)?]);
        };
        self.expect(b'{')?;
        let mut values = vec![item(self)?];
        while values.len() < count {
            self.comma()?;
            values.push(item(self)?);
        }
        self.expect(b'}')?;
        Ok(values)
    }

    pub(super) fn atomic(&mut self, mut m: Mnemonic<'a>, returns: bool) -> Result<Inst> {
        let op = m.named("an operation")?;
        let (order, scope) = self.ordering(&mut m, Ordering::Relaxed)?;
        let space = m.named("a space: generic, global or shared")?;
        let ty = m.ty()?;
        let dst = if returns {
            let dst = self.reg()?;
            self.comma()?;
            Some(dst)
        } else {
            None
        };
        let addr = self.address()?;
        let b = self.then(ty)?;
        let c = if op == AtomicOp::Cas {
            Some(self.then(ty)?)
        } else {
            None
        };
        Ok(Inst::Atomic {
            op,
            space,
            ty,
            dst,
            addr,
            b,
            c,
            order,
            scope,
        })
    }

    pub(super) fn address_of(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        let to = first == "cvta" && m.eat("to_generic");
        if first == "cvta" && !to && !m.eat("from_generic") {
            return Err(m.unexpected("`to_generic` or `from_generic`"));
        }
        let space = m.named("a space: generic, global, shared, local, const or param")?;
        m.finish()?;
        if first == "prefetch" {
            return Ok(Inst::Prefetch {
                space,
                addr: self.address()?,
            });
        }
        let (dst, a) = self.da(Type::U64)?;
        Ok(match first {
            "isspace" => Inst::IsSpace { space, dst, a },
            _ if to => Inst::CvtaToGeneric { space, dst, a },
            _ => Inst::CvtaFromGeneric { space, dst, a },
        })
    }

    pub(super) fn cp_async(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        if !m.eat("async") {
            return Err(m.unexpected("`async`"));
        }
        match m.peek() {
            Some("commit") => {
                self.only(&mut m, "commit")?;
                Ok(Inst::CpAsyncCommit)
            }
            Some("wait_all") => {
                self.only(&mut m, "wait_all")?;
                Ok(Inst::CpAsyncWaitAll)
            }
            Some("wait_group") => {
                self.only(&mut m, "wait_group")?;
                let pending = self.integer32("a number of groups")?;
                Ok(Inst::CpAsyncWaitGroup { pending })
            }
            _ => {
                let cache = m.try_named().unwrap_or(CacheHint::Default);
                let bytes = match m.peek() {
                    Some("4") => 4,
                    Some("8") => 8,
                    Some("16") => 16,
                    _ => return Err(m.unexpected("4, 8 or 16 bytes")),
                };
                m.advance();
                m.finish()?;
                let shared = self.address()?;
                self.comma()?;
                let global = self.address()?;
                let src_bytes = self.optional(Type::U32)?;
                Ok(Inst::CpAsync {
                    bytes,
                    shared,
                    global,
                    src_bytes,
                    cache,
                })
            }
        }
    }

    pub(super) fn mbarrier(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        let kind = m.peek().unwrap_or("");
        let after = m.unexpected(
            "init, inval, arrive, expect_tx, complete_tx, test_wait, try_wait or cp_async_arrive",
        );
        m.advance();
        let modifier = m.peek();
        if modifier.is_some() {
            m.advance();
        }
        m.finish()?;
        let word = Type::U32;
        let (addr, op) = match (kind, modifier) {
            ("init", None) => (
                self.address()?,
                MbarrierOp::Init {
                    count: self.then(word)?,
                },
            ),
            ("inval", None) => (self.address()?, MbarrierOp::Inval),
            ("arrive", None | Some("expect_tx")) => {
                let state = if self.peek()?.kind == Kind::Register {
                    let state = self.reg()?;
                    self.comma()?;
                    Some(state)
                } else {
                    None
                };
                let addr = self.address()?;
                let count = self.then(word)?;
                let expect_tx = if modifier.is_some() {
                    Some(self.then(word)?)
                } else {
                    None
                };
                (
                    addr,
                    MbarrierOp::Arrive {
                        state,
                        count,
                        expect_tx,
                    },
                )
            }
            ("expect_tx", None) => (
                self.address()?,
                MbarrierOp::ExpectTx {
                    bytes: self.then(word)?,
                },
            ),
            ("complete_tx", None) => (
                self.address()?,
                MbarrierOp::CompleteTx {
                    bytes: self.then(word)?,
                },
            ),
            ("test_wait" | "try_wait", Some("parity")) => {
                let done = self.reg()?;
                self.comma()?;
                let addr = self.address()?;
                let parity = self.then(word)?;
                let op = if kind == "test_wait" {
                    MbarrierOp::TestWaitParity { done, parity }
                } else {
                    MbarrierOp::TryWaitParity { done, parity }
                };
                (addr, op)
            }
            ("test_wait", None) => {
                let done = self.reg()?;
                self.comma()?;
                (
                    self.address()?,
                    MbarrierOp::TestWait {
                        done,
                        state: self.then(Type::B64)?,
                    },
                )
            }
            ("cp_async_arrive", None | Some("noinc")) => (
                self.address()?,
                MbarrierOp::CpAsyncArrive {
                    noinc: modifier.is_some(),
                },
            ),
            _ => return Err(after),
        };
        Ok(Inst::Mbarrier { addr, op })
    }

    pub(super) fn fence(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        let kind = if m.eat("proxy") {
            self.only(&mut m, "async")?;
            FenceKind::ProxyAsync
        } else if m.eat("mbarrier_init") {
            m.finish()?;
            FenceKind::MbarrierInit
        } else {
            let order = m.named("sc, acq_rel, acquire, release, proxy or mbarrier_init")?;
            let scope = m.named("a scope: cta, cluster, gpu or sys")?;
            m.finish()?;
            FenceKind::Memory(order, scope)
        };
        Ok(Inst::Fence { kind })
    }

    pub(super) fn warp(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        let word = Type::B32;
        match first {
            "shfl" => {
                let mode = m.named("up, down, bfly or idx")?;
                self.only(&mut m, "b32")?;
                let (dst, in_range) = self.joined()?;
                let a = self.then(word)?;
                let (lane, clamp) = (self.then(Type::U32)?, self.then(Type::U32)?);
                let members = self.then(word)?;
                Ok(Inst::Shfl {
                    mode,
                    dst,
                    in_range,
                    a,
                    lane,
                    clamp,
                    members,
                })
            }
            "vote" | "ballot" => {
                let mode = if first == "vote" {
                    let mode = m.named("all, any or uni")?;
                    m.finish()?;
                    Some(mode)
                } else {
                    self.only(&mut m, "b32")?;
                    None
                };
                let dst = self.reg()?;
                self.comma()?;
                let pred = self.guard()?;
                let members = self.then(word)?;
                Ok(match mode {
                    Some(mode) => Inst::Vote {
                        mode,
                        dst,
                        pred,
                        members,
                    },
                    None => Inst::Ballot { dst, pred, members },
                })
            }
            "match" => {
                let all = m.eat("all");
                if !all && !m.eat("any") {
                    return Err(m.unexpected("`any` or `all`"));
                }
                let ty = m.ty()?;
                if !all {
                    let (dst, a, members) = self.dab(ty, word)?;
                    return Ok(Inst::MatchAny {
                        ty,
                        dst,
                        a,
                        members,
                    });
                }
                let (dst, pred) = self.joined()?;
                let (a, members) = (self.then(ty)?, self.then(word)?);
                Ok(Inst::MatchAll {
                    ty,
                    dst,
                    pred,
                    a,
                    members,
                })
            }
            "redux" => {
                let mut op = m.named("an operation")?;
                if m.eat("nan") {
                    op = match op {
                        ReduxOp::Min => ReduxOp::MinNan,
                        ReduxOp::Max => ReduxOp::MaxNan,
                        _ => return Err(m.token.error("only min and max have `nan`")),
                    };
                }
                let abs = m.eat("abs");
                let ty = m.ty()?;
                let (dst, a, members) = self.dab(ty, word)?;
                Ok(Inst::Redux {
                    op,
                    ty,
                    abs,
                    dst,
                    a,
                    members,
                })
            }
            "elect" => {
                m.finish()?;
                let (leader, is_leader) = match self.joined()? {
                    (leader, Some(is_leader)) => (Some(leader), is_leader),
                    (is_leader, None) => (None, is_leader),
                };
                let members = self.then(word)?;
                Ok(Inst::Elect {
                    leader,
                    is_leader,
                    members,
                })
            }
            "activemask" => {
                m.finish()?;
                Ok(Inst::ActiveMask { dst: self.reg()? })
            }
            _ => {
                m.finish()?;
                Ok(Inst::WarpSync {
                    members: self.operand(word)?,
                })
            }
        }
    }

    pub(super) fn barrier(&mut self, mut m: Mnemonic<'a>, aligned: bool) -> Result<Inst> {
        let word = Type::U32;
        if m.eat("sync") {
            m.finish()?;
            let id = self.operand(word)?;
            let count = self.optional(word)?;
            return Ok(Inst::BarrierSync { aligned, id, count });
        }
        if m.eat("arrive") {
            m.finish()?;
            let (id, count) = (self.operand(word)?, self.then(word)?);
            return Ok(Inst::BarrierArrive { aligned, id, count });
        }
        if !m.eat("red") {
            return Err(m.unexpected("sync, arrive or red"));
        }
        let op = m.named("popc, and or or")?;
        m.finish()?;
        let dst = self.reg()?;
        let id = self.then(word)?;
        self.comma()?;
        // `{count,} {!}p`: what stands before another comma is the count.
        let token = self.peek()?;
        if token.kind == Kind::Punct(b'!') {
            let pred = self.guard()?;
            return Ok(Inst::BarrierReduce {
                aligned,
                op,
                dst,
                id,
                count: None,
                pred,
            });
        }
        let value = self.operand(word)?;
        if self.eat(b',')? {
            let pred = self.guard()?;
            return Ok(Inst::BarrierReduce {
                aligned,
                op,
                dst,
                id,
                count: Some(value),
                pred,
            });
        }
        match value {
            Operand::Reg(pred) => {
                let pred = Guard {
                    pred,
                    negated: false,
                };
                Ok(Inst::BarrierReduce {
                    aligned,
                    op,
                    dst,
                    id,
                    count: None,
                    pred,
                })
            }
            Operand::Imm(_) => Err(token.error("expected a predicate register")),
        }
    }

    pub(super) fn other(&mut self, m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        m.finish()?;
        match first {
            "nanosleep" => Ok(Inst::Nanosleep {
                nanoseconds: self.operand(Type::U32)?,
            }),
            "trap" => Ok(Inst::Trap),
            "assert" => {
                let pred = self.guard()?;
                self.comma()?;
                let message = self.string("a message in quotes")?;
                Ok(Inst::Assert { pred, message })
            }
            "printf" => {
                let format = self.string("a format in quotes")?;
                let mut args = Vec::new();
                while self.eat(b',')? {
                    let token = self.word("the type of an argument")?;
                    let ty = Type::from_text(token.text)
                        .ok_or_else(|| token.error(format!("unknown type {}", token.describe())))?;
                    args.push(PrintArg {
                        ty,
                        value: self.operand(ty)?,
                    });
                }
                Ok(Inst::Printf { format, args })
            }
            _ => Ok(Inst::Unmodelled {
                name: self.string("a name in quotes")?,
            }),
        }
    }
}
