"""Owns `cute.math`: functions of floats, for scalars and for `TensorSSA` values alike.

Without `fastmath` the results are within a few units in the last place of a single (the bounds that
the CUDA documentation states for its own functions guided what is promised); with it, the machine's
approximations are used as they are. Narrower floats are computed as singles.
"""

from __future__ import annotations

import math as _math
from collections.abc import Callable
from typing import Any

from .._errors import DSLTypeError, not_supported
from .._numeric import (
    Float32,
    Float64,
    Int32,
    Numeric,
    absolute,
    as_numeric,
    constant,
    emit,
    maximum,
    minimum,
    select,
)


def _lift(name: str, function: Callable[..., Any], x: Any, *more: Any) -> Any:
    from ._ssa import TensorSSA, _broadcast, _collect
    from ._tensor import Tensor

    if isinstance(x, Tensor):
        x = x.load()
    if isinstance(x, TensorSSA):
        others: list[Any] = []
        for m in more:
            if isinstance(m, TensorSSA):
                x, m = _broadcast(x, m)
                others.append([m.dtype._wrap(v) for v in m._items])
            else:
                others.append([m] * len(x._items))
        out = [
            _scalar(name, function, x.dtype._wrap(v), *(o[i] for o in others))
            for i, v in enumerate(x._items)
        ]
        return _collect(out, x.shape)
    return _scalar(name, function, x, *more)


def _scalar(name: str, function: Callable[..., Any], x: Any, *more: Any) -> Any:
    if isinstance(x, int | float) and not more:
        folded = getattr(_math, name, None)
        if folded is not None:
            return folded(x)
    x = as_numeric(x)
    if not x.is_float:
        raise DSLTypeError(
            f"cute.math.{name} takes floats, got {type(x)}: convert with .to(Float32)"
        )
    cls = type(x)
    if cls is Float64:
        raise not_supported(f"cute.math.{name} of Float64", "the machine has no such approximation")
    got = function(x.to(Float32), *(as_numeric(m).to(Float32) for m in more))
    return got.to(cls) if cls is not Float32 else got


def _op(op: str, x: Any, mods: str = "") -> Any:
    return Float32._wrap(emit(op, "f32", x._v, mods=mods))


def _fma(a: Any, b: Any, c: Any) -> Any:
    parts = [v._v if isinstance(v, Numeric) else constant(v, Float32) for v in (a, b, c)]
    return Float32._wrap(emit("fma", "f32", *parts, mods=".rn"))


def _poly(x: Any, coefficients: list[float]) -> Any:
    """Horner's rule, highest power first."""
    acc: Any = Float32(coefficients[0])
    for c in coefficients[1:]:
        acc = _fma(acc, x, c)
    return acc


# Coefficients, highest power first: least-maximum fits of ours to the functions named.
#: (tanh x - x) / x^3 over x^2 for |x| < 0.55.
_TANH = [-0.00627348764, 0.0210711793, -0.0538521968, 0.133325851, -0.333333175]
#: (atan x - x) / x^3 over x^2 for |x| < tan(pi / 8).
_ATAN = [0.0805270498, -0.138773856, 0.199776851, -0.333329486]
#: erfc(x) e^(x^2) / t over t = 1 / (1 + x / 2) for x in [1, 4.2].
_ERFC = [
    *(0.111642155, -0.439852281, 0.508902162, -0.0515042281, 0.31799779, 0.26986092),
    0.282994064,
]

_LOG2E = 1.4426950408889634
_LN2 = 0.6931471805599453
#: ln 2 as a single with trailing zeros, and the rest.
_LN2_HI = 0.693145751953125
_LN2_LO = 1.42860676533018704e-06


def _nearest(x: Any) -> Any:
    # Adding and taking away 1.5 * 2^23 rounds a single of less than 2^22 to an integer.
    return (x + 12582912.0) - 12582912.0


def _exp2(x: Any) -> Any:
    return _op("ex2.approx", x)


def _exp(x: Any) -> Any:
    # e^x = 2^k * 2^(r log2 e), |r| <= ln 2 / 2; beyond the range of singles k is limited, and the
    # power of two is applied in two halves so that subnormal results come out right.
    k = _nearest(minimum(maximum(x * _LOG2E, -200.0), 200.0))
    r = _fma(k, -_LN2_HI, x)
    r = _fma(k, -_LN2_LO, r)
    r = minimum(maximum(r, -1.0), 1.0)
    whole = k.to(Int32)
    half = whole >> 1
    out = _exp2(r * _LOG2E) * _power_of_two(half) * _power_of_two(whole - half)
    out = select(x > 89.0, Float32(_math.inf), out)
    out = select(x < -104.5, Float32(0.0), out)
    return select(x != x, x, out)


def _power_of_two(k: Any) -> Any:
    """2^k for |k| <= 126, by its bits."""
    return ((k + 127) << 23).bitcast(Float32)


