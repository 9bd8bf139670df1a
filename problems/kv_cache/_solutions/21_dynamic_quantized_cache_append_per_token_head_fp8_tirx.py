"""Problem 21 in TIRx: a warp quantises a row of 128 channels and puts it into its slot."""

import torch
import tvm
from tvm.script import tirx as T

SPACE = {"threads": [32, 64, 128, 256], "vector": [1, 2, 4], "fused": [True, False], "rows": [1, 2, 4]}  # fmt: skip
PARAMS = {"threads": 128, "vector": 4, "fused": True, "rows": 1}

HEADS = 8
CHANNELS = 128
E4M3_MAX = 448.0
SMALLEST_SCALE = 1e-6
THREADS, VECTOR, ROWS = PARAMS["threads"], PARAMS["vector"], PARAMS["rows"]
WARPS = THREADS // 32
CHUNKS = CHANNELS // (32 * VECTOR)


@T.inline
def append_row(rows, codes, scales, row, slot, lane):
    """Quantises a row and writes its codes and its scale to the slot."""
    x = T.alloc_local((CHUNKS * VECTOR,), "float32")
    largest = T.alloc_local((1,), "float32")
    largest[0] = T.float32(0)
    for chunk in T.unroll(CHUNKS):
        for j in T.vectorized(VECTOR):
            x[chunk * VECTOR + j] = T.cast(rows[row, (chunk * 32 + lane) * VECTOR + j], "float32")
    for i in T.unroll(CHUNKS * VECTOR):
        largest[0] = T.max(largest[0], T.fabs(x[i]))
    for step in T.unroll(5):
        largest[0] = T.max(
            largest[0], T.tvm_warp_shuffle_xor(0xFFFFFFFF, largest[0], 16 >> step, 32, 32)
        )
    # The codes depend on every rounding. Single-precision division is an approximation in TVM's
    # kernels; in double precision and rounded to single it is IEEE's.
    scale = T.alloc_local((1,), "float32")
    scale[0] = T.max(
        T.cast(T.cast(largest[0], "float64") / T.float64(E4M3_MAX), "float32"),
        T.float32(SMALLEST_SCALE),
    )
    inverse = T.alloc_local((1,), "float32")
    inverse[0] = T.cast(T.float64(1.0) / T.cast(scale[0], "float64"), "float32")
    head: T.let = row % HEADS
    for chunk in T.unroll(CHUNKS):
        for j in T.vectorized(VECTOR):
            # The conversion saturates at 448.
            codes[slot, head, (chunk * 32 + lane) * VECTOR + j] = T.cast(
                x[chunk * VECTOR + j] * inverse[0], "float8_e4m3fn"
            )
    if lane == 0:
        scales[slot, head] = scale[0]


@T.prim_func
def append(slots_p: T.handle, rows_p: T.handle, codes_p: T.handle, scales_p: T.handle):
    tokens = T.int32()
    places = T.int32()
    slots = T.match_buffer(slots_p, (tokens,), "int64")
    rows = T.match_buffer(rows_p, (tokens * HEADS, CHANNELS), "bfloat16")
    codes = T.match_buffer(codes_p, (places, HEADS, CHANNELS), "float8_e4m3fn")
    scales = T.match_buffer(scales_p, (places, HEADS), "float32")
    T.device_entry()
    block = T.cta_id([(tokens * HEADS + WARPS * ROWS - 1) // (WARPS * ROWS)])
    thread = T.thread_id([THREADS])
    for i in T.unroll(ROWS):
        row: T.let = (block * WARPS + thread // 32) * ROWS + i
        if row < tokens * HEADS:
            slot: T.let = T.cast(slots[row // HEADS], "int32")
            if slot >= 0:
                append_row(rows, codes, scales, row, slot, thread % 32)


@T.prim_func
def append_both(
    slots_p: T.handle,
    keys_p: T.handle,
    values_p: T.handle,
    key_codes_p: T.handle,
    value_codes_p: T.handle,
    key_scales_p: T.handle,
    value_scales_p: T.handle,
):
    tokens = T.int32()
    places = T.int32()
    slots = T.match_buffer(slots_p, (tokens,), "int64")
    keys = T.match_buffer(keys_p, (tokens * HEADS, CHANNELS), "bfloat16")
    values = T.match_buffer(values_p, (tokens * HEADS, CHANNELS), "bfloat16")
    key_codes = T.match_buffer(key_codes_p, (places, HEADS, CHANNELS), "float8_e4m3fn")
    value_codes = T.match_buffer(value_codes_p, (places, HEADS, CHANNELS), "float8_e4m3fn")
    key_scales = T.match_buffer(key_scales_p, (places, HEADS), "float32")
    value_scales = T.match_buffer(value_scales_p, (places, HEADS), "float32")
    T.device_entry()
    block = T.cta_id([(tokens * HEADS + WARPS * ROWS - 1) // (WARPS * ROWS)])
    thread = T.thread_id([THREADS])
    for i in T.unroll(ROWS):
        row: T.let = (block * WARPS + thread // 32) * ROWS + i
        if row < tokens * HEADS:
            slot: T.let = T.cast(slots[row // HEADS], "int32")
            if slot >= 0:
                append_row(keys, key_codes, key_scales, row, slot, thread % 32)
                append_row(values, value_codes, value_scales, row, slot, thread % 32)


def compiled(function):
    target = tvm.target.Target("cuda")
    return tvm.compile(tvm.IRModule({"main": function}), target=target, tir_pipeline="tirx")


if PARAMS["fused"]:
    APPEND_BOTH = compiled(append_both)
else:
    APPEND = compiled(append)


def solve(key, value, slot_mapping, key_cache, value_cache, k_scale_cache, v_scale_cache):
    assert key.shape[1:] == (HEADS, CHANNELS)
    rows = [x.view(-1, CHANNELS) for x in (key, value)]
    codes = [
        cache.view(-1, HEADS, CHANNELS).view(torch.float8_e4m3fn)
        for cache in (key_cache, value_cache)
    ]
    scales = [cache.view(-1, HEADS) for cache in (k_scale_cache, v_scale_cache)]
    if PARAMS["fused"]:
        APPEND_BOTH(slot_mapping, *rows, *codes, *scales)
    else:
        for arguments in zip(rows, codes, scales, strict=True):
            APPEND(slot_mapping, *arguments)
    return key_cache, value_cache, k_scale_cache, v_scale_cache
