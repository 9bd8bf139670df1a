//! The lowering's frame: places of registers and constants, straight runs, structures and their targets.

use super::analyse;
use super::code::{Block, Code, Extra, FALSE, LANES, Op, Origin, SLOT, TRUE};
use super::mnemonic::mnemonic;
use super::places::{Places, places};
use crate::device::Pipe;
use crate::exec::{
    BeginLoop, Else, End, EndIf, EndLoop, EnterBlock, Handle, Handler, If, Isa, Leave, Return, slow,
};
use crate::ir::{
    Guard, Inst, Kernel, Location, Module, Node, NodeKind, Operand, Reg, RegClass, RegisterUse,
};
use std::collections::{HashMap, HashSet};

/// Lowers one kernel.
pub(super) struct Lowerer<'a> {
    kernel: &'a Kernel,
    pub isa: Isa,
    pub code: Code,
    /// Offset in the register file, or index of the predicate, by register.
    places: Vec<u32>,
    constants: HashMap<(u64, bool), u32>,
    names: HashMap<String, u32>,
    origin: Origin,
    guard: (u32, u32),
    /// Whether the next operation begins a straight run.
    fresh: bool,
    entries: Vec<usize>,
    /// For each open block, operations that go to its end where no lane is left.
    ends: Vec<Vec<usize>>,
    /// Mask slots of the innermost loop: who left it, who goes on with its next turn.
    loops: Vec<(u32, u32)>,
    depth: u32,
    /// Registers that loads not yet waited for will fill.
    waiting_global: HashSet<Reg>,
    waiting_shared: HashSet<Reg>,
}

impl<'a> Lowerer<'a> {
    pub fn new(module: &Module, kernel: &'a Kernel, isa: Isa) -> Self {
        let Places {
            places,
            bytes,
            predicates,
            registers,
            unset,
        } = places(kernel);
        let (_, param_bytes) = kernel.param_layout();
        let estimate = if kernel.register_estimate > 0 {
            kernel.register_estimate
        } else {
            registers
        };
        let code = Code {
            name: kernel.name.clone(),
            ops: Vec::new(),
            origins: Vec::new(),
            names: vec![String::new()],
            files: module.files.clone(),
            blocks: Vec::new(),
            extras: vec![Extra::Text(String::new())],
            lists: Vec::new(),
            register_bytes: bytes,
            constants: Vec::new(),
            unset,
            predicates,
            masks: 2,
            sites: 1,
            constant_bank: module.constants.clone(),
            params: kernel.params.clone(),
            param_bytes,
            shared_bytes: kernel.shared_bytes,
            local_bytes: kernel.local_bytes,
            max_threads: kernel.max_threads,
            registers_per_thread: estimate,
            ordered: analyse::ordered(kernel),
            defers: false,
        };
        Self {
            kernel,
            isa,
            code,
            places,
            constants: HashMap::new(),
            names: HashMap::from([(String::new(), 0)]),
            origin: Origin::default(),
            guard: (TRUE, 0),
            fresh: true,
            entries: Vec::new(),
            ends: Vec::new(),
            loops: Vec::new(),
            depth: 0,
            waiting_global: HashSet::new(),
            waiting_shared: HashSet::new(),
        }
    }

    /// The whole kernel.
    pub fn finish(mut self) -> Code {
        self.ends.push(Vec::new());
        let body = &self.kernel.body;
        self.block(body);
        let end = self.here();
        self.close(end);
        self.guard = (TRUE, 0);
        self.push(Op {
            run: slow::<End>(),
            ..self.blank()
        });
        for &entry in &self.entries {
            let block = self.code.ops[entry].a as usize;
            let instructions = self.code.blocks[block].instructions();
            self.code.blocks[block].chain.instructions = u64::from(instructions);
            self.code.ops[entry].x = u64::from(instructions.max(1));
        }
        self.code
    }

    fn here(&self) -> u32 {
        self.code.ops.len() as u32
    }

    fn push(&mut self, op: Op) -> usize {
        self.code.ops.push(op);
        self.code.origins.push(self.origin);
        self.code.ops.len() - 1
    }

    fn blank(&self) -> Op {
        Op {
            run: slow::<End>(),
            guard: self.guard.0,
            flip: self.guard.1,
            dst: 0,
            a: 0,
            b: 0,
            c: 0,
            x: 0,
        }
    }

    /// Points the operations that leave the innermost block to its end.
    fn close(&mut self, end: u32) {
        for op in self.ends.pop().expect("a block is open") {
            self.code.ops[op].c = end;
        }
    }

    /// Begins a straight run, unconditionally.
    fn begin_run(&mut self) {
        self.fresh = false;
        let block = self.code.blocks.len() as u32;
        self.code.blocks.push(Block::default());
        let op = Op {
            run: self.isa.pick::<EnterBlock>(),
            guard: TRUE,
            flip: 0,
            a: block,
            ..self.blank()
        };
        let entry = self.push(op);
        self.entries.push(entry);
    }

