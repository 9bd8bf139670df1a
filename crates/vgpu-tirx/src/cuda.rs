//! The operators `tirx.cuda.*`.

use vgpu::ir::*;

use crate::dtype::{Elem, S32, U32, U64};
use crate::error::TranslateError;
use crate::expr::{Arith, FAST};
use crate::graph::Id;
use crate::intrinsics::{FULL_MASK, digest};
use crate::kernel::{Kernel, Result};
use crate::memory::{Manner, advance};
use crate::value::{Pointer, Scalar, Value};

impl Kernel<'_> {
    pub(crate) fn cuda(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        let none = Ok(Value::Void);
        match name {
            "cta_sync" => {
                self.cta_sync();
                none
            }
            "warp_sync" => {
                self.b.inst(Inst::WarpSync { members: FULL_MASK });
                self.clobber();
                none
            }
            "warpgroup_sync" => {
                let barrier = self.u32_arg(args, 0, id)?;
                self.named_barrier(barrier, Operand::Imm(128));
                none
            }
            "thread_fence" => {
                self.fence(Ordering::AcquireRelease, Scope::Gpu);
                none
            }
            "syncthreads_and" | "syncthreads_or" => {
                let pred = self.arg(args, 0, id)?;
                let pred = self.predicate(pred)?;
                let pred = self.guard(pred);
                let dst = self.b.fresh(RegClass::Pred);
                let op = if name == "syncthreads_and" {
                    BarrierReduction::And
                } else {
                    BarrierReduction::Or
                };
                self.b.inst(Inst::BarrierReduce {
                    aligned: true,
                    op,
                    dst,
                    id: Operand::Imm(0),
                    count: None,
                    pred,
                });
                self.clobber();
                let set = Scalar::new(Operand::Reg(dst), Elem::Bool);
                Ok(Value::Scalar(self.convert(set, S32, id)?))
            }
            "__shfl_sync" | "__shfl_up_sync" | "__shfl_down_sync" | "__shfl_xor_sync" => {
                self.shuffle_call(name, args, id)
            }
            "__activemask" => {
                let dst = self.b.fresh(RegClass::B32);
                self.b.inst(Inst::ActiveMask { dst });
                Ok(Value::Scalar(Scalar::new(Operand::Reg(dst), U32)))
            }
            "ballot_sync" => {
                let members = self.u32_arg(args, 0, id)?;
                let pred = self.arg(args, 1, id)?;
                let pred = self.predicate(pred)?;
                let pred = self.guard(pred);
                let dst = self.b.fresh(RegClass::B32);
                self.b.inst(Inst::Ballot { dst, pred, members });
                Ok(Value::Scalar(Scalar::new(Operand::Reg(dst), U32)))
            }
            "reduce_add_sync_u32" | "reduce_min_sync_u32" => {
                let members = self.u32_arg(args, 0, id)?;
                let a = self.u32_arg(args, 1, id)?;
                let op = if name == "reduce_add_sync_u32" {
                    ReduxOp::Add
                } else {
                    ReduxOp::Min
                };
                let dst = self.b.fresh(RegClass::B32);
                self.b.inst(Inst::Redux {
                    op,
                    ty: Type::U32,
                    abs: false,
                    dst,
                    a,
                    members,
                });
                Ok(Value::Scalar(Scalar::new(Operand::Reg(dst), U32)))
            }
            "ffs_u32" => {
                let arg = self.arg(args, 0, id)?;
                let bits = self.scalar_of(arg, U32)?;
                Ok(Value::Scalar(self.find_first_set(bits)))
            }
            "thread_rank" => {
                let rank = self.thread_rank();
                Ok(Value::Scalar(Scalar::new(rank, S32)))
            }
            "nano_sleep" => {
                let time = self.u32_arg(args, 0, id)?;
                self.b.inst(Inst::Nanosleep { nanoseconds: time });
                none
            }
            "clock64" => {
                let dst = self.b.fresh(RegClass::B64);
                self.b.inst(Inst::ReadSpecial {
                    dst,
                    special: Special::Clock64,
                });
                Ok(Value::Scalar(Scalar::new(Operand::Reg(dst), U64)))
            }
            "trap_when_assert_failed" => {
                let holds = self.arg(args, 0, id)?;
                let holds = self.predicate(holds)?;
                let guard = self.guard(holds);
                let failed = Guard {
                    negated: true,
                    ..guard
                };
                self.b.guarded(failed, Inst::Trap);
                none
            }
            "printf" => self.printf(args, id),
            "copy_bytes" => self.copy_bytes(args, id),
            "ldg" => {
                let pointer = self.pointer(self.arg(args, 0, id)?)?;
                let dtype = self.graph.dtype(id)?;
                let manner = Manner {
                    cache: CacheHint::NonCoherent,
                    ..Manner::default()
                };
                let lanes = self.load(pointer, dtype.elem, usize::from(dtype.lanes), manner, id)?;
                Ok(Value::lanes(lanes))
            }
            "atomic_add" => {
                let pointer = self.pointer(self.arg(args, 0, id)?)?;
                let value = self.scalar(self.arg(args, 1, id)?)?;
                let ty = atomic_type(value.ty)
                    .ok_or_else(|| self.incomplete(format!("atomicAdd of {:?}", value.ty), id))?;
                let old = self.atomic(
                    AtomicOp::Add,
                    pointer,
                    ty,
                    value.ty,
                    value.op,
                    None,
                    Manner::default(),
                    true,
                );
                Ok(Value::Scalar(old))
            }
            "atomic_cas" => {
                let pointer = self.pointer(self.arg(args, 0, id)?)?;
                let compare = self.scalar(self.arg(args, 1, id)?)?;
                let value = self.arg(args, 2, id)?;
                let value = self.scalar_of(value, compare.ty)?;
                let ty = match compare.ty.bits() {
                    16 => Type::B16,
                    32 => Type::B32,
                    64 => Type::B64,
                    _ => return Err(self.incomplete(format!("atomicCAS of {:?}", compare.ty), id)),
                };
                let old = self.atomic(
                    AtomicOp::Cas,
                    pointer,
                    ty,
                    compare.ty,
                    compare.op,
                    Some(value.op),
                    Manner::default(),
                    true,
                );
                Ok(Value::Scalar(old))
            }
            "cvta_generic_to_shared" => {
                let pointer = self.pointer(self.arg(args, 0, id)?)?;
                Ok(Value::Scalar(self.shared_offset(pointer)))
            }
            "smem_addr_from_uint64" => {
                let arg = self.arg(args, 0, id)?;
                Ok(Value::Scalar(self.scalar_of(arg, U32)?))
            }
            "warp_reduce" => {
                let value = self.scalar(self.arg(args, 0, id)?)?;
                let op = self.text_arg(args, 1, id)?;
                let width = self.arg(args, 2, id)?;
                let width = self.constant(width, "a width")?;
                Ok(Value::Scalar(self.warp_reduce(value, &op, width, id)?))
            }
            "cta_reduce" => self.cta_reduce(args, id),
            "func_call" => self.func_call(args, id),
            _ => self.cuda_data(name, args, id),
        }
    }

    /// Conversions and packed arithmetic.
    fn cuda_data(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        match name {
            "half2float" | "bfloat162float" => {
                let arg = self.arg(args, 0, id)?;
                Ok(Value::Scalar(self.scalar_of(arg, Elem::F32)?))
            }
            "float22half2" => {
                let (to, from) = (
                    self.pointer(args_at(args, 0, id)?)?,
                    self.pointer(args_at(args, 1, id)?)?,
                );
                let singles = self.load(from, Elem::F32, 2, Manner::default(), id)?;
                let halves = self.convert_lanes(&singles, Elem::F16, id)?;
                self.store(to, Elem::F16, &halves, Manner::default(), id)?;
                Ok(Value::Void)
            }
            "half8tofloat8" | "float8tohalf8" => {
                let (from, to) = (
                    self.pointer(args_at(args, 0, id)?)?,
                    self.pointer(args_at(args, 1, id)?)?,
                );
                let (source, target) = if name == "half8tofloat8" {
                    (Elem::F16, Elem::F32)
                } else {
                    (Elem::F32, Elem::F16)
                };
                // Pair by pair, as the function does it: its operands may overlap.
                for pair in 0..4i64 {
                    let step = |elem: Elem| pair * 2 * i64::from(elem.bits() / 8);
                    let lanes = self.load(
                        advance(from, step(source)),
                        source,
                        2,
                        Manner::default(),
                        id,
                    )?;
                    let lanes = self.convert_lanes(&lanes, target, id)?;
                    self.store(
                        advance(to, step(target)),
                        target,
                        &lanes,
                        Manner::default(),
                        id,
                    )?;
                }
                Ok(Value::Void)
            }
            "uint_as_float" => {
                let arg = self.arg(args, 0, id)?;
                let bits = self.scalar_of(arg, U32)?;
                Ok(Value::Scalar(self.reinterpret(bits, Elem::F32, id)?))
            }
            "float_as_uint" => {
                let arg = self.arg(args, 0, id)?;
                let value = self.scalar_of(arg, Elem::F32)?;
                Ok(Value::Scalar(self.reinterpret(value, U32, id)?))
            }
            "make_float2" => {
                let (x, y) = (args_at(args, 0, id)?, args_at(args, 1, id)?);
                let parts = [self.scalar_of(x, Elem::F32)?, self.scalar_of(y, Elem::F32)?];
                Ok(Value::Scalar(Scalar::new(self.join(&parts), U64)))
            }
            "float2_x" | "float2_y" => {
                let packed = self.arg(args, 0, id)?;
                let packed = self.scalar_of(packed, U64)?;
                let parts = self.cut(packed, 2);
                let part = parts[usize::from(name == "float2_y")];
                Ok(Value::Scalar(self.reinterpret(part, Elem::F32, id)?))
            }
            "fmul2_rn" | "fadd2_rn" => {
                let (a, b) = (self.u64_arg(args, 0, id)?, self.u64_arg(args, 1, id)?);
                let op = if name == "fmul2_rn" {
                    FloatBinary::Mul
                } else {
                    FloatBinary::Add
                };
                let dst = self
                    .b
                    .pure(RegClass::B64, [a, b], |dst, [a, b]| Inst::FloatBinary {
                        op,
                        ty: Type::F32x2,
                        mods: FAST,
                        dst,
                        a,
                        b,
                    });
                Ok(Value::Scalar(Scalar::new(Operand::Reg(dst), U64)))
            }
            "float22bfloat162_rn" | "float22bfloat162_rn_from_float2" => {
                let parts = if name == "float22bfloat162_rn" {
                    let (x, y) = (args_at(args, 0, id)?, args_at(args, 1, id)?);
                    vec![self.scalar_of(x, Elem::F32)?, self.scalar_of(y, Elem::F32)?]
                } else {
                    let packed = self.arg(args, 0, id)?;
                    let packed = self.scalar_of(packed, U64)?;
                    self.cut(packed, 2)
                };
                let dst = self.b.pure(
                    RegClass::B32,
                    [parts[1].op, parts[0].op],
                    |dst, [hi, lo]| Inst::CvtPack {
                        to: Type::BF16x2,
                        mods: FloatMods::default(),
                        satfinite: false,
                        dst,
                        hi,
                        lo,
                    },
                );
                Ok(Value::Scalar(Scalar::new(Operand::Reg(dst), U32)))
            }
            "bfloat1622float2" => {
                let packed = self.arg(args, 0, id)?;
                let packed = self.scalar_of(packed, U32)?;
                let halves = self.cut(packed, 2);
                let mut parts = Vec::new();
                for half in halves {
                    let half = self.reinterpret(half, Elem::BF16, id)?;
                    parts.push(self.convert(half, Elem::F32, id)?);
                }
                Ok(Value::Scalar(Scalar::new(self.join(&parts), U64)))
            }
            "hmin2" | "hmax2" => {
                let (a, b) = (self.u32_arg(args, 0, id)?, self.u32_arg(args, 1, id)?);
                let op = if name == "hmin2" {
                    FloatBinary::Min
                } else {
                    FloatBinary::Max
                };
                let dst = self
                    .b
                    .pure(RegClass::B32, [a, b], |dst, [a, b]| Inst::FloatBinary {
                        op,
                        ty: Type::BF16x2,
                        mods: FloatMods::default(),
                        dst,
                        a,
                        b,
                    });
                Ok(Value::Scalar(Scalar::new(Operand::Reg(dst), U32)))
            }
            "fp8x4_e4m3_from_float4" => {
                let mut singles = Vec::with_capacity(4);
                for index in 0..4 {
                    let arg = self.arg(args, index, id)?;
                    singles.push(self.scalar_of(arg, Elem::F32)?);
                }
                let codes = self.convert_lanes(&singles, Elem::E4M3, id)?;
                Ok(Value::Scalar(Scalar::new(self.join_bytes(&codes), U32)))
            }
            other => self.unmodelled(&format!("tirx.cuda.{other}"), id),
        }
    }

    pub(crate) fn named_barrier(&mut self, id: Operand, count: Operand) {
        self.b.inst(Inst::BarrierSync {
            aligned: true,
            id,
            count: Some(count),
        });
        self.clobber();
    }

    pub(crate) fn fence(&mut self, order: Ordering, scope: Scope) {
        self.b.inst(Inst::Fence {
            kind: FenceKind::Memory(order, scope),
        });
        self.clobber();
    }

    fn thread_rank(&mut self) -> Operand {
        let one = |axis: &str, kernel: &Self| kernel.extents.get(axis).copied().unwrap_or(1) == 1;
        let x = self.b.special(Special::TidX);
        if one("threadIdx.y", self) && one("threadIdx.z", self) {
            return x;
        }
        let y = self.b.special(Special::TidY);
        let z = self.b.special(Special::TidZ);
        let nx = self.b.special(Special::NtidX);
        let ny = self.b.special(Special::NtidY);
        let planes = self.b.int(IntBinary::MulLo, Type::S32, z, ny);
        let rows = self.b.int(IntBinary::Add, Type::S32, planes, y);
        let before = self.b.int(IntBinary::MulLo, Type::S32, rows, nx);
        self.b.int(IntBinary::Add, Type::S32, before, x)
    }

    fn shuffle_call(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        let members = self.u32_arg(args, 0, id)?;
        let value = self.value(self.arg(args, 1, id)?)?;
        let lane = self.u32_arg(args, 2, id)?;
        let width = self.u32_arg(args, 3, id)?;
        let mode = match name {
            "__shfl_up_sync" => ShuffleMode::Up,
            "__shfl_down_sync" => ShuffleMode::Down,
            "__shfl_xor_sync" => ShuffleMode::Bfly,
            _ => ShuffleMode::Idx,
        };
        // The ISA's third operand: the segment's mask in bits 8 to 12, and the clamp.
        let span = self
            .b
            .int(IntBinary::Sub, Type::U32, Operand::Imm(32), width);
        let segment = self.b.int(IntBinary::Shl, Type::U32, span, Operand::Imm(8));
        let clamp = if mode == ShuffleMode::Up { 0 } else { 0x1f };
        let clamp = self
            .b
            .int(IntBinary::Or, Type::U32, segment, Operand::Imm(clamp));
        self.map_lanes(value, id, |kernel, value| {
            Ok(kernel.shuffle_value(mode, value, lane, clamp, members))
        })
    }

    fn reduce_step(&mut self, op: &str, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        let arith = match op {
            "sum" => Arith::Add,
            "max" => Arith::Max,
            "min" => Arith::Min,
            other => {
                return Err(
                    self.bad_operand("warp_reduce", &format!("unknown reduction {other:?}"))
                );
            }
        };
        self.arith(arith, a, b, at)
    }

    /// A butterfly over `width` lanes; every lane gets the result.
    fn warp_reduce(&mut self, value: Scalar, op: &str, width: i64, at: Id) -> Result<Scalar> {
        if !(2..=32).contains(&width) || width & (width - 1) != 0 {
            return Err(self.bad_operand("warp_reduce", "the width is not a power of two up to 32"));
        }
        let mut value = value;
        let mut distance = width / 2;
        while distance > 0 {
            let other = self.shuffle_value(
                ShuffleMode::Bfly,
                value,
                Operand::Imm(distance as u64),
                Operand::Imm(0x1f),
                FULL_MASK,
            );
            value = self.reduce_step(op, value, other, at)?;
            distance /= 2;
        }
        Ok(value)
    }

    /// Warps reduce, their results meet in `scratch`, the first warp reduces these, all read.
    fn cta_reduce(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let value = self.scalar(self.arg(args, 0, id)?)?;
        let op = self.text_arg(args, 1, id)?;
        let warps = self.arg(args, 2, id)?;
        let warps = self.constant(warps, "a number of warps")?;
        let scratch = self.pointer(self.arg(args, 3, id)?)?;
        let ty = value.ty;
        let identity = match (op.as_str(), ty) {
            ("sum", _) => Scalar::imm(0, ty),
            ("max", Elem::F32) => Scalar::imm(u64::from(f32::NEG_INFINITY.to_bits()), ty),
            ("min", Elem::F32) => Scalar::imm(u64::from(f32::INFINITY.to_bits()), ty),
            _ => return Err(self.incomplete(format!("cta_reduce {op} of {ty:?}"), id)),
        };
        let size = ty.bits() / 8;
        let reduced = self.warp_reduce(value, &op, 32, id)?;
        let rank = self.thread_rank();
        let warp = self.b.int(IntBinary::Shr, Type::U32, rank, Operand::Imm(5));
        let lane = self
            .b
            .int(IntBinary::And, Type::U32, rank, Operand::Imm(31));
        let first_lane = self
            .b
            .setp(Compare::Eq, Type::U32, false, lane, Operand::Imm(0));
        let first_lane = self.b.in_register(RegClass::Pred, first_lane);
        let slot = self.offset_pointer(scratch, Scalar::new(warp, U32), size)?;
        self.branch(
            first_lane,
            |kernel| kernel.store(slot, ty, &[reduced], Manner::default(), id),
            |_| Ok(()),
        )?;
        self.cta_sync();
        let first_warp = self
            .b
            .setp(Compare::Eq, Type::U32, false, warp, Operand::Imm(0));
        let first_warp = self.b.in_register(RegClass::Pred, first_warp);
        let mine = self.offset_pointer(scratch, Scalar::new(lane, U32), size)?;
        let partial = self.b.fresh_mutable(ty.class());
        self.branch(
            first_warp,
            |kernel| {
                kernel.b.assign(partial, identity.op);
                let within = kernel.b.setp(
                    Compare::Lt,
                    Type::U32,
                    false,
                    lane,
                    Operand::Imm(warps as u64),
                );
                let within = kernel.b.in_register(RegClass::Pred, within);
                kernel.branch(
                    within,
                    |kernel| {
                        let loaded = kernel.load(mine, ty, 1, Manner::default(), id)?[0];
                        kernel.b.assign(partial, loaded.op);
                        Ok(())
                    },
                    |_| Ok(()),
                )?;
                kernel.b.touch(partial);
                let start = Scalar::new(Operand::Reg(partial), ty);
                let total = kernel.warp_reduce(start, &op, 32, id)?;
                kernel.branch(
                    first_lane,
                    |kernel| kernel.store(scratch, ty, &[total], Manner::default(), id),
                    |_| Ok(()),
                )
            },
            |_| Ok(()),
        )?;
        self.cta_sync();
        let result = self.load(scratch, ty, 1, Manner::default(), id)?[0];
        Ok(Value::Scalar(result))
    }

    fn printf(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let format = self.text_arg(args, 0, id)?;
        let mut values = Vec::new();
        for &arg in &args[1..] {
            let scalar = self.scalar(arg)?;
            let (scalar, ty) = match scalar.ty {
                Elem::F32 | Elem::F64 => (scalar, scalar.ty.ir()),
                Elem::Handle => (scalar, Type::U64),
                ty if ty.is_float() => {
                    return Err(self.incomplete(format!("printf of {ty:?}"), arg));
                }
                ty => {
                    let wide = self.promoted(ty);
                    (self.convert(scalar, wide, arg)?, wide.ir())
                }
            };
            values.push(PrintArg {
                ty,
                value: scalar.op,
            });
        }
        self.b.inst(Inst::Printf {
            format,
            args: values,
        });
        Ok(Value::Void)
    }

    /// One load and one store of 1 to 16 bytes.
    fn copy_bytes(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let to = self.pointer(self.arg(args, 0, id)?)?;
        let from = self.pointer(self.arg(args, 1, id)?)?;
        let bytes = self.arg(args, 2, id)?;
        let bytes = self.constant(bytes, "a number of bytes")?;
        let (elem, count) = match bytes {
            1 => (
                Elem::Int {
                    bits: 8,
                    signed: false,
                },
                1,
            ),
            2 => (
                Elem::Int {
                    bits: 16,
                    signed: false,
                },
                1,
            ),
            4 => (U32, 1),
            8 => (U32, 2),
            16 => (U32, 4),
            other => return Err(self.bad_operand("cuda.copy_bytes", &format!("{other} bytes"))),
        };
        let elem = self.copy_type(elem, count, from, to);
        let count = count * 4 / (elem.bits() as usize / 8).max(1) / if bytes < 4 { 4 } else { 1 };
        let count = count.max(1);
        let lanes = self.load(from, elem, count, Manner::default(), id)?;
        self.store(to, elem, &lanes, Manner::default(), id)?;
        Ok(Value::Void)
    }

    /// Moves go in the type of an array in registers where there is one, so that nothing is
    /// packed only to be unpacked.
    fn copy_type(&self, elem: Elem, count: usize, from: Pointer, to: Pointer) -> Elem {
        let bytes = elem.bits() as usize / 8 * count;
        let of = |pointer: Pointer| match pointer {
            Pointer::Array { array, .. } => Some(self.arrays[array].elem),
            Pointer::Memory { .. } => None,
        };
        match of(from).or(of(to)) {
            Some(own)
                if own != Elem::Bool
                    && own.bits() >= 16
                    && own.bits() as usize / 8 <= bytes
                    && bytes / (own.bits() as usize / 8) <= 8 =>
            {
                own
            }
            _ => elem,
        }
    }

    /// `cuda.func_call`: a helper whose source text is known, or a finding.
    fn func_call(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let name = self.text_arg(args, 0, id)?;
        let Some((&source, operands)) = args.get(1..).and_then(<[Id]>::split_last) else {
            return Err(self.bad_operand("cuda.func_call", "no source text"));
        };
        let source = self.graph.text(source)?.to_owned();
        let digest = digest(&source);
        match crate::helpers::lookup(&name, &digest) {
            Some(helper) => self.helper(helper, operands, id),
            None => Err(TranslateError::InlineSource { name, digest }),
        }
    }
}

fn args_at(args: &[Id], index: usize, id: Id) -> Result<Id> {
    args.get(index)
        .copied()
        .ok_or_else(|| TranslateError::malformed(format!("node {id}: operand {index} is missing")))
}

/// The IR type of an atomic addition.
pub(crate) fn atomic_type(elem: Elem) -> Option<Type> {
    Some(match elem {
        Elem::F32 | Elem::F64 | Elem::F16 | Elem::BF16 => elem.ir(),
        Elem::Int { bits: 32, .. } => Type::U32,
        Elem::Int { bits: 64, .. } => Type::U64,
        _ => return None,
    })
}
