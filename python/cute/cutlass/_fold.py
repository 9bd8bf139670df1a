"""Owns the value of an instruction on known operands: constant folding, and running host programs.

Registers are unsigned ints holding bits. :func:`evaluate` gives None where it does not know the
exact result of the instruction (approximate special functions are never folded on the device).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from ._ir import BITS_OF, MASK32, MASK64, signed


def f32_of(bits: int) -> float:
    """The single with these bits, as a Python float."""
    return struct.unpack("<f", struct.pack("<I", bits & MASK32))[0]


def bits_f32(x: float) -> int:
    """Bits of `x` rounded to nearest even; the canonical NaN for NaN."""
    if x != x:
        return 0x7FFFFFFF
    try:
        return struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return 0xFF800000 if x < 0 else 0x7F800000


def f64_of(bits: int) -> float:
    """The double with these bits."""
    return struct.unpack("<d", struct.pack("<Q", bits & MASK64))[0]


def bits_f64(x: float) -> int:
    """Bits of a double; the canonical NaN for NaN."""
    return 0x7FF8000000000000 if x != x else struct.unpack("<Q", struct.pack("<d", x))[0]


def f16_of(bits: int) -> float:
    """The half with these bits, as a Python float."""
    return struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0]


def bits_f16(x: float) -> int:
    """Bits of `x` rounded to a half."""
    if x != x:
        return 0x7FFF
    try:
        return struct.unpack("<H", struct.pack("<e", x))[0]
    except OverflowError:
        return 0xFC00 if x < 0 else 0x7C00


def bf16_of(bits: int) -> float:
    """The bfloat16 with these bits, as a Python float."""
    return f32_of((bits & 0xFFFF) << 16)


def bits_bf16(x: float) -> int:
    """Bits of `x` rounded to a bfloat16, once (through a double rounded to odd at single "
    "precision)."""
    if x != x:
        return 0x7FFF
    bits = bits_f32(x)
    back = f32_of(bits)
    if back != x and math.isfinite(back):
        # The first rounding was inexact: make it round-to-odd, so that the second decides alone.
        if abs(back) > abs(x):
            bits -= 1
        bits |= 1
    if (bits & 0x7F800000) == 0x7F800000:
        if math.isfinite(x):
            return ((bits >> 16) & 0x8000) | 0x7F80
        return bits >> 16
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def _bits_fp8(x: float, exponent_bits: int, mantissa_bits: int, largest: float, nan: int) -> int:
    """Bits of `x` in an 8-bit float, rounded to nearest even and clamped to the largest finite "
    "value."""
    if x != x:
        return nan
    sign = 0x80 if math.copysign(1.0, x) < 0 else 0
    a = min(abs(x), largest)
    bias = (1 << (exponent_bits - 1)) - 1
    if a == 0.0:
        return sign
    exponent = max(math.frexp(a)[1] - 1, 1 - bias)
    scaled = a / 2.0 ** (exponent - mantissa_bits)
    code = round(scaled)  # ties to even; exact: `scaled` has few bits
    if code >> (mantissa_bits + 1):
        code >>= 1
        exponent += 1
    if code >> mantissa_bits:
        return sign | ((exponent + bias) << mantissa_bits) | (code & ((1 << mantissa_bits) - 1))
    return sign | code


def _fp8_of(bits: int, exponent_bits: int, mantissa_bits: int, finite: bool) -> float:
    sign = -1.0 if bits & 0x80 else 1.0
    e = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    m = bits & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    top = (1 << exponent_bits) - 1
    if finite and e == top and m == (1 << mantissa_bits) - 1:
        return math.nan
    if not finite and e == top:
        return math.nan if m else sign * math.inf
    if e == 0:
        return sign * m * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + m / (1 << mantissa_bits)) * 2.0 ** (e - bias)


def _bits_tf32(x: float) -> int:
    bits = bits_f32(x)
    if (bits & 0x7F800000) == 0x7F800000:
        return bits
    return ((bits + 0x1000) & ~0x1FFF) & MASK32  # ties away from zero


FLOAT_OF: dict[str, Callable[[int], float]] = {
    "f16": f16_of,
    "bf16": bf16_of,
    "f32": f32_of,
    "tf32": f32_of,
    "f64": f64_of,
    "e4m3": lambda b: _fp8_of(b & 0xFF, 4, 3, True),
    "e5m2": lambda b: _fp8_of(b & 0xFF, 5, 2, False),
}
BITS_FLOAT: dict[str, Callable[[float], int]] = {
    "f16": bits_f16,
    "bf16": bits_bf16,
    "f32": bits_f32,
    "tf32": _bits_tf32,
    "f64": bits_f64,
    "e4m3": lambda x: _bits_fp8(x, 4, 3, 448.0, 0x7F),
    "e5m2": lambda x: _bits_fp8(x, 5, 2, 57344.0, 0x7F),
}


def int_of(bits: int, ty: str) -> int:
    """The integer that `bits` mean at integer type `ty`."""
    width = BITS_OF[ty]
    return signed(bits, width) if ty[0] == "s" else bits & ((1 << width) - 1)


