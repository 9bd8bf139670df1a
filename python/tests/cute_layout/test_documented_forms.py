"""Results and texts that the public documentation and the public notebooks state."""

from __future__ import annotations

from typing import Any

import pytest
from cutlass.cute import _layout as cute
from layout_cases import Sym, value_of


def layout(shape: Any, stride: Any) -> cute.Layout:
    return cute.make_layout(shape, stride=stride)


def test_layouts_print_as_shape_and_stride() -> None:
    assert str(layout((4, 8), (8, 1))) == "(4,8):(8,1)"
    assert str(cute.make_layout((4, 8))) == "(4,8):(1,4)"
    assert str(cute.make_layout((3,))) == "(3):(1)"
    assert str(cute.make_layout(12)) == "12:1"
    assert str(cute.make_layout((Sym(8), 2))) == "(?,2):(1,?)"
    assert value_of(cute.make_layout((Sym(8), 2))) == layout((8, 2), (1, 8))
    assert str(layout((Sym(8), 4), (Sym(2, 2), 1))) == "(?,4):(?{div=2},1)"


def test_a_64_bit_dynamic_leaf_says_so() -> None:
    class Wide(Sym):
        width = 64

    assert str(layout((Sym(1), Sym(4)), (Wide(8), 1))) == "(?,?):(?{i64},1)"


def test_identity_layouts_print_basis_elements_innermost_first() -> None:
    assert str(cute.make_identity_layout((4, 4))) == "(4,4):(1@0,1@1)"
    assert str(cute.make_identity_layout((32, 16, 8))) == "(32,16,8):(1@0,1@1,1@2)"
    assert str(cute.make_identity_layout(((2, 1), 3))) == "((2,1),3):((1@0@0,1@1@0),1@1)"


def test_swizzles_and_composed_layouts_print_inner_offset_outer() -> None:
    swizzle = cute.make_swizzle(3, 4, 3)
    assert str(swizzle) == "S<3,4,3>"
    composed = cute.composition(swizzle, layout((8, 8), (8, 1)))
    assert str(composed) == "S<3,4,3> o 0 o (8,8):(8,1)"
    assert composed.inner == swizzle and composed.offset == 0
    assert composed.outer == layout((8, 8), (8, 1))


def test_coalesce_drops_a_mode_of_size_one_with_a_dynamic_stride() -> None:
    assert str(cute.coalesce(layout((2, (1, 6)), (1, (Sym(6), 2))))) == "12:1"


def test_coalesce_by_mode() -> None:
    result = cute.coalesce(layout((2, (1, 6)), (1, (6, 2))), target_profile=(1, 1))
    assert str(result) == "(2,6):(1,2)"
    nested = layout(((2, (3, 4)), (3, 2), 1), ((4, (8, 24)), (2, 6), 12))
    assert str(cute.coalesce(nested)) == "(24,6):(4,2)"


def test_composition_with_a_dynamic_stride_keeps_its_divisibility() -> None:
    result = cute.composition(layout((6, 2), (Sym(8), 2)), layout((4, 3), (3, 1)))
    assert str(result) == "((2,2),3):((?{div=3},2),?)"
    assert value_of(result) == layout(((2, 2), 3), ((24, 2), 8))


def test_composition_of_static_and_of_dynamic_layouts() -> None:
    static = cute.composition(layout((10, 2), (16, 4)), layout((5, 4), (1, 5)))
    assert str(static) == "(5,(2,2)):(16,(80,4))"
    dynamic = cute.composition(
        layout((Sym(10), Sym(2)), (Sym(16), Sym(4))), layout((Sym(5), Sym(4)), (Sym(1), Sym(5)))
    )
    assert str(value_of(dynamic)) == "((5,1),(2,2)):((16,4),(80,4))"


