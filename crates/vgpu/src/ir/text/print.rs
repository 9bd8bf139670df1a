//! Writes a module in the text form; what it writes, the parser reads back as the same module.

use std::fmt::Write;

use super::lex::escape;
use super::names::Named;
use crate::ir::*;

/// The text form of a module.
///
/// A module that [`super::super::verify`] accepts is read back by [`super::parse`] as an equal one; of
/// another module the text shows what is there.
pub fn print(module: &Module) -> String {
    let mut out = String::from(".vir 1\n");
    for (index, file) in module.files.iter().enumerate() {
        line(
            &mut out,
            0,
            format_args!(".file {} {}", index + 1, escape(file)),
        );
    }
    for bytes in module.constants.chunks(32) {
        let mut digits = String::with_capacity(64);
        for byte in bytes {
            digits.push(hex_digit(byte >> 4));
            digits.push(hex_digit(byte & 15));
        }
        line(&mut out, 0, format_args!(".const \"{digits}\""));
    }
    for kernel in &module.kernels {
        Printer {
            out: &mut out,
            kernel,
            location: Location::default(),
        }
        .kernel();
    }
    out
}

/// The text form of one instruction, without its guard.
pub fn print_inst(kernel: &Kernel, inst: &Inst) -> String {
    Printer {
        out: &mut String::new(),
        kernel,
        location: Location::default(),
    }
    .inst(inst)
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}

fn line(out: &mut String, depth: usize, text: std::fmt::Arguments<'_>) {
    for _ in 0..depth {
        out.push_str("  ");
    }
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

struct Printer<'a> {
    out: &'a mut String,
    kernel: &'a Kernel,
    location: Location,
}