    /// Counts instructions in the straight run.
    fn count(&mut self, pipe: Pipe, instructions: u32) {
        if self.fresh {
            self.begin_run();
        }
        let block = self.code.blocks.last_mut().expect("a run has begun");
        block.issued[pipe as usize] += instructions;
    }

    // What instructions are lowered with.

    /// Emits an operation, guarded as its instruction is.
    pub fn emit(&mut self, op: Op) {
        if self.fresh {
            self.begin_run();
        }
        self.push(op);
    }

    /// An operation of a handler, its operands zero.
    pub fn op(&self, run: Handler) -> Op {
        Op {
            run,
            ..self.blank()
        }
    }

    /// A vector handler's operation.
    pub fn fast<H: Handle>(&self) -> Op {
        self.op(self.isa.pick::<H>())
    }

    /// A scalar handler's operation.
    pub fn slow<H: Handle>(&self) -> Op {
        self.op(slow::<H>())
    }

    /// The place of a register: its offset, or its predicate's index.
    pub fn place(&self, reg: Reg) -> u32 {
        self.places[reg.0 as usize]
    }

    pub fn class(&self, reg: Reg) -> RegClass {
        self.kernel.regs[reg.0 as usize].class
    }

    /// A 32-bit operand's place.
    pub fn v32(&mut self, operand: Operand) -> u32 {
        match operand {
            Operand::Reg(reg) => self.place(reg),
            Operand::Imm(value) => self.constant(value & 0xffff_ffff, false),
        }
    }

    /// A 64-bit operand's place.
    pub fn v64(&mut self, operand: Operand) -> u32 {
        match operand {
            Operand::Reg(reg) => self.place(reg),
            Operand::Imm(value) => self.constant(value, true),
        }
    }

    /// An operand's place, 64 bits wide or 32.
    pub fn value(&mut self, operand: Operand, wide: bool) -> u32 {
        if wide {
            self.v64(operand)
        } else {
            self.v32(operand)
        }
    }

