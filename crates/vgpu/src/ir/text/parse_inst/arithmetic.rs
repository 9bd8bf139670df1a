//! Arithmetic, conversions, comparisons and predicates.

use super::{Mnemonic, Mods, Result, is_float};
use crate::ir::text::lex::Kind;
use crate::ir::text::names::Named;
use crate::ir::text::parse::Parser;
use crate::ir::*;

impl<'a> Parser<'a> {
    pub(super) fn mov(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        if m.eat("special") {
            m.finish()?;
            let dst = self.reg()?;
            self.comma()?;
            let name = self.word("a special register")?;
            let special = Special::from_text(name.text).ok_or_else(|| {
                name.error(format!("unknown special register {}", name.describe()))
            })?;
            return Ok(Inst::ReadSpecial { dst, special });
        }
        let Some(ty) = m.ty_or_pred()? else {
            let dst = self.typed_dst(RegClass::Pred)?;
            self.comma()?;
            let src = self.predicate()?;
            return Ok(Inst::Mov { dst, src });
        };
        let dst = self.typed_dst(ty.class())?;
        let src = match self.then(ty)? {
            Operand::Imm(bits) => Operand::Imm(extend(bits, ty)),
            reg => reg,
        };
        Ok(Inst::Mov { dst, src })
    }

    pub(super) fn pack(&mut self, mut m: Mnemonic<'a>, unpack: bool) -> Result<Inst> {
        let at = m.unexpected("`b64` or `b32`");
        let (whole, half) = match m.ty()? {
            Type::B64 => (Type::B64, Type::B32),
            Type::B32 => (Type::B32, Type::B16),
            _ => return Err(at),
        };
        if unpack {
            let lo = self.reg()?;
            self.comma()?;
            let hi = self.reg()?;
            self.comma()?;
            let token = self.peek()?;
            let src = self.typed_dst(whole.class()).map_err(|error| {
                if token.kind == Kind::Register {
                    token.error(format!(
                        "`unpack.{}` takes a register of that class",
                        whole.name()
                    ))
                } else {
                    error
                }
            })?;
            return Ok(Inst::Unpack {
                lo,
                hi,
                src: Operand::Reg(src),
            });
        }
        let dst = self.typed_dst(whole.class())?;
        let (lo, hi) = (self.then(half)?, self.then(half)?);
        Ok(Inst::Pack { dst, lo, hi })
    }

    pub(super) fn arithmetic(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        // `mul.lo.T`, `mul24.hi.T`: the second part belongs to an integer operation's name.
        if matches!(m.peek(), Some("lo" | "hi" | "wide")) && first.starts_with("mul") {
            let part = m.peek().unwrap_or("");
            let Some(op) = IntBinary::from_text(&format!("{first}.{part}")) else {
                return Err(m.unexpected("`lo` or `hi`"));
            };
            m.advance();
            return self.int_binary(m, op);
        }
        let approx = first == "div" && m.eat("approx");
        let full = first == "div" && !approx && m.eat("full");
        let mods = Mods::read(&mut m)?;
        let at = m.unexpected("a type that this operation has");
        let ty = m.ty()?;
        if is_float(ty) {
            let op = match (first, mods.nan, mods.xorsign_abs) {
                ("div", false, false) if approx => FloatBinary::DivApprox,
                ("div", false, false) if full => FloatBinary::DivFull,
                ("min", true, false) => FloatBinary::MinNan,
                ("max", true, false) => FloatBinary::MaxNan,
                ("min", false, true) => FloatBinary::MinXorsignAbs,
                ("max", false, true) => FloatBinary::MaxXorsignAbs,
                (_, false, false) => FloatBinary::from_text(first).ok_or(at)?,
                _ => {
                    return Err(m
                        .token
                        .error("this operation has no `nan` or `xorsign.abs`, or not both"));
                }
            };
            if mods.satfinite {
                return Err(m.token.error("`satfinite` belongs to conversions"));
            }
            let (dst, a, b) = self.dab(ty, ty)?;
            return Ok(Inst::FloatBinary {
                op,
                ty,
                mods: mods.float,
                dst,
                a,
                b,
            });
        }
        let saturated = FloatMods {
            sat: true,
            ..FloatMods::default()
        };
        let op = match first {
            "add" if mods.float == saturated => IntBinary::AddSat,
            "sub" if mods.float == saturated => IntBinary::SubSat,
            _ => {
                self.no_mods(&m, &mods)?;
                // Without `lo`, `hi` or `wide` there is no integer `mul`.
                match IntBinary::from_text(first) {
                    Some(op) if !approx && !full => op,
                    _ => return Err(at),
                }
            }
        };
        self.no_extra(&m, &mods)?;
        let (dst, a, b) = self.dab(ty, op.second(ty))?;
        Ok(Inst::IntBinary { op, ty, dst, a, b })
    }

