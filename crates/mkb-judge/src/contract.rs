//! The correctness contract: whether an output agrees with the reference and its float64 anchor.
//!
//! The rule (protocol, "Correctness"): integers and booleans are equal to the reference, element for
//! element; of a floating output, the largest distance from the anchor is at most three times the
//! reference's own, or three steps of the type at the anchor's largest magnitude where that is more.
//! NaN never passes. Where the anchor is infinite, or the reference alone is, see [`compare`].

use crate::dtype::Dtype;

/// A strided tensor in somebody's memory.
#[derive(Debug, Clone)]
pub struct TensorView<'a> {
    /// Element type.
    pub dtype: Dtype,
    /// Extents.
    pub shape: Vec<usize>,
    /// Distances between neighbours along each axis, in elements; not negative.
    pub strides: Vec<usize>,
    /// From the first element to past the last, at least.
    pub bytes: &'a [u8],
}

/// A view whose bytes do not hold all its elements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tensor of shape {shape:?} and strides {strides:?} does not fit in {bytes} bytes")]
pub struct OutOfBytes {
    shape: Vec<usize>,
    strides: Vec<usize>,
    bytes: usize,
}

/// Elements that are read at a time.
const CHUNK: usize = 8192;

impl TensorView<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that every element lies within the bytes.
    pub fn check(&self) -> Result<(), OutOfBytes> {
        let error = || OutOfBytes {
            shape: self.shape.clone(),
            strides: self.strides.clone(),
            bytes: self.bytes.len(),
        };
        if self.shape.len() != self.strides.len() {
            return Err(error());
        }
        let mut count = 1usize;
        let mut last = 0usize;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            count = count.checked_mul(extent).ok_or_else(error)?;
            let reach = extent.saturating_sub(1).checked_mul(stride);
            last = reach.and_then(|r| last.checked_add(r)).ok_or_else(error)?;
        }
        let end = last
            .checked_add(1)
            .and_then(|n| n.checked_mul(self.dtype.size()));
        if count == 0 || end.is_some_and(|end| end <= self.bytes.len()) {
            Ok(())
        } else {
            Err(error())
        }
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if extent != 1 && stride != expected {
                return false;
            }
            expected *= extent;
        }
        true
    }

    /// The bytes of elements `start .. start + count` in row-major order, gathered where they are strided.
    fn gather<'b>(
        &'b self,
        start: usize,
        count: usize,
        contiguous: bool,
        buffer: &'b mut Vec<u8>,
    ) -> &'b [u8] {
        let size = self.dtype.size();
        if contiguous {
            return &self.bytes[start * size..(start + count) * size];
        }
        buffer.clear();
        let mut index = vec![0usize; self.shape.len()];
        let mut rest = start;
        for (slot, &extent) in index.iter_mut().zip(&self.shape).rev() {
            *slot = rest % extent;
            rest /= extent;
        }
        for _ in 0..count {
            let offset: usize = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum();
            buffer.extend_from_slice(&self.bytes[offset * size..(offset + 1) * size]);
            for (slot, &extent) in index.iter_mut().zip(&self.shape).rev() {
                *slot += 1;
                if *slot < extent {
                    break;
                }
                *slot = 0;
            }
        }
        buffer
    }
}

