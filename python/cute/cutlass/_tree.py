"""Owns how a Python value splits into dynamic leaves and a static frame, and back.

Control flow, kernel calls and compiled calls all pass values this way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from ._numeric import Integer, Numeric


class Unavailable:
    """Stands for a variable that has no value here; every use of it raises."""

    __slots__ = ("_name", "_why")

    def __init__(self, name: str, why: str) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_why", why)

    def _raise(self, *_: Any, **__: Any) -> Any:
        from ._errors import DSLUnavailableError
        from ._ir import user_location

        where = user_location()
        at = f"{where[0]}:{where[1]}: " if where else ""
        name = object.__getattribute__(self, "_name")
        raise DSLUnavailableError(f"{at}`{name}` {object.__getattribute__(self, '_why')}")

    __getattr__ = __setattr__ = __call__ = __getitem__ = __setitem__ = __iter__ = __len__ = _raise
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _raise
    __rtruediv__ = __floordiv__ = __mod__ = __and__ = __or__ = __xor__ = __lt__ = __le__ = _raise
    __gt__ = __ge__ = __bool__ = __index__ = __int__ = __float__ = __str__ = __repr__ = _raise
    __format__ = __neg__ = __invert__ = _raise
    __eq__ = _raise  # type: ignore[assignment]
    __ne__ = _raise  # type: ignore[assignment]
    __hash__ = object.__hash__


UNBOUND = "is read before it has a value"
OUTSIDE = (
    "gets its value inside a dynamic if, for or while and is not available outside it: "
    "give it a value of the same type before the statement"
)


def is_unavailable(x: Any) -> bool:
    """Whether `x` stands for a variable without a value."""
    return type(x) is Unavailable


class Spec:
    """The static frame of a value: two values of one frame differ in their leaves alone."""

    __slots__ = ("children", "kind", "make", "static")

    def __init__(
        self,
        kind: Any,
        static: Any,
        children: tuple[Spec, ...] = (),
        make: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self.kind = kind
        self.static = static
        self.children = children
        self.make = make

    def matches(self, other: Spec) -> bool:
        """Whether both frames are the same."""
        return (
            self.kind == other.kind
            and _same(self.static, other.static)
            and len(self.children) == len(other.children)
            and all(a.matches(b) for a, b in zip(self.children, other.children, strict=True))
        )

    def key(self) -> Any:
        """A hashable form; objects without a hash count by identity."""
        return (self.kind, _hashable(self.static), tuple(c.key() for c in self.children))

    def describe(self) -> str:
        """A short name of the type for messages."""
        if self.kind == "leaf":
            return str(self.static)
        if self.kind == "py":
            return (
                f"the constant {self.static!r}"
                if _plain(self.static)
                else type(self.static).__name__
            )
        return self.kind.__name__ if isinstance(self.kind, type) else str(self.kind)


def _plain(x: Any) -> bool:
    return x is None or isinstance(x, int | float | str | bool)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:
        return False


class _Identity:
    """A key for an object without a useful hash; it keeps the object alive."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __hash__(self) -> int:
        return id(self.obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.obj is self.obj


def _hashable(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_hashable(i) for i in x)
    if _plain(x):
        return (type(x).__name__, x)
    try:
        hash(x)
    except TypeError:
        return _Identity(x)
    return x


def flatten(x: Any, leaves: list[Numeric], lift: bool = False) -> Spec:
    """Split `x`: its dynamic scalars are appended to `leaves`, the rest is the frame.

    :param lift: Python numbers become dynamic leaves (Int32, Float32, Boolean).
    """
    if isinstance(x, Numeric):
        leaves.append(x)
        return Spec("leaf", type(x))
    if lift and isinstance(x, int | float):
        from ._numeric import as_numeric

        leaves.append(as_numeric(x))
        return Spec("leaf", type(leaves[-1]))
    if isinstance(x, tuple | list):
        children = tuple(flatten(i, leaves, lift) for i in x)
        kind = type(x)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return Spec(kind, None, children, lambda parts: kind(*parts))
        return Spec(kind, None, children, kind)
    if isinstance(x, dict):
        children = tuple(flatten(v, leaves, lift) for v in x.values())
        names = tuple(x)
        return Spec(dict, names, children, lambda parts: dict(zip(names, parts, strict=True)))
    split = getattr(x, "__mkb_split__", None)
    if split is not None and not isinstance(x, type):
        static, parts, make = split()
        children = tuple(flatten(p, leaves) for p in parts)
        return Spec(getattr(type(x), "__mkb_kind__", type(x)), static, children, make)
    layout = _flatten_layout(x, leaves)
    if layout is not None:
        return layout
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return _flatten_dataclass(x, leaves)
    extract = getattr(x, "__extract_mlir_values__", None)
    if extract is not None and hasattr(x, "__new_from_mlir_values__") and not isinstance(x, type):
        children = tuple(flatten(v, leaves) for v in extract())
        return Spec(type(x), _Identity(x), children, x.__new_from_mlir_values__)
    return Spec("py", x)


def _flatten_layout(x: Any, leaves: list[Numeric]) -> Spec | None:
    """A layout (or scaled basis) with its dynamic parts as leaves; None for anything else."""
    from .cute._basis import ScaledBasis
    from .cute._int_tuple import flatten_to_tuple
    from .cute._layout_type import ComposedLayout, Layout
    from .cute._tensor import layout_parts, rebuild_layout

    if isinstance(x, ScaledBasis):
        if x.is_static():
            return Spec("py", x)
        mode = list(x.mode)
        child = flatten(x.value, leaves)
        return Spec(ScaledBasis, tuple(mode), (child,), lambda parts: ScaledBasis(parts[0], mode))
    if not isinstance(x, Layout | ComposedLayout):
        return None
    parts = flatten_to_tuple((layout_parts(x),))
    if not any(isinstance(p, Numeric) for p in parts):
        return Spec("py", x)
    children = tuple(flatten(p, leaves) for p in parts)
    return Spec(type(x), str(x), children, lambda got: rebuild_layout(x, got))


def _flatten_dataclass(x: Any, leaves: list[Numeric]) -> Spec:
    names = tuple(f.name for f in dataclasses.fields(x))
    children = tuple(flatten(getattr(x, n), leaves) for n in names)
    kind = type(x)

    def make(parts: list[Any]) -> Any:
        out = object.__new__(kind)
        for name, part in zip(names, parts, strict=True):
            object.__setattr__(out, name, part)
        return out

    return Spec(kind, names, children, make)


def unflatten(spec: Spec, leaves: Iterator[Numeric]) -> Any:
    """The value of frame `spec` with the next leaves."""
    if spec.kind == "leaf":
        return next(leaves)
    if spec.kind == "py":
        return spec.static
    assert spec.make is not None
    return spec.make([unflatten(c, leaves) for c in spec.children])


def rewrap(like: Numeric, operand: Any) -> Any:
    """Operand as a value of the type of `like`, without what was known of its value."""
    if isinstance(like, Integer):
        return type(like)._wrap(operand, 1, False)
    return type(like)._wrap(operand)
