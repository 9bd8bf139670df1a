//! `print_buffer`: what TVM's generator prints from the first thread of a CTA.

use vgpu::ir::*;

use crate::dtype::{Elem, S32, S64, U32, U64};
use crate::error::TranslateError;
use crate::graph::Id;
use crate::kernel::{Kernel, Result};
use crate::memory::Manner;
use crate::value::{Pointer, Scalar, Value};

/// Most elements that one call may print.
const MAX_PRINTED: i64 = 4096;

impl Kernel<'_> {
    /// `(what, type, is string, is scalar, dimensions, extent...)`.
    pub(crate) fn print_buffer(&mut self, args: &[Id], id: Id) -> Result<Value> {
        let what = self.arg(args, 0, id)?;
        let elem = self.graph.dtype(id)?.elem;
        let is_string = self.flag_arg(args, 2, id)?;
        let conversion = match elem {
            _ if is_string => "%s",
            _ if elem.is_float() => "%f",
            Elem::Int { signed: true, .. } => "%d",
            Elem::Int { signed: false, .. } => "%u",
            _ => return self.unmodelled("tirx.print_buffer of this type", id),
        };
        let is_scalar = self.flag_arg(args, 3, id)?;
        let mut first = Operand::Imm(1);
        for axis in [Special::TidX, Special::TidY, Special::TidZ] {
            let index = self.b.special(axis);
            let zero = self
                .b
                .setp(Compare::Eq, Type::U32, false, index, Operand::Imm(0));
            first = self.b.logic(BoolOp::And, first, zero);
        }
        let first = self.b.in_register(RegClass::Pred, first);
        if is_string {
            if self.graph.kind(what) != "tirx.StringImm" {
                return self.unmodelled("tirx.print_buffer of characters in memory", id);
            }
            let text = self.graph.text(what)?.replace('%', "%%");
            let format = format!("string_literal: {text}\n\n");
            return self
                .branch(
                    first,
                    |kernel| kernel.print_one(&format, None, id),
                    |_| Ok(()),
                )
                .map(|()| Value::Void);
        }
        if is_scalar {
            let format = format!("Scalar (dtype: {}): {conversion}\n\n", type_name(elem));
            return self
                .branch(
                    first,
                    |kernel| {
                        let value = match kernel.value(what)? {
                            Value::Pointer(pointer) => {
                                kernel.load(pointer, elem, 1, Manner::default(), id)?[0]
                            }
                            Value::Scalar(scalar) => scalar,
                            _ => {
                                return Err(TranslateError::malformed("print_buffer of no number"));
                            }
                        };
                        kernel.print_one(&format, Some(value), id)
                    },
                    |_| Ok(()),
                )
                .map(|()| Value::Void);
        }
        let dimensions = self.arg(args, 4, id)?;
        let dimensions = self.constant(dimensions, "a number of dimensions")?;
        let mut shape = Vec::new();
        let mut count = 1i64;
        for index in 0..usize::try_from(dimensions).unwrap_or(0) {
            let extent = self.arg(args, 5 + index, id)?;
            let extent = self.constant(extent, "an extent")?;
            count = count.saturating_mul(extent.max(0));
            shape.push(extent);
        }
        if count > MAX_PRINTED {
            return Err(TranslateError::TooLarge(format!(
                "print_buffer of {count} elements"
            )));
        }
        let pointer = self.pointer(what)?;
        let name = self.var_name(what).unwrap_or_default();
        let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
        let mut pieces = vec![(
            format!(
                "({name}, shape=({}), dtype={}):\n[",
                extents.join(","),
                type_name(elem)
            ),
            None,
        )];
        let mut next = 0;
        outline(&shape, 0, conversion, &mut next, &mut pieces);
        pieces.push(("]\n".to_owned(), None));
        self.branch(
            first,
            |kernel| {
                for (text, element) in &pieces {
                    let value = match element {
                        Some(index) => Some(kernel.printed_element(pointer, elem, *index, id)?),
                        None => None,
                    };
                    kernel.print_one(text, value, id)?;
                }
                Ok(())
            },
            |_| Ok(()),
        )?;
        Ok(Value::Void)
    }

    fn printed_element(
        &mut self,
        pointer: Pointer,
        elem: Elem,
        index: i64,
        id: Id,
    ) -> Result<Scalar> {
        let index = Scalar::imm(index as u64, S64);
        let place = self.offset_pointer(pointer, index, elem.bits() / 8)?;
        Ok(self.load(place, elem, 1, Manner::default(), id)?[0])
    }

    fn print_one(&mut self, format: &str, value: Option<Scalar>, id: Id) -> Result<()> {
        let mut args = Vec::new();
        if let Some(value) = value {
            let wide = match value.ty {
                Elem::F64 => Elem::F64,
                ty if ty.is_float() => Elem::F32,
                Elem::Int { bits: 64, signed } => [U64, S64][usize::from(signed)],
                Elem::Int { signed, .. } => [U32, S32][usize::from(signed)],
                _ => S32,
            };
            let value = self.convert(value, wide, id)?;
            args.push(PrintArg {
                ty: wide.ir(),
                value: value.op,
            });
        }
        self.b.inst(Inst::Printf {
            format: format.to_owned(),
            args,
        });
        Ok(())
    }
}

/// The text around the elements, dimension by dimension, and each element's index.
fn outline(
    shape: &[i64],
    dimension: usize,
    conversion: &str,
    next: &mut i64,
    pieces: &mut Vec<(String, Option<i64>)>,
) {
    let Some(&extent) = shape.get(dimension) else {
        pieces.push((conversion.to_owned(), Some(*next)));
        *next += 1;
        return;
    };
    let last = dimension + 1 == shape.len();
    for index in 0..extent {
        if !last {
            pieces.push(("[".to_owned(), None));
        }
        outline(shape, dimension + 1, conversion, next, pieces);
        if !last {
            pieces.push(("]".to_owned(), None));
        }
        if index < extent - 1 {
            let gap = if last {
                " ".to_owned()
            } else {
                format!("\n{}", " ".repeat(dimension + 2))
            };
            pieces.push((gap, None));
        }
    }
}

fn type_name(elem: Elem) -> String {
    match elem {
        Elem::F16 => "float16".to_owned(),
        Elem::BF16 => "bfloat16".to_owned(),
        Elem::F32 => "float32".to_owned(),
        Elem::F64 => "float64".to_owned(),
        Elem::Int { bits, signed: true } => format!("int{bits}"),
        Elem::Int { bits, .. } => format!("uint{bits}"),
        other => format!("{other:?}").to_lowercase(),
    }
}
