//! The time of one eager PyTorch operation, from its name, operands and results.
//!
//! Each operation is charged as the kernels that torch runs for it: elementwise and reducing ones by
//! the bytes that they read and write, products by their operations as well, searching and sorting
//! ones by their passes. Operations that only allocate are free. Names that are not known here are
//! charged by their bytes and said to be unknown.

use super::device::Device;

/// A tensor as an operation sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorMeta {
    /// torch's name of the element type: `float32`, `bfloat16`, `float8_e4m3fn`, `int64`, `bool`.
    pub dtype: String,
    /// Sizes.
    pub sizes: Vec<u64>,
    /// Strides, in elements; 0 where a dimension is broadcast.
    pub strides: Vec<u64>,
}

impl TensorMeta {
    /// Elements.
    pub fn elements(&self) -> u64 {
        self.sizes
            .iter()
            .fold(1, |count, &size| count.saturating_mul(size))
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> u64 {
        match self.dtype.as_str() {
            "float64" | "int64" | "uint64" | "complex64" | "double" | "long" => 8,
            "complex128" => 16,
            "float32" | "int32" | "uint32" | "complex32" | "float" | "int" => 4,
            "float16" | "bfloat16" | "int16" | "uint16" | "half" | "short" => 2,
            _ => 1,
        }
    }

    /// Bytes of its distinct elements: a broadcast dimension counts once.
    pub fn distinct_bytes(&self) -> u64 {
        let distinct = self.dimensions().filter(|&(_, stride)| stride != 0);
        distinct
            .fold(1u64, |count, (size, _)| count.saturating_mul(size))
            .saturating_mul(if self.elements() == 0 {
                0
            } else {
                self.element_bytes()
            })
    }

    /// Bytes that a kernel moves to touch it: whole 32-byte sectors where neighbours in memory are
    /// not both part of it.
    pub fn moved_bytes(&self) -> u64 {
        let closest = self
            .dimensions()
            .filter(|&(size, stride)| size > 1 && stride != 0)
            .map(|(_, stride)| stride)
            .min()
            .unwrap_or(1);
        let apart = closest.min((32 / self.element_bytes()).max(1));
        self.distinct_bytes().saturating_mul(apart.max(1))
    }

    fn dimensions(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let contiguous = self.strides.len() != self.sizes.len();
        self.sizes
            .iter()
            .enumerate()
            .map(move |(index, &size)| (size, if contiguous { 1 } else { self.strides[index] }))
    }
}

/// How an operation is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// It allocates or looks; no kernel runs.
    Free,
    /// Reads operands, writes results.
    Streaming,
    /// Reads an element of a source for each element of the result.
    Gather,
    /// Writes an element for each element of a source.
    Scatter,
    /// A product of matrices.
    Product,
    /// Several passes over the data.
    Passes,
    /// Several passes, after which the host must know the result's size.
    PassesAndWait,
    /// Not known here; charged as streaming.
    Unknown,
}

/// What an eager operation would take.
#[derive(Debug, Clone, PartialEq)]
pub struct OpEstimate {
    /// Seconds.
    pub seconds: f64,
    /// How it was charged.
    pub kind: OpKind,
    /// Kernels.
    pub launches: u32,
    /// Bytes moved in device memory.
    pub bytes: u64,
    /// Operations of a product, a multiply-add being two.
    pub flops: f64,
}

/// Seconds of an eager operation; see [`eager_op`].
pub fn eager_op_time(
    op: &str,
    operands: &[TensorMeta],
    results: &[TensorMeta],
    host_bytes: u64,
    device: &Device,
) -> f64 {
    eager_op(op, operands, results, host_bytes, device).seconds
}

/// Whether an operation has a rule of its own. One that has none is charged one kernel that moves its
/// operands and results, which may be too little.
pub fn eager_op_is_known(op: &str) -> bool {
    kind(Name::of(op).base) != OpKind::Unknown
}

/// Seconds in which the host waits for the device and reads `bytes` of it.
pub fn host_read_time(bytes: u64, device: &Device) -> f64 {
    device.host.synchronize + bytes as f64 / device.memory.host_bytes_per_second
}

