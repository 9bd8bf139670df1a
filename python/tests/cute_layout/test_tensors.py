"""What the algebra does to tensors: the engine moves with the slice, by elements or coordinates."""

from __future__ import annotations

import itertools
import random

import pytest
from cutlass.cute import _layout as cute
from layout_cases import Sym, random_compact, value_of


def numbered(shape: tuple[int, ...], stride: tuple[int, ...]) -> cute.CoordTensor:
    """A tensor whose elements are their own indices."""
    return cute.make_coord_tensor(0, cute.make_layout(shape, stride=stride))


def test_identity_tensors_hold_their_coordinates() -> None:
    tensor = cute.make_identity_tensor((3, 2))
    assert str(tensor) == "tensor<(0,0) o (3,2):(1@0,1@1)>"
    assert [tensor[i] for i in range(6)] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert [cute.make_identity_tensor(6)[i] for i in range(6)] == list(range(6))
    deep = cute.make_identity_tensor(((2, 1), 3))
    assert deep[3] == ((1, 0), 1) and deep[(1, 0), 2] == ((1, 0), 2)


def test_a_coordinate_tensor_starts_at_its_iterator() -> None:
    tensor = cute.make_coord_tensor(5, cute.make_layout(2, stride=16 * cute.E(0)))
    assert [tensor[0], tensor[1]] == [(5,), (21,)]
    with pytest.raises(TypeError, match="cannot be set"):
        tensor[0] = 1


def test_slices_of_a_tensor_are_its_elements() -> None:
    rng = random.Random(41)
    for _ in range(300):
        layout = random_compact(rng)
        if not isinstance(layout.shape, tuple):
            continue
        tensor = cute.make_coord_tensor(7, layout)
        sizes = cute.product_each(layout.shape)
        fixed = tuple(rng.choice((None, rng.randrange(s))) for s in sizes)
        if None not in fixed:
            continue
        part = tensor[fixed]
        free = [range(s) for s, c in zip(sizes, fixed, strict=True) if c is None]
        for inner in itertools.product(*free):
            rest = iter(inner)
            coord = tuple(next(rest) if c is None else c for c in fixed)
            assert part[inner] == tensor[coord] == 7 + layout(coord)


def test_local_tile_is_one_tile_of_the_zipped_divide() -> None:
    tensor = numbered((16, 24), (24, 1))
    tile = cute.local_tile(tensor, tiler=(2, 4), coord=(1, 3))
    assert tile.shape == (2, 4)
    for i, j in itertools.product(range(2), range(4)):
        assert tile[i, j] == tensor[2 + i, 12 + j]
    line = cute.local_tile(tensor, (2, 4), (1, None))
    assert line.shape == (2, 4, 6)
    assert line[1, 2, 5] == tensor[3, 22]


def test_local_tile_projects_out_modes_of_the_tiler() -> None:
    tensor = numbered((16, 24), (24, 1))
    full = cute.local_tile(tensor, tiler=(2, 2, 4), coord=(0, 1, 1), proj=(1, None, 1))
    assert str(full) == str(cute.local_tile(tensor, (2, 4), (0, 1)))


def test_local_tile_of_a_dynamic_tensor_at_a_dynamic_place() -> None:
    layout = cute.make_layout((Sym(100), Sym(50)), stride=(Sym(50), 1))
    tile = cute.local_tile(cute.make_coord_tensor(0, layout), (16, 8), (Sym(6), Sym(2)))
    assert str(tile.layout) == "(16,8):(?,1)"
    assert value_of(tile[3, 5]) == (6 * 16 + 3) * 50 + 2 * 8 + 5


def test_local_tile_keeps_modes_beyond_the_coordinate() -> None:
    tensor = numbered((16, 24, 5), (24, 1, 384))
    tile = cute.local_tile(tensor, (2, 4), (1, 3, 2))
    assert tile.shape == (2, 4) and tile[0, 0] == tensor[2, 12, 2]