    /// A predicate operand's index.
    pub fn pred(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Reg(reg) => self.place(reg),
            Operand::Imm(0) => FALSE,
            Operand::Imm(_) => TRUE,
        }
    }

    /// A guard as a predicate and what it is xored with.
    pub fn guard(&self, guard: Guard) -> (u32, u32) {
        let flip = if guard.negated { u32::MAX } else { 0 };
        (self.place(guard.pred), flip)
    }

    /// Whether an address's base is 64 bits wide.
    pub fn wide_base(&self, operand: Operand) -> bool {
        match operand {
            Operand::Reg(reg) => self.class(reg) == RegClass::B64,
            Operand::Imm(_) => true,
        }
    }

    fn constant(&mut self, value: u64, wide: bool) -> u32 {
        let code = &mut self.code;
        *self.constants.entry((value, wide)).or_insert_with(|| {
            let offset = code.register_bytes;
            code.register_bytes += if wide { 2 * SLOT } else { SLOT };
            code.constants.push((offset, value, wide));
            offset
        })
    }

    pub fn extra(&mut self, extra: Extra) -> u32 {
        self.code.extras.push(extra);
        self.code.extras.len() as u32 - 1
    }

    /// A new memory site.
    pub fn site(&mut self) -> u32 {
        self.code.sites += 1;
        self.code.sites - 1
    }

    /// Emits an operation that ends the launch as incomplete.
    pub fn unmodelled(&mut self, name: String) {
        let extra = self.extra(Extra::Text(name));
        let op = Op {
            x: u64::from(extra),
            ..self.slow::<crate::exec::Unmodelled>()
        };
        self.emit(op);
    }

    // Structures.

    fn block(&mut self, nodes: &'a [Node]) {
        for node in nodes {
            self.at(node.location);
            match &node.kind {
                NodeKind::Inst { guard, inst } => self.instruction(*guard, inst),
                NodeKind::If {
                    cond,
                    then,
                    otherwise,
                } => self.branch(*cond, then, otherwise),
                NodeKind::Loop { body } => self.repeat(body, node.location),
                NodeKind::Break { guard } => {
                    let slot = self.loops.last().expect("verified").0;
                    self.leave(*guard, slot);
                }
                NodeKind::Continue { guard } => {
                    let slot = self.loops.last().expect("verified").1;
                    self.leave(*guard, slot);
                }
                NodeKind::Return { guard } => {
                    self.count(Pipe::Control, 1);
                    self.with_guard(*guard);
                    let op = self.fast::<Return>();
                    let at = self.push(op);
                    self.goes_to_end(at);
                }
            }
        }
    }

    fn at(&mut self, location: Location) {
        self.origin = Origin { location, name: 0 };
    }

    fn with_guard(&mut self, guard: Option<Guard>) {
        self.guard = guard.map_or((TRUE, 0), |guard| self.guard(guard));
    }

    /// Where no lane is left, the operation goes to the end of the block that it is in.
    fn goes_to_end(&mut self, op: usize) {
        self.ends.last_mut().expect("a block is open").push(op);
        self.fresh = true;
        self.guard = (TRUE, 0);
    }

    fn leave(&mut self, guard: Option<Guard>, slot: u32) {
        self.count(Pipe::Control, 1);
        self.with_guard(guard);
        let op = Op {
            a: slot,
            ..self.fast::<Leave>()
        };
        let at = self.push(op);
        self.goes_to_end(at);
    }

    /// Two mask slots for a structure at this depth.
    fn slots(&mut self) -> (u32, u32) {
        let first = 2 * self.depth;
        self.depth += 1;
        self.code.masks = self.code.masks.max(first + 2);
        (first, first + 1)
    }

    fn branch(&mut self, cond: Reg, then: &'a [Node], otherwise: &'a [Node]) {
        self.need(cond);
        self.count(Pipe::Control, 1);
        let (others, finished) = self.slots();
        self.guard = (self.place(cond), 0);
        let op = Op {
            a: others,
            b: finished,
            ..self.fast::<If>()
        };
        let begin = self.push(op);
        self.guard = (TRUE, 0);
        self.fresh = true;
        self.ends.push(Vec::new());
        self.block(then);
        let middle = self.here();
        self.close(middle);
        self.guard = (TRUE, 0);
        self.code.ops[begin].c = middle;
        let mut gather = others;
        if !otherwise.is_empty() {
            gather = finished;
            let op = Op {
                a: others,
                b: finished,
                ..self.fast::<Else>()
            };
            let turn = self.push(op);
            self.fresh = true;
            self.ends.push(Vec::new());
            self.block(otherwise);
            let end = self.here();
            self.close(end);
            self.guard = (TRUE, 0);
            self.code.ops[turn].c = end;
        }
        let op = Op {
            b: gather,
            ..self.fast::<EndIf>()
        };
        let end = self.push(op);
        self.goes_to_end(end);
        self.depth -= 1;
    }

    fn repeat(&mut self, body: &'a [Node], location: Location) {
        let (left, again) = self.slots();
        let op = Op {
            a: left,
            b: again,
            ..self.fast::<BeginLoop>()
        };
        self.push(op);
        let top = self.here();
        self.begin_run();
        self.count(Pipe::Control, 1);
        let first = self.code.blocks.len() - 1;
        self.loops.push((left, again));
        self.ends.push(Vec::new());
        self.block(body);
        let end = self.here();
        self.close(end);
        self.loops.pop();
        // What is still under way is waited for in the next turn.
        let chain = &mut self.code.blocks[first].chain;
        chain.global_rounds += u64::from(!self.waiting_global.is_empty());
        chain.shared_rounds += u64::from(!self.waiting_shared.is_empty());
        self.waiting_global.clear();
        self.waiting_shared.clear();
        self.guard = (TRUE, 0);
        self.at(location);
        let op = Op {
            dst: top,
            a: left,
            b: again,
            ..self.fast::<EndLoop>()
        };
        let end = self.push(op);
        self.goes_to_end(end);
        self.depth -= 1;
    }

    fn instruction(&mut self, guard: Option<Guard>, inst: &Inst) {
        let mut reads = Vec::new();
        inst.registers(&mut |reg, role| {
            if role == RegisterUse::Read {
                reads.push(reg);
            }
        });
        reads.extend(guard.map(|guard| guard.pred));
        for &(pipe, instructions) in analyse::pipes(inst).iter().filter(|cost| cost.1 > 0) {
            self.count(pipe, instructions);
        }
        for reg in reads {
            self.need(reg);
        }
        let name = mnemonic(inst);
        let next = self.names.len() as u32;
        let names = &mut self.code.names;
        self.origin.name = *self.names.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            next
        });
        self.with_guard(guard);
        self.lower(inst);
        self.guard = (TRUE, 0);
        let from = analyse::waits_for(inst);
        inst.registers(&mut |reg, role| {
            if role == RegisterUse::Write {
                self.waiting_global.remove(&reg);
                self.waiting_shared.remove(&reg);
                match from {
                    Some(analyse::Source::Global) => {
                        self.waiting_global.insert(reg);
                    }
                    Some(analyse::Source::Shared) => {
                        self.waiting_shared.insert(reg);
                    }
                    None => {}
                }
            }
        });
    }

    /// A use of a register: where a load is to fill it, the warp waits for all loads under way.
    fn need(&mut self, reg: Reg) {
        let global = self.waiting_global.contains(&reg);
        let shared = self.waiting_shared.contains(&reg);
        if !global && !shared {
            return;
        }
        if self.fresh {
            self.begin_run();
        }
        let chain = &mut self.code.blocks.last_mut().expect("a run has begun").chain;
        if global {
            chain.global_rounds += 1;
            self.waiting_global.clear();
        } else {
            chain.shared_rounds += 1;
        }
        self.waiting_shared.clear();
    }
}

const _: () = assert!(LANES * 4 == SLOT as usize);