def bits_int(x: int, ty: str) -> int:
    """Register content of `x` at integer type `ty`, wrapped: narrow signed types are "
    "sign-extended."""
    width = BITS_OF[ty]
    x = signed(x, width) if ty[0] == "s" else x & ((1 << width) - 1)
    return x & (MASK64 if width == 64 else MASK32)


def is_float(ty: str) -> bool:
    """Whether `ty` is a scalar floating type."""
    return ty in FLOAT_OF


def _trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def _int_binary(op: str, ty: str, a: int, b: int) -> int | None:
    x, y = int_of(a, ty), int_of(b, ty)
    width = BITS_OF[ty]
    if op == "add":
        r = x + y
    elif op == "sub":
        r = x - y
    elif op == "mul.lo":
        r = x * y
    elif op == "mul.hi":
        r = (x * y) >> width
    elif op == "div":
        if y == 0:
            return None
        r = _trunc_div(x, y)
    elif op == "rem":
        if y == 0:
            return None
        r = x - y * _trunc_div(x, y)
    elif op == "min":
        r = min(x, y)
    elif op == "max":
        r = max(x, y)
    elif op == "and":
        r = x & y
    elif op == "or":
        r = x | y
    elif op == "xor":
        r = x ^ y
    elif op == "shl":
        n = b & MASK32
        r = 0 if n >= width else x << n
    elif op == "shr":
        r = x >> min(b & MASK32, width if ty[0] != "s" else width - 1)
    elif op in ("add.sat", "sub.sat"):
        r = max(-(1 << 31), min((1 << 31) - 1, x + y if op == "add.sat" else x - y))
    else:
        return None
    return bits_int(r, ty)


def _float_binary(op: str, ty: str, a: int, b: int) -> int | None:
    x, y = FLOAT_OF[ty](a), FLOAT_OF[ty](b)
    put = BITS_FLOAT[ty]
    if op == "add":
        return put(x + y)
    if op == "sub":
        return put(x - y)
    if op == "mul":
        return put(x * y)
    if op == "div":
        if y == 0.0:
            if x == 0.0 or x != x:
                return put(math.nan)
            return put(math.copysign(math.inf, x) * math.copysign(1.0, y))
        return put(x / y)
    if op in ("min", "max"):
        if x != x or y != y:
            return put(y if x != x else x)
        if x == y == 0.0:
            negative = math.copysign(1.0, x) < 0, math.copysign(1.0, y) < 0
            return put(-0.0 if (any(negative) if op == "min" else all(negative)) else 0.0)
        return put(min(x, y) if op == "min" else max(x, y))
    return None


def _fma(ty: str, a: int, b: int, c: int) -> int | None:
    """One rounding for f32 and narrower: the double sum of an exact product is made odd where "
    "inexact."""
    if ty not in ("f32", "f16", "bf16"):
        return None
    x, y, z = (FLOAT_OF[ty](v) for v in (a, b, c))
    p = x * y
    s = p + z
    if not math.isfinite(s) or not math.isfinite(p):
        return BITS_FLOAT[ty](s)
    t = s - p
    error = (p - (s - t)) + (z - t)
    if error != 0.0:
        bits = bits_f64(s)
        if not bits & 1:
            toward = 1 if (error > 0) == (s > 0) else -1
            bits += toward
        s = f64_of(bits)
    return BITS_FLOAT[ty](s)


def _cvt(to: str, frm: str, mods: str, a: int) -> int | None:
    if is_float(frm):
        x = FLOAT_OF[frm](a)
        if is_float(to):
            if mods.startswith((".rm", ".rp", ".rz", ".rni")) or ".rn" not in mods + ".rn":
                if to != frm:
                    return None
                if x != x or math.isinf(x):
                    return BITS_FLOAT[to](x)
                rounded = {".rm": math.floor, ".rp": math.ceil, ".rz": math.trunc}.get(
                    mods[:3], round
                )(x)
                return BITS_FLOAT[to](math.copysign(float(rounded), x))
            return BITS_FLOAT[to](x)
        if x != x:
            return 0 if BITS_OF[to] <= 32 else 1 << 63
        lo, hi = _int_range(to)
        if math.isinf(x):
            return bits_int(hi if x > 0 else lo, to)
        r = {".rz": math.trunc, ".rm": math.floor, ".rp": math.ceil}.get(mods[:3], round)(x)
        return bits_int(max(lo, min(hi, r)), to)
    x = int_of(a, frm)
    if is_float(to):
        if to in ("f32", "f16", "bf16"):
            return _round_int(x, to)
        return BITS_FLOAT[to](float(x))
    if ".sat" in mods:
        lo, hi = _int_range(to)
        x = max(lo, min(hi, x))
    return bits_int(x, to)


def _cvt_pair(to: str, frm: str, a: int) -> int | None:
    """Two narrow floats to two 16-bit ones."""
    narrow, wide = frm.removesuffix("x2"), to.removesuffix("x2")
    if narrow not in FLOAT_OF or wide not in ("f16", "bf16"):
        return None
    low, high = (BITS_FLOAT[wide](FLOAT_OF[narrow](a >> shift)) for shift in (0, 8))
    return low | high << 16


