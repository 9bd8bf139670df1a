//! The operators `tirx.ptx.*`: each is one PTX instruction, or a short documented sequence.

use vgpu::ir::*;

use crate::dtype::{DType, Elem, S32, S64, U16, U32, U64};
use crate::graph::Id;
use crate::intrinsics::FULL_MASK;
use crate::kernel::{Kernel, Result};
use crate::memory::Manner;
use crate::value::{Pointer, Scalar, Value};

impl Kernel<'_> {
    pub(crate) fn ptx(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        let none = Ok(Value::Void);
        match name {
            "bar_sync" => {
                let (barrier, count) = (self.u32_arg(args, 0, id)?, self.u32_arg(args, 1, id)?);
                self.named_barrier(barrier, count);
                none
            }
            "bar_arrive" => {
                let (barrier, count) = (self.u32_arg(args, 0, id)?, self.u32_arg(args, 1, id)?);
                self.b.inst(Inst::BarrierArrive {
                    aligned: true,
                    id: barrier,
                    count,
                });
                self.clobber();
                none
            }
            "fence" => {
                let order = match self.text_arg(args, 0, id)?.as_str() {
                    "sc" => Ordering::SequentiallyConsistent,
                    "acq_rel" => Ordering::AcquireRelease,
                    "acquire" => Ordering::Acquire,
                    "release" => Ordering::Release,
                    other => {
                        return Err(self.bad_operand("ptx.fence", &format!("semantics {other:?}")));
                    }
                };
                let scope = self.scope_arg(args, 1, id)?;
                self.fence(order, scope);
                none
            }
            "fence_proxy_async" => {
                self.b.inst(Inst::Fence {
                    kind: FenceKind::ProxyAsync,
                });
                self.clobber();
                none
            }
            "fence_mbarrier_init" => {
                self.b.inst(Inst::Fence {
                    kind: FenceKind::MbarrierInit,
                });
                self.clobber();
                none
            }
            // Hints to the scheduler of dependent grids: with one grid at a time they do nothing.
            "griddepcontrol_wait" | "griddepcontrol_launch_dependents" => none,
            // Register redistribution between warps has no effect on values.
            "setmaxnreg" => none,
            "elect_sync" => {
                let is_leader = self.b.fresh(RegClass::Pred);
                self.b.inst(Inst::Elect {
                    leader: None,
                    is_leader,
                    members: FULL_MASK,
                });
                let set = Scalar::new(Operand::Reg(is_leader), Elem::Bool);
                Ok(Value::Scalar(self.convert(set, U32, id)?))
            }
            "any_sync" => {
                let members = self.u32_arg(args, 0, id)?;
                let pred = self.arg(args, 1, id)?;
                let pred = self.predicate(pred)?;
                let pred = self.guard(pred);
                let dst = self.b.fresh(RegClass::Pred);
                self.b.inst(Inst::Vote {
                    mode: VoteMode::Any,
                    dst,
                    pred,
                    members,
                });
                let set = Scalar::new(Operand::Reg(dst), Elem::Bool);
                Ok(Value::Scalar(self.convert(set, S32, id)?))
            }
            _ if name.starts_with("mbarrier_") => self.mbarrier(name, args, id),
            _ if name.starts_with("cp_async") => self.cp_async(name, args, id),
            _ => self.ptx_data(name, args, id),
        }
    }

    // ---- mbarriers ----

    fn mbarrier(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        let pointer = self.pointer(self.arg(args, 0, id)?)?;
        let addr = self.shared_address(pointer);
        match (name, args.len()) {
            ("mbarrier_init", _) => {
                let count = self.u32_arg(args, 1, id)?;
                self.mbarrier_op(addr, MbarrierOp::Init { count });
            }
            ("mbarrier_arrive", 1) => self.mbarrier_op(
                addr,
                MbarrierOp::Arrive {
                    state: None,
                    count: Operand::Imm(1),
                    expect_tx: None,
                },
            ),
            ("mbarrier_arrive_expect_tx", 2) => {
                let bytes = self.u32_arg(args, 1, id)?;
                self.mbarrier_op(
                    addr,
                    MbarrierOp::Arrive {
                        state: None,
                        count: Operand::Imm(1),
                        expect_tx: Some(bytes),
                    },
                );
            }
            ("mbarrier_try_wait" | "mbarrier_try_wait_acquire_cluster", _) => {
                let parity = self.u32_arg(args, 1, id)?;
                let done = self.b.fresh(RegClass::Pred);
                self.b.begin();
                self.mbarrier_op(addr, MbarrierOp::TryWaitParity { done, parity });
                self.b.node(NodeKind::Break {
                    guard: Some(Guard {
                        pred: done,
                        negated: false,
                    }),
                });
                let body = self.b.end();
                self.b.node(NodeKind::Loop { body });
                self.clobber();
            }
            ("mbarrier_try_wait_once" | "mbarrier_test_wait_parity", _) => {
                let parity = self.u32_arg(args, 1, id)?;
                let done = self.b.fresh(RegClass::Pred);
                let op = if name == "mbarrier_try_wait_once" {
                    MbarrierOp::TryWaitParity { done, parity }
                } else {
                    MbarrierOp::TestWaitParity { done, parity }
                };
                self.mbarrier_op(addr, op);
                let set = Scalar::new(Operand::Reg(done), Elem::Bool);
                return Ok(Value::Scalar(self.convert(set, U32, id)?));
            }
            // Barriers of other CTAs of a cluster.
            _ => return self.unmodelled(&format!("tirx.ptx.{name} of another CTA"), id),
        }
        Ok(Value::Void)
    }

    fn mbarrier_op(&mut self, addr: Address, op: MbarrierOp) {
        self.b.inst(Inst::Mbarrier { addr, op });
        self.clobber();
    }

    // ---- asynchronous copies ----

    fn cp_async(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        match name {
            "cp_async_commit_group" => self.b.inst(Inst::CpAsyncCommit),
            "cp_async_wait_group" => {
                let pending = self.arg(args, 0, id)?;
                let pending = self.constant(pending, "a number of groups")?;
                self.b.inst(Inst::CpAsyncWaitGroup {
                    pending: u32::try_from(pending).unwrap_or(0),
                });
                self.clobber();
            }
            "cp_async" => return self.cp_async_copy(args, id),
            other => return self.unmodelled(&format!("tirx.ptx.{other}"), id),
        }
        Ok(Value::Void)
    }

    fn cp_async_copy(&mut self, args: &[Id], id: Id) -> Result<Value> {
        // (dst, src, size, policy, has_policy, prefetch, predicate, fill), or the older form with
        // offsets in elements.
        let (to, from, size, predicate, zero_fill) = match args.len() {
            8 => {
                let to = self.pointer(args[0])?;
                let from = self.pointer(args[1])?;
                let fill = self.text_arg(args, 7, id)?;
                (to, from, args[2], Some(args[6]), fill == "zero")
            }
            5 | 6 => {
                let (to, from) = (self.element(args, 0, id)?, self.element(args, 2, id)?);
                (to, from, args[4], args.get(5).copied(), true)
            }
            other => {
                let what = format!("{other} operands");
                return Err(self.bad_operand("ptx.cp_async", &what));
            }
        };
        let bytes = self.constant(size, "a number of bytes")?;
        if !matches!(bytes, 4 | 8 | 16) {
            return Err(self.bad_operand("ptx.cp_async", &format!("{bytes} bytes")));
        }
        let shared = self.shared_address(to);
        let global = self.global_address(from, id)?;
        let predicate = match predicate {
            Some(predicate) if self.graph.constant(predicate) != Some(-1) => Some(predicate),
            _ => None,
        };
        let mut inst = Inst::CpAsync {
            bytes: bytes as u32,
            shared,
            global,
            src_bytes: None,
            cache: if bytes == 16 {
                CacheHint::Global
            } else {
                CacheHint::Default
            },
        };
        match predicate {
            None => self.b.inst(inst),
            Some(predicate) if zero_fill => {
                let holds = self.predicate(predicate)?;
                let size = self.b.select(
                    RegClass::B32,
                    holds,
                    Operand::Imm(bytes as u64),
                    Operand::Imm(0),
                );
                if let Inst::CpAsync { src_bytes, .. } = &mut inst {
                    *src_bytes = Some(size);
                }
                self.b.inst(inst);
            }
            Some(predicate) => {
                // The instruction runs where the predicate is 1.
                let number = self.scalar_of(predicate, U32)?;
                let holds = self
                    .b
                    .setp(Compare::Eq, Type::U32, false, number.op, Operand::Imm(1));
                let guard = self.guard(holds);
                self.b.guarded(guard, inst);
            }
        }
        // What it writes is not there before a wait; forget what was loaded from the place.
        if let Pointer::Memory { root, .. } = to {
            self.wrote(root);
        }
        Ok(Value::Void)
    }

    fn global_address(&mut self, pointer: Pointer, id: Id) -> Result<Address> {
        match pointer {
            Pointer::Memory {
                space: Space::Global | Space::Generic,
                base,
                offset,
                ..
            } => Ok(Address { base, offset }),
            _ => Err(self.incomplete("an asynchronous copy from elsewhere than global memory", id)),
        }
    }

    /// The pointer at `index`, moved by the elements that the operand after it says.
    pub(crate) fn element(&mut self, args: &[Id], index: usize, id: Id) -> Result<Pointer> {
        let start = self.arg(args, index, id)?;
        let bytes = self.pointee_bytes(start)?;
        let start = self.pointer(start)?;
        let offset = self.scalar(self.arg(args, index + 1, id)?)?;
        self.offset_pointer(start, offset, bytes)
    }

    /// Bytes of what a pointer expression points to, by its C type.
    pub(crate) fn pointee_bytes(&mut self, id: Id) -> Result<u32> {
        let graph = self.graph;
        let dtype = match graph.kind(id) {
            "tirx.Call" if graph.text(graph.get(id, "op")?) == Ok("tirx.address_of") => {
                let args = graph.list(id, "args")?;
                let load = self.arg(&args, 0, id)?;
                if graph.kind(load) == "tirx.BufferLoad" {
                    graph.dtype(graph.get(load, "buffer")?)?
                } else {
                    DType::scalar(Elem::Int {
                        bits: 8,
                        signed: true,
                    })
                }
            }
            "tirx.Call"
                if graph.text(graph.get(id, "op")?) == Ok("tirx.cuda_func_call")
                    || graph.text(graph.get(id, "op")?) == Ok("tirx.cuda.func_call") =>
            {
                // A helper that moves a pointer keeps its type.
                let args = graph.list(id, "args")?;
                let inner = self.arg(&args, 1, id)?;
                return self.pointee_bytes(inner);
            }
            "tirx.Var" => {
                let annotation = graph.maybe(id, "type_annotation")?;
                match annotation {
                    Some(pointer) if graph.kind(pointer) == "ir.PointerType" => {
                        let element = graph.get(pointer, "element_type")?;
                        if graph.kind(element) == "ir.PrimType" {
                            graph.dtype(element)?
                        } else {
                            return Ok(1);
                        }
                    }
                    _ => return Ok(1),
                }
            }
            _ => return Err(self.incomplete("arithmetic on a pointer of unknown type", id)),
        };
        let bytes = dtype.elem.bytes().unwrap_or(1);
        Ok(bytes.max(1) * u32::from(dtype.lanes))
    }

    // ---- loads, stores, atomics, arithmetic ----

    fn scope_arg(&self, args: &[Id], index: usize, id: Id) -> Result<Scope> {
        match self.text_arg(args, index, id)?.as_str() {
            "cta" => Ok(Scope::Cta),
            "cluster" => Ok(Scope::Cluster),
            "" | "gpu" => Ok(Scope::Gpu),
            "sys" => Ok(Scope::System),
            other => Err(self.bad_operand("ptx", &format!("scope {other:?}"))),
        }
    }

    fn ordering_arg(&self, args: &[Id], index: usize, id: Id) -> Result<Ordering> {
        match self.text_arg(args, index, id)?.as_str() {
            "" | "relaxed" => Ok(Ordering::Relaxed),
            "acquire" => Ok(Ordering::Acquire),
            "release" => Ok(Ordering::Release),
            "acq_rel" => Ok(Ordering::AcquireRelease),
            other => Err(self.bad_operand("ptx", &format!("semantics {other:?}"))),
        }
    }

    fn cache_arg(&self, args: &[Id], index: usize, id: Id) -> Result<CacheHint> {
        Ok(match self.text_arg(args, index, id)?.as_str() {
            "cg" => CacheHint::Global,
            "cs" => CacheHint::Streaming,
            "lu" => CacheHint::LastUse,
            "cv" | "wt" => CacheHint::Volatile,
            _ => CacheHint::Default,
        })
    }

    fn type_arg(&self, args: &[Id], index: usize, id: Id) -> Result<Elem> {
        match self.text_arg(args, index, id)?.as_str() {
            "b16" | "u16" => Ok(U16),
            "b32" | "u32" => Ok(U32),
            "s32" => Ok(S32),
            "b64" | "u64" => Ok(U64),
            "s64" => Ok(S64),
            "f32" => Ok(Elem::F32),
            "f64" => Ok(Elem::F64),
            other => Err(self.bad_operand("ptx", &format!("type {other:?}"))),
        }
    }

    fn ordered_load(
        &mut self,
        args: &[Id],
        at: usize,
        elem: Elem,
        manner: Manner,
        id: Id,
    ) -> Result<Value> {
        let pointer = self.pointer(self.arg(args, at, id)?)?;
        let loaded = self.load(pointer, elem, 1, manner, id)?[0];
        let wanted = self.graph.dtype(id)?.elem;
        if wanted == Elem::Void {
            return Ok(Value::Scalar(loaded));
        }
        Ok(Value::Scalar(self.reinterpret(loaded, wanted, id)?))
    }

    fn ptx_data(&mut self, name: &str, args: &[Id], id: Id) -> Result<Value> {
        match name {
            "ld" => {
                // (address, policy, return type, weak, space, cop, type, has policy)
                let elem = self.type_arg(args, 6, id)?;
                let manner = Manner {
                    cache: self.cache_arg(args, 5, id)?,
                    ..Manner::default()
                };
                // The instruction is volatile in the source: it is not found again.
                self.clobber();
                self.ordered_load(args, 0, elem, manner, id)
            }
            "ld_acquire" => {
                let elem = self.type_arg(args, 2, id)?;
                let manner = Manner {
                    order: Ordering::Acquire,
                    scope: self.scope_arg(args, 3, id)?,
                    ..Manner::default()
                };
                self.ordered_load(args, 0, elem, manner, id)
            }
            "ld_volatile" => {
                let elem = self.type_arg(args, 2, id)?;
                let manner = Manner {
                    order: Ordering::Volatile,
                    ..Manner::default()
                };
                self.ordered_load(args, 0, elem, manner, id)
            }
            "ld_global_acquire" => self.load_into(args, id),
            "st" => self.ptx_store(args, id),
            "red_scalar" | "atom_scalar" => {
                // (address, value, policy, semantics, scope, space, op, type, has policy)
                let elem = self.type_arg(args, 7, id)?;
                let pointer = self.pointer(self.arg(args, 0, id)?)?;
                let value = self.arg(args, 1, id)?;
                let value = self.scalar_of(value, elem)?;
                let op = self.text_arg(args, 6, id)?;
                let op = match op.as_str() {
                    "add" => AtomicOp::Add,
                    "min" => AtomicOp::Min,
                    "max" => AtomicOp::Max,
                    "and" => AtomicOp::And,
                    "or" => AtomicOp::Or,
                    "xor" => AtomicOp::Xor,
                    "exch" => AtomicOp::Exch,
                    "inc" => AtomicOp::Inc,
                    "dec" => AtomicOp::Dec,
                    other => {
                        return Err(self.bad_operand("ptx.atom", &format!("operation {other:?}")));
                    }
                };
                let ty = match op {
                    AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch => {
                        if elem.bits() == 64 {
                            Type::B64
                        } else {
                            Type::B32
                        }
                    }
                    AtomicOp::Add if elem == S64 => Type::U64,
                    _ => elem.ir(),
                };
                let manner = Manner {
                    order: self.ordering_arg(args, 3, id)?,
                    scope: self.scope_arg(args, 4, id)?,
                    ..Manner::default()
                };
                let wants = name == "atom_scalar";
                let old = self.atomic(op, pointer, ty, elem, value.op, None, manner, wants);
                Ok(if wants {
                    Value::Scalar(old)
                } else {
                    Value::Void
                })
            }
            "exp2" | "rcp" => {
                let arg = self.arg(args, 0, id)?;
                let a = self.scalar_of(arg, Elem::F32)?;
                let op = if name == "exp2" {
                    FloatUnary::Ex2Approx
                } else {
                    FloatUnary::RcpApprox
                };
                Ok(Value::Scalar(Scalar::new(
                    self.fast_unary(op, a.op),
                    Elem::F32,
                )))
            }
            "max_f32" => {
                let (a, b) = (self.f32_arg(args, 0, id)?, self.f32_arg(args, 1, id)?);
                let mods = FloatMods {
                    ftz: self.flag_arg(args, 2, id)?,
                    ..FloatMods::default()
                };
                let op = if self.flag_arg(args, 3, id)? {
                    FloatBinary::MaxNan
                } else {
                    FloatBinary::Max
                };
                let result = self.b.float(op, Type::F32, mods, a, b);
                Ok(Value::Scalar(Scalar::new(result, Elem::F32)))
            }
            "reduce3_max_f32" | "reduce3_min_f32" => {
                let op = if name == "reduce3_max_f32" {
                    FloatBinary::Max
                } else {
                    FloatBinary::Min
                };
                let (a, b) = (self.f32_arg(args, 0, id)?, self.f32_arg(args, 1, id)?);
                let c = self.f32_arg(args, 2, id)?;
                let mods = FloatMods::default();
                let first = self.b.float(op, Type::F32, mods, a, b);
                let result = self.b.float(op, Type::F32, mods, first, c);
                Ok(Value::Scalar(Scalar::new(result, Elem::F32)))
            }
            "add_rn_f32_bf16" => {
                let acc = self.f32_arg(args, 0, id)?;
                let half = self.arg(args, 1, id)?;
                let half = self.scalar_of(half, U16)?;
                let half = self.reinterpret(half, Elem::BF16, id)?;
                let wide = self.convert(half, Elem::F32, id)?;
                let sum = self.b.float(
                    FloatBinary::Add,
                    Type::F32,
                    FloatMods::default(),
                    wide.op,
                    acc,
                );
                Ok(Value::Scalar(Scalar::new(sum, Elem::F32)))
            }
            "fetch_register" => self.fetch_register(args, id),
            "ldmatrix" => self.ldmatrix(args, id),
            "ldmatrix_legacy" => self.ldmatrix_legacy(args, id),
            "stmatrix" => self.stmatrix(args, id),
            _ => match packed_operation(name) {
                Some((op, elem, ty)) => self.packed(op, elem, ty, args, id),
                None => self.unmodelled(&format!("tirx.ptx.{name}"), id),
            },
        }
    }

    fn f32_arg(&mut self, args: &[Id], index: usize, id: Id) -> Result<Operand> {
        let arg = self.arg(args, index, id)?;
        Ok(self.scalar_of(arg, Elem::F32)?.op)
    }

    /// `ld.global.acquire` into the variable that the first operand names.
    fn load_into(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let target = self.arg(args, 0, id)?;
        if self.graph.kind(target) != "tirx.BufferLoad" {
            return Err(self.bad_operand("ptx.ld_global_acquire", "the result is not a variable"));
        }
        let buffer = self.graph.get(target, "buffer")?;
        let dtype = self.graph.dtype(buffer)?;
        let index = self.single_index(target)?;
        let from = self.pointer(self.arg(args, 1, id)?)?;
        let manner = Manner {
            order: Ordering::Acquire,
            scope: Scope::Gpu,
            ..Manner::default()
        };
        let lanes = self.load(from, dtype.elem, 1, manner, id)?;
        let places = self.places(buffer, index, dtype, 1, false)?;
        self.store_places(&places, dtype, &lanes, id)?;
        Ok(Value::Void)
    }

    fn ptx_store(&mut self, args: &[Id], id: Id) -> Result<Value> {
        // (address, values..., policy, weak, space, cop, vec, type, has policy)
        let fixed = 7;
        if args.len() < fixed + 2 {
            return Err(self.bad_operand("ptx.st", "too few operands"));
        }
        let values = &args[1..args.len() - fixed];
        let tail = args.len() - 6;
        let elem = self.type_arg(args, tail + 4, id)?;
        let manner = Manner {
            cache: self.cache_arg(args, tail + 2, id)?,
            ..Manner::default()
        };
        let pointer = self.pointer(args[0])?;
        let mut lanes = Vec::with_capacity(values.len());
        for &value in values {
            lanes.push(self.scalar_of(value, elem)?);
        }
        self.store(pointer, elem, &lanes, manner, id)?;
        self.clobber();
        Ok(Value::Void)
    }

    fn fetch_register(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let bits = self.arg(args, 0, id)?;
        let bits = self.constant(bits, "a width")?;
        let name = self.text_arg(args, 1, id)?;
        let special = match name.trim_start_matches('%') {
            "tid.x" => Special::TidX,
            "tid.y" => Special::TidY,
            "tid.z" => Special::TidZ,
            "ntid.x" => Special::NtidX,
            "ntid.y" => Special::NtidY,
            "ntid.z" => Special::NtidZ,
            "ctaid.x" => Special::CtaidX,
            "ctaid.y" => Special::CtaidY,
            "ctaid.z" => Special::CtaidZ,
            "nctaid.x" => Special::NctaidX,
            "nctaid.y" => Special::NctaidY,
            "nctaid.z" => Special::NctaidZ,
            "laneid" => Special::LaneId,
            "warpid" => Special::WarpId,
            "nwarpid" => Special::NwarpId,
            "smid" => Special::SmId,
            "nsmid" => Special::NsmId,
            "gridid" => Special::GridId,
            "lanemask_eq" => Special::LanemaskEq,
            "lanemask_lt" => Special::LanemaskLt,
            "lanemask_le" => Special::LanemaskLe,
            "lanemask_gt" => Special::LanemaskGt,
            "lanemask_ge" => Special::LanemaskGe,
            "clock" => Special::Clock,
            "clock64" => Special::Clock64,
            "globaltimer" => Special::GlobalTimer,
            "dynamic_smem_size" => Special::DynamicSharedSize,
            "total_smem_size" => Special::TotalSharedSize,
            "cluster_ctaid.x" => Special::ClusterCtaidX,
            "cluster_ctaid.y" => Special::ClusterCtaidY,
            "cluster_ctaid.z" => Special::ClusterCtaidZ,
            "cluster_nctaid.x" => Special::ClusterNctaidX,
            "cluster_nctaid.y" => Special::ClusterNctaidY,
            "cluster_nctaid.z" => Special::ClusterNctaidZ,
            "cluster_ctarank" => Special::ClusterCtaRank,
            "cluster_nctarank" => Special::ClusterNctaRank,
            "clusterid.x" => Special::ClusteridX,
            "clusterid.y" => Special::ClusteridY,
            "clusterid.z" => Special::ClusteridZ,
            "nclusterid.x" => Special::NclusteridX,
            "nclusterid.y" => Special::NclusteridY,
            "nclusterid.z" => Special::NclusteridZ,
            other => {
                let what = format!("the special register %{other}");
                return self.unmodelled(&what, id);
            }
        };
        // Clocks are read anew each time.
        let dst = self.b.fresh(special.class());
        self.b.inst(Inst::ReadSpecial { dst, special });
        let own = if special.class() == RegClass::B64 {
            S64
        } else {
            S32
        };
        let value = Scalar::new(Operand::Reg(dst), own);
        let wanted = if bits == 64 { S64 } else { S32 };
        Ok(Value::Scalar(self.convert(value, wanted, id)?))
    }

    /// `add`, `sub`, `mul` and `fma` of singles, doubles or pairs of singles, to where the first
    /// operand points.
    fn packed(&mut self, op: &str, elem: Elem, ty: Type, args: &[Id], id: Id) -> Result<Value> {
        let to = self.pointer(self.arg(args, 0, id)?)?;
        let count = if op == "fma" { 3 } else { 2 };
        let mut operands = Vec::with_capacity(count);
        for index in 1..=count {
            let arg = self.arg(args, index, id)?;
            operands.push(self.scalar_of(arg, elem)?.op);
        }
        let rounding = match self.text_arg(args, count + 1, id)?.as_str() {
            "rn" => Rounding::NearestEven,
            "rz" => Rounding::Zero,
            "rm" => Rounding::Down,
            "rp" => Rounding::Up,
            other => return Err(self.bad_operand("ptx", &format!("rounding {other:?}"))),
        };
        let mods = FloatMods {
            rounding,
            ftz: self.flag_arg(args, count + 2, id)?,
            sat: self.flag_arg(args, count + 3, id)?,
            relu: false,
        };
        let result = match op {
            "fma" => self.b.fma(ty, mods, operands[0], operands[1], operands[2]),
            _ => {
                let op = match op {
                    "add" => FloatBinary::Add,
                    "sub" => FloatBinary::Sub,
                    _ => FloatBinary::Mul,
                };
                // An instruction that says how it rounds is not fused with another.
                Operand::Reg(
                    self.b
                        .pure(ty.class(), [operands[0], operands[1]], |dst, [a, b]| {
                            Inst::FloatBinary {
                                op,
                                ty,
                                mods,
                                dst,
                                a,
                                b,
                            }
                        }),
                )
            }
        };
        self.store(
            to,
            elem,
            &[Scalar::new(result, elem)],
            Manner::default(),
            id,
        )?;
        Ok(Value::Void)
    }
}

/// `add_f32x2` and its kin: the operation, how its operands are held, and its type.
fn packed_operation(name: &str) -> Option<(&str, Elem, Type)> {
    let (op, ty) = name.split_once('_')?;
    if !matches!(op, "add" | "sub" | "mul" | "fma") {
        return None;
    }
    match ty {
        "f32" => Some((op, Elem::F32, Type::F32)),
        "f64" => Some((op, Elem::F64, Type::F64)),
        "f32x2" => Some((op, U64, Type::F32x2)),
        _ => None,
    }
}
