//! Which modules are legal: classes, widths, types, ranges and structure, each rule the ISA's or `IR.md`'s.

mod rules;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use rules::*;

use super::text::{MAX_NESTING, is_name, print_inst};
use super::*;

/// Most errors that one call reports.
const MAX_ERRORS: usize = 100;
/// Bytes of constant memory: a bank of 64 KiB and ten regions of as much (PTX ISA, "Constant State Space").
pub const MAX_CONSTANT_BYTES: usize = 11 << 16;
/// Bytes of all parameters of a kernel (PTX ISA, "Kernel Function Parameters").
pub const MAX_PARAM_BYTES: u32 = 32_764;
/// Shared bytes of a block on every device that we describe.
pub const MAX_SHARED_BYTES: u32 = 227 * 1024;
/// Local bytes of a thread (CUDA C++ Programming Guide, "Compute Capabilities").
pub const MAX_LOCAL_BYTES: u32 = 512 * 1024;
/// Threads of a block.
pub const MAX_THREADS: u32 = 1024;
/// Registers that a kernel may declare; they are virtual, so this only bounds hostile input.
pub const MAX_REGISTERS: usize = 1 << 20;
/// Nodes that a kernel may have; bounds hostile input.
pub const MAX_NODES: usize = 1 << 22;

/// A rule that a module breaks, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe())]
pub struct VerifyError {
    /// The kernel; empty for the module itself.
    pub kernel: String,
    /// The source file, where the location names one.
    pub file: Option<String>,
    /// The location in force there.
    pub location: Location,
    /// The instruction or structure; empty for a declaration.
    pub node: String,
    /// What is wrong.
    pub message: String,
}

impl VerifyError {
    fn describe(&self) -> String {
        let mut text = String::new();
        if !self.kernel.is_empty() {
            text.push_str(&format!("kernel @{}, ", self.kernel));
        }
        if let Some(file) = &self.file {
            text.push_str(&format!("{file}:{}, ", self.location.line));
        }
        if !self.node.is_empty() {
            text.push_str(&format!("`{}`: ", self.node));
        }
        text.push_str(&self.message);
        text
    }
}