/// Seconds in which the host compiles `modules` of kernels.
pub fn compile_time(modules: u64, device: &Device) -> f64 {
    modules as f64 * device.host.compile
}

/// What an operation of torch's dispatcher takes. `op` is its name with or without namespace and
/// overload (`aten::add.Tensor`); `operands` are its device tensors in the schema's order (one that it
/// writes stands among them), `results` those that it returns, and `host_bytes` what comes from the
/// host as data.
pub fn eager_op(
    op: &str,
    operands: &[TensorMeta],
    results: &[TensorMeta],
    host_bytes: u64,
    device: &Device,
) -> OpEstimate {
    let name = Name::of(op);
    let kind = kind(name.base);
    // `out=` variants write the last operands, as many as there are results; in-place ones the first.
    let (read, written): (&[TensorMeta], &[TensorMeta]) = match operands {
        _ if name.out => {
            let inputs = operands.len().saturating_sub(results.len().max(1));
            (&operands[..inputs], results)
        }
        [first, rest @ ..] if name.in_place => {
            let overwritten = matches!(name.base, "copy" | "fill" | "zero") || is_random(name.base);
            let target = std::slice::from_ref(first);
            (if overwritten { rest } else { operands }, target)
        }
        _ => (operands, results),
    };
    let moved = |tensors: &[TensorMeta]| {
        tensors
            .iter()
            .fold(0u64, |sum, tensor| sum.saturating_add(tensor.moved_bytes()))
    };
    let (mut launches, bytes, mut flops) = match kind {
        OpKind::Free => (0, 0, 0.0),
        OpKind::Streaming | OpKind::Unknown => (1, moved(read).saturating_add(moved(written)), 0.0),
        OpKind::Gather => (1, gathered(read, written), 0.0),
        OpKind::Scatter => (
            1 + u32::from(!name.in_place),
            scattered(&name, operands, written),
            0.0,
        ),
        OpKind::Product => (
            1,
            moved(read).saturating_add(moved(written)),
            product_flops(name.base, read, written),
        ),
        OpKind::Passes | OpKind::PassesAndWait => {
            let (launches, passes) = passes(name.base);
            let data = moved(read).saturating_add(moved(written));
            (launches, data.saturating_mul(passes), 0.0)
        }
    };
    let mut seconds = match kind {
        OpKind::Free => 0.0,
        OpKind::Product => {
            let (compute, split) = product_seconds(name.base, read, written, flops, device);
            launches += split;
            running(bytes, launches, device).max(compute)
        }
        _ => running(bytes, launches, device),
    };
    if written
        .iter()
        .chain(read)
        .all(|tensor| tensor.elements() == 0)
        && host_bytes == 0
    {
        // torch runs no kernel for tensors without elements.
        (seconds, launches, flops) = (0.0, 0, 0.0);
    }
    if host_bytes > 0 {
        seconds += host_bytes as f64 / device.memory.host_bytes_per_second;
        if launches == 0 {
            launches = 1;
        }
    }
    seconds += f64::from(launches) * device.host.launch;
    if kind == OpKind::PassesAndWait {
        seconds += device.host.synchronize;
    }
    OpEstimate {
        seconds,
        kind,
        launches,
        bytes,
        flops,
    }
}

/// Time that kernels run: bandwidth, but for each at least the latency of reading and writing once.
fn running(bytes: u64, launches: u32, device: &Device) -> f64 {
    let least = device.seconds(2.0 * device.latency.global) * f64::from(launches);
    (bytes as f64 / device.dram_bandwidth()).max(least)
}

/// An operation's name, taken apart.
struct Name<'a> {
    base: &'a str,
    in_place: bool,
    out: bool,
}

impl<'a> Name<'a> {
    fn of(op: &'a str) -> Self {
        let local = op.rsplit("::").next().unwrap_or(op);
        let (base, overload) = local.split_once('.').unwrap_or((local, ""));
        let stripped = base.strip_suffix("_out");
        let out = stripped.is_some()
            || overload == "out"
            || overload.ends_with("_out")
            || matches!(overload, "values" | "values_stable" | "dim_max" | "dim_min");
        let base = stripped.unwrap_or(base);
        let in_place = base.ends_with('_') && !base.ends_with("__");
        Name {
            base: base.strip_suffix('_').filter(|_| in_place).unwrap_or(base),
            in_place,
            out,
        }
    }
}

