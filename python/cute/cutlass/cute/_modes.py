"""Owns the making of layouts and the operations that select, regroup and slice modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._basis import ScaledBasis, add_coord
from ._dynamic import (
    Dynamic,
    LayoutError,
    NotStaticError,
    add,
    is_int,
    is_static_int,
    mul,
    public,
)
from ._int_tuple import (
    as_tuple,
    basis_like,
    ceil_div_shape,
    check_shape,
    compact_col_major,
    compact_order,
    flatten_to_tuple,
    has_underscore,
    inner_product,
    is_congruent,
    is_static,
    last_index,
    product,
    profile_of,
    repeat_like,
    to_str,
    transform_leaf,
    wrap,
)
from ._layout_type import (
    ComposedLayout,
    Layout,
    TensorBase,
    crd2idx_compact,
    crd2idx_shape,
    get_mode,
    idx2crd_compact,
    over_layout,
    plain_layout,
    slice_and_offset_layout,
    slice_layout,
    slice_tuple,
)

__all__ = [
    "append",
    "append_ones",
    "cosize",
    "crd2idx",
    "dice",
    "domain_offset",
    "filter_zeros",
    "flatten",
    "front",
    "get",
    "get_leaves",
    "group_modes",
    "idx2crd",
    "increment_coord",
    "is_major",
    "is_static",
    "leading_dim",
    "make_composed_layout",
    "make_fragment_like_layout",
    "make_identity_layout",
    "make_layout",
    "make_layout_image_mask",
    "make_layout_like",
    "make_ordered_layout",
    "prepend",
    "prepend_ones",
    "pretty_str",
    "rank",
    "select",
    "shape",
    "size",
    "size_in_bytes",
    "slice_",
    "slice_and_offset",
]


# Construction.


@public
def make_layout(shape: Any, *, stride: Any = None) -> Layout:
    """A layout of ``shape`` and ``stride``; without one, compact with the leftmost mode fastest.

    A non-empty iterable of layouts makes each a mode of the result; ``stride`` is then ignored.

    :raises ValueError: if shape and stride differ in structure.
    """
    if isinstance(shape, Layout):
        return shape
    if isinstance(shape, Iterable) and not isinstance(shape, tuple | list):
        shape = tuple(shape)
    if isinstance(shape, tuple | list) and shape and all(isinstance(v, Layout) for v in shape):
        return Layout(tuple(v.shape for v in shape), tuple(v.stride for v in shape))
    shape = check_shape("make_layout", shape)
    return Layout(shape, compact_col_major(shape) if stride is None else stride)


@public
def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """A compact layout whose modes run in the order of ``order``, its smallest element fastest.

    :raises ValueError: if ``order`` does not match the structure of ``shape``.
    """
    shape = check_shape("make_ordered_layout", shape)
    return Layout(shape, compact_order(shape, as_tuple(order)))


@public
def make_identity_layout(shape: Any) -> Layout:
    """The layout that maps each coordinate of ``shape`` to itself: strides ``(1@0,1@1,...)``."""
    shape = check_shape("make_identity_layout", shape)
    return Layout(shape, basis_like(shape))


@public
def make_layout_like(input: Any) -> Layout:
    """A compact layout of the shape of ``input``, its modes in the order of the input's strides.

    Static strides of 0 stay 0; dynamic strides count as larger than static ones, left to right. A
    layout that maps to coordinates has no such order: its modes run leftmost fastest.
    """
    layout = plain_layout("make_layout_like", input)
    if any(isinstance(d, ScaledBasis) for d in flatten_to_tuple(layout.stride)):
        return make_layout(layout.shape)
    shape = _ones_at_zeros(layout.stride, layout.shape)
    return Layout(layout.shape, compact_order(shape, layout.stride))


def make_fragment_like_layout(input: Any) -> Layout:
    """The register layout for a fragment of ``input``: mode 0 compact and fastest, the others after
    it in the order of the input's strides; static strides of 0 stay 0."""
    layout = plain_layout("make_fragment_like", input)
    shape, stride = layout.shape, layout.stride
    has_basis = any(isinstance(d, ScaledBasis) for d in flatten_to_tuple(stride))
    if has_basis or not isinstance(shape, tuple) or len(shape) < 2 or not is_static(shape):
        return make_layout(shape)
    filtered = _ones_at_zeros(stride, shape)
    first = compact_col_major(filtered[0])
    rest = compact_order(filtered[1:], stride[1:])
    step = product(filtered[0])
    return Layout(shape, (first, *transform_leaf(lambda d: mul(d, step), rest)))


@public
def make_composed_layout(inner: Any, offset: Any, outer: Layout) -> ComposedLayout:
    """The composition ``inner(offset + outer(coord))``; see :class:`ComposedLayout`."""
    return ComposedLayout(inner, offset, outer)


