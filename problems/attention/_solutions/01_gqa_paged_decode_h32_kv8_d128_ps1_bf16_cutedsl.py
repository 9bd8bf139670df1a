"""Problem 01 in CuTe DSL: split-KV decode; a CTA takes one sequence, one KV head and one split."""

import math

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack
from cutlass.utils import SmemAllocator

SPACE = {"threads": [64, 128, 256], "vector": [2, 4, 8], "split": [1, 2, 4, 8, 16]}  # fmt: skip
PARAMS = {"threads": 128, "vector": 8, "split": 8}

DIM = 128
GROUP = 4  # query heads of a KV head
WARP = 32
THREADS, VECTOR, SPLIT = PARAMS["threads"], PARAMS["vector"], PARAMS["split"]
LANES = min(WARP, DIM // VECTOR)  # lanes that share a token
VALUES = DIM // LANES  # channels of a lane
TOKENS = WARP // LANES  # tokens that a warp takes at a time
PARTS = THREADS // LANES  # groups of lanes in a CTA: each has a softmax of its own
MERGE_THREADS = 128
# The running maximum before the first token: finite, so that differences with it are numbers.
LOWEST = -1e30


def lane_part(row: cute.Tensor, lane: cutlass.Int32) -> cute.Tensor:
    """The channels of a row that a lane of a group takes: (one access, accesses)."""
    channels = cute.make_layout(
        (LANES, VECTOR, VALUES // VECTOR), stride=(VECTOR, 1, LANES * VECTOR)
    )
    return cute.composition(row, channels)[lane, None, None]


def load(row: cute.Tensor, lane: cutlass.Int32) -> cute.TensorSSA:
    """The lane's channels of a row, widened to float32."""
    part = lane_part(row, lane)
    fragment = cute.make_fragment_like(part)
    atom = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(),
        part.element_type,
        num_bits_per_copy=VECTOR * part.element_type.width,
    )
    cute.copy(atom, part, fragment)
    return fragment.load().to(cutlass.Float32)


@cute.jit
def write_average(merged, weights, row: cute.Tensor, channel):
    """One channel of a softmax's average; zero where there was no token."""
    average = merged / weights if weights > 0.0 else cutlass.Float32(0.0)
    row[channel] = average.to(row.element_type)


@cute.kernel
def attend_kernel(
    q: cute.Tensor,
    k_cache: cute.Tensor,
    v_cache: cute.Tensor,
    indptr: cute.Tensor,
    indices: cute.Tensor,
    scale: cutlass.Float32,
    output: cute.Tensor,
    lse: cute.Tensor,
):
    """Attention over one split's tokens to `output` and `lse`, (split, sequence, query head, ..).

    `scale` includes log2(e), so that the softmax is in base 2."""
    split, kv_head, sequence = cute.arch.block_idx()
    tidx, _, _ = cute.arch.thread_idx()
    part, lane = tidx // LANES, tidx % LANES

    begin, end = indptr[sequence], indptr[sequence + 1]
    length = cute.ceil_div(end - begin, SPLIT)
    first = begin + split * length
    last = cutlass.min(first + length, end)

    queries = [load(q[sequence, kv_head * GROUP + h, None], lane) for h in range(GROUP)]
    best = cute.make_rmem_tensor((GROUP,), cutlass.Float32)
    total = cute.make_rmem_tensor((GROUP,), cutlass.Float32)
    sums = cute.make_rmem_tensor((VECTOR, VALUES // VECTOR, GROUP), cutlass.Float32)
    best.fill(LOWEST)
    total.fill(0.0)
    sums.fill(0.0)

    # All lanes of a warp make the same rounds, since they exchange values in each.
    warp_first = first + cute.arch.warp_idx() * TOKENS
    for start in cutlass.range(warp_first, last, THREADS // WARP * TOKENS):
        token = start + part % TOKENS
        page = indices[cutlass.min(token, last - 1)]
        key = load(k_cache[page, kv_head, None], lane)
        value = load(v_cache[page, kv_head, None], lane)
        for h in cutlass.range_constexpr(GROUP):
            logit = cute.arch.warp_reduction_sum(
                (queries[h] * key).reduce(cute.ReductionOp.ADD, 0.0, 0), threads_in_group=LANES
            )
            logit = logit * scale if token < last else cutlass.Float32(-math.inf)
            new_best = cute.arch.fmax(best[h], logit)
            shrink = cute.math.exp2(best[h] - new_best)
            weight = cute.math.exp2(logit - new_best)
            best[h] = new_best
            total[h] = total[h] * shrink + weight
            mine = sums[None, None, h]
            mine.store(mine.load() * shrink + value * weight)

    # Each group of lanes leaves its softmax in shared memory; then threads merge them by channel.
    smem = SmemAllocator()
    part_best = smem.allocate_tensor(cutlass.Float32, cute.make_layout((GROUP, PARTS)), 16)
    part_total = smem.allocate_tensor(cutlass.Float32, cute.make_layout((GROUP, PARTS)), 16)
    part_sums = smem.allocate_tensor(cutlass.Float32, cute.make_layout((DIM, GROUP, PARTS)), 16)
    for h in cutlass.range_constexpr(GROUP):
        lane_part(part_sums[None, h, part], lane).store(sums[None, None, h].load())
        if lane == 0:
            part_best[h, part] = best[h]
            part_total[h, part] = total[h]
    cute.arch.sync_threads()

    for item in cutlass.range(tidx, GROUP * DIM, THREADS):
        h, channel = item // DIM, item % DIM
        top = cutlass.Float32(LOWEST)
        for p in cutlass.range_constexpr(PARTS):
            top = cute.arch.fmax(top, part_best[h, p])
        weights, merged = cutlass.Float32(0.0), cutlass.Float32(0.0)
        for p in cutlass.range_constexpr(PARTS):
            weight = cute.math.exp2(part_best[h, p] - top)
            weights += part_total[h, p] * weight
            merged += part_sums[channel, h, p] * weight
        head = kv_head * GROUP + h
        write_average(merged, weights, output[split, sequence, head, None], channel)
        if channel == 0:
            lse[split, sequence, head] = top + cute.math.log2(weights)


@cute.kernel
def merge_kernel(
    split_output: cute.Tensor, split_lse: cute.Tensor, output: cute.Tensor, lse: cute.Tensor
):
    """The splits' averages, weighted by their shares of the whole softmax."""
    head, sequence, _ = cute.arch.block_idx()
    channel, _, _ = cute.arch.thread_idx()
    top = cutlass.Float32(LOWEST)
    for s in cutlass.range_constexpr(SPLIT):
        top = cute.arch.fmax(top, split_lse[s, sequence, head])
    weights, merged = cutlass.Float32(0.0), cutlass.Float32(0.0)
    for s in cutlass.range_constexpr(SPLIT):
        weight = cute.math.exp2(split_lse[s, sequence, head] - top)
        weights += weight
        merged += split_output[s, sequence, head, channel] * weight
    write_average(merged, weights, output[sequence, head, None], channel)
    if channel == 0:
        lse[sequence, head] = top + cute.math.log2(weights)


@cute.jit
def attend(
    q: cute.Tensor,
    k_cache: cute.Tensor,
    v_cache: cute.Tensor,
    indptr: cute.Tensor,
    indices: cute.Tensor,
    scale: cutlass.Float32,
    split_output: cute.Tensor,
    split_lse: cute.Tensor,
    output: cute.Tensor,
    lse: cute.Tensor,
):
    sequences, heads = q.shape[0], q.shape[1]
    attend_kernel(q, k_cache, v_cache, indptr, indices, scale, split_output, split_lse).launch(
        grid=[SPLIT, k_cache.shape[1], sequences], block=[THREADS, 1, 1]
    )
    if cutlass.const_expr(SPLIT > 1):
        merge_kernel(split_output, split_lse, output, lse).launch(
            grid=[heads, sequences, 1], block=[MERGE_THREADS, 1, 1]
        )


def any_length(tensor, mode=0):
    """The tensor for a program that serves every number of sequences, tokens or pages."""
    return from_dlpack(tensor, assumed_align=16).mark_compact_shape_dynamic(
        mode=mode, stride_order=tuple(range(tensor.dim()))
    )


COMPILED = []


def solve(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    sequences, heads, dim = q.shape
    assert dim == DIM and k_cache.shape[1] == 1 and heads == GROUP * k_cache.shape[2]
    output = torch.empty_like(q)
    lse = torch.empty(sequences, heads, dtype=torch.float32, device=q.device)
    if SPLIT == 1:
        split_output, split_lse = output[None], lse[None]
    else:
        split_output = torch.empty(SPLIT, *q.shape, dtype=torch.float32, device=q.device)
        split_lse = torch.empty(SPLIT, sequences, heads, dtype=torch.float32, device=q.device)
    arguments = [
        any_length(q),
        any_length(k_cache[:, 0]),
        any_length(v_cache[:, 0]),
        any_length(kv_indptr),
        any_length(kv_indices),
        cutlass.Float32(sm_scale * math.log2(math.e)),
        any_length(split_output, mode=1),
        any_length(split_lse, mode=1),
        any_length(output),
        any_length(lse),
    ]
    if not COMPILED:
        COMPILED.append(cute.compile(attend, *arguments))
    COMPILED[0](*arguments)
    return output, lse
