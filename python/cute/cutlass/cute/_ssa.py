"""Owns `TensorSSA`: all elements of a tensor as one immutable value of each thread."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

from .._errors import DSLTypeError
from .._ir import Operand
from .._numeric import (
    Boolean,
    Float32,
    Numeric,
    _convert,
    as_numeric,
    convert_operand,
    emit,
    maximum,
    minimum,
    pack_floats,
    promote,
    rebits,
    select,
    unpack,
)
from ._int_tuple import as_tuple, flatten_to_tuple, has_underscore, is_static, to_str
from ._memory import _join, _split, _typed
from ._modes import crd2idx, make_layout, size
from ._tensor import Tensor


class ReductionOp(enum.Enum):
    """How `TensorSSA.reduce` combines elements."""

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"
    INC = "inc"
    DEC = "dec"
    AND = "and"
    OR = "or"
    XOR = "xor"


_COMBINE: dict[ReductionOp, Callable[[Any, Any], Any]] = {
    ReductionOp.ADD: operator.add,
    ReductionOp.MUL: operator.mul,
    ReductionOp.MAX: maximum,
    ReductionOp.MIN: minimum,
    ReductionOp.AND: operator.and_,
    ReductionOp.OR: operator.or_,
    ReductionOp.XOR: operator.xor,
}


class TensorSSA:
    """The values of a thread's tensor, as `tensor.load()` gives them: each a register.

    The elements stand in colexicographic order of `shape`. Operators work element by element, with
    numbers and with values of a shape that broadcasts; nothing is changed in place.
    """

    __slots__ = ("_dtype", "_items", "_shape")

    def __init__(self, value: Any, shape: Any, dtype: Any = None, **_: Any) -> None:
        if not isinstance(value, TensorSSA):
            raise DSLTypeError(f"TensorSSA: expected a vector value, got {type(value).__name__}")
        self._items = value._items
        self._shape = as_tuple(shape)
        self._dtype = dtype or value._dtype

    @classmethod
    def _of(cls, items: list[Operand], shape: Any, dtype: Any) -> TensorSSA:
        out = object.__new__(cls)
        out._items = items
        out._shape = as_tuple(shape)
        out._dtype = dtype
        return out

    @classmethod
    def full(cls, shape: Any, value: Any, dtype: Any) -> TensorSSA:
        """`value` everywhere."""
        n = _static_size(shape)
        return cls._of([_convert(value, dtype)] * n, shape, dtype)

    # -- facts ------------------------------------------------------------------------------

    @property
    def shape(self) -> Any:
        """The shape, nested as the tensor's."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The numeric type of an element."""
        return self._dtype

    element_type = dtype

    @property
    def numel(self) -> int:
        """The number of elements."""
        return len(self._items)

    @property
    def type(self) -> str:
        """The type as text: `vector<12xf32> o (3, 4)`."""
        return f"vector<{len(self._items)}x{self._dtype.short}> o {self._shape}"

    def __str__(self) -> str:
        return f"tensor_value<{self.type}>"

    __repr__ = __str__

    def ir_value(self, **_: Any) -> TensorSSA:
        """The value itself."""
        return self

    def to_vector(self, **_: Any) -> TensorSSA:
        """The value itself, flat."""
        return TensorSSA._of(self._items, (len(self._items),), self._dtype)

    @staticmethod
    def from_vector(value: Any, *, dtype: Any = None, shape: Any = None, **_: Any) -> TensorSSA:
        """The value with another type or shape."""
        return TensorSSA._of(value._items, shape or value._shape, dtype or value._dtype)

    def __mkb_split__(self) -> Any:
        shape, dtype = self._shape, self._dtype
        parts = [dtype._wrap(x) for x in self._items]
        return (shape, dtype), parts, lambda got: TensorSSA._of([g._v for g in got], shape, dtype)

    def __mkb_scalar__(self) -> Any:
        if len(self._items) != 1:
            raise DSLTypeError(
                f"a value of {len(self._items)} elements is used as a scalar: reduce it first"
            )
        return self._dtype._wrap(self._items[0])

    # -- elements ---------------------------------------------------------------------------

    def __getitem__(self, coord: Any) -> Any:
        coord = as_tuple(coord)
        layout = make_layout(self._shape)
        if not has_underscore(coord):
            return self._dtype._wrap(self._pick(crd2idx(coord, layout)))
        from ._modes import slice_and_offset

        part, offset = slice_and_offset(coord, layout)
        n = _static_size(part.shape)
        return TensorSSA._of(
            [self._pick(offset + part(i)) for i in range(n)], part.shape, self._dtype
        )

    def _pick(self, index: Any) -> Operand:
        if isinstance(index, Numeric):
            raise DSLTypeError(
                "a TensorSSA is indexed by constants: store it into a register fragment for a "
                "dynamic index"
            )
        if not 0 <= index < len(self._items):
            raise IndexError(f"index {index} is outside a value of {len(self._items)} elements")
        return self._items[index]

    def reshape(self, shape: Any, **_: Any) -> TensorSSA:
        """The same elements, in order, in another shape."""
        if _static_size(shape) != len(self._items):
            raise ValueError(
                f"reshape: {to_str(as_tuple(self._shape))} and {to_str(as_tuple(shape))} differ "
                "in size"
            )
        return TensorSSA._of(self._items, shape, self._dtype)

    def broadcast_to(self, target_shape: Any, **_: Any) -> TensorSSA:
        """Repeated along modes of size 1, as NumPy does; missing modes are put in front."""
        target = as_tuple(target_shape)
        if target == self._shape:
            return self
        flat_target = flatten_to_tuple((target,))
        source = self._shape if isinstance(self._shape, tuple) else (self._shape,)
        wanted = target if isinstance(target, tuple) else (target,)
        if len(source) > len(wanted):
            raise ValueError(_cannot_broadcast(self._shape, target))
        source = (1,) * (len(wanted) - len(source)) + tuple(source)
        flat_source: list[int] = []
        for s, t in zip(source, wanted, strict=True):
            fs, ft = flatten_to_tuple((s,)), flatten_to_tuple((t,))
            if len(fs) == 1 and len(ft) > 1 and fs[0] == 1:
                fs = (1,) * len(ft)
            if len(fs) != len(ft) or any(a not in (1, b) for a, b in zip(fs, ft, strict=True)):
                raise ValueError(_cannot_broadcast(self._shape, target))
            flat_source.extend(fs)
        strides, step = [], 1
        for extent in flat_source:
            strides.append(0 if extent == 1 else step)
            step *= extent
        items = []
        for i in range(_static_size(target)):
            rest, index = i, 0
            for extent, stride in zip(flat_target, strides, strict=True):
                index += rest % extent * stride
                rest //= extent
            items.append(self._items[index])
        return TensorSSA._of(items, target, self._dtype)

    # -- conversion -------------------------------------------------------------------------

    def to(self, dtype: Any, **_: Any) -> TensorSSA:
        """The elements converted to `dtype`."""
        if not (isinstance(dtype, type) and issubclass(dtype, Numeric)):
            raise DSLTypeError(f"to() takes a numeric type, got {dtype!r}")
        if dtype is self._dtype:
            return self
        return TensorSSA._of(convert_items(self._items, self._dtype, dtype), self._shape, dtype)

    def bitcast(self, dtype: Any, **_: Any) -> TensorSSA:
        """The bits as elements of another type; the shape becomes flat where the count changes."""
        have, want = self._dtype.width, dtype.width
        if have == want:
            items = [rebits(x, self._dtype.mem, dtype.mem) for x in self._items]
            return TensorSSA._of(items, self._shape, dtype)
        if have < want:
            ratio = want // have
            if len(self._items) % ratio:
                raise ValueError(
                    f"bitcast: {len(self._items)} elements are no whole number of {dtype}"
                )
            groups = [self._items[i : i + ratio] for i in range(0, len(self._items), ratio)]
            items = [_typed(_join(g, have), dtype) for g in groups]
        else:
            items = [_typed(p, dtype) for x in self._items for p in _split(x, have, want)]
        return TensorSSA._of(items, (len(items),), dtype)

    # -- arithmetic -------------------------------------------------------------------------

    def apply_op(
        self, op: Callable[[Any, Any], Any], other: Any, flip: bool = False, **_: Any
    ) -> Any:
        """`op` element by element; a scalar or a broadcastable value may be the other side."""
        if isinstance(other, Tensor):
            other = other.load()
        if isinstance(other, TensorSSA):
            a, b = _broadcast(self, other)
        elif isinstance(other, Numeric | int | float):
            a, b = self, None
        else:
            scalar = getattr(other, "__mkb_scalar__", None)
            if scalar is None:
                return NotImplemented
            other, a, b = scalar(), self, None
        kind = a._dtype
        out = []
        for i, x in enumerate(a._items):
            left: Any = kind._wrap(x)
            right: Any = b._dtype._wrap(b._items[i]) if b is not None else other
            out.append(op(right, left) if flip else op(left, right))
        return _collect(out, a._shape)

    def _unary(self, op: Callable[[Any], Any]) -> TensorSSA:
        return _collect([op(self._dtype._wrap(x)) for x in self._items], self._shape)

    def __add__(self, o: Any) -> Any:
        return self.apply_op(operator.add, o)

    def __radd__(self, o: Any) -> Any:
        return self.apply_op(operator.add, o, True)

    def __sub__(self, o: Any) -> Any:
        return self.apply_op(operator.sub, o)

    def __rsub__(self, o: Any) -> Any:
        return self.apply_op(operator.sub, o, True)

    def __mul__(self, o: Any) -> Any:
        return self.apply_op(operator.mul, o)

    def __rmul__(self, o: Any) -> Any:
        return self.apply_op(operator.mul, o, True)

    def __truediv__(self, o: Any) -> Any:
        return self.apply_op(operator.truediv, o)

    def __rtruediv__(self, o: Any) -> Any:
        return self.apply_op(operator.truediv, o, True)

    def __floordiv__(self, o: Any) -> Any:
        return self.apply_op(operator.floordiv, o)

    def __rfloordiv__(self, o: Any) -> Any:
        return self.apply_op(operator.floordiv, o, True)

    def __mod__(self, o: Any) -> Any:
        return self.apply_op(operator.mod, o)

    def __rmod__(self, o: Any) -> Any:
        return self.apply_op(operator.mod, o, True)

    def __pow__(self, o: Any) -> Any:
        return self.apply_op(operator.pow, o)

    def __and__(self, o: Any) -> Any:
        return self.apply_op(operator.and_, o)

    __rand__ = __and__

    def __or__(self, o: Any) -> Any:
        return self.apply_op(operator.or_, o)

    __ror__ = __or__

    def __xor__(self, o: Any) -> Any:
        return self.apply_op(operator.xor, o)

    __rxor__ = __xor__

    def __lshift__(self, o: Any) -> Any:
        return self.apply_op(operator.lshift, o)

    def __rshift__(self, o: Any) -> Any:
        return self.apply_op(operator.rshift, o)

    def __lt__(self, o: Any) -> Any:
        return self.apply_op(operator.lt, o)

    def __le__(self, o: Any) -> Any:
        return self.apply_op(operator.le, o)

    def __gt__(self, o: Any) -> Any:
        return self.apply_op(operator.gt, o)

    def __ge__(self, o: Any) -> Any:
        return self.apply_op(operator.ge, o)

    def __eq__(self, o: object) -> Any:
        return self.apply_op(operator.eq, o)

    def __ne__(self, o: object) -> Any:
        return self.apply_op(operator.ne, o)

    __hash__ = object.__hash__

    def __neg__(self) -> TensorSSA:
        return self._unary(operator.neg)

    def __abs__(self) -> TensorSSA:
        return self._unary(abs)

    def __invert__(self) -> TensorSSA:
        return self._unary(operator.invert)

    def __bool__(self) -> bool:
        raise DSLTypeError("the truth of a TensorSSA is not defined: use cute.any_ or cute.all_")

    # -- reduction --------------------------------------------------------------------------

    def reduce(self, op: Any, init_val: Any, reduction_profile: Any = 0, **_: Any) -> Any:
        """Elements combined in order, from `init_val`; modes that are None in the profile are kept.

        A scalar where every mode is reduced.
        """
        combine = _COMBINE.get(op)
        if combine is None:
            combine = op if callable(op) else None
        if combine is None:
            raise DSLTypeError(f"reduce: {op} is no reduction of values")
        profile = as_tuple(reduction_profile)
        start = self._dtype(init_val) if not isinstance(init_val, TensorSSA) else init_val
        if not has_underscore(profile):
            total: Any = start
            for x in self._items:
                total = combine(total, self._dtype._wrap(x))
            return total
        keep = _kept(profile, self._shape)
        extents = flatten_to_tuple((self._shape,))
        flags = flatten_to_tuple((keep,))
        groups: dict[tuple[int, ...], list[Operand]] = {}
        for i, x in enumerate(self._items):
            rest, key = i, []
            for extent, kept in zip(extents, flags, strict=True):
                if kept:
                    key.append(rest % extent)
                rest //= extent
            groups.setdefault(tuple(key), []).append(x)
        items = []
        for key in sorted(groups, key=lambda k: k[::-1]):
            total = start
            for x in groups[key]:
                total = combine(total, self._dtype._wrap(x))
            items.append(total)
        return _collect(items, _kept_shape(profile, self._shape))


