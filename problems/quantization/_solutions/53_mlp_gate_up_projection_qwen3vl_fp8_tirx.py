"""Problem 53 in TIRx: dequantises the operands and gates the products; these stay in torch."""

import torch
import tvm
from tvm.script import tirx as T

SPACE = {"threads": [64, 128, 256, 512], "vector": [1, 2, 4, 8, 16], "layout": ["contiguous", "blocked"], "fused": [True, False]}  # fmt: skip
PARAMS = {"threads": 256, "vector": 8, "layout": "contiguous", "fused": True}

BLOCK = 128
EACH = 16  # elements of a thread
THREADS, VECTOR, FUSED = PARAMS["threads"], PARAMS["vector"], PARAMS["fused"]
TILE = THREADS * EACH
CHUNKS = EACH // VECTOR
# A code is a byte, a result four: results leave in vectors of at most 16 bytes.
RUN = min(VECTOR, 4)


def element(tile, chunk, thread):
    """First element of a thread's chunk."""
    if PARAMS["layout"] == "contiguous":
        return tile * TILE + (chunk * THREADS + thread) * VECTOR
    return tile * TILE + thread * EACH + chunk * VECTOR


@T.inline
def dequantize(codes, scales, out, tile, thread, columns, block_rows):
    """A tile of codes, row by row, times the scales of their blocks."""
    for chunk in T.unroll(CHUNKS):
        at: T.let = element(tile, chunk, thread)
        if at < codes.shape[0]:
            scale: T.let = scales[
                at // columns // block_rows * (columns // BLOCK) + at % columns // BLOCK
            ]
            for run in T.unroll(VECTOR // RUN):
                for j in T.vectorized(RUN):
                    out[element(tile, chunk, thread) + run * RUN + j] = (
                        T.cast(codes[element(tile, chunk, thread) + run * RUN + j], "float32")
                        * scale
                    )


def make_dequantize(columns, block_rows):
    """Dequantises one operand whose blocks are `block_rows` by 128."""

    @T.prim_func
    def one(codes_p: T.handle, scales_p: T.handle, out_p: T.handle):
        n = T.int32()
        m = T.int32()
        codes = T.match_buffer(codes_p, (n,), "float8_e4m3fn")
        scales = T.match_buffer(scales_p, (m,), "float32")
        out = T.match_buffer(out_p, (n,), "float32")
        T.device_entry()
        tile = T.cta_id([(n + TILE - 1) // TILE])
        thread = T.thread_id([THREADS])
        dequantize(codes, scales, out, tile, thread, columns, block_rows)

    return one


def make_dequantize_all(columns):
    """Dequantises the activations and both weights in one launch."""

    @T.prim_func
    def all_three(
        x_p: T.handle,
        x_scales_p: T.handle,
        gate_p: T.handle,
        gate_scales_p: T.handle,
        up_p: T.handle,
        up_scales_p: T.handle,
        x_out_p: T.handle,
        gate_out_p: T.handle,
        up_out_p: T.handle,
    ):
        n = T.int32()
        w = T.int32()
        n_scales = T.int32()
        w_scales = T.int32()
        x = T.match_buffer(x_p, (n,), "float8_e4m3fn")
        x_scales = T.match_buffer(x_scales_p, (n_scales,), "float32")
        gate = T.match_buffer(gate_p, (w,), "float8_e4m3fn")
        gate_scales = T.match_buffer(gate_scales_p, (w_scales,), "float32")
        up = T.match_buffer(up_p, (w,), "float8_e4m3fn")
        up_scales = T.match_buffer(up_scales_p, (w_scales,), "float32")
        x_out = T.match_buffer(x_out_p, (n,), "float32")
        gate_out = T.match_buffer(gate_out_p, (w,), "float32")
        up_out = T.match_buffer(up_out_p, (w,), "float32")
        T.device_entry()
        x_tiles = T.meta_var((n + TILE - 1) // TILE)
        w_tiles = T.meta_var((w + TILE - 1) // TILE)
        tile = T.cta_id([x_tiles + 2 * w_tiles])
        thread = T.thread_id([THREADS])
        if tile < x_tiles:
            dequantize(x, x_scales, x_out, tile, thread, columns, 1)
        else:
            if tile < x_tiles + w_tiles:
                dequantize(gate, gate_scales, gate_out, tile - x_tiles, thread, columns, BLOCK)
            else:
                dequantize(up, up_scales, up_out, tile - x_tiles - w_tiles, thread, columns, BLOCK)

    return all_three


@T.prim_func
def gated(gate_p: T.handle, up_p: T.handle, out_p: T.handle):
    """silu(gate) * up."""
    n = T.int32()
    gate = T.match_buffer(gate_p, (n,), "float32")
    up = T.match_buffer(up_p, (n,), "float32")
    out = T.match_buffer(out_p, (n,), "bfloat16")
    T.device_entry()
    tile = T.cta_id([(n + TILE - 1) // TILE])
    thread = T.thread_id([THREADS])
    g = T.alloc_local((VECTOR,), "float32")
    u = T.alloc_local((VECTOR,), "float32")
    for chunk in T.unroll(CHUNKS):
        at: T.let = element(tile, chunk, thread)
        if at < n:
            for run in T.unroll(VECTOR // RUN):
                for j in T.vectorized(RUN):
                    g[run * RUN + j] = gate[element(tile, chunk, thread) + run * RUN + j]
                for j in T.vectorized(RUN):
                    u[run * RUN + j] = up[element(tile, chunk, thread) + run * RUN + j]
            for i in T.unroll(VECTOR):
                g[i] = g[i] / (T.float32(1) + T.exp(T.float32(0) - g[i])) * u[i]
            for run in T.unroll(VECTOR // RUN):
                for j in T.vectorized(RUN):
                    out[element(tile, chunk, thread) + run * RUN + j] = T.cast(
                        g[run * RUN + j], "bfloat16"
                    )


def compiled(function):
    target = tvm.target.Target("cuda")
    return tvm.compile(tvm.IRModule({"main": function}), target=target, tir_pipeline="tirx")


GATED = compiled(gated)
DEQUANTIZE = {}


def dequantizer(*key):
    """The kernel for a number of columns (and rows of a block), compiled once."""
    if key not in DEQUANTIZE:
        DEQUANTIZE[key] = compiled((make_dequantize_all if FUSED else make_dequantize)(*key))
    return DEQUANTIZE[key]


def solve(x, scale_x, gate_proj_weight, scale_gate, up_proj_weight, scale_up):
    columns = x.shape[1]
    assert columns % BLOCK == 0 and gate_proj_weight.shape[0] % BLOCK == 0
    operands = [(x, scale_x), (gate_proj_weight, scale_gate), (up_proj_weight, scale_up)]
    wide = [torch.empty(codes.shape, dtype=torch.float32, device="cuda") for codes, _ in operands]
    if FUSED:
        flat = [tensor.view(-1) for pair in operands for tensor in pair]
        dequantizer(columns)(*flat, *(tensor.view(-1) for tensor in wide))
    else:
        for (codes, scales), out, rows in zip(operands, wide, (1, BLOCK, BLOCK), strict=True):
            dequantizer(columns, rows)(codes.view(-1), scales.view(-1), out.view(-1))
    activations, gate_weight, up_weight = wide
    gate = activations @ gate_weight.t()
    up = activations @ up_weight.t()
    out = torch.empty(gate.shape, dtype=torch.bfloat16, device="cuda")
    GATED(gate.view(-1), up.view(-1), out.view(-1))
    return out
