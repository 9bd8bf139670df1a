"""Owns the arithmetic of `cute.arch`: approximations, packed pairs, bits."""

from __future__ import annotations

from typing import Any

from .. import _numeric as n
from .._errors import DSLTypeError
from .._ir import Operand, device_builder
from .._numeric import (
    Float32,
    Int32,
    Int64,
    Integer,
    Numeric,
    Uint32,
    Uint64,
    _convert,
    as_numeric,
    emit,
)
from ._arch_threads import _u32


def _float32(x: Any) -> Operand:
    return _convert(x, Float32)


def _extreme(op: str, a: Any, b: Any, abs: bool, nan: bool, ftz: bool) -> Any:
    mods = (".ftz" if ftz else "") + (".nan" if nan else "") + (".xorsign.abs" if abs else "")
    return Float32._wrap(emit(op, "f32", _float32(a), _float32(b), mods=mods))


def fmax(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    abs: bool = False,
    nan: bool = False,
    ftz: bool = False,
    **_: Any,
) -> Any:
    """The larger of Float32 values."""
    out = _extreme("max", a, b, abs, nan, ftz)
    return out if c is None else _extreme("max", out, c, abs, nan, ftz)


def fmin(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    abs: bool = False,
    nan: bool = False,
    ftz: bool = False,
    **_: Any,
) -> Any:
    """The smaller of Float32 values."""
    out = _extreme("min", a, b, abs, nan, ftz)
    return out if c is None else _extreme("min", out, c, abs, nan, ftz)


def rcp_approx(a: Any, **_: Any) -> Any:
    """`1 / a`, approximately."""
    return Float32._wrap(emit("rcp.approx", "f32", _float32(a), mods=".ftz"))


def exp2(a: Any, **_: Any) -> Any:
    """`2 ** a`, approximately."""
    return Float32._wrap(emit("ex2.approx", "f32", _float32(a), mods=".ftz"))


def exp(a: Any, **_: Any) -> Any:
    """`e ** a`, approximately, through :func:`exp2`."""
    return exp2(as_numeric(a).to(Float32) * 1.4426950408889634)


def log2(a: Any, **_: Any) -> Any:
    """The logarithm of base 2, approximately."""
    return Float32._wrap(emit("lg2.approx", "f32", _float32(a), mods=".ftz"))


def fma(a: Any, b: Any, c: Any, **_: Any) -> Any:
    """`a * b + c`, rounded once."""
    kinds = [type(x) for x in (a, b, c) if isinstance(x, Numeric)]
    cls = kinds[0] if kinds else Float32
    for k in kinds[1:]:
        cls = n.promote(cls, k)
    if not cls.is_float:
        raise DSLTypeError("cute.arch.fma takes floats")
    return cls._wrap(emit("fma", cls.mem, *(_convert(x, cls) for x in (a, b, c)), mods=".rn"))


_ROUND = {None: ".rn", "rn": ".rn", "rz": ".rz", "rm": ".rm", "rp": ".rp"}


def _packed(op: str, operands: tuple[Any, ...], rnd: Any, ftz: bool) -> tuple[Any, Any]:
    pairs = []
    for pair in operands:
        lo, hi = (_float32(x) for x in (pair[0], pair[1]))
        pairs.append(emit("pack", "b64", lo, hi))
    name = str(getattr(rnd, "name", rnd)).lower() if rnd is not None else None
    if name not in _ROUND:
        raise ValueError(f"unknown rounding {rnd!r}")
    mods = _ROUND[name] + (".ftz" if ftz else "")
    got = emit(op, "f32x2", *pairs, mods=mods)
    lo, hi = device_builder("a packed operation").emit("unpack", "b64", got, dst=("b32", "b32"))
    return Float32._wrap(lo), Float32._wrap(hi)