def _cannot_broadcast(a: Any, b: Any) -> str:
    return f"cannot broadcast {to_str(as_tuple(a))} to {to_str(as_tuple(b))}"


def _static_size(shape: Any) -> int:
    if not is_static(as_tuple(shape)):
        raise DSLTypeError(f"a value needs a static shape, got {to_str(as_tuple(shape))}")
    return int(size(shape))


def _kept(profile: Any, shape: Any) -> Any:
    """For each leaf of `shape`, whether the profile keeps it."""
    if profile is None or not isinstance(profile, tuple):
        n = len(flatten_to_tuple((shape,)))
        return (profile is None,) * n
    if not isinstance(shape, tuple) or len(profile) != len(shape):
        raise ValueError(f"reduce: the profile {profile} does not fit the shape {to_str(shape)}")
    return tuple(_kept(p, s) for p, s in zip(profile, shape, strict=True))


def _kept_shape(profile: Any, shape: Any) -> Any:
    if profile is None:
        return shape
    out = []
    for p, s in zip(profile, shape, strict=True):
        if p is None:
            out.append(s)
        elif isinstance(p, tuple) and has_underscore(p):
            out.append(_kept_shape(p, s))
    return tuple(out)


def _broadcast(a: TensorSSA, b: TensorSSA) -> tuple[TensorSSA, TensorSSA]:
    if a._shape == b._shape:
        return a, b
    sa = a._shape if isinstance(a._shape, tuple) else (a._shape,)
    sb = b._shape if isinstance(b._shape, tuple) else (b._shape,)
    rank = max(len(sa), len(sb))
    sa, sb = (1,) * (rank - len(sa)) + sa, (1,) * (rank - len(sb)) + sb
    target = []
    for x, y in zip(sa, sb, strict=True):
        if x == y or y == 1:
            target.append(x)
        elif x == 1:
            target.append(y)
        else:
            if _static_size(x) == _static_size(y) and len(a._items) == len(b._items):
                return a, TensorSSA._of(b._items, a._shape, b._dtype)
            raise ValueError(_cannot_broadcast(b._shape, a._shape))
    return a.broadcast_to(tuple(target)), b.broadcast_to(tuple(target))


