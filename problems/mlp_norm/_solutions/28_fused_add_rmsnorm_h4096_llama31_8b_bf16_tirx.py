"""Fused add RMSNorm in TIRx: a CTA takes rows one after another, their sums stay in registers."""

import torch
import tvm
from tvm.script import tirx as T

SPACE = {"threads": [64, 128, 256, 512], "vector": [1, 2, 4, 8], "layout": ["contiguous", "blocked"], "fused": [True, False], "rows": [1, 2, 4]}  # fmt: skip
PARAMS = {"threads": 256, "vector": 8, "layout": "contiguous", "fused": True, "rows": 1}

HIDDEN = 4096
EPSILON = 1e-5
THREADS, VECTOR, ROWS = PARAMS["threads"], PARAMS["vector"], PARAMS["rows"]
FUSED = PARAMS["fused"]
WARPS = THREADS // 32
EACH = HIDDEN // THREADS
CHUNKS = EACH // VECTOR


def column(chunk, thread):
    """First column of a thread's chunk."""
    if PARAMS["layout"] == "contiguous":
        return (chunk * THREADS + thread) * VECTOR
    return thread * EACH + chunk * VECTOR


@T.inline
def normalise(x, weight, out, partial, row, turn, thread):
    """Scales the row in `x` by the reciprocal root of its mean square and by `weight`."""
    squares = T.alloc_local((1,), "float32")
    squares[0] = T.float32(0)
    for i in T.unroll(EACH):
        squares[0] += x[i] * x[i]
    for step in T.unroll(5):
        squares[0] += T.tvm_warp_shuffle_xor(0xFFFFFFFF, squares[0], 16 >> step, 32, 32)
    # Two places in turn: a warp may be a row ahead of one that still reads.
    if thread % 32 == 0:
        partial[turn % 2, thread // 32] = squares[0]
    T.cuda.cta_sync()
    squares[0] = T.float32(0)
    for warp in T.unroll(WARPS):
        squares[0] += partial[turn % 2, warp]
    factor = T.alloc_local((1,), "float32")
    factor[0] = T.rsqrt(squares[0] * T.float32(1.0 / HIDDEN) + T.float32(EPSILON))
    for chunk in T.unroll(CHUNKS):
        for j in T.vectorized(VECTOR):
            out[row, column(chunk, thread) + j] = T.cast(
                x[chunk * VECTOR + j]
                * factor[0]
                * T.cast(weight[column(chunk, thread) + j], "float32"),
                "bfloat16",
            )


@T.prim_func
def add_norm(hidden_p: T.handle, residual_p: T.handle, weight_p: T.handle, out_p: T.handle):
    n = T.int32()
    hidden = T.match_buffer(hidden_p, (n, HIDDEN), "bfloat16")
    residual = T.match_buffer(residual_p, (n, HIDDEN), "bfloat16")
    weight = T.match_buffer(weight_p, (HIDDEN,), "bfloat16")
    out = T.match_buffer(out_p, (n, HIDDEN), "bfloat16")
    T.device_entry()
    block = T.cta_id([(n + ROWS - 1) // ROWS])
    thread = T.thread_id([THREADS])
    partial = T.alloc_shared((2, WARPS), "float32")
    x = T.alloc_local((EACH,), "float32")
    for turn in T.unroll(ROWS):
        row: T.let = block * ROWS + turn
        if row < n:
            for chunk in T.unroll(CHUNKS):
                for j in T.vectorized(VECTOR):
                    x[chunk * VECTOR + j] = T.cast(
                        hidden[row, column(chunk, thread) + j], "float32"
                    ) + T.cast(residual[row, column(chunk, thread) + j], "float32")
            normalise(x, weight, out, partial, row, turn, thread)


@T.prim_func
def add(hidden_p: T.handle, residual_p: T.handle, sum_p: T.handle):
    n = T.int32()
    hidden = T.match_buffer(hidden_p, (n, HIDDEN), "bfloat16")
    residual = T.match_buffer(residual_p, (n, HIDDEN), "bfloat16")
    total = T.match_buffer(sum_p, (n, HIDDEN), "float32")
    T.device_entry()
    block = T.cta_id([(n + ROWS - 1) // ROWS])
    thread = T.thread_id([THREADS])
    for turn in T.unroll(ROWS):
        row: T.let = block * ROWS + turn
        if row < n:
            for chunk in T.unroll(CHUNKS):
                for j in T.vectorized(VECTOR):
                    total[row, column(chunk, thread) + j] = T.cast(
                        hidden[row, column(chunk, thread) + j], "float32"
                    ) + T.cast(residual[row, column(chunk, thread) + j], "float32")


@T.prim_func
def norm(sum_p: T.handle, weight_p: T.handle, out_p: T.handle):
    n = T.int32()
    total = T.match_buffer(sum_p, (n, HIDDEN), "float32")
    weight = T.match_buffer(weight_p, (HIDDEN,), "bfloat16")
    out = T.match_buffer(out_p, (n, HIDDEN), "bfloat16")
    T.device_entry()
    block = T.cta_id([(n + ROWS - 1) // ROWS])
    thread = T.thread_id([THREADS])
    partial = T.alloc_shared((2, WARPS), "float32")
    x = T.alloc_local((EACH,), "float32")
    for turn in T.unroll(ROWS):
        row: T.let = block * ROWS + turn
        if row < n:
            for chunk in T.unroll(CHUNKS):
                for j in T.vectorized(VECTOR):
                    x[chunk * VECTOR + j] = total[row, column(chunk, thread) + j]
            normalise(x, weight, out, partial, row, turn, thread)


def compiled(function):
    target = tvm.target.Target("cuda")
    return tvm.compile(tvm.IRModule({"main": function}), target=target, tir_pipeline="tirx")


if FUSED:
    ADD_NORM = compiled(add_norm)
else:
    ADD, NORM = compiled(add), compiled(norm)


def solve(hidden_states, residual, weight):
    out = torch.empty_like(hidden_states)
    if FUSED:
        ADD_NORM(hidden_states, residual, weight, out)
    else:
        total = torch.empty(hidden_states.shape, dtype=torch.float32, device="cuda")
        ADD(hidden_states, residual, total)
        NORM(total, weight, out)
    return out
