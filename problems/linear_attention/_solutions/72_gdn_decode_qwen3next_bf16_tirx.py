"""Problem 72 in TIRx: a warp takes rows of the state, one after another, through one step."""

import torch
import tvm
from tvm.script import tirx as T

SPACE = {"threads": [64, 128, 256], "vector": [1, 2, 4], "rows": [8, 16, 32, 64, 128], "fused": [True, False]}  # fmt: skip
PARAMS = {"threads": 128, "vector": 4, "rows": 32, "fused": True}

HEADS = 16
GROUPS = 8
SIZE = 128  # both of a state's rows (V) and of its columns (K)
THREADS, VECTOR, ROWS = PARAMS["threads"], PARAMS["vector"], PARAMS["rows"]
FUSED = PARAMS["fused"]
WARPS = THREADS // 32
CHUNKS = SIZE // (32 * VECTOR)
EACH = CHUNKS * VECTOR
TURNS = (ROWS + WARPS - 1) // WARPS


def column(chunk, lane):
    """First column of a lane's chunk."""
    return (chunk * 32 + lane) * VECTOR


@T.inline
def warp_sum(value):
    for step in T.unroll(5):
        value[0] += T.tvm_warp_shuffle_xor(0xFFFFFFFF, value[0], 16 >> step, 32, 32)


@T.inline
def decay(gate, a_log, a, dt_bias):
    """exp(-exp(a_log) * softplus(a + dt_bias)), the factor by which a head's state shrinks."""
    x: T.let = T.cast(a, "float32") + T.cast(dt_bias, "float32")
    # softplus(x) = max(x, 0) + ln(1 + s) with s = exp(-|x|), and ln(1 + s) = 2 artanh(z) with
    # z = s / (2 + s), at most 1/3: eight terms of its series are exact in single precision. The
    # logarithm of the hardware is not, next to 1.
    s: T.let = T.exp(T.float32(0) - T.fabs(x))
    z: T.let = s / (T.float32(2) + s)
    square: T.let = z * z
    series = T.alloc_local((1,), "float32")
    series[0] = T.float32(1.0 / 15.0)
    for i in T.unroll(7):
        series[0] = series[0] * square + T.float32(1) / T.cast(13 - 2 * i, "float32")
    softplus: T.let = T.max(x, T.float32(0)) + T.float32(2) * z * series[0]
    gate[0] = T.exp(T.float32(0) - T.exp(a_log) * softplus)


