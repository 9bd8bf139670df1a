//! Statements: sequences, bindings, loops, branches, stores.

use vgpu::ir::*;

use crate::builder::sign_extend;
use crate::dtype::{DType, Elem};
use crate::error::TranslateError;
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::value::{Scalar, Value};

/// Loops of at most so many turns are unrolled where the whole stays below [`UNROLLED_WEIGHT`],
/// as nvcc does with small loops of known length.
const UNROLLED_TURNS: u64 = 64;
/// See [`UNROLLED_TURNS`]; in visited nodes.
const UNROLLED_WEIGHT: u64 = 6_000;
/// The same bound for loops that ask to be unrolled.
const ASKED_WEIGHT: u64 = 1_500_000;

/// `ForKind` as TVM numbers it.
const SERIAL: i64 = 0;
const PARALLEL: i64 = 1;
const VECTORIZED: i64 = 2;
const UNROLLED: i64 = 3;

impl Kernel<'_> {
    pub(crate) fn stmt(&mut self, id: Id) -> Result<()> {
        self.enter()?;
        self.begin_statement(id);
        self.stmt_inner(id)?;
        self.leave();
        Ok(())
    }

    fn stmt_inner(&mut self, id: Id) -> Result<()> {
        let graph = self.graph;
        match graph.kind(id) {
            "tirx.SeqStmt" => {
                for stmt in graph.list(id, "seq")? {
                    self.stmt(stmt)?;
                }
            }
            "tirx.Evaluate" => {
                let value = graph.get(id, "value")?;
                self.evaluate(value)?;
            }
            "tirx.Bind" => {
                let var = graph.get(id, "var")?;
                let value = graph.get(id, "value")?;
                self.bind(var, value)?;
            }
            "tirx.AttrStmt" => self.attribute(id)?,
            "tirx.For" => self.for_loop(id)?,
            "tirx.While" => self.while_loop(id)?,
            "tirx.Break" => self.leave_loop(id, NodeKind::Break { guard: None })?,
            "tirx.Continue" => self.leave_loop(id, NodeKind::Continue { guard: None })?,
            "tirx.IfThenElse" => self.if_then_else(id)?,
            "tirx.AllocBuffer" => self.allocate(graph.get(id, "buffer")?, id)?,
            "tirx.DeclBuffer" => {}
            "tirx.BufferStore" => self.buffer_store(id)?,
            "tirx.AssertStmt" => self.assertion(id)?,
            other => {
                let what = format!("statement {other}");
                return Err(self.incomplete(what, id));
            }
        }
        Ok(())
    }

    /// An expression for its effects.
    fn evaluate(&mut self, value: Id) -> Result<()> {
        if self.graph.kind(value) == "ir.IntImm" {
            return Ok(());
        }
        self.value(value)?;
        Ok(())
    }

    /// `var = value`: what it is bound to never changes.
    pub(crate) fn bind(&mut self, var: Id, value: Id) -> Result<()> {
        let dtype = self.graph.dtype(var)?;
        let bound = match self.value(value)? {
            Value::Scalar(scalar) if dtype.elem != Elem::Handle => {
                let scalar = self.convert(scalar, dtype.elem, value)?;
                Value::Scalar(self.steady(scalar))
            }
            Value::Vector(lanes) => {
                let mut kept = Vec::with_capacity(lanes.len());
                for lane in lanes {
                    let lane = self.convert(lane, dtype.elem, value)?;
                    kept.push(self.steady(lane));
                }
                Value::Vector(kept)
            }
            other => other,
        };
        self.vars.insert(var, bound);
        Ok(())
    }

    /// A scalar that does not change when array elements do.
    pub(crate) fn steady(&mut self, scalar: Scalar) -> Scalar {
        if self.b.is_stable(scalar.op) {
            return scalar;
        }
        let copy = self.b.copy(scalar.ty.class(), scalar.op);
        Scalar::new(Operand::Reg(copy), scalar.ty)
    }

    fn attribute(&mut self, id: Id) -> Result<()> {
        let graph = self.graph;
        let key = graph.text(graph.get(id, "attr_key")?)?.to_owned();
        match key.as_str() {
            "thread_extent" => self.bind_axis(id)?,
            "pragma_import_c" | "pragma_import_llvm" => {
                let text = graph.text(graph.get(id, "value")?)?;
                return Err(TranslateError::InlineSource {
                    name: key.clone(),
                    digest: crate::intrinsics::digest(text),
                });
            }
            "async_commit_queue_scope" => {
                self.stmt(graph.get(id, "body")?)?;
                self.b.inst(Inst::CpAsyncCommit);
                return Ok(());
            }
            "async_wait_queue_scope" => {
                let inner = graph.get(id, "body")?;
                let pending = graph.get(inner, "value")?;
                let Some(pending) = graph.constant(pending) else {
                    return Err(self.incomplete("a wait for a variable number of groups", id));
                };
                self.b.inst(Inst::CpAsyncWaitGroup {
                    pending: u32::try_from(pending).unwrap_or(0),
                });
                self.clobber();
                self.stmt(graph.get(inner, "body")?)?;
                return Ok(());
            }
            // Alignment, layout and unrolling hints say nothing that code depends on.
            _ => {}
        }
        self.stmt(graph.get(id, "body")?)
    }

    fn bind_axis(&mut self, id: Id) -> Result<()> {
        let graph = self.graph;
        let axis = graph.get(id, "node")?;
        let tag = graph.text(graph.get(axis, "thread_tag")?)?.to_owned();
        let var = graph.get(axis, "var")?;
        let extent = graph.constant(graph.get(id, "value")?);
        let special = match tag.as_str() {
            "blockIdx.x" => Special::CtaidX,
            "blockIdx.y" => Special::CtaidY,
            "blockIdx.z" => Special::CtaidZ,
            "threadIdx.x" => Special::TidX,
            "threadIdx.y" => Special::TidY,
            "threadIdx.z" => Special::TidZ,
            "clusterCtaIdx.x" => Special::ClusterCtaidX,
            "clusterCtaIdx.y" => Special::ClusterCtaidY,
            "clusterCtaIdx.z" => Special::ClusterCtaidZ,
            "" => return Ok(()),
            other => return Err(self.incomplete(format!("thread axis {other:?}"), id)),
        };
        let elem = graph.dtype(var)?.elem;
        if let Some(extent) = extent {
            self.extents.insert(tag, extent);
        }
        let operand = if extent == Some(1) {
            Operand::Imm(0)
        } else {
            self.b.special(special)
        };
        let scalar = Scalar::new(operand, crate::dtype::S32);
        let scalar = self.convert(scalar, elem, id)?;
        self.vars.insert(var, Value::Scalar(scalar));
        Ok(())
    }

    // ---- loops ----

    fn for_loop(&mut self, id: Id) -> Result<()> {
        let graph = self.graph;
        let var = graph.get(id, "loop_var")?;
        let body = graph.get(id, "body")?;
        let kind = graph.int(id, "kind")?;
        let elem = graph.dtype(var)?.elem;
        if !elem.is_int() {
            return Err(TranslateError::malformed(
                "a loop variable is not an integer",
            ));
        }
        if !matches!(kind, SERIAL | PARALLEL | VECTORIZED | UNROLLED) {
            return Err(self.incomplete(format!("loop kind {kind}"), id));
        }
        let min = self.scalar_of(graph.get(id, "min")?, elem)?;
        let extent = self.scalar_of(graph.get(id, "extent")?, elem)?;
        let step = match graph.maybe(id, "step")? {
            Some(step) => self.scalar_of(step, elem)?,
            None => Scalar::imm(1, elem),
        };
        let bits = elem.bits();
        let constants = (min.constant(), extent.constant(), step.constant());
        if let (Some(min), Some(extent), Some(step)) = constants {
            let (min, extent) = (sign_extend(min, bits), sign_extend(extent, bits));
            let step = sign_extend(step, bits).max(1);
            let turns = (extent.max(0) as u64).div_ceil(step as u64);
            if self.unrolls(id, body, kind, turns)? {
                for turn in 0..turns {
                    let value = min.wrapping_add((turn as i64).wrapping_mul(step));
                    let scalar = Scalar::imm(crate::builder::mask(value as u64, bits), elem);
                    self.vars.insert(var, Value::Scalar(scalar));
                    self.stmt(body)?;
                }
                return Ok(());
            }
        }
        self.counted_loop(var, elem, min, extent, step, body)
    }

    fn unrolls(&mut self, id: Id, body: Id, kind: i64, turns: u64) -> Result<bool> {
        if turns == 0 {
            return Ok(true);
        }
        if self.jumps(body)? {
            return Ok(false);
        }
        let weight = self.weight(body)?.saturating_mul(turns);
        if kind == UNROLLED || self.has_annotation(id, "pragma_unroll")? {
            return Ok(weight <= ASKED_WEIGHT);
        }
        if self.has_annotation(id, "disable_unroll")? {
            return Ok(false);
        }
        Ok(turns == 1 || (turns <= UNROLLED_TURNS && weight <= UNROLLED_WEIGHT))
    }

    fn has_annotation(&self, id: Id, name: &str) -> Result<bool> {
        let Some(annotations) = self.graph.maybe(id, "annotations")? else {
            return Ok(false);
        };
        for (key, _) in self.graph.map(annotations)? {
            if self.graph.text(key)? == name {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the body leaves its own loop by `break` or `continue`.
    fn jumps(&mut self, id: Id) -> Result<bool> {
        self.enter()?;
        let graph = self.graph;
        let found = match graph.kind(id) {
            "tirx.Break" | "tirx.Continue" => true,
            "tirx.SeqStmt" => {
                let mut found = false;
                for stmt in graph.list(id, "seq")? {
                    found |= self.jumps(stmt)?;
                }
                found
            }
            "tirx.IfThenElse" => {
                let otherwise = graph.maybe(id, "else_case")?;
                self.jumps(graph.get(id, "then_case")?)?
                    || match otherwise {
                        Some(otherwise) => self.jumps(otherwise)?,
                        None => false,
                    }
            }
            "tirx.AttrStmt" => self.jumps(graph.get(id, "body")?)?,
            "tirx.Evaluate" => {
                let value = graph.get(id, "value")?;
                graph.kind(value) == "tirx.Call"
                    && matches!(
                        graph.text(graph.get(value, "op")?),
                        Ok("tirx.break_loop" | "tirx.continue_loop")
                    )
            }
            _ => false,
        };
        self.leave();
        Ok(found)
    }

    /// The variable counts at the head, so that `continue` reaches it.
    fn counted_loop(
        &mut self,
        var: Id,
        elem: Elem,
        min: Scalar,
        extent: Scalar,
        step: Scalar,
        body: Id,
    ) -> Result<()> {
        let ty = elem.ir();
        let end = self.b.int(IntBinary::Add, ty, min.op, extent.op);
        let end = self.steady(Scalar::new(end, elem));
        let before = self.b.int(IntBinary::Sub, ty, min.op, step.op);
        // It changes at the head alone, where nothing that was computed from it is left: for the body
        // it is a value like any other.
        let counter = self.b.fresh(elem.class());
        self.b.inst(Inst::Mov {
            dst: counter,
            src: before,
        });
        if ty.is_signed()
            && min
                .constant()
                .is_some_and(|bits| sign_extend(bits, elem.bits()) >= 0)
        {
            self.b.note_natural(counter);
        }
        let step = self.steady(step);
        self.looped(body, |kernel| {
            kernel.b.inst(Inst::IntBinary {
                op: IntBinary::Add,
                ty,
                dst: counter,
                a: Operand::Reg(counter),
                b: step.op,
            });
            let done = kernel
                .b
                .setp(Compare::Ge, ty, false, Operand::Reg(counter), end.op);
            kernel.break_where(done, false);
            let value = Scalar::new(Operand::Reg(counter), elem);
            kernel.vars.insert(var, Value::Scalar(value));
            kernel.stmt(body)
        })
    }

    fn while_loop(&mut self, id: Id) -> Result<()> {
        let condition = self.graph.get(id, "condition")?;
        let body = self.graph.get(id, "body")?;
        self.looped(body, |kernel| {
            let holds = kernel.predicate(condition)?;
            kernel.break_where(holds, true);
            kernel.stmt(body)
        })
    }

    /// Leaves the loop where the predicate holds (or, negated, does not).
    fn break_where(&mut self, pred: Operand, negated: bool) {
        match pred {
            Operand::Imm(value) if (value != 0) == negated => {}
            Operand::Imm(_) => self.b.node(NodeKind::Break { guard: None }),
            Operand::Reg(pred) => self.b.node(NodeKind::Break {
                guard: Some(Guard { pred, negated }),
            }),
        }
    }

    /// Emits a loop around what `fill` emits.
    fn looped(&mut self, body: Id, fill: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.forget_written(body)?;
        self.clobber();
        let location = self.b.location;
        self.b.begin();
        self.open_loops += 1;
        fill(self)?;
        self.open_loops -= 1;
        let block = self.b.end();
        self.b.location = location;
        self.b.node(NodeKind::Loop { body: block });
        self.forget_written(body)?;
        self.clobber();
        Ok(())
    }

    pub(crate) fn leave_loop(&mut self, id: Id, kind: NodeKind) -> Result<()> {
        if self.open_loops == 0 {
            let _ = id;
            return Err(TranslateError::malformed(
                "break or continue outside of a loop",
            ));
        }
        self.b.node(kind);
        Ok(())
    }

    // ---- branches ----

    fn if_then_else(&mut self, id: Id) -> Result<()> {
        let graph = self.graph;
        let condition = graph.get(id, "condition")?;
        let then = graph.get(id, "then_case")?;
        let otherwise = graph.maybe(id, "else_case")?;
        match self.predicate(condition)? {
            Operand::Imm(0) => match otherwise {
                Some(otherwise) => self.stmt(otherwise),
                None => Ok(()),
            },
            Operand::Imm(_) => self.stmt(then),
            Operand::Reg(cond) => self.branch(
                cond,
                |kernel| kernel.stmt(then),
                |kernel| match otherwise {
                    Some(otherwise) => kernel.stmt(otherwise),
                    None => Ok(()),
                },
            ),
        }
    }

    /// Emits both sides of a branch.
    pub(crate) fn branch(
        &mut self,
        cond: Reg,
        then: impl FnOnce(&mut Self) -> Result<()>,
        otherwise: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let location = self.b.location;
        self.b.begin();
        self.open_branch();
        then(self)?;
        let mut written = self.close_branch();
        let then = self.b.end();
        self.b.begin();
        self.open_branch();
        otherwise(self)?;
        written.extend(self.close_branch());
        let otherwise = self.b.end();
        written.sort_unstable();
        written.dedup();
        self.forget(&written);
        self.b.location = location;
        if !then.is_empty() || !otherwise.is_empty() {
            self.b.node(NodeKind::If {
                cond,
                then,
                otherwise,
            });
        }
        Ok(())
    }

    fn assertion(&mut self, id: Id) -> Result<()> {
        let graph = self.graph;
        let holds = self.predicate(graph.get(id, "condition")?)?;
        let mut message = String::new();
        for part in graph.list(id, "message_parts")? {
            message.push_str(graph.text(part)?);
        }
        if message.is_empty() {
            message.push_str("assertion failed");
        }
        let pred = self.b.in_register(RegClass::Pred, holds);
        self.b.inst(Inst::Assert {
            pred: Guard {
                pred,
                negated: false,
            },
            message,
        });
        Ok(())
    }

    // ---- stores ----

    fn buffer_store(&mut self, id: Id) -> Result<()> {
        let graph = self.graph;
        if graph.maybe(id, "predicate")?.is_some() {
            return Err(self.incomplete("a predicated buffer store", id));
        }
        let buffer = graph.get(id, "buffer")?;
        let dtype = graph.dtype(buffer)?;
        let value_id = graph.get(id, "value")?;
        let value = self.value(value_id)?;
        let lanes = match value {
            Value::Scalar(scalar) => vec![scalar],
            Value::Vector(lanes) => lanes,
            Value::Pointer(pointer) => {
                let holder = self.buffer_start(buffer)?;
                vec![self.pointer_value(pointer, holder)]
            }
            Value::Text(_) | Value::Void => {
                return Err(TranslateError::malformed("a store of what is not a number"));
            }
        };
        let mut converted = Vec::with_capacity(lanes.len());
        for lane in lanes {
            converted.push(self.convert(lane, dtype.elem, value_id)?);
        }
        let index = self.single_index(id)?;
        let places = self.places(buffer, index, dtype, converted.len(), false)?;
        self.store_places(
            &places,
            DType {
                elem: dtype.elem,
                lanes: dtype.lanes,
            },
            &converted,
            id,
        )
    }
}
