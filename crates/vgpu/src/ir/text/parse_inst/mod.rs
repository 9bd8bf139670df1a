//! Instructions: the mnemonic's parts, then the operands in order.

mod arithmetic;
mod memory;

use super::ParseError;
use super::lex::Token;
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
}
