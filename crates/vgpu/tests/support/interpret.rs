//! The oracle: one thread after another, one value at a time, by the reference semantics; for programs whose threads do not meet.

use std::collections::BTreeMap;

use vgpu::ir::*;
use vgpu::numeric;

/// Memory that threads read and write: bytes by device address.
pub type Bytes = BTreeMap<u64, u8>;

/// Where a thread stands in its launch.
#[derive(Clone, Copy)]
pub struct Place {
    pub ctaid: [u32; 3],
    pub tid: [u32; 3],
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

enum Flow {
    Next,
    Break,
    Continue,
    Return,
}

struct Thread<'a> {
    kernel: &'a Kernel,
    params: &'a [u8],
    memory: &'a mut Bytes,
    regs: Vec<u64>,
    local: Vec<u8>,
    place: Place,
    steps: u64,
}

/// Runs every thread of a launch, the first to its end, then the next. `None` if a thread does not end
/// within a number of steps.
///
/// # Panics
/// At an instruction that the oracle does not know.
pub fn run(
    kernel: &Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    params: &[u8],
    memory: &mut Bytes,
) -> Option<()> {
    for cta in 0..grid.iter().product::<u32>() {
        for thread in 0..block.iter().product::<u32>() {
            let position = |index: u32, size: [u32; 3]| {
                [
                    index % size[0],
                    index / size[0] % size[1],
                    index / size[0] / size[1],
                ]
            };
            let place = Place {
                ctaid: position(cta, grid),
                tid: position(thread, block),
                grid,
                block,
            };
            let mut thread = Thread {
                kernel,
                params,
                memory,
                regs: vec![0; kernel.regs.len()],
                local: vec![0; kernel.local_bytes as usize],
                place,
                steps: 0,
            };
            thread.block(&kernel.body)?;
        }
    }
    Some(())
}

