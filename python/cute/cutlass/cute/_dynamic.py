"""Owns what the layout algebra asks of a value that is not known while a program is traced."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class LayoutError(ValueError):
    """An operation of the layout algebra has no result for these operands."""


class NotStaticError(LayoutError):
    """A value must be known while the program is traced, and is not."""

    def __init__(self, function: str, what: str, value: object) -> None:
        super().__init__(
            f"{function}: {what} must be static (a Python int known at trace time), "
            f"got the dynamic value {leaf_str(value)}"
        )


class Dynamic:
    """Marks a value known only when the program runs; the layout algebra builds on its operators.

    A subclass defines ``+ - * // %`` and ``& ^ >> << | -x`` against itself and Python ints (both
    sides), which return new dynamic values, comparisons that return dynamic booleans, and
    :meth:`minimum`. The algebra never asks for the truth of a comparison with a dynamic value:
    where it needs one, it raises :class:`NotStaticError`. Dynamic shapes, strides and indices are
    taken to be non-negative, as in the programming model.
    """

    __slots__ = ()

    #: Width of the value in bits; 64-bit leaves print as ``?{i64}``.
    width: int = 32

    @property
    def divisibility(self) -> int:
        """A positive int that is known to divide the value."""
        return 1

    def minimum(self, other: Any) -> Any:
        """The smaller of this value and ``other`` (an int or another dynamic value)."""
        raise NotImplementedError(f"{type(self).__name__} must define minimum")


def is_dynamic(value: object) -> bool:
    """Whether ``value`` itself (not its parts) is known only at run time."""
    return isinstance(value, Dynamic)


def is_static_int(value: object) -> bool:
    """Whether ``value`` is an integer known at trace time."""
    return isinstance(value, int) and not isinstance(value, bool)


def divisibility_of(value: object) -> int:
    """A positive int that divides ``value``; an int's own magnitude, 0 for the int 0."""
    if isinstance(value, Dynamic):
        return value.divisibility
    if is_static_int(value):
        return abs(value)  # type: ignore[arg-type]
    raise TypeError(f"get_divisibility: expected an integer, got {type(value).__name__}")


def product_divisibility(a: object, b: object) -> int:
    """Divisibility of ``a * b``: the rule for a :class:`Dynamic` that tracks its own."""
    return divisibility_of(a) * divisibility_of(b)


def sum_divisibility(a: object, b: object) -> int:
    """Divisibility of ``a + b`` and ``a - b``."""
    return math.gcd(divisibility_of(a), divisibility_of(b))


def quotient_divisibility(a: object, b: object) -> int:
    """Divisibility of ``a // b``: known only where a static ``b`` divides that of ``a``."""
    da = divisibility_of(a)
    if is_static_int(b) and b != 0 and da % b == 0:  # type: ignore[operator]
        return max(1, da // abs(b))  # type: ignore[arg-type]
    return 1


def leaf_str(value: object) -> str:
    """The documented text of one leaf: ``4``, ``_``, ``?``, ``?{div=4}``, ``?{i64}``."""
    if value is None:
        return "_"
    if isinstance(value, Dynamic):
        notes = []
        if value.width == 64:
            notes.append("i64")
        if value.divisibility > 1:
            notes.append(f"div={value.divisibility}")
        return "?{" + " ".join(notes) + "}" if notes else "?"
    return str(value)


# Arithmetic on leaves. Each folds what is known, so that a trace holds no operation whose result
# is static: 0 + x, 1 * x, 0 * x, x // 1, x % 1.


def add(a: Any, b: Any) -> Any:
    """``a + b``."""
    if is_static_int(a) and a == 0:
        return b
    if is_static_int(b) and b == 0:
        return a
    return a + b


def sub(a: Any, b: Any) -> Any:
    """``a - b``."""
    if is_static_int(b) and b == 0:
        return a
    return a - b


def mul(a: Any, b: Any) -> Any:
    """``a * b``."""
    if is_static_int(a):
        if a == 1:
            return b
        if a == 0 and isinstance(b, Dynamic):
            return 0
    if is_static_int(b):
        if b == 1:
            return a
        if b == 0 and isinstance(a, Dynamic):
            return 0
    return a * b


def floordiv(a: Any, b: Any) -> Any:
    """``a // b``, rounded down.

    :raises LayoutError: if ``b`` is the static int 0.
    """
    if is_static_int(b):
        _check_divisor(b)
        if b == 1:
            return a
    if is_static_int(a) and a == 0:
        return 0
    return a // b


def mod(a: Any, b: Any) -> Any:
    """``a % b``, with the sign of ``b``.

    :raises LayoutError: if ``b`` is the static int 0.
    """
    if is_static_int(b):
        _check_divisor(b)
        if b == 1:
            return 0
        if isinstance(a, Dynamic) and b > 0 and a.divisibility % b == 0:
            return 0
    if is_static_int(a) and a == 0:
        return 0
    return a % b


def _check_divisor(b: int) -> None:
    if b == 0:
        raise LayoutError("a mode of size 0 has no coordinates")


def ceil_div_leaf(a: Any, b: Any) -> Any:
    """``a / b`` rounded up, for non-negative ``a`` and positive ``b``."""
    if is_static_int(b):
        _check_divisor(b)
        if b == 1:
            return a
        if is_static_int(a):
            return -(-a // b)
        if isinstance(a, Dynamic) and b > 0 and a.divisibility % b == 0:
            return a // b
    if is_int(a, 0):
        return 0
    return (add(a, sub(b, 1))) // b


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two leaves."""
    if a is b:
        return a
    if isinstance(a, Dynamic):
        return a.minimum(b)
    if isinstance(b, Dynamic):
        return b.minimum(a)
    return min(a, b)


def magnitude(a: Any) -> Any:
    """``abs(a)``; a dynamic value is its own magnitude (see :class:`Dynamic`)."""
    return a if isinstance(a, Dynamic) else abs(a)


def sign(a: Any) -> int:
    """-1, 0 or 1; 1 for a dynamic value (see :class:`Dynamic`)."""
    if isinstance(a, Dynamic):
        return 1
    return (a > 0) - (a < 0)


def is_int(value: object, expected: int) -> bool:
    """Whether ``value`` is known at trace time to be ``expected``."""
    return is_static_int(value) and value == expected


def public(function: Callable[P, R]) -> Callable[..., R]:
    """Lets a function of the API take the documented ``loc=`` and ``ip=``, which change nothing."""

    @functools.wraps(function)
    def call(*args: Any, loc: object = None, ip: object = None, **kwargs: Any) -> R:
        return function(*args, **kwargs)

    return call
