"""Each operation of the algebra against brute force over the functions that layouts denote."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from cutlass.cute import _layout as cute
from layout_cases import (
    Sym,
    random_compact,
    random_injective,
    random_layout,
    some_dynamic,
    value_of,
    values,
)

CASES = 1000


def coordinates(shape: Any) -> list[Any]:
    """All coordinates of a shape, colexicographically, by definition."""
    if isinstance(shape, int):
        return list(range(shape))
    modes = [coordinates(s) for s in shape]
    return [tuple(reversed(c)) for c in itertools.product(*reversed(modes))]


def index_by_definition(coord: Any, shape: Any, stride: Any) -> int:
    """The inner product of a full coordinate with the strides."""
    if isinstance(shape, int):
        return coord * stride
    return sum(index_by_definition(c, s, d) for c, s, d in zip(coord, shape, stride, strict=True))


def test_an_int_coordinate_counts_colexicographically() -> None:
    rng = random.Random(1)
    for _ in range(CASES // 4):
        layout = random_layout(rng)
        for i, coord in enumerate(coordinates(layout.shape)):
            expected = index_by_definition(coord, layout.shape, layout.stride)
            assert layout(coord) == expected
            assert layout(i) == expected
            assert cute.crd2idx(coord, layout) == expected
            assert cute.crd2idx(coord, layout.shape) == i
            assert cute.idx2crd(i, layout.shape) == coord


def test_size_and_cosize_bound_the_function() -> None:
    rng = random.Random(2)
    for _ in range(CASES):
        layout = random_layout(rng)
        image = values(layout, cute.size(layout))
        assert cute.cosize(layout) == max(image) + 1
        assert cute.size(layout) == len(coordinates(layout.shape))


def test_coordinates_of_an_index_of_a_compact_layout_lead_back_to_it() -> None:
    rng = random.Random(3)
    for _ in range(CASES // 4):
        layout = random_compact(rng)
        for index in range(cute.size(layout)):
            assert layout(layout.get_hier_coord(index)) == index
            assert layout(layout.get_flat_coord(index)) == index
            assert layout(layout.get_1d_coord(index)) == index


def test_coalesce_keeps_the_function_and_is_flat() -> None:
    rng = random.Random(4)
    for _ in range(CASES):
        layout = some_dynamic(rng, random_layout(rng), rng.choice((0, 0, 0.3)))
        result = cute.coalesce(layout)
        assert cute.depth(result) <= 1
        size = cute.size(value_of(layout))
        assert cute.size(value_of(result)) == size
        assert values(value_of(result), size) == values(value_of(layout), size)
        if layout.is_static():
            leaves = list(
                zip(
                    cute.flatten_to_tuple(result.shape),
                    cute.flatten_to_tuple(result.stride),
                    strict=True,
                )
            )
            assert all(s * d != e for (s, d), (_, e) in itertools.pairwise(leaves))
            assert len(leaves) == 1 or all(s != 1 for s, _ in leaves)


def test_coalesce_by_profile_keeps_each_mode() -> None:
    rng = random.Random(5)
    for _ in range(CASES // 2):
        layout = random_layout(rng)
        if not isinstance(layout.shape, tuple):
            continue
        profile = (1,) * rng.randint(1, len(layout.shape))
        result = cute.coalesce(layout, target_profile=profile)
        assert cute.rank(result) == cute.rank(layout)
        for i in range(cute.rank(layout)):
            size = cute.size(layout[i])
            assert values(result[i], size) == values(layout[i], size)
            if i >= len(profile):
                assert result[i] == layout[i]


def test_filter_keeps_every_index() -> None:
    rng = random.Random(6)
    for _ in range(CASES):
        layout = random_layout(rng)
        result = cute.filter(layout)
        assert set(values(result, cute.size(result))) == set(values(layout, cute.size(layout)))
        assert cute.size(layout) % cute.size(result) == 0


def test_composition_is_the_composition_of_the_functions() -> None:
    rng = random.Random(7)
    composed = 0
    while composed < CASES:
        a, b = random_layout(rng), random_layout(rng, 3)
        try:
            result = cute.composition(a, b)
        except cute.LayoutError:
            continue
        composed += 1
        assert cute.is_weakly_congruent(b, result)
        assert cute.product_like(result.shape, b.shape) == b.shape
        for c in coordinates(b.shape):
            assert result(c) == a(b(c)), (a, b, result, c)


def test_composition_with_one_mode_is_refused_by_the_divisibility_conditions_alone() -> None:
    rng = random.Random(8)
    refused = 0
    for _ in range(CASES * 2):
        shape = tuple(rng.choice((2, 3, 4, 5, 6)) for _ in range(rng.randint(1, 3)))
        # Strides that no neighbour merges with, so that each mode is seen.
        a = cute.make_layout(shape, stride=(7, 100, 1000)[: len(shape)])
        b = cute.make_layout(rng.randint(2, 6), stride=rng.randint(1, 6))
        try:
            cute.composition(a, b)
            assert fits(list(shape), b.shape, b.stride)
        except cute.LayoutError:
            assert not fits(list(shape), b.shape, b.stride)
            refused += 1
    assert refused > 100


def test_composition_is_refused_where_modes_overflow_into_each_other() -> None:
    a = cute.make_layout((8, 3), stride=(1, 3))
    with pytest.raises(cute.LayoutError, match="add up to 8 within a mode of size 8"):
        cute.composition(a, cute.make_layout((3, 2), stride=(2, 4)))


def test_composition_with_dynamic_leaves_is_right_at_run_time() -> None:
    rng = random.Random(9)
    checked = 0
    while checked < CASES:
        a, b = random_injective(rng, 3), random_injective(rng, 2)
        try:
            cute.composition(a, b)
        except cute.LayoutError:
            continue
        da, db = some_dynamic(rng, a), some_dynamic(rng, b)
        # Refusals are judged on what is static; with less known, fewer modes merge.
        try:
            result = cute.composition(da, db)
        except cute.LayoutError:
            continue
        at_run_time = value_of(result)
        if not dynamic_conditions_hold(da, b):
            continue
        checked += 1
        for c in coordinates(b.shape):
            assert at_run_time(c) == a(b(c)), (a, b, at_run_time)


def dynamic_conditions_hold(a: Any, b: Any) -> bool:
    """Whether the divisibility conditions hold at run time, mode by mode."""
    shapes = [value_of(s) for s in cute.flatten_to_tuple(a.shape)]
    return all(
        fits(shapes, s, d)
        for s, d in zip(
            cute.flatten_to_tuple(b.shape), cute.flatten_to_tuple(b.stride), strict=True
        )
    )


def fits(shapes: list[int], shape: int, stride: int) -> bool:
    for size in shapes[:-1]:
        if shape == 1:
            return True
        if stride >= size:
            if stride % size:
                return False
            stride //= size
            continue
        taken = min(-(-size // stride), shape)
        if shape % taken or (shape > taken and size % stride):
            return False
        shape //= taken
        stride = 1
    return True


def test_by_mode_composition_composes_mode_by_mode() -> None:
    rng = random.Random(10)
    checked = 0
    while checked < CASES // 4:
        a = random_layout(rng)
        tiler = tuple(rng.choice((None, 2, random_layout(rng, 2))) for _ in range(cute.rank(a)))
        try:
            result = cute.composition(a, tiler)
        except cute.LayoutError:
            continue
        checked += 1
        for i, t in enumerate(tiler):
            if t is None:
                assert result[i] == a[i]
            else:
                b = t if isinstance(t, cute.Layout) else cute.make_layout(t)
                assert result[i] == cute.composition(a[i], b)


def test_complement_is_disjoint_ordered_and_covers() -> None:
    rng = random.Random(11)
    for _ in range(CASES):
        layout = random_injective(rng)
        cotarget = rng.choice((cute.cosize(layout), rng.randint(1, 200)))
        result = cute.complement(layout, cotarget)
        image = values(layout, cute.size(layout))
        rest = values(result, cute.size(result))
        assert rest == sorted(set(rest))
        sums = [a + b for a in image for b in rest]
        assert len(sums) == len(set(sums))
        assert set(range(cotarget)) <= set(sums)
        leaves = zip(
            cute.flatten_to_tuple(layout.shape), cute.flatten_to_tuple(layout.stride), strict=True
        )
        period = max(s * d for s, d in leaves)
        assert max(sums) < -(-cotarget // period) * period


def test_complement_with_dynamic_shapes_is_right_at_run_time() -> None:
    rng = random.Random(12)
    for _ in range(CASES):
        layout = random_injective(rng, 3, sizes=(2, 3, 4))
        cotarget = rng.randint(1, 200)
        shape = some_dynamic(rng, layout).shape
        result = cute.complement(cute.make_layout(shape, stride=layout.stride), Sym(cotarget))
        result = value_of(result)
        image = values(layout, cute.size(layout))
        rest = values(result, cute.size(result))
        sums = [a + b for a in image for b in rest]
        assert len(sums) == len(set(sums))
        assert set(range(cotarget)) <= set(sums)


def test_right_inverse_undoes_the_layout_from_the_right() -> None:
    rng = random.Random(13)
    for _ in range(CASES):
        layout = rng.choice((random_layout, random_compact))(rng)
        inverse = cute.right_inverse(layout)
        assert all(layout(inverse(i)) == i for i in range(cute.size(inverse)))
        if sorted(values(layout, cute.size(layout))) == list(range(cute.size(layout))):
            assert cute.size(inverse) == cute.size(layout)


def test_left_inverse_undoes_an_injective_layout_from_the_left() -> None:
    rng = random.Random(14)
    for _ in range(CASES):
        layout = random_injective(rng)
        inverse = cute.left_inverse(layout)
        assert all(inverse(layout(i)) == i for i in range(cute.size(layout)))


def test_common_layout_and_vector_are_contiguous_in_both() -> None:
    rng = random.Random(15)
    for _ in range(CASES):
        a, b = random_compact(rng), random_compact(rng)
        if cute.size(a) != cute.size(b):
            continue
        common = cute.max_common_layout(a, b)
        count = cute.max_common_vector(a, b)
        assert cute.size(common) == count
        for i in range(count):
            assert a(common(i)) == i and b(common(i)) == i


def test_nullspace_is_the_kernel() -> None:
    rng = random.Random(16)
    for _ in range(CASES):
        layout = random_layout(rng)
        kernel = cute.nullspace(layout)
        assert all(layout(kernel(i)) == 0 for i in range(cute.size(kernel)))
        assert cute.size(kernel) == cute.size(layout) // cute.size(cute.filter_zeros(layout))
        assert cute.nullspace(kernel) == cute.make_layout(1, stride=0)


def test_logical_divide_is_tile_then_rest() -> None:
    rng = random.Random(17)
    checked = 0
    while checked < CASES // 2:
        layout, tiler = random_layout(rng), random_injective(rng, 2)
        try:
            result = cute.logical_divide(layout, tiler)
        except cute.LayoutError:
            continue
        checked += 1
        rest = cute.complement(tiler, cute.coalesce(layout).shape)
        assert cute.rank(result) == 2
        for i, j in itertools.product(range(cute.size(tiler)), range(cute.size(rest))):
            assert result((i, j)) == layout(tiler(i) + rest(j))


def test_a_divide_that_fits_is_a_permutation_of_the_layout() -> None:
    rng = random.Random(18)
    for _ in range(CASES):
        layout = random_compact(rng)
        size = cute.size(layout)
        tile = rng.choice([d for d in range(1, size + 1) if size % d == 0])
        try:
            result = cute.zipped_divide(layout, tile)
        except cute.LayoutError:
            continue
        assert sorted(values(result, size)) == list(range(size)), (layout, tile)


def test_divides_by_a_tuple_agree_with_dividing_each_mode() -> None:
    rng = random.Random(19)
    checked = 0
    while checked < CASES // 2:
        layout = cute.flatten(random_layout(rng))
        if not isinstance(layout.shape, tuple):
            continue
        count = rng.randint(1, cute.rank(layout))
        tiler = tuple(rng.choice((2, 3, random_injective(rng, 2))) for _ in range(count))
        try:
            divided = cute.logical_divide(layout, tiler)
        except cute.LayoutError:
            continue
        checked += 1
        tiles = tuple(divided[i][0] for i in range(count))
        rests = tuple(divided[i][1] for i in range(count))
        rests += tuple(layout[i] for i in range(count, cute.rank(layout)))
        zipped = cute.zipped_divide(layout, tiler)
        assert zipped == cute.make_layout((cute.make_layout(tiles), cute.make_layout(rests)))
        assert cute.tiled_divide(layout, tiler) == cute.make_layout(
            (cute.make_layout(tiles), *rests)
        )
        assert cute.flat_divide(layout, tiler) == cute.make_layout((*tiles, *rests))
        assert cute.product_each(cute.ceil_div(layout.shape, tiler)) == cute.product_each(
            zipped.shape[1]
        )


def test_logical_product_repeats_the_block_without_overlap() -> None:
    rng = random.Random(20)
    checked = 0
    while checked < CASES // 4:
        block, tiler = random_injective(rng, 2), random_compact(rng, 3)
        try:
            result = cute.logical_product(block, tiler)
        except cute.LayoutError:  # The gaps of the block do not fit the tiler.
            continue
        checked += 1
        assert result[0] == block
        assert cute.product_like(result[1].shape, tiler.shape) == tiler.shape
        count = cute.size(block) * cute.size(tiler)
        assert len(set(values(result, count))) == count
        # The order of the repetitions is that of the tiler.
        complement = cute.complement(block, cute.size(block) * cute.cosize(tiler))
        for j in range(cute.size(tiler)):
            assert result[1](j) == complement(tiler(j))


def test_blocked_and_raked_products_are_the_logical_product_rearranged() -> None:
    rng = random.Random(21)
    for _ in range(CASES):
        block, tiler = random_compact(rng, 2), random_compact(rng, 2)
        ranks = max(cute.rank(block), cute.rank(tiler))
        padded = [cute.append_ones(x, up_to_rank=ranks) for x in (block, tiler)]
        blocks, tiles = cute.logical_product(*padded)[0], cute.logical_product(*padded)[1]
        blocked, raked = cute.blocked_product(block, tiler), cute.raked_product(block, tiler)
        assert cute.rank(blocked) == cute.rank(raked) == ranks
        for i in range(ranks):
            if ranks == 1 and not isinstance(padded[0].shape, tuple):
                assert blocked[0][0].shape == blocks.shape
                continue
            assert (blocked[i][0], blocked[i][1]) == (blocks[i], tiles[i])
            assert (raked[i][0], raked[i][1]) == (tiles[i], blocks[i])


def test_zipped_tiled_and_flat_products_regroup_the_logical_product() -> None:
    rng = random.Random(22)
    for _ in range(CASES // 20):
        block, tiler = random_compact(rng, 3), random_compact(rng, 3)
        logical = cute.logical_product(block, tiler)
        assert cute.zipped_product(block, tiler) == logical
        count = cute.size(logical)
        assert values(cute.tiled_product(block, tiler), count) == values(logical, count)
        assert values(cute.flat_product(block, tiler), count) == values(logical, count)


def test_tile_to_shape_places_whole_copies_of_the_atom() -> None:
    rng = random.Random(23)
    for _ in range(CASES // 2):
        atom = random_compact(rng, 3)
        sizes = cute.product_each(atom.shape)
        target = tuple(s * rng.choice((1, 2, 3)) for s in sizes)
        order = list(range(len(target)))
        rng.shuffle(order)
        result = cute.tile_to_shape(atom, target, order=tuple(order))
        assert cute.product_each(result.shape) == target
        count = cute.size(result)
        assert sorted(values(result, count)) == list(range(count))
        for coord in coordinates(sizes):
            assert result(coord) == atom(coord if isinstance(atom.shape, tuple) else coord[0])


def test_recast_to_wider_and_back_keeps_contiguous_elements_together() -> None:
    rng = random.Random(24)
    checked = 0
    while checked < CASES // 4:
        layout = random_compact(rng, 3)
        factor = rng.choice((2, 4))
        try:
            wide = cute.recast_layout(8 * factor, 8, layout)
        except cute.LayoutError:
            continue
        if cute.size(wide) * factor != cute.size(layout):
            continue
        checked += 1
        bits = {i * 8 + b for i in values(layout, cute.size(layout)) for b in range(8)}
        width = 8 * factor
        wide_bits = {i * width + b for i in values(wide, cute.size(wide)) for b in range(width)}
        assert bits == wide_bits


def test_layouts_with_many_dynamic_leaves_divide_right_at_run_time() -> None:
    rng = random.Random(25)
    for _ in range(CASES // 8):
        sizes = (rng.randint(1, 40), rng.randint(1, 40))
        strides = rng.choice(((sizes[1], 1), (1, sizes[0])))
        tiler = (rng.choice((1, 4, 8)), rng.choice((1, 2, 16)))
        layout = cute.make_layout((Sym(sizes[0]), Sym(sizes[1])), stride=strides)
        result = value_of(cute.zipped_divide(layout, tiler))
        rest = tuple(-(-s // t) for s, t in zip(sizes, tiler, strict=True))
        assert result.shape == (tiler, rest)
        assert value_of(cute.ceil_div(layout.shape, tiler)) == rest
        for tile in coordinates(rest):
            for c in coordinates(tiler):
                i, j = (tile[0] * tiler[0] + c[0], tile[1] * tiler[1] + c[1])
                assert result((c, tile)) == i * strides[0] + j * strides[1]


@pytest.mark.parametrize("bits", [0, 1, 2, 3])
@pytest.mark.parametrize("base", [0, 2, 4])
@pytest.mark.parametrize("shift", [3, 4, -3, -4])
def test_swizzle_is_its_own_inverse(bits: int, base: int, shift: int) -> None:
    swizzle = cute.make_swizzle(bits, base, shift)
    span = 1 << (bits + base + abs(shift) + 1)
    image = [swizzle(i) for i in range(span)]
    assert sorted(image) == list(range(span))
    assert all(swizzle(swizzle(i)) == i for i in range(span))
    for i in range(span):
        source = (i >> (base + max(0, shift))) & ((1 << bits) - 1)
        assert image[i] == i ^ (source << (base - min(0, shift)))
    dynamic = [value_of(swizzle(Sym(i))) for i in range(span)]
    assert dynamic == image


def test_recasting_a_swizzled_layout_moves_whole_vectors() -> None:
    rng = random.Random(26)
    for _ in range(CASES // 10):
        factor = rng.choice((2, 4, 8))
        base = rng.randint(factor.bit_length() - 1, 5)
        swizzle = cute.make_swizzle(rng.randint(0, 3), base, rng.choice((3, 4, -3)))
        narrow = cute.composition(swizzle, cute.make_layout((8, 64), stride=(64, 1)))
        wide = cute.recast_layout(8 * factor, 8, narrow)
        for row, column in itertools.product(range(8), range(64 // factor)):
            first = narrow((row, column * factor))
            assert wide((row, column)) * factor == first
            assert [narrow((row, column * factor + i)) for i in range(factor)] == [
                first + i for i in range(factor)
            ]
        assert cute.recast_layout(8, 8 * factor, wide) == narrow
