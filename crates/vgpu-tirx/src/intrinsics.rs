//! Calls: TVM's builtins, CUDA's functions by name, and the `tirx.cuda.*` and `tirx.ptx.*` operators.

use sha2::{Digest, Sha256};
use vgpu::ir::*;

use crate::dtype::{DType, Elem, S32, U32, U64};
use crate::error::TranslateError;
use crate::expr::Arith;
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::memory::Manner;
use crate::value::{Pointer, Scalar, Value};

/// SHA-256 of a text, in hex.
pub(crate) fn digest(text: &str) -> String {
    let mut out = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

/// An operator's name in one spelling: `cuda.cta_sync` for `tirx.cuda_cta_sync` and `tirx.cuda.cta_sync`.
fn canonical(op: &str) -> String {
    let name = op.strip_prefix("tirx.").unwrap_or(op);
    for space in ["cuda", "ptx", "nvshmem"] {
        if let Some(rest) = name.strip_prefix(space)
            && let Some(rest) = rest.strip_prefix('_')
        {
            return format!("{space}.{rest}");
        }
    }
    name.to_owned()
}

/// Whether an operator computes from its operands alone and cannot fault.
pub(crate) fn is_harmless(op: &str) -> bool {
    matches!(
        op.strip_prefix("tirx.").unwrap_or(op),
        "bitwise_and"
            | "bitwise_or"
            | "bitwise_xor"
            | "bitwise_not"
            | "shift_left"
            | "shift_right"
            | "if_then_else"
            | "reinterpret"
            | "isnan"
            | "large_uint_imm"
            | "call_pure_extern"
            | "likely"
            | "address_of"
            | "fma"
    )
}

/// Every lane of a warp.
pub(crate) const FULL_MASK: Operand = Operand::Imm(0xffff_ffff);

impl Kernel<'_> {
    pub(crate) fn call(&mut self, id: Id) -> Result<Value> {
        let graph = self.graph;
        let op = graph.get(id, "op")?;
        if graph.kind(op) != "ir.Op" {
            return Err(self.incomplete("a call of another function of the module", id));
        }
        let name = canonical(graph.text(op)?);
        let args = graph.list(id, "args")?;
        match name.split_once('.') {
            Some(("cuda", rest)) => self.cuda(rest, &args, id),
            Some(("ptx", rest)) => self.ptx(rest, &args, id),
            _ => self.builtin(&name, &args, id),
        }
    }

    /// The operand at `index`, or an error that names the operator.
    pub(crate) fn arg(&self, args: &[Id], index: usize, at: Id) -> Result<Id> {
        args.get(index).copied().ok_or_else(|| {
            TranslateError::malformed(format!(
                "operator {} has {} operands; operand {index} is missing",
                self.graph
                    .get(at, "op")
                    .and_then(|op| self.graph.text(op))
                    .unwrap_or("?"),
                args.len()
            ))
        })
    }

    fn builtin(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        let graph = self.graph;
        let arith = match name {
            "bitwise_and" => Some(Arith::And),
            "bitwise_or" => Some(Arith::Or),
            "bitwise_xor" => Some(Arith::Xor),
            "shift_left" => Some(Arith::Shl),
            "shift_right" => Some(Arith::Shr),
            _ => None,
        };
        if let Some(arith) = arith {
            let a = self.value(self.arg(args, 0, id)?)?;
            let b = self.value(self.arg(args, 1, id)?)?;
            return self.zip_lanes(a, b, id, |kernel, a, b| kernel.arith(arith, a, b, id));
        }
        match name {
            "bitwise_not" => {
                let a = self.value(self.arg(args, 0, id)?)?;
                self.map_lanes(a, id, |kernel, a| {
                    if a.ty == Elem::Bool {
                        return Ok(Scalar::new(kernel.b.not(a.op), a.ty));
                    }
                    let ty = kernel.promoted(a.ty);
                    let a = kernel.convert(a, ty, id)?;
                    let ones = Scalar::imm(crate::builder::mask(u64::MAX, ty.bits()), ty);
                    kernel.arith(Arith::Xor, a, ones, id)
                })
            }
            "if_then_else" => {
                let (a, b) = (self.arg(args, 1, id)?, self.arg(args, 2, id)?);
                self.selection(self.arg(args, 0, id)?, a, b, id)
            }
            "likely" | "tvm_thread_invariant" => self.value(self.arg(args, 0, id)?),
            "large_uint_imm" => {
                let low = self.constant(self.arg(args, 0, id)?, "a constant")? as u64 & 0xffff_ffff;
                let high = self.constant(self.arg(args, 1, id)?, "a constant")? as u64;
                Ok(Value::Scalar(Scalar::imm(
                    high << 32 | low,
                    graph.dtype(id)?.elem,
                )))
            }
            "address_of" => self.address_of(self.arg(args, 0, id)?, id),
            "reinterpret" => {
                let (operand, to) = (self.arg(args, 0, id)?, graph.dtype(id)?);
                // Where both types say their size they must agree, as TVM asks.
                if let Ok(from) = graph.dtype(operand)
                    && let (Some(from_bytes), Some(to_bytes)) = (from.elem.bytes(), to.elem.bytes())
                    && from_bytes * u32::from(from.lanes) != to_bytes * u32::from(to.lanes)
                {
                    return Err(TranslateError::malformed(format!(
                        "a reinterpretation of {} x {:?} as {} x {:?}{}",
                        from.lanes,
                        from.elem,
                        to.lanes,
                        to.elem,
                        self.place(id)
                    )));
                }
                let value = self.value(operand)?;
                self.reinterpret_value(value, to, id)
            }
            "isnan" => {
                let value = self.value(self.arg(args, 0, id)?)?;
                self.map_lanes(value, id, |kernel, a| kernel.compare(Compare::Ne, a, a, id))
            }
            "isnullptr" => {
                let pointer = self.pointer(self.arg(args, 0, id)?)?;
                let bits = self.address_bits(pointer);
                let null = self
                    .b
                    .setp(Compare::Eq, Type::U64, false, bits.op, Operand::Imm(0));
                Ok(Value::Scalar(Scalar::new(null, Elem::Bool)))
            }
            "ptr_byte_offset" | "handle_add_byte_offset" => {
                let pointer = self.pointer(self.arg(args, 0, id)?)?;
                let bytes = self.scalar(self.arg(args, 1, id)?)?;
                Ok(Value::Pointer(self.offset_pointer(pointer, bytes, 1)?))
            }
            "tvm_access_ptr" => {
                let elem = self.access_type(self.arg(args, 0, id)?)?;
                let pointer = self.pointer(self.arg(args, 1, id)?)?;
                let index = self.scalar(self.arg(args, 2, id)?)?;
                Ok(Value::Pointer(self.offset_pointer(pointer, index, elem)?))
            }
            "call_extern" | "call_pure_extern" => {
                let function = graph.text(self.arg(args, 0, id)?)?.to_owned();
                self.extern_call(&function, &args[1..], id)
            }
            "fma" => {
                let a = self.scalar(self.arg(args, 0, id)?)?;
                let b = self.scalar(self.arg(args, 1, id)?)?;
                let c = self.scalar(self.arg(args, 2, id)?)?;
                let mods = crate::expr::mods_of(a.ty);
                if !a.ty.is_float() || a.ty != b.ty || a.ty != c.ty {
                    return Err(TranslateError::malformed(
                        "fma of what is not of one float type",
                    ));
                }
                let op = self.b.fma(a.ty.ir(), mods, a.op, b.op, c.op);
                Ok(Value::Scalar(Scalar::new(op, a.ty)))
            }
            "ret" | "thread_return" => {
                self.b.node(NodeKind::Return { guard: None });
                Ok(Value::Void)
            }
            "break_loop" => {
                self.leave_loop(id, NodeKind::Break { guard: None })?;
                Ok(Value::Void)
            }
            "continue_loop" => {
                self.leave_loop(id, NodeKind::Continue { guard: None })?;
                Ok(Value::Void)
            }
            "tvm_storage_sync" => {
                match graph.text(self.arg(args, 0, id)?)? {
                    "warp" => {}
                    "shared" | "shared.dyn" => self.cta_sync(),
                    other => {
                        let what = format!("tvm_storage_sync of {other:?}");
                        return Err(self.incomplete(what, id));
                    }
                }
                Ok(Value::Void)
            }
            "undef" => {
                let elem = graph.dtype(id)?.elem;
                Ok(Value::Scalar(Scalar::imm(0, elem)))
            }
            "print_buffer" => self.print_buffer(args, id),
            // An assumption for the optimiser.
            "assume" => Ok(Value::Void),
            other => self.unmodelled(&format!("tirx.{other}"), id),
        }
    }

    /// An operator that is not modelled: reaching it makes the launch incomplete.
    pub(crate) fn unmodelled(&mut self, operator: &str, id: Id) -> Result<Value> {
        let name = format!("{operator}{}", self.place(id));
        self.b.inst(Inst::Unmodelled { name });
        self.clobber();
        let dtype = self.graph.dtype(id)?;
        Ok(match dtype {
            DType {
                elem: Elem::Void, ..
            } => Value::Void,
            DType {
                elem: Elem::Handle, ..
            } => Value::Scalar(Scalar::imm(0, U64)),
            DType { elem, lanes } => Value::lanes(vec![Scalar::imm(0, elem); usize::from(lanes)]),
        })
    }

    /// The bytes of an element that `tvm_access_ptr`'s first operand stands for.
    fn access_type(&self, id: Id) -> Result<u32> {
        let dtype = self.graph.dtype(id)?;
        let size = dtype.elem.bytes();
        let size = size.ok_or_else(|| self.incomplete("a pointer to elements of four bits", id))?;
        Ok(size * u32::from(dtype.lanes))
    }

    fn address_of(&mut self, id: Id, at: Id) -> Result<Value> {
        let graph = self.graph;
        if graph.kind(id) != "tirx.BufferLoad" {
            return Err(self.incomplete("the address of what is not in a buffer", at));
        }
        let buffer = graph.get(id, "buffer")?;
        let dtype = graph.dtype(buffer)?;
        let start = self.pointer(graph.get(buffer, "data")?)?;
        let index = self.single_index(id)?;
        let index = if graph.kind(index) == "tirx.Ramp" {
            graph.get(index, "base")?
        } else {
            index
        };
        let scalar = self.scalar(index)?;
        let pointer = match dtype.elem.bytes() {
            Some(size) => self.offset_pointer(start, scalar, size * u32::from(dtype.lanes))?,
            None => {
                let scalar = self.convert(scalar, S32, at)?;
                let half = self
                    .b
                    .int(IntBinary::Shr, Type::S32, scalar.op, Operand::Imm(1));
                self.offset_pointer(start, Scalar::new(half, S32), 1)?
            }
        };
        Ok(Value::Pointer(pointer))
    }

    /// The same bits as another type; lanes may join or split.
    fn reinterpret_value(&mut self, value: Value, to: DType, id: Id) -> Result<Value> {
        let lanes = match value {
            Value::Pointer(pointer) if to.elem == Elem::Handle => {
                return Ok(Value::Pointer(pointer));
            }
            Value::Pointer(pointer) => vec![self.address_bits(pointer)],
            Value::Scalar(scalar) => vec![scalar],
            Value::Vector(lanes) => lanes,
            _ => {
                return Err(TranslateError::malformed(
                    "a reinterpretation of what has no bits",
                ));
            }
        };
        if to.elem == Elem::Handle {
            return Ok(Value::Pointer(self.pointer_from_bits(lanes[0], id)?));
        }
        // C has promoted narrow arithmetic: come back to the type that TIR names first.
        let count = usize::from(to.lanes);
        if lanes.len() == count {
            let lanes: Result<Vec<Scalar>> = lanes
                .into_iter()
                .map(|lane| {
                    let lane = if lane.ty.is_int() && lane.ty.bits() > to.elem.bits() {
                        let narrow = Elem::Int {
                            bits: to.elem.bits().max(8) as u8,
                            signed: lane.ty.is_signed(),
                        };
                        self.convert(lane, narrow, id)?
                    } else {
                        lane
                    };
                    self.reinterpret(lane, to.elem, id)
                })
                .collect();
            return Ok(Value::lanes(lanes?));
        }
        let from = lanes[0].ty;
        let total = from.bits() * lanes.len() as u32;
        if total != to.elem.bits() * u32::from(to.lanes) || from == Elem::Bool {
            let what = format!(
                "reinterpretation of {} x {from:?} as {} x {:?}",
                lanes.len(),
                to.lanes,
                to.elem
            );
            return Err(self.incomplete(what, id));
        }
        let unsigned = |bits: u32| Elem::Int {
            bits: bits as u8,
            signed: false,
        };
        let mut out = Vec::with_capacity(count);
        if lanes.len() > count {
            let each = lanes.len() / count;
            for group in lanes.chunks(each) {
                let mut raw = Vec::with_capacity(each);
                for &lane in group {
                    raw.push(self.reinterpret(lane, unsigned(from.bits()), id)?);
                }
                let joined = if from == Elem::E2M1 {
                    return Err(self.incomplete("reinterpretation of four-bit elements", id));
                } else {
                    Scalar::new(self.join(&raw), unsigned(to.elem.bits()))
                };
                out.push(self.reinterpret(joined, to.elem, id)?);
            }
        } else {
            let each = count / lanes.len();
            for lane in lanes {
                let raw = self.reinterpret(lane, unsigned(from.bits()), id)?;
                if to.elem == Elem::E2M1 {
                    let wide = self.convert(raw, U32, id)?;
                    for index in 0..each as u64 {
                        let pos = Operand::Imm(index * 4);
                        let code = self.b.pure(RegClass::B32, [wide.op], |dst, [a]| Inst::Bfe {
                            ty: Type::U32,
                            dst,
                            a,
                            pos,
                            len: Operand::Imm(4),
                        });
                        out.push(Scalar::new(Operand::Reg(code), Elem::E2M1));
                    }
                    continue;
                }
                for part in self.cut(raw, each) {
                    out.push(self.reinterpret(part, to.elem, id)?);
                }
            }
        }
        Ok(Value::lanes(out))
    }

    // ---- pieces that the operators share ----

    pub(crate) fn cta_sync(&mut self) {
        self.b.inst(Inst::BarrierSync {
            aligned: true,
            id: Operand::Imm(0),
            count: None,
        });
        self.clobber();
    }

    /// An operand as an unsigned 32-bit number.
    pub(crate) fn u32_arg(&mut self, args: &[Id], index: usize, at: Id) -> Result<Operand> {
        let arg = self.arg(args, index, at)?;
        Ok(self.scalar_of(arg, U32)?.op)
    }

    /// A text operand.
    pub(crate) fn text_arg(&self, args: &[Id], index: usize, at: Id) -> Result<String> {
        let arg = self.arg(args, index, at)?;
        Ok(self.graph.text(arg)?.to_owned())
    }

    /// A yes-or-no operand that must be known.
    pub(crate) fn flag_arg(&mut self, args: &[Id], index: usize, at: Id) -> Result<bool> {
        let arg = self.arg(args, index, at)?;
        Ok(self.constant(arg, "a flag")? != 0)
    }

    /// A shuffle of a value of 32 or 64 bits, or narrower.
    pub(crate) fn shuffle_value(
        &mut self,
        mode: ShuffleMode,
        value: Scalar,
        lane: Operand,
        clamp: Operand,
        members: Operand,
    ) -> Scalar {
        if value.ty.bits() == 64 {
            let halves = self.cut(value, 2);
            let moved: Vec<Scalar> = halves
                .into_iter()
                .map(|half| self.shuffle_value(mode, half, lane, clamp, members))
                .collect();
            return Scalar::new(self.join(&moved), value.ty);
        }
        if value.ty == Elem::Bool {
            let number = self
                .b
                .select(RegClass::B32, value.op, Operand::Imm(1), Operand::Imm(0));
            let moved = self.shuffle_value(mode, Scalar::new(number, U32), lane, clamp, members);
            let set = self
                .b
                .setp(Compare::Ne, Type::U32, false, moved.op, Operand::Imm(0));
            return Scalar::new(set, Elem::Bool);
        }
        let dst = self.b.fresh(RegClass::B32);
        self.b.inst(Inst::Shfl {
            mode,
            dst,
            in_range: None,
            a: value.op,
            lane,
            clamp,
            members,
        });
        Scalar::new(Operand::Reg(dst), value.ty)
    }

    /// A source operand's guard: a predicate in a register.
    pub(crate) fn guard(&mut self, pred: Operand) -> Guard {
        Guard {
            pred: self.b.in_register(RegClass::Pred, pred),
            negated: false,
        }
    }

    /// An atomic operation that gives the old value.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn atomic(
        &mut self,
        op: AtomicOp,
        pointer: Pointer,
        ty: Type,
        elem: Elem,
        b: Operand,
        c: Option<Operand>,
        manner: Manner,
        wants_old: bool,
    ) -> Scalar {
        let pointer = match pointer {
            Pointer::Array { array, .. } => self.demote(array),
            memory => memory,
        };
        let Pointer::Memory {
            space,
            base,
            offset,
            root,
        } = pointer
        else {
            return Scalar::imm(0, elem);
        };
        let dst = wants_old.then(|| self.b.fresh(elem.class()));
        let order = match manner.order {
            Ordering::Weak => Ordering::Relaxed,
            other => other,
        };
        self.b.inst(Inst::Atomic {
            op,
            space,
            ty,
            dst,
            addr: Address { base, offset },
            b,
            c,
            order,
            scope: manner.scope,
        });
        if order == Ordering::Relaxed {
            self.wrote(root);
        } else {
            self.clobber();
        }
        match dst {
            Some(dst) => Scalar::new(Operand::Reg(dst), elem),
            None => Scalar::imm(0, elem),
        }
    }

    /// `__fdividef`-free reciprocal: `1 / a`.
    pub(crate) fn reciprocal(&mut self, a: Operand) -> Operand {
        self.fast_unary(FloatUnary::RcpApprox, a)
    }

    /// A 64-bit operand (packed pairs of singles, addresses).
    pub(crate) fn u64_arg(&mut self, args: &[Id], index: usize, at: Id) -> Result<Operand> {
        let arg = self.arg(args, index, at)?;
        Ok(self.scalar_of(arg, U64)?.op)
    }
}