def _floor(x: Any) -> Any:
    return Float32._wrap(emit("cvt", "f32", x._v, mods=".rm", attr="f32"))


def exp(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """`e ** x`."""
    return _lift("exp", (lambda v: _op("ex2.approx", v * _LOG2E, ".ftz")) if fastmath else _exp, x)


def exp2(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """`2 ** x`."""
    return _lift("exp2", lambda v: _op("ex2.approx", v, ".ftz") if fastmath else _exp2(v), x)


def _exp2(x: Any) -> Any:
    return _op("ex2.approx", x)


def _log(x: Any) -> Any:
    # x = m 2^e with m in [sqrt(1/2), sqrt 2): ln m = 2 atanh(s), s = (m - 1) / (m + 1).
    tiny = x < 1.1754943508222875e-38
    y = select(tiny, x * 8388608.0, x)
    bits = y.bitcast(Int32)
    e = (bits - 0x3F3504F3) >> 23
    m = (bits - (e << 23)).bitcast(Float32)
    exponent = e.to(Float32) - select(tiny, Float32(23.0), Float32(0.0))
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    p = _poly(z, [0.298736244, 0.399774822, 0.666667768]) * z
    # ln m = f - s (f - p): the leading term is exact.
    ln_m = f - s * (f - p)
    out = _fma(exponent, _LN2_HI, _fma(exponent, _LN2_LO, ln_m))
    out = select(x == _math.inf, x, out)
    out = select(x == 0.0, Float32(-_math.inf), out)
    return select(x >= 0.0, out, Float32(_math.nan))


def log(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The natural logarithm."""
    return _lift("log", (lambda v: _op("lg2.approx", v, ".ftz") * _LN2) if fastmath else _log, x)


def log2(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The logarithm of base 2."""
    return _lift("log2", lambda v: _op("lg2.approx", v, ".ftz") if fastmath else _log2(v), x)


def _log2(x: Any) -> Any:
    return _log(x) * _LOG2E


def log10(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The logarithm of base 10."""
    return _lift(
        "log10",
        lambda v: (_op("lg2.approx", v, ".ftz") * _LN2 if fastmath else _log(v)) * 0.4342944819,
        x,
    )


def sqrt(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The square root."""
    return _lift(
        "sqrt", lambda v: _op("sqrt.approx", v, ".ftz") if fastmath else _op("sqrt", v, ".rn"), x
    )


def rsqrt(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """`1 / sqrt(x)`."""
    return _lift("rsqrt", lambda v: _op("rsqrt.approx", v, ".ftz" if fastmath else ""), x)


def rcp(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """`1 / x`."""
    return _lift(
        "rcp", lambda v: _op("rcp.approx", v, ".ftz") if fastmath else _op("rcp", v, ".rn"), x
    )


def _reduce_angle(x: Any) -> tuple[Any, Any]:
    """`x` less a multiple of pi / 2, and that multiple modulo 4; in doubles, good to about 2^45."""
    wide = x.to(Float64)
    turns = wide * (2 / _math.pi) + 0.5
    k = Float64._wrap(emit("cvt", "f64", turns._v, mods=".rm", attr="f64"))
    r = wide - k * 1.5707963267948966
    r = r - k * 6.123233995736766e-17
    quarter = k - Float64._wrap(emit("cvt", "f64", (k * 0.25)._v, mods=".rm", attr="f64")) * 4.0
    return r.to(Float32), quarter.to(Int32)


def _sin_poly(r: Any) -> Any:
    z = r * r
    return _fma(_poly(z, [-0.000195146323, 0.00833215606, -0.166666545]) * z, r, r)


def _cos_poly(r: Any) -> Any:
    z = r * r
    p = _poly(z, [2.44324126e-05, -0.00138873099, 0.0416666456])
    return _fma(p * z, z, _fma(z, -0.5, 1.0))


def _sin_shifted(x: Any, shift: int) -> Any:
    r, q = _reduce_angle(x)
    q = (q + shift) & 3
    s = select((q & 1) == 1, _cos_poly(r), _sin_poly(r))
    s = select((q & 2) != 0, -s, s)
    finite = abs(x) < _math.inf
    return select(finite, s, Float32(_math.nan))


def sin(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The sine of an angle in radians."""
    return _lift(
        "sin", lambda v: _op("sin.approx", v, ".ftz") if fastmath else _sin_shifted(v, 0), x
    )


def cos(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The cosine of an angle in radians."""
    return _lift(
        "cos", lambda v: _op("cos.approx", v, ".ftz") if fastmath else _sin_shifted(v, 1), x
    )


def tan(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The tangent of an angle in radians."""
    return _lift("tan", lambda v: sin(v, fastmath) / cos(v, fastmath), x)


def _tanh(x: Any) -> Any:
    a = abs(x)
    z = x * x
    small = _fma(_poly(z, _TANH) * z, x, x)
    large = 1.0 - 2.0 / (_exp(minimum(a, 20.0) * 2.0) + 1.0)
    signed = select(x < 0.0, -large, large)
    return select(a < 0.55, small, select(x != x, x, signed))


def tanh(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The hyperbolic tangent."""
    return _lift("tanh", lambda v: _op("tanh.approx", v) if fastmath else _tanh(v), x)


def _erf(x: Any) -> Any:
    # Near 0 the Taylor series; beyond, 1 - e^(-x^2) t P(t) with t = 1 / (1 + x / 2), P fitted.
    a = abs(x)
    z = x * x
    series = [
        *(
            -2.0 / (_math.sqrt(_math.pi) * _math.factorial(n) * (2 * n + 1)) * (-1) ** (n + 1)
            for n in range(11, -1, -1)
        ),
    ]
    small = _poly(z, series) * x
    y = minimum(a, 6.0)
    t = 1.0 / _fma(y, 0.5, 1.0)
    large = 1.0 - _exp(-(y * y)) * t * _poly(t, _ERFC)
    signed = select(x < 0.0, -large, large)
    return select(a < 1.0, small, select(x != x, x, signed))


def erf(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The error function."""
    return _lift("erf", _erf, x)


def _atan(x: Any) -> Any:
    a = abs(x)
    swap = a > 1.0
    y = select(swap, 1.0 / a, a)
    fold = y > 0.41421356
    w = select(fold, (y - 1.0) / (y + 1.0), y)
    z = w * w
    p = _fma(
        _poly(z, _ATAN) * z,
        w,
        w,
    )
    p = select(fold, p + _math.pi / 4, p)
    p = select(swap, _math.pi / 2 - p, p)
    return select(x < 0.0, -p, select(x != x, x, p))


def atan(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The angle whose tangent is `x`."""
    return _lift("atan", _atan, x)


def _atan2(y: Any, x: Any) -> Any:
    both_zero = (x == 0.0) & (y == 0.0)
    base = select(both_zero, Float32(0.0), _atan(y / x))
    negative = x.bitcast(Int32) < 0
    y_negative = y.bitcast(Int32) < 0
    turn = select(y_negative, Float32(-_math.pi), Float32(_math.pi))
    out = select(negative, base + turn, base)
    exact = select(y_negative, Float32(-0.0), Float32(0.0))
    return select(both_zero & ~negative, exact, out)


def atan2(y: Any, x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The angle of the point (x, y)."""
    return _lift("atan2", _atan2, y, x)


def asin(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The angle whose sine is `x`."""
    return _lift("asin", lambda v: _atan2(v, _op("sqrt", (1.0 - v) * (1.0 + v), ".rn")), x)


def acos(x: Any, fastmath: bool = False, **_: Any) -> Any:
    """The angle whose cosine is `x`."""
    return _lift("acos", lambda v: _atan2(_op("sqrt", (1.0 - v) * (1.0 + v), ".rn"), v), x)


def floor(x: Any, **_: Any) -> Any:
    """Rounded down."""
    return _lift("floor", _floor, x)


def ceil(x: Any, **_: Any) -> Any:
    """Rounded up."""
    return _lift(
        "ceil", lambda v: Float32._wrap(emit("cvt", "f32", v._v, mods=".rp", attr="f32")), x
    )


def absf(x: Any, **_: Any) -> Any:
    """The magnitude."""
    return abs(x)


def _pow(x: Any, y: Any) -> Any:
    # As C's powf: a negative base has a power where the exponent is an integer, of its parity.
    size = _exp2(y * _log2(absolute(x)))
    whole = _floor(y) == y
    odd = whole & (_floor(y * 0.5) * 2.0 != y)
    signed = select(odd, -size, size)
    power = select(x < 0.0, select(whole, signed, Float32(float("nan"))), size)
    return select((y == 0.0) | (x == 1.0), Float32(1.0), power)


def pow(x: Any, y: Any, **_: Any) -> Any:
    """`x ** y`, as C's `powf` but for the sign of powers of -0.

    The relative error grows with the result's exponent: about 2^-23 times `|y log2 x|`.
    """
    return _lift("pow", _pow, x, y)


def _pairwise(pick: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    from ._ssa import TensorSSA

    if isinstance(a, TensorSSA):
        return a.apply_op(pick, b)
    if isinstance(b, TensorSSA):
        return b.apply_op(pick, a, True)
    return pick(a, b)


def max(a: Any, b: Any, **_: Any) -> Any:
    """The larger, element by element."""
    return _pairwise(maximum, a, b)


def min(a: Any, b: Any, **_: Any) -> Any:
    """The smaller, element by element."""
    return _pairwise(minimum, a, b)


def fma(a: Any, b: Any, c: Any, **_: Any) -> Any:
    """`a * b + c`, rounded once."""
    return _lift("fma", _fma, a, b, c)
