"""Thread-value layouts and partitions against the definition: who holds which element."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from cutlass.cute import _layout as cute
from cutlass.cute._atom_layout import (
    MmaAtomLayouts,
    TiledCopyLayouts,
    TiledMmaLayouts,
    cotiled_copy_layouts,
    make_layout_tv,
    tiled_copy_layouts,
    tiled_copy_layouts_a,
    tiled_copy_layouts_b,
    tiled_copy_layouts_c,
    tiled_copy_layouts_c_atom,
    tiled_copy_layouts_d,
    tiled_copy_layouts_s,
    tiled_copy_layouts_tv,
    tiled_mma_layouts,
    universal_copy_layouts,
    universal_mma_layouts,
)
from layout_cases import Sym, value_of


def layout(shape: Any, stride: Any) -> cute.Layout:
    return cute.make_layout(shape, stride=stride)


def numbered(x: cute.Layout) -> cute.CoordTensor:
    """The tensor whose elements are the indices of a layout, wherever a slice of it starts."""
    return cute.make_coord_tensor(0, x)


def elements(part: Any) -> list[Any]:
    return [part[i] for i in range(cute.size(part))]


# Hand-over of mma.m16n8k16 as the PTX ISA describes it: lane = 4 * group + t.
M16N8K16 = MmaAtomLayouts(
    thr_id=cute.make_layout(32),
    shape_mnk=(16, 8, 16),
    a_tv=layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128))),
    b_tv=layout(((4, 8), (2, 2)), ((16, 1), (8, 64))),
    c_tv=layout(((4, 8), (2, 2)), ((32, 1), (16, 8))),
)


def ptx_position(operand: str, lane: int, i: int) -> tuple[int, int]:
    """Row and column of value ``i`` of a lane, from the PTX ISA's text for mma.m16n8k16."""
    group, t = lane >> 2, lane & 3
    if operand == "A":
        row = group if i in (0, 1, 4, 5) else group + 8
        return row, t * 2 + (i & 1) + (8 if i >= 4 else 0)
    if operand == "B":  # (n, k)
        return group, t * 2 + (i & 1) + (8 if i >= 2 else 0)
    return (group if i < 2 else group + 8), t * 2 + (i & 1)


def test_the_documented_thread_value_layout() -> None:
    tiler, tv = make_layout_tv(layout((2, 3), (3, 1)), layout((2, 2), (2, 1)))
    assert tiler == (4, 6)
    assert str(tv) == "((3,2),(2,2)):((8,2),(4,1))"


def random_compact_2d(rng: random.Random, sizes: tuple[int, ...]) -> cute.Layout:
    shape = (rng.choice(sizes), rng.choice(sizes))
    return cute.make_ordered_layout(shape, rng.choice(((0, 1), (1, 0))))


def test_thread_value_layouts_invert_thread_and_value_numbers() -> None:
    rng = random.Random(31)
    for _ in range(300):
        threads, block = random_compact_2d(rng, (1, 2, 3, 4)), random_compact_2d(rng, (1, 2, 4))
        tiler, tv = make_layout_tv(threads, block)
        rows, columns = (t * b for t, b in zip(threads.shape, block.shape, strict=True))
        assert tiler == (rows, columns)
        for t in itertools.product(range(threads.shape[0]), range(threads.shape[1])):
            for v in itertools.product(range(block.shape[0]), range(block.shape[1])):
                row, column = (t[i] * block.shape[i] + v[i] for i in (0, 1))
                assert tv((threads(t), block(v))) == row + column * rows


def test_a_thread_layout_that_is_not_compact_is_refused() -> None:
    with pytest.raises(ValueError, match="must both be compact"):
        make_layout_tv(layout((2, 3), (6, 1)), layout(1, 0))
    with pytest.raises(ValueError, match="thr_layout must be static"):
        make_layout_tv(layout(Sym(4), 1), layout(1, 0))


@pytest.mark.parametrize("vector", [1, 2, 4])
def test_copy_partitions_cover_a_tensor_once_in_the_layouts_order(vector: int) -> None:
    rng = random.Random(32 + vector)
    for _ in range(60):
        threads = random_compact_2d(rng, (1, 2, 4))
        block = cute.make_ordered_layout((rng.choice((1, 2)), 4), (1, 0))
        copy = tiled_copy_layouts_tv(universal_copy_layouts(vector), threads, block)
        shape = tuple(t * rng.choice((1, 2, 3)) for t in copy.tiler)
        index = cute.make_ordered_layout(shape, (1, 0))
        tensor = numbered(index)
        seen: list[int] = []
        for thread in range(copy.size):
            part = copy.partition_s(tensor, thread)
            assert part.shape[0][0] == vector and cute.rank(part) == 3
            assert str(part) == str(copy.partition_d(tensor, thread))
            seen += elements(part)
            # Vectors are contiguous, and the first one stands at the thread's first value.
            first = [part[i] for i in range(vector)]
            assert first == list(range(first[0], first[0] + vector))
            row, column = cute.idx2crd(copy.layout_tv((thread, 0)), copy.tiler)
            assert first[0] == index((row, column))
        assert sorted(seen) == list(range(shape[0] * shape[1]))


