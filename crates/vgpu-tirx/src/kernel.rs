//! One kernel: its variables, arrays, memory layout, and the passes over it.

use std::collections::{HashMap, HashSet};

use vgpu::ir::*;

use crate::builder::{Builder, MAX_INSTRUCTIONS};
use crate::dtype::{DType, Elem};
use crate::error::TranslateError;
use crate::graph::{Graph, Id};
use crate::optimize;
use crate::value::{Pointer, Root, Scalar, Value};

pub(crate) type Result<T> = std::result::Result<T, TranslateError>;

/// Deepest nesting of nodes.
const MAX_DEPTH: usize = 2_000;
/// Most expression and statement visits for a kernel.
const MAX_VISITS: usize = 8_000_000;
/// Dynamic shared memory begins at a multiple of this (`IR.md`).
const DYNAMIC_ALIGNMENT: u32 = 1024;
/// Most bytes of local memory of a thread (CUDA's limit is 512 KiB).
const MAX_LOCAL: u64 = 512 * 1024;
/// Attempts after which every array goes to local memory.
const MAX_ATTEMPTS: usize = 16;
/// Most elements of an array that may live in registers.
const MAX_PROMOTED: u64 = 1024;

/// A local array.
pub(crate) struct Array {
    /// The variable that names its storage.
    pub(crate) var: Id,
    pub(crate) elem: Elem,
    /// Its elements' registers, made where they are first used.
    regs: Vec<Option<Reg>>,
    /// What each element is known to hold, as an operand that does not change.
    current: Vec<Option<Operand>>,
}

/// What other attempts at the kernel found out.
#[derive(Default)]
struct Knowledge {
    /// Arrays that must live in local memory.
    demoted: HashSet<Id>,
    /// Bytes of static shared memory.
    shared_bytes: u32,
    /// Whether to give up finding out which arrays may live in registers.
    none_promoted: bool,
}

/// The state of one attempt to translate a kernel.
pub(crate) struct Kernel<'g> {
    pub(crate) graph: &'g Graph,
    /// Numbers of the source files, by their nodes.
    sources: &'g HashMap<Id, u32>,
    pub(crate) b: Builder,
    pub(crate) name: String,
    pub(crate) vars: HashMap<Id, Value>,
    pub(crate) arrays: Vec<Array>,
    array_of: HashMap<Id, usize>,
    demoted: HashSet<Id>,
    none_promoted: bool,
    shared_bytes: u32,
    dynamic_base: u32,
    local_bytes: u64,
    /// Version of the memory behind each root.
    roots: Vec<u32>,
    root_of: HashMap<Id, Root>,
    /// Whether kernel parameters point to memory of their own.
    noalias: bool,
    /// Extents of the thread axes, where constant.
    pub(crate) extents: HashMap<String, i64>,
    /// Changes of array elements since each open branch began, to undo at its end.
    journals: Vec<Vec<(usize, usize, Option<Operand>)>>,
    depth: usize,
    visits: usize,
    weights: HashMap<Id, u64>,
    /// Bytes that 8-bit lanes were taken from: `lane = byte k of reg`.
    pub(crate) bytes: HashMap<Reg, (Reg, u32)>,
    /// Words that 16-bit lanes were taken from, likewise.
    pub(crate) halves: HashMap<Reg, (Reg, u32)>,
    /// Pointers whose addresses stand in registers as numbers.
    pub(crate) origins: HashMap<Reg, Pointer>,
    /// Arrays that pointers in an array of pointers point into.
    pub(crate) pointees: HashMap<usize, Vec<usize>>,
    /// Loops that are open, innermost last: whether `break` and `continue` reach an IR loop.
    pub(crate) open_loops: usize,
}