const FREE: &[&str] = &[
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "set",
    "resize",
    "resize_as",
    "view",
    "_unsafe_view",
    "_reshape_alias",
    "as_strided",
    "alias",
    "detach",
    "expand",
    "permute",
    "transpose",
    "t",
    "unsqueeze",
    "squeeze",
    "slice",
    "select",
    "split",
    "unbind",
    "is_same_size",
    "record_stream",
    "lift_fresh",
    "_efficientzerotensor",
];

const GATHER: &[&str] = &[
    "gather",
    "index",
    "index_select",
    "embedding",
    "take",
    "take_along_dim",
    "_unsafe_index",
];

const SCATTER: &[&str] = &[
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "index_put",
    "_index_put_impl",
    "index_copy",
    "index_add",
    "index_fill",
    "masked_scatter",
    "put",
    "_unsafe_index_put",
    "index_reduce",
];

const PRODUCT: &[&str] = &[
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "addbmm",
    "matmul",
    "linear",
    "mv",
    "addmv",
    "dot",
    "vdot",
    "addr",
    "ger",
    "_scaled_mm",
    "_int_mm",
    "_addmm_activation",
    "_grouped_mm",
    "_scaled_grouped_mm",
    "convolution",
    "cudnn_convolution",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_flash_attention_forward",
    "_efficient_attention_forward",
];

const PASSES: &[&str] = &[
    "sort",
    "argsort",
    "topk",
    "kthvalue",
    "median",
    "mode",
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "multinomial",
    "randperm",
    "bincount",
    "histc",
    "searchsorted",
    "bucketize",
    "_cdist_forward",
    "tril_indices",
    "triu_indices",
];

const PASSES_AND_WAIT: &[&str] = &[
    "nonzero",
    "masked_select",
    "unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "repeat_interleave",
];

const RANDOM: &[&str] = &[
    "normal",
    "uniform",
    "random",
    "bernoulli",
    "exponential",
    "cauchy",
    "log_normal",
    "geometric",
    "rand",
    "randn",
    "randint",
    "rand_like",
    "randn_like",
    "randint_like",
];

const STREAMING: &[&str] = &[
    // elementwise
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "remainder",
    "fmod",
    "floor_divide",
    "pow",
    "neg",
    "abs",
    "sign",
    "sgn",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "square",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "sigmoid",
    "logit",
    "silu",
    "gelu",
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "mish",
    "softplus",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
    "hardshrink",
    "softshrink",
    "threshold",
    "prelu",
    "glu",
    "clamp",
    "clamp_min",
    "clamp_max",
    "minimum",
    "maximum",
    "fmin",
    "fmax",
    "round",
    "floor",
    "ceil",
    "trunc",
    "frac",
    "lerp",
    "addcmul",
    "addcdiv",
    "where",
    "masked_fill",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "__lshift__",
    "__rshift__",
    "__and__",
    "__or__",
    "__xor__",
    "__ilshift__",
    "__irshift__",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "nan_to_num",
    "copysign",
    "hypot",
    "ldexp",
    "frexp",
    "xlogy",
    "logaddexp",
    "logaddexp2",
    "heaviside",
    "signbit",
    "nextafter",
    "i0",
    "lgamma",
    "digamma",
    "special_i0",
    "special_expit",
    "complex",
    "polar",
    "real",
    "imag",
    "angle",
    // copies and constants
    "copy",
    "_to_copy",
    "to",
    "clone",
    "contiguous",
    "fill",
    "zero",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "full",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "arange",
    "linspace",
    "logspace",
    "eye",
    "cat",
    "stack",
    "_cat",
    "roll",
    "flip",
    "repeat",
    "constant_pad_nd",
    "tril",
    "triu",
    "diag",
    "diagonal_copy",
    "one_hot",
    "scalar_tensor",
    "select_scatter",
    "slice_scatter",
    "diagonal_scatter",
    "narrow_copy",
    "permute_copy",
    "view_copy",
    "expand_copy",
    "_foreach_add",
    "_foreach_mul",
    "_foreach_copy",
    "_copy_from",
    "_copy_from_and_resize",
    "split_with_sizes_copy",
    "unfold_copy",
    "pixel_shuffle",
    "pixel_unshuffle",
    "nested_tensor",
    // reductions over rows
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "amax",
    "amin",
    "aminmax",
    "_aminmax",
    "argmax",
    "argmin",
    "any",
    "all",
    "norm",
    "linalg_vector_norm",
    "var",
    "std",
    "var_mean",
    "std_mean",
    "logsumexp",
    "nansum",
    "count_nonzero",
    "_softmax",
    "softmax",
    "_log_softmax",
    "log_softmax",
    "native_layer_norm",
    "layer_norm",
    "_fused_rms_norm",
    "rms_norm",
    "native_group_norm",
    "native_batch_norm",
    "equal",
    "allclose",
    "trace",
    "dist",
    "renorm",
    "cosine_similarity",
    "nll_loss_forward",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "binary_cross_entropy",
    "_is_all_true",
    "_is_any_true",
    "_local_scalar_dense",
    "item",
];

