//! Buffers and pointers: where an access goes, and the loads and stores that do it.

use vgpu::ir::*;

use crate::builder::sign_extend;
use crate::dtype::{DType, Elem, S32, U32, U64};
use crate::error::TranslateError;
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::value::{Pointer, Scalar, Value};

/// Where the lanes of an access lie.
pub(crate) enum Places {
    /// One after the other.
    Contiguous(Pointer),
    /// Anywhere.
    Scattered(Vec<Pointer>),
}

/// How a memory access is ordered and cached.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) order: Ordering,
    pub(crate) scope: Scope,
    pub(crate) cache: CacheHint,
}

/// Most bytes of one access.
const ACCESS_BYTES: u32 = 16;

impl Kernel<'_> {
    // ---- pointers ----

    /// The pointer that an expression gives.
    pub(crate) fn pointer(&mut self, id: Id) -> Result<Pointer> {
        match self.value(id)? {
            Value::Pointer(pointer) => Ok(pointer),
            Value::Scalar(scalar) => self.pointer_from_bits(scalar, id),
            _ => Err(TranslateError::malformed(format!(
                "node {id} ({}) is not a pointer",
                self.graph.kind(id)
            ))),
        }
    }

    /// A pointer to an address that was a number.
    pub(crate) fn pointer_from_bits(&mut self, scalar: Scalar, at: Id) -> Result<Pointer> {
        let bits = if scalar.ty == Elem::Handle {
            scalar
        } else {
            self.convert(scalar, U64, at)?
        };
        if let Operand::Reg(reg) = bits.op
            && let Some(&pointer) = self.origins.get(&reg)
        {
            return Ok(pointer);
        }
        Ok(Pointer::Memory {
            space: Space::Generic,
            base: bits.op,
            offset: 0,
            root: 0,
        })
    }

    /// The pointer's generic address as a 64-bit number.
    pub(crate) fn address_bits(&mut self, pointer: Pointer) -> Scalar {
        let bits = self.generic_address(pointer);
        if let (Operand::Reg(reg), Pointer::Memory { base, .. }) = (bits.op, pointer)
            && self.b.is_stable(bits.op)
            && self.b.is_stable(base)
        {
            self.origins.entry(reg).or_insert(pointer);
        }
        bits
    }

    /// What a variable that holds a pointer gets: an address, or for a place in registers a name
    /// that leads back to it.
    pub(crate) fn pointer_value(&mut self, pointer: Pointer, holder: Pointer) -> Scalar {
        let (Pointer::Array { array, .. }, Pointer::Array { array: holder, .. }) =
            (pointer, holder)
        else {
            return self.address_bits(pointer);
        };
        self.pointees.entry(holder).or_default().push(array);
        let name = self.b.fresh(RegClass::B64);
        self.origins.insert(name, pointer);
        Scalar::new(Operand::Reg(name), Elem::Handle)
    }

    /// The pointer that an array of pointers in registers holds.
    fn held_pointer(&mut self, value: Scalar, holder: Pointer, at: Id) -> Result<Pointer> {
        let known = match value.op {
            Operand::Reg(reg) => self.origins.contains_key(&reg),
            Operand::Imm(_) => false,
        };
        if !known && let Pointer::Array { array, .. } = holder {
            // It may be any of those that were stored: these need addresses.
            for array in self.pointees.get(&array).cloned().unwrap_or_default() {
                self.demote(array);
            }
        }
        self.pointer_from_bits(value, at)
    }

    fn generic_address(&mut self, pointer: Pointer) -> Scalar {
        let pointer = match pointer {
            Pointer::Array { array, .. } => self.demote(array),
            memory => memory,
        };
        let Pointer::Memory {
            space,
            base,
            offset,
            ..
        } = pointer
        else {
            return Scalar::imm(0, U64);
        };
        if matches!(space, Space::Global | Space::Generic) {
            let sum = self
                .b
                .int(IntBinary::Add, Type::S64, base, Operand::Imm(offset as u64));
            return Scalar::new(sum, U64);
        }
        let small = self.space_offset(base, offset);
        let wide = self
            .b
            .cvt(Type::U64, Type::U32, FloatMods::default(), small);
        let generic = self
            .b
            .pure(RegClass::B64, [wide], |dst, [a]| Inst::CvtaToGeneric {
                space,
                dst,
                a,
            });
        Scalar::new(Operand::Reg(generic), U64)
    }

    /// A 32-bit offset in shared or local memory.
    fn space_offset(&mut self, base: Operand, offset: i64) -> Operand {
        self.b.int(
            IntBinary::Add,
            Type::S32,
            base,
            Operand::Imm(offset as u32 as u64),
        )
    }

    /// The shared-memory offset of a pointer, 32 bits.
    pub(crate) fn shared_offset(&mut self, pointer: Pointer) -> Scalar {
        match pointer {
            Pointer::Memory {
                space: Space::Shared,
                base,
                offset,
                ..
            } => Scalar::new(self.space_offset(base, offset), U32),
            other => {
                let bits = self.address_bits(other);
                let offset =
                    self.b
                        .pure(RegClass::B64, [bits.op], |dst, [a]| Inst::CvtaFromGeneric {
                            space: Space::Shared,
                            dst,
                            a,
                        });
                let small = self.b.cvt(
                    Type::U32,
                    Type::U64,
                    FloatMods::default(),
                    Operand::Reg(offset),
                );
                Scalar::new(small, U32)
            }
        }
    }

    /// A shared-memory address for instructions that take nothing else.
    pub(crate) fn shared_address(&mut self, pointer: Pointer) -> Address {
        match pointer {
            Pointer::Memory {
                space: Space::Shared,
                base,
                offset,
                ..
            } => Address { base, offset },
            other => Address {
                base: self.shared_offset(other).op,
                offset: 0,
            },
        }
    }

    /// The pointer, `index * size` bytes on.
    pub(crate) fn offset_pointer(
        &mut self,
        pointer: Pointer,
        index: Scalar,
        size: u32,
    ) -> Result<Pointer> {
        let ty = self.promoted(index.ty);
        if !ty.is_int() {
            return Err(TranslateError::malformed("an index that is not an integer"));
        }
        // What is constant in the index goes to the access's own offset. That needs sums without
        // wrap-around: C has none for signed integers. In the 32-bit spaces the rest must not be
        // negative either, or the base would be a large offset.
        let wide = matches!(
            pointer,
            Pointer::Memory {
                space: Space::Global | Space::Generic,
                ..
            }
        );
        let mut op = index.op;
        let mut constant = 0i64;
        if let Operand::Imm(bits) = op {
            constant = if ty.is_signed() {
                sign_extend(bits, ty.bits())
            } else {
                bits as i64
            };
        } else if ty.is_signed()
            && let Some((source, part)) = self.b.sum_of(op)
            && (wide || self.b.is_natural(source, ty.ir()))
        {
            op = source;
            constant = part;
        }
        let bytes = constant.wrapping_mul(i64::from(size));
        let variable = !matches!(index.op, Operand::Imm(_));
        match pointer {
            Pointer::Array { array, .. } if variable => Ok(self.demote(array)),
            Pointer::Array { array, byte } => Ok(Pointer::Array {
                array,
                byte: byte.wrapping_add(bytes),
            }),
            Pointer::Memory {
                space,
                base,
                offset,
                root,
            } => {
                let mut offset = offset.wrapping_add(bytes);
                let mut base = base;
                if variable && matches!(space, Space::Global | Space::Generic) {
                    base = self.b.wide_address(base, op, ty.ir(), size);
                } else if variable {
                    let small = self.narrow_index(op, ty);
                    let scaled = self.b.int(
                        IntBinary::MulLo,
                        Type::S32,
                        small,
                        Operand::Imm(u64::from(size)),
                    );
                    if let Operand::Imm(start) = base {
                        offset = offset.wrapping_add(start as i64);
                        base = scaled;
                    } else {
                        base = self.b.int(IntBinary::Add, Type::S32, base, scaled);
                    }
                    if let Some((source, part)) = self.b.sum_of(base)
                        && self.b.is_natural(source, Type::S32)
                    {
                        base = source;
                        offset = offset.wrapping_add(part);
                    }
                }
                Ok(Pointer::Memory {
                    space,
                    base,
                    offset,
                    root,
                })
            }
        }
    }

    fn narrow_index(&mut self, op: Operand, ty: Elem) -> Operand {
        if ty.bits() == 64 {
            self.b.cvt(Type::S32, Type::S64, FloatMods::default(), op)
        } else {
            op
        }
    }

    /// One of two pointers.
    pub(crate) fn select_pointer(
        &mut self,
        chosen: Operand,
        a: Pointer,
        b: Pointer,
        at: Id,
    ) -> Result<Pointer> {
        if let (
            Pointer::Memory {
                space: x,
                base: base_a,
                offset: offset_a,
                root: root_a,
            },
            Pointer::Memory {
                space: y,
                base: base_b,
                offset: offset_b,
                root: root_b,
            },
        ) = (a, b)
            && x == y
        {
            let wide = matches!(x, Space::Global | Space::Generic);
            let (ty, class) = if wide {
                (Type::S64, RegClass::B64)
            } else {
                (Type::S32, RegClass::B32)
            };
            let bits = |offset: i64| crate::builder::mask(offset as u64, ty.bits());
            let first = self
                .b
                .int(IntBinary::Add, ty, base_a, Operand::Imm(bits(offset_a)));
            let second = self
                .b
                .int(IntBinary::Add, ty, base_b, Operand::Imm(bits(offset_b)));
            return Ok(Pointer::Memory {
                space: x,
                base: self.b.select(class, chosen, first, second),
                offset: 0,
                root: if root_a == root_b { root_a } else { 0 },
            });
        }
        let (first, second) = (self.address_bits(a), self.address_bits(b));
        let op = self.b.select(RegClass::B64, chosen, first.op, second.op);
        self.pointer_from_bits(Scalar::new(op, U64), at)
    }

    // ---- buffers ----

    /// The only index of a buffer access.
    pub(crate) fn single_index(&self, access: Id) -> Result<Id> {
        match self.graph.list(access, "indices")?.as_slice() {
            [index] => Ok(*index),
            other => Err(TranslateError::malformed(format!(
                "a buffer access has {} indices; lowering leaves one",
                other.len()
            ))),
        }
    }

    /// Where a buffer's elements begin.
    pub(crate) fn buffer_start(&mut self, buffer: Id) -> Result<Pointer> {
        let var = self.graph.get(buffer, "data")?;
        self.pointer(var)
    }

    /// Where the `lanes` of an access at `index` lie.
    pub(crate) fn places(
        &mut self,
        buffer: Id,
        index: Id,
        dtype: DType,
        lanes: usize,
        load: bool,
    ) -> Result<Places> {
        let start = self.buffer_start(buffer)?;
        let size = dtype.elem.bytes().ok_or_else(|| {
            self.incomplete(format!("memory access to {:?} elements", dtype.elem), index)
        })?;
        let step = size * u32::from(dtype.lanes);
        let graph = self.graph;
        if graph.kind(index) == "tirx.Ramp" {
            let base = graph.get(index, "base")?;
            let stride = graph.constant(graph.get(index, "stride")?);
            // TVM's generator loads a vector at once only where the index shows that it is aligned;
            // registers do not mind.
            let in_registers = matches!(start, Pointer::Array { .. });
            if stride == Some(1) && (!load || in_registers || self.divides(base, lanes as i64)?) {
                let base = self.scalar(base)?;
                return Ok(Places::Contiguous(self.offset_pointer(start, base, step)?));
            }
        }
        match self.value(index)? {
            Value::Scalar(scalar) => Ok(Places::Contiguous(
                self.offset_pointer(start, scalar, step)?,
            )),
            Value::Vector(indices) => {
                let places: Result<Vec<Pointer>> = indices
                    .into_iter()
                    .map(|lane| self.offset_pointer(start, lane, step))
                    .collect();
                Ok(Places::Scattered(places?))
            }
            _ => Err(TranslateError::malformed("an index that is not a number")),
        }
    }

    /// Whether the expression is a multiple of `lanes` whatever its variables are.
    fn divides(&mut self, id: Id, lanes: i64) -> Result<bool> {
        let (coefficient, base) = self.modular(id)?;
        Ok(lanes <= 1 || (coefficient % lanes == 0 && base % lanes == 0))
    }

    /// `(c, b)`: the expression is `c * k + b` for an integer k. Knows what TVM's analyser knows
    /// of sums, products, shifts and divisions.
    fn modular(&mut self, id: Id) -> Result<(i64, i64)> {
        self.enter()?;
        let graph = self.graph;
        let unknown = (1, 0);
        let found = match graph.kind(id) {
            "ir.IntImm" => (0, graph.int(id, "value")?),
            "tirx.Add" | "tirx.Sub" => {
                let (ca, ba) = self.modular(graph.get(id, "a")?)?;
                let (cb, bb) = self.modular(graph.get(id, "b")?)?;
                let base = if graph.kind(id) == "tirx.Add" {
                    ba.wrapping_add(bb)
                } else {
                    ba.wrapping_sub(bb)
                };
                reduce(gcd(ca, cb), base)
            }
            "tirx.Mul" => {
                let (ca, ba) = self.modular(graph.get(id, "a")?)?;
                let (cb, bb) = self.modular(graph.get(id, "b")?)?;
                product((ca, ba), (cb, bb))
            }
            "tirx.Call" if graph.text(graph.get(id, "op")?) == Ok("tirx.shift_left") => {
                let args = graph.list(id, "args")?;
                match args.as_slice() {
                    [value, amount] => match graph.constant(*amount) {
                        Some(amount @ 0..=30) => product(self.modular(*value)?, (0, 1 << amount)),
                        _ => unknown,
                    },
                    _ => unknown,
                }
            }
            "tirx.Cast" => self.modular(graph.get(id, "value")?)?,
            "tirx.Var" => match self.vars.get(&id) {
                Some(Value::Scalar(scalar)) => match scalar.constant() {
                    Some(bits) => (0, sign_extend(bits, scalar.ty.bits())),
                    None => unknown,
                },
                _ => unknown,
            },
            _ => unknown,
        };
        self.leave();
        Ok(found)
    }

    pub(crate) fn buffer_load(&mut self, id: Id) -> Result<Value> {
        let graph = self.graph;
        if graph.maybe(id, "predicate")?.is_some() {
            return Err(self.incomplete("a predicated buffer load", id));
        }
        let buffer = graph.get(id, "buffer")?;
        let dtype = graph.dtype(buffer)?;
        let wanted = graph.dtype(id)?;
        let index = self.single_index(id)?;
        if dtype.elem == Elem::E2M1 {
            return self.load_nibble(buffer, index, wanted, id);
        }
        let lanes = usize::from(wanted.lanes);
        let loaded = match self.places(buffer, index, dtype, lanes, true)? {
            Places::Contiguous(pointer) => {
                self.load(pointer, dtype.elem, lanes, Manner::default(), id)?
            }
            Places::Scattered(places) => {
                let mut loaded = Vec::with_capacity(places.len());
                for place in places {
                    let count = usize::from(dtype.lanes);
                    loaded.extend(self.load(place, dtype.elem, count, Manner::default(), id)?);
                }
                loaded
            }
        };
        if wanted.elem == Elem::Handle {
            let holder = self.buffer_start(buffer)?;
            return Ok(Value::Pointer(self.held_pointer(loaded[0], holder, id)?));
        }
        Ok(Value::lanes(loaded))
    }

    /// An element of four bits: the low half of its byte for even indices, the high half for odd ones.
    fn load_nibble(&mut self, buffer: Id, index: Id, wanted: DType, at: Id) -> Result<Value> {
        let start = self.buffer_start(buffer)?;
        let byte = Elem::Int {
            bits: 8,
            signed: false,
        };
        let indices = match self.value(index)? {
            Value::Scalar(scalar) => vec![scalar],
            Value::Vector(lanes) => lanes,
            _ => return Err(TranslateError::malformed("an index that is not a number")),
        };
        if indices.len() != usize::from(wanted.lanes) {
            return Err(self.incomplete("a vector of four-bit elements in memory", at));
        }
        let mut lanes = Vec::with_capacity(indices.len());
        for index in indices {
            let index = self.convert(index, S32, at)?;
            let half = self
                .b
                .int(IntBinary::Shr, Type::S32, index.op, Operand::Imm(1));
            let place = self.offset_pointer(start, Scalar::new(half, S32), 1)?;
            let code = self.load(place, byte, 1, Manner::default(), at)?[0];
            let odd = self
                .b
                .int(IntBinary::And, Type::S32, index.op, Operand::Imm(1));
            let amount = self
                .b
                .int(IntBinary::MulLo, Type::S32, odd, Operand::Imm(4));
            let moved = self.b.int(IntBinary::Shr, Type::U32, code.op, amount);
            let nibble = self
                .b
                .int(IntBinary::And, Type::U32, moved, Operand::Imm(15));
            lanes.push(Scalar::new(nibble, Elem::E2M1));
        }
        Ok(Value::lanes(lanes))
    }

    /// Stores the lanes of a buffer store.
    pub(crate) fn store_places(
        &mut self,
        places: &Places,
        dtype: DType,
        lanes: &[Scalar],
        at: Id,
    ) -> Result<()> {
        match places {
            Places::Contiguous(pointer) => {
                self.store(*pointer, dtype.elem, lanes, Manner::default(), at)
            }
            Places::Scattered(places) => {
                let each = usize::from(dtype.lanes);
                if places.len() * each != lanes.len() {
                    return Err(TranslateError::malformed(
                        "a store whose lanes do not fit its index",
                    ));
                }
                for (place, lanes) in places.iter().zip(lanes.chunks(each)) {
                    self.store(*place, dtype.elem, lanes, Manner::default(), at)?;
                }
                Ok(())
            }
        }
    }

    // ---- loads ----

    /// Loads `count` elements that lie one after the other.
    pub(crate) fn load(
        &mut self,
        pointer: Pointer,
        elem: Elem,
        count: usize,
        manner: Manner,
        at: Id,
    ) -> Result<Vec<Scalar>> {
        let Some(size) = elem.bytes() else {
            return Err(self.incomplete(format!("memory access to {elem:?} elements"), at));
        };
        match pointer {
            Pointer::Array { array, byte } => {
                let mut lanes = Vec::with_capacity(count);
                for lane in 0..count {
                    let byte = byte + lane as i64 * i64::from(size);
                    lanes.push(self.load_register(array, byte, elem, at)?);
                }
                Ok(lanes)
            }
            Pointer::Memory { .. } if size == 1 && elem != Elem::Bool && count > 1 => {
                self.load_bytes(pointer, elem, count, manner, at)
            }
            Pointer::Memory { .. } => {
                let mut lanes = Vec::with_capacity(count);
                let width = access_width(count, size);
                for done in (0..count).step_by(width) {
                    let place = advance(pointer, done as i64 * i64::from(size));
                    lanes.extend(self.load_access(place, elem, width, manner));
                }
                Ok(lanes)
            }
        }
    }

    /// Loads bytes as words, and takes them out.
    fn load_bytes(
        &mut self,
        pointer: Pointer,
        elem: Elem,
        count: usize,
        manner: Manner,
        at: Id,
    ) -> Result<Vec<Scalar>> {
        let (word, per_word) = match count {
            _ if count.is_multiple_of(4) => (U32, 4),
            2 => (
                Elem::Int {
                    bits: 16,
                    signed: false,
                },
                2,
            ),
            _ => {
                let mut lanes = Vec::with_capacity(count);
                for lane in 0..count {
                    let place = advance(pointer, lane as i64);
                    lanes.extend(self.load_access(place, elem, 1, manner));
                }
                return Ok(lanes);
            }
        };
        let words = self.load(pointer, word, count / per_word, manner, at)?;
        let mut lanes = Vec::with_capacity(count);
        for word in words {
            for index in 0..per_word {
                lanes.push(self.byte_of(word, index as u32, elem));
            }
        }
        Ok(lanes)
    }

    /// Byte `index` of a word as a value of an 8-bit type.
    pub(crate) fn byte_of(&mut self, word: Scalar, index: u32, elem: Elem) -> Scalar {
        let ty = if elem.is_signed() {
            Type::S32
        } else {
            Type::U32
        };
        let reg = self.b.pure(RegClass::B32, [word.op], |dst, [a]| Inst::Bfe {
            ty,
            dst,
            a,
            pos: Operand::Imm(u64::from(index * 8)),
            len: Operand::Imm(8),
        });
        if let Operand::Reg(word) = word.op
            && !self.b.is_mutable(word)
        {
            self.bytes.insert(reg, (word, index));
        }
        Scalar::new(Operand::Reg(reg), elem)
    }

    /// One load instruction.
    fn load_access(
        &mut self,
        pointer: Pointer,
        elem: Elem,
        width: usize,
        manner: Manner,
    ) -> Vec<Scalar> {
        let Pointer::Memory {
            space,
            base,
            offset,
            root,
        } = pointer
        else {
            return Vec::new();
        };
        let class = if elem == Elem::Bool {
            RegClass::B32
        } else {
            elem.class()
        };
        let mut inst = Inst::Ld {
            space,
            ty: elem.memory(),
            dst: vec![Reg(u32::MAX); width],
            addr: Address { base, offset },
            order: manner.order,
            scope: manner.scope,
            cache: manner.cache,
        };
        let regs = if manner.order == Ordering::Weak {
            let version = self.memory_version(root);
            self.b.load(&inst, &vec![class; width], version)
        } else {
            let fresh: Vec<Reg> = (0..width).map(|_| self.b.fresh(class)).collect();
            if let Inst::Ld { dst, .. } = &mut inst {
                dst.clone_from(&fresh);
            }
            self.b.inst(inst);
            // Others may have written before what an ordered load sees.
            self.clobber();
            fresh
        };
        regs.into_iter()
            .map(|reg| match elem {
                Elem::Bool => {
                    let op = Operand::Reg(reg);
                    let set = self
                        .b
                        .setp(Compare::Ne, Type::U32, false, op, Operand::Imm(0));
                    Scalar::new(set, Elem::Bool)
                }
                _ => Scalar::new(Operand::Reg(reg), elem),
            })
            .collect()
    }

    // ---- stores ----

    /// Stores elements one after the other.
    pub(crate) fn store(
        &mut self,
        pointer: Pointer,
        elem: Elem,
        lanes: &[Scalar],
        manner: Manner,
        at: Id,
    ) -> Result<()> {
        let Some(size) = elem.bytes() else {
            return Err(self.incomplete(format!("memory access to {elem:?} elements"), at));
        };
        match pointer {
            Pointer::Array { array, byte } => {
                for (lane, &value) in lanes.iter().enumerate() {
                    let byte = byte + lane as i64 * i64::from(size);
                    self.store_register(array, byte, elem, value, at)?;
                }
                Ok(())
            }
            Pointer::Memory { .. } if size == 1 && lanes.len() > 1 && elem != Elem::Bool => {
                self.store_bytes(pointer, lanes, manner, at)
            }
            Pointer::Memory { .. } if size == 2 && self.are_word_halves(lanes) => {
                let words: Vec<Scalar> = lanes
                    .chunks(2)
                    .map(|pair| Scalar::new(self.join(&raw_halves(pair)), U32))
                    .collect();
                self.store(pointer, U32, &words, manner, at)
            }
            Pointer::Memory { root, .. } => {
                let width = access_width(lanes.len(), size);
                for done in (0..lanes.len()).step_by(width) {
                    let place = advance(pointer, done as i64 * i64::from(size));
                    self.store_access(place, elem, &lanes[done..done + width], manner);
                }
                self.wrote(root);
                Ok(())
            }
        }
    }

    /// Whether the lanes are, two by two, the halves of words that are at hand.
    fn are_word_halves(&self, lanes: &[Scalar]) -> bool {
        let place = |scalar: &Scalar| match scalar.op {
            Operand::Reg(reg) => self.halves.get(&reg).copied(),
            Operand::Imm(_) => None,
        };
        !lanes.is_empty()
            && lanes.chunks(2).all(|pair| match pair {
                [low, high] => match (place(low), place(high)) {
                    (Some((a, 0)), Some((b, 1))) => a == b,
                    _ => false,
                },
                _ => false,
            })
    }

    fn store_bytes(
        &mut self,
        pointer: Pointer,
        lanes: &[Scalar],
        manner: Manner,
        at: Id,
    ) -> Result<()> {
        let per_word = match lanes.len() {
            count if count % 4 == 0 => 4,
            2 => 2,
            _ => {
                let byte = Elem::Int {
                    bits: 8,
                    signed: false,
                };
                for (lane, &value) in lanes.iter().enumerate() {
                    let place = advance(pointer, lane as i64);
                    self.store(place, byte, &[value], manner, at)?;
                }
                return Ok(());
            }
        };
        let elem = Elem::Int {
            bits: (per_word * 8) as u8,
            signed: false,
        };
        let words: Vec<Scalar> = lanes
            .chunks(per_word)
            .map(|lanes| Scalar::new(self.join_bytes(lanes), elem))
            .collect();
        self.store(pointer, elem, &words, manner, at)
    }

    /// Two or four bytes side by side, the first lowest.
    pub(crate) fn join_bytes(&mut self, lanes: &[Scalar]) -> Operand {
        let pair = |kernel: &mut Self, low: Scalar, high: Scalar| -> Operand {
            if let (Operand::Reg(a), Operand::Reg(b)) = (low.op, high.op)
                && let (Some(&(word, 0)), Some(&(other, 1))) =
                    (kernel.bytes.get(&a), kernel.bytes.get(&b))
                && word == other
            {
                return Operand::Reg(word);
            }
            let byte = |kernel: &mut Self, scalar: Scalar| match scalar.op {
                Operand::Imm(bits) => Operand::Imm(bits & 0xff),
                op if scalar.ty.is_signed() => {
                    kernel
                        .b
                        .int(IntBinary::And, Type::U32, op, Operand::Imm(0xff))
                }
                op => op,
            };
            let (low, high) = (byte(kernel, low), byte(kernel, high));
            let high = kernel
                .b
                .int(IntBinary::Shl, Type::U32, high, Operand::Imm(8));
            kernel.b.int(IntBinary::Or, Type::U32, high, low)
        };
        // Four bytes of one word are that word.
        let source = |kernel: &Self, index: u32, scalar: &Scalar| match scalar.op {
            Operand::Reg(reg) => kernel
                .bytes
                .get(&reg)
                .and_then(|&(word, at)| (at == index).then_some(word)),
            Operand::Imm(_) => None,
        };
        if lanes.len() == 4 {
            let words: Vec<Option<Reg>> = lanes
                .iter()
                .zip(0u32..)
                .map(|(lane, index)| source(self, index, lane))
                .collect();
            if let Some(word) = words[0]
                && words.iter().all(|other| *other == Some(word))
            {
                return Operand::Reg(word);
            }
        }
        let low = pair(self, lanes[0], lanes[1]);
        if lanes.len() == 2 {
            return low;
        }
        let high = pair(self, lanes[2], lanes[3]);
        if let (Operand::Imm(low), Operand::Imm(high)) = (low, high) {
            return Operand::Imm(low | high << 16);
        }
        Operand::Reg(
            self.b
                .pure(RegClass::B32, [low, high], |dst, [lo, hi]| Inst::Pack {
                    dst,
                    lo,
                    hi,
                }),
        )
    }

    /// One store instruction.
    fn store_access(&mut self, pointer: Pointer, elem: Elem, lanes: &[Scalar], manner: Manner) {
        let Pointer::Memory {
            space,
            base,
            offset,
            ..
        } = pointer
        else {
            return;
        };
        let mut src = Vec::with_capacity(lanes.len());
        for &lane in lanes {
            src.push(match elem {
                Elem::Bool => {
                    self.b
                        .select(RegClass::B32, lane.op, Operand::Imm(1), Operand::Imm(0))
                }
                _ => lane.op,
            });
        }
        self.b.inst(Inst::St {
            space,
            ty: elem.memory(),
            src,
            addr: Address { base, offset },
            order: manner.order,
            scope: manner.scope,
            cache: manner.cache,
        });
    }

    // ---- arrays in registers, by bytes ----

    /// The elements that `size` bytes from `byte` on cover: the first, how many, and the bit
    /// where the value begins in the first.
    fn covered(&mut self, array: usize, byte: i64, size: u32) -> Option<(usize, usize, u32)> {
        let width = i64::from(self.arrays[array].elem.bytes()?);
        let size = i64::from(size);
        let first = byte.div_euclid(width);
        let inside = byte.rem_euclid(width);
        let count = if size >= width { size / width } else { 1 };
        let fits = if size >= width {
            inside == 0 && size % width == 0
        } else {
            inside % size == 0
        };
        let length = self.array_length(array) as i64;
        if !fits || byte < 0 || first >= length || count > length - first {
            return None;
        }
        Some((first as usize, count as usize, (inside * 8) as u32))
    }

    fn load_register(&mut self, array: usize, byte: i64, elem: Elem, at: Id) -> Result<Scalar> {
        let size = elem.bytes().unwrap_or(1);
        let Some((first, count, bit)) = self.covered(array, byte, size) else {
            self.demote(array);
            return Ok(Scalar::imm(0, elem));
        };
        let own = self.arrays[array].elem;
        let element_bits = own.bits();
        if count == 1 && size * 8 == element_bits {
            let value = self.read_element(array, first);
            return self.reinterpret(value, elem, at);
        }
        let unsigned = Elem::Int {
            bits: (size * 8) as u8,
            signed: false,
        };
        if count == 1 {
            // A part of an element.
            let value = self.read_element(array, first);
            let source = Elem::Int {
                bits: element_bits as u8,
                signed: false,
            };
            let value = self.reinterpret(value, source, at)?;
            let ty = if element_bits == 64 {
                Type::U64
            } else {
                Type::U32
            };
            let part = self.b.pure(ty.class(), [value.op], |dst, [a]| Inst::Bfe {
                ty,
                dst,
                a,
                pos: Operand::Imm(u64::from(bit)),
                len: Operand::Imm(u64::from(size * 8)),
            });
            let part = Scalar::new(
                Operand::Reg(part),
                if element_bits == 64 { U64 } else { U32 },
            );
            let part = self.convert(part, unsigned, at)?;
            return self.reinterpret(part, elem, at);
        }
        let mut parts = Vec::with_capacity(count);
        for index in first..first + count {
            let part = self.read_element(array, index);
            let raw = Elem::Int {
                bits: element_bits as u8,
                signed: false,
            };
            parts.push(self.reinterpret(part, raw, at)?);
        }
        let joined = Scalar::new(self.join(&parts), unsigned);
        self.reinterpret(joined, elem, at)
    }

    /// Values side by side, the first lowest: bytes to 2, 4 or 8 bytes, halves and words likewise.
    pub(crate) fn join(&mut self, parts: &[Scalar]) -> Operand {
        if parts.len() == 1 {
            return parts[0].op;
        }
        if parts[0].ty.bits() == 8 && parts.len() <= 4 {
            return self.join_bytes(parts);
        }
        if parts.len() > 2 {
            let (low, high) = parts.split_at(parts.len() / 2);
            let bits = (parts[0].ty.bits() * low.len() as u32) as u8;
            let half = Elem::Int {
                bits,
                signed: false,
            };
            let low = Scalar::new(self.join(low), half);
            let high = Scalar::new(self.join(high), half);
            return self.join(&[low, high]);
        }
        let (low, high) = (parts[0].op, parts[1].op);
        if parts[0].ty.bits() == 16
            && let (Operand::Reg(a), Operand::Reg(b)) = (low, high)
            && let (Some(&(word, 0)), Some(&(other, 1))) =
                (self.halves.get(&a), self.halves.get(&b))
            && word == other
        {
            return Operand::Reg(word);
        }
        let bits = parts[0].ty.bits();
        if let (Operand::Imm(low), Operand::Imm(high)) = (low, high) {
            return Operand::Imm(low | high << bits);
        }
        let class = if bits == 32 {
            RegClass::B64
        } else {
            RegClass::B32
        };
        Operand::Reg(self.b.pure(class, [low, high], |dst, [lo, hi]| Inst::Pack {
            dst,
            lo,
            hi,
        }))
    }

    /// A value cut into `count` equal parts, the lowest first.
    pub(crate) fn cut(&mut self, value: Scalar, count: usize) -> Vec<Scalar> {
        let bits = value.ty.bits() / count as u32;
        let part = Elem::Int {
            bits: bits as u8,
            signed: false,
        };
        if count == 1 {
            return vec![Scalar::new(value.op, part)];
        }
        if let Operand::Imm(whole) = value.op {
            return (0..count as u32)
                .map(|index| Scalar::imm(crate::builder::mask(whole >> (index * bits), bits), part))
                .collect();
        }
        if value.ty.bits() == 64 {
            let (lo, hi) = (self.b.fresh(RegClass::B32), self.b.fresh(RegClass::B32));
            self.b.inst(Inst::Unpack {
                lo,
                hi,
                src: value.op,
            });
            let mut parts = Vec::with_capacity(count);
            for reg in [lo, hi] {
                parts.extend(self.cut(Scalar::new(Operand::Reg(reg), U32), count / 2));
            }
            return parts;
        }
        if bits == 16
            && let Operand::Reg(word) = value.op
            && !self.b.is_mutable(word)
        {
            let (low, high) = self.split_word(word);
            return vec![
                Scalar::new(Operand::Reg(low), part),
                Scalar::new(Operand::Reg(high), part),
            ];
        }
        (0..count as u32)
            .map(|index| {
                let reg = self
                    .b
                    .pure(RegClass::B32, [value.op], |dst, [a]| Inst::Bfe {
                        ty: Type::U32,
                        dst,
                        a,
                        pos: Operand::Imm(u64::from(index * bits)),
                        len: Operand::Imm(u64::from(bits)),
                    });
                if bits == 8
                    && let Operand::Reg(word) = value.op
                    && !self.b.is_mutable(word)
                {
                    self.bytes.insert(reg, (word, index));
                }
                Scalar::new(Operand::Reg(reg), part)
            })
            .collect()
    }

    fn store_register(
        &mut self,
        array: usize,
        byte: i64,
        elem: Elem,
        value: Scalar,
        at: Id,
    ) -> Result<()> {
        let size = elem.bytes().unwrap_or(1);
        let Some((first, count, bit)) = self.covered(array, byte, size) else {
            self.demote(array);
            return Ok(());
        };
        let own = self.arrays[array].elem;
        let element_bits = own.bits();
        let value = self.convert(value, elem, at)?;
        if count == 1 && size * 8 == element_bits {
            let value = self.reinterpret(value, own, at)?;
            self.write_element(array, first, value.op);
            return Ok(());
        }
        let unsigned = |bits: u32| Elem::Int {
            bits: bits as u8,
            signed: false,
        };
        let raw = self.reinterpret(value, unsigned(size * 8), at)?;
        if count == 1 {
            let old = self.read_element(array, first);
            let old = self.reinterpret(old, unsigned(element_bits), at)?;
            let wide = unsigned(if element_bits == 64 { 64 } else { 32 });
            let raw = self.convert(raw, wide, at)?;
            let ty = if element_bits == 64 {
                Type::B64
            } else {
                Type::B32
            };
            let new = self
                .b
                .pure(ty.class(), [raw.op, old.op], |dst, [a, b]| Inst::Bfi {
                    ty,
                    dst,
                    a,
                    b,
                    pos: Operand::Imm(u64::from(bit)),
                    len: Operand::Imm(u64::from(size * 8)),
                });
            let new = Scalar::new(Operand::Reg(new), unsigned(element_bits));
            let new = self.reinterpret(new, own, at)?;
            self.write_element(array, first, new.op);
            return Ok(());
        }
        for (index, part) in self.cut(raw, count).into_iter().enumerate() {
            let part = self.reinterpret(part, own, at)?;
            self.write_element(array, first + index, part.op);
        }
        Ok(())
    }
}