impl Printer<'_> {
    fn kernel(&mut self) {
        let kernel = self.kernel;
        let params: Vec<String> = kernel.params.iter().map(param).collect();
        line(
            self.out,
            0,
            format_args!("\n.kernel @{} ({}) {{", kernel.name, params.join(", ")),
        );
        for (name, value) in [
            (".shared", kernel.shared_bytes),
            (".local", kernel.local_bytes),
            (".maxthreads", kernel.max_threads),
            (".registers", kernel.register_estimate),
        ] {
            if value != 0 {
                line(self.out, 1, format_args!("{name} {value}"));
            }
        }
        self.declarations();
        self.block(&kernel.body, 1);
        line(self.out, 0, format_args!("}}"));
    }

    /// Registers in their order, neighbours of one class on a line.
    fn declarations(&mut self) {
        for run in self.kernel.regs.chunk_by(|a, b| a.class == b.class) {
            for names in run.chunks(16) {
                let mut text = format!(".reg {}", run[0].class.text());
                for reg in names {
                    text.push_str(" %");
                    text.push_str(&reg.name);
                }
                line(self.out, 1, format_args!("{text}"));
            }
        }
    }

    fn block(&mut self, block: &[Node], depth: usize) {
        for node in block {
            if node.location != self.location {
                self.location = node.location;
                let Location { file, line: number } = node.location;
                line(self.out, depth, format_args!(".loc {file} {number}"));
            }
            match &node.kind {
                NodeKind::Inst { guard, inst } => {
                    let text = self.inst(inst);
                    match guard {
                        Some(guard) => {
                            let guard = self.g(guard);
                            line(self.out, depth, format_args!("@{guard} {text}"));
                        }
                        None => line(self.out, depth, format_args!("{text}")),
                    }
                }
                NodeKind::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let cond = self.r(*cond);
                    line(self.out, depth, format_args!("if {cond} {{"));
                    self.block(then, depth + 1);
                    if !otherwise.is_empty() {
                        line(self.out, depth, format_args!("}} else {{"));
                        self.block(otherwise, depth + 1);
                    }
                    line(self.out, depth, format_args!("}}"));
                }
                NodeKind::Loop { body } => {
                    line(self.out, depth, format_args!("loop {{"));
                    self.block(body, depth + 1);
                    line(self.out, depth, format_args!("}}"));
                }
                NodeKind::Break { guard } => self.leave("break", guard, depth),
                NodeKind::Continue { guard } => self.leave("continue", guard, depth),
                NodeKind::Return { guard } => self.leave("return", guard, depth),
            }
        }
    }

    fn leave(&mut self, word: &str, guard: &Option<Guard>, depth: usize) {
        match guard {
            Some(guard) => {
                let guard = self.g(guard);
                line(self.out, depth, format_args!("{word} {guard}"));
            }
            None => line(self.out, depth, format_args!("{word}")),
        }
    }

    // ---- operands ----

    fn r(&self, reg: Reg) -> String {
        match self.kernel.regs.get(reg.0 as usize) {
            Some(decl) => format!("%{}", decl.name),
            None => format!("%<register {}>", reg.0),
        }
    }

    fn class(&self, reg: Reg) -> RegClass {
        self.kernel
            .regs
            .get(reg.0 as usize)
            .map_or(RegClass::B32, |decl| decl.class)
    }

    fn g(&self, guard: &Guard) -> String {
        format!(
            "{}{}",
            if guard.negated { "!" } else { "" },
            self.r(guard.pred)
        )
    }

    fn o(&self, operand: Operand, ty: Type) -> String {
        match operand {
            Operand::Reg(reg) => self.r(reg),
            Operand::Imm(bits) => immediate(bits, ty),
        }
    }

    /// An operand of an instruction that takes any class.
    fn any(&self, operand: Operand, class: RegClass) -> String {
        match class.bits_type() {
            Some(ty) => self.o(operand, ty),
            None => self.p(operand),
        }
    }

    fn p(&self, operand: Operand) -> String {
        match operand {
            Operand::Reg(reg) => self.r(reg),
            Operand::Imm(bits) => (if bits & 1 == 1 { "true" } else { "false" }).into(),
        }
    }

    fn joined(&self, first: Reg, second: Option<Reg>) -> String {
        match second {
            Some(second) => format!("{}|{}", self.r(first), self.r(second)),
            None => self.r(first),
        }
    }

    fn a(&self, addr: &Address) -> String {
        let base = self.o(addr.base, Type::U64);
        match addr.offset {
            0 => format!("[{base}]"),
            offset => format!("[{base}{offset:+}]"),
        }
    }

    fn list(&self, items: Vec<String>) -> String {
        if items.len() == 1 {
            items.into_iter().next().unwrap_or_default()
        } else {
            format!("{{{}}}", items.join(", "))
        }
    }

    fn optional(&self, operand: Option<Operand>, ty: Type) -> String {
        operand.map_or(String::new(), |operand| {
            format!(", {}", self.o(operand, ty))
        })
    }

    fn int(&self, name: &str, ty: Type, dst: Reg, sources: &[(Operand, Type)]) -> String {
        self.op(format!("{name}.{}", ty.text()), dst, sources)
    }

    fn float(
        &self,
        name: &str,
        mods: &FloatMods,
        ty: Type,
        dst: Reg,
        sources: &[(Operand, Type)],
    ) -> String {
        // `min.nan`, `min.xorsign.abs`: these parts stand after the modifiers, `approx` before.
        let (head, tail) = match name.split_once('.') {
            Some((head, tail @ ("nan" | "xorsign.abs"))) => (head, format!(".{tail}")),
            _ => (name, String::new()),
        };
        self.op(
            format!("{head}{}{tail}.{}", modifiers(mods), ty.text()),
            dst,
            sources,
        )
    }

    fn op(&self, mut text: String, dst: Reg, sources: &[(Operand, Type)]) -> String {
        text.push(' ');
        text.push_str(&self.r(dst));
        for &(operand, ty) in sources {
            text.push_str(", ");
            text.push_str(&self.o(operand, ty));
        }
        text
    }

    // ---- instructions ----

    fn inst(&self, inst: &Inst) -> String {
        const B16: Type = Type::B16;
        const B32: Type = Type::B32;
        const U32: Type = Type::U32;
        const U64: Type = Type::U64;
        match inst {
            Inst::Mov { dst, src } => {
                let class = self.class(*dst);
                format!(
                    "mov.{} {}, {}",
                    class.text(),
                    self.r(*dst),
                    self.any(*src, class)
                )
            }
            Inst::ReadSpecial { dst, special } => {
                format!("mov.special {}, {}", self.r(*dst), special.text())
            }
            Inst::Pack { dst, lo, hi } => {
                let (name, half) = match self.class(*dst) {
                    RegClass::B64 => ("pack.b64", B32),
                    _ => ("pack.b32", B16),
                };
                self.op(name.into(), *dst, &[(*lo, half), (*hi, half)])
            }
            Inst::Unpack { lo, hi, src } => {
                let ty = match src {
                    Operand::Reg(reg) if self.class(*reg) == RegClass::B32 => B32,
                    _ => Type::B64,
                };
                let (lo, hi) = (self.r(*lo), self.r(*hi));
                format!("unpack.{} {lo}, {hi}, {}", ty.text(), self.o(*src, ty))
            }
            Inst::IntBinary { op, ty, dst, a, b } => {
                self.int(op.text(), *ty, *dst, &[(*a, *ty), (*b, op.second(*ty))])
            }
            Inst::IntUnary { op, ty, dst, a } => self.int(op.text(), *ty, *dst, &[(*a, *ty)]),
            Inst::Mad {
                width,
                ty,
                dst,
                a,
                b,
                c,
            } => {
                let sources = [(*a, *ty), (*b, *ty), (*c, width.result(*ty))];
                self.int(width.text(), *ty, *dst, &sources)
            }
            Inst::Carry {
                subtract,
                ty,
                dst,
                carry_out,
                a,
                b,
                carry_in,
            } => format!(
                "{}.{} {}, {}, {}{}",
                if *subtract { "subc" } else { "addc" },
                ty.text(),
                self.joined(*dst, *carry_out),
                self.o(*a, *ty),
                self.o(*b, *ty),
                carry_in.map_or(String::new(), |reg| format!(", {}", self.r(reg))),
            ),
            Inst::Sad { ty, dst, a, b, c } => {
                self.int("sad", *ty, *dst, &[(*a, *ty), (*b, *ty), (*c, *ty)])
            }
            Inst::Bfe {
                ty,
                dst,
                a,
                pos,
                len,
            } => self.int("bfe", *ty, *dst, &[(*a, *ty), (*pos, U32), (*len, U32)]),
            Inst::Bfi {
                ty,
                dst,
                a,
                b,
                pos,
                len,
            } => {
                let sources = [(*a, *ty), (*b, *ty), (*pos, U32), (*len, U32)];
                self.int("bfi", *ty, *dst, &sources)
            }
            Inst::Lop3 {
                dst,
                a,
                b,
                c,
                table,
            } => {
                let text = self.op("lop3.b32".into(), *dst, &[(*a, B32), (*b, B32), (*c, B32)]);
                format!("{text}, 0x{table:02x}")
            }
            Inst::FunnelShift {
                left,
                clamp,
                dst,
                lo,
                hi,
                amount,
            } => {
                let direction = if *left { "l" } else { "r" };
                let mode = if *clamp { "clamp" } else { "wrap" };
                let sources = [(*lo, B32), (*hi, B32), (*amount, U32)];
                self.op(format!("shf.{direction}.{mode}.b32"), *dst, &sources)
            }
            Inst::Prmt {
                mode,
                dst,
                a,
                b,
                selector,
            } => {
                let suffix = match mode {
                    PermuteMode::Index => String::new(),
                    mode => format!(".{}", mode.text()),
                };
                let sources = [(*a, B32), (*b, B32), (*selector, B32)];
                self.op(format!("prmt.b32{suffix}"), *dst, &sources)
            }
            Inst::Dp4a {
                a_signed,
                b_signed,
                dst,
                a,
                b,
                c,
            } => {
                let name = format!("dp4a.{}.{}", signedness(*a_signed), signedness(*b_signed));
                self.op(name, *dst, &[(*a, B32), (*b, B32), (*c, B32)])
            }
            Inst::Dp2a {
                hi,
                a_signed,
                b_signed,
                dst,
                a,
                b,
                c,
            } => {
                let half = if *hi { "hi" } else { "lo" };
                let name = format!(
                    "dp2a.{half}.{}.{}",
                    signedness(*a_signed),
                    signedness(*b_signed)
                );
                self.op(name, *dst, &[(*a, B32), (*b, B32), (*c, B32)])
            }
            Inst::FloatBinary {
                op,
                ty,
                mods,
                dst,
                a,
                b,
            } => self.float(op.text(), mods, *ty, *dst, &[(*a, *ty), (*b, *ty)]),
            Inst::FloatUnary {
                op,
                ty,
                mods,
                dst,
                a,
            } => self.float(op.text(), mods, *ty, *dst, &[(*a, *ty)]),
            Inst::Fma {
                ty,
                mods,
                dst,
                a,
                b,
                c,
            } => self.float("fma", mods, *ty, *dst, &[(*a, *ty), (*b, *ty), (*c, *ty)]),
            Inst::Testp { class, ty, dst, a } => {
                self.int(&format!("testp.{}", class.text()), *ty, *dst, &[(*a, *ty)])
            }
            Inst::Cvt {
                to,
                from,
                mods,
                satfinite,
                dst,
                a,
            } => {
                let name = conversion("cvt", mods, *satfinite, *to);
                self.int(&name, *from, *dst, &[(*a, *from)])
            }
            Inst::CvtPack {
                to,
                mods,
                satfinite,
                dst,
                hi,
                lo,
            } => {
                let name = conversion("cvt.pack", mods, *satfinite, *to);
                self.op(name, *dst, &[(*hi, Type::F32), (*lo, Type::F32)])
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
                let mut name = format!("setp.{}", cmp.text());
                if let Some((op, _)) = combine {
                    name.push('.');
                    name.push_str(op.text());
                }
                if *ftz {
                    name.push_str(".ftz");
                }
                let mut text = self.int(&name, *ty, *dst, &[(*a, *ty), (*b, *ty)]);
                if let Some((_, guard)) = combine {
                    text.push_str(", ");
                    text.push_str(&self.g(guard));
                }
                text
            }
            Inst::Selp { dst, a, b, pred } => {
                let class = self.class(*dst);
                format!(
                    "selp.{} {}, {}, {}, {}",
                    class.text(),
                    self.r(*dst),
                    self.any(*a, class),
                    self.any(*b, class),
                    self.r(*pred)
                )
            }
            Inst::PredBinary { op, dst, a, b } => format!(
                "{}.pred {}, {}, {}",
                op.text(),
                self.r(*dst),
                self.p(*a),
                self.p(*b)
            ),
            Inst::PredNot { dst, a } => format!("not.pred {}, {}", self.r(*dst), self.p(*a)),
            Inst::Ld {
                space,
                ty,
                dst,
                addr,
                order,
                scope,
                cache,
            } => format!(
                "ld{} {}, {}",
                access(*order, *scope, *space, *cache, dst.len(), *ty),
                self.list(dst.iter().map(|reg| self.r(*reg)).collect()),
                self.a(addr)
            ),
            Inst::St {
                space,
                ty,
                src,
                addr,
                order,
                scope,
                cache,
            } => format!(
                "st{} {}, {}",
                access(*order, *scope, *space, *cache, src.len(), *ty),
                self.a(addr),
                self.list(src.iter().map(|operand| self.o(*operand, *ty)).collect())
            ),
            Inst::Atomic {
                op,
                space,
                ty,
                dst,
                addr,
                b,
                c,
                order,
                scope,
            } => {
                let ordering = match (order, scope) {
                    (Ordering::Relaxed, Scope::Gpu) => String::new(),
                    _ => ordering(*order, *scope),
                };
                format!(
                    "{}.{}{ordering}.{}.{} {}{}, {}{}",
                    if dst.is_some() { "atom" } else { "red" },
                    op.text(),
                    space.text(),
                    ty.text(),
                    dst.map_or(String::new(), |reg| format!("{}, ", self.r(reg))),
                    self.a(addr),
                    self.o(*b, *ty),
                    self.optional(*c, *ty)
                )
            }
            Inst::Prefetch { space, addr } => {
                format!("prefetch.{} {}", space.text(), self.a(addr))
            }
            Inst::CvtaToGeneric { space, dst, a } => self.op(
                format!("cvta.to_generic.{}", space.text()),
                *dst,
                &[(*a, U64)],
            ),
            Inst::CvtaFromGeneric { space, dst, a } => self.op(
                format!("cvta.from_generic.{}", space.text()),
                *dst,
                &[(*a, U64)],
            ),
            Inst::IsSpace { space, dst, a } => {
                self.op(format!("isspace.{}", space.text()), *dst, &[(*a, U64)])
            }
            Inst::CpAsync {
                bytes,
                shared,
                global,
                src_bytes,
                cache,
            } => format!(
                "cp.async{}.{bytes} {}, {}{}",
                hint(*cache),
                self.a(shared),
                self.a(global),
                self.optional(*src_bytes, U32)
            ),
            Inst::CpAsyncCommit => "cp.async.commit".into(),
            Inst::CpAsyncWaitGroup { pending } => format!("cp.async.wait_group {pending}"),
            Inst::CpAsyncWaitAll => "cp.async.wait_all".into(),
            Inst::Mbarrier { addr, op } => self.mbarrier(&self.a(addr), op),
            Inst::Fence { kind } => match kind {
                FenceKind::Memory(order, scope) => {
                    format!("fence.{}.{}", order.text(), scope.text())
                }
                FenceKind::ProxyAsync => "fence.proxy.async".into(),
                FenceKind::MbarrierInit => "fence.mbarrier_init".into(),
            },
            Inst::Shfl {
                mode,
                dst,
                in_range,
                a,
                lane,
                clamp,
                members,
            } => format!(
                "shfl.{}.b32 {}, {}, {}, {}, {}",
                mode.text(),
                self.joined(*dst, *in_range),
                self.o(*a, B32),
                self.o(*lane, U32),
                self.o(*clamp, U32),
                self.o(*members, B32)
            ),
            Inst::Vote {
                mode,
                dst,
                pred,
                members,
            } => format!(
                "vote.{} {}, {}, {}",
                mode.text(),
                self.r(*dst),
                self.g(pred),
                self.o(*members, B32)
            ),
            Inst::Ballot { dst, pred, members } => format!(
                "ballot.b32 {}, {}, {}",
                self.r(*dst),
                self.g(pred),
                self.o(*members, B32)
            ),
            Inst::MatchAny {
                ty,
                dst,
                a,
                members,
            } => self.int("match.any", *ty, *dst, &[(*a, *ty), (*members, B32)]),
            Inst::MatchAll {
                ty,
                dst,
                pred,
                a,
                members,
            } => format!(
                "match.all.{} {}, {}, {}",
                ty.text(),
                self.joined(*dst, *pred),
                self.o(*a, *ty),
                self.o(*members, B32)
            ),
            Inst::Redux {
                op,
                ty,
                abs,
                dst,
                a,
                members,
            } => {
                let name = format!("redux.{}{}", op.text(), if *abs { ".abs" } else { "" });
                self.int(&name, *ty, *dst, &[(*a, *ty), (*members, B32)])
            }
            Inst::Elect {
                leader,
                is_leader,
                members,
            } => {
                let dst = match leader {
                    Some(leader) => self.joined(*leader, Some(*is_leader)),
                    None => self.r(*is_leader),
                };
                format!("elect {dst}, {}", self.o(*members, B32))
            }
            Inst::ActiveMask { dst } => format!("activemask {}", self.r(*dst)),
            Inst::WarpSync { members } => format!("warpsync {}", self.o(*members, B32)),
            Inst::BarrierSync { aligned, id, count } => format!(
                "{}.sync {}{}",
                barrier(*aligned),
                self.o(*id, U32),
                self.optional(*count, U32)
            ),
            Inst::BarrierArrive { aligned, id, count } => format!(
                "{}.arrive {}, {}",
                barrier(*aligned),
                self.o(*id, U32),
                self.o(*count, U32)
            ),
            Inst::BarrierReduce {
                aligned,
                op,
                dst,
                id,
                count,
                pred,
            } => format!(
                "{}.red.{} {}, {}{}, {}",
                barrier(*aligned),
                op.text(),
                self.r(*dst),
                self.o(*id, U32),
                self.optional(*count, U32),
                self.g(pred)
            ),
            Inst::Nanosleep { nanoseconds } => format!("nanosleep {}", self.o(*nanoseconds, U32)),
            Inst::Trap => "trap".into(),
            Inst::Assert { pred, message } => {
                format!("assert {}, {}", self.g(pred), escape(message))
            }
            Inst::Printf { format, args } => {
                let mut text = format!("printf {}", escape(format));
                for arg in args {
                    text.push_str(&format!(
                        ", {} {}",
                        arg.ty.text(),
                        self.o(arg.value, arg.ty)
                    ));
                }
                text
            }
            Inst::Unmodelled { name } => format!("unmodelled {}", escape(name)),
        }
    }

    fn mbarrier(&self, addr: &str, op: &MbarrierOp) -> String {
        const U32: Type = Type::U32;
        match op {
            MbarrierOp::Init { count } => format!("mbarrier.init {addr}, {}", self.o(*count, U32)),
            MbarrierOp::Inval => format!("mbarrier.inval {addr}"),
            MbarrierOp::Arrive {
                state,
                count,
                expect_tx,
            } => format!(
                "mbarrier.arrive{} {}{addr}, {}{}",
                if expect_tx.is_some() {
                    ".expect_tx"
                } else {
                    ""
                },
                state.map_or(String::new(), |reg| format!("{}, ", self.r(reg))),
                self.o(*count, U32),
                self.optional(*expect_tx, U32)
            ),
            MbarrierOp::ExpectTx { bytes } => {
                format!("mbarrier.expect_tx {addr}, {}", self.o(*bytes, U32))
            }
            MbarrierOp::CompleteTx { bytes } => {
                format!("mbarrier.complete_tx {addr}, {}", self.o(*bytes, U32))
            }
            MbarrierOp::TestWaitParity { done, parity } => format!(
                "mbarrier.test_wait.parity {}, {addr}, {}",
                self.r(*done),
                self.o(*parity, U32)
            ),
            MbarrierOp::TryWaitParity { done, parity } => format!(
                "mbarrier.try_wait.parity {}, {addr}, {}",
                self.r(*done),
                self.o(*parity, U32)
            ),
            MbarrierOp::TestWait { done, state } => format!(
                "mbarrier.test_wait {}, {addr}, {}",
                self.r(*done),
                self.o(*state, Type::B64)
            ),
            MbarrierOp::CpAsyncArrive { noinc } => format!(
                "mbarrier.cp_async_arrive{} {addr}",
                if *noinc { ".noinc" } else { "" }
            ),
        }
    }
}

