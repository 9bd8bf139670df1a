"""What each problem means, in NumPy float64, written from the problems' published formulas.

Nothing here calls or copies the problem files: every function takes arrays that hold the inputs'
exact values and follows the mathematics (papers and model definitions are named at each), in
plain loops where they make the meaning plain. Only problem 21 works in float32, since its result
is defined by the roundings of IEEE single precision.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
E4M3_MAX = 448.0


def e4m3_values() -> Array:
    """The value of each of the 256 codes of float8 e4m3fn: sign, 4 exponent bits of bias 7, 3
    fraction bits, no infinities, NaN at 0x7F and 0xFF (OCP 8-bit floating point, section 5)."""
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent = (codes >> 3) & 0xF
    fraction = (codes & 7) / 8.0
    normal = (1.0 + fraction) * np.exp2(exponent - 7.0)
    subnormal = fraction * np.exp2(-6.0)
    value = sign * np.where(exponent == 0, subnormal, normal)
    value[(codes & 0x7F) == 0x7F] = np.nan
    return value


def to_e4m3(x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The e4m3 codes of float32 values within +-448, rounded to nearest, ties to the even code."""
    positive = e4m3_values()[:127]
    magnitude = np.abs(x).astype(np.float64)
    upper = np.clip(np.searchsorted(positive, magnitude), 1, 126)
    lower = upper - 1
    below = magnitude - positive[lower]
    above = positive[upper] - magnitude
    take_upper = (above < below) | ((above == below) & (upper % 2 == 0))
    code = np.where(take_upper, upper, lower)
    return (code | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)