def _collect(values: list[Any], shape: Any) -> TensorSSA:
    """Scalars of one type as a value."""
    kind = type(values[0])
    return TensorSSA._of([v._v for v in values], shape, kind)


def convert_items(items: list[Operand], frm: Any, to: Any) -> list[Operand]:
    """Elements converted, two at a time where the machine packs (16- and 8-bit floats)."""
    packs = {"f16": "f16x2", "bf16": "bf16x2", "e4m3": "e4m3x2", "e5m2": "e5m2x2"}
    if (
        to.mem in packs
        and frm.is_float
        and frm.mem != "f64"
        and len(items) % 2 == 0
        and to is not frm
    ):
        narrow = to.mem[0] == "e"
        if frm.mem == "f32" or narrow:
            singles = items if frm.mem == "f32" else convert_items(items, frm, Float32)
            out: list[Operand] = []
            for i in range(0, len(singles), 2):
                packed = pack_floats(packs[to.mem], singles[i + 1], singles[i])
                out.extend(_split(packed, 16, 8) if narrow else unpack("b32", packed))
            return out
    if frm.mem in ("e4m3", "e5m2") and len(items) % 2 == 0:
        halves: list[Operand] = []
        for i in range(0, len(items), 2):
            pair = _join(items[i : i + 2], 8)
            both = emit("cvt", "f16x2", pair, mods=".rn", attr=frm.mem + "x2")
            halves.extend(unpack("b32", both))
        from .._numeric import Float16

        return halves if to is Float16 else [convert_operand(h, Float16, to) for h in halves]
    return [convert_operand(x, frm, to) for x in items]


