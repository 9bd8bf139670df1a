//! Where registers stand: those that are never needed at the same time share a place, so that the
//! register file of a warp stays small. Structured code makes ranges of use plain: program order, and
//! whole loops for what lives from turn to turn.

use super::code::SLOT;

use crate::ir::{Block, Kernel, NodeKind, Reg, RegClass, RegisterUse};
use std::collections::BTreeSet;

/// Beyond this much work the analysis is left out, and nothing is shared.
const WORK_LIMIT: usize = 100_000_000;

/// Where a kernel's registers stand.
pub(super) struct Places {
    /// Offset in the register file, or index of the predicate, by register.
    pub places: Vec<u32>,
    /// Bytes of the register file.
    pub bytes: u32,
    /// Predicates, the two constant ones first.
    pub predicates: u32,
    /// 32-bit registers of a thread, estimated: the most that are in use at once, and some for
    /// addresses and temporaries of the hardware's own.
    pub registers: u32,
    /// Places to fill before a warp begins, offset and bytes: of registers that may be read unset.
    pub unset: Vec<(u32, u32)>,
}

/// Gives every register a place.
pub(super) fn places(kernel: &Kernel) -> Places {
    let mut walk = Walk::new(kernel);
    walk.work = size(&kernel.body) * (1 + kernel.regs.len() / 64);
    if walk.work < WORK_LIMIT {
        walk.block(&kernel.body);
    }
    let whole = walk.work >= WORK_LIMIT;
    let unset: Vec<Reg> = if whole {
        (0..kernel.regs.len() as u32).map(Reg).collect()
    } else {
        read_unset(&kernel.body, kernel.regs.len())
            .into_iter()
            .collect()
    };
    let ranges = if whole {
        vec![Some(Range::new(0, u32::MAX)); kernel.regs.len()]
    } else {
        walk.extended()
    };
    let mut places = assign(kernel, &ranges);
    let width = |reg: &Reg| match kernel.regs[reg.0 as usize].class {
        RegClass::Pred => None,
        RegClass::B32 => Some(SLOT),
        RegClass::B64 => Some(2 * SLOT),
    };
    let mut fill: Vec<(u32, u32)> = unset
        .iter()
        .filter_map(|reg| Some((places.places[reg.0 as usize], width(reg)?)))
        .collect();
    fill.sort_unstable();
    fill.dedup();
    places.unset = fill;
    places
}

/// Positions at which a register is used, and whether the last use writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    ends_written: bool,
}

impl Range {
    const fn new(first: u32, last: u32) -> Self {
        Self {
            first,
            last,
            ends_written: true,
        }
    }
}

fn size(block: &Block) -> usize {
    block
        .iter()
        .map(|node| match &node.kind {
            NodeKind::If {
                then, otherwise, ..
            } => 1 + size(then) + size(otherwise),
            NodeKind::Loop { body } => 1 + size(body),
            _ => 1,
        })
        .sum()
}

/// Collects ranges in program order, and loops with what is read in them before it is written.
struct Walk {
    ranges: Vec<Option<Range>>,
    /// First and last position, registers that live from turn to turn; inner loops before outer.
    loops: Vec<(u32, u32, BTreeSet<Reg>)>,
    position: u32,
    work: usize,
}

impl Walk {
    fn new(kernel: &Kernel) -> Self {
        Self {
            ranges: vec![None; kernel.regs.len()],
            loops: Vec::new(),
            position: 0,
            work: 0,
        }
    }

    fn touch(&mut self, reg: Reg, role: RegisterUse) {
        let position = self.position;
        let range = self.ranges[reg.0 as usize].get_or_insert(Range::new(position, position));
        let again = range.last == position && range.first != position;
        range.ends_written = role == RegisterUse::Write || (again && range.ends_written);
        range.last = position;
    }

    fn block(&mut self, block: &Block) {
        for node in block {
            self.position += 1;
            match &node.kind {
                NodeKind::Inst { guard, inst } => {
                    if let Some(guard) = guard {
                        self.touch(guard.pred, RegisterUse::Read);
                    }
                    inst.registers(&mut |reg, role| self.touch(reg, role));
                }
                NodeKind::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    self.touch(*cond, RegisterUse::Read);
                    self.block(then);
                    self.block(otherwise);
                }
                NodeKind::Loop { body } => {
                    let first = self.position;
                    self.block(body);
                    self.position += 1;
                    let count = self.ranges.len();
                    self.work += size(body) * (1 + count / 64) + count;
                    let carried = if self.work < WORK_LIMIT {
                        read_unset(body, count)
                    } else {
                        BTreeSet::new()
                    };
                    self.loops.push((first, self.position, carried));
                }
                NodeKind::Break { guard }
                | NodeKind::Continue { guard }
                | NodeKind::Return { guard } => {
                    if let Some(guard) = guard {
                        self.touch(guard.pred, RegisterUse::Read);
                    }
                }
            }
        }
    }

    /// Ranges, with whole loops for registers that live from turn to turn, or that are used both
    /// inside and outside (a lane may leave in a later turn with what an earlier one wrote).
    fn extended(self) -> Vec<Option<Range>> {
        let mut ranges = self.ranges;
        for (first, last, carried) in &self.loops {
            for (index, range) in ranges.iter_mut().enumerate() {
                let Some(range) = range else { continue };
                let inside = range.last >= *first && range.first <= *last;
                let outside = range.first < *first || range.last > *last;
                if inside && (outside || carried.contains(&Reg(index as u32))) {
                    range.ends_written |= range.last < *last;
                    range.first = range.first.min(*first);
                    range.last = range.last.max(*last);
                }
            }
        }
        ranges
    }
}

