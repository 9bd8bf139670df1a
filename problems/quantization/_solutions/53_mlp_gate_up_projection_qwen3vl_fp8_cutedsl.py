"""Problem 53 in CuTe DSL: dequantisation and gate are kernels, the two products stay eager."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

SPACE = {"threads": [64, 128, 256, 512], "vector": [1, 2, 4, 8, 16], "layout": ["contiguous", "blocked"], "fused": [True, False]}  # fmt: skip
PARAMS = {"threads": 256, "vector": 16, "layout": "contiguous", "fused": True}

BLOCK = 128  # columns, and for a weight rows, that share a scale
VALUES = 16  # elements of a thread
THREADS, VECTOR = PARAMS["threads"], PARAMS["vector"]
VECTORS = VALUES // VECTOR
TILE = THREADS * VALUES  # elements of a CTA


def first_element(block: cutlass.Int32, i: int) -> cutlass.Int32:
    """Where the calling thread's vector `i` begins in a flat operand."""
    tidx, _, _ = cute.arch.thread_idx()
    if PARAMS["layout"] == "contiguous":
        inside = (i * THREADS + tidx) * VECTOR
    else:
        inside = (tidx * VECTORS + i) * VECTOR
    return block * TILE + inside


def vector_at(flat: cute.Tensor, start: cutlass.Int32) -> cute.Tensor:
    """The vector of a flat tensor that begins at `start`, a multiple of VECTOR."""
    return cute.local_tile(flat, (VECTOR,), (start // VECTOR,))


def move(source: cute.Tensor, target: cute.Tensor):
    """Copies a vector, in accesses of 16 bytes at most."""
    width = source.element_type.width
    access = min(VECTOR, 128 // width)
    atom = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), source.element_type, num_bits_per_copy=access * width
    )
    pieces = cute.make_layout((access, VECTOR // access))
    cute.copy(atom, cute.composition(source, pieces), cute.composition(target, pieces))


@cute.jit
def dequantize_tile(
    codes: cute.Tensor,
    scales: cute.Tensor,
    out: cute.Tensor,
    columns: cutlass.Constexpr,
    scale_rows: cutlass.Constexpr,
    block: cutlass.Int32,
):
    """A tile of `codes` times its scales; a scale serves `scale_rows` rows of 128 columns."""
    count = cute.size(codes)
    values = cute.make_rmem_tensor((VECTOR, VECTORS), codes.element_type)
    for i in cutlass.range_constexpr(VECTORS):
        start = first_element(block, i)
        if start < count:
            move(vector_at(codes, start), values[None, i])
    products = cute.make_rmem_tensor((VECTOR, VECTORS), cutlass.Float32)
    products.store(values.load().to(cutlass.Float32))
    for i in cutlass.range_constexpr(VECTORS):
        start = first_element(block, i)
        if start < count:
            row, column = start // columns, start % columns
            scale = scales[row // scale_rows, column // BLOCK]
            product = products[None, i]
            product.store(product.load() * scale)
            move(product, vector_at(out, start))


@cute.kernel
def dequantize_kernel(
    codes: tuple,
    scales: tuple,
    outs: tuple,
    columns: cutlass.Constexpr,
    scale_rows: cutlass.Constexpr,
):
    """The operands one after another, each from a CTA of its own on."""
    block, _, _ = cute.arch.block_idx()
    first = cutlass.Int32(0)
    for which in cutlass.range_constexpr(len(codes)):
        blocks = cute.ceil_div(cute.size(codes[which]), TILE)
        if block >= first and block < first + blocks:
            dequantize_tile(
                codes[which],
                scales[which],
                outs[which],
                columns,
                scale_rows[which],
                block - first,
            )
        first += blocks


@cute.jit
def dequantize(
    codes: tuple,
    scales: tuple,
    outs: tuple,
    columns: cutlass.Constexpr,
    scale_rows: cutlass.Constexpr,
):
    blocks = cutlass.Int32(0)
    for which in cutlass.range_constexpr(len(codes)):
        blocks += cute.ceil_div(cute.size(codes[which]), TILE)
    dequantize_kernel(codes, scales, outs, columns, scale_rows).launch(
        grid=[blocks, 1, 1], block=[THREADS, 1, 1]
    )


@cute.kernel
def gate_kernel(gate: cute.Tensor, up: cute.Tensor, out: cute.Tensor):
    """silu(gate) * up of flat tensors."""
    block, _, _ = cute.arch.block_idx()
    for i in cutlass.range_constexpr(VECTORS):
        start = first_element(block, i)
        if start < cute.size(out):
            g = cute.make_rmem_tensor((VECTOR,), cutlass.Float32)
            u = cute.make_rmem_tensor((VECTOR,), cutlass.Float32)
            move(vector_at(gate, start), g)
            move(vector_at(up, start), u)
            activated = g.load() / (1.0 + cute.math.exp(-g.load()))
            rounded = cute.make_rmem_tensor((VECTOR,), out.element_type)
            rounded.store((activated * u.load()).to(out.element_type))
            move(rounded, vector_at(out, start))


@cute.jit
def apply_gate(gate: cute.Tensor, up: cute.Tensor, out: cute.Tensor):
    gate_kernel(gate, up, out).launch(
        grid=[cute.ceil_div(cute.size(out), TILE), 1, 1], block=[THREADS, 1, 1]
    )


def flat(tensor):
    """A contiguous tensor of whole blocks as one mode, whose length a program takes as it comes."""
    return from_dlpack(tensor.view(-1), assumed_align=16).mark_compact_shape_dynamic(
        mode=0, divisibility=BLOCK
    )


def flat_codes(tensor):
    """An fp8 tensor as one mode; DLPack carries its bytes."""
    codes = flat(tensor.view(torch.uint8))
    codes.element_type = cutlass.Float8E4M3FN
    return codes


def scale_matrix(scale):
    """A matrix of scales of any size."""
    return from_dlpack(scale).mark_layout_dynamic(leading_dim=1)


COMPILED = {}


def run(function, arguments, constants=()):
    """Calls a host function; its first call with `constants`, its last parameters, compiles it."""
    key = function, constants
    if key not in COMPILED:
        COMPILED[key] = cute.compile(function, *arguments, *constants)
    COMPILED[key](*arguments)


def solve(x, scale_x, gate_proj_weight, scale_gate, up_proj_weight, scale_up):
    columns = x.shape[1]
    operands = [x, gate_proj_weight, up_proj_weight]
    assert columns % BLOCK == 0 and gate_proj_weight.shape[0] % BLOCK == 0
    assert max(t.numel() for t in operands) < 2**31
    wide = [torch.empty_like(t, dtype=torch.float32) for t in operands]
    codes = tuple(flat_codes(t) for t in operands)
    scales = tuple(scale_matrix(s) for s in (scale_x, scale_gate, scale_up))
    outs = tuple(flat(t) for t in wide)
    rows = (1, BLOCK, BLOCK)
    launches = [slice(0, 3)] if PARAMS["fused"] else [slice(i, i + 1) for i in range(3)]
    for part in launches:
        run(dequantize, (codes[part], scales[part], outs[part]), (columns, rows[part]))

    gate = wide[0] @ wide[1].t()
    up = wide[0] @ wide[2].t()
    out = torch.empty_like(gate, dtype=torch.bfloat16)
    run(apply_gate, (flat(gate), flat(up), flat(out)))
    return out