# Queries.


def _part(function: str, a: Any, mode: Any) -> Any:
    """The mode of ``a`` on the path ``mode``; ``a`` itself for no path."""
    if mode is None or mode == [] or mode == ():
        return a
    path = [mode] if is_static_int(mode) else list(mode)
    if not all(is_static_int(m) for m in path):
        raise NotStaticError(function, "mode", next(m for m in path if not is_static_int(m)))
    if isinstance(a, Layout | ComposedLayout | TensorBase):
        return over_layout(
            function, a, lambda x: Layout(get_mode(x.shape, path), get_mode(x.stride, path))
        )
    return get_mode(profile_of(a), path)


@public
def get(input: Any, mode: int | list[int]) -> Any:
    """The mode of a tuple, layout or tensor on the path ``mode``."""
    return _part("get", as_tuple(input), mode)


@public
def select(input: Any, mode: list[int]) -> Any:
    """The modes whose numbers ``mode`` lists, in that order, of a tuple, layout or tensor."""
    numbers = [mode] if is_static_int(mode) else list(mode)

    def pick(t: Any) -> tuple[Any, ...]:
        return tuple(get_mode(t, [m]) for m in numbers)

    input = as_tuple(input)
    if isinstance(input, tuple):
        return pick(input)
    return over_layout("select", input, lambda x: Layout(pick(x.shape), pick(x.stride)))


@public
def shape(input: Any, mode: Any = None) -> Any:
    """The shape of a layout, tensor or tile (a tuple of layouts), or of one mode of it."""
    part = _part("shape", as_tuple(input), mode)
    if isinstance(part, tuple):
        return tuple(shape(v) for v in part)
    return profile_of(part)


@public
def size(a: Any, mode: Any = None) -> Any:
    """The number of elements of a layout, tensor or shape, or of one mode of it.

    For an object without a shape, such as a tiled copy, its own ``size``.
    """
    part = _part("size", as_tuple(a), mode)
    if not isinstance(part, tuple | int | Dynamic) and not hasattr(part, "shape"):
        if not hasattr(part, "size"):
            raise TypeError(f"size: expected a layout, tensor or shape, got {type(part).__name__}")
        return part.size
    return product(shape(part))


@public
def rank(a: Any, mode: Any = None) -> int:
    """The number of modes; 1 for a leaf."""
    part = profile_of(_part("rank", as_tuple(a), mode))
    return len(part) if isinstance(part, tuple) else 1


@public
def cosize(a: Any, mode: Any = None) -> Any:
    """One more than the largest index of a layout; of the outer layout of a composed one.

    For a layout that maps to coordinates: the product of that over the modes of the coordinate.
    """
    layout = plain_layout("cosize", _part("cosize", a, mode))
    strides = transform_leaf(abs_stride, layout.stride)
    last = inner_product(last_index(layout.shape), strides)
    return product(transform_leaf(lambda c: add(c, 1), last))


def abs_stride(d: Any) -> Any:
    """The magnitude of a stride; a dynamic one counts as non-negative."""
    return d if isinstance(d, Dynamic) else abs(d)


@public
def size_in_bytes(dtype: Any, layout: Any) -> Any:
    """Bytes that ``layout``'s elements of ``dtype`` (with ``.width`` in bits) span, rounded up."""
    if layout is None:
        return 0
    return ceil_div_shape(mul(cosize(layout), dtype.width), 8)


@public
def front(input: Any) -> Any:
    """The first leaf of a tuple, or of the stride of a layout or tensor."""
    if isinstance(input, Layout | TensorBase):
        input = input.stride
    return flatten_to_tuple(input)[0]


@public
def is_major(mode: int | list[int], stride: Any) -> bool:
    """Whether the first stride of a mode is the static int 1."""
    return is_int(front(_part("is_major", as_tuple(stride), mode)), 1)


@public
def get_leaves(value: Any) -> tuple[Any, ...]:
    """All leaves of a tuple, or of a layout's shape and stride."""
    if isinstance(value, Layout):
        return flatten_to_tuple((value.shape, value.stride))
    return flatten_to_tuple(value)


def leading_dim(shape: Any, stride: Any) -> int | tuple[int, ...] | None:
    """The position of the mode with static stride 1 (and not of static size 1).

    An int at the top level, a tuple of ints below it, ``None`` if there is none.
    """
    shape, stride = as_tuple(shape), as_tuple(stride)

    def search(s: Any, d: Any, path: tuple[int, ...]) -> tuple[int, ...] | None:
        for i, (x, y) in enumerate(zip(wrap(s), wrap(d), strict=True)):
            here = (*path, i)
            if isinstance(y, tuple):
                found = search(x, y, here)
                if found is not None:
                    return found
            elif is_int(y, 1) and not is_int(x, 1):
                return here
        return None

    found = search(shape, stride, ())
    if found is None:
        return None
    return found[0] if len(found) == 1 else found


