"""Owns divisors that are prepared once: `FastDivmodDivisor`."""

from __future__ import annotations

from typing import Any

from .._numeric import Numeric, as_numeric


class FastDivmodDivisor:
    """A positive divisor of non-negative numbers, with Python's operators."""

    def __init__(self, divisor: Any, is_power_of_2: bool | None = None, **_: Any) -> None:
        self._divisor_value = divisor

    @property
    def divisor(self) -> Any:
        """The divisor."""
        return self._divisor_value

    def _parts(self, dividend: Any) -> tuple[Any, Any]:
        from ._tensor import nonneg

        n = nonneg(as_numeric(dividend)) if isinstance(dividend, Numeric) else dividend
        d = (
            nonneg(self._divisor_value)
            if isinstance(self._divisor_value, Numeric)
            else self._divisor_value
        )
        return n, d

    def __rdivmod__(self, dividend: Any) -> tuple[Any, Any]:
        n, d = self._parts(dividend)
        q = n // d
        return q, n - q * d

    def __rfloordiv__(self, dividend: Any) -> Any:
        n, d = self._parts(dividend)
        return n // d

    def __rmod__(self, dividend: Any) -> Any:
        n, d = self._parts(dividend)
        return n % d

    def __mkb_split__(self) -> Any:
        kind = type(self)
        return None, [self._divisor_value], lambda parts: kind(parts[0])


class FastDivmodDivisorV2(FastDivmodDivisor):
    """As :class:`FastDivmodDivisor`; its divisor can be read inside kernels."""


def fast_divmod_create_divisor(divisor: Any, **_: Any) -> FastDivmodDivisor:
    """A prepared divisor."""
    return FastDivmodDivisor(divisor)


def fast_divmod_create_divisor_v2(divisor: Any, **_: Any) -> FastDivmodDivisorV2:
    """A prepared divisor whose value can be read inside kernels."""
    return FastDivmodDivisorV2(divisor)
