"""The compared kernels in CuTe DSL, as one would write them for a real GPU."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass.utils import SmemAllocator

WARP = 32
#: Threads of a CTA, and singles that a thread moves in one access.
THREADS, VECTOR = 256, 4
EPS = 1e-5
LOG2_E = 1.4426950408889634


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    thread, _, _ = cute.arch.thread_idx()
    at = (block * THREADS + thread,)
    x, y, z = (cute.local_tile(t, (VECTOR,), at) for t in (a, b, c))
    left, right = cute.make_fragment_like(x), cute.make_fragment_like(y)
    cute.autovec_copy(x, left)
    cute.autovec_copy(y, right)
    total = cute.make_fragment_like(z)
    total.store(left.load() + right.load())
    cute.autovec_copy(total, z)


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """c = a + b; whole CTAs of `THREADS` x `VECTOR` elements."""
    grid = [cute.size(a) // (THREADS * VECTOR), 1, 1]
    add_kernel(a, b, c).launch(grid=grid, block=[THREADS, 1, 1])


def load(row: cute.Tensor) -> cute.TensorSSA:
    """The thread's elements of a row: `VECTOR` in turn, all threads side by side."""
    part = _part(row)
    fragment = cute.make_fragment_like(part)
    cute.autovec_copy(part, fragment)
    return fragment.load()


def store(values: cute.TensorSSA, row: cute.Tensor):
    part = _part(row)
    fragment = cute.make_fragment_like(part)
    fragment.store(values)
    cute.autovec_copy(fragment, part)


def _part(row: cute.Tensor) -> cute.Tensor:
    vectors = cute.size(row) // (THREADS * VECTOR)
    order = cute.make_layout((THREADS, VECTOR, vectors), stride=(VECTOR, 1, THREADS * VECTOR))
    thread, _, _ = cute.arch.thread_idx()
    return cute.composition(row, order)[thread, None, None]


@cute.jit
def block_max(value: cutlass.Float32, warps: cute.Tensor) -> cutlass.Float32:
    largest = cute.arch.warp_reduction_max(value)
    if cute.arch.lane_idx() == 0:
        warps[cute.arch.warp_idx()] = largest
    cute.arch.sync_threads()
    return warps.load().reduce(cute.ReductionOp.MAX, -cutlass.Float32.inf, 0)


@cute.jit
def block_sum(value: cutlass.Float32, warps: cute.Tensor) -> cutlass.Float32:
    total = cute.arch.warp_reduction_sum(value)
    if cute.arch.lane_idx() == 0:
        warps[cute.arch.warp_idx()] = total
    cute.arch.sync_threads()
    return warps.load().reduce(cute.ReductionOp.ADD, 0.0, 0)


def two_slots() -> cute.Tensor:
    """Shared memory for the parts of a CTA's warps, twice."""
    return SmemAllocator().allocate_tensor(
        cutlass.Float32, cute.make_layout((THREADS // WARP, 2)), byte_alignment=16
    )


@cute.kernel
def softmax_kernel(x: cute.Tensor, y: cute.Tensor):
    row, _, _ = cute.arch.block_idx()
    slots = two_slots()
    values = load(x[row, None])
    largest = values.reduce(cute.ReductionOp.MAX, -cutlass.Float32.inf, 0)
    largest = block_max(largest, slots[None, 0])
    powers = cute.math.exp2((values - largest) * LOG2_E, fastmath=True)
    total = block_sum(powers.reduce(cute.ReductionOp.ADD, 0.0, 0), slots[None, 1])
    store(powers * (1.0 / total), y[row, None])


@cute.jit
def softmax(x: cute.Tensor, y: cute.Tensor):
    """Softmax of each row, whose length is a multiple of `THREADS` x `VECTOR`."""
    softmax_kernel(x, y).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1])


@cute.kernel
def layer_norm_kernel(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, y: cute.Tensor):
    row, _, _ = cute.arch.block_idx()
    slots = two_slots()
    columns = x.shape[1]
    values = load(x[row, None])
    mean = block_sum(values.reduce(cute.ReductionOp.ADD, 0.0, 0), slots[None, 0]) / columns
    centred = values - mean
    squares = (centred * centred).reduce(cute.ReductionOp.ADD, 0.0, 0)
    variance = block_sum(squares, slots[None, 1]) / columns
    scaled = centred * cute.math.rsqrt(variance + EPS, fastmath=True)
    store(scaled * load(weight) + load(bias), y[row, None])


@cute.jit
def layer_norm(x: cute.Tensor, weight: cute.Tensor, bias: cute.Tensor, y: cute.Tensor):
    """LayerNorm of each row, whose length is a multiple of `THREADS` x `VECTOR`."""
    layer_norm_kernel(x, weight, bias, y).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1])