/// How an output fails the contract.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// Element types differ.
    #[error("dtype is {actual}, expected {expected}")]
    Dtype {
        /// What was returned.
        actual: &'static str,
        /// What the reference returned.
        expected: &'static str,
    },
    /// Shapes differ.
    #[error("shape is {actual:?}, expected {expected:?}")]
    Shape {
        /// What was returned.
        actual: Vec<usize>,
        /// What the reference returned.
        expected: Vec<usize>,
    },
    /// Elements that must be equal are not.
    #[error(
        "{count} of {total} elements differ; the first at {index:?}: {actual}, expected {expected}"
    )]
    Unequal {
        /// How many.
        count: usize,
        /// Of how many.
        total: usize,
        /// Where the first is.
        index: Vec<usize>,
        /// Its value.
        actual: String,
        /// The reference's.
        expected: String,
    },
    /// NaN in the output.
    #[error("{count} of {total} elements are NaN; the first at {index:?}, expected {expected}")]
    Nan {
        /// How many.
        count: usize,
        /// Of how many.
        total: usize,
        /// Where the first is.
        index: Vec<usize>,
        /// The anchor's value there.
        expected: f64,
    },
    /// An infinity is missing, has the wrong sign, or stands where none belongs.
    #[error(
        "{count} of {total} elements have a wrong infinity; the first at {index:?}: {actual}, expected {expected}"
    )]
    Infinity {
        /// How many.
        count: usize,
        /// Of how many.
        total: usize,
        /// Where the first is.
        index: Vec<usize>,
        /// Its value.
        actual: f64,
        /// What belongs there.
        expected: f64,
    },
    /// Too far from the anchor.
    #[error(
        "largest error {error:.6e} is {excess:.3} times the allowance {allowance:.6e}; {count} of {total} elements exceed it; the worst at {index:?}: {actual}, expected {expected}"
    )]
    Tolerance {
        /// Largest distance from the anchor.
        error: f64,
        /// What was allowed.
        allowance: f64,
        /// Their quotient.
        excess: f64,
        /// How many elements exceed the allowance.
        count: usize,
        /// Of how many.
        total: usize,
        /// Where the worst is.
        index: Vec<usize>,
        /// Its value.
        actual: f64,
        /// The anchor's.
        expected: f64,
    },
}

/// Compares an output with what the reference gave and, for a floating type, with the anchor.
///
/// Infinities: where the anchor is infinite, the output must be the same infinity. Where the
/// reference alone is (it overflowed), the output may be that infinity, or a finite value that is
/// as near to the anchor as any other element must be: more accurate than the reference is right.
/// An infinity anywhere else is wrong. The errors and magnitudes that set the allowance are those
/// of the elements where both are finite.
///
/// All views must have passed [`TensorView::check`]. The anchor may have any floating type and
/// must have the reference's shape. Memory: a few chunks, whatever the tensors' size.
pub fn compare(
    actual: &TensorView,
    reference: &TensorView,
    anchor: &TensorView,
) -> Result<(), Mismatch> {
    if actual.dtype != reference.dtype {
        return Err(Mismatch::Dtype {
            actual: actual.dtype.name(),
            expected: reference.dtype.name(),
        });
    }
    if actual.shape != reference.shape {
        return Err(Mismatch::Shape {
            actual: actual.shape.clone(),
            expected: reference.shape.clone(),
        });
    }
    if actual.is_empty() {
        return Ok(());
    }
    match reference.dtype.epsilon() {
        None => equal(actual, reference),
        Some(epsilon) => within(actual, reference, anchor, epsilon),
    }
}

fn unravel(shape: &[usize], mut position: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (slot, &extent) in index.iter_mut().zip(shape).rev() {
        *slot = position % extent;
        position /= extent;
    }
    index
}

fn equal(actual: &TensorView, reference: &TensorView) -> Result<(), Mismatch> {
    let (total, size) = (actual.len(), actual.dtype.size());
    let contiguous = (actual.is_contiguous(), reference.is_contiguous());
    let (mut buffer_a, mut buffer_r) = (Vec::new(), Vec::new());
    let mut count = 0;
    let mut first = None;
    for start in (0..total).step_by(CHUNK) {
        let n = CHUNK.min(total - start);
        let a = actual.gather(start, n, contiguous.0, &mut buffer_a);
        let r = reference.gather(start, n, contiguous.1, &mut buffer_r);
        if a == r && !is_complex(actual.dtype) {
            continue;
        }
        for i in 0..n {
            let (x, y) = (&a[i * size..(i + 1) * size], &r[i * size..(i + 1) * size]);
            if !element_equal(actual.dtype, x, y) {
                count += 1;
                first.get_or_insert_with(|| {
                    (
                        start + i,
                        display(actual.dtype, x),
                        display(actual.dtype, y),
                    )
                });
            }
        }
    }
    match first {
        None => Ok(()),
        Some((position, actual_text, expected)) => Err(Mismatch::Unequal {
            count,
            total,
            index: unravel(&actual.shape, position),
            actual: actual_text,
            expected,
        }),
    }
}

fn is_complex(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Complex64 | Dtype::Complex128)
}

fn parts(dtype: Dtype, bytes: &[u8]) -> [f64; 2] {
    let part = if dtype == Dtype::Complex64 {
        Dtype::Float32
    } else {
        Dtype::Float64
    };
    let mut out = [0.0; 2];
    part.read(bytes, &mut out);
    out
}

