//! Modules, kernels, structure and operands; instructions are in `parse_inst`.

use std::collections::{HashMap, HashSet};

use super::lex::{Kind, Lexer, Token, unescape};
use super::names::Named;
use super::{MAX_NESTING, ParseError};
use crate::ir::*;

type Result<T> = std::result::Result<T, ParseError>;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    peeked: Option<Token<'a>>,
    kernel: Kernel,
    regs: HashMap<&'a str, Reg>,
    location: Location,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Self {
        Parser {
            lexer: Lexer::new(text),
            peeked: None,
            kernel: Kernel::default(),
            regs: HashMap::new(),
            location: Location::default(),
        }
    }

    // ---- tokens ----

    pub fn peek(&mut self) -> Result<Token<'a>> {
        match self.peeked {
            Some(token) => Ok(token),
            None => {
                let token = self.lexer.next()?;
                self.peeked = Some(token);
                Ok(token)
            }
        }
    }

    pub fn next(&mut self) -> Result<Token<'a>> {
        let token = self.peek()?;
        self.peeked = None;
        Ok(token)
    }

    /// Takes a punctuation mark if it stands next.
    pub fn eat(&mut self, mark: u8) -> Result<bool> {
        let found = self.peek()?.kind == Kind::Punct(mark);
        if found {
            self.peeked = None;
        }
        Ok(found)
    }

    pub fn expect(&mut self, mark: u8) -> Result<()> {
        let token = self.next()?;
        if token.kind == Kind::Punct(mark) {
            Ok(())
        } else {
            Err(token.error(format!(
                "expected `{}`, found {}",
                mark as char,
                token.describe()
            )))
        }
    }

    pub fn comma(&mut self) -> Result<()> {
        self.expect(b',')
    }

    fn expect_kind(&mut self, kind: Kind, what: &str) -> Result<Token<'a>> {
        let token = self.next()?;
        if token.kind == kind {
            Ok(token)
        } else {
            Err(token.error(format!("expected {what}, found {}", token.describe())))
        }
    }

    pub fn word(&mut self, what: &str) -> Result<Token<'a>> {
        self.expect_kind(Kind::Word, what)
    }

    pub fn string(&mut self, what: &str) -> Result<String> {
        let token = self.expect_kind(Kind::String, what)?;
        unescape(&token)
    }

    fn skip_newlines(&mut self) -> Result<()> {
        while self.peek()?.kind == Kind::Newline {
            self.peeked = None;
        }
        Ok(())
    }

    /// The end of a line; a closing brace or the end of the text also ends an instruction.
    fn end_of_line(&mut self) -> Result<()> {
        let token = self.peek()?;
        match token.kind {
            Kind::Newline => {
                self.peeked = None;
                Ok(())
            }
            Kind::Punct(b'}') | Kind::End => Ok(()),
            _ => Err(token.error(format!(
                "expected the end of the line, found {}",
                token.describe()
            ))),
        }
    }

    // ---- numbers and operands ----

    /// An unsigned integer, decimal or hexadecimal, up to `max`.
    pub fn integer(&mut self, what: &str, max: u64) -> Result<u64> {
        let token = self.expect_kind(Kind::Number, what)?;
        match unsigned(token.text) {
            Some(value) if value <= u128::from(max) => Ok(value as u64),
            Some(_) => Err(token.error(format!("{what} may be at most {max}"))),
            None => Err(token.error(format!("expected {what}, found {}", token.describe()))),
        }
    }

    pub fn integer32(&mut self, what: &str) -> Result<u32> {
        Ok(self.integer(what, u64::from(u32::MAX))? as u32)
    }

    /// A register by name.
    pub fn reg(&mut self) -> Result<Reg> {
        let token = self.expect_kind(Kind::Register, "a register")?;
        self.resolve(&token)
    }

    fn resolve(&self, token: &Token<'a>) -> Result<Reg> {
        self.regs
            .get(token.text)
            .copied()
            .ok_or_else(|| token.error(format!("register {} is not declared", token.describe())))
    }

    /// The class of a declared register.
    pub fn class_of(&self, reg: Reg) -> RegClass {
        self.kernel.regs[reg.0 as usize].class
    }

    /// A source operand read as `ty`.
    pub fn operand(&mut self, ty: Type) -> Result<Operand> {
        let token = self.next()?;
        match token.kind {
            Kind::Register => Ok(Operand::Reg(self.resolve(&token)?)),
            Kind::Punct(b'-') => {
                let number = self.next()?;
                immediate(&number, true, ty).map(Operand::Imm)
            }
            _ => immediate(&token, false, ty).map(Operand::Imm),
        }
    }

    /// A predicate register, `true` or `false`.
    pub fn predicate(&mut self) -> Result<Operand> {
        let token = self.next()?;
        match (token.kind, token.text) {
            (Kind::Register, _) => Ok(Operand::Reg(self.resolve(&token)?)),
            (Kind::Word, "true") => Ok(Operand::Imm(1)),
            (Kind::Word, "false") => Ok(Operand::Imm(0)),
            _ => Err(token.error(format!(
                "expected a predicate register, `true` or `false`, found {}",
                token.describe()
            ))),
        }
    }

    /// `{!}%p`.
    pub fn guard(&mut self) -> Result<Guard> {
        let negated = self.eat(b'!')?;
        Ok(Guard {
            pred: self.reg()?,
            negated,
        })
    }

    /// `[base]`, `[base+offset]`, `[base-offset]`.
    pub fn address(&mut self) -> Result<Address> {
        self.expect(b'[')?;
        let base = self.operand(Type::U64)?;
        let sign = if self.eat(b'+')? {
            1
        } else if self.eat(b'-')? {
            -1
        } else {
            self.expect(b']')?;
            return Ok(Address { base, offset: 0 });
        };
        let token = self.expect_kind(Kind::Number, "an offset in bytes")?;
        let offset = unsigned(token.text)
            .and_then(|value| i128::try_from(value).ok())
            .and_then(|value| i64::try_from(sign * value).ok())
            .ok_or_else(|| {
                token.error(format!("{} is not an offset in bytes", token.describe()))
            })?;
        self.expect(b']')?;
        Ok(Address { base, offset })
    }

    // ---- module and kernel ----

    pub fn module(mut self) -> Result<Module> {
        let mut module = Module::default();
        self.skip_newlines()?;
        let version = self.word("`.vir 1`")?;
        if version.text != ".vir" {
            return Err(version.error("the text must begin with `.vir 1`"));
        }
        let at = self.peek()?;
        if self.integer32("the version")? != 1 {
            return Err(at.error("this is not version 1 of the text form, the only one known here"));
        }
        self.end_of_line()?;
        let mut names = HashSet::new();
        loop {
            self.skip_newlines()?;
            let token = self.next()?;
            match (token.kind, token.text) {
                (Kind::End, _) => return Ok(module),
                (Kind::Word, ".file") => {
                    let number = self.peek()?;
                    let index = self.integer32("a file's number")?;
                    if index as usize != module.files.len() + 1 {
                        return Err(number.error(format!(
                            "files are numbered in order: this one is {}",
                            module.files.len() + 1
                        )));
                    }
                    module.files.push(self.string("the file's name in quotes")?);
                    self.end_of_line()?;
                }
                (Kind::Word, ".const") => {
                    let at = self.peek()?;
                    let digits = self.string("bytes in hexadecimal in quotes")?;
                    append_hex(&mut module.constants, &digits)
                        .ok_or_else(|| at.error("constants are pairs of hexadecimal digits"))?;
                    self.end_of_line()?;
                }
                (Kind::Word, ".kernel") => {
                    let name = self.expect_kind(Kind::Symbol, "the kernel's name as `@name`")?;
                    if !names.insert(name.text) {
                        return Err(name.error(format!(
                            "there are two kernels of the name {}",
                            name.describe()
                        )));
                    }
                    module.kernels.push(self.kernel(name.text)?);
                }
                _ => {
                    return Err(token.error(format!(
                        "expected `.kernel`, `.file` or `.const`, found {}",
                        token.describe()
                    )));
                }
            }
        }
    }

    fn kernel(&mut self, name: &str) -> Result<Kernel> {
        self.kernel = Kernel {
            name: name.to_owned(),
            ..Kernel::default()
        };
        self.regs.clear();
        self.location = Location::default();
        self.params()?;
        self.skip_newlines()?;
        self.expect(b'{')?;
        let body = self.block(0)?;
        self.end_of_line()?;
        let mut kernel = std::mem::take(&mut self.kernel);
        kernel.body = body;
        Ok(kernel)
    }

    fn params(&mut self) -> Result<()> {
        self.expect(b'(')?;
        let mut names = HashSet::new();
        self.skip_newlines()?;
        if self.eat(b')')? {
            return Ok(());
        }
        loop {
            self.skip_newlines()?;
            let token = self.expect_kind(Kind::Register, "a parameter as `%name: size`")?;
            if !names.insert(token.text) {
                return Err(token.error(format!("there are two parameters {}", token.describe())));
            }
            self.expect(b':')?;
            let at = self.peek()?;
            let size = self.integer32("the parameter's size in bytes")?;
            let given = self.peek()?;
            let align = if given.kind == Kind::Word && given.text == "align" {
                self.next()?;
                self.integer32("the alignment in bytes")?
            } else if size.is_power_of_two() {
                size.min(64)
            } else {
                return Err(at.error(format!(
                    "a parameter of {size} bytes needs its alignment: `{size} align 8`"
                )));
            };
            self.kernel.params.push(Param {
                name: token.text.to_owned(),
                size,
                align,
            });
            self.skip_newlines()?;
            if self.eat(b')')? {
                return Ok(());
            }
            self.comma()?;
        }
    }

    // ---- structure ----

    /// Nodes up to the closing brace, which is taken. `depth` counts the structures around them.
    fn block(&mut self, depth: usize) -> Result<Block> {
        let mut block = Block::new();
        loop {
            self.skip_newlines()?;
            let token = self.next()?;
            match token.kind {
                Kind::Punct(b'}') => return Ok(block),
                Kind::Punct(b'@') => {
                    let guard = self.guard()?;
                    let word = self.word("an instruction")?;
                    let inst = self.instruction(&word)?;
                    self.push(
                        &mut block,
                        NodeKind::Inst {
                            guard: Some(guard),
                            inst,
                        },
                    );
                    self.end_of_line()?;
                }
                Kind::Word if token.text.starts_with('.') => self.directive(&token, depth)?,
                Kind::Word => {
                    let location = self.location;
                    let kind = self.node(&token, depth)?;
                    block.push(Node { location, kind });
                }
                Kind::End => return Err(token.error("a `{` is not closed")),
                _ => {
                    return Err(token.error(format!(
                        "expected an instruction, found {}",
                        token.describe()
                    )));
                }
            }
        }
    }

    fn push(&mut self, block: &mut Block, kind: NodeKind) {
        block.push(Node {
            location: self.location,
            kind,
        });
    }

    fn node(&mut self, word: &Token<'a>, depth: usize) -> Result<NodeKind> {
        let kind = match word.text {
            "if" => return self.branch(word, depth),
            "loop" => {
                let body = self.nested(word, depth)?;
                NodeKind::Loop { body }
            }
            "break" => NodeKind::Break {
                guard: self.trailing_guard()?,
            },
            "continue" => NodeKind::Continue {
                guard: self.trailing_guard()?,
            },
            "return" => NodeKind::Return {
                guard: self.trailing_guard()?,
            },
            _ => NodeKind::Inst {
                guard: None,
                inst: self.instruction(word)?,
            },
        };
        self.end_of_line()?;
        Ok(kind)
    }

    fn branch(&mut self, word: &Token<'a>, depth: usize) -> Result<NodeKind> {
        let cond = self.reg()?;
        let then = self.nested(word, depth)?;
        // `else` may stand on the closing brace's line or on the next.
        self.skip_newlines()?;
        let token = self.peek()?;
        let mut otherwise = Block::new();
        if token.kind == Kind::Word && token.text == "else" {
            self.next()?;
            otherwise = self.nested(word, depth)?;
            self.end_of_line()?;
        }
        Ok(NodeKind::If {
            cond,
            then,
            otherwise,
        })
    }

    fn nested(&mut self, word: &Token<'a>, depth: usize) -> Result<Block> {
        if depth >= MAX_NESTING {
            return Err(word.error(format!("structures are nested deeper than {MAX_NESTING}")));
        }
        self.skip_newlines()?;
        self.expect(b'{')?;
        self.block(depth + 1)
    }

    fn trailing_guard(&mut self) -> Result<Option<Guard>> {
        match self.peek()?.kind {
            Kind::Register | Kind::Punct(b'!') => self.guard().map(Some),
            _ => Ok(None),
        }
    }

    fn directive(&mut self, word: &Token<'a>, depth: usize) -> Result<()> {
        match word.text {
            ".loc" => {
                self.location = Location {
                    file: self.integer32("a file's number")?,
                    line: self.integer32("a line")?,
                };
            }
            ".reg" => self.declare()?,
            ".shared" | ".local" | ".maxthreads" | ".registers" => {
                if depth > 0 {
                    return Err(word.error(format!(
                        "{} belongs to the kernel, outside of its structures",
                        word.describe()
                    )));
                }
                let value = self.integer32("a number")?;
                let field = match word.text {
                    ".shared" => &mut self.kernel.shared_bytes,
                    ".local" => &mut self.kernel.local_bytes,
                    ".maxthreads" => &mut self.kernel.max_threads,
                    _ => &mut self.kernel.register_estimate,
                };
                *field = value;
            }
            _ => return Err(word.error(format!("unknown directive {}", word.describe()))),
        }
        self.end_of_line()
    }

    fn declare(&mut self) -> Result<()> {
        let token = self.word("a register class")?;
        let class = RegClass::from_text(token.text).ok_or_else(|| {
            token.error(format!(
                "unknown register class {}; there are pred, b32 and b64",
                token.describe()
            ))
        })?;
        while self.peek()?.kind == Kind::Register {
            let name = self.next()?;
            let index = u32::try_from(self.kernel.regs.len())
                .map_err(|_| name.error("too many registers"))?;
            if self.regs.insert(name.text, Reg(index)).is_some() {
                return Err(name.error(format!("register {} is declared twice", name.describe())));
            }
            self.kernel.regs.push(RegDecl {
                name: name.text.to_owned(),
                class,
            });
        }
        Ok(())
    }
}

