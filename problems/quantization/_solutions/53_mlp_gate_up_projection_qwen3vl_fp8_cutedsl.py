"""fp8 gate-up projection in CuTe DSL: dequantisation and the gate around eager matrix products."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

SPACE = {"threads": [64, 128, 256, 512], "vector": [1, 2, 4, 8, 16], "layout": ["contiguous", "blocked"], "fused": [True, False]}  # fmt: skip
PARAMS = {"threads": 256, "vector": 16, "layout": "contiguous", "fused": True}

BLOCK = 128
THREADS, VECTOR = PARAMS["threads"], PARAMS["vector"]
#: Vectors of each thread.
COUNT = 4
#: Elements of a CTA.
SHARE = THREADS * VECTOR * COUNT


@cute.jit
def place(block: cutlass.Int32, thread: cutlass.Int32, j: cutlass.Constexpr):
    """The number of a thread's j-th vector."""
    if cutlass.const_expr(PARAMS["layout"] == "contiguous"):
        return (block * COUNT + j) * THREADS + thread
    return (block * THREADS + thread) * COUNT + j


@cute.jit
def dequantize(
    codes: cute.Tensor, scales: cute.Tensor, out: cute.Tensor, columns, block, thread, per_row
):
    """A CTA's share of a matrix: each code times the scale of its block.

    `per_row`: a scale holds for 128 columns of one row, else for 128 columns of 128 rows.
    """
    for j in cutlass.range_constexpr(COUNT):
        vector = place(block, thread, j)
        at = vector * VECTOR
        if at < cute.size(codes):
            row = at // columns
            column = at % columns
            if cutlass.const_expr(not per_row):
                row = row // BLOCK
            scale = scales[row, column // BLOCK]
            values = cute.local_tile(codes, (VECTOR,), (vector,)).load().to(cutlass.Float32)
            cute.local_tile(out, (VECTOR,), (vector,)).store(values * scale)


@cute.kernel
def dequantize_one(
    codes: cute.Tensor,
    scales: cute.Tensor,
    out: cute.Tensor,
    columns: cutlass.Constexpr,
    per_row: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    dequantize(codes, scales, out, columns, block, thread, per_row)


@cute.kernel
def dequantize_all(
    x: cute.Tensor,
    scale_x: cute.Tensor,
    wide_x: cute.Tensor,
    gate: cute.Tensor,
    scale_gate: cute.Tensor,
    wide_gate: cute.Tensor,
    up: cute.Tensor,
    scale_up: cute.Tensor,
    wide_up: cute.Tensor,
    columns: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    for_x = cute.ceil_div(cute.size(x), SHARE)
    for_gate = cute.ceil_div(cute.size(gate), SHARE)
    if block < for_x:
        dequantize(x, scale_x, wide_x, columns, block, thread, True)
    elif block < for_x + for_gate:
        dequantize(gate, scale_gate, wide_gate, columns, block - for_x, thread, False)
    else:
        dequantize(up, scale_up, wide_up, columns, block - (for_x + for_gate), thread, False)


@cute.kernel
def silu_times(gate: cute.Tensor, up: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    for j in cutlass.range_constexpr(COUNT):
        vector = place(block, thread, j)
        if vector * VECTOR < cute.size(out):
            g = cute.local_tile(gate, (VECTOR,), (vector,)).load()
            u = cute.local_tile(up, (VECTOR,), (vector,)).load()
            y = g / (1.0 + cute.math.exp(-g)) * u
            cute.local_tile(out, (VECTOR,), (vector,)).store(y.to(cutlass.BFloat16))


@cute.jit
def run_dequantize(
    x: cute.Tensor,
    scale_x: cute.Tensor,
    wide_x: cute.Tensor,
    gate: cute.Tensor,
    scale_gate: cute.Tensor,
    wide_gate: cute.Tensor,
    up: cute.Tensor,
    scale_up: cute.Tensor,
    wide_up: cute.Tensor,
    columns: cutlass.Constexpr,
):
    threads = [THREADS, 1, 1]
    for_x = cute.ceil_div(cute.size(x), SHARE)
    for_weight = cute.ceil_div(cute.size(gate), SHARE)
    if cutlass.const_expr(PARAMS["fused"]):
        dequantize_all(
            *(x, scale_x, wide_x, gate, scale_gate, wide_gate, up, scale_up, wide_up), columns
        ).launch(grid=[for_x + 2 * for_weight, 1, 1], block=threads)
    else:
        dequantize_one(x, scale_x, wide_x, columns, True).launch(grid=[for_x, 1, 1], block=threads)
        dequantize_one(gate, scale_gate, wide_gate, columns, False).launch(
            grid=[for_weight, 1, 1], block=threads
        )
        dequantize_one(up, scale_up, wide_up, columns, False).launch(
            grid=[for_weight, 1, 1], block=threads
        )


@cute.jit
def run_gate(gate: cute.Tensor, up: cute.Tensor, out: cute.Tensor):
    silu_times(gate, up, out).launch(
        grid=[cute.ceil_div(cute.size(out), SHARE), 1, 1], block=[THREADS, 1, 1]
    )


_compiled = {}


def flat(tensor: torch.Tensor):
    return from_dlpack(tensor.view(-1), assumed_align=16)


def call(function, tensors, *static):
    key = (function.__name__, *(tuple(t.shape) for t in tensors))
    if key not in _compiled:
        _compiled[key] = cute.compile(function, *tensors, *static)
    _compiled[key](*tensors)


def solve(x, scale_x, gate_proj_weight, scale_gate, up_proj_weight, scale_up):
    columns = x.shape[1]
    wide = [
        torch.empty(t.shape, dtype=torch.float32, device=x.device)
        for t in (x, gate_proj_weight, up_proj_weight)
    ]
    operands = []
    for codes, scale, out in zip(
        (x, gate_proj_weight, up_proj_weight), (scale_x, scale_gate, scale_up), wide
    ):
        operands += [flat(codes), from_dlpack(scale, assumed_align=4), flat(out)]
    call(run_dequantize, operands, columns)
    gate = wide[0] @ wide[1].t()
    up = wide[0] @ wide[2].t()
    out = torch.empty(gate.shape, dtype=torch.bfloat16, device=x.device)
    call(run_gate, [flat(gate), flat(up), flat(out)])
    return out
