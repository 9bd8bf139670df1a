//! Clean-up of a translated kernel: what a compiler would not leave standing, and what it would move out of loops.

use std::collections::{HashMap, HashSet};

use vgpu::ir::*;

/// Runs all passes.
pub(crate) fn run(kernel: &mut Kernel) {
    let mut body = std::mem::take(&mut kernel.body);
    remove_dead(&mut body);
    coalesce_block(&mut body);
    remove_overwritten(&mut body);
    remove_dead(&mut body);
    let definitions = definition_counts(&body);
    hoist(&mut body, &definitions);
    kernel.body = body;
    give_unwritten_registers_a_value(kernel);
    drop_unused_registers(kernel);
}

/// Calls `f` with each register that the instruction reads.
pub(crate) fn uses(inst: &Inst, f: &mut impl FnMut(Reg)) {
    inst.registers(&mut |reg, part| {
        if part == RegisterUse::Read {
            f(reg);
        }
    });
}

/// Calls `f` with each register that the instruction writes.
pub(crate) fn definitions(inst: &Inst, f: &mut impl FnMut(Reg)) {
    inst.registers(&mut |reg, part| {
        if part == RegisterUse::Write {
            f(reg);
        }
    });
}

/// Whether the instruction does nothing but compute its results from its operands.
fn is_pure(inst: &Inst) -> bool {
    match inst {
        Inst::Mov { .. }
        | Inst::Pack { .. }
        | Inst::Unpack { .. }
        | Inst::IntBinary { .. }
        | Inst::IntUnary { .. }
        | Inst::Mad { .. }
        | Inst::Carry { .. }
        | Inst::Sad { .. }
        | Inst::Bfe { .. }
        | Inst::Bfi { .. }
        | Inst::Lop3 { .. }
        | Inst::FunnelShift { .. }
        | Inst::Prmt { .. }
        | Inst::Dp4a { .. }
        | Inst::Dp2a { .. }
        | Inst::FloatBinary { .. }
        | Inst::FloatUnary { .. }
        | Inst::Fma { .. }
        | Inst::Testp { .. }
        | Inst::Cvt { .. }
        | Inst::CvtPack { .. }
        | Inst::Setp { .. }
        | Inst::Selp { .. }
        | Inst::PredBinary { .. }
        | Inst::PredNot { .. }
        | Inst::CvtaToGeneric { .. }
        | Inst::CvtaFromGeneric { .. }
        | Inst::IsSpace { .. } => true,
        Inst::ReadSpecial { special, .. } => !matches!(
            special,
            Special::Clock | Special::Clock64 | Special::GlobalTimer
        ),
        Inst::Ld { space, .. } => *space == Space::Param,
        _ => false,
    }
}

/// Whether the instruction may go where nothing reads its results.
fn is_removable(inst: &Inst) -> bool {
    is_pure(inst)
        || match inst {
            Inst::Ld { order, .. } => *order == Ordering::Weak,
            // LLVM's shuffles have no effect on memory: dead ones go.
            Inst::Shfl { .. } | Inst::ReadSpecial { .. } => true,
            _ => false,
        }
}

fn for_each_node(block: &Block, f: &mut impl FnMut(&Node)) {
    for node in block {
        f(node);
        match &node.kind {
            NodeKind::If {
                then, otherwise, ..
            } => {
                for_each_node(then, f);
                for_each_node(otherwise, f);
            }
            NodeKind::Loop { body } => for_each_node(body, f),
            _ => {}
        }
    }
}

/// Registers that the node itself (not its blocks) reads.
fn node_uses(kind: &NodeKind, f: &mut impl FnMut(Reg)) {
    match kind {
        NodeKind::Inst { guard, inst } => {
            if let Some(guard) = guard {
                f(guard.pred);
            }
            uses(inst, f);
        }
        NodeKind::If { cond, .. } => f(*cond),
        NodeKind::Break { guard } | NodeKind::Continue { guard } | NodeKind::Return { guard } => {
            if let Some(guard) = guard {
                f(guard.pred);
            }
        }
        NodeKind::Loop { .. } => {}
    }
}

/// Registers that the node and its blocks read.
fn deep_uses(node: &Node, f: &mut impl FnMut(Reg)) {
    node_uses(&node.kind, f);
    match &node.kind {
        NodeKind::If {
            then, otherwise, ..
        } => {
            for_each_node(then, &mut |node| node_uses(&node.kind, f));
            for_each_node(otherwise, &mut |node| node_uses(&node.kind, f));
        }
        NodeKind::Loop { body } => for_each_node(body, &mut |node| node_uses(&node.kind, f)),
        _ => {}
    }
}

