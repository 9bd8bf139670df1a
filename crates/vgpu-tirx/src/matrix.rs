//! `ldmatrix` and `stmatrix`, by the layout that the ISA documents: lane `8 i + r` gives the address of
//! row `r` of matrix `i`; lane `t` holds, of each matrix, elements `2 (t mod 4)` and the next of row
//! `t / 4` (transposed: of column `t / 4`).

use vgpu::ir::*;

use crate::dtype::{U16, U32};
use crate::graph::Id;
use crate::intrinsics::FULL_MASK;
use crate::kernel::{Kernel, Result};
use crate::memory::{Manner, advance};
use crate::value::{Pointer, Root, Scalar, Value};

/// Bytes between neighbours of a row.
const ELEMENT: u32 = 2;

impl Kernel<'_> {
    /// `(trans, num, type, address, destination...)`.
    pub(crate) fn ldmatrix(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let transposed = self.flag_arg(args, 0, id)?;
        let count = self.arg(args, 1, id)?;
        let count = self.constant(count, "a number of matrices")?;
        if self.text_arg(args, 2, id)?.trim_start_matches('.') != "b16"
            || args.len() != 4 + count as usize
        {
            return self.unmodelled("tirx.ptx.ldmatrix of this shape and type", id);
        }
        let pointer = self.pointer(self.arg(args, 3, id)?)?;
        let words = self.load_matrices(pointer, count as u64, transposed, id)?;
        for (word, &target) in words.into_iter().zip(&args[4..]) {
            let target = self.pointer(target)?;
            self.store(target, U32, &[word], Manner::default(), id)?;
        }
        Ok(Value::Void)
    }

    /// `(trans, num, type, destination, its offset, shared memory, its offset)`, with offsets in
    /// elements of the pointers' types and the words side by side at the destination.
    pub(crate) fn ldmatrix_legacy(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let transposed = self.flag_arg(args, 0, id)?;
        let count = self.arg(args, 1, id)?;
        let count = self.constant(count, "a number of matrices")?;
        // Of bytes, TVM prints a loop in place of the instruction where it transposes.
        let gathered = transposed && self.graph.dtype(id)?.elem.bits() == 8;
        if self.text_arg(args, 2, id)?.trim_start_matches('.') != "b16"
            || !matches!(count, 1 | 2 | 4)
            || gathered
        {
            return self.unmodelled("tirx.ptx.ldmatrix_legacy of this shape and type", id);
        }
        let target = self.element(args, 3, id)?;
        let source = self.element(args, 5, id)?;
        let words = self.load_matrices(source, count as u64, transposed, id)?;
        for (place, word) in words.into_iter().enumerate() {
            let at = advance(target, 4 * place as i64);
            self.store(at, U32, &[word], Manner::default(), id)?;
        }
        Ok(Value::Void)
    }

    /// The lane's word of each matrix; all of them are read before anything is written.
    fn load_matrices(
        &mut self,
        rows: Pointer,
        count: u64,
        transposed: bool,
        id: Id,
    ) -> Result<Vec<Scalar>> {
        let mut words = Vec::new();
        for place in self.matrix_places(rows, count, transposed) {
            words.push(match place {
                Place::Word(at) => self.load(at, U32, 1, Manner::default(), id)?[0],
                Place::Halves(low, high) => {
                    let low = self.load(low, U16, 1, Manner::default(), id)?[0];
                    let high = self.load(high, U16, 1, Manner::default(), id)?[0];
                    Scalar::new(self.join(&[low, high]), U32)
                }
            });
        }
        Ok(words)
    }

    /// `(trans, num, type, shape, space, address, source...)`.
    pub(crate) fn stmatrix(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let transposed = self.flag_arg(args, 0, id)?;
        let count = self.arg(args, 1, id)?;
        let count = self.constant(count, "a number of matrices")?;
        let plain = self.text_arg(args, 2, id)?.trim_start_matches('.') == "b16"
            && self.text_arg(args, 3, id)? == "m8n8"
            && args.len() == 6 + count as usize;
        if !plain {
            return self.unmodelled("tirx.ptx.stmatrix of this shape and type", id);
        }
        let pointer = self.pointer(self.arg(args, 5, id)?)?;
        let places = self.matrix_places(pointer, count as u64, transposed);
        for (place, &source) in places.into_iter().zip(&args[6..]) {
            let source = self.pointer(source)?;
            let word = self.load(source, U32, 1, Manner::default(), id)?[0];
            match place {
                Place::Word(at) => self.store(at, U32, &[word], Manner::default(), id)?,
                Place::Halves(low, high) => {
                    let halves = self.cut(word, 2);
                    self.store(low, U16, &halves[..1], Manner::default(), id)?;
                    self.store(high, U16, &halves[1..], Manner::default(), id)?;
                }
            }
        }
        self.clobber();
        Ok(Value::Void)
    }

    /// Where the lane's part of each matrix lies.
    fn matrix_places(&mut self, pointer: Pointer, count: u64, transposed: bool) -> Vec<Place> {
        let root = match pointer {
            Pointer::Memory { root, .. } => root,
            Pointer::Array { .. } => 0,
        };
        let rows = self.shared_offset(pointer);
        let lane = self.b.special(Special::LaneId);
        let quarter = self.b.int(IntBinary::Shr, Type::U32, lane, Operand::Imm(2));
        let within = self.b.int(IntBinary::And, Type::U32, lane, Operand::Imm(3));
        (0..count)
            .map(|matrix| {
                let first = Operand::Imm(8 * matrix);
                let row = |kernel: &mut Self, lane: Operand| {
                    let at = kernel.b.int(IntBinary::Add, Type::U32, lane, first);
                    let clamp = Operand::Imm(0x1f);
                    kernel.shuffle_value(ShuffleMode::Idx, rows, at, clamp, FULL_MASK)
                };
                if !transposed {
                    let start = row(self, quarter);
                    let word = self
                        .b
                        .int(IntBinary::Shl, Type::U32, within, Operand::Imm(2));
                    return Place::Word(self.shared_place(start, word, root));
                }
                let even = self
                    .b
                    .int(IntBinary::Shl, Type::U32, within, Operand::Imm(1));
                let odd = self.b.int(IntBinary::Or, Type::U32, even, Operand::Imm(1));
                let column = self.b.int(
                    IntBinary::MulLo,
                    Type::U32,
                    quarter,
                    Operand::Imm(u64::from(ELEMENT)),
                );
                let (upper, lower) = (row(self, even), row(self, odd));
                Place::Halves(
                    self.shared_place(upper, column, root),
                    self.shared_place(lower, column, root),
                )
            })
            .collect()
    }

    fn shared_place(&mut self, start: Scalar, bytes: Operand, root: Root) -> Pointer {
        Pointer::Memory {
            space: Space::Shared,
            base: self.b.int(IntBinary::Add, Type::U32, start.op, bytes),
            offset: 0,
            root,
        }
    }
}

/// A lane's two elements of a matrix.
enum Place {
    /// Side by side.
    Word(Pointer),
    /// In two rows.
    Halves(Pointer, Pointer),
}