@T.prim_func
def decay_state(
    state_p: T.handle, a_log_p: T.handle, a_p: T.handle, dt_bias_p: T.handle, out_p: T.handle
):
    batch = T.int32()
    state = T.match_buffer(state_p, (batch, HEADS, SIZE, SIZE), "float32")
    a_log = T.match_buffer(a_log_p, (HEADS,), "float32")
    a = T.match_buffer(a_p, (batch, HEADS), "bfloat16")
    dt_bias = T.match_buffer(dt_bias_p, (HEADS,), "float32")
    out = T.match_buffer(out_p, (batch, HEADS, SIZE, SIZE), "float32")
    T.device_entry()
    block, head, n = T.cta_id([SIZE // ROWS, HEADS, batch])
    thread = T.thread_id([THREADS])
    lane: T.let = thread % 32
    gate = T.alloc_local((1,), "float32")
    decay(gate, a_log[head], a[n, head], dt_bias[head])
    for turn in range(TURNS):
        row: T.let = block * ROWS + turn * WARPS + thread // 32
        for chunk in T.unroll(CHUNKS):
            for j in T.vectorized(VECTOR):
                out[n, head, row, column(chunk, lane) + j] = (
                    state[n, head, row, column(chunk, lane) + j] * gate[0]
                )


@T.prim_func
def step(
    q_p: T.handle,
    k_p: T.handle,
    v_p: T.handle,
    state_p: T.handle,
    a_log_p: T.handle,
    a_p: T.handle,
    dt_bias_p: T.handle,
    b_p: T.handle,
    scale: T.float32,
    output_p: T.handle,
    new_state_p: T.handle,
):
    """`state` is the input's where `fused`, else it has decayed already."""
    batch = T.int32()
    q = T.match_buffer(q_p, (batch, GROUPS, SIZE), "bfloat16")
    k = T.match_buffer(k_p, (batch, GROUPS, SIZE), "bfloat16")
    v = T.match_buffer(v_p, (batch, HEADS, SIZE), "bfloat16")
    state = T.match_buffer(state_p, (batch, HEADS, SIZE, SIZE), "float32")
    a_log = T.match_buffer(a_log_p, (HEADS,), "float32")
    a = T.match_buffer(a_p, (batch, HEADS), "bfloat16")
    dt_bias = T.match_buffer(dt_bias_p, (HEADS,), "float32")
    b = T.match_buffer(b_p, (batch, HEADS), "bfloat16")
    output = T.match_buffer(output_p, (batch, HEADS, SIZE), "bfloat16")
    new_state = T.match_buffer(new_state_p, (batch, HEADS, SIZE, SIZE), "float32")
    T.device_entry()
    block, head, n = T.cta_id([SIZE // ROWS, HEADS, batch])
    thread = T.thread_id([THREADS])
    lane: T.let = thread % 32
    query = T.alloc_local((EACH,), "float32")
    key = T.alloc_local((EACH,), "float32")
    group: T.let = head // (HEADS // GROUPS)
    for chunk in T.unroll(CHUNKS):
        for j in T.vectorized(VECTOR):
            query[chunk * VECTOR + j] = T.cast(q[n, group, column(chunk, lane) + j], "float32")
        for j in T.vectorized(VECTOR):
            key[chunk * VECTOR + j] = T.cast(k[n, group, column(chunk, lane) + j], "float32")
    beta: T.let = T.float32(1) / (
        T.float32(1) + T.exp(T.float32(0) - T.cast(b[n, head], "float32"))
    )
    gate = T.alloc_local((1,), "float32")
    gate[0] = T.float32(1)
    if FUSED:
        decay(gate, a_log[head], a[n, head], dt_bias[head])
    x = T.alloc_local((EACH,), "float32")
    total = T.alloc_local((1,), "float32")
    for turn in range(TURNS):
        row: T.let = block * ROWS + turn * WARPS + thread // 32
        for chunk in T.unroll(CHUNKS):
            for j in T.vectorized(VECTOR):
                x[chunk * VECTOR + j] = state[n, head, row, column(chunk, lane) + j] * gate[0]
        total[0] = T.float32(0)
        for i in T.unroll(EACH):
            total[0] += x[i] * key[i]
        warp_sum(total)
        change: T.let = beta * (T.cast(v[n, head, row], "float32") - total[0])
        for i in T.unroll(EACH):
            x[i] = x[i] + key[i] * change
        for chunk in T.unroll(CHUNKS):
            for j in T.vectorized(VECTOR):
                new_state[n, head, row, column(chunk, lane) + j] = x[chunk * VECTOR + j]
        total[0] = T.float32(0)
        for i in T.unroll(EACH):
            total[0] += x[i] * query[i]
        warp_sum(total)
        if lane == 0:
            output[n, head, row] = T.cast(scale * total[0], "bfloat16")


def compiled(function):
    target = tvm.target.Target("cuda")
    return tvm.compile(tvm.IRModule({"main": function}), target=target, tir_pipeline="tirx")


STEP = compiled(step)
if not FUSED:
    DECAY = compiled(decay_state)


def solve(q, k, v, state, A_log, a, dt_bias, b, scale):
    assert v.shape[1:] == (1, HEADS, SIZE) and q.shape[2] == GROUPS
    output = torch.empty_like(v)
    new_state = torch.empty_like(state)
    # One token a sequence: its axis is dropped.
    q, k, v, a, b = (x[:, 0] for x in (q, k, v, a, b))
    source = state
    if not FUSED:
        source = torch.empty_like(state)
        DECAY(state, A_log, a, dt_bias, source)
    STEP(q, k, v, source, A_log, a, dt_bias, b, scale, output[:, 0], new_state)
    return output, new_state
