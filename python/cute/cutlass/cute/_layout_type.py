"""Owns what a layout is: shape and stride, compositions of layouts, and how coordinates map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._basis import ScaledBasis, add_coord
from ._dynamic import (
    Dynamic,
    LayoutError,
    floordiv,
    is_int,
    is_static_int,
    mod,
    mul,
)
from ._int_tuple import (
    as_tuple,
    check_shape,
    flatten_to_tuple,
    has_underscore,
    is_congruent,
    is_static,
    product,
    to_str,
)
from ._swizzle import Swizzle

__all__ = ["ComposedLayout", "Layout", "TensorBase"]


class Layout:
    """A function from coordinates within ``shape`` to indices: the inner product with ``stride``.

    Shape and stride are nested tuples (or lone leaves) of one structure. A coordinate is an int
    (counted colexicographically, leftmost mode fastest), or a tuple with one coordinate a mode.
    Strides of :class:`ScaledBasis` elements make the layout map to coordinates instead.

    :raises ValueError: if shape and stride differ in structure.
    """

    __slots__ = ("_shape", "_stride")

    def __init__(self, shape: Any, stride: Any) -> None:
        shape, stride = check_shape("make_layout", shape), as_tuple(stride)
        if not is_congruent(shape, stride):
            raise LayoutError(
                f"make_layout: shape {to_str(shape)} and stride {to_str(stride)} "
                "differ in structure"
            )
        for leaf in flatten_to_tuple(stride):
            if not (is_static_int(leaf) or isinstance(leaf, Dynamic | ScaledBasis)):
                raise TypeError(
                    f"make_layout: a stride holds integers or scaled basis elements, "
                    f"got {type(leaf).__name__}"
                )
        self._shape = shape
        self._stride = stride

    @property
    def shape(self) -> Any:
        """The extents of the modes."""
        return self._shape

    @property
    def stride(self) -> Any:
        """The strides of the modes, of the structure of :attr:`shape`."""
        return self._stride

    @property
    def max_alignment(self) -> int:
        """The number of elements, from multiples of it on, that stay together; see the algebra."""
        from ._algebra import max_alignment

        return max_alignment(self)

    def is_static(self) -> bool:
        """Whether shape and stride are known at trace time."""
        return is_static(self._shape) and is_static(self._stride)

    def __call__(self, *coord: Any) -> Any:
        """The index of a coordinate, or the sublayout that a coordinate with ``None`` keeps."""
        c = as_tuple(coord[0] if len(coord) == 1 else coord)
        if has_underscore(c):
            return slice_layout(c, self)
        return crd2idx_shape(c, self._shape, self._stride)

    def __getitem__(self, mode: int) -> Layout:
        """The layout of one mode.

        :raises TypeError: if ``mode`` is no int; :raises IndexError: if there is no such mode.
        """
        if not is_static_int(mode):
            raise TypeError(
                f"layout[{mode!r}]: expected the number of a mode; call the layout with a "
                "coordinate, or use cute.slice_, to select elements"
            )
        return Layout(get_mode(self._shape, [mode]), get_mode(self._stride, [mode]))

    def get_hier_coord(self, idx: Any) -> Any:
        """The coordinate, of the shape's structure, whose index is ``idx``, in a compact layout."""
        return idx2crd_strided(idx, self._shape, self._stride)

    def get_flat_coord(self, idx: Any) -> Any:
        """Like :meth:`get_hier_coord`, with one int a mode."""
        coord = self.get_hier_coord(idx)
        if not isinstance(coord, tuple):
            return coord
        return tuple(crd2idx_compact(c, s) for c, s in zip(coord, self._shape, strict=True))

    def get_1d_coord(self, idx: Any) -> Any:
        """Like :meth:`get_hier_coord`, as a single int."""
        return crd2idx_compact(self.get_hier_coord(idx), self._shape)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Layout):
            return NotImplemented
        return tuples_equal((self._shape, self._stride), (other._shape, other._stride))

    def __hash__(self) -> int:
        leaves = flatten_to_tuple((self._shape, self._stride))
        return hash(tuple(id(v) if isinstance(v, Dynamic) else v for v in leaves))

    def __str__(self) -> str:
        return f"{to_str(self._shape)}:{to_str(self._stride)}"

    __repr__ = __str__