fn param(param: &Param) -> String {
    let Param { name, size, align } = param;
    if size.is_power_of_two() && *align == (*size).min(64) {
        format!("%{name}: {size}")
    } else {
        format!("%{name}: {size} align {align}")
    }
}

fn signedness(signed: bool) -> &'static str {
    if signed { "s32" } else { "u32" }
}

fn barrier(aligned: bool) -> &'static str {
    if aligned { "bar" } else { "barrier" }
}

fn hint(cache: CacheHint) -> String {
    match cache {
        CacheHint::Default => String::new(),
        cache => format!(".{}", cache.text()),
    }
}

fn ordering(order: Ordering, scope: Scope) -> String {
    match order {
        Ordering::Weak | Ordering::Volatile => format!(".{}", order.text()),
        _ => format!(".{}.{}", order.text(), scope.text()),
    }
}

fn access(
    order: Ordering,
    scope: Scope,
    space: Space,
    cache: CacheHint,
    count: usize,
    ty: Type,
) -> String {
    let ordering = match order {
        Ordering::Weak => String::new(),
        _ => ordering(order, scope),
    };
    let vector = if count == 1 {
        String::new()
    } else {
        format!(".v{count}")
    };
    format!(
        "{ordering}.{}{}{vector}.{}",
        space.text(),
        hint(cache),
        ty.text()
    )
}

