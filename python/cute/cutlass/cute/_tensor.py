"""Owns tensors: a pointer or a coordinate seen through a layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._errors import DSLTypeError, not_supported
from .._ir import current
from .._numeric import Boolean, Integer, Numeric, _convert, as_numeric
from ._algebra import recast_layout
from ._basis import ScaledBasis, add_coord
from ._dynamic import Dynamic, is_static_int
from ._int_tuple import as_tuple, flatten_to_tuple, has_underscore, is_static, to_str, unflatten
from ._layout_type import ComposedLayout, Layout, TensorBase
from ._memory import AddressSpace, Pointer, load_vector, register_pointer, store_vector
from ._modes import (
    cosize,
    crd2idx,
    make_fragment_like_layout,
    make_identity_layout,
    make_layout,
    make_layout_like,
    size,
    slice_,
)


def nonneg(c: Any) -> Any:
    """A coordinate whose dynamic leaves are taken to be non-negative, as the model promises."""
    if isinstance(c, tuple | list):
        return tuple(nonneg(x) for x in c)
    if isinstance(c, Integer):
        return c if c._nonneg else c.assume(1, True)
    if type(c) is Boolean:
        raise DSLTypeError("a Boolean is no coordinate")
    if isinstance(c, Numeric):
        raise DSLTypeError(f"a coordinate holds integers, got {type(c).__name__}")
    return c


class Tensor(TensorBase):
    """`T = E o L`: the element at coordinate c is what the engine E has at L(c)."""

    def __init__(self, iterator: Any, layout: Any) -> None:
        self._iter = iterator
        self.layout = layout

    # -- facts ------------------------------------------------------------------------------

    @property
    def iterator(self) -> Any:
        """The engine: a pointer, or the coordinate of the first element."""
        return self._iter

    @property
    def is_coordinate(self) -> bool:
        """Whether the elements are coordinates."""
        return not isinstance(self._iter, Pointer)

    @property
    def element_type(self) -> Any:
        """The numeric type of an element (Int32 for coordinates)."""
        if isinstance(self._iter, Pointer):
            return self._iter.dtype
        from .._numeric import Int32

        return Int32

    dtype = element_type

    @property
    def memspace(self) -> AddressSpace:
        """Where the elements lie."""
        if not isinstance(self._iter, Pointer):
            raise DSLTypeError("a coordinate tensor lies in no memory")
        return self._iter.memspace

    @property
    def leading_dim(self) -> Any:
        """The mode of stride 1."""
        from ._modes import leading_dim

        return leading_dim(self.shape, self.stride)

    @property
    def type(self) -> str:
        """The type as text: `tensor<ptr<f32, gmem> o (8,5):(5,1)>`."""
        if isinstance(self._iter, Pointer):
            return f"tensor<{self._iter.type} o {self.layout}>"
        start = self._iter if isinstance(self._iter, tuple) else (self._iter,)
        return f"coord_tensor<{to_str(as_tuple(start))} o {self.layout}>"

    def __str__(self) -> str:
        if isinstance(self._iter, Pointer):
            return self.type
        start = self._iter if isinstance(self._iter, tuple) else (self._iter,)
        return f"tensor<{to_str(as_tuple(start))} o {self.layout}>"

    __repr__ = __str__

    # -- the algebra's view -----------------------------------------------------------------

    def with_layout(self, layout: Any) -> Tensor:
        """The same engine through another layout."""
        return Tensor(self._iter, layout)

    def advanced(self, offset: Any, layout: Any) -> Tensor:
        """The engine moved on, through `layout`."""
        if isinstance(self._iter, Pointer):
            if is_static_int(offset) and offset == 0:
                return Tensor(self._iter, layout)
            return Tensor(self._iter + offset, layout)
        return Tensor(add_coord(self._iter, offset), layout)

    # -- elements ---------------------------------------------------------------------------

    def _locate(self, coord: Any) -> Any:
        """The pointer to (or the value of) one element."""
        coord = nonneg(as_tuple(coord))
        index = (
            crd2idx(coord, self.layout)
            if not isinstance(self.layout, ComposedLayout)
            else self.layout(coord)
        )
        if isinstance(self._iter, Pointer):
            return self._iter + index
        return add_coord(self._iter, index)

    def __getitem__(self, coord: Any) -> Any:
        if has_underscore(as_tuple(coord)):
            return slice_(self, nonneg(as_tuple(coord)))
        found = self._locate(coord)
        return found.load() if isinstance(found, Pointer) else found

    def __setitem__(self, coord: Any, value: Any) -> None:
        self._check_writable()
        if has_underscore(as_tuple(coord)):
            part = slice_(self, nonneg(as_tuple(coord)))
            part.store(value) if hasattr(value, "shape") else part.fill(value)
            return
        self._locate(coord).store(value)

    def _check_writable(self) -> None:
        if not isinstance(self._iter, Pointer):
            raise DSLTypeError("a coordinate tensor cannot be written")

    def _check_static(self, what: str) -> int:
        if not is_static(self.shape):
            raise DSLTypeError(
                f"{what} needs a tensor of static shape, got {to_str(as_tuple(self.shape))}: "
                "slice or tile it first"
            )
        return int(size(self.shape))

    def load(self, **_: Any) -> Any:
        """All elements, as a value (see `TensorSSA`)."""
        from ._ssa import TensorSSA

        n = self._check_static("load")
        if not isinstance(self._iter, Pointer):
            raise DSLTypeError("a coordinate tensor has no values to load: index it")
        items: list[Any] = [None] * n
        for pointer, where in vectors(self, n, 16):
            got = load_vector(pointer, len(where))
            for indices, value in zip(where, got, strict=True):
                for i in indices:
                    items[i] = value
        return TensorSSA._of(items, self.shape, self._iter.dtype)

    def store(self, data: Any, **_: Any) -> None:
        """Write all elements from a value of as many elements."""
        from ._ssa import TensorSSA

        n = self._check_static("store")
        self._check_writable()
        if not isinstance(data, TensorSSA):
            if isinstance(data, Numeric | int | float):
                data = TensorSSA.full(self.shape, data, self._iter.dtype)
            else:
                raise DSLTypeError(f"store takes a TensorSSA, got {type(data).__name__}")
        if len(data._items) != n:
            raise DSLTypeError(
                f"store: a value of shape {to_str(as_tuple(data.shape))} does not fit a tensor of "
                f"shape {to_str(as_tuple(self.shape))}"
            )
        if data.dtype is not self._iter.dtype:
            data = data.to(self._iter.dtype)
        for pointer, where in vectors(self, n, 16):
            store_vector(pointer, [data._items[indices[-1]] for indices in where])

    def fill(self, value: Any, **_: Any) -> None:
        """Write `value` to every element."""
        self._check_writable()
        item = _convert(value, self._iter.dtype)
        n = self._check_static("fill")
        for pointer, where in vectors(self, n, 16):
            store_vector(pointer, [item] * len(where))

    def mark_layout_dynamic(self, *_: Any, **__: Any) -> Any:
        """Not for tensors inside a trace: mark them before the call."""
        raise DSLTypeError("mark_layout_dynamic works on tensors from from_dlpack, outside a trace")

    def __mkb_split__(self) -> Any:
        """Frame and leaves for control flow and kernel calls."""
        leaves = flatten_to_tuple(self.layout_parts())
        dynamic = [x for x in leaves if isinstance(x, Dynamic)]
        facts = tuple(
            (type(x), x.divisibility, x._nonneg) if isinstance(x, Dynamic) else x for x in leaves
        )
        layout = self.layout
        iterator = self._iter
        pointer = isinstance(iterator, Pointer)
        engine = (
            [iterator]
            if pointer
            else [x for x in flatten_to_tuple((iterator,)) if isinstance(x, Dynamic)]
        )
        frame = (
            None
            if pointer
            else tuple(None if isinstance(x, Dynamic) else x for x in flatten_to_tuple((iterator,)))
        )
        profile = _structure(layout)

        def make(parts: list[Any]) -> Tensor:
            rest = iter(parts)
            if pointer:
                new_iter = next(rest)
            else:
                flat = [
                    next(rest) if isinstance(x, Dynamic) else x
                    for x in flatten_to_tuple((iterator,))
                ]
                new_iter = unflatten(flat, iterator) if isinstance(iterator, tuple) else flat[0]
            filled = [
                next(rest).assume(x.divisibility, x._nonneg) if isinstance(x, Dynamic) else x
                for x in leaves
            ]
            return Tensor(new_iter, rebuild_layout(layout, filled))

        return (facts, frame, profile), [*engine, *dynamic], make

    def layout_parts(self) -> Any:
        """Shape, stride (and what a composed layout adds) as nested tuples."""
        return layout_parts(self.layout)


def layout_parts(layout: Any) -> Any:
    """The leaves of a layout, as nested tuples."""
    if isinstance(layout, ComposedLayout):
        inner = (
            layout_parts(layout.inner) if isinstance(layout.inner, Layout | ComposedLayout) else ()
        )
        return (inner, layout.offset, layout.outer.shape, _bases(layout.outer.stride))
    return (layout.shape, _bases(layout.stride))


def _bases(stride: Any) -> Any:
    """Strides with each scaled basis replaced by its scale."""
    if isinstance(stride, tuple):
        return tuple(_bases(s) for s in stride)
    return stride.value if isinstance(stride, ScaledBasis) else stride


def _structure(layout: Any) -> str:
    """The layout with its dynamic leaves blanked, as text: equal for layouts of one structure."""
    return str(layout)


def rebuild_layout(layout: Any, leaves: list[Any]) -> Any:
    """The layout with its leaves (as :func:`layout_parts` orders them) replaced."""
    rest = iter(leaves)

    def fill(t: Any) -> Any:
        if isinstance(t, tuple):
            return tuple(fill(x) for x in t)
        new = next(rest)
        return ScaledBasis(new, list(t.mode)) if isinstance(t, ScaledBasis) else new

    def again(part: Any) -> Any:
        if isinstance(part, ComposedLayout):
            inner = (
                again(part.inner) if isinstance(part.inner, Layout | ComposedLayout) else part.inner
            )
            offset = fill(part.offset)
            outer_shape = fill(part.outer.shape)
            return ComposedLayout(inner, offset, Layout(outer_shape, fill(part.outer.stride)))
        new_shape = fill(part.shape)
        return Layout(new_shape, fill(part.stride))

    return again(layout)


# -- vectors --------------------------------------------------------------------------------


def vectors(tensor: Tensor, n: int, max_bytes: int) -> Iterator[tuple[Pointer, list[list[int]]]]:
    """Accesses that cover a tensor of static shape: a pointer, and for each element in a row from
    it the indices (counted colexicographically) that lie there. Each is as wide as the layout, the
    known alignment and `max_bytes` allow.
    """
    groups = placed(tensor, n)
    pointer: Pointer = tensor.iterator
    width = max(1, pointer.dtype.width // 8)
    register = pointer.memspace is AddressSpace.rmem
    for base, by_offset in groups:
        order = sorted(by_offset)
        i = 0
        while i < len(order):
            run = 1
            while i + run < len(order) and order[i + run] == order[i] + run:
                run += 1
            first = base + order[i]
            count = run
            if not register:
                count = 1
                while (
                    count * 2 <= run
                    and count * 2 * width <= max_bytes
                    and first.alignment % (count * 2 * width) == 0
                ):
                    count *= 2
            yield first, [by_offset[order[i + k]] for k in range(count)]
            i += count


def placed(tensor: Tensor, n: int) -> list[tuple[Pointer, dict[int, list[int]]]]:
    """The elements by base pointer and static offset from it: offset to indices."""
    pointer: Pointer = tensor.iterator
    layout = tensor.layout
    if isinstance(layout, ComposedLayout):
        return _placed_composed(tensor, n)
    shapes = flatten_to_tuple(layout.shape) if isinstance(layout.shape, tuple) else (layout.shape,)
    strides = (
        flatten_to_tuple(layout.stride) if isinstance(layout.stride, tuple) else (layout.stride,)
    )
    groups: dict[tuple[int, ...], dict[int, list[int]]] = {}
    for i in range(n):
        rest, offset, key = i, 0, []
        for s, d in zip(shapes, strides, strict=True):
            digit = rest % s
            rest //= s
            if isinstance(d, Dynamic):
                key.append(digit)
            else:
                offset += digit * d
        groups.setdefault(tuple(key), {}).setdefault(offset, []).append(i)
    dynamic = [d for d in strides if isinstance(d, Dynamic)]
    out = []
    for key_digits, members in groups.items():
        base = pointer
        for digit, d in zip(key_digits, dynamic, strict=True):
            if digit:
                base = base + d * digit if digit != 1 else base + d
        out.append((base, members))
    return out


def _placed_composed(tensor: Tensor, n: int) -> list[tuple[Pointer, dict[int, list[int]]]]:
    layout: ComposedLayout = tensor.layout
    pointer: Pointer = tensor.iterator
    static: dict[int, list[int]] = {}
    out = []
    run = _swizzle_run(layout)
    done: dict[int, Any] = {}
    for i in range(n):
        if i % run:
            continue
        index = layout(i)
        if is_static_int(index):
            for k in range(run):
                static.setdefault(index + k, []).append(i + k)
        else:
            members = {k: [i + k] for k in range(run)}
            out.append((pointer + _aligned(index, run), members))
    del done
    if static:
        out.append((pointer, static))
    return out


def _aligned(index: Any, run: int) -> Any:
    return index.assume(run) if isinstance(index, Integer) and run > 1 else index


def _swizzle_run(layout: ComposedLayout) -> int:
    """How many elements from a multiple of it on stay in a row under the swizzle."""
    import math

    from ._dynamic import divisibility_of
    from ._swizzle import Swizzle

    if not isinstance(layout.inner, Swizzle):
        return 1
    shapes, strides = (
        flatten_to_tuple((layout.outer.shape,)),
        flatten_to_tuple((layout.outer.stride,)),
    )
    if not is_static_int(shapes[0]) or strides[0] != 1:
        return 1
    run = math.gcd(shapes[0], 1 << layout.inner.num_base)
    for x in (*strides[1:], layout.offset):
        run = math.gcd(run, divisibility_of(x)) if not (is_static_int(x) and x == 0) else run
    return max(1, run)


# -- making tensors -------------------------------------------------------------------------


def make_tensor(iterator: Any, layout: Any, **_: Any) -> Tensor:
    """A tensor from a pointer (or a coordinate) and a layout or shape."""
    if not isinstance(layout, Layout | ComposedLayout):
        layout = make_layout(layout)
    if isinstance(iterator, ComposedLayout | Layout):
        raise DSLTypeError("make_tensor: the iterator must be a pointer, an int or a coordinate")
    if isinstance(iterator, Tensor):
        iterator = iterator.iterator
    return Tensor(iterator if isinstance(iterator, Pointer) else as_tuple(iterator), layout)


def make_identity_tensor(shape: Any, **_: Any) -> Tensor:
    """The tensor whose element at each coordinate is that coordinate."""
    layout = make_identity_layout(shape)
    zero = unflatten([0] * len(flatten_to_tuple((layout.shape,))), layout.shape)
    return Tensor(zero if isinstance(layout.shape, tuple) else 0, layout)


def make_rmem_tensor(layout_or_shape: Any, dtype: Any, **_: Any) -> Tensor:
    """A register fragment of the given layout (or compact, of the given shape)."""
    layout = layout_or_shape if isinstance(layout_or_shape, Layout) else None
    if isinstance(layout_or_shape, ComposedLayout):
        layout = make_fragment_like_layout(layout_or_shape)
    if layout is None:
        layout = make_layout(layout_or_shape)
    if not is_static(layout):
        raise DSLTypeError(f"a register fragment needs a static layout, got {layout}")
    length = int(cosize(layout))
    return Tensor(register_pointer(dtype, length), layout)


def make_fragment_like(src: Any, dtype: Any = None, **_: Any) -> Any:
    """A register fragment laid out like `src` (a layout gives a layout)."""
    if isinstance(src, Layout | ComposedLayout):
        layout = make_fragment_like_layout(src)
        return layout if dtype is None else make_rmem_tensor(layout, dtype)
    layout = src.layout
    if isinstance(layout, ComposedLayout):
        layout = layout.outer
    if any(isinstance(d, ScaledBasis) for d in flatten_to_tuple((layout.stride,))):
        layout = make_layout(layout.shape)
    return make_rmem_tensor(make_fragment_like_layout(layout), dtype or src.element_type)


def make_rmem_tensor_like(src: Any, dtype: Any = None, **_: Any) -> Tensor:
    """A compact register fragment of the shape of `src`."""
    layout = src if isinstance(src, Layout | ComposedLayout) else getattr(src, "layout", None)
    if layout is None:
        layout = make_layout(src.shape)
    if isinstance(layout, ComposedLayout):
        layout = layout.outer
    if any(isinstance(d, ScaledBasis) for d in flatten_to_tuple((layout.stride,))):
        layout = make_layout(layout.shape)
    kind = dtype or getattr(src, "element_type", None)
    if kind is None:
        raise DSLTypeError("make_rmem_tensor_like: a layout has no element type, give dtype")
    return make_rmem_tensor(make_layout_like(layout), kind)


def recast_tensor(src: Tensor, dtype: Any, swizzle_: Any = None, **_: Any) -> Tensor:
    """The same memory as elements of another type."""
    if swizzle_ is not None:
        raise not_supported(
            "recast_tensor with a swizzle", "give the tensor a swizzled layout instead"
        )
    if not isinstance(src.iterator, Pointer):
        raise DSLTypeError("a coordinate tensor cannot be recast")
    if dtype is src.element_type:
        return src
    layout = src.layout
    if dtype.width != src.element_type.width:
        layout = recast_layout(dtype.width, src.element_type.width, layout)
    return Tensor(src.iterator.with_dtype(dtype), layout)


def as_value(x: Any) -> Any:
    """A tensor as its value; anything else unchanged."""
    return x.load() if isinstance(x, Tensor) else x


def in_trace() -> bool:
    """Whether a program is being traced."""
    return current() is not None


__all__ = [
    "Tensor",
    "as_numeric",
    "make_fragment_like",
    "make_identity_tensor",
    "make_rmem_tensor",
    "make_rmem_tensor_like",
    "make_tensor",
    "recast_tensor",
]
