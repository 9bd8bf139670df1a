"""Kernels on the virtual GPU give what NumPy and torch give."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
import pytest
from cutlass import Boolean, Float32, Int32, Int64, Uint32
from cutlass.cute.runtime import from_dlpack

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("device")


def cuda(tensor: Any) -> Any:
    return tensor.to("cuda")


# -- tensors and copies ---------------------------------------------------------------------


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < cute.size(c):
        c[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    add_kernel(a, b, c).launch(grid=[cute.ceil_div(cute.size(c), 128), 1, 1], block=[128, 1, 1])


@pytest.mark.parametrize("shape", [(1,), (127,), (1000,), (33, 17), (5, 3, 7)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_addition_over_any_shape(shape: tuple[int, ...], dynamic: bool) -> None:
    a, b = torch.randn(shape), torch.randn(shape)
    device = [cuda(a), cuda(b), cuda(torch.zeros(shape))]
    add(*(device if dynamic else [from_dlpack(t) for t in device]))
    assert torch.equal(device[2].cpu(), a + b)


def test_one_compilation_serves_all_sizes_of_a_dynamic_layout() -> None:
    first = [cuda(torch.randn(8, 16)) for _ in range(3)]
    compiled = cute.compile(add, *first)
    for shape in ((3, 5), (64, 64), (1, 200)):
        tensors = [cuda(torch.randn(shape)) for _ in range(3)]
        compiled(*tensors)
        assert torch.equal(tensors[2].cpu(), tensors[0].cpu() + tensors[1].cpu())


def test_a_static_layout_refuses_another_shape() -> None:
    tensors = [from_dlpack(cuda(torch.zeros(16))) for _ in range(3)]
    compiled = cute.compile(add, *tensors)
    other = [from_dlpack(cuda(torch.zeros(17))) for _ in range(3)]
    with pytest.raises(cutlass.DSLRuntimeError, match=r"compiled for shape\[0\] = 16, got 17"):
        compiled(*other)


@cute.kernel
def copy_kernel(a: cute.Tensor, b: cute.Tensor, vector: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    source = cute.local_tile(a, (vector,), (thread,))
    target = cute.local_tile(b, (vector,), (thread,))
    fragment = cute.make_fragment_like(source)
    cute.autovec_copy(source, fragment)
    target.store(fragment.load())


@cute.jit
def copy(a: cute.Tensor, b: cute.Tensor, vector: cutlass.Constexpr):
    copy_kernel(a, b, vector).launch(grid=(1, 1, 1), block=(cute.size(a) // vector, 1, 1))


NAMES = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 float8_e4m3fn bool"


@pytest.mark.parametrize("name", NAMES.split())
@pytest.mark.parametrize("vector", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("align", [None, 16])
def test_every_type_is_copied_at_every_width(name: str, vector: int, align: int | None) -> None:
    kind = getattr(torch, name)
    size = torch.empty((), dtype=kind).element_size()
    raw = torch.randint(0, 2 if name == "bool" else 256, (64 * size,), dtype=torch.uint8)
    a = cuda(raw.view(kind))
    b = cuda(torch.zeros(64 * size, dtype=torch.uint8).view(kind))
    copy(from_dlpack(a, assumed_align=align), from_dlpack(b, assumed_align=align), vector)
    assert torch.equal(b.cpu().view(torch.uint8), raw)


@cute.kernel
def tiled_kernel(a: cute.Tensor, b: cute.Tensor, crd: cute.Tensor, shape: cute.Shape, tiled: Any):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    mine = tiled.get_slice(thread)
    source = mine.partition_S(a[((None, None), block)])
    target = mine.partition_D(b[((None, None), block)])
    where = mine.partition_S(crd[((None, None), block)])
    inside = cute.make_rmem_tensor(where.shape, Boolean)
    for i in range(cute.size(inside)):
        inside[i] = cute.elem_less(where[i], shape)
    fragment = cute.make_fragment_like(source)
    cute.copy(tiled, source, fragment, pred=inside)
    cute.copy(tiled, fragment, target, pred=inside)


@cute.jit
def tiled_copy(a: cute.Tensor, b: cute.Tensor):
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), a.element_type)
    threads = cute.make_ordered_layout((4, 16), order=(1, 0))
    values = cute.make_ordered_layout((2, 4), order=(1, 0))
    tiler, _ = cute.make_layout_tv(threads, values)
    tiled = cute.make_tiled_copy_tv(atom, threads, values)
    tiles = [cute.zipped_divide(t, tiler) for t in (a, b, cute.make_identity_tensor(a.shape))]
    tiled_kernel(*tiles, a.shape, tiled).launch(
        grid=[cute.size(tiles[0], mode=[1]), 1, 1], block=[64, 1, 1]
    )


@pytest.mark.parametrize("shape", [(8, 64), (16, 128), (13, 71), (1, 2), (40, 3)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_predicated_tiled_copy_stays_inside(shape: tuple[int, int], dynamic: bool) -> None:
    a = torch.randn(shape)
    tensors = [cuda(a), cuda(torch.zeros(shape))]
    tiled_copy(*(tensors if dynamic else [from_dlpack(t) for t in tensors]))
    assert torch.equal(tensors[1].cpu(), a)


@cute.kernel
def transpose_kernel(a: cute.Tensor, b: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    swizzled = cute.make_composed_layout(
        cute.make_swizzle(3, 2, 3), 0, cute.make_layout((32, 32), stride=(32, 1))
    )
    tile = cutlass.utils.SmemAllocator().allocate_tensor(Float32, swizzled, 128)
    for i in range(32):
        tile[i, thread] = a[i, thread]
    cute.arch.sync_threads()
    for i in range(32):
        b[i, thread] = tile[thread, i]


@cute.jit
def transpose(a: cute.Tensor, b: cute.Tensor):
    transpose_kernel(a, b).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_a_swizzled_tile_in_shared_memory_keeps_its_elements() -> None:
    a, b = cuda(torch.randn(32, 32)), cuda(torch.zeros(32, 32))
    transpose(from_dlpack(a), from_dlpack(b))
    assert torch.equal(b.cpu(), a.cpu().t())


@cute.kernel
def async_kernel(a: cute.Tensor, b: cute.Tensor, limit: Int32):
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.utils.SmemAllocator().allocate_tensor(Float32, cute.make_layout(128), 16)
    tile[thread] = -1.0
    cute.arch.sync_threads()
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), Float32, num_bits_per_copy=128)
    if thread < 32:
        source = cute.local_tile(a, (4,), (thread,))
        target = cute.local_tile(tile, (4,), (thread,))
        inside = cute.make_rmem_tensor((1,), Boolean)
        inside[0] = thread * 4 < limit
        cute.copy(atom, source, target, pred=inside)
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    cute.arch.sync_threads()
    b[thread] = tile[thread]


@cute.jit
def asynchronous(a: cute.Tensor, b: cute.Tensor, limit: Int32):
    async_kernel(a, b, limit).launch(grid=(1, 1, 1), block=(128, 1, 1))


def test_an_asynchronous_copy_fills_zeros_where_its_predicate_fails() -> None:
    a, b = cuda(torch.randn(128)), cuda(torch.zeros(128))
    asynchronous(from_dlpack(a, assumed_align=16), from_dlpack(b), 40)
    expected = a.cpu().clone()
    expected[40:] = 0.0
    assert torch.equal(b.cpu(), expected)


def test_a_copy_that_cannot_be_as_wide_as_its_atom_is_refused() -> None:
    a, b = cuda(torch.randn(128)), cuda(torch.zeros(128))
    with pytest.raises(ValueError, match=r"moves 128 bits.*assumed_align"):
        asynchronous(from_dlpack(a), from_dlpack(b), 40)


# -- values ---------------------------------------------------------------------------------


@cute.kernel
def value_kernel(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, op: cutlass.Constexpr):
    out.store(op(a.load(), b.load()))


@cute.jit
def on_values(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, op: cutlass.Constexpr):
    value_kernel(a, b, out, op).launch(grid=(1, 1, 1), block=(1, 1, 1))


OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: 1.0 - a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_values_have_numpys_operators(name: str) -> None:
    a, b = torch.randn(4, 6), torch.randn(4, 6)
    out = cuda(torch.zeros(4, 6))
    on_values(from_dlpack(cuda(a)), from_dlpack(cuda(b)), from_dlpack(out), OPERATORS[name])
    expected = OPERATORS[name](a, b)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-6, atol=1e-6)


def test_values_broadcast_select_and_reduce() -> None:
    row, column = torch.randn(1, 6), torch.randn(4, 1)
    out = cuda(torch.zeros(4, 6))
    on_values(
        from_dlpack(cuda(row)),
        from_dlpack(cuda(column)),
        from_dlpack(out),
        lambda a, b: cute.where(a > b, a, b),
    )
    assert torch.equal(out.cpu(), torch.maximum(row, column))
    for profile, dim in (((None, 1), 1), ((1, None), 0)):
        a = torch.randn(4, 6)
        out = cuda(torch.zeros(a.sum(dim).shape))
        on_values(
            from_dlpack(cuda(a)),
            from_dlpack(cuda(a)),
            from_dlpack(out),
            lambda a, b, p=profile: a.reduce(cute.ReductionOp.ADD, 0.0, reduction_profile=p),
        )
        torch.testing.assert_close(out.cpu(), a.sum(dim))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"])
def test_vector_conversions_round_as_torch_does(name: str) -> None:
    kind = getattr(torch, name)
    a = torch.randn(64) * torch.exp(torch.randn(64) * 2)
    out = cuda(torch.zeros(64).to(kind))
    cutlass_kind = from_dlpack(out).element_type
    on_values(
        from_dlpack(cuda(a), assumed_align=16),
        from_dlpack(cuda(a)),
        from_dlpack(out, assumed_align=16),
        lambda a, b: a.to(cutlass_kind),
    )
    assert torch.equal(out.cpu().view(torch.uint8), a.to(kind).view(torch.uint8))
    back = cuda(torch.zeros(64))
    on_values(
        from_dlpack(out, assumed_align=16),
        from_dlpack(out),
        from_dlpack(back, assumed_align=16),
        lambda a, b: a.to(Float32),
    )
    assert torch.equal(back.cpu(), a.to(kind).float())


@cute.kernel
def bits_kernel(a: cute.Tensor, out: cute.Tensor):
    fragment = cute.make_rmem_tensor((4,), Float32)
    fragment.store(a.load())
    halves = cute.recast_tensor(fragment, cutlass.Uint16)
    words = cute.recast_tensor(fragment, Uint32)
    words[0] = words[0] ^ 0x80000000
    for i in cutlass.range_constexpr(8):
        out[i] = halves[i].to(Int32)


@cute.jit
def bits(a: cute.Tensor, out: cute.Tensor):
    bits_kernel(a, out).launch(grid=(1, 1, 1), block=(1, 1, 1))


def test_a_fragment_may_be_seen_as_another_type() -> None:
    a = torch.randn(4)
    out = cuda(torch.zeros(8, dtype=torch.int32))
    bits(from_dlpack(cuda(a)), from_dlpack(out))
    a[0] = -a[0]
    assert out.cpu().tolist() == [x & 0xFFFF for x in a.view(torch.int16).tolist()]


# -- threads together -----------------------------------------------------------------------


@cute.kernel
def warp_kernel(a: cute.Tensor, out: cute.Tensor):
    lane = cute.arch.lane_idx()
    x = a[lane]
    out[0, lane] = cute.arch.warp_reduction_sum(x)
    out[1, lane] = cute.arch.warp_reduction_max(x, threads_in_group=8)
    out[2, lane] = cute.arch.shuffle_sync(x, 5)
    out[3, lane] = cute.arch.shuffle_sync_up(x, 1)
    out[4, lane] = cute.arch.shuffle_sync_down(x, 3)
    out[5, lane] = cute.arch.warp_redux_sync(x, "min")
    out[6, lane] = cute.arch.popc(cute.arch.vote_ballot_sync(x > 10))
    out[7, lane] = cute.arch.vote_any_sync(x > 30).to(Int32)
    out[8, lane] = cute.arch.vote_all_sync(x >= 0).to(Int32)
    out[9, lane] = cute.arch.match_sync(0xFFFFFFFF, x % 4).to(Int32)
    with cute.arch.elect_one():
        out[10, 0] = 1


@cute.jit
def warp(a: cute.Tensor, out: cute.Tensor):
    warp_kernel(a, out).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_warp_operations() -> None:
    a = torch.randperm(32).to(torch.int32)
    out = cuda(torch.zeros(11, 32, dtype=torch.int32))
    warp(from_dlpack(cuda(a)), from_dlpack(out))
    got = out.cpu()
    lanes = torch.arange(32)
    assert (got[0] == a.sum()).all()
    assert torch.equal(got[1], a.view(4, 8).amax(1).repeat_interleave(8))
    assert (got[2] == a[5]).all()
    assert torch.equal(got[3], a[(lanes - 1).clamp(min=0)])
    assert torch.equal(got[4], torch.where(lanes + 3 < 32, a[(lanes + 3).clamp(max=31)], a))
    assert (got[5] == 0).all()
    assert (got[6] == 21).all()
    assert (got[7] == 1).all()
    assert (got[8] == 1).all()
    groups = [sum(1 << j for j in range(32) if a[j] % 4 == a[i] % 4) for i in range(32)]
    assert [x & 0xFFFFFFFF for x in got[9].tolist()] == groups
    assert got[10, 0] == 1


@cute.kernel
def atomic_kernel(counts: cute.Tensor, largest: cute.Tensor, values: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    x = values[block * 64 + thread]
    cute.arch.atomic_add(counts.iterator + x % 8, Int32(1))
    cute.arch.atomic_max(counts.iterator + 8, x)
    cute.arch.atomic_fmax(largest.iterator, x.to(Float32) - 50.5)
    cute.arch.atomic_fmin(largest.iterator + 1, x.to(Float32) - 50.5)


@cute.jit
def atomics(counts: cute.Tensor, largest: cute.Tensor, values: cute.Tensor):
    atomic_kernel(counts, largest, values).launch(grid=(4, 1, 1), block=(64, 1, 1))


def test_atomics() -> None:
    values = torch.randint(0, 100, (256,), dtype=torch.int32)
    counts = cuda(torch.zeros(9, dtype=torch.int32))
    largest = cuda(torch.tensor([-1e9, 1e9]))
    atomics(from_dlpack(counts), from_dlpack(largest), from_dlpack(cuda(values)))
    assert counts.cpu()[:8].tolist() == torch.bincount(values % 8, minlength=8).tolist()
    assert counts.cpu()[8] == values.max()
    assert largest.cpu().tolist() == [values.max() - 50.5, values.min() - 50.5]


@cute.struct
class Shared:
    values: cute.struct.MemRange[Float32, 64]
    count: Int32
    aligned: cute.struct.Align[cute.struct.MemRange[Int64, 2], 64]


@cute.kernel
def struct_kernel(out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    shared = cutlass.utils.SmemAllocator().allocate(Shared)
    shared.values[thread] = thread.to(Float32) * 2.0
    if thread == 0:
        shared.count = 7
        shared.aligned[1] = Int64(5)
    cute.arch.sync_threads()
    other = 63 - thread
    out[thread] = shared.values[other] + shared.count.ptr.load() + shared.aligned[1]


@cute.jit
def structs(out: cute.Tensor):
    struct_kernel(out).launch(grid=(1, 1, 1), block=(64, 1, 1))


def test_structs_in_shared_memory() -> None:
    assert Shared.__sizeof__() == 384
    assert Shared.__alignof__() == 64
    out = cuda(torch.zeros(64))
    structs(from_dlpack(out))
    assert torch.equal(out.cpu(), torch.arange(63, -1, -1) * 2.0 + 12.0)


@cute.kernel
def mbarrier_kernel(out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    allocator = cutlass.utils.SmemAllocator()
    barrier = allocator.allocate_array(Int64, 1)
    value = allocator.allocate_tensor(Int32, cute.make_layout(2), 8)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 32)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    for phase in range(4):
        if thread < 32:
            if thread == 0:
                value[phase % 2] = phase * 10
            cute.arch.mbarrier_arrive(barrier)
        else:
            cute.arch.mbarrier_wait(barrier, phase % 2)
            out[phase, thread - 32] = value[phase % 2]
        cute.arch.sync_threads()


@cute.jit
def mbarriers(out: cute.Tensor):
    mbarrier_kernel(out).launch(grid=(1, 1, 1), block=(64, 1, 1))


def test_mbarriers_pass_values_between_warps() -> None:
    out = cuda(torch.zeros(4, 32, dtype=torch.int32))
    mbarriers(from_dlpack(out))
    assert torch.equal(out.cpu(), (torch.arange(4) * 10).repeat_interleave(32).view(4, 32).int())


@cute.kernel
def gemm_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, tiled: cute.TiledMma):
    thread, _, _ = cute.arch.thread_idx()
    mine = tiled.get_slice(thread)
    left, right, target = mine.partition_A(a), mine.partition_B(b), mine.partition_C(c)
    acc = tiled.make_fragment_C(target)
    acc.fill(0.0)
    x = tiled.make_fragment_A(left)
    y = tiled.make_fragment_B(right)
    cute.autovec_copy(left, x)
    cute.autovec_copy(right, y)
    cute.gemm(tiled, acc, x, y, acc)
    cute.autovec_copy(acc, target)


@cute.jit
def gemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    tiled = cute.make_tiled_mma(cute.nvgpu.MmaUniversalOp(Float32), (8, 8, 1))
    gemm_kernel(a, b, c, tiled).launch(grid=(1, 1, 1), block=(64, 1, 1))


def test_a_matrix_product_by_threads() -> None:
    a, b, c = torch.randn(32, 8), torch.randn(16, 8), cuda(torch.zeros(32, 16))
    gemm(from_dlpack(cuda(a)), from_dlpack(cuda(b)), from_dlpack(c))
    torch.testing.assert_close(c.cpu(), a @ b.t(), rtol=1e-5, atol=1e-5)


# -- text and faults ------------------------------------------------------------------------


@cute.kernel
def printing_kernel(a: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    if thread == 1:
        cute.printf("{} of {}: {} %5.1f {{}}".replace("{{}}", "%%"), thread, a.layout, a[1], a[0])
        cute.print_tensor(a)


@cute.jit
def printing(a: cute.Tensor):
    printing_kernel(a).launch(grid=(1, 1, 1), block=(2, 1, 1))


def test_what_a_kernel_prints_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    printing(from_dlpack(cuda(torch.tensor([1.5, 2.0]))))
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "1 of (2):(1): 2.000000   1.5 %"
    assert lines[1].startswith("tensor(raw_ptr(0x0000200") and lines[1].endswith("o (2):(1), data=")
    assert [line.strip() for line in lines[2:]] == ["[ 1.500000, ],", "[ 2.000000, ])"]


@cute.kernel
def beyond_kernel(a: cute.Tensor, i: Int32):
    a[i] = 1.0


@cute.jit
def beyond(a: cute.Tensor, i: Int32):
    beyond_kernel(a, i).launch(grid=(1, 1, 1), block=(1, 1, 1))


def test_an_access_out_of_bounds_names_the_users_line() -> None:
    import mkb_shim

    line = beyond_kernel._function.__code__.co_firstlineno + 2
    with pytest.raises(mkb_shim.DeviceFault, match=f"test_device.py:{line}"):
        beyond(from_dlpack(cuda(torch.zeros(4))), 4096)
