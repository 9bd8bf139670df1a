"""Owns the algebra of layouts as functions: coalesce, composition, complement, inverses, recast."""

from __future__ import annotations

import math
from typing import Any

from ._basis import Ratio, ScaledBasis, add_coord, as_coord, basis_get, basis_value, ceil_div_stride
from ._dynamic import (
    Dynamic,
    LayoutError,
    NotStaticError,
    ceil_div_leaf,
    floordiv,
    is_dynamic,
    is_int,
    is_static_int,
    magnitude,
    minimum,
    mul,
    public,
    sign,
)
from ._int_tuple import (
    as_tuple,
    ceil_div_shape,
    compact_col_major,
    flatten_to_tuple,
    product,
    profile_of,
    repeat_like,
    to_str,
    unwrap,
    wrap,
)
from ._layout_type import ComposedLayout, Layout, TensorBase, over_layout, plain_layout
from ._modes import cosize, filter_zeros, make_layout, size
from ._swizzle import Swizzle, recast_swizzle, swizzle_from_masks

__all__ = [
    "coalesce",
    "complement",
    "composition",
    "filter",
    "get_nonswizzle_portion",
    "get_swizzle_portion",
    "left_inverse",
    "max_common_layout",
    "max_common_vector",
    "nullspace",
    "recast_layout",
    "right_inverse",
]

#: Largest layout whose composition with a swizzle is checked element by element.
_CHECKED_ELEMENTS = 1 << 16


# Coalesce.


def _contiguous(shape: Any, stride: Any, following: Any) -> bool:
    """Whether ``following`` is known to be the stride at which ``shape:stride`` ends."""
    end = mul(shape, stride)
    if is_dynamic(basis_value(end)) or is_dynamic(basis_value(following)):
        return False
    return bool(end == following)