def test_copy_partitions_of_a_dynamic_tensor_are_right_at_run_time() -> None:
    copy = tiled_copy_layouts_tv(
        universal_copy_layouts(4), layout((4, 32), (32, 1)), layout((4, 4), (4, 1))
    )
    rows, columns = 64, 256
    dynamic = numbered(layout((Sym(rows), Sym(columns)), (Sym(columns), 1)))
    tile = cute.local_tile(dynamic, copy.tiler, (1, 1))
    seen: list[int] = []
    for thread in range(copy.size):
        part = copy.partition_s(tile, Sym(thread))
        assert str(value_of(part.layout)) == f"((4,4),1,1):((1,{columns}),0,0)"
        seen += [value_of(v) for v in elements(part)]
    rows_of_tile, columns_of_tile = range(16, 32), range(128, 256)
    assert sorted(seen) == sorted(r * columns + c for r in rows_of_tile for c in columns_of_tile)


def test_identity_layouts_partition_to_the_coordinates_of_the_elements() -> None:
    copy = tiled_copy_layouts_tv(
        universal_copy_layouts(2), layout((2, 4), (4, 1)), layout((2, 2), (2, 1))
    )
    shape = (8, 16)
    index = layout(shape, (16, 1))
    for thread in range(copy.size):
        part = copy.partition_s(numbered(index), thread)
        coords = copy.partition_s(cute.make_identity_tensor(shape), thread)
        assert part.shape == coords.shape
        assert [index(c) for c in elements(coords)] == elements(part)


def test_one_dimensional_copies() -> None:
    copy = tiled_copy_layouts_tv(universal_copy_layouts(4), cute.make_layout(8), layout(4, 1))
    assert copy.tiler == (32,)
    tensor = numbered(cute.make_layout((96,)))
    parts = [elements(copy.partition_s(tensor, t)) for t in range(8)]
    assert parts[3] == [12, 13, 14, 15, 44, 45, 46, 47, 76, 77, 78, 79]
    assert sorted(v for part in parts for v in part) == list(range(96))


def test_tiled_copies_check_their_atom() -> None:
    with pytest.raises(ValueError, match="no multiple of the 8 values"):
        tiled_copy_layouts_tv(universal_copy_layouts(8), cute.make_layout(8), layout(4, 1))
    with pytest.raises(ValueError, match="fewer modes than the tile"):
        copy = tiled_copy_layouts_tv(
            universal_copy_layouts(1), layout((2, 2), (2, 1)), layout((1, 1), (0, 0))
        )
        copy.partition_s(cute.make_layout(8), 0)
    with pytest.raises(ValueError, match="at least one element"):
        universal_copy_layouts(0)


@pytest.mark.parametrize("operand", ["A", "B", "C"])
def test_a_warp_mma_partitions_as_the_isa_says(operand: str) -> None:
    mma = tiled_mma_layouts(M16N8K16)
    shape = {"A": (16, 16), "B": (8, 16), "C": (16, 8)}[operand]
    fragments = mma.thread_fragments(operand, cute.make_identity_layout(shape))
    tv = mma.tv_layout(operand)
    for lane in range(32):
        count = cute.size(M16N8K16.a_tv if operand == "A" else M16N8K16.c_tv, mode=[1])
        for i in range(count):
            expected = ptx_position(operand, lane, i)
            assert fragments(((lane, (0, 0)), (i, (0, 0)))) == expected
            assert cute.idx2crd(tv((lane, i)), shape) == expected


@pytest.mark.parametrize("permutation", [None, (32, 32, 16)])
@pytest.mark.parametrize("operand", ["A", "B", "C"])
def test_a_tiled_mma_covers_its_tile(operand: str, permutation: Any) -> None:
    mma = tiled_mma_layouts(M16N8K16, (2, 2, 1), permutation)
    assert mma.size == 128
    first, second = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}[operand]
    shape = (mma.tile_size(first), mma.tile_size(second))
    tv = mma.tv_layout(operand)
    held = Counter(tv((t, v)) for t in range(mma.size) for v in range(cute.size(tv, mode=[1])))
    sharing = 1 if operand == "C" else 2
    assert held == Counter({i: sharing for i in range(shape[0] * shape[1])})
    # The partition of the tile itself is the TV layout, thread by thread.
    tile = numbered(cute.make_layout(shape))
    for thread in range(mma.size):
        part = mma.partition(operand, tile, thread)
        assert part.shape == mma.partition_shape(operand, shape)
        assert elements(part) == [tv((thread, i)) for i in range(cute.size(tv, mode=[1]))]


