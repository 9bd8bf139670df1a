//! What the lowering knows about a kernel before it begins: whether CTAs depend on each other's order,
//! what instructions wait for and cost.

use crate::device::Pipe;
use crate::ir::{
    AtomicOp, Block, FloatBinary, FloatUnary, Inst, IntBinary, IntUnary, Kernel, MadWidth,
    MbarrierOp, NodeKind, Operand, Ordering, Reg, RegisterUse, Space, Type,
};
use std::collections::HashSet;

/// Instructions that are looked at, beyond which a kernel counts as ordered.
const WORK_LIMIT: usize = 20_000_000;

/// Whether CTAs may depend on each other's order through global memory, and by what: results of
/// atomics, reductions that do not commute, accesses that order memory, and loops that end when a load
/// says so.
pub(super) fn ordered(kernel: &Kernel) -> Option<&'static str> {
    ordered_block(&kernel.body, &mut { WORK_LIMIT }).or_else(|| {
        let mut sums = Sums::default();
        sums.block(&kernel.body, false);
        sums.why
    })
}

/// Sums of floats in global memory are applied when their CTA has ended, unless that could show: where
/// a CTA goes on to access global memory, or may have any number of them.
#[derive(Default)]
struct Sums {
    seen: bool,
    why: Option<&'static str>,
}

impl Sums {
    fn block(&mut self, block: &Block, in_loop: bool) {
        for node in block {
            match &node.kind {
                NodeKind::Inst { inst, .. } => self.inst(inst, in_loop),
                NodeKind::If {
                    then, otherwise, ..
                } => {
                    self.block(then, in_loop);
                    self.block(otherwise, in_loop);
                }
                NodeKind::Loop { body } => self.block(body, true),
                _ => {}
            }
        }
    }

    fn inst(&mut self, inst: &Inst, in_loop: bool) {
        match inst {
            Inst::Atomic {
                op: AtomicOp::Add,
                ty,
                space,
                ..
            } if device_memory(*space) && !ty.is_integer() => {
                self.seen = true;
                if in_loop {
                    self.why = Some("a loop of it adds floats into global memory");
                }
            }
            Inst::Ld { space, .. } | Inst::St { space, .. } | Inst::Atomic { space, .. }
                if self.seen && device_memory(*space) =>
            {
                self.why = Some("it adds floats into global memory and then accesses it");
            }
            Inst::CpAsync { .. } if self.seen => {
                self.why = Some("it adds floats into global memory and then accesses it");
            }
            _ => {}
        }
    }
}

fn device_memory(space: Space) -> bool {
    matches!(space, Space::Global | Space::Generic)
}

fn ordered_block(block: &Block, work: &mut usize) -> Option<&'static str> {
    for node in block {
        let why = match &node.kind {
            NodeKind::Inst { inst, .. } => ordered_inst(inst),
            NodeKind::If {
                then, otherwise, ..
            } => ordered_block(then, work).or_else(|| ordered_block(otherwise, work)),
            NodeKind::Loop { body } => {
                ordered_block(body, work).or_else(|| waits_on_memory(body, work))
            }
            _ => None,
        };
        if why.is_some() {
            return why;
        }
    }
    None
}

fn ordered_inst(inst: &Inst) -> Option<&'static str> {
    match inst {
        Inst::Atomic { op, space, dst, .. } if device_memory(*space) => match (op, dst) {
            (_, Some(_)) => Some("it uses the results of atomics on global memory"),
            (AtomicOp::Exch | AtomicOp::Cas | AtomicOp::Inc | AtomicOp::Dec, None) => {
                Some("it has reductions on global memory that do not commute")
            }
            _ => None,
        },
        Inst::Ld { space, order, .. } | Inst::St { space, order, .. }
            if device_memory(*space) && *order != Ordering::Weak =>
        {
            Some("it has accesses of global memory that order others")
        }
        _ => None,
    }
}

/// Whether a loop may wait for another CTA: it has no store or barrier that makes progress of its own
/// and is left by what a load of global memory in it says.
fn waits_on_memory(body: &Block, work: &mut usize) -> Option<&'static str> {
    let mut flow = Flow::default();
    // Follow the data until nothing new is found; the first round may see uses before definitions.
    loop {
        flow.grew = false;
        flow.visited = 0;
        flow.block(body);
        if flow.decides {
            return Some("a loop of it ends by what it loads from global memory");
        }
        if !flow.grew {
            return None;
        }
        *work = work.saturating_sub(flow.visited);
        if *work == 0 {
            return Some("its loops are too large to tell whether they wait for memory");
        }
    }
}