    pub(super) fn int_binary(&mut self, mut m: Mnemonic<'a>, op: IntBinary) -> Result<Inst> {
        let ty = m.ty()?;
        let (dst, a, b) = self.dab(ty, op.second(ty))?;
        Ok(Inst::IntBinary { op, ty, dst, a, b })
    }

    pub(super) fn logic(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        if let Some(op) = BoolOp::from_text(first)
            && m.eat("pred")
        {
            m.finish()?;
            let dst = self.reg()?;
            self.comma()?;
            let a = self.predicate()?;
            self.comma()?;
            let b = self.predicate()?;
            return Ok(Inst::PredBinary { op, dst, a, b });
        }
        match IntBinary::from_text(first) {
            Some(op) => self.int_binary(m, op),
            None => Err(m.unexpected("an operation")),
        }
    }

    pub(super) fn float_unary(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        let name = if m.eat("approx") {
            format!("{first}.approx")
        } else {
            first.to_owned()
        };
        let mods = Mods::read(&mut m)?;
        let at = m.unexpected("a type that this operation has");
        let ty = m.ty()?;
        if !is_float(ty)
            && let Some(op) = IntUnary::from_text(&name)
        {
            self.no_mods(&m, &mods)?;
            let (dst, a) = self.da(ty)?;
            return Ok(Inst::IntUnary { op, ty, dst, a });
        }
        let Some(op) = FloatUnary::from_text(&name) else {
            return Err(match first {
                "neg" | "abs" => at,
                _ => m
                    .token
                    .error(format!("`{first}` exists as `{first}.approx` only")),
            });
        };
        self.no_extra(&m, &mods)?;
        let (dst, a) = self.da(ty)?;
        Ok(Inst::FloatUnary {
            op,
            ty,
            mods: mods.float,
            dst,
            a,
        })
    }

    pub(super) fn int_unary(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        if first == "not" && m.eat("pred") {
            m.finish()?;
            let dst = self.reg()?;
            self.comma()?;
            let a = self.predicate()?;
            return Ok(Inst::PredNot { dst, a });
        }
        let op = if first == "bfind" && m.eat("shiftamt") {
            IntUnary::BfindShiftAmt
        } else {
            IntUnary::from_text(first).ok_or_else(|| m.unexpected("an operation"))?
        };
        let ty = m.ty()?;
        let (dst, a) = self.da(ty)?;
        Ok(Inst::IntUnary { op, ty, dst, a })
    }

    pub(super) fn mad(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        let part = m.peek().unwrap_or("");
        let Some(width) = MadWidth::from_text(&format!("{first}.{part}")) else {
            return Err(m.unexpected("`lo`, `hi` or `wide`"));
        };
        m.advance();
        let ty = m.ty()?;
        let (dst, a, b, c) = self.dabc(ty, ty, width.result(ty))?;
        Ok(Inst::Mad {
            width,
            ty,
            dst,
            a,
            b,
            c,
        })
    }

    pub(super) fn carry(&mut self, mut m: Mnemonic<'a>, subtract: bool) -> Result<Inst> {
        let ty = m.ty()?;
        let (dst, carry_out) = self.joined()?;
        let (a, b) = (self.then(ty)?, self.then(ty)?);
        let carry_in = if self.eat(b',')? {
            Some(self.reg()?)
        } else {
            None
        };
        Ok(Inst::Carry {
            subtract,
            ty,
            dst,
            carry_out,
            a,
            b,
            carry_in,
        })
    }