fn raw_halves(pair: &[Scalar]) -> Vec<Scalar> {
    let half = Elem::Int {
        bits: 16,
        signed: false,
    };
    pair.iter().map(|lane| Scalar::new(lane.op, half)).collect()
}

/// How many of `count` elements of `size` bytes one access takes: all accesses take as many, for a
/// vector of three is aligned as one element is.
fn access_width(count: usize, size: u32) -> usize {
    [8usize, 4, 2]
        .into_iter()
        .find(|&width| width as u32 * size <= ACCESS_BYTES && count.is_multiple_of(width))
        .unwrap_or(1)
}

/// The pointer, some bytes on.
pub(crate) fn advance(pointer: Pointer, bytes: i64) -> Pointer {
    match pointer {
        Pointer::Memory {
            space,
            base,
            offset,
            root,
        } => Pointer::Memory {
            space,
            base,
            offset: offset.wrapping_add(bytes),
            root,
        },
        Pointer::Array { array, byte } => Pointer::Array {
            array,
            byte: byte.wrapping_add(bytes),
        },
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

fn reduce(coefficient: i64, base: i64) -> (i64, i64) {
    if coefficient == 0 {
        (0, base)
    } else {
        (coefficient, base.rem_euclid(coefficient))
    }
}

fn product((ca, ba): (i64, i64), (cb, bb): (i64, i64)) -> (i64, i64) {
    // (ca x + ba)(cb y + bb): every term but ba bb is a multiple of the gcd.
    let terms = [
        ca.wrapping_mul(cb),
        ca.wrapping_mul(bb),
        cb.wrapping_mul(ba),
    ];
    let coefficient = terms.into_iter().fold(0, gcd);
    reduce(coefficient, ba.wrapping_mul(bb))
}