class ComposedLayout:
    """The function ``inner(offset + outer(coord))``, of the shape and the modes of ``outer``.

    :param inner: a :class:`Layout`, a :class:`Swizzle`, or a Python function of a coordinate.
    :param offset: added to the result of ``outer``: an int or a coordinate.
    :param outer: the layout that the user sees.
    :raises ValueError: if ``inner`` is a swizzle and ``outer`` maps to coordinates.
    """

    __slots__ = ("_inner", "_offset", "_outer")

    def __init__(self, inner: Any, offset: Any, outer: Layout) -> None:
        if not isinstance(outer, Layout):
            raise TypeError(
                f"make_composed_layout: outer must be a Layout, got {type(outer).__name__}"
            )
        if not isinstance(inner, Layout | ComposedLayout | Swizzle) and not callable(inner):
            raise TypeError(
                "make_composed_layout: inner must be a Layout, a Swizzle or a function, "
                f"got {type(inner).__name__}"
            )
        strides = flatten_to_tuple(outer.stride)
        if isinstance(inner, Swizzle) and any(isinstance(d, ScaledBasis) for d in strides):
            raise LayoutError(
                f"make_composed_layout: {inner} maps integers, but {outer} maps to coordinates"
            )
        self._inner = inner
        self._offset = as_tuple(offset)
        self._outer = outer

    @property
    def inner(self) -> Any:
        """What is applied last."""
        return self._inner

    @property
    def offset(self) -> Any:
        """What is added between the two."""
        return self._offset

    @property
    def outer(self) -> Layout:
        """What is applied first."""
        return self._outer

    @property
    def shape(self) -> Any:
        """The extents of the modes of :attr:`outer`."""
        return self._outer.shape

    @property
    def max_alignment(self) -> int:
        """1: nothing is known of a composition in general."""
        return 1

    @property
    def is_normal(self) -> bool:
        """Whether no Python function takes part."""
        inner = self._inner
        return (
            inner.is_normal
            if isinstance(inner, ComposedLayout)
            else isinstance(inner, Layout | Swizzle)
        )

    def is_static(self) -> bool:
        """Whether every part is known at trace time."""
        return is_static(self._inner) and is_static(self._offset) and self._outer.is_static()

    def with_outer(self, outer: Layout) -> ComposedLayout:
        """The same inner function and offset after another layout."""
        return ComposedLayout(self._inner, self._offset, outer)

    def __call__(self, *coord: Any) -> Any:
        """The value at a coordinate, or the part that a coordinate with ``None`` keeps."""
        c = as_tuple(coord[0] if len(coord) == 1 else coord)
        if has_underscore(c):
            return slice_layout(c, self)
        return self._inner(add_coord(self._offset, self._outer(c)))

    def __getitem__(self, mode: int) -> ComposedLayout:
        """The layout of one mode."""
        return self.with_outer(self._outer[mode])

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, ComposedLayout):
            return NotImplemented
        if self._inner != other._inner:
            return False
        return tuples_equal(
            (self._offset, self._outer.shape, self._outer.stride),
            (other._offset, other._outer.shape, other._outer.stride),
        )

    def __hash__(self) -> int:
        offset = flatten_to_tuple(self._offset)
        key = tuple(id(v) if isinstance(v, Dynamic) else v for v in offset)
        return hash((self._inner, key, self._outer))

    def __str__(self) -> str:
        inner = self._inner
        if not isinstance(inner, Layout | ComposedLayout | Swizzle):
            inner = getattr(inner, "__name__", type(inner).__name__)
        return f"{inner} o {to_str(self._offset)} o {self._outer}"

    __repr__ = __str__