def pretty_str(arg: Any) -> str:
    """A concise text of a tuple, layout or leaf."""
    if isinstance(arg, tuple | list):
        return "(" + ",".join(pretty_str(v) for v in arg) + ")"
    if isinstance(arg, Layout | ComposedLayout | TensorBase):
        return str(arg)
    return to_str(arg)


# Coordinates and indices.


@public
def crd2idx(coord: Any, layout: Any) -> Any:
    """The index of a coordinate in a layout, or its colexicographic number within a shape."""
    coord = as_tuple(coord)
    if has_underscore(coord):
        raise LayoutError("crd2idx: the coordinate must not hold None; use slice_")
    if isinstance(layout, Layout):
        return crd2idx_shape(coord, layout.shape, layout.stride)
    if isinstance(layout, ComposedLayout):
        return layout(coord)
    return crd2idx_compact(coord, check_shape("crd2idx", layout))


@public
def idx2crd(idx: Any, shape: Any) -> Any:
    """The coordinate within ``shape`` that has the colexicographic number ``idx``."""
    return idx2crd_compact(as_tuple(idx), check_shape("idx2crd", profile_of(shape)))


@public
def increment_coord(coord: Any, shape: Any) -> Any:
    """The colexicographically next coordinate; the first one after the last.

    :raises ValueError: if coordinate and shape differ in structure, or the coordinate holds None.
    """
    coord, shape = as_tuple(coord), as_tuple(shape)
    if has_underscore(coord):
        raise LayoutError("increment_coord: the coordinate must not hold None")
    if not is_congruent(coord, shape):
        raise LayoutError(
            f"increment_coord: {to_str(coord)} and {to_str(shape)} differ in structure"
        )
    following = idx2crd_compact(add(crd2idx_compact(coord, shape), 1), wrap(shape))
    return following if isinstance(shape, tuple) else following[0]


@public
def slice_(src: Any, coord: Any) -> Any:
    """The part of a tuple, layout or tensor that the ``None`` elements of ``coord`` keep.

    A tensor's engine moves to the slice's first element. Modes kept within a nested coordinate move
    up to the top level.

    :raises ValueError: if the coordinate does not fit.
    """
    coord, src = as_tuple(coord), as_tuple(src)
    if isinstance(src, Layout | ComposedLayout):
        return slice_layout(coord, src)
    if isinstance(src, TensorBase):
        layout, offset = slice_and_offset_layout(coord, src.layout)
        return src.advanced(offset, layout)
    return slice_tuple(coord, src)


@public
def slice_and_offset(coord: Any, src: Any) -> tuple[Any, Any]:
    """The sublayout that ``coord`` keeps, and the index of its first element."""
    return slice_and_offset_layout(as_tuple(coord), src)


@public
def dice(src: Any, dicer: Any) -> Any:
    """The parts of ``src`` at the elements that are not ``None``: what :func:`slice_` drops."""
    src, dicer = as_tuple(src), as_tuple(dicer)
    if isinstance(src, tuple):
        return slice_tuple(dicer, src, keep_none=False)

    def cut(layout: Layout) -> Layout:
        return Layout(
            slice_tuple(dicer, layout.shape, keep_none=False),
            slice_tuple(dicer, layout.stride, keep_none=False),
        )

    return over_layout("dice", src, cut)


@public
def domain_offset(coord: Any, tensor: Any) -> Any:
    """A tensor whose coordinate 0 is ``coord`` of the given one."""
    layout = tensor.layout
    coord = as_tuple(coord)
    if isinstance(layout, ComposedLayout):
        offset = add_coord(layout.offset, layout.outer(coord))
        return tensor.with_layout(ComposedLayout(layout.inner, offset, layout.outer))
    return tensor.advanced(layout(coord), layout)


@public
def make_layout_image_mask(lay: Layout, coord: Any, mode: int) -> Any:
    """A mask with bit ``lay(c)`` set for each ``c`` that differs from ``coord`` in ``mode`` alone.

    An int where ``coord`` is static, else a dynamic integer; all indices must be below 16.

    :raises ValueError: if the layout is dynamic, or an index does not fit 16 bits.
    """
    if not lay.is_static():
        raise NotStaticError("make_layout_image_mask", "the layout", lay)
    if cosize(lay) > 16:
        raise LayoutError(f"make_layout_image_mask: {lay} has indices beyond 16 bits")
    coord = as_tuple(coord)
    slicer = tuple(None if i == mode else c for i, c in enumerate(wrap(coord)))
    line, offset = slice_and_offset_layout(slicer, lay)
    bits = 0
    for i in range(size(line)):
        bits |= 1 << line(i)
    return bits << offset