def test_the_universal_mma_gives_each_thread_its_elements() -> None:
    mma = tiled_mma_layouts(universal_mma_layouts(), layout((16, 8, 1), (8, 1, 0)))
    assert mma.size == 128
    c = numbered(layout((64, 32), (32, 1)))
    seen: list[int] = []
    for thread in range(mma.size):
        part = mma.partition("C", c, thread)
        assert part.shape == (1, 4, 4)
        assert part[0] == (thread // 8) * 32 + thread % 8
        seen += elements(part)
    assert sorted(seen) == list(range(64 * 32))
    assert mma.partition_shape("A", (64, 8)) == (1, 4, 8)


def test_copies_for_an_mma_hold_the_same_elements_as_its_partition() -> None:
    mma = tiled_mma_layouts(M16N8K16, (2, 2, 1), (32, 32, 16))
    atom = universal_copy_layouts(2)
    makers = {"A": tiled_copy_layouts_a, "B": tiled_copy_layouts_b, "C": tiled_copy_layouts_c}
    for operand, make in makers.items():
        copy = make(atom, mma)
        tile = numbered(cute.make_layout(copy.tiler))
        tv = mma.tv_layout(operand)
        for thread in range(mma.size):
            assert elements(copy.partition_s(tile, thread)) == [
                tv((thread, v)) for v in range(cute.size(tv, mode=[1]))
            ]


def test_source_and_destination_layouts_of_a_universal_copy_are_its_own() -> None:
    copy = tiled_copy_layouts_tv(
        universal_copy_layouts(2), layout((2, 4), (4, 1)), layout((2, 2), (2, 1))
    )
    for make in (tiled_copy_layouts_s, tiled_copy_layouts_d):
        again = make(universal_copy_layouts(1), copy)
        for t, v in itertools.product(range(8), range(4)):
            assert again.layout_tv((t, v)) == copy.layout_tv((t, v))


def test_retiling_a_fragment_reorders_it_as_the_other_copy_reads_it() -> None:
    """A thread's accumulators, stored in MMA order, seen in the order of a copy of C."""
    mma = tiled_mma_layouts(M16N8K16, (2, 2, 1), (32, 32, 16))
    copy = tiled_copy_layouts_c(universal_copy_layouts(2), mma)
    tile = numbered(cute.make_layout((mma.tile_size(0), mma.tile_size(1))))
    for thread in (0, 37, 127):
        in_mma_order = mma.partition("C", tile, thread)
        retiled = copy.retile(cute.make_layout(in_mma_order.shape))
        in_copy_order = copy.partition_d(tile, thread)
        assert cute.product_each(retiled.shape) == cute.product_each(in_copy_order.shape)
        for i in range(cute.size(retiled)):
            assert in_mma_order[retiled(i)] == in_copy_order[i]


def test_the_smallest_copy_of_c_takes_the_first_values_of_each_thread() -> None:
    mma = tiled_mma_layouts(M16N8K16, (2, 2, 1), (32, 32, 16))
    copy = tiled_copy_layouts_c_atom(universal_copy_layouts(2), mma)
    c_tv = mma.tv_layout("C")
    tile = numbered(cute.make_layout((mma.tile_size(0), mma.tile_size(1))))
    for thread in range(mma.size):
        part = copy.partition_d(tile, thread)
        assert [part[0], part[1]] == [c_tv((thread, 0)), c_tv((thread, 1))]
    with pytest.raises(ValueError, match="16 values"):
        tiled_copy_layouts_c_atom(universal_copy_layouts(16), tiled_mma_layouts(M16N8K16))


def test_cotiled_copies_follow_the_data() -> None:
    data = layout((8, 16), (16, 1))
    tv = layout((16, 8), (8, 1))  # thread t holds 8 consecutive elements in memory
    copy = cotiled_copy_layouts(universal_copy_layouts(8), tv, data)
    for t in range(16):
        part = copy.partition_s(numbered(data), t)
        assert elements(part) == [t * 8 + v for v in range(8)]
    with pytest.raises(ValueError, match="points to elements that"):
        cotiled_copy_layouts(universal_copy_layouts(1), layout((4, 2), (2, 1)), layout(8, 2))


def test_a_given_layout_and_tile_make_a_tiled_copy() -> None:
    tiler, tv = make_layout_tv(layout((2, 4), (4, 1)), layout((2, 2), (2, 1)))
    copy = tiled_copy_layouts(universal_copy_layouts(2), tv, list(tiler))
    assert isinstance(copy, TiledCopyLayouts) and copy.tiler == tiler and copy.size == 8
    assert isinstance(tiled_mma_layouts(M16N8K16), TiledMmaLayouts)