class TensorBase:
    """An engine (pointer or coordinate) seen through a layout, as far as the algebra knows it.

    A subclass has the attribute ``layout`` and the two methods below; every operation of the
    algebra that the documentation defines on tensors is then defined on it.
    """

    layout: Any

    @property
    def shape(self) -> Any:
        """The shape of the layout."""
        return self.layout.shape

    @property
    def stride(self) -> Any:
        """The stride of the layout."""
        return self.layout.stride

    def with_layout(self, layout: Any) -> Any:
        """The same engine through another layout."""
        raise NotImplementedError

    def advanced(self, offset: Any, layout: Any) -> Any:
        """The engine moved on by ``offset`` (elements, or a coordinate), through ``layout``."""
        raise NotImplementedError


def over_layout(function: str, x: Any, f: Callable[[Layout], Layout]) -> Any:
    """Applies ``f`` to the layout within ``x``: a layout, composed layout or tensor.

    :raises TypeError: for anything else; the message names ``function``.
    """
    if isinstance(x, Layout):
        return f(x)
    if isinstance(x, ComposedLayout):
        return x.with_outer(f(x.outer))
    if isinstance(x, TensorBase):
        return x.with_layout(over_layout(function, x.layout, f))
    raise TypeError(f"{function}: expected a layout or a tensor, got {type(x).__name__}")


def plain_layout(function: str, x: Any) -> Layout:
    """The plain layout in ``x`` (a layout, tensor, or composed layout's outer one)."""
    if isinstance(x, TensorBase):
        x = x.layout
    if isinstance(x, ComposedLayout):
        x = x.outer
    if isinstance(x, Layout):
        return x
    raise TypeError(f"{function}: expected a layout, got {type(x).__name__}")


