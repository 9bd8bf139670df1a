"""Problem 01 in TIRx: split-KV decode, online softmax in base 2, partial results merged."""

import math

import torch
import tvm
from tvm.script import tirx as T

SPACE = {"threads": [64, 128, 256], "vector": [2, 4, 8], "split": [1, 2, 4, 8, 16]}  # fmt: skip
PARAMS = {"threads": 128, "vector": 8, "split": 8}

HEADS = 32
KV_HEADS = 8
GROUP = HEADS // KV_HEADS
DIM = 128
THREADS, VECTOR, SPLIT = PARAMS["threads"], PARAMS["vector"], PARAMS["split"]
WARPS = THREADS // 32
# A lane holds `EACH` channels, so `LANES` lanes hold a token, and a warp takes `TOKENS` at once.
EACH = max(VECTOR, 4)
CHUNKS = EACH // VECTOR
LANES = DIM // EACH
TOKENS = 32 // LANES
# Every (warp, token of the warp) keeps a softmax of its own until the merge.
PARTS = WARPS * TOKENS
LOG2_E = math.log2(math.e)


def channel(chunk, lane):
    """First channel of a lane's chunk."""
    return (chunk * LANES + lane) * VECTOR


@T.inline
def load(target, source, row, head, lane):
    """A lane's channels of one head, widened."""
    for chunk in T.unroll(CHUNKS):
        for j in T.vectorized(VECTOR):
            target[chunk * VECTOR + j] = T.cast(
                source[row, head, channel(chunk, lane) + j], "float32"
            )


@T.inline
def attend(q, k_cache, v_cache, indices, begin, end, scale, n, kv_head, thread, best, total, acc):
    """Runs over the tokens of one part with an online softmax of four query heads."""
    lane: T.let = thread % LANES
    query = T.alloc_local((GROUP, EACH), "float32")
    for g in T.unroll(GROUP):
        for chunk in T.unroll(CHUNKS):
            for j in T.vectorized(VECTOR):
                query[g, chunk * VECTOR + j] = (
                    T.cast(q[n, kv_head * GROUP + g, channel(chunk, lane) + j], "float32")
                    * T.float32(LOG2_E)
                    * scale
                )
    for g in T.unroll(GROUP):
        best[g] = T.float32("-inf")
        total[g] = T.float32(0)
        for i in T.unroll(EACH):
            acc[g, i] = T.float32(0)
    key = T.alloc_local((EACH,), "float32")
    value = T.alloc_local((EACH,), "float32")
    score = T.alloc_local((GROUP,), "float32")
    # Every lane of a warp takes every turn: the shuffles want them all.
    turns: T.let = (end - begin + PARTS - 1) // PARTS
    for turn in range(turns):
        at: T.let = begin + turn * PARTS + thread // LANES
        page: T.let = indices[T.min(at, end - 1)]
        load(key, k_cache, page, kv_head, lane)
        load(value, v_cache, page, kv_head, lane)
        for g in T.unroll(GROUP):
            score[g] = T.float32(0)
            for i in T.unroll(EACH):
                score[g] += query[g, i] * key[i]
            for step in T.unroll(LANES.bit_length() - 1):
                score[g] += T.tvm_warp_shuffle_xor(
                    0xFFFFFFFF, score[g], LANES >> (step + 1), 32, 32
                )
        if at < end:
            for g in T.unroll(GROUP):
                higher: T.let = T.max(best[g], score[g])
                shrink: T.let = T.exp2(best[g] - higher)
                weight: T.let = T.exp2(score[g] - higher)
                total[g] = total[g] * shrink + weight
                for i in T.unroll(EACH):
                    acc[g, i] = acc[g, i] * shrink + weight * value[i]
                best[g] = higher