fn modifiers(mods: &FloatMods) -> String {
    let mut text = String::new();
    if mods.rounding != Rounding::NearestEven {
        text.push('.');
        text.push_str(mods.rounding.text());
    }
    for (set, name) in [(mods.ftz, ".ftz"), (mods.sat, ".sat"), (mods.relu, ".relu")] {
        if set {
            text.push_str(name);
        }
    }
    text
}

fn conversion(name: &str, mods: &FloatMods, satfinite: bool, to: Type) -> String {
    let satfinite = if satfinite { ".satfinite" } else { "" };
    format!("{name}{}{satfinite}.{}", modifiers(mods), to.text())
}

/// An immediate as the operand's type reads best.
fn immediate(bits: u64, ty: Type) -> String {
    let fits = bits <= u64::MAX >> (64 - ty.bits());
    match ty {
        _ if !fits => format!("0x{bits:x}"),
        Type::F32 => format!("0f{bits:08X}"),
        Type::F64 => format!("0d{bits:016X}"),
        Type::F16 | Type::BF16 => format!("0h{bits:04X}"),
        _ if ty.is_signed() => {
            let shift = 64 - ty.bits();
            (((bits << shift) as i64) >> shift).to_string()
        }
        _ if bits < 65_536 => bits.to_string(),
        _ => format!("0x{bits:x}"),
    }
}
