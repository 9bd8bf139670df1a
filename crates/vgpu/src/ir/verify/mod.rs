//! Which modules are legal: classes, widths, types, ranges and structure, each rule the ISA's or `IR.md`'s.

mod inst;
mod rules;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

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
}