@T.prim_func
def decode(
    q_p: T.handle,
    k_p: T.handle,
    v_p: T.handle,
    indptr_p: T.handle,
    indices_p: T.handle,
    scale: T.float32,
    out_p: T.handle,
    lse_p: T.handle,
):
    """With one split `out` and `lse` are the results, else what `merge` joins."""
    batch = T.int32()
    pages = T.int32()
    tokens = T.int32()
    q = T.match_buffer(q_p, (batch, HEADS, DIM), "bfloat16")
    k_cache = T.match_buffer(k_p, (pages, KV_HEADS, DIM), "bfloat16")
    v_cache = T.match_buffer(v_p, (pages, KV_HEADS, DIM), "bfloat16")
    indptr = T.match_buffer(indptr_p, (batch + 1,), "int32")
    indices = T.match_buffer(indices_p, (tokens,), "int32")
    out = T.match_buffer(out_p, (batch, SPLIT, HEADS, DIM), "bfloat16" if SPLIT == 1 else "float32")
    lse = T.match_buffer(lse_p, (batch, SPLIT, HEADS), "float32")
    T.device_entry()
    split, kv_head, n = T.cta_id([SPLIT, KV_HEADS, batch])
    thread = T.thread_id([THREADS])
    first: T.let = indptr[n]
    length: T.let = indptr[n + 1] - first
    chunk_length: T.let = (length + SPLIT - 1) // SPLIT
    begin: T.let = first + T.min(split * chunk_length, length)
    end: T.let = first + T.min((split + 1) * chunk_length, length)
    best = T.alloc_local((GROUP,), "float32")
    total = T.alloc_local((GROUP,), "float32")
    acc = T.alloc_local((GROUP, EACH), "float32")
    attend(q, k_cache, v_cache, indices, begin, end, scale, n, kv_head, thread, best, total, acc)

    bests = T.alloc_shared((PARTS, GROUP), "float32")
    totals = T.alloc_shared((PARTS, GROUP), "float32")
    sums = T.alloc_shared((PARTS, GROUP, DIM), "float32")
    part: T.let = thread // LANES
    lane: T.let = thread % LANES
    if lane == 0:
        for g in T.unroll(GROUP):
            bests[part, g] = best[g]
            totals[part, g] = total[g]
    for g in T.unroll(GROUP):
        for chunk in T.unroll(CHUNKS):
            for j in T.vectorized(VECTOR):
                sums[part, g, channel(chunk, lane) + j] = acc[g, chunk * VECTOR + j]
    T.cuda.cta_sync()
    highest = T.alloc_local((1,), "float32")
    weight_sum = T.alloc_local((1,), "float32")
    merged = T.alloc_local((1,), "float32")
    for turn in T.unroll(GROUP * DIM // THREADS):
        g: T.let = (turn * THREADS + thread) // DIM
        d: T.let = (turn * THREADS + thread) % DIM
        highest[0] = T.float32("-inf")
        for p in T.unroll(PARTS):
            highest[0] = T.max(highest[0], bests[p, g])
        weight_sum[0] = T.float32(0)
        merged[0] = T.float32(0)
        # A split without tokens stays at nothing.
        if highest[0] > T.float32("-inf"):
            for p in T.unroll(PARTS):
                weight: T.let = T.exp2(bests[p, g] - highest[0])
                weight_sum[0] += weight * totals[p, g]
                merged[0] += weight * sums[p, g, d]
            merged[0] = merged[0] / weight_sum[0]
        out[n, split, kv_head * GROUP + g, d] = T.cast(merged[0], out.dtype)
        if d == 0:
            lse[n, split, kv_head * GROUP + g] = highest[0] + T.log2(weight_sum[0])


@T.prim_func
def merge(parts_p: T.handle, part_lse_p: T.handle, out_p: T.handle, lse_p: T.handle):
    batch = T.int32()
    parts = T.match_buffer(parts_p, (batch, SPLIT, HEADS, DIM), "float32")
    part_lse = T.match_buffer(part_lse_p, (batch, SPLIT, HEADS), "float32")
    out = T.match_buffer(out_p, (batch, HEADS, DIM), "bfloat16")
    lse = T.match_buffer(lse_p, (batch, HEADS), "float32")
    T.device_entry()
    head, n = T.cta_id([HEADS, batch])
    d = T.thread_id([DIM])
    highest = T.alloc_local((1,), "float32")
    weight_sum = T.alloc_local((1,), "float32")
    merged = T.alloc_local((1,), "float32")
    highest[0] = T.float32("-inf")
    for s in T.unroll(SPLIT):
        highest[0] = T.max(highest[0], part_lse[n, s, head])
    weight_sum[0] = T.float32(0)
    merged[0] = T.float32(0)
    if highest[0] > T.float32("-inf"):
        for s in T.unroll(SPLIT):
            weight: T.let = T.exp2(part_lse[n, s, head] - highest[0])
            weight_sum[0] += weight
            merged[0] += weight * parts[n, s, head, d]
        merged[0] = merged[0] / weight_sum[0]
    out[n, head, d] = T.cast(merged[0], "bfloat16")
    if d == 0:
        lse[n, head] = highest[0] + T.log2(weight_sum[0])


def compiled(function):
    target = tvm.target.Target("cuda")
    return tvm.compile(tvm.IRModule({"main": function}), target=target, tir_pipeline="tirx")


DECODE = compiled(decode)
if SPLIT > 1:
    MERGE = compiled(merge)


def solve(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    assert q.shape[1:] == (HEADS, DIM) and k_cache.shape[1:] == (1, KV_HEADS, DIM)
    batch = q.shape[0]
    out = torch.empty_like(q)
    lse = torch.empty(batch, HEADS, dtype=torch.float32, device="cuda")
    parts, part_lse = out.view(batch, 1, HEADS, DIM), lse.view(batch, 1, HEADS)
    if SPLIT > 1:
        parts = torch.empty(batch, SPLIT, HEADS, DIM, dtype=torch.float32, device="cuda")
        part_lse = torch.empty(batch, SPLIT, HEADS, dtype=torch.float32, device="cuda")
    DECODE(q, k_cache[:, 0], v_cache[:, 0], kv_indptr, kv_indices, sm_scale, parts, part_lse)
    if SPLIT > 1:
        MERGE(parts, part_lse, out, lse)
    return out, lse