    pub(super) fn bits(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
        let word = Type::B32;
        match first {
            "sad" => {
                let ty = m.ty()?;
                let (dst, a, b, c) = self.dabc(ty, ty, ty)?;
                Ok(Inst::Sad { ty, dst, a, b, c })
            }
            "bfe" => {
                let ty = m.ty()?;
                let (dst, a, pos, len) = self.dabc(ty, Type::U32, Type::U32)?;
                Ok(Inst::Bfe {
                    ty,
                    dst,
                    a,
                    pos,
                    len,
                })
            }
            "bfi" => {
                let ty = m.ty()?;
                let (dst, a, b, pos) = self.dabc(ty, ty, Type::U32)?;
                let len = self.then(Type::U32)?;
                Ok(Inst::Bfi {
                    ty,
                    dst,
                    a,
                    b,
                    pos,
                    len,
                })
            }
            "lop3" => {
                self.only(&mut m, "b32")?;
                let (dst, a, b, c) = self.dabc(word, word, word)?;
                self.comma()?;
                let table = self.integer("a truth table", 255)? as u8;
                Ok(Inst::Lop3 {
                    dst,
                    a,
                    b,
                    c,
                    table,
                })
            }
            "shf" => {
                let left = m.eat("l");
                if !left && !m.eat("r") {
                    return Err(m.unexpected("`l` or `r`"));
                }
                let clamp = m.eat("clamp");
                if !clamp && !m.eat("wrap") {
                    return Err(m.unexpected("`clamp` or `wrap`"));
                }
                self.only(&mut m, "b32")?;
                let (dst, lo, hi, amount) = self.dabc(word, word, Type::U32)?;
                Ok(Inst::FunnelShift {
                    left,
                    clamp,
                    dst,
                    lo,
                    hi,
                    amount,
                })
            }
            "prmt" => {
                if !m.eat("b32") {
                    return Err(m.unexpected("`b32`"));
                }
                let mode = m.try_named().unwrap_or(PermuteMode::Index);
                m.finish()?;
                let (dst, a, b, selector) = self.dabc(word, word, word)?;
                Ok(Inst::Prmt {
                    mode,
                    dst,
                    a,
                    b,
                    selector,
                })
            }
            _ => {
                let four = first == "dp4a";
                let hi = !four && m.eat("hi");
                if !four && !hi && !m.eat("lo") {
                    return Err(m.unexpected("`lo` or `hi`"));
                }
                let a_signed = self.signedness(&mut m)?;
                let b_signed = self.signedness(&mut m)?;
                m.finish()?;
                let (dst, a, b, c) = self.dabc(word, word, word)?;
                Ok(if four {
                    Inst::Dp4a {
                        a_signed,
                        b_signed,
                        dst,
                        a,
                        b,
                        c,
                    }
                } else {
                    Inst::Dp2a {
                        hi,
                        a_signed,
                        b_signed,
                        dst,
                        a,
                        b,
                        c,
                    }
                })
            }
        }
    }

    pub(super) fn only(&self, m: &mut Mnemonic<'_>, part: &str) -> Result<()> {
        if m.eat(part) {
            m.finish()
        } else {
            Err(m.unexpected(&format!("`{part}`")))
        }
    }

    pub(super) fn signedness(&self, m: &mut Mnemonic<'_>) -> Result<bool> {
        let signed = m.eat("s32");
        if !signed && !m.eat("u32") {
            return Err(m.unexpected("`s32` or `u32`"));
        }
        Ok(signed)
    }

    pub(super) fn cvt(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        let pack = m.eat("pack");
        let mods = Mods::read(&mut m)?;
        if mods.nan || mods.xorsign_abs {
            return Err(m.token.error("conversions have no `nan` or `xorsign.abs`"));
        }
        let satfinite = mods.satfinite;
        let to = m.named("the type to convert to")?;
        let mods = mods.float;
        if pack {
            m.finish()?;
            let (dst, hi, lo) = self.dab(Type::F32, Type::F32)?;
            return Ok(Inst::CvtPack {
                to,
                mods,
                satfinite,
                dst,
                hi,
                lo,
            });
        }
        let from = m.named("the type to convert from")?;
        m.finish()?;
        let (dst, a) = self.da(from)?;
        Ok(Inst::Cvt {
            to,
            from,
            mods,
            satfinite,
            dst,
            a,
        })
    }

    pub(super) fn setp(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        let cmp = m.named("a comparison")?;
        let combination = m.try_named::<BoolOp>();
        let ftz = m.eat("ftz");
        let ty = m.ty()?;
        let (dst, a, b) = self.dab(ty, ty)?;
        let combine = match combination {
            None => None,
            Some(op) => {
                self.comma()?;
                Some((op, self.guard()?))
            }
        };
        Ok(Inst::Setp {
            cmp,
            ty,
            ftz,
            dst,
            a,
            b,
            combine,
        })
    }

    pub(super) fn selp(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
        let ty = m.ty_or_pred()?;
        let dst = self.typed_dst(ty.map_or(RegClass::Pred, Type::class))?;
        let mut value = || -> Result<Operand> {
            self.comma()?;
            Ok(match ty {
                None => self.predicate()?,
                Some(ty) => match self.operand(ty)? {
                    Operand::Imm(bits) => Operand::Imm(extend(bits, ty)),
                    reg => reg,
                },
            })
        };
        let (a, b) = (value()?, value()?);
        self.comma()?;
        let pred = self.reg()?;
        Ok(Inst::Selp { dst, a, b, pred })
    }
}

/// A narrow immediate as an instruction that produces its type leaves it in a register.
fn extend(bits: u64, ty: Type) -> u64 {
    match ty {
        Type::S8 => u64::from(bits as u8 as i8 as i32 as u32),
        Type::S16 => u64::from(bits as u16 as i16 as i32 as u32),
        _ => bits,
    }
}
