//! Instructions: the mnemonic's parts, then the operands in order.

use super::ParseError;
use super::lex::{Kind, Token};
use super::names::Named;
use super::parse::Parser;
use crate::ir::*;

type Result<T> = std::result::Result<T, ParseError>;

/// The parts of a mnemonic between its points, read from the left.
struct Mnemonic<'a> {
    token: Token<'a>,
    rest: Option<&'a str>,
}

impl<'a> Mnemonic<'a> {
    fn new(token: Token<'a>) -> Self {
        Mnemonic {
            token,
            rest: Some(token.text),
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.rest
            .map(|rest| rest.split_once('.').map_or(rest, |(part, _)| part))
    }

    fn advance(&mut self) {
        self.rest = self
            .rest
            .and_then(|rest| rest.split_once('.'))
            .map(|(_, rest)| rest);
    }

    fn eat(&mut self, part: &str) -> bool {
        let found = self.peek() == Some(part);
        if found {
            self.advance();
        }
        found
    }

    fn try_named<T: Named>(&mut self) -> Option<T> {
        let value = T::from_text(self.peek()?)?;
        self.advance();
        Some(value)
    }

    fn named<T: Named>(&mut self, what: &str) -> Result<T> {
        match self.try_named() {
            Some(value) => Ok(value),
            None => Err(self.unexpected(what)),
        }
    }

    fn ty(&mut self) -> Result<Type> {
        let ty = self.named("a type")?;
        self.finish()?;
        Ok(ty)
    }

    /// A type, or `None` for `pred`.
    fn ty_or_pred(&mut self) -> Result<Option<Type>> {
        if self.eat("pred") {
            self.finish()?;
            return Ok(None);
        }
        self.ty().map(Some)
    }

    fn finish(&self) -> Result<()> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(self.unexpected("the end of the instruction's name")),
        }
    }

    fn unexpected(&self, what: &str) -> ParseError {
        let name: String = self.token.text.chars().take(60).collect();
        match self.peek() {
            Some(part) => {
                let part: String = part.chars().take(40).collect();
                self.token
                    .error(format!("in `{name}`: expected {what}, found `{part}`"))
            }
            None => self.token.error(format!("`{name}` lacks {what}")),
        }
    }
}

/// Everything that may stand between a floating operation's name and its type.
#[derive(Default)]
struct Mods {
    float: FloatMods,
    satfinite: bool,
    nan: bool,
    xorsign_abs: bool,
}

impl Mods {
    fn read(m: &mut Mnemonic<'_>) -> Result<Mods> {
        let mut mods = Mods::default();
        let mut rounded = false;
        loop {
            let before = m.unexpected("each modifier once");
            if let Some(rounding) = m.try_named::<Rounding>() {
                if rounded {
                    return Err(before);
                }
                rounded = true;
                mods.float.rounding = rounding;
                continue;
            }
            let flag = match m.peek() {
                Some("ftz") => &mut mods.float.ftz,
                Some("sat") => &mut mods.float.sat,
                Some("relu") => &mut mods.float.relu,
                Some("satfinite") => &mut mods.satfinite,
                Some("nan") => &mut mods.nan,
                Some("xorsign") => &mut mods.xorsign_abs,
                _ => return Ok(mods),
            };
            if std::mem::replace(flag, true) {
                return Err(before);
            }
            if m.eat("xorsign") {
                if !m.eat("abs") {
                    return Err(m.unexpected("`xorsign.abs`"));
                }
            } else {
                m.advance();
            }
        }
    }
}

const fn is_float(ty: Type) -> bool {
    ty.is_float_scalar() || ty.is_float_packed()
}

