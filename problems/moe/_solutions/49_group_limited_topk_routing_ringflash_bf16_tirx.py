"""Problem 49 in TIRx: a warp routes a token, eight experts a lane; the projection stays in torch."""

import torch
import tvm
from tvm.script import tirx as T

SPACE = {"threads": [32, 64, 128, 256], "vector": [1, 2, 4, 8], "fused": [True, False]}  # fmt: skip
PARAMS = {"threads": 128, "vector": 4, "fused": True}

EXPERTS = 256
GROUPS = 8
KEPT_GROUPS = 4
TOP = 8
THREADS, VECTOR, FUSED = PARAMS["threads"], PARAMS["vector"], PARAMS["fused"]
WARPS = THREADS // 32
EACH = EXPERTS // 32
CHUNKS = EACH // VECTOR
# Lanes that share a group of experts, neighbours.
LANES = 32 // GROUPS


@T.inline
def load(target, source, row, lane):
    """A lane's eight experts."""
    for chunk in T.unroll(CHUNKS):
        for j in T.vectorized(VECTOR):
            target[chunk * VECTOR + j] = source[row, lane * EACH + chunk * VECTOR + j]


@T.inline
def sigmoid(x):
    for i in T.unroll(EACH):
        x[i] = T.float32(1) / (T.float32(1) + T.exp(T.float32(0) - x[i]))


@T.inline
def keep_two(first, second, value):
    """Takes a value into the two largest so far."""
    second[0] = T.max(second[0], T.min(first[0], value))
    first[0] = T.max(first[0], value)