/// Places in the order in which ranges begin; a place is free again once its range has ended. An
/// instruction reads all sources before it writes, so its result may take a place that it reads last.
fn assign(kernel: &Kernel, ranges: &[Option<Range>]) -> Places {
    let mut places = vec![0; kernel.regs.len()];
    let mut predicates = 2;
    let mut order: Vec<usize> = Vec::new();
    for (index, reg) in kernel.regs.iter().enumerate() {
        if reg.class == RegClass::Pred {
            places[index] = predicates;
            predicates += 1;
        } else if ranges[index].is_some() {
            order.push(index);
        }
    }
    let range = |index: usize| ranges[index].unwrap_or(Range::new(0, 0));
    order.sort_by_key(|&index| range(index).first);
    // Ranges in use by when they end: (last, written at its end, register).
    let mut active: BTreeSet<(u32, bool, usize)> = BTreeSet::new();
    let mut free: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
    let (mut bytes, mut live, mut most) = (0u32, 0u32, 0u32);
    for index in order {
        let Range {
            first,
            last,
            ends_written,
        } = range(index);
        while let Some(&(end, written, other)) = active.first() {
            let over = end < first || (end == first && !written && range(other).first < first);
            if !over {
                break;
            }
            active.pop_first();
            let wide = kernel.regs[other].class == RegClass::B64;
            free[usize::from(wide)].push(places[other]);
            live -= 1 + u32::from(wide);
        }
        let wide = kernel.regs[index].class == RegClass::B64;
        places[index] = free[usize::from(wide)].pop().unwrap_or_else(|| {
            let place = bytes;
            bytes += if wide { 2 * SLOT } else { SLOT };
            place
        });
        live += 1 + u32::from(wide);
        most = most.max(live);
        active.insert((last, ends_written, index));
    }
    Places {
        places,
        bytes,
        predicates,
        registers: (most + 8).clamp(16, 255),
        unset: Vec::new(),
    }
}

/// A set of registers; `None` stands for all of them (a place that is never reached).
type Assigned = Option<Vec<u64>>;

fn meet(a: Assigned, b: Assigned) -> Assigned {
    match (a, b) {
        (None, other) | (other, None) => other,
        (Some(mut a), Some(b)) => {
            a.iter_mut().zip(b).for_each(|(a, b)| *a &= b);
            Some(a)
        }
    }
}

/// Registers that some path of a lane through a body reads before it has written them.
fn read_unset(body: &Block, registers: usize) -> BTreeSet<Reg> {
    let mut walk = Unset {
        found: BTreeSet::new(),
        // A loop's body leaves that loop.
        leaving: vec![None],
    };
    let none = vec![0; registers.div_ceil(64)];
    walk.block(body, Some(none));
    walk.found
}

struct Unset {
    found: BTreeSet<Reg>,
    /// For each open loop, what is assigned wherever it is left.
    leaving: Vec<Assigned>,
}

impl Unset {
    fn read(&mut self, assigned: &Assigned, reg: Reg) {
        if let Some(assigned) = assigned
            && assigned[reg.0 as usize / 64] >> (reg.0 % 64) & 1 == 0
        {
            self.found.insert(reg);
        }
    }

    fn block(&mut self, block: &Block, mut assigned: Assigned) -> Assigned {
        for node in block {
            match &node.kind {
                NodeKind::Inst { guard, inst } => {
                    if let Some(guard) = guard {
                        self.read(&assigned, guard.pred);
                    }
                    let mut written = Vec::new();
                    inst.registers(&mut |reg, role| match role {
                        RegisterUse::Read => self.read(&assigned, reg),
                        RegisterUse::Write => written.push(reg),
                    });
                    if let (Some(assigned), None) = (&mut assigned, guard) {
                        for reg in written {
                            assigned[reg.0 as usize / 64] |= 1 << (reg.0 % 64);
                        }
                    }
                }
                NodeKind::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    self.read(&assigned, *cond);
                    let one = self.block(then, assigned.clone());
                    let other = self.block(otherwise, assigned);
                    assigned = meet(one, other);
                }
                NodeKind::Loop { body } => {
                    self.leaving.push(None);
                    self.block(body, assigned);
                    assigned = self.leaving.pop().expect("pushed above");
                }
                NodeKind::Break { guard } => {
                    if let Some(guard) = guard {
                        self.read(&assigned, guard.pred);
                    }
                    let leaving = self.leaving.pop().expect("verified");
                    self.leaving.push(meet(leaving, assigned.clone()));
                    if guard.is_none() {
                        assigned = None;
                    }
                }
                NodeKind::Continue { guard } | NodeKind::Return { guard } => match guard {
                    Some(guard) => self.read(&assigned, guard.pred),
                    None => assigned = None,
                },
            }
        }
        assigned
    }
}
