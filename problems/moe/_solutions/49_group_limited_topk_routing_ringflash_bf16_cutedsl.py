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
THREADS, VECTOR = PARAMS["threads"], PARAMS["vector"]
CHUNKS = EXPERTS // (WARP * VECTOR)  # vectors of a lane
SEGMENT = GROUP_SIZE // VECTOR  # neighbouring lanes that share a group within a chunk
ACCESS = min(VECTOR, 4)  # float32 values of one access


def lane_part(row: cute.Tensor) -> cute.Tensor:
    """The calling lane's eight experts: (one access, accesses of a vector, chunks)."""
    experts = cute.make_layout(
        (WARP, ACCESS, VECTOR // ACCESS, CHUNKS), stride=(VECTOR, 1, ACCESS, WARP * VECTOR)
    )
    return cute.composition(row, experts)[cute.arch.lane_idx(), None, None, None]


def access_atom(part: cute.Tensor) -> cute.CopyAtom:
    """The copy whose instruction moves the first mode of `part`."""
    return cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(),
        part.element_type,
        num_bits_per_copy=ACCESS * part.element_type.width,
    )


def load(row: cute.Tensor) -> cute.Tensor:
    """The lane's values of a row in registers, (vector, chunk)."""
    part = lane_part(row)
    fragment = cute.make_fragment_like(part)
    cute.copy(access_atom(part), part, fragment)
    return cute.make_tensor(fragment.iterator, cute.make_layout((VECTOR, CHUNKS)))


@cute.jit
def sigmoid(x):
    """The logistic function."""
    return 1.0 / (1.0 + cute.math.exp(-x))


@cute.jit
def two_largest(values: cute.Tensor):
    """The two largest biased affinities of each group, in all lanes of its segment, by chunk."""
    first = cute.make_rmem_tensor((CHUNKS,), cutlass.Float32)
    second = cute.make_rmem_tensor((CHUNKS,), cutlass.Float32)
    for c in cutlass.range_constexpr(CHUNKS):
        a, b = values[0, c], cutlass.Float32(-math.inf)
        for j in cutlass.range_constexpr(1, VECTOR):
            b = cute.arch.fmax(b, cute.arch.fmin(a, values[j, c]))
            a = cute.arch.fmax(a, values[j, c])
        for step in cutlass.range_constexpr(int(math.log2(SEGMENT))):
            other_a = cute.arch.shuffle_sync_bfly(a, offset=1 << step)
            other_b = cute.arch.shuffle_sync_bfly(b, offset=1 << step)
            b = cute.arch.fmax(cute.arch.fmin(a, other_a), cute.arch.fmax(b, other_b))
            a = cute.arch.fmax(a, other_a)
        first[c], second[c] = a, b
    return first, second


@cute.jit
def drop_groups(biased: cute.Tensor):
    """Sets the experts of all but the best groups to minus infinity."""
    lane = cute.arch.lane_idx()
    first, second = two_largest(biased)
    # Group g is chunk g // VECTOR of segment g % VECTOR.
    scores = [
        cute.arch.shuffle_sync(
            first[g // VECTOR] + second[g // VECTOR], offset=g % VECTOR * SEGMENT
        )
        for g in range(GROUPS)
    ]
    for c in cutlass.range_constexpr(CHUNKS):
        mine = c * VECTOR + lane // SEGMENT
        score = first[c] + second[c]
        better = cutlass.Int32(0)
        for g in cutlass.range_constexpr(GROUPS):
            # The lower group wins where two are equal.
            ahead = scores[g] > score or (scores[g] == score and g < mine)
            better += 1 if ahead else 0
        for j in cutlass.range_constexpr(VECTOR):
            biased[j, c] = biased[j, c] if better < TOP_GROUPS else cutlass.Float32(-math.inf)


@cute.jit
def best_expert(biased: cute.Tensor, affinity: cute.Tensor):
    """The expert of the largest biased affinity and its affinity, in every lane."""
    lane = cute.arch.lane_idx()
    value, expert, weight = cutlass.Float32(-math.inf), cutlass.Int32(EXPERTS), affinity[0, 0]
    for c in cutlass.range_constexpr(CHUNKS):
        for j in cutlass.range_constexpr(VECTOR):
            better = biased[j, c] > value
            value = biased[j, c] if better else value
            expert = (c * WARP + lane) * VECTOR + j if better else expert
            weight = affinity[j, c] if better else weight
    for step in cutlass.range_constexpr(5):
        other_value = cute.arch.shuffle_sync_bfly(value, offset=1 << step)
        other_expert = cute.arch.shuffle_sync_bfly(expert, offset=1 << step)
        better = other_value > value or (other_value == value and other_expert < expert)
        value = other_value if better else value
        expert = other_expert if better else expert
    owner = expert // VECTOR % WARP
    return expert, cute.arch.shuffle_sync(weight, offset=owner)


@cute.kernel
def sigmoid_kernel(logits: cute.Tensor, scores: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    token = block * (THREADS // WARP) + cute.arch.warp_idx()
    if token < logits.shape[0]:
        values = load(logits[token, None])
        target = lane_part(scores[token, None])
        fragment = cute.make_fragment_like(target)
        fragment.store(sigmoid(values.load()).reshape(fragment.shape))
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
        affinity = load(source[token, None])
        if cutlass.const_expr(PARAMS["fused"]):
            affinity.store(sigmoid(affinity.load()))
        biased = load(bias)
        biased.store(affinity.load() + biased.load())
        drop_groups(biased)

        # Lane r keeps the choice of rank r.
        my_expert, my_weight = cutlass.Int32(0), cutlass.Float32(0.0)
        total = cutlass.Float32(0.0)
        for rank in cutlass.range_constexpr(TOP_K):
            expert, weight = best_expert(biased, affinity)
            total += weight
            my_expert = expert if lane == rank else my_expert
            my_weight = weight if lane == rank else my_weight
            for c in cutlass.range_constexpr(CHUNKS):
                for j in cutlass.range_constexpr(VECTOR):
                    taken = (c * WARP + lane) * VECTOR + j == expert
                    biased[j, c] = cutlass.Float32(-math.inf) if taken else biased[j, c]
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
    bias = expert_bias.float()
    tokens = logits.shape[0]
    indices = torch.empty(tokens, TOP_K, dtype=torch.int64, device=logits.device)
    weights = torch.empty(tokens, TOP_K, dtype=torch.float32, device=logits.device)
    scores = logits if PARAMS["fused"] else torch.empty_like(logits)
    arguments = [
        any_tokens(logits),
        from_dlpack(bias, assumed_align=16),
        cutlass.Float32(scaling_factor),
        any_tokens(indices),
        any_tokens(weights),
        any_tokens(scores),
    ]
    if not COMPILED:
        COMPILED.append(cute.compile(route, *arguments))
    COMPILED[0](*arguments)
    return indices, weights
