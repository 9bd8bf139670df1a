"""Owns coordinate-valued strides: ratios, scaled basis elements, and sums of coordinates."""

from __future__ import annotations

import math
from typing import Any

from ._dynamic import (
    Dynamic,
    add,
    ceil_div_leaf,
    floordiv,
    is_static_int,
    leaf_str,
    magnitude,
    mul,
)

__all__ = ["E", "Ratio", "ScaledBasis", "basis_get", "basis_value"]


class Ratio:
    """An exact quotient of two ints, kept as given until :meth:`reduced`."""

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: int, denominator: int) -> None:
        if not is_static_int(numerator) or not is_static_int(denominator):
            raise TypeError(
                f"Ratio: numerator and denominator must be ints, got "
                f"{type(numerator).__name__} and {type(denominator).__name__}"
            )
        if denominator == 0:
            raise ZeroDivisionError("Ratio: the denominator is 0")
        self.numerator = numerator
        self.denominator = denominator

    def is_integral(self) -> bool:
        """Whether the value is an integer."""
        return self.numerator % self.denominator == 0

    def reduced(self) -> Ratio:
        """The same value in lowest terms."""
        divisor = math.gcd(self.numerator, self.denominator)
        return Ratio(self.numerator // divisor, self.denominator // divisor)

    def to(self, dtype: type) -> Any:
        """The value as ``Ratio``, ``float`` or ``int`` (rounded down)."""
        if dtype is Ratio:
            return self
        if dtype is float:
            return self.numerator / self.denominator
        if dtype is int:
            return self.numerator // self.denominator
        raise TypeError(f"Ratio.to: cannot convert to {dtype!r}; use Ratio, float or int")

    def __mul__(self, other: object) -> Ratio:
        if isinstance(other, Ratio):
            return Ratio(self.numerator * other.numerator, self.denominator * other.denominator)
        if is_static_int(other):
            return Ratio(self.numerator * other, self.denominator)  # type: ignore[operator]
        return NotImplemented

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Ratio):
            return self.numerator * other.denominator == other.numerator * self.denominator
        if is_static_int(other):
            return self.numerator == other * self.denominator  # type: ignore[operator]
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.numerator / self.denominator)

    def __str__(self) -> str:
        return f"{self.numerator}/{self.denominator}"

    __repr__ = __str__


class ScaledBasis:
    """``value * E(mode)``: a stride that moves along one mode of a coordinate.

    :param value: the scale: an int, a :class:`Ratio` or a dynamic integer.
    :param mode: the path to the mode, an int or a list of ints; printed innermost first.
    """

    __slots__ = ("_mode", "_value")

    def __init__(self, value: Any, mode: int | list[int] | tuple[int, ...]) -> None:
        path = (mode,) if is_static_int(mode) else mode
        if not isinstance(path, list | tuple) or not all(is_static_int(m) for m in path):
            raise TypeError(f"ScaledBasis: mode must be an int or a list of ints, got {mode!r}")
        if any(m < 0 for m in path):
            raise ValueError(f"ScaledBasis: mode must not be negative, got {mode!r}")
        if isinstance(value, ScaledBasis):
            value, path = value._value, [*path, *value._mode]
        self._value = value
        self._mode = tuple(path)

    @property
    def value(self) -> Any:
        """The scale."""
        return self._value

    @property
    def mode(self) -> list[int]:
        """The path to the mode."""
        return list(self._mode)

    def is_static(self) -> bool:
        """Whether the scale is known at trace time."""
        return not isinstance(self._value, Dynamic)

    def to(self, dtype: type) -> Any:
        """This element itself; no other type can hold it."""
        if dtype is ScaledBasis:
            return self
        raise TypeError(f"ScaledBasis.to: cannot convert to {dtype!r}")

    def _scaled(self, value: Any) -> ScaledBasis:
        return ScaledBasis(value, self._mode)

    def __mul__(self, other: Any) -> ScaledBasis:
        return (
            NotImplemented
            if isinstance(other, ScaledBasis)
            else self._scaled(mul(self._value, other))
        )

    def __rmul__(self, other: Any) -> ScaledBasis:
        return self._scaled(mul(other, self._value))

    def __neg__(self) -> ScaledBasis:
        return self._scaled(-self._value)

    def __abs__(self) -> ScaledBasis:
        return self._scaled(magnitude(self._value))

    def __floordiv__(self, other: Any) -> ScaledBasis:
        return self._scaled(floordiv(self._value, other))

    def __add__(self, other: Any) -> Any:
        return add_coord(self, other)

    def __radd__(self, other: Any) -> Any:
        return add_coord(other, self)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, ScaledBasis):
            return False
        return self._value == other._value if self._mode == other._mode else False

    def __hash__(self) -> int:
        return hash(
            (ScaledBasis, id(self._value) if not self.is_static() else self._value, self._mode)
        )

    def __str__(self) -> str:
        return leaf_str(self._value) + "".join(f"@{m}" for m in reversed(self._mode))

    __repr__ = __str__


def E(mode: int | list[int]) -> ScaledBasis | int:
    """The unit element of a mode; the int 1 for the empty path.

    :raises TypeError: if ``mode`` is neither an int nor a list of ints.
    """
    if isinstance(mode, list | tuple) and not mode:
        return 1
    return ScaledBasis(1, mode)


def basis_value(e: Any) -> Any:
    """The scale of a :class:`ScaledBasis`; anything else unchanged."""
    return e.value if isinstance(e, ScaledBasis) else e


def basis_get(basis: Any, t: Any) -> Any:
    """The element of ``t`` (a tuple or a layout) on the path of ``basis``; ``t`` for a scalar."""
    if isinstance(basis, ScaledBasis):
        for m in basis.mode:
            t = t[m]
    return t


def as_coord(value: Any) -> Any:
    """A scaled basis element as the coordinate it stands for: ``2@1`` is ``(0, 2)``."""
    if isinstance(value, ScaledBasis):
        coord = value.value
        for m in reversed(value.mode):
            coord = (0,) * m + (coord,)
        return coord
    if isinstance(value, tuple):
        return tuple(as_coord(v) for v in value)
    return value


def add_coord(a: Any, b: Any) -> Any:
    """The sum of two coordinates, mode by mode; missing modes are 0 and a static 0 is neutral.

    :raises TypeError: if a scalar other than 0 meets a tuple.
    """
    a, b = as_coord(a), as_coord(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        short, long = (a, b) if len(a) <= len(b) else (b, a)
        paired = tuple(add_coord(x, y) for x, y in zip(a, b, strict=False))
        return paired + long[len(short) :]
    if isinstance(a, tuple) or isinstance(b, tuple):
        scalar, coord = (b, a) if isinstance(a, tuple) else (a, b)
        if is_static_int(scalar) and scalar == 0:
            return coord
        raise TypeError(f"cannot add the scalar {leaf_str(scalar)} to the coordinate {coord}")
    return add(a, b)


def ceil_div_stride(a: Any, b: Any) -> Any:
    """``a / b`` rounded up, where ``a`` may be a scaled basis element."""
    if isinstance(a, ScaledBasis):
        return ScaledBasis(ceil_div_leaf(a.value, b), a.mode)
    return ceil_div_leaf(a, b)