fn kind(base: &str) -> OpKind {
    let lists: [(&[&str], OpKind); 8] = [
        (FREE, OpKind::Free),
        (GATHER, OpKind::Gather),
        (SCATTER, OpKind::Scatter),
        (PRODUCT, OpKind::Product),
        (PASSES, OpKind::Passes),
        (PASSES_AND_WAIT, OpKind::PassesAndWait),
        (RANDOM, OpKind::Streaming),
        (STREAMING, OpKind::Streaming),
    ];
    lists
        .into_iter()
        .find(|(names, _)| names.contains(&base))
        .map_or(OpKind::Unknown, |(_, kind)| kind)
}

fn is_random(base: &str) -> bool {
    RANDOM.contains(&base)
}

/// Kernels that an operation of several passes runs, and how often they move its data.
fn passes(base: &str) -> (u32, u64) {
    match base {
        // Radix sort by digits of 8 bits, keys and positions.
        "sort" | "argsort" | "unique" | "_unique2" | "unique_dim" | "randperm" => (6, 8),
        // Radix selection, then the selected ones are sorted.
        "topk" | "kthvalue" | "median" | "mode" => (4, 4),
        // Count, scan, write.
        "nonzero" | "masked_select" | "unique_consecutive" | "repeat_interleave" => (3, 3),
        _ => (2, 2),
    }
}

/// Bytes of a gather: the indices, and for each element of the result a read and a write; no more of
/// the source than there is.
fn gathered(read: &[TensorMeta], written: &[TensorMeta]) -> u64 {
    let Some((source, indices)) = read.split_first() else {
        return written.iter().map(TensorMeta::moved_bytes).sum();
    };
    let results: u64 = written.iter().map(TensorMeta::moved_bytes).sum();
    let indices: u64 = indices.iter().map(TensorMeta::moved_bytes).sum();
    results
        .saturating_add(indices)
        .saturating_add(results.min(source.moved_bytes()))
}

/// Bytes of a scatter: indices and values are read, the places of the values written; out of place
/// the target is copied first.
fn scattered(name: &Name<'_>, operands: &[TensorMeta], written: &[TensorMeta]) -> u64 {
    let Some((target, rest)) = operands.split_first() else {
        return 0;
    };
    let sources: u64 = rest.iter().map(TensorMeta::moved_bytes).sum();
    let values = rest
        .iter()
        .map(|tensor| tensor.elements().saturating_mul(target.element_bytes()))
        .max()
        .unwrap_or(0);
    let copy = if name.in_place || name.base == "_index_put_impl" {
        0
    } else {
        target
            .moved_bytes()
            .saturating_add(written.iter().map(TensorMeta::moved_bytes).sum())
    };
    sources.saturating_add(values).saturating_add(copy)
}

/// The first factor of a product: after the addend, where there is one.
fn first_factor<'a>(base: &str, read: &'a [TensorMeta]) -> Option<&'a TensorMeta> {
    let addend = matches!(
        base,
        "addmm" | "baddbmm" | "addbmm" | "addmv" | "addr" | "_addmm_activation"
    );
    read.get(usize::from(addend))
}