/// Translates the function `func`.
pub(crate) fn translate(
    graph: &Graph,
    sources: &HashMap<Id, u32>,
    func: Id,
    name: &str,
) -> Result<vgpu::ir::Kernel> {
    let mut known = Knowledge::default();
    // Each attempt adds an array to local memory or settles the shared layout, so it ends.
    for count in 1.. {
        known.none_promoted = count > MAX_ATTEMPTS;
        let mut attempt = Kernel::new(graph, sources, name, &known);
        let params = attempt.parameters(func)?;
        let body = graph.get(func, "body")?;
        attempt.stmt(body)?;
        let settled =
            attempt.demoted == known.demoted && attempt.shared_bytes == known.shared_bytes;
        if !settled {
            known.demoted = attempt.demoted;
            known.shared_bytes = attempt.shared_bytes;
            continue;
        }
        return attempt.finish(params);
    }
    Err(TranslateError::malformed(
        "the layout of arrays does not settle",
    ))
}

impl<'g> Kernel<'g> {
    fn new(
        graph: &'g Graph,
        sources: &'g HashMap<Id, u32>,
        name: &str,
        known: &Knowledge,
    ) -> Kernel<'g> {
        Kernel {
            graph,
            sources,
            b: Builder::new(),
            name: name.to_owned(),
            vars: HashMap::new(),
            arrays: Vec::new(),
            array_of: HashMap::new(),
            demoted: known.demoted.clone(),
            none_promoted: known.none_promoted,
            shared_bytes: 0,
            dynamic_base: known.shared_bytes.next_multiple_of(DYNAMIC_ALIGNMENT),
            local_bytes: 0,
            roots: vec![0],
            root_of: HashMap::new(),
            noalias: false,
            extents: HashMap::new(),
            journals: Vec::new(),
            depth: 0,
            visits: 0,
            weights: HashMap::new(),
            bytes: HashMap::new(),
            halves: HashMap::new(),
            origins: HashMap::new(),
            pointees: HashMap::new(),
            open_loops: 0,
        }
    }

    /// Declares the parameters and loads them.
    fn parameters(&mut self, func: Id) -> Result<Vec<Param>> {
        let attrs = self.graph.get(func, "attrs")?;
        if let Some(dict) = self.graph.maybe(attrs, "__dict__")? {
            for (key, value) in self.graph.map(dict)? {
                if self.graph.text(key)? == "tirx.noalias" {
                    self.noalias = self.graph.constant(value) == Some(1);
                }
            }
        }
        let mut params = Vec::new();
        let mut offset = 0u32;
        for var in self.graph.list(func, "params")? {
            let dtype = self.graph.dtype(var)?;
            let name = self.var_name(var)?;
            if self.is_tensor_map(var)? {
                return Err(self.incomplete("tensor maps (TMA)", var));
            }
            let size = match dtype {
                DType { elem, lanes: 1 } => elem.bytes(),
                _ => None,
            };
            let size = size.ok_or_else(|| {
                TranslateError::malformed(format!("parameter {name:?} has no size"))
            })?;
            offset = offset.next_multiple_of(size);
            let elem = dtype.elem;
            let loaded = self.load_parameter(elem, offset);
            let value = if elem == Elem::Handle {
                let root = if self.noalias { self.new_root(var) } else { 0 };
                Value::Pointer(Pointer::Memory {
                    space: Space::Global,
                    base: loaded,
                    offset: 0,
                    root,
                })
            } else if elem == Elem::Bool {
                let set = self
                    .b
                    .setp(Compare::Ne, Type::U32, false, loaded, Operand::Imm(0));
                Value::Scalar(Scalar::new(set, Elem::Bool))
            } else {
                Value::Scalar(Scalar::new(loaded, elem))
            };
            self.vars.insert(var, value);
            params.push(Param {
                name,
                size,
                align: size,
            });
            offset += size;
        }
        Ok(params)
    }

    fn load_parameter(&mut self, elem: Elem, offset: u32) -> Operand {
        let class = if elem == Elem::Bool {
            RegClass::B32
        } else {
            elem.class()
        };
        let dst = self.b.fresh(class);
        self.b.inst(Inst::Ld {
            space: Space::Param,
            ty: elem.memory(),
            dst: vec![dst],
            addr: Address {
                base: Operand::Imm(0),
                offset: i64::from(offset),
            },
            order: Ordering::Weak,
            scope: Scope::Gpu,
            cache: CacheHint::Default,
        });
        Operand::Reg(dst)
    }

    fn is_tensor_map(&self, var: Id) -> Result<bool> {
        let Some(annotation) = self.graph.maybe(var, "type_annotation")? else {
            return Ok(false);
        };
        if self.graph.kind(annotation) != "ir.PointerType" {
            return Ok(false);
        }
        let element = self.graph.get(annotation, "element_type")?;
        Ok(self.graph.kind(element).contains("TensorMap"))
    }

    fn finish(mut self, params: Vec<Param>) -> Result<vgpu::ir::Kernel> {
        if self.b.too_large() {
            return Err(TranslateError::TooLarge(format!(
                "kernel {} has more than {MAX_INSTRUCTIONS} instructions after unrolling",
                self.name
            )));
        }
        let threads: i64 = ["threadIdx.x", "threadIdx.y", "threadIdx.z"]
            .iter()
            .map(|axis| self.extents.get(*axis).copied().unwrap_or(1))
            .fold(1, i64::saturating_mul);
        let body = self.b.finish();
        let mut kernel = vgpu::ir::Kernel {
            name: self.name,
            params,
            regs: self.b.regs,
            shared_bytes: self.shared_bytes,
            local_bytes: self.local_bytes as u32,
            max_threads: u32::try_from(threads).unwrap_or(0),
            register_estimate: 0,
            body,
        };
        optimize::run(&mut kernel);
        Ok(kernel)
    }

    // ---- names, errors, limits ----

    pub(crate) fn var_name(&self, var: Id) -> Result<String> {
        Ok(self.graph.text(self.graph.get(var, "name")?)?.to_owned())
    }

    /// An error that names what is not modelled, and the line of `at` where the module has it.
    pub(crate) fn incomplete(&self, operator: impl Into<String>, at: Id) -> TranslateError {
        TranslateError::Incomplete {
            operator: operator.into(),
            kernel: self.name.clone(),
            place: self.place(at),
        }
    }

    fn location_of(&self, id: Id) -> Option<Location> {
        let span = self.graph.maybe(id, "span").ok()??;
        let line = u32::try_from(self.graph.int(span, "line").ok()?).ok()?;
        let source = self.graph.get(span, "source_name").ok()?;
        let file = self.sources.get(&source)? + 1;
        Some(Location { file, line })
    }

    /// Takes a node's span, where it has one, for what is emitted from now on.
    pub(crate) fn note_location(&mut self, id: Id) {
        if let Some(location) = self.location_of(id) {
            self.b.location = location;
        }
    }

    /// Begins a statement: its line is that of the first expression in it that has one. TVM's passes
    /// keep the spans of most calls and lose those of many loads; no line is better than a wrong one.
    pub(crate) fn begin_statement(&mut self, id: Id) {
        const SEARCHED: usize = 60;
        let fields: &[&str] = match self.graph.kind(id) {
            "tirx.BufferStore" => &["value", "indices"],
            "tirx.Evaluate" | "tirx.Bind" => &["value"],
            "tirx.IfThenElse" | "tirx.While" | "tirx.AssertStmt" => &["condition"],
            "tirx.For" => &["min", "extent"],
            _ => return,
        };
        let mut pending: Vec<Id> = fields
            .iter()
            .rev()
            .filter_map(|field| self.graph.get(id, field).ok())
            .collect();
        let mut found = self.location_of(id);
        let mut left = SEARCHED;
        while let Some(next) = pending.pop() {
            left -= 1;
            found = found.or_else(|| self.location_of(next));
            if found.is_some() || left == 0 {
                break;
            }
            if !matches!(self.graph.kind(next), "tirx.Buffer" | "tirx.Var" | "ir.Op") {
                pending.extend(self.graph.children(next).into_iter().rev());
            }
        }
        self.b.location = found.unwrap_or_default();
    }

    /// `, FILE:LINE` of a node's span; empty where it has none.
    pub(crate) fn place(&self, at: Id) -> String {
        let span = || -> Option<String> {
            let span = self.graph.maybe(at, "span").ok()??;
            let source = self.graph.get(span, "source_name").ok()?;
            let line = self.graph.int(span, "line").ok()?;
            let name = self.graph.text(source).unwrap_or("?");
            Some(format!(", {name}:{line}"))
        };
        span().unwrap_or_default()
    }

    /// Counts a visit; call [`Kernel::leave`] after it.
    pub(crate) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        self.visits += 1;
        if self.depth > MAX_DEPTH {
            return Err(TranslateError::TooLarge(format!(
                "kernel {} nests deeper than {MAX_DEPTH}",
                self.name
            )));
        }
        if self.visits > MAX_VISITS || self.b.too_large() {
            return Err(TranslateError::TooLarge(format!(
                "kernel {} has more than {MAX_INSTRUCTIONS} instructions after unrolling",
                self.name
            )));
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// How much code a node stands for, loops with constant extents unrolled.
    pub(crate) fn weight(&mut self, id: Id) -> Result<u64> {
        if let Some(&weight) = self.weights.get(&id) {
            return Ok(weight);
        }
        self.enter()?;
        // A cycle would come back here: count it as nothing.
        self.weights.insert(id, 0);
        let mut sum = 1u64;
        match self.graph.kind(id) {
            "tirx.Var" | "tirx.Buffer" | "ir.IntImm" | "ir.FloatImm" | "ffi.String" | "ir.Op"
            | "tirx.StringImm" => {}
            "tirx.For" => {
                let trips = self
                    .graph
                    .constant(self.graph.get(id, "extent")?)
                    .unwrap_or(1);
                let body = self.graph.get(id, "body")?;
                sum = self
                    .weight(body)?
                    .saturating_mul(trips.clamp(1, i64::MAX) as u64);
            }
            _ => {
                for child in self.graph.children(id) {
                    sum = sum.saturating_add(self.weight(child)?);
                }
            }
        }
        self.leave();
        self.weights.insert(id, sum);
        Ok(sum)
    }

    // ---- memory ----

    fn new_root(&mut self, var: Id) -> Root {
        let root = self.roots.len();
        self.roots.push(0);
        self.root_of.insert(var, root);
        root
    }

    /// The version of what lies behind `root`, for finding loads again.
    pub(crate) fn memory_version(&self, root: Root) -> (u32, u32) {
        (self.roots[root], self.b.epoch)
    }

    /// Says that memory behind `root` was written.
    pub(crate) fn wrote(&mut self, root: Root) {
        if root == 0 {
            self.b.epoch += 1;
        } else {
            self.roots[root] += 1;
            // What is read through a pointer of unknown origin may be this.
            self.roots[0] += 1;
        }
    }

    /// Says that any memory may have changed (barriers, fences, unknown writes).
    pub(crate) fn clobber(&mut self) {
        self.b.epoch += 1;
    }

    /// Lays out an array and binds the variable that names its storage.
    pub(crate) fn allocate(&mut self, buffer: Id, at: Id) -> Result<()> {
        let var = self.graph.get(buffer, "data")?;
        let dtype = self.graph.dtype(buffer)?;
        let scope = self.scope_of(var)?;
        let mut count = u64::from(dtype.lanes);
        for extent in self.graph.list(buffer, "shape")? {
            let extent = match self.graph.constant(extent) {
                Some(extent) if extent > 0 => extent as u64,
                // The size of dynamic shared memory is the launch's.
                _ if scope == "shared.dyn" => 1,
                _ => return Err(self.incomplete("an array whose extent is not a constant", at)),
            };
            count = count.saturating_mul(extent);
        }
        let bytes = match dtype.elem.bytes() {
            Some(bytes) => count.saturating_mul(u64::from(bytes)),
            None => count.div_ceil(2),
        };
        let align = self.graph.int(buffer, "data_alignment")?.clamp(1, 1024) as u64;
        let align = align.next_power_of_two();
        match scope.as_str() {
            "shared.dyn" => {
                let root = self.new_root(var);
                let base = Operand::Imm(u64::from(self.dynamic_base));
                self.bind_pointer(var, Space::Shared, base, root);
            }
            "shared" => {
                let offset = u64::from(self.shared_bytes).next_multiple_of(align);
                let end = offset.saturating_add(bytes);
                // CUDA refuses more than 48 KiB of static shared memory.
                if end > 48 * 1024 {
                    return Err(TranslateError::malformed(format!(
                        "kernel {} uses {end} bytes of static shared memory; CUDA allows 49152 \
                         (use shared.dyn)",
                        self.name
                    )));
                }
                self.shared_bytes = end as u32;
                let root = self.new_root(var);
                self.bind_pointer(var, Space::Shared, Operand::Imm(offset), root);
            }
            "local" | "" => self.allocate_local(var, dtype.elem, count, bytes, align)?,
            other => return Err(self.incomplete(format!("memory scope {other:?}"), at)),
        }
        Ok(())
    }

    fn allocate_local(
        &mut self,
        var: Id,
        elem: Elem,
        count: u64,
        bytes: u64,
        align: u64,
    ) -> Result<()> {
        let promotable = count <= MAX_PROMOTED && elem.bytes().is_some() && !self.none_promoted;
        if promotable && !self.demoted.contains(&var) {
            let array = match self.array_of.get(&var) {
                // An unrolled body allocates again: its elements have no value yet.
                Some(&array) => array,
                None => {
                    let count = count as usize;
                    self.arrays.push(Array {
                        var,
                        elem,
                        regs: vec![None; count],
                        current: vec![None; count],
                    });
                    self.arrays.len() - 1
                }
            };
            self.array_of.insert(var, array);
            self.vars
                .insert(var, Value::Pointer(Pointer::Array { array, byte: 0 }));
            return Ok(());
        }
        self.demoted.insert(var);
        if self.vars.contains_key(&var) {
            return Ok(());
        }
        let align = align.min(16);
        let offset = self.local_bytes.next_multiple_of(align);
        self.local_bytes = offset.saturating_add(bytes);
        if self.local_bytes > MAX_LOCAL {
            return Err(TranslateError::TooLarge(format!(
                "kernel {} uses more than {MAX_LOCAL} bytes of local memory",
                self.name
            )));
        }
        let root = self.new_root(var);
        self.bind_pointer(var, Space::Local, Operand::Imm(offset), root);
        Ok(())
    }

    fn bind_pointer(&mut self, var: Id, space: Space, base: Operand, root: Root) {
        let pointer = Pointer::Memory {
            space,
            base,
            offset: 0,
            root,
        };
        self.vars.insert(var, Value::Pointer(pointer));
    }

    fn scope_of(&self, var: Id) -> Result<String> {
        let annotation = self.graph.get(var, "type_annotation")?;
        if self.graph.kind(annotation) != "ir.PointerType" {
            return Err(TranslateError::malformed(
                "a buffer's variable is not a pointer",
            ));
        }
        let scope = self.graph.get(annotation, "storage_scope")?;
        Ok(self.graph.text(scope)?.to_owned())
    }

    // ---- arrays in registers ----

    /// Says that an array cannot live in registers; this attempt goes on, and its result is dropped.
    pub(crate) fn demote(&mut self, array: usize) -> Pointer {
        let var = self.arrays[array].var;
        self.demoted.insert(var);
        Pointer::Memory {
            space: Space::Local,
            base: Operand::Imm(0),
            offset: 0,
            root: 0,
        }
    }

    pub(crate) fn array_length(&self, array: usize) -> usize {
        self.arrays[array].regs.len()
    }

    fn element_register(&mut self, array: usize, index: usize) -> Reg {
        match self.arrays[array].regs[index] {
            Some(reg) => reg,
            None => {
                let reg = self.b.fresh_mutable(self.arrays[array].elem.class());
                self.arrays[array].regs[index] = Some(reg);
                reg
            }
        }
    }

    /// The value of an element.
    pub(crate) fn read_element(&mut self, array: usize, index: usize) -> Scalar {
        let elem = self.arrays[array].elem;
        let op = match self.arrays[array].current[index] {
            Some(operand) => operand,
            None => Operand::Reg(self.element_register(array, index)),
        };
        Scalar::new(op, elem)
    }

    /// Gives an element a value of its own type.
    pub(crate) fn write_element(&mut self, array: usize, index: usize, value: Operand) {
        let reg = self.element_register(array, index);
        self.b.assign(reg, value);
        if value == Operand::Reg(reg) {
            return;
        }
        let known = self.b.is_stable(value).then_some(value);
        self.set_current(array, index, known);
    }

    fn set_current(&mut self, array: usize, index: usize, known: Option<Operand>) {
        let old = std::mem::replace(&mut self.arrays[array].current[index], known);
        if let Some(journal) = self.journals.last_mut() {
            journal.push((array, index, old));
        }
    }

    /// Begins a branch whose effects on array elements are undone at its end.
    pub(crate) fn open_branch(&mut self) {
        self.journals.push(Vec::new());
    }

    /// Ends it; gives the elements that it wrote, for [`Kernel::forget`].
    pub(crate) fn close_branch(&mut self) -> Vec<(usize, usize)> {
        let journal = self.journals.pop().unwrap_or_default();
        for &(array, index, old) in journal.iter().rev() {
            self.arrays[array].current[index] = old;
        }
        journal
            .into_iter()
            .map(|(array, index, _)| (array, index))
            .collect()
    }

    /// Says that what elements hold is known by their registers alone.
    pub(crate) fn forget(&mut self, written: &[(usize, usize)]) {
        for &(array, index) in written {
            if let Some(reg) = self.arrays[array].regs[index] {
                self.b.touch(reg);
            }
            self.set_current(array, index, None);
        }
    }

    /// Forgets every element of the arrays that `body` may write: at a loop's begin and end.
    pub(crate) fn forget_written(&mut self, body: Id) -> Result<()> {
        let mut seen = HashSet::new();
        let mut written = Vec::new();
        let mut pending = vec![(body, false)];
        while let Some((id, in_call)) = pending.pop() {
            if !seen.insert((id, in_call)) {
                continue;
            }
            match self.graph.kind(id) {
                "tirx.BufferStore" => {
                    written.push(self.graph.get(self.graph.get(id, "buffer")?, "data")?);
                }
                "tirx.BufferLoad" if in_call => {
                    written.push(self.graph.get(self.graph.get(id, "buffer")?, "data")?);
                }
                "tirx.Var" => {
                    if in_call {
                        written.push(id);
                    }
                    continue;
                }
                _ => {}
            }
            let call = in_call || self.graph.kind(id) == "tirx.Call";
            for child in self.graph.children(id) {
                pending.push((child, call));
            }
        }
        for var in written {
            // A pointer variable may have been bound to a place in an array.
            let array = match self.vars.get(&var) {
                Some(Value::Pointer(Pointer::Array { array, .. })) => *array,
                _ => continue,
            };
            let elements: Vec<(usize, usize)> = (0..self.arrays[array].regs.len())
                .map(|index| (array, index))
                .collect();
            self.forget(&elements);
        }
        Ok(())
    }
}