/// Checks a module against the rules of the ISA and of `IR.md`.
///
/// # Errors
/// Every rule that is broken, in the order of the text, up to a hundred.
pub fn verify(module: &Module) -> Result<(), Vec<VerifyError>> {
    let mut errors = Vec::new();
    let mut report = |kernel: &str, message: String| {
        if errors.len() < MAX_ERRORS {
            errors.push(VerifyError {
                kernel: kernel.to_owned(),
                file: None,
                location: Location::default(),
                node: String::new(),
                message,
            });
        }
    };
    if module.constants.len() > MAX_CONSTANT_BYTES {
        report(
            "",
            format!(
                "the constant bank has {} bytes, at most {MAX_CONSTANT_BYTES} are possible",
                module.constants.len()
            ),
        );
    }
    let mut names = HashSet::new();
    for kernel in &module.kernels {
        if !is_name(&kernel.name) {
            report("", format!("{:?} is not a name of a kernel", kernel.name));
        }
        if !names.insert(kernel.name.as_str()) {
            report(
                "",
                format!("there are two kernels of the name {}", kernel.name),
            );
        }
    }
    for kernel in &module.kernels {
        let mut checker = Checker {
            module,
            kernel,
            errors: &mut errors,
            location: Location::default(),
            inst: None,
            structure: "",
            written: vec![false; kernel.regs.len()],
            read: vec![None; kernel.regs.len()],
            nodes: 0,
            param_bytes: 0,
        };
        checker.kernel();
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

struct Checker<'a> {
    module: &'a Module,
    kernel: &'a Kernel,
    errors: &'a mut Vec<VerifyError>,
    location: Location,
    inst: Option<&'a Inst>,
    structure: &'static str,
    written: Vec<bool>,
    /// Where each register is first read.
    read: Vec<Option<Location>>,
    nodes: usize,
    param_bytes: u32,
}

impl<'a> Checker<'a> {
    fn error(&mut self, message: impl Into<String>) {
        if self.errors.len() >= MAX_ERRORS {
            return;
        }
        let file = (self.location.file as usize)
            .checked_sub(1)
            .and_then(|index| self.module.files.get(index).cloned());
        let node = match self.inst {
            Some(inst) => {
                let mut text = print_inst(self.kernel, inst);
                if let Some((end, _)) = text.char_indices().nth(160) {
                    text.replace_range(end.., "...");
                }
                text
            }
            None => self.structure.to_owned(),
        };
        self.errors.push(VerifyError {
            kernel: self.kernel.name.clone(),
            file,
            location: self.location,
            node,
            message: message.into(),
        });
    }

    fn require(&mut self, holds: bool, message: &str) {
        if !holds {
            self.error(message);
        }
    }

    // ---- declarations and structure ----

    fn kernel(&mut self) {
        let kernel = self.kernel;
        self.params();
        let mut names = HashSet::new();
        if kernel.regs.len() > MAX_REGISTERS {
            self.error(format!("more than {MAX_REGISTERS} registers"));
            return;
        }
        for reg in &kernel.regs {
            if !is_name(&reg.name) {
                self.error(format!("{:?} is not a name of a register", reg.name));
            } else if !names.insert(reg.name.as_str()) {
                self.error(format!("there are two registers %{}", reg.name));
            }
        }
        for (what, value, limit) in [
            ("shared bytes", kernel.shared_bytes, MAX_SHARED_BYTES),
            ("local bytes", kernel.local_bytes, MAX_LOCAL_BYTES),
            ("threads a block", kernel.max_threads, MAX_THREADS),
            ("registers a thread", kernel.register_estimate, 255),
        ] {
            if value > limit {
                self.error(format!("{value} {what}, at most {limit} are possible"));
            }
        }
        self.block(&kernel.body, 0, 0);
        self.location = Location::default();
        self.structure = "";
        for (index, reg) in kernel.regs.iter().enumerate() {
            if let Some(location) = self.read[index]
                && !self.written[index]
            {
                self.location = location;
                self.error(format!(
                    "register %{} is read, but nothing writes it",
                    reg.name
                ));
            }
        }
    }

    fn params(&mut self) {
        let mut names = HashSet::new();
        let mut offset = 0u32;
        for param in &self.kernel.params {
            let Param { name, size, align } = param;
            if !is_name(name) {
                self.error(format!("{name:?} is not a name of a parameter"));
            } else if !names.insert(name.as_str()) {
                self.error(format!("there are two parameters %{name}"));
            }
            if !(1..=4096).contains(size) {
                self.error(format!("parameter %{name} has {size} bytes, not 1 to 4096"));
                return;
            }
            if !align.is_power_of_two() || *align > 64 {
                self.error(format!(
                    "parameter %{name} is aligned to {align}, not to a power of two up to 64"
                ));
                return;
            }
            offset = offset.next_multiple_of(*align) + size;
            if offset > MAX_PARAM_BYTES {
                self.error(format!(
                    "the parameters have more than {MAX_PARAM_BYTES} bytes"
                ));
                return;
            }
        }
        self.param_bytes = offset;
    }

    fn block(&mut self, block: &'a [Node], depth: usize, loops: usize) {
        if depth > MAX_NESTING {
            self.error(format!("structures are nested deeper than {MAX_NESTING}"));
            return;
        }
        for node in block {
            self.nodes += 1;
            if self.nodes == MAX_NODES {
                self.error(format!("more than {MAX_NODES} instructions"));
            }
            if self.nodes >= MAX_NODES || self.errors.len() >= MAX_ERRORS {
                return;
            }
            self.location = node.location;
            self.inst = None;
            if node.location.file as usize > self.module.files.len() {
                self.structure = "";
                self.error(format!("there is no file {}", node.location.file));
            }
            self.node(&node.kind, depth, loops);
        }
    }

    fn node(&mut self, kind: &'a NodeKind, depth: usize, loops: usize) {
        match kind {
            NodeKind::Inst { guard, inst } => {
                self.inst = Some(inst);
                self.guard(guard.as_ref());
                self.instruction(inst);
                self.inst = None;
            }
            NodeKind::If {
                cond,
                then,
                otherwise,
            } => {
                self.structure = "if";
                self.use_reg(*cond, RegClass::Pred);
                self.block(then, depth + 1, loops);
                self.block(otherwise, depth + 1, loops);
            }
            NodeKind::Loop { body } => self.block(body, depth + 1, loops + 1),
            NodeKind::Break { guard } => self.leave("break", guard.as_ref(), loops > 0),
            NodeKind::Continue { guard } => self.leave("continue", guard.as_ref(), loops > 0),
            NodeKind::Return { guard } => self.leave("return", guard.as_ref(), true),
        }
    }

    fn leave(&mut self, name: &'static str, guard: Option<&Guard>, allowed: bool) {
        self.structure = name;
        self.require(allowed, "stands outside of a loop");
        self.guard(guard);
    }

    fn guard(&mut self, guard: Option<&Guard>) {
        if let Some(guard) = guard {
            self.use_reg(guard.pred, RegClass::Pred);
        }
    }

    // ---- operands ----

    fn class(&mut self, reg: Reg) -> Option<RegClass> {
        let class = self.kernel.regs.get(reg.0 as usize).map(|decl| decl.class);
        if class.is_none() {
            self.error(format!("register number {} is not declared", reg.0));
        }
        class
    }

    fn expect_class(&mut self, reg: Reg, expected: RegClass) {
        if let Some(class) = self.class(reg)
            && class != expected
        {
            let name = &self.kernel.regs[reg.0 as usize].name;
            self.error(format!("%{name} is {class:?}, expected {expected:?}"));
        }
    }

    fn use_reg(&mut self, reg: Reg, class: RegClass) {
        self.expect_class(reg, class);
        self.mark_read(reg);
    }

    fn mark_read(&mut self, reg: Reg) {
        let location = self.location;
        if let Some(slot) = self.read.get_mut(reg.0 as usize) {
            slot.get_or_insert(location);
        }
    }

    fn def(&mut self, reg: Reg, class: RegClass) {
        self.expect_class(reg, class);
        if let Some(slot) = self.written.get_mut(reg.0 as usize) {
            *slot = true;
        }
    }

    fn def_ty(&mut self, reg: Reg, ty: Type) {
        self.def(reg, ty.class());
    }

    fn source(&mut self, operand: Operand, ty: Type) {
        match operand {
            Operand::Reg(reg) => self.use_reg(reg, ty.class()),
            Operand::Imm(bits) => {
                if bits > u64::MAX >> (64 - ty.bits()) {
                    self.error(format!("immediate 0x{bits:x} does not fit {}", ty.name()));
                }
            }
        }
    }

    fn sources(&mut self, operands: &[Operand], ty: Type) {
        for &operand in operands {
            self.source(operand, ty);
        }
    }

    fn pred_source(&mut self, operand: Operand) {
        match operand {
            Operand::Reg(reg) => self.use_reg(reg, RegClass::Pred),
            Operand::Imm(bits) => self.require(bits <= 1, "an immediate predicate is 0 or 1"),
        }
    }

    /// An operand of the class that the destination has.
    fn source_of_class(&mut self, operand: Operand, class: RegClass) {
        match class.bits_type() {
            Some(ty) => self.source(operand, ty),
            None => self.pred_source(operand),
        }
    }

    fn members(&mut self, operand: Operand) {
        self.source(operand, Type::B32);
        self.require(operand != Operand::Imm(0), "the member mask is empty");
    }

    /// An address, and, where it is known, that it is aligned and inside of its space.
    fn address(&mut self, addr: &Address, space: Space, bytes: u32) {
        match addr.base {
            Operand::Reg(reg) => {
                let wide = matches!(space, Space::Global | Space::Generic);
                match self.class(reg) {
                    Some(RegClass::B64) => {}
                    Some(RegClass::B32) if !wide => {}
                    Some(_) if wide => self.error("a global or generic address is a b64 register"),
                    Some(_) => self.error("an address is a b32 or b64 register"),
                    None => {}
                }
                self.mark_read(reg);
            }
            Operand::Imm(base) => {
                let Some(at) = i128::from(base)
                    .checked_add(i128::from(addr.offset))
                    .and_then(|at| u64::try_from(at).ok())
                else {
                    self.error("the address lies outside of the address space");
                    return;
                };
                self.require(
                    at.is_multiple_of(u64::from(bytes.max(1))),
                    "the address is not a multiple of the access's size",
                );
                let limit = match space {
                    Space::Param => u64::from(self.param_bytes),
                    Space::Local => u64::from(self.kernel.local_bytes),
                    Space::Const => self.module.constants.len() as u64,
                    Space::Shared => u64::from(MAX_SHARED_BYTES) + 1024,
                    Space::Global | Space::Generic => u64::MAX,
                };
                if at
                    .checked_add(u64::from(bytes))
                    .is_none_or(|end| end > limit)
                {
                    self.error(format!(
                        "the access ends beyond the {limit} bytes of its space"
                    ));
                }
            }
        }
    }

    fn shared_address(&mut self, addr: &Address, bytes: u32) {
        self.address(addr, Space::Shared, bytes);
    }

    // ---- instructions ----

    fn instruction(&mut self, inst: &Inst) {
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