def test_local_partition_deals_out_elements_to_threads() -> None:
    tensor = numbered((8, 12), (12, 1))
    threads = cute.make_layout((2, 3), stride=(3, 1))
    seen = []
    for t in range(6):
        part = cute.local_partition(tensor, threads, t)
        assert part.shape == (4, 4)
        for i, j in itertools.product(range(4), range(4)):
            assert part[i, j] == tensor[2 * i + t // 3, 3 * j + t % 3]
            seen.append(part[i, j])
    assert sorted(seen) == list(range(96))


def test_local_partition_with_a_projection_repeats_along_the_dropped_mode() -> None:
    tensor = numbered((8, 4), (4, 1))
    threads = cute.make_layout((2, 16, 2))
    for t in (0, 1, 2, 33, 63):
        part = cute.local_partition(tensor, threads, t, proj=(1, None, 1))
        m, k = t % 2, t // 32
        assert part.shape == (4, 2) and part[1, 1] == tensor[2 + m, 2 + k]


def test_domain_offset_moves_coordinate_zero() -> None:
    tensor = numbered((64, 128), (128, 1))
    moved = cute.domain_offset((3, 5), tensor)
    assert moved[0, 0] == tensor[3, 5] and moved[1, 1] == tensor[4, 6]
    coords = cute.domain_offset((3, 5), cute.make_identity_tensor((64, 128)))
    assert coords[1, 2] == (4, 7)


def test_operations_on_tensors_keep_the_engine() -> None:
    tensor = cute.make_coord_tensor(9, cute.make_layout((2, 3, 4, 5)))
    grouped = cute.group_modes(tensor, 1, 3)
    assert grouped.shape == (2, (3, 4), 5) and grouped[0] == 9
    assert cute.flatten(grouped).shape == (2, 3, 4, 5)
    assert cute.coalesce(tensor).shape == 120
    assert cute.select(tensor, mode=[3, 0]).shape == (5, 2)
    assert cute.get(tensor, mode=[1]).shape == 3
    assert cute.size(tensor) == 120 and cute.size(tensor, mode=[2]) == 4
    assert cute.rank(tensor) == 4 and cute.shape(tensor, mode=[3]) == 5
    assert cute.logical_divide(tensor, (2, 3)).shape == ((2, 1), (3, 1), 4, 5)
    assert cute.tiled_divide(tensor, (2, 3)).shape == ((2, 3), 1, 1, 4, 5)
    assert cute.flat_divide(tensor, (2, 3)).shape == (2, 3, 1, 1, 4, 5)
    assert cute.composition(tensor, cute.make_layout(6))[5] == 14
    assert cute.filter_zeros(tensor).shape == (2, 3, 4, 5)
    assert cute.append_ones(tensor, up_to_rank=5).shape == (2, 3, 4, 5, 1)
    assert cute.prepend_ones(tensor, up_to_rank=5).shape == (1, 2, 3, 4, 5)
    assert cute.max_common_vector(tensor, tensor) == 120


def test_slicing_a_swizzled_layout_keeps_every_index() -> None:
    swizzle = cute.make_swizzle(2, 1, 3)
    outer = cute.make_layout((8, 16), stride=(16, 1))
    composed = cute.make_composed_layout(swizzle, 0, outer)
    for row in range(8):
        line = cute.slice_(composed, (row, None))
        assert [line(c) for c in range(16)] == [swizzle(outer((row, c))) for c in range(16)]
    divided = cute.zipped_divide(composed, (4, 4))
    for i, j in itertools.product(range(16), range(8)):
        tile, rest = cute.idx2crd(i, (4, 4)), cute.idx2crd(j, (2, 4))
        assert divided((tile, rest)) == composed((tile[0] + 4 * rest[0], tile[1] + 4 * rest[1]))


def test_a_layout_after_a_swizzle_is_checked_against_the_functions() -> None:
    swizzle = cute.make_swizzle(1, 0, 2)
    moved = cute.composition(cute.make_layout((4, 2), stride=(2, 8)), swizzle)
    assert str(moved) == "S<1,1,2> o 0 o (4,2):(2,8)"
    with pytest.raises(ValueError):
        cute.composition(cute.make_layout((4, 2), stride=(1, 1)), swizzle)
    inverse = cute.right_inverse(cute.composition(swizzle, cute.make_layout(8)))
    assert [inverse(i) for i in range(8)] == [swizzle(i) for i in range(8)]


def test_tiles_of_swizzled_atoms_repeat_the_swizzle() -> None:
    atom = cute.make_composed_layout(
        cute.make_swizzle(3, 3, 3), 0, cute.make_layout((8, 64), stride=(64, 1))
    )
    tiled = cute.tile_to_shape(atom, (64, 128), order=(0, 1))
    assert str(tiled) == "S<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))"
    image = [tiled(i) for i in range(64 * 128)]
    assert sorted(image) == list(range(64 * 128))
    assert cute.get_swizzle_portion(tiled) == cute.make_swizzle(3, 3, 3)
    assert cute.get_nonswizzle_portion(tiled) == tiled.outer
    assert str(cute.get_swizzle_portion(tiled.outer)) == "S<0,4,3>"


def test_bytes_round_up() -> None:
    class Float4:
        width = 4

    assert cute.size_in_bytes(Float4, cute.make_layout(7)) == 4
    assert cute.size_in_bytes(Float4, cute.make_layout((4, 4), stride=(16, 1))) == 26
    assert cute.size_in_bytes(Float4, None) == 0


def test_the_alignment_of_a_layout_divides_its_strides() -> None:
    assert cute.make_layout((4, 8), stride=(1, 4)).max_alignment == 32
    assert cute.make_layout((4, 8), stride=(1, 6)).max_alignment == 2
    assert cute.make_layout((8, 4), stride=(32, 8)).max_alignment == 1


def test_fragments_order_their_modes_as_the_source_does() -> None:
    like = cute.make_fragment_like_layout
    source = cute.make_layout(((2, 2), 3, 4), stride=((1, 64), 256, 8))
    assert str(like(source)) == "((2,2),3,4):((1,2),16,4)"
    broadcast = cute.make_layout((4, 3, 2), stride=(0, 1, 0))
    assert str(like(broadcast)) == "(4,3,2):(0,1,0)"
    assert str(like(cute.make_identity_layout((4, 2)))) == "(4,2):(1,4)"