/// Registers that the node and its blocks write.
fn deep_definitions(node: &Node, f: &mut impl FnMut(Reg)) {
    let mut own = |node: &Node| {
        if let NodeKind::Inst { inst, .. } = &node.kind {
            definitions(inst, f);
        }
    };
    own(node);
    match &node.kind {
        NodeKind::If {
            then, otherwise, ..
        } => {
            for_each_node(then, &mut own);
            for_each_node(otherwise, &mut own);
        }
        NodeKind::Loop { body } => for_each_node(body, &mut own),
        _ => {}
    }
}

fn use_counts(body: &Block) -> HashMap<Reg, usize> {
    let mut counts = HashMap::new();
    for_each_node(body, &mut |node| {
        node_uses(&node.kind, &mut |reg| *counts.entry(reg).or_insert(0) += 1);
    });
    counts
}

fn definition_counts(body: &Block) -> HashMap<Reg, usize> {
    let mut counts = HashMap::new();
    for_each_node(body, &mut |node| {
        if let NodeKind::Inst { inst, .. } = &node.kind {
            definitions(inst, &mut |reg| *counts.entry(reg).or_insert(0) += 1);
        }
    });
    counts
}

/// Removes instructions whose results nothing reads, and branches that became empty.
fn remove_dead(body: &mut Block) {
    let mut counts = use_counts(body);
    while sweep(body, &mut counts) {}
}

fn sweep(block: &mut Block, counts: &mut HashMap<Reg, usize>) -> bool {
    let mut changed = false;
    // Backwards, so that one sweep removes a chain.
    for node in block.iter_mut().rev() {
        match &mut node.kind {
            NodeKind::If {
                then, otherwise, ..
            } => {
                changed |= sweep(then, counts);
                changed |= sweep(otherwise, counts);
            }
            NodeKind::Loop { body } => changed |= sweep(body, counts),
            _ => {}
        }
        if is_dead(&node.kind, counts) {
            node_uses(&node.kind, &mut |reg| {
                if let Some(count) = counts.get_mut(&reg) {
                    *count = count.saturating_sub(1);
                }
            });
            // Marked, and dropped below.
            node.kind = NodeKind::Loop { body: Vec::new() };
            changed = true;
        }
    }
    block.retain(|node| !matches!(&node.kind, NodeKind::Loop { body } if body.is_empty()));
    changed
}

fn is_dead(kind: &NodeKind, counts: &HashMap<Reg, usize>) -> bool {
    match kind {
        NodeKind::Inst { inst, .. } if is_removable(inst) => {
            let mut dead = true;
            // A register that an instruction reads and writes does not keep itself alive.
            let mut own = HashMap::new();
            uses(inst, &mut |reg| *own.entry(reg).or_insert(0usize) += 1);
            definitions(inst, &mut |reg| {
                let others = counts.get(&reg).copied().unwrap_or(0);
                dead &= others <= own.get(&reg).copied().unwrap_or(0);
            });
            dead
        }
        NodeKind::If {
            then, otherwise, ..
        } => then.is_empty() && otherwise.is_empty(),
        _ => false,
    }
}

/// Turns `t = ...; m = t` into `m = ...` where `t` lives in one block and `m` is not in its way.
fn coalesce_block(body: &mut Block) {
    let mut counts = use_counts(body);
    let defined = definition_counts(body);
    let mut budget = MERGE_BUDGET;
    coalesce(body, &mut counts, &defined, &mut budget);
}

fn coalesce(
    block: &mut Block,
    counts: &mut HashMap<Reg, usize>,
    defined: &HashMap<Reg, usize>,
    budget: &mut usize,
) {
    for node in block.iter_mut() {
        match &mut node.kind {
            NodeKind::If {
                then, otherwise, ..
            } => {
                coalesce(then, counts, defined, budget);
                coalesce(otherwise, counts, defined, budget);
            }
            NodeKind::Loop { body } => coalesce(body, counts, defined, budget),
            _ => {}
        }
    }
    // Where each register is written in this block (its last place so far), and each move.
    let mut made_at: HashMap<Reg, usize> = HashMap::new();
    let mut place = 0;
    while place < block.len() {
        let candidate = match &block[place].kind {
            NodeKind::Inst {
                guard: None,
                inst:
                    Inst::Mov {
                        dst,
                        src: Operand::Reg(src),
                    },
            } if dst != src => made_at.get(src).map(|&at| (*dst, *src, at)),
            _ => None,
        };
        if let Some((target, temporary, at)) = candidate
            && defined.get(&temporary) == Some(&1)
            && can_merge(block, at, place, (target, temporary), counts, budget)
        {
            for node in &mut block[at..] {
                rename(node, temporary, target);
            }
            block.remove(place);
            // The target takes over the temporary's uses, but for the move that is gone.
            let taken = counts.remove(&temporary).unwrap_or(0);
            *counts.entry(target).or_insert(0) += taken.saturating_sub(1);
            made_at.remove(&temporary);
            made_at.insert(target, at);
            continue;
        }
        if let NodeKind::Inst { guard: None, inst } = &block[place].kind {
            definitions(inst, &mut |reg| {
                made_at.insert(reg, place);
            });
        }
        place += 1;
    }
}