impl<'a> Parser<'a> {
    /// The instruction whose mnemonic has just been taken.
    pub fn instruction(&mut self, word: &Token<'a>) -> Result<Inst> {
        let mut m = Mnemonic::new(*word);
        let first = m.peek().unwrap_or("");
        m.advance();
        match first {
            "mov" => self.mov(m),
            "pack" | "unpack" => self.pack(m, first == "unpack"),
            "add" | "sub" | "mul" | "div" | "rem" | "min" | "max" | "copysign" | "mul24" => {
                self.arithmetic(m, first)
            }
            "and" | "or" | "xor" | "shl" | "shr" => self.logic(m, first),
            "neg" | "abs" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" => {
                self.float_unary(m, first)
            }
            "not" | "cnot" | "popc" | "clz" | "bfind" | "brev" => self.int_unary(m, first),
            "mad" | "mad24" => self.mad(m, first),
            "addc" | "subc" => self.carry(m, first == "subc"),
            "sad" | "bfe" | "bfi" | "lop3" | "shf" | "prmt" | "dp4a" | "dp2a" => {
                self.bits(m, first)
            }
            "fma" => {
                let mods = Mods::read(&mut m)?;
                let ty = m.ty()?;
                self.no_extra(&m, &mods)?;
                let (dst, a, b, c) = self.dabc(ty, ty, ty)?;
                Ok(Inst::Fma {
                    ty,
                    mods: mods.float,
                    dst,
                    a,
                    b,
                    c,
                })
            }
            "testp" => {
                let class = m.named("a class of numbers")?;
                let ty = m.ty()?;
                let (dst, a) = self.da(ty)?;
                Ok(Inst::Testp { class, ty, dst, a })
            }
            "cvt" => self.cvt(m),
            "setp" => self.setp(m),
            "selp" => self.selp(m),
            "ld" => self.load(m),
            "st" => self.store(m),
            "atom" | "red" => self.atomic(m, first == "atom"),
            "prefetch" | "cvta" | "isspace" => self.address_of(m, first),
            "cp" => self.cp_async(m),
            "mbarrier" => self.mbarrier(m),
            "fence" => self.fence(m),
            "shfl" | "vote" | "ballot" | "match" | "redux" | "elect" | "activemask"
            | "warpsync" => self.warp(m, first),
            "bar" | "barrier" => self.barrier(m, first == "bar"),
            "nanosleep" | "trap" | "assert" | "printf" | "unmodelled" => self.other(m, first),
            _ => Err(word.error(format!("unknown instruction {}", word.describe()))),
        }
    }

    // ---- operand lists ----

    fn then(&mut self, ty: Type) -> Result<Operand> {
        self.comma()?;
        self.operand(ty)
    }

    fn da(&mut self, a: Type) -> Result<(Reg, Operand)> {
        Ok((self.reg()?, self.then(a)?))
    }

    fn dab(&mut self, a: Type, b: Type) -> Result<(Reg, Operand, Operand)> {
        Ok((self.reg()?, self.then(a)?, self.then(b)?))
    }

    fn dabc(&mut self, a: Type, b: Type, c: Type) -> Result<(Reg, Operand, Operand, Operand)> {
        Ok((self.reg()?, self.then(a)?, self.then(b)?, self.then(c)?))
    }

    /// A destination whose class must be the mnemonic's.
    fn typed_dst(&mut self, class: RegClass) -> Result<Reg> {
        let token = self.peek()?;
        let dst = self.reg()?;
        if self.class_of(dst) != class {
            return Err(token.error(format!(
                "{} is {}, the instruction writes {}",
                token.describe(),
                self.class_of(dst).text(),
                class.text()
            )));
        }
        Ok(dst)
    }

    /// `d` or `d|p`.
    fn joined(&mut self) -> Result<(Reg, Option<Reg>)> {
        let dst = self.reg()?;
        let second = if self.eat(b'|')? {
            Some(self.reg()?)
        } else {
            None
        };
        Ok((dst, second))
    }

    fn optional(&mut self, ty: Type) -> Result<Option<Operand>> {
        if self.eat(b',')? {
            self.operand(ty).map(Some)
        } else {
            Ok(None)
        }
    }

    fn no_extra(&self, m: &Mnemonic<'_>, mods: &Mods) -> Result<()> {
        if mods.satfinite || mods.nan || mods.xorsign_abs {
            let name: String = m.token.text.chars().take(60).collect();
            return Err(m.token.error(format!(
                "`{name}`: `satfinite`, `nan` and `xorsign.abs` do not belong to this operation"
            )));
        }
        Ok(())
    }

    fn no_mods(&self, m: &Mnemonic<'_>, mods: &Mods) -> Result<()> {
        self.no_extra(m, mods)?;
        if mods.float != FloatMods::default() {
            let name: String = m.token.text.chars().take(60).collect();
            return Err(m.token.error(format!(
                "`{name}`: integer operations have no such modifier"
            )));
        }
        Ok(())
    }

    // ---- families ----

    fn mov(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    fn pack(&mut self, mut m: Mnemonic<'a>, unpack: bool) -> Result<Inst> {
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

    fn arithmetic(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn int_binary(&mut self, mut m: Mnemonic<'a>, op: IntBinary) -> Result<Inst> {
        let ty = m.ty()?;
        let (dst, a, b) = self.dab(ty, op.second(ty))?;
        Ok(Inst::IntBinary { op, ty, dst, a, b })
    }

    fn logic(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn float_unary(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn int_unary(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn mad(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn carry(&mut self, mut m: Mnemonic<'a>, subtract: bool) -> Result<Inst> {
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

    fn bits(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn only(&self, m: &mut Mnemonic<'_>, part: &str) -> Result<()> {
        if m.eat(part) {
            m.finish()
        } else {
            Err(m.unexpected(&format!("`{part}`")))
        }
    }

    fn signedness(&self, m: &mut Mnemonic<'_>) -> Result<bool> {
        let signed = m.eat("s32");
        if !signed && !m.eat("u32") {
            return Err(m.unexpected("`s32` or `u32`"));
        }
        Ok(signed)
    }

    fn cvt(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    fn setp(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    fn selp(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    /// `{.ORD.SCOPE}`; weak where absent.
    fn ordering(&self, m: &mut Mnemonic<'_>, absent: Ordering) -> Result<(Ordering, Scope)> {
        let Some(order) = m.try_named::<Ordering>() else {
            return Ok((absent, Scope::Gpu));
        };
        if matches!(order, Ordering::Weak | Ordering::Volatile) {
            return Ok((order, Scope::Gpu));
        }
        Ok((order, m.named("a scope: cta, cluster, gpu or sys")?))
    }

    /// `.SPACE{.HINT}{.vN}.T`.
    fn access(&self, m: &mut Mnemonic<'_>) -> Result<(Space, CacheHint, Option<usize>, Type)> {
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

    fn load(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    fn store(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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
    fn list<T>(
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

    fn atomic(&mut self, mut m: Mnemonic<'a>, returns: bool) -> Result<Inst> {
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

    fn address_of(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn cp_async(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    fn mbarrier(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    fn fence(&mut self, mut m: Mnemonic<'a>) -> Result<Inst> {
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

    fn warp(&mut self, mut m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

    fn barrier(&mut self, mut m: Mnemonic<'a>, aligned: bool) -> Result<Inst> {
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

    fn other(&mut self, m: Mnemonic<'a>, first: &str) -> Result<Inst> {
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

/// A narrow immediate as an instruction that produces its type leaves it in a register.
fn extend(bits: u64, ty: Type) -> u64 {
    match ty {
        Type::S8 => u64::from(bits as u8 as i8 as i32 as u32),
        Type::S16 => u64::from(bits as u16 as i16 as i32 as u32),
        _ => bits,
    }
}
