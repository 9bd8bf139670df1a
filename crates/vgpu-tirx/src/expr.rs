//! Expressions: constants, arithmetic with C's promotions, comparisons, selections, vectors.

use vgpu::ir::*;

use crate::builder::mask;
use crate::dtype::{DType, Elem, S32, S64, U32, U64};
use crate::error::TranslateError;
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::value::{Pointer, Scalar, Value};

/// Modifiers of single-precision arithmetic: TVM compiles with `--use_fast_math`, which flushes subnormals.
pub(crate) const FAST: FloatMods = FloatMods {
    rounding: Rounding::NearestEven,
    ftz: true,
    sat: false,
    relu: false,
};

/// Modifiers for a type: only single precision flushes.
pub(crate) fn mods_of(elem: Elem) -> FloatMods {
    if elem == Elem::F32 {
        FAST
    } else {
        FloatMods::default()
    }
}

/// The two-operand arithmetic of TIR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arith {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    FloorDiv,
    FloorMod,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

impl Kernel<'_> {
    /// Evaluates an expression.
    pub(crate) fn value(&mut self, id: Id) -> Result<Value> {
        self.enter()?;
        self.note_location(id);
        let value = self.value_inner(id)?;
        self.leave();
        Ok(value)
    }

    fn value_inner(&mut self, id: Id) -> Result<Value> {
        let graph = self.graph;
        let kind = graph.kind(id);
        let arith = match kind {
            "tirx.Add" => Some(Arith::Add),
            "tirx.Sub" => Some(Arith::Sub),
            "tirx.Mul" => Some(Arith::Mul),
            "tirx.Div" => Some(Arith::Div),
            "tirx.Mod" => Some(Arith::Mod),
            "tirx.FloorDiv" => Some(Arith::FloorDiv),
            "tirx.FloorMod" => Some(Arith::FloorMod),
            "tirx.Min" => Some(Arith::Min),
            "tirx.Max" => Some(Arith::Max),
            _ => None,
        };
        if let Some(op) = arith {
            let (a, b) = (graph.get(id, "a")?, graph.get(id, "b")?);
            return self.arithmetic(op, a, b, id);
        }
        let compare = match kind {
            "tirx.EQ" => Some(Compare::Eq),
            "tirx.NE" => Some(Compare::Ne),
            "tirx.LT" => Some(Compare::Lt),
            "tirx.LE" => Some(Compare::Le),
            "tirx.GT" => Some(Compare::Gt),
            "tirx.GE" => Some(Compare::Ge),
            _ => None,
        };
        if let Some(cmp) = compare {
            return self.comparison(cmp, id);
        }
        match kind {
            "ir.IntImm" => {
                let dtype = graph.dtype(id)?;
                let value = graph.int(id, "value")? as u64;
                let bits = match dtype.elem {
                    Elem::Bool => u64::from(value != 0),
                    elem => mask(value, elem.bits()),
                };
                Ok(Value::Scalar(Scalar::imm(bits, dtype.elem)))
            }
            "ir.FloatImm" => {
                let dtype = graph.dtype(id)?;
                let value = graph.float(id, "value")?;
                self.float_constant(value, dtype.elem, id)
            }
            "tirx.StringImm" => Ok(Value::Text(graph.text(id)?.to_owned())),
            "tirx.Var" => match self.vars.get(&id) {
                Some(value) => Ok(value.clone()),
                None => Err(TranslateError::malformed(format!(
                    "variable {:?} is used before it is bound",
                    self.var_name(id).unwrap_or_default()
                ))),
            },
            "tirx.And" | "tirx.Or" => self.short_circuit(id, kind == "tirx.And"),
            "tirx.Not" => {
                let a = self.value(graph.get(id, "a")?)?;
                self.map_lanes(a, id, |kernel, lane| {
                    let pred = kernel.truth(lane);
                    Ok(Scalar::new(kernel.b.not(pred), Elem::Bool))
                })
            }
            "tirx.Cast" => {
                let dtype = graph.dtype(id)?;
                let value = self.value(graph.get(id, "value")?)?;
                self.cast(value, dtype, id)
            }
            "tirx.Select" => {
                let condition = graph.get(id, "condition")?;
                let a = graph.get(id, "true_value")?;
                let b = graph.get(id, "false_value")?;
                self.selection(condition, a, b, id)
            }
            "tirx.Let" => {
                self.bind(graph.get(id, "var")?, graph.get(id, "value")?)?;
                self.value(graph.get(id, "body")?)
            }
            "tirx.Ramp" => self.ramp(id),
            "tirx.Broadcast" => {
                let lanes = usize::from(graph.dtype(id)?.lanes);
                match self.value(graph.get(id, "value")?)? {
                    Value::Scalar(scalar) => Ok(Value::lanes(vec![scalar; lanes])),
                    _ => Err(TranslateError::malformed(
                        "a broadcast of what is not a scalar",
                    )),
                }
            }
            "tirx.Shuffle" => self.shuffle(id),
            "tirx.BufferLoad" => self.buffer_load(id),
            "tirx.Call" => self.call(id),
            other => Err(self.incomplete(format!("expression {other}"), id)),
        }
    }

    // ---- parts of expressions, by kind ----

    /// A scalar number; pointers become 64-bit generic addresses.
    pub(crate) fn scalar(&mut self, id: Id) -> Result<Scalar> {
        match self.value(id)? {
            Value::Scalar(scalar) => Ok(scalar),
            Value::Pointer(pointer) => Ok(self.address_bits(pointer)),
            _ => Err(TranslateError::malformed(format!(
                "node {id} ({}) is not a scalar",
                self.graph.kind(id)
            ))),
        }
    }

    /// A scalar of the given type.
    pub(crate) fn scalar_of(&mut self, id: Id, elem: Elem) -> Result<Scalar> {
        let scalar = self.scalar(id)?;
        self.convert(scalar, elem, id)
    }

    /// A condition, as a predicate operand.
    pub(crate) fn predicate(&mut self, id: Id) -> Result<Operand> {
        let scalar = self.scalar(id)?;
        Ok(self.truth(scalar))
    }

    /// Whether a scalar is not zero.
    pub(crate) fn truth(&mut self, scalar: Scalar) -> Operand {
        match (scalar.ty, scalar.op) {
            (Elem::Bool, op) => op,
            (ty, Operand::Imm(bits)) if !ty.is_float() => Operand::Imm(u64::from(bits != 0)),
            (ty, op) if ty.is_float() => {
                self.b
                    .setp(Compare::Neu, ty.ir(), ty == Elem::F32, op, Operand::Imm(0))
            }
            (ty, op) => {
                let wide = self.promoted(ty);
                self.b
                    .setp(Compare::Ne, wide.ir(), false, op, Operand::Imm(0))
            }
        }
    }

    /// A constant operand of an operator: an integer.
    pub(crate) fn constant(&mut self, id: Id, what: &str) -> Result<i64> {
        if let Some(value) = self.graph.constant(id) {
            return Ok(value);
        }
        let scalar = self.scalar(id)?;
        match scalar.constant() {
            Some(bits) => Ok(crate::builder::sign_extend(bits, scalar.ty.bits().max(8))),
            None => Err(self.incomplete(format!("{what} that is not a constant"), id)),
        }
    }

    pub(crate) fn map_lanes(
        &mut self,
        value: Value,
        id: Id,
        f: impl Fn(&mut Self, Scalar) -> Result<Scalar>,
    ) -> Result<Value> {
        match value {
            Value::Scalar(scalar) => Ok(Value::Scalar(f(self, scalar)?)),
            Value::Vector(lanes) => {
                let mapped: Result<Vec<Scalar>> =
                    lanes.into_iter().map(|lane| f(self, lane)).collect();
                Ok(Value::lanes(mapped?))
            }
            _ => Err(TranslateError::malformed(format!(
                "node {id} ({}) has an operand that is not a number",
                self.graph.kind(id)
            ))),
        }
    }

    /// Applies `f` lane by lane; a scalar meets every lane of a vector.
    pub(crate) fn zip_lanes(
        &mut self,
        a: Value,
        b: Value,
        id: Id,
        f: impl Fn(&mut Self, Scalar, Scalar) -> Result<Scalar>,
    ) -> Result<Value> {
        let lanes = |value: Value| match value {
            Value::Scalar(scalar) => Some(vec![scalar]),
            Value::Vector(lanes) => Some(lanes),
            _ => None,
        };
        let bad = || TranslateError::malformed(format!("node {id}: operands do not fit together"));
        let (mut a, mut b) = (lanes(a).ok_or_else(bad)?, lanes(b).ok_or_else(bad)?);
        let count = a.len().max(b.len());
        for side in [&mut a, &mut b] {
            if side.len() == 1 {
                *side = vec![side[0]; count];
            }
            if side.len() != count {
                return Err(bad());
            }
        }
        let mapped: Result<Vec<Scalar>> =
            a.into_iter().zip(b).map(|(a, b)| f(self, a, b)).collect();
        Ok(Value::lanes(mapped?))
    }

    // ---- arithmetic ----

    /// C's integer promotion: what is narrower than `int` becomes `int`.
    pub(crate) fn promoted(&self, ty: Elem) -> Elem {
        match ty {
            Elem::Bool => S32,
            Elem::Int { bits, .. } if bits < 32 => S32,
            other => other,
        }
    }

    /// C's usual arithmetic conversions of two operand types.
    fn common(&self, a: Elem, b: Elem) -> Elem {
        let (a, b) = (self.promoted(a), self.promoted(b));
        if a == b {
            return a;
        }
        if a.is_float() || b.is_float() {
            let rank = |elem: Elem| match elem {
                Elem::F64 => 3,
                Elem::F32 => 2,
                elem if elem.is_float() => 1,
                _ => 0,
            };
            return if rank(a) >= rank(b) { a } else { b };
        }
        let wide = a.bits().max(b.bits());
        let signed = |elem: Elem| elem.is_signed() || elem.bits() < wide;
        match (wide, signed(a) && signed(b)) {
            (64, true) => S64,
            (64, false) => U64,
            (_, true) => S32,
            (_, false) => U32,
        }
    }

    fn arithmetic(&mut self, op: Arith, a: Id, b: Id, id: Id) -> Result<Value> {
        let a = self.value(a)?;
        let b = self.value(b)?;
        // A pointer plus a number of bytes (the pointer's type is void).
        if let (Value::Pointer(pointer), Value::Scalar(bytes)) = (&a, &b)
            && matches!(op, Arith::Add)
        {
            let moved = self.offset_pointer(*pointer, *bytes, 1)?;
            return Ok(Value::Pointer(moved));
        }
        self.zip_lanes(a, b, id, |kernel, a, b| kernel.arith(op, a, b, id))
    }

    /// One arithmetic operation on scalars.
    pub(crate) fn arith(&mut self, op: Arith, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        if matches!(op, Arith::Shl | Arith::Shr) {
            return self.shift(op, a, b, at);
        }
        if a.ty == Elem::Bool && b.ty == Elem::Bool {
            let logic = match op {
                Arith::And | Arith::Min => Some(BoolOp::And),
                Arith::Or | Arith::Max => Some(BoolOp::Or),
                Arith::Xor => Some(BoolOp::Xor),
                _ => None,
            };
            if let Some(logic) = logic {
                return Ok(Scalar::new(self.b.logic(logic, a.op, b.op), Elem::Bool));
            }
        }
        let ty = self.common(a.ty, b.ty);
        if ty.is_narrow_float() {
            return Err(self.incomplete(format!("arithmetic on {ty:?}"), at));
        }
        let (a, b) = (self.convert(a, ty, at)?, self.convert(b, ty, at)?);
        if ty.is_float() {
            return self.float_arith(op, a, b, at);
        }
        let ir = ty.ir();
        let int = match op {
            Arith::Add => IntBinary::Add,
            Arith::Sub => IntBinary::Sub,
            Arith::Mul => IntBinary::MulLo,
            Arith::Div => IntBinary::Div,
            Arith::Mod => IntBinary::Rem,
            Arith::Min => IntBinary::Min,
            Arith::Max => IntBinary::Max,
            Arith::And => IntBinary::And,
            Arith::Or => IntBinary::Or,
            Arith::Xor => IntBinary::Xor,
            Arith::FloorDiv | Arith::FloorMod => return self.floor(op, a, b),
            Arith::Shl | Arith::Shr => IntBinary::Shl,
        };
        Ok(Scalar::new(self.b.int(int, ir, a.op, b.op), ty))
    }

    /// Floor division and its remainder, where lowering has left one.
    fn floor(&mut self, op: Arith, a: Scalar, b: Scalar) -> Result<Scalar> {
        let ty = a.ty;
        let ir = ty.ir();
        let quotient = self.b.int(IntBinary::Div, ir, a.op, b.op);
        let remainder = self.b.int(IntBinary::Rem, ir, a.op, b.op);
        if !ty.is_signed() {
            let result = if op == Arith::FloorDiv {
                quotient
            } else {
                remainder
            };
            return Ok(Scalar::new(result, ty));
        }
        let zero = Operand::Imm(0);
        let signs = self.b.int(IntBinary::Xor, ir, remainder, b.op);
        let differ = self.b.setp(Compare::Lt, ir, false, signs, zero);
        let inexact = self.b.setp(Compare::Ne, ir, false, remainder, zero);
        let below = self.b.logic(BoolOp::And, differ, inexact);
        let (kept, adjusted) = if op == Arith::FloorDiv {
            (
                quotient,
                self.b.int(IntBinary::Sub, ir, quotient, Operand::Imm(1)),
            )
        } else {
            (remainder, self.b.int(IntBinary::Add, ir, remainder, b.op))
        };
        Ok(Scalar::new(
            self.b.select(ty.class(), below, adjusted, kept),
            ty,
        ))
    }

    fn shift(&mut self, op: Arith, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        let ty = self.promoted(a.ty);
        if !ty.is_int() || !(b.ty.is_int() || b.ty == Elem::Bool) {
            return Err(TranslateError::malformed(
                "a shift of what is not an integer",
            ));
        }
        let a = self.convert(a, ty, at)?;
        let amount = self.convert(b, U32, at)?;
        let int = if op == Arith::Shl {
            IntBinary::Shl
        } else {
            IntBinary::Shr
        };
        Ok(Scalar::new(self.b.int(int, ty.ir(), a.op, amount.op), ty))
    }

    fn float_arith(&mut self, op: Arith, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        let ty = a.ty;
        let binary = match op {
            Arith::Add => FloatBinary::Add,
            Arith::Sub => FloatBinary::Sub,
            Arith::Mul => FloatBinary::Mul,
            Arith::Min => FloatBinary::Min,
            Arith::Max => FloatBinary::Max,
            Arith::Div => return self.float_divide(a, b, at),
            Arith::Mod if ty == Elem::F32 => return self.fmod(a, b, at),
            _ => return Err(self.incomplete(format!("{op:?} on {ty:?}"), at)),
        };
        if let Some(folded) = fold_f32(binary, ty, a, b) {
            return Ok(folded);
        }
        let op = self.b.float(binary, ty.ir(), mods_of(ty), a.op, b.op);
        Ok(Scalar::new(op, ty))
    }

    fn float_divide(&mut self, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        let ty = a.ty;
        let (op, mods) = match ty {
            // `x / y` under --use_fast_math is `__fdividef(x, y)`.
            Elem::F32 => (FloatBinary::DivApprox, FAST),
            Elem::F64 => (FloatBinary::Div, FloatMods::default()),
            // Half types divide in single precision and round once more.
            _ => {
                let wide_a = self.convert(a, Elem::F32, at)?;
                let wide_b = self.convert(b, Elem::F32, at)?;
                let quotient = self.float_divide(wide_a, wide_b, at)?;
                return self.convert(quotient, ty, at);
            }
        };
        Ok(Scalar::new(self.b.float(op, ty.ir(), mods, a.op, b.op), ty))
    }

    fn comparison(&mut self, cmp: Compare, id: Id) -> Result<Value> {
        let a = self.value(self.graph.get(id, "a")?)?;
        let b = self.value(self.graph.get(id, "b")?)?;
        let bits = |kernel: &mut Self, value: Value| match value {
            Value::Pointer(pointer) => Value::Scalar(kernel.address_bits(pointer)),
            other => other,
        };
        let (a, b) = (bits(self, a), bits(self, b));
        self.zip_lanes(a, b, id, |kernel, a, b| kernel.compare(cmp, a, b, id))
    }

    /// One comparison; C's `!=` holds for NaN, the others do not.
    pub(crate) fn compare(&mut self, cmp: Compare, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        let ty = if a.ty == Elem::Handle || b.ty == Elem::Handle {
            U64
        } else {
            self.common(a.ty, b.ty)
        };
        if a.ty == Elem::Bool && b.ty == Elem::Bool && matches!(cmp, Compare::Eq | Compare::Ne) {
            let differ = self.b.logic(BoolOp::Xor, a.op, b.op);
            let op = if cmp == Compare::Eq {
                self.b.not(differ)
            } else {
                differ
            };
            return Ok(Scalar::new(op, Elem::Bool));
        }
        let (a, b) = (self.convert(a, ty, at)?, self.convert(b, ty, at)?);
        let cmp = match cmp {
            Compare::Ne if ty.is_float() => Compare::Neu,
            other => other,
        };
        if ty.is_narrow_float() {
            return Err(self.incomplete(format!("comparison of {ty:?}"), at));
        }
        let op = self.b.setp(cmp, ty.ir(), ty == Elem::F32, a.op, b.op);
        Ok(Scalar::new(op, Elem::Bool))
    }

    /// `a && b` and `a || b`: what could fault in `b` runs only where it decides.
    fn short_circuit(&mut self, id: Id, and: bool) -> Result<Value> {
        let (a, b) = (self.graph.get(id, "a")?, self.graph.get(id, "b")?);
        let first = self.value(a)?;
        let Value::Scalar(first) = first else {
            let second = self.value(b)?;
            let op = if and { BoolOp::And } else { BoolOp::Or };
            return self.zip_lanes(first, second, id, |kernel, a, b| {
                let (a, b) = (kernel.truth(a), kernel.truth(b));
                Ok(Scalar::new(kernel.b.logic(op, a, b), Elem::Bool))
            });
        };
        let first = self.truth(first);
        let decided = u64::from(!and);
        match first {
            Operand::Imm(value) if value == decided => {
                return Ok(Value::Scalar(Scalar::imm(value, Elem::Bool)));
            }
            Operand::Imm(_) => {
                let second = self.predicate(b)?;
                return Ok(Value::Scalar(Scalar::new(second, Elem::Bool)));
            }
            Operand::Reg(_) => {}
        }
        if !self.needs_guard(b)? {
            let second = self.predicate(b)?;
            let op = if and { BoolOp::And } else { BoolOp::Or };
            return Ok(Value::Scalar(Scalar::new(
                self.b.logic(op, first, second),
                Elem::Bool,
            )));
        }
        let result = self.b.fresh_mutable(RegClass::Pred);
        self.b.assign(result, first);
        let run = if and { first } else { self.b.not(first) };
        let run = self.b.in_register(RegClass::Pred, run);
        self.branch(
            run,
            |kernel| {
                let second = kernel.predicate(b)?;
                kernel.b.assign(result, second);
                Ok(())
            },
            |_| Ok(()),
        )?;
        let value = self.b.copy(RegClass::Pred, Operand::Reg(result));
        Ok(Value::Scalar(Scalar::new(Operand::Reg(value), Elem::Bool)))
    }

    /// Whether evaluating an expression where its condition fails could fault or have an effect.
    fn needs_guard(&mut self, id: Id) -> Result<bool> {
        self.enter()?;
        let graph = self.graph;
        let guard = match graph.kind(id) {
            "tirx.BufferLoad" => {
                let var = graph.get(graph.get(id, "buffer")?, "data")?;
                let in_registers = matches!(
                    self.vars.get(&var),
                    Some(Value::Pointer(Pointer::Array { .. }))
                );
                let mut guard = !in_registers;
                for index in graph.list(id, "indices")? {
                    guard |= self.needs_guard(index)?;
                }
                guard
            }
            "tirx.Call" => {
                let pure =
                    crate::intrinsics::is_harmless(graph.text(graph.get(id, "op")?).unwrap_or(""));
                let mut guard = !pure;
                if !guard {
                    for arg in graph.list(id, "args")? {
                        guard |= self.needs_guard(arg)?;
                    }
                }
                guard
            }
            "tirx.Var" | "ir.IntImm" | "ir.FloatImm" | "tirx.StringImm" | "ir.Op" => false,
            _ => {
                let mut guard = false;
                for child in graph.children(id) {
                    guard |= self.needs_guard(child)?;
                }
                guard
            }
        };
        self.leave();
        Ok(guard)
    }

    /// `condition ? a : b`, each side evaluated only where it is taken if it could fault.
    pub(crate) fn selection(&mut self, condition: Id, a: Id, b: Id, at: Id) -> Result<Value> {
        let chosen = match self.value(condition)? {
            Value::Scalar(scalar) => self.truth(scalar),
            lanes @ Value::Vector(_) => return self.vector_selection(lanes, a, b, at),
            _ => {
                return Err(TranslateError::malformed(
                    "a condition that is not a number",
                ));
            }
        };
        match chosen {
            Operand::Imm(0) => return self.value(b),
            Operand::Imm(_) => return self.value(a),
            Operand::Reg(_) => {}
        }
        if !self.needs_guard(a)? && !self.needs_guard(b)? {
            let (a, b) = (self.value(a)?, self.value(b)?);
            if let (Value::Pointer(x), Value::Pointer(y)) = (&a, &b) {
                return Ok(Value::Pointer(self.select_pointer(chosen, *x, *y, at)?));
            }
            return self.zip_lanes(a, b, at, |kernel, a, b| kernel.choose(chosen, a, b, at));
        }
        let dtype = self.graph.dtype(at)?;
        if dtype.elem == Elem::Handle {
            return Err(self.incomplete("a choice between loaded pointers", at));
        }
        let class = dtype.elem.class();
        let results: Vec<Reg> = (0..dtype.lanes)
            .map(|_| self.b.fresh_mutable(class))
            .collect();
        let cond = self.b.in_register(RegClass::Pred, chosen);
        let side = |value: Id, results: Vec<Reg>| {
            move |kernel: &mut Self| -> Result<()> {
                let lanes = match kernel.value(value)? {
                    Value::Scalar(scalar) => vec![scalar; results.len()],
                    Value::Vector(lanes) if lanes.len() == results.len() => lanes,
                    _ => {
                        return Err(TranslateError::malformed(
                            "a choice of what is not a number",
                        ));
                    }
                };
                for (lane, &result) in lanes.into_iter().zip(&results) {
                    let lane = kernel.convert(lane, dtype.elem, value)?;
                    kernel.b.assign(result, lane.op);
                }
                Ok(())
            }
        };
        self.branch(cond, side(a, results.clone()), side(b, results.clone()))?;
        let lanes = results
            .into_iter()
            .map(|reg| {
                self.b.touch(reg);
                let copy = self.b.copy(class, Operand::Reg(reg));
                Scalar::new(Operand::Reg(copy), dtype.elem)
            })
            .collect();
        Ok(Value::lanes(lanes))
    }

    fn vector_selection(&mut self, condition: Value, a: Id, b: Id, at: Id) -> Result<Value> {
        let Value::Vector(conditions) = condition else {
            return Err(TranslateError::malformed(
                "a condition that is not a vector",
            ));
        };
        let (a, b) = (self.value(a)?, self.value(b)?);
        let lane_of = |value: &Value, lane: usize| match value {
            Value::Scalar(scalar) => Some(*scalar),
            Value::Vector(lanes) => lanes.get(lane).copied(),
            _ => None,
        };
        let mut lanes = Vec::with_capacity(conditions.len());
        for (lane, condition) in conditions.into_iter().enumerate() {
            let (Some(x), Some(y)) = (lane_of(&a, lane), lane_of(&b, lane)) else {
                return Err(TranslateError::malformed(
                    "a vector choice whose lanes do not fit",
                ));
            };
            let chosen = self.truth(condition);
            lanes.push(self.choose(chosen, x, y, at)?);
        }
        Ok(Value::lanes(lanes))
    }

    fn choose(&mut self, chosen: Operand, a: Scalar, b: Scalar, at: Id) -> Result<Scalar> {
        let ty = match (a.ty, b.ty) {
            (x, y) if x == y => x,
            (x, y) => self.common(x, y),
        };
        let (a, b) = (self.convert(a, ty, at)?, self.convert(b, ty, at)?);
        if ty == Elem::Bool && (a.constant().is_some() || b.constant().is_some()) {
            // p ? a : b on predicates, as logic.
            let no = self.b.not(chosen);
            let yes_part = self.b.logic(BoolOp::And, chosen, a.op);
            let no_part = self.b.logic(BoolOp::And, no, b.op);
            return Ok(Scalar::new(self.b.logic(BoolOp::Or, yes_part, no_part), ty));
        }
        Ok(Scalar::new(
            self.b.select(ty.class(), chosen, a.op, b.op),
            ty,
        ))
    }

    // ---- vectors ----

    fn ramp(&mut self, id: Id) -> Result<Value> {
        let graph = self.graph;
        let dtype = graph.dtype(id)?;
        let base = self.scalar_of(graph.get(id, "base")?, dtype.elem)?;
        let stride = self.scalar_of(graph.get(id, "stride")?, dtype.elem)?;
        let mut lanes = Vec::with_capacity(usize::from(dtype.lanes));
        for lane in 0..dtype.lanes {
            let step = Scalar::imm(u64::from(lane), dtype.elem);
            let offset = self.arith(Arith::Mul, stride, step, id)?;
            let value = self.arith(Arith::Add, base, offset, id)?;
            lanes.push(self.convert(value, dtype.elem, id)?);
        }
        Ok(Value::lanes(lanes))
    }

    fn shuffle(&mut self, id: Id) -> Result<Value> {
        let graph = self.graph;
        let mut all = Vec::new();
        for vector in graph.list(id, "vectors")? {
            match self.value(vector)? {
                Value::Scalar(scalar) => all.push(scalar),
                Value::Vector(lanes) => all.extend(lanes),
                _ => {
                    return Err(TranslateError::malformed(
                        "a shuffle of what is not a vector",
                    ));
                }
            }
        }
        let mut picked = Vec::new();
        for index in graph.list(id, "indices")? {
            let lane = self.constant(index, "a shuffle index")?;
            let lane = usize::try_from(lane).ok().and_then(|lane| all.get(lane));
            let lane =
                lane.ok_or_else(|| TranslateError::malformed("a shuffle index is out of range"))?;
            picked.push(*lane);
        }
        if picked.is_empty() {
            return Err(TranslateError::malformed("a shuffle without indices"));
        }
        Ok(Value::lanes(picked))
    }

    /// Converts every lane to the type's element, pairs of 8-bit floats together.
    pub(crate) fn cast(&mut self, value: Value, dtype: DType, id: Id) -> Result<Value> {
        match value {
            Value::Pointer(pointer) if dtype.elem == Elem::Handle => Ok(Value::Pointer(pointer)),
            Value::Pointer(pointer) => {
                let bits = self.address_bits(pointer);
                Ok(Value::Scalar(self.convert(bits, dtype.elem, id)?))
            }
            Value::Scalar(scalar) if dtype.elem == Elem::Handle => {
                Ok(Value::Pointer(self.pointer_from_bits(scalar, id)?))
            }
            Value::Vector(lanes) => Ok(Value::lanes(self.convert_lanes(&lanes, dtype.elem, id)?)),
            other => self.map_lanes(other, id, |kernel, lane| {
                kernel.convert(lane, dtype.elem, id)
            }),
        }
    }
}

/// Folds single-precision arithmetic on constants as the hardware would round it.
fn fold_f32(op: FloatBinary, ty: Elem, a: Scalar, b: Scalar) -> Option<Scalar> {
    if ty != Elem::F32 {
        return None;
    }
    let value = |scalar: Scalar| scalar.constant().map(|bits| f32::from_bits(bits as u32));
    let (x, y) = (value(a)?, value(b)?);
    let result = match op {
        FloatBinary::Add => x + y,
        FloatBinary::Sub => x - y,
        FloatBinary::Mul => x * y,
        _ => return None,
    };
    let usual = |number: f32| number == 0.0 || number.is_normal();
    (usual(x) && usual(y) && usual(result))
        .then(|| Scalar::imm(u64::from(result.to_bits()), Elem::F32))
}