/// How many uses all merges together may look at: beyond it, moves stay.
const MERGE_BUDGET: usize = 50_000_000;
/// How far ahead of a move its source's uses are looked for.
const MERGE_WINDOW: usize = 400;

fn can_merge(
    block: &Block,
    at: usize,
    place: usize,
    (target, temporary): (Reg, Reg),
    counts: &HashMap<Reg, usize>,
    budget: &mut usize,
) -> bool {
    if place - at > MERGE_WINDOW || *budget == 0 {
        return false;
    }
    // The instruction itself may read the target's old value, but not write it.
    let mut clash = false;
    deep_definitions(&block[at], &mut |reg| clash |= reg == target);
    // Between the two, nothing may read or write the target.
    for node in &block[at + 1..place] {
        deep_uses(node, &mut |reg| {
            clash |= reg == target;
            *budget = budget.saturating_sub(1);
        });
        deep_definitions(node, &mut |reg| clash |= reg == target);
    }
    if clash {
        return false;
    }
    // Every use of the temporary must come in this block, before the target changes.
    let total = counts.get(&temporary).copied().unwrap_or(0);
    let mut seen = 0;
    for (offset, node) in block[at + 1..].iter().enumerate() {
        let before = seen;
        deep_uses(node, &mut |reg| {
            seen += usize::from(reg == temporary);
            *budget = budget.saturating_sub(1);
        });
        let is_move = at + 1 + offset == place;
        let mut changed = false;
        if !is_move {
            deep_definitions(node, &mut |reg| changed |= reg == target);
        }
        // An instruction reads before it writes; a branch or a loop may do so in any order.
        let in_order = matches!(node.kind, NodeKind::Inst { .. });
        if changed && seen > before && !in_order {
            return false;
        }
        if seen == total {
            return true;
        }
        if changed || offset > MERGE_WINDOW || leaves(node) {
            return false;
        }
    }
    false
}

/// Whether control may leave the block at the node.
fn leaves(node: &Node) -> bool {
    let jump = |kind: &NodeKind| {
        matches!(
            kind,
            NodeKind::Break { .. } | NodeKind::Continue { .. } | NodeKind::Return { .. }
        )
    };
    let mut found = jump(&node.kind);
    match &node.kind {
        NodeKind::If {
            then, otherwise, ..
        } => {
            for_each_node(then, &mut |node| found |= jump(&node.kind));
            for_each_node(otherwise, &mut |node| found |= jump(&node.kind));
        }
        NodeKind::Loop { body } => for_each_node(body, &mut |node| found |= jump(&node.kind)),
        _ => {}
    }
    found
}

fn rename(node: &mut Node, from: Reg, to: Reg) {
    let swap = |reg: &mut Reg| {
        if *reg == from {
            *reg = to;
        }
    };
    match &mut node.kind {
        NodeKind::Inst { guard, inst } => {
            if let Some(guard) = guard {
                swap(&mut guard.pred);
            }
            inst.registers_mut(&mut |reg, _| swap(reg));
        }
        NodeKind::If {
            cond,
            then,
            otherwise,
        } => {
            swap(cond);
            for node in then.iter_mut().chain(otherwise) {
                rename(node, from, to);
            }
        }
        NodeKind::Loop { body } => {
            for node in body {
                rename(node, from, to);
            }
        }
        NodeKind::Break { guard } | NodeKind::Continue { guard } | NodeKind::Return { guard } => {
            if let Some(guard) = guard {
                swap(&mut guard.pred);
            }
        }
    }
}

/// Removes writes that the same block overwrites before anything reads them.
fn remove_overwritten(block: &mut Block) {
    let mut overwritten: HashSet<Reg> = HashSet::new();
    let mut keep = vec![true; block.len()];
    for (place, node) in block.iter_mut().enumerate().rev() {
        match &mut node.kind {
            NodeKind::Inst { guard, inst } => {
                let mut written = Vec::new();
                definitions(inst, &mut |reg| written.push(reg));
                let dead =
                    !written.is_empty() && written.iter().all(|reg| overwritten.contains(reg));
                if dead && is_removable(inst) {
                    keep[place] = false;
                    continue;
                }
                if guard.is_none() {
                    overwritten.extend(written);
                }
            }
            NodeKind::If {
                then, otherwise, ..
            } => {
                remove_overwritten(then);
                remove_overwritten(otherwise);
            }
            NodeKind::Loop { body } => remove_overwritten(body),
            _ => {}
        }
        if leaves(node) {
            overwritten.clear();
        }
        deep_uses(node, &mut |reg| {
            overwritten.remove(&reg);
        });
    }
    let mut flags = keep.into_iter();
    block.retain(|_| flags.next().unwrap_or(true));
}