@T.inline
def route(score, expert_bias, indices, weights, factor, token, lane):
    """From the scores of a lane's experts to the token's experts and weights."""
    biased = T.alloc_local((EACH,), "float32")
    for chunk in T.unroll(CHUNKS):
        for j in T.vectorized(VECTOR):
            biased[chunk * VECTOR + j] = score[chunk * VECTOR + j] + T.cast(
                expert_bias[lane * EACH + chunk * VECTOR + j], "float32"
            )
    # A group's score is the sum of its two largest.
    first = T.alloc_local((1,), "float32")
    second = T.alloc_local((1,), "float32")
    first[0] = T.float32("-inf")
    second[0] = T.float32("-inf")
    for i in T.unroll(EACH):
        keep_two(first, second, biased[i])
    for step in T.unroll(LANES.bit_length() - 1):
        other_first: T.let = T.tvm_warp_shuffle_xor(0xFFFFFFFF, first[0], 1 << step, 32, 32)
        other_second: T.let = T.tvm_warp_shuffle_xor(0xFFFFFFFF, second[0], 1 << step, 32, 32)
        keep_two(first, second, other_first)
        second[0] = T.max(second[0], other_second)
    group_score: T.let = first[0] + second[0]
    # A group is kept if fewer than four are ahead of it.
    ahead = T.alloc_local((1,), "int32")
    ahead[0] = 0
    for g in T.unroll(GROUPS):
        other: T.let = T.tvm_warp_shuffle(0xFFFFFFFF, group_score, g * LANES, 32, 32)
        if other > group_score or (other == group_score and g < lane // LANES):
            ahead[0] += 1
    if ahead[0] >= KEPT_GROUPS:
        for i in T.unroll(EACH):
            biased[i] = T.float32("-inf")
    # The best expert of the warp, eight times; lane k keeps the k-th.
    best = T.alloc_local((1,), "float32")
    expert = T.alloc_local((1,), "int32")
    own = T.alloc_local((1,), "float32")
    kept_score = T.alloc_local((1,), "float32")
    kept_expert = T.alloc_local((1,), "int32")
    total = T.alloc_local((1,), "float32")
    kept_score[0] = T.float32(0)
    kept_expert[0] = 0
    total[0] = T.float32(0)
    for k in T.unroll(TOP):
        best[0] = biased[0]
        expert[0] = lane * EACH
        for i in T.unroll(EACH - 1):
            if biased[i + 1] > best[0]:
                best[0] = biased[i + 1]
                expert[0] = lane * EACH + i + 1
        for step in T.unroll(5):
            other_best: T.let = T.tvm_warp_shuffle_xor(0xFFFFFFFF, best[0], 16 >> step, 32, 32)
            other_expert: T.let = T.tvm_warp_shuffle_xor(0xFFFFFFFF, expert[0], 16 >> step, 32, 32)
            if other_best > best[0] or (other_best == best[0] and other_expert < expert[0]):
                best[0] = other_best
                expert[0] = other_expert
        own[0] = T.float32(0)
        for i in T.unroll(EACH):
            if expert[0] == lane * EACH + i:
                own[0] = score[i]
                biased[i] = T.float32("-inf")
        chosen: T.let = T.tvm_warp_shuffle(0xFFFFFFFF, own[0], expert[0] // EACH, 32, 32)
        total[0] += chosen
        if lane == k:
            kept_score[0] = chosen
            kept_expert[0] = expert[0]
    if lane < TOP:
        indices[token, lane] = T.cast(kept_expert[0], "int64")
        weights[token, lane] = kept_score[0] / (total[0] + T.float32(1e-20)) * factor


@T.prim_func
def scores_of(logits_p: T.handle, scores_p: T.handle):
    tokens = T.int32()
    logits = T.match_buffer(logits_p, (tokens, EXPERTS), "float32")
    scores = T.match_buffer(scores_p, (tokens, EXPERTS), "float32")
    T.device_entry()
    block = T.cta_id([(tokens + WARPS - 1) // WARPS])
    thread = T.thread_id([THREADS])
    lane: T.let = thread % 32
    token: T.let = block * WARPS + thread // 32
    x = T.alloc_local((EACH,), "float32")
    if token < tokens:
        load(x, logits, token, lane)
        sigmoid(x)
        for chunk in T.unroll(CHUNKS):
            for j in T.vectorized(VECTOR):
                scores[token, lane * EACH + chunk * VECTOR + j] = x[chunk * VECTOR + j]


@T.prim_func
def routed(
    source_p: T.handle,
    bias_p: T.handle,
    factor: T.float32,
    indices_p: T.handle,
    weights_p: T.handle,
):
    """`source` holds logits where `fused`, else scores."""
    tokens = T.int32()
    source = T.match_buffer(source_p, (tokens, EXPERTS), "float32")
    expert_bias = T.match_buffer(bias_p, (EXPERTS,), "bfloat16")
    indices = T.match_buffer(indices_p, (tokens, TOP), "int64")
    weights = T.match_buffer(weights_p, (tokens, TOP), "float32")
    T.device_entry()
    block = T.cta_id([(tokens + WARPS - 1) // WARPS])
    thread = T.thread_id([THREADS])
    lane: T.let = thread % 32
    token: T.let = block * WARPS + thread // 32
    score = T.alloc_local((EACH,), "float32")
    if token < tokens:
        load(score, source, token, lane)
        if FUSED:
            sigmoid(score)
        route(score, expert_bias, indices, weights, factor, token, lane)


def compiled(function):
    target = tvm.target.Target("cuda")
    return tvm.compile(tvm.IRModule({"main": function}), target=target, tir_pipeline="tirx")


ROUTED = compiled(routed)
if not FUSED:
    SCORES_OF = compiled(scores_of)


def solve(hidden_states, weight, expert_bias, scaling_factor):
    assert weight.shape[0] == EXPERTS
    tokens = hidden_states.shape[0]
    # The choice of experts needs single precision all the way.
    source = hidden_states.float() @ weight.float().t()
    if not FUSED:
        logits, source = source, torch.empty_like(source)
        SCORES_OF(logits, source)
    indices = torch.empty(tokens, TOP, dtype=torch.int64, device="cuda")
    weights = torch.empty(tokens, TOP, dtype=torch.float32, device="cuda")
    ROUTED(source, expert_bias, scaling_factor, indices, weights)
    return indices, weights
