"""Problem 49 in CuTe DSL: the router's product stays eager, a warp routes a token in registers."""

import math

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

SPACE = {"threads": [32, 64, 128, 256], "vector": [1, 2, 4, 8], "fused": [True, False]}  # fmt: skip
PARAMS = {"threads": 128, "vector": 4, "fused": True}

EXPERTS = 256
GROUPS = 8
GROUP_SIZE = EXPERTS // GROUPS
TOP_GROUPS = 4
TOP_K = 8
WARP = 32
EACH = EXPERTS // WARP  # experts of a lane, all of one group
LANES = GROUP_SIZE // EACH  # neighbouring lanes that share a group
THREADS, VECTOR = PARAMS["threads"], PARAMS["vector"]


def lane_part(row: cute.Tensor) -> cute.Tensor:
    """The calling lane's experts: (one access of 16 bytes at most, accesses)."""
    access = min(VECTOR, 128 // row.element_type.width)
    own = cute.local_tile(row, (EACH,), (cute.arch.lane_idx(),))
    return cute.composition(own, cute.make_layout((access, EACH // access)))


def access_atom(part: cute.Tensor) -> cute.CopyAtom:
    """The copy whose instruction moves the first mode of `part`."""
    bits = cute.size(part, mode=[0]) * part.element_type.width
    return cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), part.element_type, num_bits_per_copy=bits
    )


def load(row: cute.Tensor) -> cute.TensorSSA:
    """The lane's values of a row, widened to float32."""
    part = lane_part(row)
    fragment = cute.make_fragment_like(part)
    cute.copy(access_atom(part), part, fragment)
    return fragment.load().to(cutlass.Float32).reshape((EACH,))


def in_registers(values: cute.TensorSSA) -> cute.Tensor:
    """The lane's values one by one."""
    fragment = cute.make_rmem_tensor((EACH,), cutlass.Float32)
    fragment.store(values)
    return fragment


@cute.jit
def sigmoid(x):
    """The logistic function."""
    return 1.0 / (1.0 + cute.math.exp(-x))


@cute.jit
def two_largest(values: cute.Tensor):
    """The two largest values of the lane's group, in all of its lanes."""
    first, second = values[0], cutlass.Float32(-math.inf)
    for e in cutlass.range_constexpr(1, EACH):
        second = cute.arch.fmax(second, cute.arch.fmin(first, values[e]))
        first = cute.arch.fmax(first, values[e])
    for step in cutlass.range_constexpr(int(math.log2(LANES))):
        other_first = cute.arch.shuffle_sync_bfly(first, offset=1 << step)
        other_second = cute.arch.shuffle_sync_bfly(second, offset=1 << step)
        second = cute.arch.fmax(
            cute.arch.fmin(first, other_first), cute.arch.fmax(second, other_second)
        )
        first = cute.arch.fmax(first, other_first)
    return first, second


@cute.jit
def drop_groups(biased: cute.Tensor):
    """Sets the experts of all but the best groups to minus infinity."""
    group = cute.arch.lane_idx() // LANES
    first, second = two_largest(biased)
    score = first + second
    better = cutlass.Int32(0)
    for g in cutlass.range_constexpr(GROUPS):
        other = cute.arch.shuffle_sync(score, offset=g * LANES)
        # The lower group wins where two are equal.
        if other > score or (other == score and g < group):
            better += 1
    for e in cutlass.range_constexpr(EACH):
        biased[e] = biased[e] if better < TOP_GROUPS else cutlass.Float32(-math.inf)


@cute.jit
def best_expert(biased: cute.Tensor, affinity: cute.Tensor):
    """The expert of the largest biased affinity and its affinity, in every lane."""
    lane = cute.arch.lane_idx()
    value, expert, weight = biased[0], lane * EACH, affinity[0]
    for e in cutlass.range_constexpr(1, EACH):
        better = biased[e] > value
        value = biased[e] if better else value
        expert = lane * EACH + e if better else expert
        weight = affinity[e] if better else weight
    for step in cutlass.range_constexpr(int(math.log2(WARP))):
        other_value = cute.arch.shuffle_sync_bfly(value, offset=1 << step)
        other_expert = cute.arch.shuffle_sync_bfly(expert, offset=1 << step)
        better = other_value > value or (other_value == value and other_expert < expert)
        value = other_value if better else value
        expert = other_expert if better else expert
    return expert, cute.arch.shuffle_sync(weight, offset=expert // EACH)


@cute.kernel
def sigmoid_kernel(logits: cute.Tensor, scores: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    token = block * (THREADS // WARP) + cute.arch.warp_idx()
    if token < logits.shape[0]:
        target = lane_part(scores[token, None])
        fragment = cute.make_fragment_like(target)
        fragment.store(sigmoid(load(logits[token, None])).reshape(fragment.shape))
        cute.copy(access_atom(target), fragment, target)


@cute.kernel
def route_kernel(
    source: cute.Tensor,
    bias: cute.Tensor,
    factor: cutlass.Float32,
    indices: cute.Tensor,
    weights: cute.Tensor,
):
    """`source` has the logits where `fused`, else their sigmoids."""
    block, _, _ = cute.arch.block_idx()
    lane = cute.arch.lane_idx()
    token = block * (THREADS // WARP) + cute.arch.warp_idx()
    if token < source.shape[0]:
        scores = load(source[token, None])
        if cutlass.const_expr(PARAMS["fused"]):
            scores = sigmoid(scores)
        affinity = in_registers(scores)
        biased = in_registers(scores + load(bias))
        drop_groups(biased)

        # Lane r keeps the choice of rank r.
        my_expert, my_weight = cutlass.Int32(0), cutlass.Float32(0.0)
        total = cutlass.Float32(0.0)
        for rank in cutlass.range_constexpr(TOP_K):
            expert, weight = best_expert(biased, affinity)
            total += weight
            my_expert = expert if lane == rank else my_expert
            my_weight = weight if lane == rank else my_weight
            for e in cutlass.range_constexpr(EACH):
                taken = lane * EACH + e == expert
                biased[e] = cutlass.Float32(-math.inf) if taken else biased[e]
        if lane < TOP_K:
            indices[token, lane] = my_expert.to(cutlass.Int64)
            weights[token, lane] = my_weight / (total + 1e-20) * factor


@cute.jit
def route(
    logits: cute.Tensor,
    bias: cute.Tensor,
    factor: cutlass.Float32,
    indices: cute.Tensor,
    weights: cute.Tensor,
    scores: cute.Tensor,
):
    grid = [cute.ceil_div(logits.shape[0], THREADS // WARP), 1, 1]
    block = [THREADS, 1, 1]
    source = logits
    if cutlass.const_expr(not PARAMS["fused"]):
        sigmoid_kernel(logits, scores).launch(grid=grid, block=block)
        source = scores
    route_kernel(source, bias, factor, indices, weights).launch(grid=grid, block=block)


def any_tokens(tensor):
    """The tensor for a program that serves every number of tokens."""
    return from_dlpack(tensor, assumed_align=16).mark_compact_shape_dynamic(
        mode=0, stride_order=(0, 1)
    )


COMPILED = []


def solve(hidden_states, weight, expert_bias, scaling_factor):
    assert weight.shape[0] == EXPERTS
    # The decision margins need float32, so the product keeps its precision.
    logits = hidden_states.float() @ weight.float().t()
    tokens = logits.shape[0]
    indices = torch.empty(tokens, TOP_K, dtype=torch.int64, device=logits.device)
    weights = torch.empty(tokens, TOP_K, dtype=torch.float32, device=logits.device)
    scores = logits if PARAMS["fused"] else torch.empty_like(logits)
    arguments = [
        any_tokens(logits),
        from_dlpack(expert_bias, assumed_align=16),
        cutlass.Float32(scaling_factor),
        any_tokens(indices),
        any_tokens(weights),
        any_tokens(scores),
    ]
    if not COMPILED:
        COMPILED.append(cute.compile(route, *arguments))
    COMPILED[0](*arguments)
    return indices, weights