# -- making values --------------------------------------------------------------------------


def full(shape: Any, fill_value: Any, dtype: Any, **_: Any) -> TensorSSA:
    """A value of the given shape, `fill_value` everywhere."""
    return TensorSSA.full(shape, fill_value, dtype)


def full_like(a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> TensorSSA:
    """A value of the shape (and type) of `a`, `fill_value` everywhere."""
    return TensorSSA.full(a.shape, fill_value, dtype or a.element_type)


def zeros_like(a: Any, dtype: Any = None, **_: Any) -> TensorSSA:
    """Zeros of the shape of `a`."""
    return full_like(a, 0, dtype)


def ones_like(a: Any, dtype: Any = None, **_: Any) -> TensorSSA:
    """Ones of the shape of `a`."""
    return full_like(a, 1, dtype)


def empty_like(a: Any, dtype: Any = None, **_: Any) -> TensorSSA:
    """A value of the shape of `a`; its contents mean nothing."""
    return full_like(a, 0, dtype)


def where(cond: Any, x: Any, y: Any, **_: Any) -> Any:
    """`x` where `cond` holds, else `y`, element by element."""
    if not isinstance(cond, TensorSSA):
        if isinstance(x, TensorSSA) or isinstance(y, TensorSSA):
            shape = x.shape if isinstance(x, TensorSSA) else y.shape
            cond = TensorSSA.full(shape, cond, Boolean)
        else:
            return select(cond, x, y)
    sides = []
    for side in (x, y):
        if isinstance(side, TensorSSA):
            sides.append(side)
        else:
            scalar = as_numeric(side)
            other = y if side is x else x
            kind = getattr(other, "dtype", None)
            if not isinstance(side, Numeric) and kind is not None:
                scalar = kind(side)
            sides.append(TensorSSA.full(cond.shape, scalar, type(scalar)))
    a, b = _broadcast(*sides)
    cond, a = _broadcast(cond, a)
    _, b = _broadcast(cond, b)
    kind = a._dtype if a._dtype is b._dtype else promote(a._dtype, b._dtype)
    a, b = a.to(kind), b.to(kind)
    test = cond.to(Boolean)
    out = [
        select(Boolean._wrap(c), kind._wrap(p), kind._wrap(q))
        for c, p, q in zip(test._items, a._items, b._items, strict=True)
    ]
    return _collect(out, a._shape)


def any_(x: TensorSSA, **_: Any) -> Any:
    """Whether any element is true."""
    out: Any = Boolean(False)
    for v in x.to(Boolean)._items:
        out = out | Boolean._wrap(v)
    return out


def all_(x: TensorSSA, **_: Any) -> Any:
    """Whether every element is true."""
    out: Any = Boolean(True)
    for v in x.to(Boolean)._items:
        out = out & Boolean._wrap(v)
    return out


__all__ = [
    "ReductionOp",
    "TensorSSA",
    "all_",
    "any_",
    "empty_like",
    "full",
    "full_like",
    "ones_like",
    "where",
    "zeros_like",
]