def tuples_equal(a: Any, b: Any) -> Any:
    """Whether two nested tuples are equal: a bool, or a dynamic boolean for dynamic leaves."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) != len(b):
            return False
        result: Any = True
        for x, y in zip(a, b, strict=True):
            same = tuples_equal(x, y)
            if same is False:
                return False
            result = same if result is True else (result if same is True else result & same)
        return result
    if isinstance(a, tuple) or isinstance(b, tuple):
        return False
    return True if a is b else a == b


# Coordinates.


def get_mode(x: Any, path: list[int]) -> Any:
    """The element of a nested tuple on a path; a lone leaf is its own mode 0."""
    for m in path:
        size = len(x) if isinstance(x, tuple) else 1
        if not -size <= m < size:
            raise IndexError(f"mode {m} does not exist in {to_str(x)}")
        x = x[m] if isinstance(x, tuple) else x
    return x


def crd2idx_shape(coord: Any, shape: Any, stride: Any) -> Any:
    """The index of a coordinate in the layout ``shape:stride``."""
    if isinstance(coord, tuple):
        if not isinstance(shape, tuple) or len(coord) != len(shape):
            raise LayoutError(
                f"crd2idx: the coordinate {to_str(coord)} does not fit the shape {to_str(shape)}"
            )
        result: Any = 0
        for c, s, d in zip(coord, shape, stride, strict=True):
            result = add_coord(result, crd2idx_shape(c, s, d))
        return result
    if coord is None:
        raise LayoutError("crd2idx: the coordinate must not hold None; use slice_")
    if not isinstance(shape, tuple):
        return mul(coord, stride)
    # An int counts through the leaves, leftmost fastest; the last leaf takes all that is left.
    shapes, strides = flatten_to_tuple(shape), flatten_to_tuple(stride)
    result = 0
    for i, (s, d) in enumerate(zip(shapes, strides, strict=True)):
        if i == len(shapes) - 1:
            result = add_coord(result, mul(coord, d))
        else:
            result = add_coord(result, mul(mod(coord, s), d))
            coord = floordiv(coord, s)
    return result


def crd2idx_compact(coord: Any, shape: Any) -> Any:
    """The colexicographic number of a coordinate within a shape."""
    if not isinstance(coord, tuple):
        return coord
    if not isinstance(shape, tuple) or len(coord) != len(shape):
        raise LayoutError(
            f"crd2idx: the coordinate {to_str(coord)} does not fit the shape {to_str(shape)}"
        )
    result: Any = 0
    scale: Any = 1
    for c, s in zip(coord, shape, strict=True):
        result = add_coord(result, mul(crd2idx_compact(c, s), scale))
        scale = mul(scale, product(s))
    return result


def idx2crd_compact(idx: Any, shape: Any) -> Any:
    """The coordinate within a shape that has a colexicographic number (or a tuple of them)."""
    if isinstance(idx, tuple):
        if not isinstance(shape, tuple) or len(idx) != len(shape):
            raise LayoutError(
                f"idx2crd: the index {to_str(idx)} does not fit the shape {to_str(shape)}"
            )
        return tuple(idx2crd_compact(i, s) for i, s in zip(idx, shape, strict=True))
    if not isinstance(shape, tuple):
        return idx

    def digits(s: Any) -> Any:
        nonlocal idx
        if isinstance(s, tuple):
            return tuple(digits(v) for v in s)
        digit = mod(idx, s)
        idx = floordiv(idx, s)
        return digit

    return digits(shape)


def idx2crd_strided(idx: Any, shape: Any, stride: Any) -> Any:
    """The coordinate whose index is ``idx``, read off stride by stride."""
    if isinstance(shape, tuple):
        return tuple(idx2crd_strided(idx, s, d) for s, d in zip(shape, stride, strict=True))
    if is_int(shape, 1) or is_int(stride, 0):
        return 0
    return mod(floordiv(idx, stride), shape)


# Slices.


def slice_tuple(coord: Any, t: Any, keep_none: bool = True) -> Any:
    """The parts of ``t`` at the ``None`` leaves of ``coord`` (or at the others), as a flat tuple.

    Modes kept within a nested coordinate move up to the top level. A lone ``None`` keeps all.
    """
    if not isinstance(coord, tuple):
        return t if (coord is None) == keep_none else ()
    if not isinstance(t, tuple) or len(coord) != len(t):
        raise LayoutError(f"slice_: the coordinate {to_str(coord)} does not fit {to_str(t)}")
    kept: list[Any] = []
    for c, x in zip(coord, t, strict=True):
        if isinstance(c, tuple):
            kept.extend(slice_tuple(c, x, keep_none))
        elif (c is None) == keep_none:
            kept.append(x)
    return tuple(kept)


def fixed_coord(coord: Any) -> Any:
    """``coord`` with 0 in place of every ``None``: the coordinate of a slice's first element."""
    if isinstance(coord, tuple):
        return tuple(fixed_coord(c) for c in coord)
    return 0 if coord is None else coord


def slice_layout(coord: Any, layout: Any) -> Any:
    """The sublayout that ``coord`` keeps; a composed layout takes the offset into its own."""
    return slice_and_offset_layout(coord, layout)[0]


def slice_and_offset_layout(coord: Any, layout: Any) -> tuple[Any, Any]:
    """The sublayout that ``coord`` keeps, and the offset of its first element."""
    if isinstance(layout, ComposedLayout):
        sliced, offset = slice_and_offset_layout(coord, layout.outer)
        return ComposedLayout(layout.inner, add_coord(layout.offset, offset), sliced), 0
    sliced = Layout(slice_tuple(coord, layout.shape), slice_tuple(coord, layout.stride))
    offset = sliced_offset(coord, layout.shape, layout.stride)
    return sliced, offset


def sliced_offset(coord: Any, shape: Any, stride: Any) -> Any:
    """The index of the given modes of ``coord`` alone."""
    if coord is None:
        return inner_zero(stride)
    if isinstance(coord, tuple):
        result: Any = 0
        for c, s, d in zip(coord, shape, stride, strict=True):
            result = add_coord(result, sliced_offset(c, s, d))
        return result
    return crd2idx_shape(coord, shape, stride)


def inner_zero(stride: Any) -> Any:
    """A zero of the kind that the strides sum to: 0, or a coordinate of zeros."""
    result: Any = 0
    for d in flatten_to_tuple(stride):
        result = add_coord(result, mul(0, d))
    return result