def _pack_pair(ty: str, args: list[int]) -> int | None:
    """Two singles (the high one first) to two narrower floats."""
    kind = ty.removesuffix("x2")
    if kind not in BITS_FLOAT:
        return None
    high, low = (BITS_FLOAT[kind](f32_of(a)) for a in args)
    return low | high << BITS_OF[kind]


def _int_range(ty: str) -> tuple[int, int]:
    width = BITS_OF[ty]
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if ty[0] == "s" else (0, (1 << width) - 1)


def _round_int(x: int, to: str) -> int:
    """An integer to a float with one rounding: beyond 53 bits a sticky bit stands for the rest."""
    magnitude = abs(x)
    if magnitude.bit_length() > 53:
        shift = magnitude.bit_length() - 53
        magnitude = ((magnitude >> shift) | int(magnitude & ((1 << shift) - 1) != 0)) << shift
    return BITS_FLOAT[to](math.copysign(float(magnitude), x) if x else 0.0)


def _compare(cmp: str, ty: str, a: int, b: int) -> int | None:
    if is_float(ty):
        x, y = FLOAT_OF[ty](a), FLOAT_OF[ty](b)
        unordered = x != x or y != y
        if cmp == "num":
            return int(not unordered)
        if cmp == "nan":
            return int(unordered)
        if unordered:
            return int(cmp.endswith("u"))
        cmp = cmp.removesuffix("u")
    else:
        x, y = int_of(a, ty), int_of(b, ty)
    return int(
        {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[cmp]
    )


def _float_unary(op: str, ty: str, a: int) -> int | None:
    x = FLOAT_OF[ty](a)
    put = BITS_FLOAT[ty]
    if op == "neg":
        return (a ^ (1 << (BITS_OF[ty] - 1))) if x == x else None
    if op == "abs":
        return (a & ~(1 << (BITS_OF[ty] - 1))) if x == x else None
    if op == "sqrt":
        return put(math.sqrt(x)) if x >= 0 else put(math.nan)
    if op == "rcp":
        return put(math.copysign(math.inf, x)) if x == 0 else put(1.0 / x)
    return None


def evaluate(
    op: str, ty: str, mods: str, attr: Any, args: list[int]
) -> int | tuple[int, ...] | None:
    """Result bits of a pure instruction, or None where they are not known exactly.

    :param args: bits of the operands.
    """
    if op == "cvt":
        if ty.endswith("x2"):
            return _cvt_pair(ty, attr, args[0])
        return _cvt(ty, attr, mods, args[0])
    if op == "cvt.pack":
        return _pack_pair(ty, args)
    if op == "setp":
        return _compare(attr, ty, args[0], args[1])
    if op == "selp":
        return args[0] if args[2] else args[1]
    if op == "mov":
        return args[0]
    if op == "pack":
        half = BITS_OF[ty] // 2
        return (args[0] & ((1 << half) - 1)) | ((args[1] & ((1 << half) - 1)) << half)
    if op == "unpack":
        half = BITS_OF[ty] // 2
        return args[0] & ((1 << half) - 1), (args[0] >> half) & ((1 << half) - 1)
    if op == "split8":
        return tuple((args[0] >> (8 * i)) & 0xFF for i in range(BITS_OF[ty] // 8))
    if op == "pack8":
        return sum((a & 0xFF) << (8 * i) for i, a in enumerate(args))
    if ty == "pred":
        if op == "not":
            return args[0] ^ 1
        return {"and": args[0] & args[1], "or": args[0] | args[1], "xor": args[0] ^ args[1]}.get(op)
    if is_float(ty):
        if (
            ".ftz" in mods
            or ".sat" in mods
            or ".relu" in mods
            or any(m in mods for m in (".rz", ".rm", ".rp"))
        ):
            return None
        if op == "fma":
            return _fma(ty, *args)
        if len(args) == 1:
            return _float_unary(op, ty, args[0])
        return _float_binary(op, ty, args[0], args[1]) if len(args) == 2 else None
    if ty not in BITS_OF:
        return None
    if op in ("mul.wide", "mad.wide"):
        wide = ty[0] + str(2 * BITS_OF[ty])
        r = int_of(args[0], ty) * int_of(args[1], ty)
        return bits_int(r + (int_of(args[2], wide) if op == "mad.wide" else 0), wide)
    if op == "mad.lo":
        return bits_int(int_of(args[0], ty) * int_of(args[1], ty) + int_of(args[2], ty), ty)
    if len(args) == 1:
        x = int_of(args[0], ty)
        width = BITS_OF[ty]
        if op == "neg":
            return bits_int(-x, ty)
        if op == "abs":
            return bits_int(abs(x), ty)
        if op == "not":
            return bits_int(~x, ty)
        if op == "popc":
            return (x & ((1 << width) - 1)).bit_count()
        if op == "clz":
            return width - (x & ((1 << width) - 1)).bit_length()
        if op == "brev":
            return int(format(x & ((1 << width) - 1), f"0{width}b")[::-1], 2)
        return None
    return _int_binary(op, ty, args[0], args[1]) if len(args) == 2 else None