/// An integer without sign, decimal or with `0x`.
fn unsigned(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u128::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}

/// The bits of an immediate read as `ty`.
fn immediate(token: &Token<'_>, negative: bool, ty: Type) -> Result<u64> {
    let expected = || {
        token.error(format!(
            "expected a register or a number of type {}, found {}",
            ty.name(),
            token.describe()
        ))
    };
    let text = token.text;
    match token.kind {
        Kind::Word if matches!(text, "inf" | "nan") && ty.is_float_scalar() => {
            let value = if text == "inf" {
                f64::INFINITY
            } else {
                f64::NAN
            };
            return Ok(float_bits(value, negative, ty));
        }
        Kind::Number => {}
        _ => return Err(expected()),
    }
    if let Some((bits, value)) = raw_bits(text) {
        if negative {
            return Err(token.error("bits have no sign"));
        }
        if ty.bits() < bits {
            return Err(token.error(format!("{bits} bits do not fit type {}", ty.name())));
        }
        return Ok(value);
    }
    if let Some(value) = unsigned(text) {
        if ty.is_float_scalar() {
            return Err(token.error(format!(
                "a number of type {} has a point or an exponent (`1.0`), \
                 or is given by its bits (`0f3F800000`, `0d3FF0000000000000`, `0h3C00`)",
                ty.name()
            )));
        }
        return integer_bits(value, negative, ty)
            .ok_or_else(|| token.error(format!("{text} does not fit type {}", ty.name())));
    }
    if !ty.is_float_scalar() {
        return Err(expected());
    }
    let value: f64 = match ty {
        // Read as f32 at once, so that it is rounded once.
        Type::F32 => text.parse::<f32>().map(f64::from),
        _ => text.parse::<f64>(),
    }
    .map_err(|_| expected())?;
    let bits = float_bits(value, negative, ty);
    if float_bits(f64::INFINITY, negative, ty) == bits {
        return Err(token.error(format!("{text} is too large for type {}", ty.name())));
    }
    Ok(bits)
}