def test_composition_by_mode_with_a_shape() -> None:
    a = layout((Sym(12), (Sym(4), Sym(8))), (Sym(59), (Sym(13), Sym(1))))
    result = cute.composition(a, (3, 8))
    assert str(result) == "(3,(?,?)):(?,(?,?))"
    assert str(value_of(result)) == "(3,(4,2)):(59,(13,1))"


def test_composition_of_the_algebra_page() -> None:
    assert str(cute.composition(layout(20, 2), layout((5, 4), (4, 1)))) == "(5,4):(8,2)"
    assert str(cute.composition(layout((6, 2), (8, 2)), layout((4, 3), (3, 1)))) == (
        "((2,2),3):((24,2),8)"
    )
    a = layout((12, (4, 8)), (59, (13, 1)))
    tiler = (layout(3, 4), layout(8, 2))
    assert str(cute.composition(a, tiler)) == "(3,(2,4)):(236,(26,1))"
    four = layout((3, 6, 2, 8), (1, 100, 10000, 1000000))
    assert cute.coalesce(cute.composition(four, layout(16, 9))) == layout(
        (2, 2, 4), (300, 10000, 1000000)
    )


@pytest.mark.parametrize(
    ("shape", "stride", "cotarget", "expected"),
    [
        (4, 1, 24, "6:4"),
        (6, 4, 24, "4:1"),
        ((4, 6), (1, 4), 24, "1:0"),
        (4, 2, 24, "(2,3):(1,8)"),
        ((2, 4), (1, 6), 24, "3:2"),
        ((2, 2), (1, 6), 24, "(3,2):(2,12)"),
    ],
)
def test_complements_of_the_algebra_page(
    shape: Any, stride: Any, cotarget: int, expected: str
) -> None:
    assert str(cute.complement(layout(shape, stride), cotarget)) == expected