def sigmoid(x: Array) -> Array:
    """The logistic function, without overflow on either side."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0 / (1.0 + small), small / (1.0 + small))


def softplus(x: Array) -> Array:
    """ln(1 + e^x), without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def paged_decode(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    scale: float,
) -> tuple[Array, Array]:
    """01: one query token a sequence attends to the sequence's pages (grouped-query attention,
    Ainslie et al. 2023; paged caches, Kwon et al. 2023). Returns output [B, H, D] and the base-2
    logarithm of the softmax's denominator [B, H]."""
    batch, heads, dim = q.shape
    group = heads // k_cache.shape[2]
    output = np.zeros((batch, heads, dim))
    lse = np.full((batch, heads), -np.inf)
    for b in range(batch):
        pages = indices[indptr[b] : indptr[b + 1]]
        if len(pages) == 0:
            continue
        for h in range(heads):
            keys = k_cache[pages, 0, h // group]
            values = v_cache[pages, 0, h // group]
            logits = np.array([float(np.dot(q[b, h], key)) for key in keys]) * scale
            weights = np.exp(logits - logits.max())
            total = weights.sum()
            lse[b, h] = (logits.max() + np.log(total)) / np.log(2.0)
            output[b, h] = (weights[:, None] * values).sum(axis=0) / total
    return output, lse


def quantize_rows(x: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """The e4m3 codes of rows and their scales: absmax / 448 (at least 1e-6), its reciprocal, then
    the product, each rounded to float32."""
    f32 = np.float32
    absmax = np.abs(x).max(axis=-1).astype(f32)
    scale = np.maximum(absmax / f32(E4M3_MAX), f32(1e-6)).astype(f32)
    reciprocal = (f32(1.0) / scale).astype(f32)
    y = np.clip((x * reciprocal[..., None]).astype(f32), f32(-E4M3_MAX), f32(E4M3_MAX))
    return to_e4m3(y), scale


def append_quantized(
    key: NDArray[np.float32],
    value: NDArray[np.float32],
    slots: NDArray[np.int64],
    caches: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    scales: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float32], NDArray[np.float32]]:
    """21: every token with a slot >= 0 puts its rows' codes and scales at block slot // 16,
    place slot % 16; all else keeps what it held."""
    new_caches = [cache.copy() for cache in caches]
    new_scales = [scale.copy() for scale in scales]
    block_size = caches[0].shape[1]
    for which, rows in enumerate((key, value)):
        codes, row_scales = quantize_rows(rows)
        for token, slot in enumerate(slots):
            if slot >= 0:
                place = divmod(int(slot), block_size)
                new_caches[which][place] = codes[token]
                new_scales[which][place] = row_scales[token]
    return new_caches[0], new_caches[1], new_scales[0], new_scales[1]


def add_rmsnorm(hidden: Array, residual: Array, weight: Array, eps: float = 1e-5) -> Array:
    """28: RMSNorm (Zhang and Sennrich 2019) of hidden + residual, times the weight."""
    x = hidden + residual
    rms = np.sqrt((x * x).sum(axis=-1, keepdims=True) / x.shape[-1] + eps)
    return x / rms * weight


def group_limited_routing(
    hidden: Array, weight: Array, bias: Array, factor: float, groups: int, kept: int, top: int
) -> tuple[NDArray[np.int64], Array]:
    """49: experts for each token by sigmoid affinity plus bias, from the groups whose two best
    affinities sum highest (DeepSeek-V3 technical report, sections 2.1.2 and 4.2). Returns the
    expert ids, best first, and their affinities without bias, normalised, times the factor."""
    affinity = sigmoid(hidden @ weight.T)
    biased = affinity + bias
    tokens, experts = biased.shape
    size = experts // groups
    indices = np.empty((tokens, top), dtype=np.int64)
    weights = np.empty((tokens, top))
    for t in range(tokens):
        scores = [
            sum(sorted(biased[t, g * size : (g + 1) * size], reverse=True)[:2])
            for g in range(groups)
        ]
        best = sorted(range(groups), key=lambda g: -scores[g])[:kept]
        allowed = [e for g in best for e in range(g * size, (g + 1) * size)]
        chosen = sorted(allowed, key=lambda e: -biased[t, e])[:top]
        indices[t] = chosen
        weights[t] = affinity[t, chosen] / (affinity[t, chosen].sum() + 1e-20) * factor
    return indices, weights


def gated_fp8_projection(
    x: Array, scale_x: Array, gate: Array, scale_gate: Array, up: Array, scale_up: Array
) -> Array:
    """53: silu(x gate^T) * (x up^T) (SwiGLU, Shazeer 2020) of operands given as codes' values and
    block scales: one scale for 128 columns of a row of x, one for each 128 x 128 of a weight."""

    def weights(values: Array, scale: Array) -> Array:
        return values * np.kron(scale, np.ones((128, 128)))

    activations = x * np.kron(scale_x, np.ones((1, 128)))
    g = activations @ weights(gate, scale_gate).T
    u = activations @ weights(up, scale_up).T
    return g * sigmoid(g) * u


def gated_delta_step(
    q: Array,
    k: Array,
    v: Array,
    state: Array,
    a_log: Array,
    a: Array,
    dt_bias: Array,
    b: Array,
    scale: float,
) -> tuple[Array, Array]:
    """72: one token of the gated delta rule (Yang, Kautz and Hatamizadeh 2024, equation 10):
    S = g S (I - beta k k^T) + beta v k^T, with g = exp(-exp(A) softplus(a + dt)), beta =
    sigmoid(b), and o = scale S q. The state is [batch, head, V, K]; value head h has the query
    and key of head h * q_heads // v_heads."""
    batch, v_heads, v_dim, k_dim = state.shape
    q_heads = q.shape[2]
    output = np.empty((batch, 1, v_heads, v_dim))
    new_state = np.empty_like(state)
    decay = np.exp(-np.exp(a_log) * softplus(a[:, 0] + dt_bias))
    beta = sigmoid(b[:, 0])
    identity = np.eye(k_dim)
    for n in range(batch):
        for h in range(v_heads):
            key = k[n, 0, h * q_heads // v_heads]
            query = q[n, 0, h * q_heads // v_heads]
            turn = identity - beta[n, h] * np.outer(key, key)
            new = decay[n, h] * state[n, h] @ turn + beta[n, h] * np.outer(v[n, 0, h], key)
            new_state[n, h] = new
            output[n, 0, h] = scale * new @ query
    return output, new_state