fn product_flops(base: &str, read: &[TensorMeta], written: &[TensorMeta]) -> f64 {
    let Some(a) = first_factor(base, read) else {
        return 0.0;
    };
    let last = |tensor: Option<&TensorMeta>| {
        tensor.and_then(|t| t.sizes.last()).copied().unwrap_or(1) as f64
    };
    if base.contains("attention") {
        // Queries by keys, then by values; a causal mask is not counted.
        let [_, keys, values, ..] = read else {
            return 0.0;
        };
        let rows = a.elements() as f64 / last(Some(a)).max(1.0);
        let length = keys.sizes.iter().rev().nth(1).copied().unwrap_or(1) as f64;
        return 2.0 * rows * length * (last(Some(a)) + last(Some(values)));
    }
    let results: f64 = match base {
        // Of a convolution the last operand may be a bias; the first result is the only one of its size.
        "convolution" | "cudnn_convolution" => written.first().map_or(0.0, |t| t.elements() as f64),
        _ => written.iter().map(|tensor| tensor.elements() as f64).sum(),
    };
    let inner = match base {
        "convolution" | "cudnn_convolution" => {
            let weight = read.get(1);
            let channels = weight
                .and_then(|w| w.sizes.first())
                .copied()
                .unwrap_or(1)
                .max(1);
            weight.map_or(0.0, |w| w.elements() as f64) / channels as f64
        }
        "addr" | "ger" => 1.0,
        // All of a batch is summed into one result.
        "addbmm" => a.elements() as f64 / a.sizes.get(1).copied().unwrap_or(1).max(1) as f64,
        _ => a.sizes.last().copied().unwrap_or(1) as f64,
    };
    2.0 * results * inner
}

/// Seconds of the arithmetic, and kernels beyond the first (a split sum over the inner dimension).
fn product_seconds(
    base: &str,
    read: &[TensorMeta],
    written: &[TensorMeta],
    flops: f64,
    device: &Device,
) -> (f64, u32) {
    let Some(a) = first_factor(base, read) else {
        return (0.0, 0);
    };
    // TF32 is off, so f32 runs on the plain lanes.
    let peak = match a.dtype.as_str() {
        "float64" => device.fp64_flops().max(device.tensor.fp64),
        "float16" | "bfloat16" => device.tensor.fp16,
        "int8" | "uint8" => device.tensor.int8,
        name if name.starts_with("float8") => device.tensor.fp8,
        name if name.starts_with("float4") => device.tensor.fp4,
        _ => device.fp32_flops(),
    };
    let Some(result) = written.first() else {
        return (0.0, 0);
    };
    let rank = result.sizes.len();
    let (rows, columns) = match rank {
        0 => (1, 1),
        1 => (result.sizes[0], 1),
        _ => (result.sizes[rank - 2], result.sizes[rank - 1]),
    };
    // A library's kernel computes a tile of up to 128 x 128 results on an SM, no larger than the
    // result needs; with fewer tiles than SMs it splits the inner dimension, down to 256 elements a
    // part, and sums the parts in a second kernel.
    let tile = |size: u64| size.next_power_of_two().clamp(1, 128);
    let (height, width) = (tile(rows), tile(columns));
    let batch = (result.elements() / (rows * columns).max(1)).max(1);
    let tiles = batch
        .saturating_mul(rows.div_ceil(height))
        .saturating_mul(columns.div_ceil(width))
        .max(1);
    let sms = u64::from(device.sms);
    let inner = a.sizes.last().copied().unwrap_or(1);
    let split = (sms / tiles).clamp(1, inner.div_ceil(256).max(1));
    let parts = tiles.saturating_mul(split);
    let padded = tiles as f64 * (height * width) as f64 / result.elements().max(1) as f64;
    let busy = parts as f64 / (parts.div_ceil(sms).saturating_mul(sms)) as f64;
    let rate = peak * device.eager.matmul_efficiency * busy;
    (flops * padded / rate, u32::from(split > 1))
}