def add_packed_f32x2(
    a: Any, b: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two sums at once."""
    return _packed("add", (a, b), rnd, ftz)


def sub_packed_f32x2(
    a: Any, b: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two differences at once."""
    return _packed("sub", (a, b), rnd, ftz)


def mul_packed_f32x2(
    a: Any, b: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two products at once."""
    return _packed("mul", (a, b), rnd, ftz)


def fma_packed_f32x2(
    a: Any, b: Any, c: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two fused multiply-adds at once."""
    return _packed("fma", (a, b, c), rnd, ftz)


def calc_packed_f32x2_op(
    a: Any, b: Any, c: Any, op: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> Any:
    """A packed operation by its function."""
    return op(a, b, rnd=rnd, ftz=ftz) if c is None else op(a, b, c, rnd=rnd, ftz=ftz)


def _integer(x: Any, what: str) -> Any:
    value = as_numeric(x)
    if not isinstance(value, Integer) or value.width < 32:
        raise DSLTypeError(f"cute.arch.{what} takes a 32- or 64-bit integer, got {type(value)}")
    return value


def popc(value: Any, **_: Any) -> Any:
    """The number of bits set."""
    v = _integer(value, "popc")
    out = Int32._wrap(emit("popc", "b" + v.alu[1:], v._v), 1, True)
    return out if v.width == 32 else out.to(type(v))


def clz(value: Any, **_: Any) -> Any:
    """The number of leading zeros."""
    v = _integer(value, "clz")
    return Uint32._wrap(emit("clz", "b" + v.alu[1:], v._v))


def bfind(value: Any, **_: Any) -> Any:
    """The position of the most significant bit that is not a sign bit."""
    v = _integer(value, "bfind")
    return Uint32._wrap(emit("bfind", v.alu, v._v))


def brev(value: Any, **_: Any) -> Any:
    """The bits in reverse order."""
    v = _integer(value, "brev")
    return type(v)._wrap(emit("brev", "b" + v.alu[1:], v._v))


def bfe(value: Any, start: Any, length: Any, **_: Any) -> Any:
    """A bit field, extended by its sign for signed types."""
    v = _integer(value, "bfe")
    return type(v)._wrap(emit("bfe", v.alu, v._v, _u32(start), _u32(length)))


def bfi(replacement: Any, value: Any, start: Any, length: Any, **_: Any) -> Any:
    """`value` with a bit field replaced by the low bits of `replacement`."""
    v = _integer(value, "bfi")
    r = _convert(replacement, type(v))
    return type(v)._wrap(emit("bfi", "b" + v.alu[1:], r, v._v, _u32(start), _u32(length)))


def _pair(a: Any, b: Any, what: str) -> tuple[Any, Operand, Operand]:
    left = _integer(a, what) if isinstance(a, Numeric) else None
    right = _integer(b, what) if isinstance(b, Numeric) else None
    cls = type(left if left is not None else right if right is not None else Int32(0))
    return cls, _convert(a, cls), _convert(b, cls)


def mul_hi(a: Any, b: Any, **_: Any) -> Any:
    """The high half of a product."""
    cls, x, y = _pair(a, b, "mul_hi")
    return cls._wrap(emit("mul.hi", cls.alu, x, y))


def mul_wide(a: Any, b: Any, **_: Any) -> Any:
    """The whole product of 32-bit integers."""
    cls, x, y = _pair(a, b, "mul_wide")
    if cls.width != 32:
        raise DSLTypeError("cute.arch.mul_wide takes 32-bit integers")
    wide = Int64 if cls.signed else Uint64
    return wide._wrap(emit("mul.wide", cls.alu, x, y))


def mul24(a: Any, b: Any, hi: bool = False, **_: Any) -> Any:
    """The product of the low 24 bits."""
    cls, x, y = _pair(a, b, "mul24")
    return cls._wrap(emit("mul24.hi" if hi else "mul24.lo", cls.alu, x, y))


def mad24(a: Any, b: Any, c: Any, hi: bool = False, **_: Any) -> Any:
    """The product of the low 24 bits, plus `c`."""
    cls, x, y = _pair(a, b, "mad24")
    return cls._wrap(emit("mad24.hi" if hi else "mad24.lo", cls.alu, x, y, _convert(c, cls)))


def add_sat_int(a: Any, b: Any, **_: Any) -> Any:
    """A sum that stays within Int32."""
    return Int32._wrap(emit("add.sat", "s32", _convert(a, Int32), _convert(b, Int32)))


def sub_sat_int(a: Any, b: Any, **_: Any) -> Any:
    """A difference that stays within Int32."""
    return Int32._wrap(emit("sub.sat", "s32", _convert(a, Int32), _convert(b, Int32)))


def lop3(a: Any, b: Any, c: Any, lut: int, **_: Any) -> Any:
    """Any function of three bits, by its table."""
    cls, x, y = _pair(a, b, "lop3")
    return cls._wrap(emit("lop3", "b32", x, y, _convert(c, cls), attr=int(lut)))


def shf(a: Any, b: Any, shift: Any, kind: str = "l", **_: Any) -> Any:
    """A funnel shift of `a` (high) and `b` (low)."""
    cls, hi, lo = _pair(a, b, "shf")
    modes = {"l": "l.wrap", "r": "r.wrap", "clamp_left": "l.clamp", "clamp_right": "r.clamp"}
    if kind not in modes:
        raise ValueError(f"cute.arch.shf: unknown kind {kind!r}")
    return cls._wrap(emit("shf", "b32", lo, hi, _u32(shift), attr=modes[kind]))


def prmt(src: Any, src_reg_shifted: Any, prmt_indices: Any, **_: Any) -> Any:
    """Bytes picked from two registers."""
    out = emit("prmt", "b32", _u32(src), _u32(src_reg_shifted), _u32(prmt_indices))
    return Int32._wrap(out)


def cvt_f32_tf32(src_f32: Any, **_: Any) -> Any:
    """A single rounded to TF32."""
    return as_numeric(src_f32).to(Float32).to(n.TFloat32)


def griddepcontrol_wait(**_: Any) -> None:
    """Wait for the launches before this one; launches run one after the other here."""
    device_builder("cute.arch.griddepcontrol_wait")


def griddepcontrol_launch_dependents(**_: Any) -> None:
    """Let the launches after this one begin; launches run one after the other here."""
    device_builder("cute.arch.griddepcontrol_launch_dependents")