/// Moves what does not change in a loop out of it.
fn hoist(block: &mut Block, counts: &HashMap<Reg, usize>) {
    let mut place = 0;
    while place < block.len() {
        let moved = match &mut block[place].kind {
            NodeKind::If {
                then, otherwise, ..
            } => {
                hoist(then, counts);
                hoist(otherwise, counts);
                Vec::new()
            }
            NodeKind::Loop { body } => {
                hoist(body, counts);
                let mut inside = HashSet::new();
                for_each_node(body, &mut |node| {
                    if let NodeKind::Inst { inst, .. } = &node.kind {
                        definitions(inst, &mut |reg| {
                            inside.insert(reg);
                        });
                    }
                });
                let mut moved = Vec::new();
                take_invariant(body, counts, &mut inside, &mut moved);
                moved
            }
            _ => Vec::new(),
        };
        let count = moved.len();
        block.splice(place..place, moved);
        place += count + 1;
    }
}

fn take_invariant(
    block: &mut Block,
    counts: &HashMap<Reg, usize>,
    inside: &mut HashSet<Reg>,
    moved: &mut Vec<Node>,
) {
    let mut kept = Vec::with_capacity(block.len());
    for mut node in std::mem::take(block) {
        let invariant = match &node.kind {
            NodeKind::Inst { guard: None, inst } if is_pure(inst) => {
                let mut still = true;
                uses(inst, &mut |reg| still &= !inside.contains(&reg));
                definitions(inst, &mut |reg| still &= counts.get(&reg) == Some(&1));
                still
            }
            _ => false,
        };
        if invariant {
            if let NodeKind::Inst { inst, .. } = &node.kind {
                definitions(inst, &mut |reg| {
                    inside.remove(&reg);
                });
            }
            moved.push(node);
            continue;
        }
        if let NodeKind::If {
            then, otherwise, ..
        } = &mut node.kind
        {
            take_invariant(then, counts, inside, moved);
            take_invariant(otherwise, counts, inside, moved);
        }
        kept.push(node);
    }
    *block = kept;
}

/// A local variable that is read and never written holds anything: zero will do.
fn give_unwritten_registers_a_value(kernel: &mut Kernel) {
    let written = definition_counts(&kernel.body);
    let mut read: Vec<Reg> = use_counts(&kernel.body).into_keys().collect();
    read.sort_unstable();
    let missing = read.into_iter().filter(|reg| !written.contains_key(reg));
    let nodes: Vec<Node> = missing
        .map(|dst| Node {
            location: Location::default(),
            kind: NodeKind::Inst {
                guard: None,
                inst: Inst::Mov {
                    dst,
                    src: Operand::Imm(0),
                },
            },
        })
        .collect();
    kernel.body.splice(0..0, nodes);
}

/// Numbers the registers that are left anew.
fn drop_unused_registers(kernel: &mut Kernel) {
    let mut used: HashSet<Reg> = use_counts(&kernel.body).into_keys().collect();
    used.extend(definition_counts(&kernel.body).into_keys());
    let mut map = HashMap::new();
    let mut kept = Vec::new();
    for (index, decl) in std::mem::take(&mut kernel.regs).into_iter().enumerate() {
        let old = Reg(index as u32);
        if used.contains(&old) {
            let new = Reg(kept.len() as u32);
            let letter = decl.name.chars().next().unwrap_or('r');
            kept.push(RegDecl {
                name: format!("{letter}{}", new.0),
                class: decl.class,
            });
            map.insert(old, new);
        }
    }
    kernel.regs = kept;
    renumber(&mut kernel.body, &map);
}

fn renumber(block: &mut Block, map: &HashMap<Reg, Reg>) {
    let swap = |reg: &mut Reg| {
        if let Some(&new) = map.get(reg) {
            *reg = new;
        }
    };
    for node in block {
        match &mut node.kind {
            NodeKind::Inst { guard, inst } => {
                if let Some(guard) = guard {
                    swap(&mut guard.pred);
                }
                inst.registers_mut(&mut |reg, _| swap(reg));
            }
            NodeKind::If {
                cond,
                then,
                otherwise,
            } => {
                swap(cond);
                renumber(then, map);
                renumber(otherwise, map);
            }
            NodeKind::Loop { body } => renumber(body, map),
            NodeKind::Break { guard }
            | NodeKind::Continue { guard }
            | NodeKind::Return { guard } => {
                if let Some(guard) = guard {
                    swap(&mut guard.pred);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