#[derive(Default)]
struct Flow {
    loaded: HashSet<Reg>,
    grew: bool,
    decides: bool,
    visited: usize,
}

impl Flow {
    fn block(&mut self, block: &Block) {
        self.visited += block.len();
        for node in block {
            match &node.kind {
                NodeKind::Inst { guard, inst } => {
                    let mut tainted = guard.is_some_and(|guard| self.loaded.contains(&guard.pred));
                    let global = matches!(
                        inst,
                        Inst::Ld { space, cache, .. }
                            if device_memory(*space) && *cache != crate::ir::CacheHint::NonCoherent
                    );
                    let mut written = Vec::new();
                    inst.registers(&mut |reg, role| match role {
                        RegisterUse::Read => tainted |= self.loaded.contains(&reg),
                        RegisterUse::Write => written.push(reg),
                    });
                    if tainted || global {
                        for reg in written {
                            self.grew |= self.loaded.insert(reg);
                        }
                    }
                }
                NodeKind::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    if self.loaded.contains(cond) && (leaves(then) || leaves(otherwise)) {
                        self.decides = true;
                    }
                    self.block(then);
                    self.block(otherwise);
                }
                NodeKind::Loop { body } => self.block(body),
                NodeKind::Break { guard } | NodeKind::Return { guard } => {
                    self.decides |= guard.is_some_and(|guard| self.loaded.contains(&guard.pred));
                }
                NodeKind::Continue { .. } => {}
            }
        }
    }
}

/// Whether a block leaves the loop that it is in.
fn leaves(block: &Block) -> bool {
    block.iter().any(|node| match &node.kind {
        NodeKind::Break { .. } | NodeKind::Return { .. } => true,
        NodeKind::If {
            then, otherwise, ..
        } => leaves(then) || leaves(otherwise),
        _ => false,
    })
}

/// Which memory an instruction's results come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Global,
    Shared,
}

/// Where an instruction's results are long in coming.
pub(super) fn waits_for(inst: &Inst) -> Option<Source> {
    match inst {
        Inst::Ld { space, .. } | Inst::Atomic { space, .. } => match space {
            Space::Global | Space::Generic | Space::Local => Some(Source::Global),
            Space::Shared => Some(Source::Shared),
            Space::Const | Space::Param => None,
        },
        Inst::Shfl { .. } | Inst::Redux { .. } | Inst::MatchAny { .. } | Inst::MatchAll { .. } => {
            Some(Source::Shared)
        }
        Inst::Mbarrier {
            op: MbarrierOp::Arrive { .. },
            ..
        } => Some(Source::Shared),
        _ => None,
    }
}

fn float_pipe(ty: Type) -> Pipe {
    match ty {
        Type::F64 => Pipe::Fp64,
        Type::F16 | Type::BF16 | Type::F16x2 | Type::BF16x2 => Pipe::Fp16,
        _ => Pipe::Fp32,
    }
}