def test_divides() -> None:
    result = cute.logical_divide(layout((4, 2, 3), (2, 1, 8)), tiler=layout(4, 2))
    assert str(result) == "((2,2),(2,3)):((4,1),(2,8))"
    target = layout((9, (4, 8)), (59, (13, 1)))
    tiler = (layout(3, 3), layout((2, 4), (1, 8)))
    assert str(cute.logical_divide(target, tiler)) == (
        "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"
    )
    assert str(cute.zipped_divide(target, tiler)) == (
        "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    )
    assert str(cute.tiled_divide(target, tiler)) == ("((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))")
    assert str(cute.flat_divide(target, tiler)) == "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"
    shape = cute.zipped_divide(layout((128, 64), (64, 1)), (8, 8)).shape
    assert shape == ((8, 8), (16, 8))


def test_products() -> None:
    result = cute.logical_product(layout((2, 2), (4, 1)), tiler=layout(6, 1))
    assert str(result) == "((2,2),(2,3)):((4,1),(2,8))"
    block, tiler = layout((2, 5), (5, 1)), layout((3, 4), (1, 3))
    assert str(cute.blocked_product(block, tiler)) == "((2,3),(5,4)):((5,10),(1,30))"
    assert str(cute.raked_product(block, tiler)) == "((3,2),(4,5)):((10,5),(30,1))"
    assert str(cute.zipped_product(block, tiler)) == "((2,5),(3,4)):((5,1),(10,30))"
    assert str(cute.tiled_product(block, tiler)) == "((2,5),3,4):((5,1),10,30)"
    assert str(cute.flat_product(block, tiler)) == "(2,5,3,4):(5,1,10,30)"
    twice = cute.logical_product(layout((2, 2), (4, 1)), layout((4, 2), (2, 1)))
    assert str(twice) == "((2,2),(4,2)):((4,1),(8,2))"


def test_made_layouts() -> None:
    assert str(cute.make_ordered_layout((4, 4), order=(1, 0))) == "(4,4):(4,1)"
    assert str(cute.make_ordered_layout((4, 4), order=(0, 1))) == "(4,4):(1,4)"
    assert cute.make_ordered_layout((32, 16, 8), order=(2, 0, 1)).stride == (128, 1, 16)
    assert str(cute.make_ordered_layout((2, 2, 2, 2), (0, 2, 3, 1))) == "(2,2,2,2):(1,4,8,2)"
    sizes = (Sym(2), Sym(3), Sym(4), Sym(5))
    ordered = cute.make_ordered_layout(sizes, (2, Sym(67), Sym(42), 50))
    assert str(value_of(ordered)) == "(2,3,4,5):(1,10,30,2)"
    assert str(cute.make_layout_like(layout((2, 2, 2, 2), (0, 2, 4, 1)))) == ("(2,2,2,2):(0,2,4,1)")
    like = cute.make_layout_like(layout(sizes, (0, Sym(42), 1, 0)))
    assert str(value_of(like)) == "(2,3,4,5):(0,4,1,0)"
    modes = [layout(64, 1), layout(128, 64)]
    assert str(cute.make_layout(modes)) == "(64,128):(1,64)"


def test_appended_and_prepended_modes() -> None:
    assert cute.append((4, 4), 2) == (4, 4, 2)
    assert cute.append((1, 1), 0, up_to_rank=4) == (1, 1, 0, 0)
    assert cute.prepend((4, 4), 2) == (2, 4, 4)
    assert cute.prepend((1, 1), 0, up_to_rank=4) == (0, 0, 1, 1)
    two = cute.make_layout((2,))
    assert str(cute.append(cute.make_layout((8, 8)), two)) == "(8,8,2):(1,8,1)"
    assert str(cute.prepend(cute.make_layout((8, 8)), two)) == "(2,8,8):(1,1,8)"
    assert str(cute.append_ones(cute.make_layout((8, 8)), up_to_rank=4)) == "(8,8,1,1):(1,8,0,0)"
    with pytest.raises(ValueError, match="append: rank 2 is more than 1"):
        cute.append((4, 4), 2, up_to_rank=1)


def test_grouped_modes() -> None:
    assert cute.group_modes((2, 3, 4, 5), 1, 3) == (2, (3, 4), 5)
    assert cute.group_modes(cute.make_layout((2, 3, 4, 5)), 1, 3).shape == (2, (3, 4), 5)
    assert cute.group_modes((2, 3, 4, 5), 0, 2) == ((2, 3), 4, 5)
    with pytest.raises(ValueError, match="group_modes: no modes 1 to 5"):
        cute.group_modes((2, 3), 1, 5)


def test_slices_keep_the_modes_at_none() -> None:
    square = cute.make_layout((4, 3), stride=(3, 1))
    assert str(cute.slice_(square, (None, 0))) == "(4):(3)"
    assert str(cute.slice_(square, (1, None))) == "(3):(1)"
    assert str(square(None, 2)) == "(4):(3)"
    assert cute.slice_((128, 64, 32), (None, 0, None)) == (128, 32)
    assert cute.dice((128, 64, 32), (1, None, 1)) == (128, 32)
    assert cute.slice_and_offset((1, None), square) == (cute.slice_(square, (1, None)), 3)
    nested = layout(((2, 3), 4), ((1, 2), 6))
    assert str(cute.slice_(nested, ((None, 1), None))) == "(2,4):(1,6)"
    with pytest.raises(ValueError, match=r"the coordinate \(_,0,0\) does not fit"):
        cute.slice_(square, (None, 0, 0))


def test_indices_and_coordinates() -> None:
    assert cute.crd2idx((2, 3), layout((5, 4), (4, 1))) == 11
    assert cute.crd2idx((2, 3), layout((4, 8), (8, 1))) == 19
    assert cute.idx2crd(11, (5, 4)) == (1, 2)
    assert cute.increment_coord((2, 0, 0), (3, 3, 3)) == (0, 1, 0)
    assert cute.increment_coord((2, 2, 2), (3, 3, 3)) == (0, 0, 0)
    basis = layout((4, 8), (cute.ScaledBasis(2, 0), cute.ScaledBasis(1, 1)))
    assert str(basis) == "(4,8):(2@0,1@1)"
    assert cute.crd2idx((2, 3), basis) == (4, 3)
    with pytest.raises(ValueError, match="differ in structure"):
        cute.increment_coord((2, 0), (3, 3, 3))


def test_identity_layouts_map_each_coordinate_to_itself() -> None:
    flat = cute.make_identity_layout((3, 2))
    assert [flat(i) for i in range(6)] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    deep = cute.make_identity_layout(((2, 1), 3))
    assert [deep(i) for i in range(6)] == [
        ((0, 0), 0), ((1, 0), 0), ((0, 0), 1), ((1, 0), 1), ((0, 0), 2), ((1, 0), 2)
    ]  # fmt: skip
    assert [cute.make_identity_layout(6)(i) for i in range(6)] == [0, 1, 2, 3, 4, 5]


def test_tuples() -> None:
    assert cute.depth(1) == 0 and cute.depth((1, 2)) == 1 and cute.depth(()) == 1
    assert cute.depth(((1, 2), (3, 4))) == 2
    assert cute.flatten(((1, 2), (3, 4))) == (1, 2, 3, 4) and cute.flatten(5) == 5
    assert cute.flatten_to_tuple((1, (2, (3,)))) == (1, 2, 3)
    assert cute.unflatten([1, 2, 3, 4], ((0, 0), (0, 0))) == ((1, 2), (3, 4))
    assert cute.repeat_as_tuple(1, 1) == (1,) and cute.repeat(1, 1) == 1
    assert cute.repeat(None, 4) == (None,) * 4
    assert cute.repeat_like(1, ((1, 2), 3)) == ((1, 1), 1)
    assert cute.transform_leaf(lambda x, y: x + y, (1, 2), (3, 4)) == (4, 6)
    assert cute.transform_apply((1, 2, 3), f=lambda x: x * 2, g=lambda *a: sum(a)) == 12
    assert cute.transform_apply((1, 2), f=lambda x: (x, x + 1), g=cute.tuple_cat) == (1, 2, 2, 3)
    assert cute.filter_tuple((1, 2, 3, 4), f=lambda x: (x,) if x % 2 == 0 else ()) == (2, 4)
    assert cute.tuple_cat(1, (2, 3)) == (1, 2, 3)
    assert cute.unwrap(((1, 2, 3),)) == (1, 2, 3) and cute.unwrap((1,)) == 1
    assert cute.wrap(1) == (1,) and cute.wrap((1, 2)) == (1, 2)
    with pytest.raises(RuntimeError, match="too short"):
        cute.unflatten([1], (0, 0))
    with pytest.raises(TypeError, match="differ in structure"):
        cute.transform_leaf(lambda x, y: x, (1, 2), (1, (2, 3)))
    with pytest.raises(ValueError, match="n must be at least 1"):
        cute.repeat(1, 0)


def test_shape_arithmetic() -> None:
    assert cute.ceil_div((10, 6), (3, 4)) == (4, 2)
    assert cute.ceil_div(10, 4) == 3
    assert cute.ceil_div((10, 6, 5), (3, 4)) == (4, 2, 5)
    assert cute.shape_div((4, 5, 6), 40) == (1, 1, 3)
    assert cute.shape_div(((3, 4), 6), 36) == ((1, 1), 2)
    assert cute.round_up((10, 6), (4, 4)) == (12, 8)
    assert cute.product(((2, 3), 4)) == 24
    assert cute.product_each(((2, 3), 4)) == (6, 4)
    assert cute.product_like(((2, 3), 4), (0, 0)) == (6, 4)
    with pytest.raises(ValueError, match="neither of 4 and 6 divides"):
        cute.shape_div(4, 6)


def test_comparisons() -> None:
    assert cute.elem_less((1, 2), (2, 3)) is True
    assert cute.elem_less((1, 3), (2, 3)) is False
    assert cute.elem_less((1, (2, 0)), (2, (3, 1))) is True
    assert cute.elem_less((1,), (2, 3)) is True and cute.elem_less((1, 2), (2,)) is False
    assert value_of(cute.elem_less((Sym(1), 2), (2, Sym(3)))) == 1
    assert value_of(cute.elem_less((Sym(1), Sym(3)), (2, Sym(3)))) == 0
    assert cute.elem_less((Sym(1), 3), (2, 3)) is False
    assert cute.is_congruent((1, (2, 3)), (4, (5, 6))) and not cute.is_congruent((1, 2), 3)
    assert cute.is_weakly_congruent((1, 2), (4, (5, 6)))
    assert not cute.is_weakly_congruent((1, (2, 3)), (4, 5))


def test_searches() -> None:
    assert cute.find((3, 1, 2), 1) == 1
    assert cute.find((3, (2, 1)), 1) == (1, 1)
    assert cute.find((3, (2, 1)), 1, hierarchical=False) is None
    assert cute.find((Sym(1), 1), 1) == 1
    assert cute.find((3, 2), 7) is None
    assert cute.leading_dim((4, 8), (8, 1)) == 1
    assert cute.leading_dim((1, 8), (1, 1)) == 1
    assert cute.leading_dim((4, (2, 8)), (16, (8, 1))) == (1, 1)
    assert cute.leading_dim((2, 2), (8, 2)) is None
    assert cute.front(layout(((2, 3), 4), ((5, 6), 7))) == 5
    assert cute.is_major(1, (8, 1)) and not cute.is_major(0, (8, 1))


def test_basis_elements() -> None:
    assert str(cute.E(1)) == "1@1" and str(3 * cute.ScaledBasis(2, 0)) == "6@0"
    assert cute.E([0, 1]).mode == [0, 1] and cute.E([]) == 1
    assert cute.basis_value(cute.ScaledBasis(5, 0)) == 5 and cute.basis_value(42) == 42
    assert cute.basis_get(cute.ScaledBasis(2, 1), (10, 20, 30)) == 20
    assert cute.basis_get(cute.ScaledBasis(2, [0, 1]), ((10, 20), (30, 40))) == 20
    assert cute.basis_get(5, (10, 20, 30)) == (10, 20, 30)
    half = cute.ScaledBasis(cute.Ratio(1, 2), 1)
    assert str(half) == "1/2@1" and half.is_static()
    assert not cute.ScaledBasis(Sym(2), 0).is_static()
    with pytest.raises(TypeError, match="mode must be an int or a list of ints"):
        cute.ScaledBasis(1, "0")


def test_ratios() -> None:
    product = cute.Ratio(1, 2) * cute.Ratio(3, 4)
    assert (product.numerator, product.denominator) == (3, 8)
    assert 5 * cute.Ratio(2, 3) == cute.Ratio(10, 3)
    assert cute.Ratio(3, 2).to(float) == 1.5 and cute.Ratio(3, 2).to(int) == 1
    assert cute.Ratio(4, 2).is_integral() and str(cute.Ratio(4, 6).reduced()) == "2/3"
    with pytest.raises(TypeError, match="must be ints"):
        cute.Ratio(1.5, 2)


def test_staticness() -> None:
    assert cute.is_static((1, (2, None))) and not cute.is_static((1, Sym(2)))
    assert cute.is_static(cute.make_layout((4, 8)))
    assert not cute.is_static(cute.make_layout((4, Sym(8))))
    assert cute.is_static(cute.composition(cute.make_swizzle(1, 2, 3), cute.make_layout(8)))
    assert cute.is_static(cute.E(0)) and not cute.is_static(Sym(1) * cute.E(0))
    with pytest.raises(TypeError, match="unsupported type"):
        cute.is_static(object())


def test_custom_inner_functions_map_coordinates() -> None:
    """The composed layout notebook: y is one more, after an offset of (1, 0)."""
    composed = cute.make_composed_layout(
        lambda c: (c[0], c[1] + 1), (1, 0), cute.make_identity_layout(shape=(8, 4))
    )
    assert composed(0) == (1, 1) and composed((3, 2)) == (4, 3)
    assert not composed.is_normal


def test_recast_layouts() -> None:
    assert str(cute.recast_layout(16, 8, layout((8, 4), (1, 8)))) == "(4,4):(1,4)"
    assert str(cute.recast_layout(8, 16, layout((4, 4), (1, 4)))) == "(8,4):(1,8)"
    assert str(cute.recast_layout(4, 8, layout((4, 8), (8, 1)))) == "(4,16):(16,1)"
    dynamic = cute.recast_layout(32, 8, layout((Sym(4), 8), (Sym(8, 4), 1)))
    assert str(value_of(dynamic)) == "(4,2):(2,1)"
    swizzled = cute.composition(cute.make_swizzle(3, 4, 3), layout((8, 64), (64, 1)))
    assert str(cute.recast_layout(16, 8, swizzled)) == "S<3,3,3> o 0 o (8,32):(32,1)"
    with pytest.raises(ValueError, match="recast_layout: stride 3"):
        cute.recast_layout(16, 8, layout((8, 4), (1, 3)))


def test_masks_of_a_layout_line() -> None:
    cluster = cute.make_layout((2, 4))
    assert cute.make_layout_image_mask(cluster, (1, 2), 0) == 0b11 << 4
    assert cute.make_layout_image_mask(cluster, (1, 2), 1) == 0b10101010
    assert value_of(cute.make_layout_image_mask(cluster, (Sym(1), 2), 1)) == 0b10101010
    with pytest.raises(ValueError, match="beyond 16 bits"):
        cute.make_layout_image_mask(cute.make_layout((8, 4)), (0, 0), 0)


def test_errors_name_the_function_and_the_reason() -> None:
    with pytest.raises(ValueError, match=r"shape \(4,4\) and stride \(1\) differ in structure"):
        cute.make_layout((4, 4), stride=(1,))
    with pytest.raises(TypeError, match="a shape holds integers, got float"):
        cute.make_layout((4, 2.0))
    with pytest.raises(ValueError, match="must not be negative"):
        cute.make_layout((4, -2))
    with pytest.raises(cute.NotStaticError, match=r"left_inverse: .* must be static"):
        cute.left_inverse(layout(4, Sym(2)))
    with pytest.raises(cute.NotStaticError, match=r"complement: each stride of"):
        cute.complement(layout((4, 2), (1, Sym(4))), 8)
    with pytest.raises(ValueError, match=r"complement: \(4,4\):\(1,2\) is not injective"):
        cute.complement(layout((4, 4), (1, 2)), 32)
    with pytest.raises(ValueError, match="maps integers"):
        cute.make_composed_layout(cute.make_swizzle(1, 2, 3), 0, cute.make_identity_layout((4, 4)))
    with pytest.raises(ValueError, match=r"more modes than \(4,4\):\(1,4\)"):
        cute.zipped_divide(cute.make_layout((4, 4)), (2, 2, 2))
    with pytest.raises(TypeError, match="logical_divide: expected a layout or a tensor, got int"):
        cute.logical_divide(3, 2)
    with pytest.raises(ValueError, match="the coordinate must not hold None"):
        cute.crd2idx((None, 1), cute.make_layout((4, 4)))
    with pytest.raises(ValueError, match="a mode of size 0 has no coordinates"):
        cute.make_layout((0, 4))(3)


def test_location_arguments_are_accepted() -> None:
    assert cute.size(cute.make_layout((4, 4), loc=None, ip=None), loc=None, ip=None) == 16