fn element_equal(dtype: Dtype, a: &[u8], b: &[u8]) -> bool {
    match dtype {
        Dtype::Complex64 | Dtype::Complex128 => parts(dtype, a) == parts(dtype, b),
        Dtype::Bool => (a[0] != 0) == (b[0] != 0),
        _ => a == b,
    }
}

fn display(dtype: Dtype, bytes: &[u8]) -> String {
    let wide = |signed: bool| {
        let fill = if signed && bytes.last().is_some_and(|b| b & 0x80 != 0) {
            0xff
        } else {
            0
        };
        let mut word = [fill; 16];
        word[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(word)
    };
    match dtype {
        Dtype::Bool => (bytes[0] != 0).to_string(),
        Dtype::Complex64 | Dtype::Complex128 => {
            let [re, im] = parts(dtype, bytes);
            format!("{re}{im:+}i")
        }
        Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => wide(true).to_string(),
        _ => wide(false).to_string(),
    }
}

/// What one pass over the three tensors found, before the allowance is known.
#[derive(Default)]
struct Extremes {
    reference_error: f64,
    anchor_magnitude: f64,
    error: f64,
    worst: Option<(usize, f64, f64)>,
    nan: (usize, Option<(usize, f64)>),
    infinity: (usize, Option<(usize, f64, f64)>),
}

fn within(
    actual: &TensorView,
    reference: &TensorView,
    anchor: &TensorView,
    epsilon: f64,
) -> Result<(), Mismatch> {
    if anchor.shape != reference.shape {
        return Err(Mismatch::Shape {
            actual: anchor.shape.clone(),
            expected: reference.shape.clone(),
        });
    }
    let total = actual.len();
    let mut seen = Extremes::default();
    for_each(actual, reference, anchor, |position, a, r, x| {
        if a.is_nan() || x.is_nan() || r.is_nan() {
            seen.nan.0 += 1;
            seen.nan.1.get_or_insert((position, x));
            return;
        }
        if x.is_finite() && r.is_finite() {
            seen.reference_error = seen.reference_error.max((r - x).abs());
            seen.anchor_magnitude = seen.anchor_magnitude.max(x.abs());
        }
        let allowed_infinity = if x.is_infinite() {
            a == x
        } else {
            r.is_infinite() && a == r
        };
        if x.is_infinite() || a.is_infinite() {
            if !allowed_infinity {
                seen.infinity.0 += 1;
                let expected = if x.is_infinite() { x } else { r };
                seen.infinity.1.get_or_insert((position, a, expected));
            }
            return;
        }
        let error = (a - x).abs();
        if error > seen.error || seen.worst.is_none() {
            seen.error = error;
            seen.worst = Some((position, a, x));
        }
    });
    let index = |position| unravel(&actual.shape, position);
    if let (count, Some((position, expected))) = seen.nan {
        return Err(Mismatch::Nan {
            count,
            total,
            index: index(position),
            expected,
        });
    }
    if let (count, Some((position, a, expected))) = seen.infinity {
        return Err(Mismatch::Infinity {
            count,
            total,
            index: index(position),
            actual: a,
            expected,
        });
    }
    let allowance = 3.0 * seen.reference_error.max(epsilon * seen.anchor_magnitude);
    let Some((position, a, x)) = seen.worst.filter(|_| seen.error > allowance) else {
        return Ok(());
    };
    let mut count = 0;
    for_each(actual, reference, anchor, |_, a, _, x| {
        count += usize::from(x.is_finite() && a.is_finite() && (a - x).abs() > allowance);
    });
    Err(Mismatch::Tolerance {
        error: seen.error,
        allowance,
        excess: seen.error / allowance,
        count,
        total,
        index: index(position),
        actual: a,
        expected: x,
    })
}

/// Calls `f(position, actual, reference, anchor)` for every element, reading in chunks.
fn for_each(
    actual: &TensorView,
    reference: &TensorView,
    anchor: &TensorView,
    mut f: impl FnMut(usize, f64, f64, f64),
) {
    let views = [actual, reference, anchor];
    let contiguous = views.map(TensorView::is_contiguous);
    let mut buffers: [Vec<u8>; 3] = Default::default();
    let mut numbers = [[0.0f64; 0]; 3].map(|_| vec![0.0f64; CHUNK]);
    let total = actual.len();
    for start in (0..total).step_by(CHUNK) {
        let n = CHUNK.min(total - start);
        for k in 0..3 {
            let bytes = views[k].gather(start, n, contiguous[k], &mut buffers[k]);
            views[k].dtype.read(bytes, &mut numbers[k][..n]);
        }
        let [actual, reference, anchor] = &numbers;
        for (i, ((a, r), x)) in actual.iter().zip(reference).zip(anchor).take(n).enumerate() {
            f(start + i, *a, *r, *x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn bytes64(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn view(dtype: Dtype, bytes: &[u8]) -> TensorView<'_> {
        TensorView {
            dtype,
            shape: vec![bytes.len() / dtype.size()],
            strides: vec![1],
            bytes,
        }
    }

    fn floats(actual: &[f32], reference: &[f32], anchor: &[f64]) -> Result<(), Mismatch> {
        let (a, r, x) = (bytes(actual), bytes(reference), bytes64(anchor));
        compare(
            &view(Dtype::Float32, &a),
            &view(Dtype::Float32, &r),
            &view(Dtype::Float64, &x),
        )
    }

    #[test]
    fn an_error_of_three_times_the_references_passes_and_more_does_not() {
        // The reference is off by 0.25, so 0.75 is allowed (all numbers exact in binary).
        assert_eq!(floats(&[8.75, 0.0], &[8.25, 0.0], &[8.0, 0.0]), Ok(()));
        let over = floats(&[8.75, 1.0], &[8.25, 0.0], &[8.0, 0.0]).unwrap_err();
        match over {
            Mismatch::Tolerance {
                error,
                allowance,
                count,
                index,
                ..
            } => {
                assert_eq!((error, allowance, count, index), (1.0, 0.75, 1, vec![1]));
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_exact_reference_leaves_three_steps_of_the_type() {
        let eps = f32::EPSILON;
        assert_eq!(floats(&[1.0 + 3.0 * eps], &[1.0], &[1.0]), Ok(()));
        assert!(floats(&[1.0 + 4.0 * eps], &[1.0], &[1.0]).is_err());
    }

    #[test]
    fn an_output_more_accurate_than_the_reference_passes() {
        assert_eq!(floats(&[1.0, 2.0], &[1.5, 2.0], &[1.0, 2.0]), Ok(()));
    }

    #[test]
    fn nan_never_passes() {
        assert!(matches!(
            floats(&[f32::NAN], &[1.0], &[1.0]),
            Err(Mismatch::Nan { count: 1, .. })
        ));
        assert!(matches!(
            floats(&[f32::NAN], &[f32::NAN], &[f64::NAN]),
            Err(Mismatch::Nan { .. })
        ));
    }

    #[test]
    fn zeros_do_not_pass_for_small_outputs() {
        let small: Vec<f32> = (0..64).map(|i| 1e-4 * (i as f32 - 31.5)).collect();
        let exact: Vec<f64> = small.iter().map(|v| f64::from(*v)).collect();
        assert!(floats(&vec![0.0; 64], &small, &exact).is_err());
    }

    #[test]
    fn infinities_must_be_the_same_and_at_the_same_place() {
        let inf = f32::INFINITY;
        let anchor = [f64::INFINITY, 1.0];
        assert_eq!(floats(&[inf, 1.0], &[inf, 1.0], &anchor), Ok(()));
        assert!(matches!(
            floats(&[-inf, 1.0], &[inf, 1.0], &anchor),
            Err(Mismatch::Infinity { .. })
        ));
        assert!(matches!(
            floats(&[3e38, 1.0], &[inf, 1.0], &anchor),
            Err(Mismatch::Infinity { .. })
        ));
        assert!(matches!(
            floats(&[1.0, inf], &[1.0, 1.0], &[1.0, 1.0]),
            Err(Mismatch::Infinity { .. })
        ));
    }

    #[test]
    fn where_the_reference_alone_overflowed_its_infinity_or_the_anchors_value_passes() {
        let inf = f32::INFINITY;
        assert_eq!(floats(&[inf, 1.0], &[inf, 1.0], &[2.0, 1.0]), Ok(()));
        assert_eq!(floats(&[2.0, 1.0], &[inf, 1.0], &[2.0, 1.0]), Ok(()));
        assert!(floats(&[5.0, 1.0], &[inf, 1.0], &[2.0, 1.0]).is_err());
        assert!(floats(&[-inf, 1.0], &[inf, 1.0], &[2.0, 1.0]).is_err());
    }

    #[test]
    fn a_difference_in_any_piece_of_a_large_output_is_found() {
        let total = 3 * CHUNK + 5;
        let right = vec![1.0f32; total];
        let exact = vec![1.0f64; total];
        assert_eq!(floats(&right, &right, &exact), Ok(()));
        for place in [0, CHUNK - 1, CHUNK, 3 * CHUNK, total - 1] {
            let mut wrong = right.clone();
            wrong[place] = 2.0;
            assert!(floats(&wrong, &right, &exact).is_err(), "{place}");
        }
    }

    #[test]
    fn integers_are_equal_element_for_element() {
        let (a, r) = ([1u8, 2, 3, 9], [1u8, 2, 3, 4]);
        let err = compare(
            &view(Dtype::UInt8, &a),
            &view(Dtype::UInt8, &r),
            &view(Dtype::UInt8, &r),
        )
        .unwrap_err();
        assert_eq!(
            err.to_string(),
            "1 of 4 elements differ; the first at [3]: 9, expected 4"
        );
    }

    #[test]
    fn fp8_goes_by_the_tolerance() {
        // 1.0 is 0x38; the next codes are 1.125, 1.25, 1.375, 1.5: three steps of 1/8 are allowed.
        let (r, x) = ([0x38u8], bytes64(&[1.0]));
        let check = |code: u8| {
            compare(
                &view(Dtype::Float8E4M3Fn, &[code]),
                &view(Dtype::Float8E4M3Fn, &r),
                &view(Dtype::Float64, &x),
            )
        };
        assert_eq!(check(0x3b), Ok(()));
        assert!(check(0x3c).is_err());
    }

    #[test]
    fn shape_and_dtype_must_match_and_nothing_is_a_zero_element_tensor_that_passes() {
        let b = [0u8; 8];
        let f32s = view(Dtype::Float32, &b);
        assert!(matches!(
            compare(&view(Dtype::Int32, &b), &f32s, &f32s),
            Err(Mismatch::Dtype { .. })
        ));
        let reshaped = TensorView {
            shape: vec![2, 1],
            strides: vec![1, 1],
            ..f32s.clone()
        };
        assert!(matches!(
            compare(&reshaped, &f32s, &f32s),
            Err(Mismatch::Shape { .. })
        ));
        let empty = TensorView {
            shape: vec![0, 3],
            strides: vec![3, 1],
            dtype: Dtype::Float32,
            bytes: &[],
        };
        assert_eq!(compare(&empty, &empty, &empty), Ok(()));
    }

    #[test]
    fn strided_outputs_compare_by_logical_position() {
        let actual = bytes(&[1.0, 3.0, 2.0, 4.0]);
        let reference = bytes(&[1.0, 2.0, 3.0, 4.0]);
        let anchor = bytes64(&[1.0, 2.0, 3.0, 4.0]);
        let shape = vec![2, 2];
        let a = TensorView {
            dtype: Dtype::Float32,
            shape: shape.clone(),
            strides: vec![1, 2],
            bytes: &actual,
        };
        let r = TensorView {
            dtype: Dtype::Float32,
            shape: shape.clone(),
            strides: vec![2, 1],
            bytes: &reference,
        };
        let x = TensorView {
            dtype: Dtype::Float64,
            shape,
            strides: vec![2, 1],
            bytes: &anchor,
        };
        assert_eq!(compare(&a, &r, &x), Ok(()));
    }

    #[test]
    fn a_view_past_its_bytes_is_refused() {
        let v = TensorView {
            dtype: Dtype::Float32,
            shape: vec![3],
            strides: vec![usize::MAX / 2],
            bytes: &[0; 12],
        };
        assert!(v.check().is_err());
        let ok = TensorView {
            dtype: Dtype::Float32,
            shape: vec![2],
            strides: vec![2],
            bytes: &[0; 12],
        };
        assert!(ok.check().is_ok());
    }
}