impl Thread<'_> {
    fn block(&mut self, block: &[Node]) -> Option<Flow> {
        for node in block {
            self.steps += 1;
            if self.steps > 200_000 {
                return None;
            }
            let flow = match &node.kind {
                NodeKind::Inst { guard, inst } => {
                    if self.holds(guard.as_ref()) {
                        self.inst(inst);
                    }
                    Flow::Next
                }
                NodeKind::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    if self.pred(*cond) {
                        self.block(then)?
                    } else {
                        self.block(otherwise)?
                    }
                }
                NodeKind::Loop { body } => loop {
                    self.steps += 1;
                    if self.steps > 200_000 {
                        return None;
                    }
                    match self.block(body)? {
                        Flow::Break => break Flow::Next,
                        Flow::Return => break Flow::Return,
                        Flow::Next | Flow::Continue => {}
                    }
                },
                NodeKind::Break { guard } => self.leave(guard.as_ref(), Flow::Break),
                NodeKind::Continue { guard } => self.leave(guard.as_ref(), Flow::Continue),
                NodeKind::Return { guard } => self.leave(guard.as_ref(), Flow::Return),
            };
            if !matches!(flow, Flow::Next) {
                return Some(flow);
            }
        }
        Some(Flow::Next)
    }

    fn leave(&self, guard: Option<&Guard>, flow: Flow) -> Flow {
        if self.holds(guard) { flow } else { Flow::Next }
    }

    fn pred(&self, reg: Reg) -> bool {
        self.regs[reg.0 as usize] & 1 == 1
    }

    fn holds(&self, guard: Option<&Guard>) -> bool {
        guard.is_none_or(|guard| self.pred(guard.pred) != guard.negated)
    }

    fn get(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Reg(reg) => self.regs[reg.0 as usize],
            Operand::Imm(bits) => bits,
        }
    }

    fn set(&mut self, reg: Reg, value: u64) {
        let class = self.kernel.regs[reg.0 as usize].class;
        self.regs[reg.0 as usize] = match class {
            RegClass::Pred => value & 1,
            RegClass::B32 => value & 0xffff_ffff,
            RegClass::B64 => value,
        };
    }

    fn special(&self, special: Special) -> u64 {
        let Place {
            ctaid,
            tid,
            grid,
            block,
        } = self.place;
        let linear = tid[0] + block[0] * (tid[1] + block[1] * tid[2]);
        let value = match special {
            Special::TidX => tid[0],
            Special::TidY => tid[1],
            Special::TidZ => tid[2],
            Special::NtidX => block[0],
            Special::NtidY => block[1],
            Special::NtidZ => block[2],
            Special::CtaidX => ctaid[0],
            Special::CtaidY => ctaid[1],
            Special::CtaidZ => ctaid[2],
            Special::NctaidX => grid[0],
            Special::NctaidY => grid[1],
            Special::NctaidZ => grid[2],
            Special::LaneId => linear % 32,
            Special::WarpId => linear / 32,
            other => panic!("the oracle does not know {other:?}"),
        };
        u64::from(value)
    }

    fn load(&self, space: Space, at: u64, size: u64) -> u64 {
        (0..size).fold(0, |value, index| {
            let at = at + index;
            let byte = match space {
                Space::Param => self.params[at as usize],
                Space::Local => self.local[at as usize],
                Space::Global => *self.memory.get(&at).expect("an address of a buffer"),
                other => panic!("the oracle does not know {other:?}"),
            };
            value | u64::from(byte) << (8 * index)
        })
    }

    fn store(&mut self, space: Space, at: u64, size: u64, value: u64) {
        for index in 0..size {
            let byte = (value >> (8 * index)) as u8;
            match space {
                Space::Local => self.local[(at + index) as usize] = byte,
                Space::Global => {
                    *self
                        .memory
                        .get_mut(&(at + index))
                        .expect("an address of a buffer") = byte;
                }
                other => panic!("the oracle does not know {other:?}"),
            }
        }
    }

    fn at(&self, addr: &Address) -> u64 {
        self.get(addr.base).wrapping_add(addr.offset as u64)
    }

    fn inst(&mut self, inst: &Inst) {
        let get = |operand: &Operand| self.get(*operand);
        let (dst, value) = match inst {
            Inst::Mov { dst, src } => (dst, get(src)),
            Inst::ReadSpecial { dst, special } => (dst, self.special(*special)),
            Inst::Pack { dst, lo, hi } => {
                let half = if self.kernel.regs[dst.0 as usize].class == RegClass::B64 {
                    32
                } else {
                    16
                };
                let low = (1u64 << half) - 1;
                (dst, get(lo) & low | (get(hi) & low) << half)
            }
            Inst::Unpack { lo, hi, src } => {
                let Operand::Reg(reg) = src else {
                    panic!("only a register is unpacked")
                };
                let half = if self.kernel.regs[reg.0 as usize].class == RegClass::B64 {
                    32
                } else {
                    16
                };
                let bits = get(src);
                self.set(*lo, bits & ((1 << half) - 1));
                self.set(*hi, bits >> half);
                return;
            }
            Inst::IntBinary { op, ty, dst, a, b } => {
                (dst, numeric::int_binary(*op, *ty, get(a), get(b)))
            }
            Inst::IntUnary { op, ty, dst, a } => (dst, numeric::int_unary(*op, *ty, get(a))),
            Inst::Mad {
                width,
                ty,
                dst,
                a,
                b,
                c,
            } => (dst, numeric::mad(*width, *ty, get(a), get(b), get(c))),
            Inst::Carry {
                subtract,
                ty,
                dst,
                carry_out,
                a,
                b,
                carry_in,
            } => {
                let carry = carry_in.is_some_and(|reg| self.pred(reg));
                let (value, carry) = numeric::add_with_carry(*subtract, *ty, get(a), get(b), carry);
                self.set(*dst, value);
                if let Some(reg) = carry_out {
                    self.set(*reg, u64::from(carry));
                }
                return;
            }
            Inst::Sad { ty, dst, a, b, c } => (dst, numeric::sad(*ty, get(a), get(b), get(c))),
            Inst::Bfe {
                ty,
                dst,
                a,
                pos,
                len,
            } => (dst, numeric::bfe(*ty, get(a), get(pos), get(len))),
            Inst::Bfi {
                ty,
                dst,
                a,
                b,
                pos,
                len,
            } => (dst, numeric::bfi(*ty, get(a), get(b), get(pos), get(len))),
            Inst::Lop3 {
                dst,
                a,
                b,
                c,
                table,
            } => (dst, numeric::lop3(get(a), get(b), get(c), *table)),
            Inst::FunnelShift {
                left,
                clamp,
                dst,
                lo,
                hi,
                amount,
            } => (
                dst,
                numeric::funnel_shift(*left, *clamp, get(lo), get(hi), get(amount)),
            ),
            Inst::Prmt {
                mode,
                dst,
                a,
                b,
                selector,
            } => (dst, numeric::prmt(*mode, get(a), get(b), get(selector))),
            Inst::Dp4a {
                a_signed,
                b_signed,
                dst,
                a,
                b,
                c,
            } => (
                dst,
                numeric::dp4a(*a_signed, *b_signed, get(a), get(b), get(c)),
            ),
            Inst::Dp2a {
                hi,
                a_signed,
                b_signed,
                dst,
                a,
                b,
                c,
            } => (
                dst,
                numeric::dp2a(*hi, *a_signed, *b_signed, get(a), get(b), get(c)),
            ),
            Inst::FloatBinary {
                op,
                ty,
                mods,
                dst,
                a,
                b,
            } => (
                dst,
                numeric::float_binary(*op, *ty, *mods, get(a), get(b)).expect("an exact operation"),
            ),
            Inst::FloatUnary {
                op,
                ty,
                mods,
                dst,
                a,
            } => (
                dst,
                numeric::float_unary(*op, *ty, *mods, get(a)).expect("an exact operation"),
            ),
            Inst::Fma {
                ty,
                mods,
                dst,
                a,
                b,
                c,
            } => (
                dst,
                numeric::fma(*ty, *mods, get(a), get(b), get(c)).expect("an operation"),
            ),
            Inst::Testp { class, ty, dst, a } => (
                dst,
                u64::from(numeric::testp(*class, *ty, get(a)).expect("a class")),
            ),
            Inst::Cvt {
                to,
                from,
                mods,
                satfinite,
                dst,
                a,
            } => (
                dst,
                numeric::cvt(*to, *from, *mods, *satfinite, get(a)).expect("a conversion"),
            ),
            Inst::CvtPack {
                to,
                mods,
                satfinite,
                dst,
                hi,
                lo,
            } => (
                dst,
                numeric::cvt_pack(*to, *mods, *satfinite, get(hi), get(lo)).expect("a conversion"),
            ),
            Inst::Setp {
                cmp,
                ty,
                ftz,
                dst,
                a,
                b,
                combine,
            } => {
                let result = if ty.is_integer() {
                    numeric::int_compare(*cmp, *ty, get(a), get(b))
                } else {
                    numeric::compare(*cmp, *ty, *ftz, get(a), get(b))
                };
                let result = result.expect("a comparison");
                let result = match combine {
                    None => result,
                    Some((op, guard)) => {
                        let other = self.holds(Some(guard));
                        boolean(*op, result, other)
                    }
                };
                (dst, u64::from(result))
            }
            Inst::Selp { dst, a, b, pred } => (dst, if self.pred(*pred) { get(a) } else { get(b) }),
            Inst::PredBinary { op, dst, a, b } => (
                dst,
                u64::from(boolean(*op, get(a) & 1 == 1, get(b) & 1 == 1)),
            ),
            Inst::PredNot { dst, a } => (dst, !get(a) & 1),
            Inst::Ld {
                space,
                ty,
                dst,
                addr,
                ..
            } => {
                let size = u64::from(ty.memory_bytes().expect("a type in memory"));
                for (index, reg) in dst.iter().enumerate() {
                    let bits = self.load(*space, self.at(addr) + size * index as u64, size);
                    self.set(*reg, sign_extend(bits, *ty));
                }
                return;
            }
            Inst::St {
                space,
                ty,
                src,
                addr,
                ..
            } => {
                let size = u64::from(ty.memory_bytes().expect("a type in memory"));
                for (index, operand) in src.iter().enumerate() {
                    self.store(
                        *space,
                        self.at(addr) + size * index as u64,
                        size,
                        self.get(*operand),
                    );
                }
                return;
            }
            other => panic!("the oracle does not know {other:?}"),
        };
        self.set(*dst, value);
    }
}

fn boolean(op: BoolOp, a: bool, b: bool) -> bool {
    match op {
        BoolOp::And => a && b,
        BoolOp::Or => a || b,
        BoolOp::Xor => a != b,
    }
}

fn sign_extend(bits: u64, ty: Type) -> u64 {
    match ty {
        Type::S8 => i64::from(bits as u8 as i8) as u64,
        Type::S16 => i64::from(bits as u16 as i16) as u64,
        _ => bits,
    }
}