def _merge(modes: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Drops modes of static size 1 and joins neighbours that are contiguous."""
    merged: list[tuple[Any, Any]] = []
    for s, d in reversed(modes):
        if is_int(s, 1):
            continue
        if merged:
            following_shape, following_stride = merged[-1]
            if not is_dynamic(following_shape) and _contiguous(s, d, following_stride):
                merged[-1] = (mul(s, following_shape), d)
                continue
        merged.append((s, d))
    merged.reverse()
    return merged


def _leaves(layout: Layout) -> list[tuple[Any, Any]]:
    """The leaves of a layout as pairs of shape and stride."""
    return list(zip(flatten_to_tuple(layout.shape), flatten_to_tuple(layout.stride), strict=True))


def _from_modes(modes: list[tuple[Any, Any]]) -> Layout:
    """A flat layout of the given modes: a lone leaf for one, ``1:0`` for none."""
    if not modes:
        return Layout(1, 0)
    return Layout(unwrap(tuple(s for s, _ in modes)), unwrap(tuple(d for _, d in modes)))


def _by_profile(layout: Layout, profile: Any, f: Any) -> Layout:
    """``f`` applied to the modes that ``profile`` names, to all of ``layout`` for a leaf."""
    profile = as_tuple(profile)
    if not isinstance(profile, tuple):
        return f(layout)
    modes = wrap(layout.shape)
    if len(profile) > len(modes):
        raise LayoutError(f"the profile {to_str(profile)} has more modes than {layout}")
    parts = [_by_profile(layout[i], p, f) for i, p in enumerate(profile)]
    parts += [layout[i] for i in range(len(profile), len(modes))]
    return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def coalesce_layout(layout: Layout) -> Layout:
    """The same function of integers, with as few modes as can be known at trace time."""
    return _from_modes(_merge(_leaves(layout)))


@public
def coalesce(input: Any, *, target_profile: Any = None) -> Any:
    """The same function of an int coordinate with as few modes as possible, depth at most 1.

    ``target_profile``, a tuple, keeps its modes apart and coalesces each by itself. Dynamic shapes
    and strides are not merged, since whether they are contiguous is not known.

    :raises ValueError: if the profile has more modes than the layout.
    """
    if target_profile is None:
        return over_layout("coalesce", input, coalesce_layout)
    return over_layout("coalesce", input, lambda x: _by_profile(x, target_profile, coalesce_layout))


@public
def filter(input: Any) -> Any:
    """The layout or tensor without modes of static stride 0 or size 1, coalesced."""
    return over_layout("filter", input, lambda x: coalesce_layout(filter_zeros(x)))


# Composition.


def _coprofile(layout: Layout) -> Any:
    """The structure of the coordinates that a layout maps to: 0 for integers."""
    total: Any = 0
    for d in flatten_to_tuple(layout.stride):
        total = add_coord(total, repeat_like(0, as_coord(d)))
    return total


def _coalesce_lhs(layout: Layout, profile: Any) -> Layout:
    """Coalesces the left operand of a composition: its last stride goes on without end, so a last
    mode of size 1 keeps its stride."""

    def merge(x: Layout) -> Layout:
        modes = _leaves(x)
        if modes and is_int(modes[-1][0], 1):
            modes[-1] = (2, modes[-1][1])
        return _from_modes(_merge(modes))

    return _by_profile(layout, profile, merge)


class _Composition:
    """One left operand, and how far the modes composed so far reach into each of its modes.

    ``lhs`` reads an index as digits, one a mode. Its composition with a sum of modes is the sum of
    the compositions only if no digit overflows into the next one; this is checked where sizes are
    static, since the result would not be ``lhs(rhs(c))``.
    """

    def __init__(self, lhs: Layout, rhs: Layout) -> None:
        self.lhs = lhs
        self.rhs = rhs
        self.reach: dict[tuple[tuple[int, ...], int], int] = {}

    def refuse(self, why: str) -> LayoutError:
        """The error of a composition that is not a layout."""
        return LayoutError(f"composition: {self.lhs} after {self.rhs} is no layout: {why}")

    def modes(self, shape: Any, stride: Any) -> Layout:
        """The composition with ``shape:stride``, mode by mode."""
        if isinstance(shape, tuple):
            parts = [self.modes(s, d) for s, d in zip(shape, stride, strict=True)]
            return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
        if is_int(basis_value(stride), 0):
            return Layout(shape, 0)
        part = Layout(basis_get(stride, self.lhs.shape), basis_get(stride, self.lhs.stride))
        path = tuple(stride.mode) if isinstance(stride, ScaledBasis) else ()
        return self.leaf(_leaves(part), path, shape, basis_value(stride))

    def leaf(self, digits: list[tuple[Any, Any]], path: Any, shape: Any, stride: Any) -> Layout:
        """The composition of a flat layout with a single mode."""
        if is_int(shape, 0):
            return Layout(0, mul(stride, digits[0][1]))
        result: list[tuple[Any, Any]] = []
        for i, (extent, weight) in enumerate(digits[:-1]):
            static_step = not is_dynamic(extent) and not is_dynamic(stride)
            if static_step and abs(stride) >= extent and stride % extent:
                raise self.refuse(f"stride {stride} does not fit a mode of size {extent}")
            next_shape = ceil_div_leaf(extent, magnitude(stride))
            next_stride = mul(ceil_div_leaf(magnitude(stride), extent), sign(stride))
            if is_int(next_shape, 1) or is_int(shape, 1):
                stride = next_stride
                continue
            taken = minimum(next_shape, shape)
            if not is_dynamic(taken) and not is_dynamic(shape):
                crosses = static_step and shape > taken and extent % abs(stride)
                if shape % taken or crosses:
                    raise self.refuse(f"{shape}:{stride} does not fit a mode of size {extent}")
            if static_step and not is_dynamic(taken):
                self.occupy((path, i), extent, (taken - 1) * abs(stride))
            result.append((taken, mul(stride, weight)))
            shape = floordiv(shape, taken)
            stride = next_stride
        if not result or not is_int(shape, 1):
            result.append((shape, mul(stride, digits[-1][1])))
        return _from_modes(result)

    def occupy(self, digit: tuple[tuple[int, ...], int], extent: int, amount: int) -> None:
        """Counts how far a mode moves one digit."""
        total = self.reach.get(digit, 0) + amount
        if total >= extent:
            raise self.refuse(f"its modes add up to {total} within a mode of size {extent}")
        self.reach[digit] = total


def compose_layouts(lhs: Layout, rhs: Layout) -> Layout:
    """``lhs(rhs(c))`` as one layout whose shape is compatible with that of ``rhs``."""
    flat = _coalesce_lhs(lhs, _coprofile(rhs))
    return _Composition(flat, rhs).modes(rhs.shape, rhs.stride)


def _compose_swizzle(lhs: Layout, swizzle: Swizzle) -> ComposedLayout:
    """``lhs(swizzle(c))`` as a swizzle after ``lhs``, which must move the bits as a whole."""
    if swizzle.num_bits == 0:
        return ComposedLayout(swizzle, 0, lhs)
    moved = swizzle_from_masks(lhs(swizzle.source_mask), lhs(swizzle.target_mask))
    result = ComposedLayout(moved, 0, lhs)
    count = size(lhs)
    if is_dynamic(count) or count > _CHECKED_ELEMENTS:
        raise LayoutError(f"composition: {lhs} after {swizzle} cannot be checked")
    if any(result(i) != lhs(swizzle(i)) for i in range(count)):
        raise LayoutError(f"composition: {lhs} after {swizzle} is no swizzled layout")
    return result


def _compose_tiler(lhs: Layout, tiler: Any) -> Any:
    """By-mode composition: a leaf of the tiler is a layout, a size ``n`` (``n:1``) or ``None``."""
    if isinstance(tiler, Layout):
        return compose_layouts(lhs, tiler)
    if tiler is None:
        return lhs
    if isinstance(tiler, tuple):
        if len(tiler) > len(wrap(lhs.shape)):
            raise LayoutError(f"composition: the tiler {tiler} has more modes than {lhs}")
        parts = [_compose_tiler(lhs[i], t) for i, t in enumerate(tiler)]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    if isinstance(tiler, Dynamic) or is_static_int(tiler):
        return compose_layouts(lhs, Layout(tiler, 1))
    raise TypeError(f"composition: a tiler holds layouts and ints, got {type(tiler).__name__}")


@public
def composition(lhs: Any, rhs: Any) -> Any:
    """The layout ``R`` with ``R(c) = lhs(rhs(c))``, its shape compatible with that of ``rhs``.

    ``lhs`` is a layout, composed layout, swizzle or tensor. A tuple as ``rhs`` composes mode by
    mode; in it an int ``n`` stands for ``n:1`` and ``None`` for the whole mode. Modes of ``lhs``
    beyond the tuple are dropped.

    :raises ValueError: if sizes known at trace time break the divisibility conditions, or modes of
        ``rhs`` overflow into each other, so that no layout of this shape is the composition.
    """
    rhs = as_tuple(rhs)
    if isinstance(lhs, Swizzle):
        if isinstance(rhs, Swizzle):
            return compose_swizzles(lhs, rhs)
        if isinstance(rhs, ComposedLayout) and not isinstance(rhs.inner, Swizzle):
            raise LayoutError(f"composition: {lhs} after {rhs} is not supported")
        if isinstance(rhs, ComposedLayout):
            merged = compose_swizzles(lhs, rhs.inner)
            return ComposedLayout(merged, rhs.offset, rhs.outer)
        return ComposedLayout(lhs, 0, rhs if isinstance(rhs, Layout) else make_layout(rhs))
    if isinstance(lhs, Layout) and isinstance(rhs, Swizzle):
        return _compose_swizzle(lhs, rhs)
    if isinstance(lhs, Layout) and isinstance(rhs, ComposedLayout):
        if not is_int(rhs.offset, 0):
            raise LayoutError(f"composition: {lhs} after {rhs} needs an offset of 0")
        return composition(composition(lhs, rhs.inner), rhs.outer)
    return over_layout("composition", lhs, lambda x: _compose_tiler(x, rhs))


def compose_swizzles(lhs: Swizzle, rhs: Swizzle) -> Swizzle:
    """Two swizzles of one shift as one.

    :raises ValueError: if the shifts differ, or the result is no swizzle.
    """
    if lhs.num_shift != rhs.num_shift:
        raise LayoutError(f"composition: {lhs} and {rhs} have different shifts")
    if lhs.source_mask & rhs.target_mask or rhs.source_mask & lhs.target_mask:
        raise LayoutError(f"composition: {lhs} after {rhs} is no swizzle")
    return swizzle_from_masks(lhs.source_mask ^ rhs.source_mask, lhs.target_mask ^ rhs.target_mask)


# Complement.


@public
def complement(input: Any, cotarget: Any = None) -> Layout:
    """The layout of what ``input`` leaves out of ``cotarget`` (its own cosize by default).

    Its indices increase, and their sums with the indices of ``input`` are all different; the sums
    cover at least ``cotarget`` where the strides of ``input`` divide each other in order.

    :raises ValueError: if strides are dynamic (beyond a single mode), or ``input`` is known not to
        be injective.
    """
    layout = coalesce_layout(filter_zeros(plain_layout("complement", input)))
    target = cosize(layout) if cotarget is None else profile_of(as_tuple(cotarget))
    modes = _leaves(layout)
    if len(modes) == 1 and is_int(modes[0][1], 0):
        return _coalesced_target(target, 1)
    if len(modes) > 1:
        for _, d in modes:
            if not is_static_int(d):
                raise NotStaticError("complement", f"each stride of {layout}", d)
        # Two modes of one stride are injective only if one has size 1: then the dynamic one.
        modes.sort(key=lambda mode: (mode[1], not is_dynamic(mode[0])))
    result: list[tuple[Any, Any]] = []
    step: Any = 1
    for s, d in modes:
        if isinstance(d, ScaledBasis) or (is_static_int(d) and d < 0):
            raise LayoutError(f"complement: {layout} has no complement: stride {d}")
        gap = floordiv(d, step)
        if is_int(gap, 0):
            raise LayoutError(f"complement: {layout} is not injective")
        result.append((gap, step))
        step = mul(d, s)
    rest = _coalesced_target(ceil_div_shape(target, step), step)
    return _from_modes(_merge(result + _leaves(rest)))


def _coalesced_target(target: Any, step: Any) -> Layout:
    """A compact layout of a shape from stride ``step`` on, static and dynamic neighbours merged."""
    sizes: list[Any] = []
    for s in flatten_to_tuple(target):
        if sizes and is_dynamic(sizes[-1]) == is_dynamic(s):
            sizes[-1] = mul(sizes[-1], s)
        else:
            sizes.append(s)
    shape = unwrap(tuple(sizes))
    return Layout(shape, compact_col_major(shape, step))


# Inverses.


def _starts(modes: list[tuple[Any, Any]]) -> list[Any]:
    """The coordinate at which each mode of a flat layout starts to count."""
    starts: list[Any] = [1]
    for s, _ in modes:
        starts.append(mul(starts[-1], s))
    return starts


@public
def right_inverse(input: Any) -> Any:
    """The largest layout ``R`` with ``input(R(i)) == i`` for all ``i`` below its size.

    Modes with dynamic strides end the inverse. ``None`` is its own inverse.
    """
    if input is None or isinstance(input, Swizzle):
        return input
    if isinstance(input, ComposedLayout):
        return _inverse_composed(right_inverse, input)
    modes = _leaves(coalesce_layout(plain_layout("right_inverse", input)))
    starts = _starts(modes)
    order = [i for i, (_, d) in enumerate(modes) if is_static_int(d)]
    result: list[tuple[Any, Any]] = []
    reach: Any = 1
    for i in sorted(order, key=lambda i: modes[i][1]):
        s, d = modes[i]
        if is_int(reach, d):
            result.append((s, starts[i]))
            reach = mul(s, d)
    return _from_modes(_merge(result))


@public
def left_inverse(input: Any) -> Any:
    """A layout ``L`` with ``L(input(i)) == i`` for all ``i`` below the size of ``input``.

    :raises ValueError: if strides are dynamic, or ``input`` has no layout as left inverse.
    """
    if input is None or isinstance(input, Swizzle):
        return input
    if isinstance(input, ComposedLayout):
        return _inverse_composed(left_inverse, input)
    layout = coalesce_layout(plain_layout("left_inverse", input))
    modes = _leaves(layout)
    for _, d in modes:
        if not is_static_int(d):
            raise NotStaticError("left_inverse", f"each stride of {layout}", d)
    starts = _starts(modes)
    order = sorted(range(len(modes)), key=lambda i: modes[i][1])
    shapes: list[Any] = []
    strides: list[Any] = [0]
    for i in order:
        d = modes[i][1]
        if d == 0:
            continue
        reach = product(tuple(shapes))
        if is_dynamic(reach) or d % reach or d < 0:
            raise LayoutError(f"left_inverse: {layout} has none: stride {d} after {reach}")
        shapes.append(d // reach)
        strides.append(starts[i])
    shapes.append(modes[order[-1]][0])
    return _from_modes(_merge(list(zip(shapes, strides, strict=True))))


def _inverse_composed(invert: Any, composed: ComposedLayout) -> Any:
    """The inverse of ``inner(offset + outer(c))``."""
    inner = invert(composed.inner)
    outer = invert(composed.outer)
    if is_int(composed.offset, 0):
        return composition(outer, inner)
    if not isinstance(inner, Layout):
        raise LayoutError(f"the inverse of {composed}, which has an offset, is not supported")
    return ComposedLayout(outer, -composed.offset, inner)


@public
def max_common_layout(a: Any, b: Any) -> Layout:
    """The largest layout ``R`` known statically with ``a(R(i)) == i`` and ``b(R(i)) == i``."""
    inverse, first = _common(a, b)
    if first is None:
        return Layout(1, 0)
    return compose_layouts(inverse, first)


@public
def max_common_vector(a: Any, b: Any) -> int:
    """The number of elements from 0 on that are contiguous in both layouts, known statically."""
    _, first = _common(a, b)
    return 1 if first is None else first.shape


def _common(a: Any, b: Any) -> tuple[Layout, Layout | None]:
    """The right inverse of ``b``, and the first mode of ``a`` after it if it is contiguous."""
    inverse = right_inverse(plain_layout("max_common_vector", b))
    try:
        common = coalesce_layout(compose_layouts(plain_layout("max_common_vector", a), inverse))
    except LayoutError:  # No layout tells how the two correspond.
        return inverse, None
    shape, stride = _leaves(common)[0]
    if is_static_int(shape) and is_int(stride, 1):
        return inverse, Layout(shape, stride)
    return inverse, None


@public
def nullspace(layout: Layout) -> Layout:
    """The layout of the int coordinates that ``layout`` maps to 0 by static strides of 0."""
    if not isinstance(layout, Layout):
        raise TypeError(f"nullspace: expected a Layout, got {type(layout).__name__}")
    shape = flatten_to_tuple(layout.shape)
    strides = flatten_to_tuple(layout.stride)
    starts = compact_col_major(shape)
    return _from_modes(
        [
            (s, start)
            for s, d, start in zip(shape, strides, starts, strict=True)
            if is_int(d, 0) and not is_int(s, 1)
        ]
    )


def max_alignment(layout: Layout) -> int:
    """The number of elements, from any multiple of itself on, that the layout keeps together."""
    modes = [
        (s if is_static_int(s) else 1, d if is_static_int(d) else 0)
        for s, d in _leaves(coalesce_layout(layout))
    ]
    from ._tiling import logical_divide

    known = _from_modes(modes)
    divided = logical_divide(known, right_inverse(known))
    result = size(divided, mode=[0])
    for d in flatten_to_tuple(divided[1].stride):
        result = math.gcd(result, d)
    return result


# Recast.


def upcast(layout: Layout, factor: int) -> Layout:
    """The layout in units of ``factor`` elements."""

    def cast(s: Any, d: Any) -> tuple[Any, Any]:
        if isinstance(s, tuple):
            pairs = [cast(x, y) for x, y in zip(s, d, strict=True)]
            return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
        if is_int(d, 0):
            return s, d
        value = basis_value(d)
        if is_static_int(value):
            if value % factor and factor % value:
                raise LayoutError(
                    f"recast_layout: stride {value} of {layout} and {factor} do not divide"
                )
            step = ceil_div_leaf(factor, abs(value))
            return ceil_div_leaf(s, step), mul(ceil_div_stride(abs(d), factor), sign(value))
        return s, d // factor

    return Layout(*cast(layout.shape, layout.stride))


def _downcast(layout: Layout, factor: int) -> Layout:
    """The layout in units of one of ``factor`` parts of an element."""
    if not any(is_static_int(d) and abs(d) == 1 for d in flatten_to_tuple(layout.stride)):
        raise LayoutError(f"recast_layout: {layout} has no contiguous mode to split elements of")

    def cast(s: Any, d: Any) -> tuple[Any, Any]:
        if isinstance(s, tuple):
            pairs = [cast(x, y) for x, y in zip(s, d, strict=True)]
            return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
        if is_static_int(d) and abs(d) == 1:
            return mul(s, factor), d
        return s, mul(d, factor)

    return Layout(*cast(layout.shape, layout.stride))


@public
def recast_layout(new_type_bits: int, old_type_bits: int, src_layout: Any) -> Any:
    """The layout of the same bits seen as elements of another width.

    :raises ValueError: if a stride does not divide the ratio of the widths, or the reverse; or if
        elements would be split and no mode is contiguous.
    """
    for name, bits in (("new_type_bits", new_type_bits), ("old_type_bits", old_type_bits)):
        if not is_static_int(bits) or bits <= 0:
            raise LayoutError(f"recast_layout: {name} must be a positive int, got {bits!r}")
    scale = Ratio(new_type_bits, old_type_bits).reduced()
    up, down = scale.numerator, scale.denominator

    def recast(layout: Layout) -> Layout:
        if up > 1:
            layout = upcast(layout, up)
        return _downcast(layout, down) if down > 1 else layout

    if isinstance(src_layout, Swizzle):
        return recast_swizzle(src_layout, up, down)
    if isinstance(src_layout, ComposedLayout):
        inner, offset = src_layout.inner, src_layout.offset
        if not isinstance(inner, Swizzle):
            raise LayoutError(f"recast_layout: {src_layout} is not a swizzled layout")
        if is_static_int(offset) and (offset * down) % up:
            raise LayoutError(f"recast_layout: offset {offset} does not fall on a new element")
        moved = floordiv(mul(offset, down), up)
        return ComposedLayout(recast_swizzle(inner, up, down), moved, recast(src_layout.outer))
    if isinstance(src_layout, TensorBase):
        raise TypeError("recast_layout: expected a layout; use recast_tensor for a tensor")
    return recast(plain_layout("recast_layout", src_layout))


# Swizzled layouts.


@public
def get_swizzle_portion(layout: Any) -> Swizzle:
    """The swizzle of a composed layout, ``S<0,4,3>`` (which changes nothing) for any other."""
    if isinstance(layout, ComposedLayout):
        return layout.inner if isinstance(layout.inner, Swizzle) else Swizzle(0, 4, 3)
    if isinstance(layout, Layout):
        return Swizzle(0, 4, 3)
    raise TypeError(f"get_swizzle_portion: expected a layout, got {type(layout).__name__}")


@public
def get_nonswizzle_portion(layout: Any) -> Layout:
    """The outer layout of a composed layout, a plain layout itself."""
    if isinstance(layout, ComposedLayout):
        return layout.outer
    if isinstance(layout, Layout):
        return layout
    raise TypeError(f"get_nonswizzle_portion: expected a layout, got {type(layout).__name__}")