/// `0f`, `0d`, `0h`: a number of bits and their value.
fn raw_bits(text: &str) -> Option<(u32, u64)> {
    let (bits, digits) = if let Some(digits) = text.strip_prefix("0f") {
        (32, digits)
    } else if let Some(digits) = text.strip_prefix("0d") {
        (64, digits)
    } else {
        (16, text.strip_prefix("0h")?)
    };
    let well_formed = digits.len() * 4 == bits && digits.bytes().all(|c| c.is_ascii_hexdigit());
    well_formed.then(|| {
        u64::from_str_radix(digits, 16)
            .ok()
            .map(|value| (bits as u32, value))
    })?
}

fn integer_bits(value: u128, negative: bool, ty: Type) -> Option<u64> {
    let width = ty.bits();
    let mask = u64::MAX >> (64 - width);
    if negative {
        let fits = value <= 1u128 << (width - 1);
        fits.then(|| (value as u64).wrapping_neg() & mask)
    } else {
        (value <= u128::from(mask)).then_some(value as u64)
    }
}

/// The bits of a value in a scalar floating type; NaN is the quiet one with the payload that the ISA calls canonical.
fn float_bits(value: f64, negative: bool, ty: Type) -> u64 {
    let bits = match ty {
        Type::F16 if value.is_nan() => 0x7fff,
        Type::BF16 if value.is_nan() => 0x7fff,
        Type::F32 if value.is_nan() => 0x7fff_ffff,
        Type::F16 => u64::from(half::f16::from_f64(value).to_bits()),
        Type::BF16 => u64::from(half::bf16::from_f64(value).to_bits()),
        Type::F32 => u64::from((value as f32).to_bits()),
        _ if value.is_nan() => 0x7fff_ffff_ffff_ffff,
        _ => value.to_bits(),
    };
    bits | u64::from(negative) << (ty.bits() - 1)
}

fn append_hex(bytes: &mut Vec<u8>, digits: &str) -> Option<()> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    bytes.reserve(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        let high = (pair[0] as char).to_digit(16)?;
        let low = (pair[1] as char).to_digit(16)?;
        bytes.push((high << 4 | low) as u8);
    }
    Some(())
}
