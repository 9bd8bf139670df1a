"""Problem 72 in CuTe DSL: a warp takes rows of the state, one after another, through one step."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

SPACE = {"threads": [64, 128, 256], "vector": [1, 2, 4], "rows": [8, 16, 32, 64, 128], "fused": [True, False]}  # fmt: skip
PARAMS = {"threads": 128, "vector": 4, "rows": 32, "fused": True}

SIZE = 128  # both of a state's rows (V) and of its columns (K)
WARP = 32
THREADS, VECTOR, ROWS = PARAMS["threads"], PARAMS["vector"], PARAMS["rows"]


def lane_part(row: cute.Tensor) -> cute.Tensor:
    """The calling lane's four columns of a row: (one access, accesses)."""
    columns = cute.make_layout(
        (WARP, VECTOR, SIZE // (WARP * VECTOR)), stride=(VECTOR, 1, WARP * VECTOR)
    )
    return cute.composition(row, columns)[cute.arch.lane_idx(), None, None]


def access_atom(part: cute.Tensor) -> cute.CopyAtom:
    """The copy whose instruction moves the first mode of `part`."""
    bits = cute.size(part, mode=[0]) * part.element_type.width
    return cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), part.element_type, num_bits_per_copy=bits
    )


def load(row: cute.Tensor) -> cute.TensorSSA:
    """The lane's columns of a row, widened to float32."""
    part = lane_part(row)
    fragment = cute.make_fragment_like(part)
    cute.copy(access_atom(part), part, fragment)
    return fragment.load().to(cutlass.Float32)


def store(values: cute.TensorSSA, row: cute.Tensor):
    """The lane's columns to a row of float32."""
    part = lane_part(row)
    fragment = cute.make_fragment_like(part)
    fragment.store(values)
    cute.copy(access_atom(part), fragment, part)


@cute.jit
def dot(x: cute.TensorSSA, y: cute.TensorSSA) -> cutlass.Float32:
    """The warp's dot product, in every lane."""
    return cute.arch.warp_reduction_sum((x * y).reduce(cute.ReductionOp.ADD, 0.0, 0))


@cute.jit
def softplus(x: cutlass.Float32) -> cutlass.Float32:
    """ln(1 + e^x), close to float32's precision for every x."""
    small = cute.math.exp(-cute.arch.fmax(x, -x))
    # ln(1 + s) = s ln(u) / (u - 1) with u the rounded 1 + s: the rounding of u cancels.
    u = small + 1.0
    log1p = small
    if u != 1.0:
        log1p = small * (cute.math.log(u) / (u - 1.0))
    return cute.arch.fmax(x, cutlass.Float32(0.0)) + log1p


@cute.jit
def decay(a_log, a, dt_bias) -> cutlass.Float32:
    """The factor by which a head's state shrinks in this step."""
    rate = cute.math.exp(a_log.to(cutlass.Float32))
    return cute.math.exp(-rate * softplus(a.to(cutlass.Float32) + dt_bias.to(cutlass.Float32)))


@cute.kernel
def decay_kernel(
    state: cute.Tensor, a_log: cute.Tensor, a: cute.Tensor, dt_bias: cute.Tensor, out: cute.Tensor
):
    block, head, n = cute.arch.block_idx()
    gate = decay(a_log[head], a[n, head], dt_bias[head])
    warps = cutlass.const_expr(THREADS // WARP)
    for i in cutlass.range(cute.arch.warp_idx(), ROWS, warps):
        row = block * ROWS + i
        store(load(state[n, head, row, None]) * gate, out[n, head, row, None])


@cute.kernel
def step_kernel(
    q: cute.Tensor,
    k: cute.Tensor,
    v: cute.Tensor,
    state: cute.Tensor,
    a_log: cute.Tensor,
    a: cute.Tensor,
    dt_bias: cute.Tensor,
    b: cute.Tensor,
    scale: cutlass.Float32,
    output: cute.Tensor,
    new_state: cute.Tensor,
):
    """`state` is the input's where `fused`, else it has decayed already."""
    block, head, n = cute.arch.block_idx()
    group = cutlass.const_expr(v.shape[1] // q.shape[1])
    query = load(q[n, head // group, None])
    key = load(k[n, head // group, None])
    beta = 1.0 / (1.0 + cute.math.exp(-b[n, head].to(cutlass.Float32)))
    gate = cutlass.Float32(1.0)
    if cutlass.const_expr(PARAMS["fused"]):
        gate = decay(a_log[head], a[n, head], dt_bias[head])

    warps = cutlass.const_expr(THREADS // WARP)
    for i in cutlass.range(cute.arch.warp_idx(), ROWS, warps):
        row = block * ROWS + i
        decayed = load(state[n, head, row, None]) * gate
        old = dot(decayed, key)
        change = beta * (v[n, head, row].to(cutlass.Float32) - old)
        updated = decayed + key * change
        store(updated, new_state[n, head, row, None])
        o = scale * dot(updated, query)
        if cute.arch.lane_idx() == 0:
            output[n, head, row] = o.to(output.element_type)


@cute.jit
def step(
    q: cute.Tensor,
    k: cute.Tensor,
    v: cute.Tensor,
    state: cute.Tensor,
    a_log: cute.Tensor,
    a: cute.Tensor,
    dt_bias: cute.Tensor,
    b: cute.Tensor,
    scale: cutlass.Float32,
    output: cute.Tensor,
    new_state: cute.Tensor,
    decayed: cute.Tensor,
):
    grid = [SIZE // ROWS, state.shape[1], state.shape[0]]
    block = [THREADS, 1, 1]
    source = state
    if cutlass.const_expr(not PARAMS["fused"]):
        decay_kernel(state, a_log, a, dt_bias, decayed).launch(grid=grid, block=block)
        source = decayed
    step_kernel(q, k, v, source, a_log, a, dt_bias, b, scale, output, new_state).launch(
        grid=grid, block=block
    )


def any_batch(tensor):
    """The tensor for a program that serves every batch."""
    return from_dlpack(tensor, assumed_align=16).mark_compact_shape_dynamic(
        mode=0, stride_order=tuple(range(tensor.dim()))
    )


COMPILED = []


def solve(q, k, v, state, A_log, a, dt_bias, b, scale):
    assert q.shape[1] == 1 and state.shape[2] == state.shape[3] == SIZE
    output = torch.empty_like(v)
    new_state = torch.empty_like(state)
    decayed = new_state if PARAMS["fused"] else torch.empty_like(state)
    # One token a sequence: its axis is dropped.
    tokens = [any_batch(t[:, 0]) for t in (q, k, v)]
    gates = [from_dlpack(A_log), any_batch(a[:, 0]), from_dlpack(dt_bias), any_batch(b[:, 0])]
    arguments = [
        *tokens,
        any_batch(state),
        *gates,
        cutlass.Float32(scale),
        any_batch(output[:, 0]),
        any_batch(new_state),
        any_batch(decayed),
    ]
    if not COMPILED:
        COMPILED.append(cute.compile(step, *arguments))
    COMPILED[0](*arguments)
    return output, new_state
