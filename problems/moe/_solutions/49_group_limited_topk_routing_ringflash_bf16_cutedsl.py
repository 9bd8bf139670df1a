"""Group-limited top-k routing in CuTe DSL: a warp routes a token, eight experts a lane.

The router projection stays in eager float32, which the decision margins need.
"""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

SPACE = {"threads": [32, 64, 128, 256], "vector": [1, 2, 4, 8], "fused": [True, False]}
PARAMS = {"threads": 128, "vector": 4, "fused": True}

EXPERTS, TOP_K, TOP_GROUPS = 256, 8, 4
#: Experts of a lane, and lanes of a group of 32 experts.
OWN = EXPERTS // 32
LANES = 32 // OWN
GROUPS = EXPERTS // 32
LOWEST = float("-inf")
THREADS, VECTOR = PARAMS["threads"], PARAMS["vector"]
WARPS = THREADS // 32


@cute.jit
def load_own(row: cute.Tensor, lane):
    """This lane's eight values of a row of 256, `VECTOR` in one access."""
    atom = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=32 * VECTOR
    )
    values = cute.make_rmem_tensor((OWN,), cutlass.Float32)
    cute.copy(atom, cute.local_tile(row, (OWN,), (lane,)), values)
    return values.load()


@cute.jit
def sigmoid(x):
    return 1.0 / (1.0 + cute.math.exp(-x))


@cute.jit
def two_largest(values: cute.Tensor):
    """The two largest values of a lane's group of 32 experts."""
    first, second = cutlass.Float32(LOWEST), cutlass.Float32(LOWEST)
    for e in cutlass.range_constexpr(OWN):
        second = cute.arch.fmax(second, cute.arch.fmin(first, values[e]))
        first = cute.arch.fmax(first, values[e])
    for offset in cutlass.range_constexpr(LANES.bit_length() - 1):
        other_first = cute.arch.shuffle_sync_bfly(first, offset=1 << offset)
        other_second = cute.arch.shuffle_sync_bfly(second, offset=1 << offset)
        second = cute.arch.fmax(
            cute.arch.fmax(second, other_second), cute.arch.fmin(first, other_first)
        )
        first = cute.arch.fmax(first, other_first)
    return first, second


@cute.kernel
def route(
    scores: cute.Tensor,
    bias: cute.Tensor,
    indices: cute.Tensor,
    weights: cute.Tensor,
    tokens: cutlass.Int32,
    factor: cutlass.Float32,
    apply_sigmoid: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    lane = thread % 32
    token = block * WARPS + thread // 32
    if token < tokens:
        score = cute.make_rmem_tensor((OWN,), cutlass.Float32)
        loaded = load_own(scores[token, None], lane)
        if cutlass.const_expr(apply_sigmoid):
            loaded = sigmoid(loaded)
        score.store(loaded)
        biased = cute.make_rmem_tensor((OWN,), cutlass.Float32)
        own_bias = cute.local_tile(bias, (OWN,), (lane,)).load().to(cutlass.Float32)
        biased.store(loaded + own_bias)

        # A group is kept if fewer than four others have a larger sum of their two best.
        first, second = two_largest(biased)
        mine = first + second
        group = lane // LANES
        better = cutlass.Int32(0)
        for g in cutlass.range_constexpr(GROUPS):
            other = cute.arch.shuffle_sync(mine, g * LANES)
            if other > mine or (other == mine and g < group):
                better = better + 1
        for e in cutlass.range_constexpr(OWN):
            biased[e] = cute.where(better < TOP_GROUPS, biased[e], LOWEST)

        chosen = cutlass.Int32(0)
        chosen_score = cutlass.Float32(0.0)
        total = cutlass.Float32(0.0)
        for k in cutlass.range_constexpr(TOP_K):
            best, best_score = cutlass.Float32(LOWEST), cutlass.Float32(0.0)
            expert = cutlass.Int32(EXPERTS)
            for e in cutlass.range_constexpr(OWN):
                larger = biased[e] > best
                best = cute.where(larger, biased[e], best)
                best_score = cute.where(larger, score[e], best_score)
                expert = cute.where(larger, lane * OWN + e, expert)
            for offset in cutlass.range_constexpr(5):
                other = cute.arch.shuffle_sync_bfly(best, offset=1 << offset)
                other_score = cute.arch.shuffle_sync_bfly(best_score, offset=1 << offset)
                other_expert = cute.arch.shuffle_sync_bfly(expert, offset=1 << offset)
                wins = (other > best) | ((other == best) & (other_expert < expert))
                best = cute.where(wins, other, best)
                best_score = cute.where(wins, other_score, best_score)
                expert = cute.where(wins, other_expert, expert)
            for e in cutlass.range_constexpr(OWN):
                biased[e] = cute.where(expert == lane * OWN + e, LOWEST, biased[e])
            total = total + best_score
            chosen = cute.where(lane == k, expert, chosen)
            chosen_score = cute.where(lane == k, best_score, chosen_score)
        if lane < TOP_K:
            indices[token, lane] = chosen.to(cutlass.Int64)
            weights[token, lane] = chosen_score / (total + 1e-20) * factor


@cute.kernel
def score_tokens(logits: cute.Tensor, scores: cute.Tensor, tokens: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    lane = thread % 32
    token = block * WARPS + thread // 32
    if token < tokens:
        values = sigmoid(load_own(logits[token, None], lane))
        cute.local_tile(scores[token, None], (OWN,), (lane,)).store(values)


@cute.jit
def run(
    logits: cute.Tensor,
    scores: cute.Tensor,
    bias: cute.Tensor,
    indices: cute.Tensor,
    weights: cute.Tensor,
    tokens: cutlass.Int32,
    factor: cutlass.Float32,
):
    grid, block = [cute.ceil_div(tokens, WARPS), 1, 1], [THREADS, 1, 1]
    if cutlass.const_expr(PARAMS["fused"]):
        route(logits, bias, indices, weights, tokens, factor, True).launch(grid=grid, block=block)
    else:
        score_tokens(logits, scores, tokens).launch(grid=grid, block=block)
        route(scores, bias, indices, weights, tokens, factor, False).launch(grid=grid, block=block)


_compiled = {}


def solve(hidden_states, weight, expert_bias, scaling_factor):
    tokens, device = hidden_states.shape[0], hidden_states.device
    logits = hidden_states.to(torch.float32) @ weight.to(torch.float32).t()
    scores = logits if PARAMS["fused"] else torch.empty_like(logits)
    indices = torch.empty(tokens, TOP_K, dtype=torch.int64, device=device)
    weights = torch.empty(tokens, TOP_K, dtype=torch.float32, device=device)
    flat = (logits, scores, expert_bias, indices, weights)
    tensors = [from_dlpack(t, assumed_align=32) for t in flat]
    if tokens not in _compiled:
        _compiled[tokens] = cute.compile(run, *tensors, tokens, scaling_factor)
    _compiled[tokens](*tensors, tokens, scaling_factor)
    return indices, weights