# Restructuring.


@public
def flatten(a: Any) -> Any:
    """A tuple, layout or tensor without nesting; a lone leaf unchanged."""
    if isinstance(a, Layout | ComposedLayout | TensorBase):
        return over_layout("flatten", a, _flatten_layout)
    return flatten_to_tuple(a) if isinstance(a, tuple | list) else a


def _flatten_layout(layout: Layout) -> Layout:
    if not isinstance(layout.shape, tuple):
        return layout
    return Layout(flatten_to_tuple(layout.shape), flatten_to_tuple(layout.stride))


@public
def group_modes(input: Any, begin: int, end: int | None = None) -> Any:
    """Modes ``begin`` to ``end`` (exclusive; all the rest by default) as one mode."""

    def group(t: Any) -> tuple[Any, ...]:
        modes = wrap(t)
        stop = len(modes) if end is None or end == -1 else end
        if not 0 <= begin <= stop <= len(modes):
            raise LayoutError(f"group_modes: no modes {begin} to {stop} in {to_str(t)}")
        return (*modes[:begin], modes[begin:stop], *modes[stop:])

    input = as_tuple(input)
    if isinstance(input, tuple):
        return group(input)
    return over_layout("group_modes", input, lambda x: Layout(group(x.shape), group(x.stride)))


def _extend(
    function: str, input: Any, elem: Any, up_to_rank: int | None, join: Callable[[Any, Any], Any]
) -> Any:
    """Joins ``elem`` to ``input`` once, or as often as ``up_to_rank`` asks."""
    input = as_tuple(input)
    count = 1
    if up_to_rank is not None:
        count = up_to_rank - rank(input)
        if count < 0:
            raise LayoutError(f"{function}: rank {rank(input)} is more than {up_to_rank} already")
        if count == 0:
            return input

    def extend(t: Any, x: Any) -> tuple[Any, ...]:
        return join(wrap(t), (x,) * count)

    if isinstance(input, Layout | ComposedLayout | TensorBase):
        elem = elem if isinstance(elem, Layout) else make_layout(elem)
        elem = Layout(_lone(elem.shape), _lone(elem.stride))
        return over_layout(
            function,
            input,
            lambda a: Layout(extend(a.shape, elem.shape), extend(a.stride, elem.stride)),
        )
    if isinstance(elem, Layout) and not isinstance(input, tuple):
        raise TypeError(f"{function}: cannot extend {type(input).__name__} with a layout")
    return extend(input, as_tuple(elem))


def _lone(t: Any) -> Any:
    """A tuple of one leaf as the leaf: a layout ``(2):(1)`` joins another as the mode ``2:1``."""
    return t[0] if isinstance(t, tuple) and len(t) == 1 and not isinstance(t[0], tuple) else t


@public
def append(input: Any, elem: Any, up_to_rank: int | None = None) -> Any:
    """``input`` (a tuple, layout or tensor) with ``elem`` as a last mode, repeated up to a rank.

    :raises ValueError: if the rank is already larger.
    """
    return _extend("append", input, elem, up_to_rank, lambda t, x: t + x)


@public
def prepend(input: Any, elem: Any, up_to_rank: int | None = None) -> Any:
    """``input`` (a tuple, layout or tensor) with ``elem`` as a first mode, repeated up to a rank.

    :raises ValueError: if the rank is already larger.
    """
    return _extend("prepend", input, elem, up_to_rank, lambda t, x: x + t)


@public
def append_ones(t: Any, up_to_rank: int | None = None) -> Any:
    """A layout or tensor with modes ``1:0`` appended."""
    return append(t, Layout(1, 0), up_to_rank)


@public
def prepend_ones(t: Any, up_to_rank: int | None = None) -> Any:
    """A layout or tensor with modes ``1:0`` prepended."""
    return prepend(t, Layout(1, 0), up_to_rank)


def _ones_at_zeros(guide: Any, shape: Any) -> Any:
    """``shape`` with 1 wherever ``guide`` is the static int 0."""
    if isinstance(guide, tuple):
        return tuple(_ones_at_zeros(g, s) for g, s in zip(guide, shape, strict=True))
    return repeat_like(1, shape) if is_int(guide, 0) else shape


@public
def filter_zeros(input: Any, *, target_profile: Any = None) -> Any:
    """A layout or tensor whose modes of stride 0 (or of 0 in ``target_profile``) have size 1."""

    def drop(layout: Layout) -> Layout:
        guide = layout.stride if target_profile is None else as_tuple(target_profile)
        return Layout(_ones_at_zeros(guide, layout.shape), layout.stride)

    return over_layout("filter_zeros", input, drop)
