"""Owns `cute.struct` and `cute.union`: C structures in shared memory, described by annotations."""

from __future__ import annotations

import inspect
import math
from typing import Any

from .._errors import DSLTypeError
from .._numeric import Numeric
from ._memory import Pointer


class _MemRangeMeta(type):
    _dtype: Any = None
    _size: Any = None

    def __getitem__(cls, params: Any) -> Any:
        if not isinstance(params, tuple) or len(params) != 2:
            raise DSLTypeError("MemRange takes a type and a number of elements: MemRange[T, n]")
        dtype, size = params
        if not _is_scalar(dtype):
            raise DSLTypeError(f"MemRange: {dtype!r} is no numeric type")
        if isinstance(size, Numeric) or not isinstance(size, int) or size < 0:
            raise DSLTypeError(f"MemRange: the size must be a non-negative int, got {size!r}")
        return _MemRangeMeta(
            f"MemRange[{dtype.__name__}, {size}]", (cls,), {"_dtype": dtype, "_size": size}
        )

    @property
    def size(cls) -> Any:
        """The number of elements."""
        return cls._size

    @property
    def elem_width(cls) -> int:
        """Bits of an element."""
        return int(cls._dtype.width)

    @property
    def size_in_bytes(cls) -> int:
        """Bytes of the range."""
        return int(cls._size * cls._dtype.width // 8)


class _MemRange(metaclass=_MemRangeMeta):
    """A range of memory: `MemRange[T, n]`."""


class _AlignMeta(type):
    _dtype: Any = None
    _align: Any = None

    def __getitem__(cls, params: Any) -> Any:
        if not isinstance(params, tuple) or len(params) != 2:
            raise DSLTypeError("Align takes a type and an alignment: Align[T, bytes]")
        dtype, align = params
        if not isinstance(align, int) or align <= 0 or align & (align - 1):
            raise DSLTypeError(f"Align: the alignment must be a power of two, got {align!r}")
        if not (_is_scalar(dtype) or isinstance(dtype, _MemRangeMeta | struct)):
            raise DSLTypeError(f"Align: {dtype!r} is no struct, MemRange or numeric type")
        return _AlignMeta(f"Align[{dtype}, {align}]", (cls,), {"_dtype": dtype, "_align": align})

    @property
    def dtype(cls) -> Any:
        """What is aligned."""
        return cls._dtype

    @property
    def align(cls) -> Any:
        """Its alignment in bytes."""
        return cls._align


class _Align(metaclass=_AlignMeta):
    """A member with an alignment: `Align[T, bytes]`."""


def _is_scalar(dtype: Any) -> bool:
    return isinstance(dtype, type) and issubclass(dtype, Numeric)


class _MemRangeData:
    """A range of memory at an address."""

    def __init__(self, dtype: Any, size: int, base: Pointer) -> None:
        self._dtype = dtype
        self._size = size
        self._base = base

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._size

    def data_ptr(self, **_: Any) -> Pointer:
        """The address of the first element."""
        return self._base

    def get_tensor(self, layout: Any, swizzle: Any = None, dtype: Any = None, **_: Any) -> Any:
        """The range as a tensor."""
        from ._layout_type import ComposedLayout
        from ._modes import make_composed_layout
        from ._tensor import make_tensor

        if self._size <= 0:
            raise AssertionError("get_tensor: the range is empty")
        if swizzle is not None:
            if isinstance(layout, ComposedLayout):
                raise TypeError("get_tensor: a swizzled layout and a swizzle exclude each other")
            layout = make_composed_layout(swizzle, 0, layout)
        return make_tensor(self._base if dtype is None else self._base.with_dtype(dtype), layout)

    def __getitem__(self, index: Any) -> Any:
        self._check(index)
        return self._base[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check(index)
        self._base[index] = value

    def _check(self, index: Any) -> None:
        if isinstance(index, int) and not 0 <= index < self._size:
            raise IndexError(f"index {index} is outside a range of {self._size} elements")


class _ScalarData:
    """A scalar member at an address."""

    def __init__(self, ptr: Pointer) -> None:
        self._ptr = ptr

    @property
    def ptr(self) -> Pointer:
        """The address."""
        return self._ptr

    @property
    def dtype(self) -> Any:
        """The type of the scalar."""
        return self._ptr.dtype

    def load(self, **_: Any) -> Any:
        """The value."""
        return self._ptr.load()

    def store(self, value: Any, **_: Any) -> None:
        """Write the value."""
        self._ptr.store(value)


class _Instance:
    """A structure at an address: members are attributes."""

    def __init__(self, layout: struct, base: Pointer) -> None:
        members = {}
        for name, (offset, kind) in layout._offsets.items():
            at = _byte_pointer(base, offset)
            if isinstance(kind, struct):
                members[name] = kind(at)
            elif isinstance(kind, _MemRangeMeta):
                members[name] = _MemRangeData(kind._dtype, kind._size, at.with_dtype(kind._dtype))
            else:
                members[name] = _ScalarData(at.with_dtype(kind))
        object.__setattr__(self, "_members", members)
        object.__setattr__(self, "_layout", layout)
        object.__setattr__(self, "_base", base)

    def __getattr__(self, name: str) -> Any:
        members = object.__getattribute__(self, "_members")
        if name in members:
            return members[name]
        raise AttributeError(f"the struct {self._layout._name} has no member {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        member = self._members.get(name)
        if not isinstance(member, _ScalarData):
            raise AttributeError(f"{name!r} is no scalar member of the struct {self._layout._name}")
        member.ptr.store(value)

    def data_ptr(self, **_: Any) -> Pointer:
        """The address of the structure."""
        return self._base  # type: ignore[no-any-return]


def _byte_pointer(base: Pointer, offset: int) -> Pointer:
    from .._numeric import Uint8

    return base.with_dtype(Uint8) + offset


class struct:
    """Decorator: a C structure whose members are scalars, `MemRange`, `Align` and other structs."""

    MemRange = _MemRange
    Align = _Align
    _MemRangeMeta = _MemRangeMeta
    _MemRangeData = _MemRangeData
    _AlignMeta = _AlignMeta
    _ScalarData = _ScalarData
    _union = False

    def __init__(self, cls: type) -> None:
        self._name = cls.__name__
        self.__name__ = cls.__name__
        fields = inspect.get_annotations(cls, eval_str=True)
        if not fields:
            raise TypeError(f"the struct {cls.__name__} is empty")
        self._offsets: dict[str, tuple[int, Any]] = {}
        offset, alignment, largest = 0, 1, 0
        for name, kind in fields.items():
            least = 1
            if isinstance(kind, _AlignMeta):
                least, kind = kind._align, kind._dtype
            size, natural = _measure(kind, name, cls.__name__)
            align = max(least, natural)
            alignment = math.lcm(alignment, align)
            if self._union:
                offset = 0
            offset = self.align_offset(offset, align)
            self._offsets[name] = (offset, kind)
            offset += size
            largest = max(largest, size)
        self._align_of = alignment
        self._size_of = self.align_offset(largest if self._union else offset, alignment)

    def __call__(self, base: Any) -> _Instance:
        return _Instance(self, base)

    def size_in_bytes(self) -> int:
        """Bytes of the structure, a multiple of its alignment."""
        return self._size_of

    def __sizeof__(self) -> int:
        return self._size_of

    def __alignof__(self) -> int:
        """Alignment of the structure in bytes."""
        return self._align_of

    @staticmethod
    def align_offset(offset: Any, align: int) -> Any:
        """`offset` rounded up to a multiple of `align`."""
        return (offset + align - 1) // align * align


def _measure(kind: Any, name: str, owner: str) -> tuple[int, int]:
    if isinstance(kind, struct):
        return kind._size_of, kind._align_of
    if isinstance(kind, _MemRangeMeta):
        return kind.size_in_bytes, max(1, kind._dtype.width // 8)
    if _is_scalar(kind):
        size = max(1, kind.width // 8)
        return size, size
    raise TypeError(f"{owner}.{name}: {kind!r} is no struct, MemRange, Align or numeric type")


class union(struct):
    """Decorator: as :class:`struct`, with all members at offset 0."""

    _union = True