/// Instructions that one of the IR becomes on the device, by pipe: most are one; divisions, roots and
/// other composed operations are the sequences that compilers are known to emit.
pub(super) fn pipes(inst: &Inst) -> [(Pipe, u32); 2] {
    let one = |pipe| [(pipe, 1), (pipe, 0)];
    let many = |pipe, count| [(pipe, count), (pipe, 0)];
    match inst {
        Inst::IntBinary { op, ty, .. } => {
            let wide = ty.bits() == 64;
            match op {
                IntBinary::Div | IntBinary::Rem => {
                    let immediate = matches!(
                        inst,
                        Inst::IntBinary {
                            b: Operand::Imm(_),
                            ..
                        }
                    );
                    match (immediate, wide) {
                        (true, false) => many(Pipe::Int, 3),
                        (true, true) => many(Pipe::Int, 12),
                        (false, false) => [(Pipe::Int, 16), (Pipe::Special, 1)],
                        (false, true) => [(Pipe::Int, 70), (Pipe::Special, 1)],
                    }
                }
                IntBinary::MulLo | IntBinary::MulHi if wide => many(Pipe::Int, 4),
                _ if wide => many(Pipe::Int, 2),
                _ => one(Pipe::Int),
            }
        }
        Inst::IntUnary { op, ty, .. } => match op {
            IntUnary::Popc | IntUnary::Clz | IntUnary::Brev => {
                many(Pipe::Special, ty.bits().div_ceil(32))
            }
            _ => many(Pipe::Int, ty.bits().div_ceil(32)),
        },
        Inst::Mad { width, ty, .. } => match (width, ty.bits()) {
            (MadWidth::Wide, _) => one(Pipe::Int),
            (_, 64) => many(Pipe::Int, 5),
            _ => one(Pipe::Int),
        },
        Inst::FloatBinary { op, ty, .. } => match (op, ty) {
            (FloatBinary::Div, Type::F32) => [(Pipe::Fp32, 8), (Pipe::Special, 1)],
            (FloatBinary::Div, _) => [(Pipe::Fp64, 9), (Pipe::Special, 1)],
            (FloatBinary::DivFull | FloatBinary::DivApprox, _) => {
                [(Pipe::Fp32, 2), (Pipe::Special, 1)]
            }
            (_, Type::F32x2) => many(Pipe::Fp32, 2),
            _ => one(float_pipe(*ty)),
        },
        Inst::FloatUnary { op, ty, .. } => match (op, ty) {
            (FloatUnary::Neg | FloatUnary::Abs, _) => one(float_pipe(*ty)),
            (FloatUnary::Rcp | FloatUnary::Sqrt, Type::F32) => {
                [(Pipe::Fp32, 7), (Pipe::Special, 1)]
            }
            (FloatUnary::Rcp | FloatUnary::Sqrt, _) => [(Pipe::Fp64, 9), (Pipe::Special, 1)],
            (FloatUnary::SqrtApprox, _) => [(Pipe::Special, 1), (Pipe::Fp32, 1)],
            (_, Type::F16x2 | Type::BF16x2) => many(Pipe::Special, 2),
            _ => one(Pipe::Special),
        },
        Inst::Fma { ty, .. } => match ty {
            Type::F32x2 => many(Pipe::Fp32, 2),
            _ => one(float_pipe(*ty)),
        },
        Inst::Testp { ty, .. } => one(float_pipe(*ty)),
        Inst::Setp { ty, .. } => {
            if ty.is_integer() {
                many(Pipe::Int, ty.bits().div_ceil(32))
            } else {
                one(float_pipe(*ty))
            }
        }
        Inst::Cvt { to, from, .. } => {
            let moves = to.is_integer() && from.is_integer();
            one(if moves { Pipe::Int } else { Pipe::Convert })
        }
        Inst::CvtPack { .. } => one(Pipe::Convert),
        Inst::PredBinary { .. } | Inst::PredNot { .. } => one(Pipe::Control),
        Inst::Ld { .. }
        | Inst::St { .. }
        | Inst::Atomic { .. }
        | Inst::Prefetch { .. }
        | Inst::CpAsync { .. } => one(Pipe::Memory),
        Inst::Mbarrier { .. } => one(Pipe::Memory),
        Inst::Shfl { .. }
        | Inst::Vote { .. }
        | Inst::Ballot { .. }
        | Inst::MatchAny { .. }
        | Inst::MatchAll { .. }
        | Inst::Redux { .. }
        | Inst::Elect { .. }
        | Inst::ActiveMask { .. } => one(Pipe::Warp),
        Inst::WarpSync { .. }
        | Inst::BarrierSync { .. }
        | Inst::BarrierArrive { .. }
        | Inst::BarrierReduce { .. }
        | Inst::CpAsyncCommit
        | Inst::CpAsyncWaitGroup { .. }
        | Inst::CpAsyncWaitAll
        | Inst::Fence { .. }
        | Inst::Nanosleep { .. } => one(Pipe::Sync),
        Inst::Trap | Inst::Assert { .. } | Inst::Unmodelled { .. } => one(Pipe::Control),
        Inst::Printf { args, .. } => many(Pipe::Memory, 4 + args.len() as u32),
        Inst::Dp2a { .. }
        | Inst::Dp4a { .. }
        | Inst::Mov { .. }
        | Inst::ReadSpecial { .. }
        | Inst::Selp { .. }
        | Inst::Lop3 { .. }
        | Inst::Prmt { .. }
        | Inst::FunnelShift { .. }
        | Inst::Sad { .. }
        | Inst::Bfe { .. }
        | Inst::Bfi { .. }
        | Inst::Carry { .. }
        | Inst::CvtaToGeneric { .. }
        | Inst::CvtaFromGeneric { .. }
        | Inst::IsSpace { .. } => one(Pipe::Int),
        // Register pairs are two registers side by side.
        Inst::Pack { .. } | Inst::Unpack { .. } => [(Pipe::Int, 0), (Pipe::Int, 0)],
    }
}
