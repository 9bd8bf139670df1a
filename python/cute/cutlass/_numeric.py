"""Owns the numeric types: dynamic scalars, their operators, promotion and conversion.

Sources: the CuTe DSL documentation (data types, limitations) and the PTX ISA for the operations
that each operator becomes.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from . import _fold
from ._errors import DSLRuntimeError, DSLTypeError, not_supported
from ._ir import BITS_OF, CLASS_OF, Const, Operand, current, user_location
from .cute._dynamic import Dynamic


def emit(op: str, ty: str, *args: Operand, mods: str = "", attr: Any = None) -> Operand:
    """The result of a pure instruction: folded where the operands are known, recorded otherwise."""
    from ._ir import builder, result_class

    if all(isinstance(a, Const) for a in args):
        bits = _fold.evaluate(op, ty, mods, attr, [a.bits for a in args])  # type: ignore[union-attr]
        if isinstance(bits, int):
            return Const(bits, result_class(op, ty))
    return builder(f"the operation {op}").emit(op, ty, *args, mods=mods, attr=attr)


class NumericMeta(type):
    """Prints a numeric type by its name."""

    def __repr__(cls) -> str:
        return cls.__name__

    __str__ = __repr__

    @property
    def mlir_type(cls) -> str:
        """The short name of the type (`f32`, `i32`)."""
        return cls.short  # type: ignore[attr-defined,no-any-return]


class Numeric(metaclass=NumericMeta):
    """A scalar that exists when the program runs.

    `width` is in bits; `mem` is the type in memory, `alu` the type that arithmetic uses.
    """

    __slots__ = ("_v",)
    width = 0
    mem = ""
    alu = ""
    short = "?"
    is_integer = False
    is_float = False
    signed = True
    zero: Any = 0
    _v: Operand

    def __init__(self, value: Any = 0, **_: Any) -> None:
        self._v = _convert(value, type(self))

    @classmethod
    def _wrap(cls, operand: Operand) -> Any:
        out = object.__new__(cls)
        out._v = operand
        return out

    # -- facts ------------------------------------------------------------------------------

    @property
    def dtype(self) -> type[Numeric]:
        """The type itself."""
        return type(self)

    @property
    def value(self) -> Any:
        """The Python number outside a trace; the value itself inside one."""
        if isinstance(self._v, Const) and current() is None:
            return self._python()
        return self

    def ir_value(self, **_: Any) -> Any:
        """The value itself: it is its own representation."""
        return self

    def _python(self) -> Any:
        assert isinstance(self._v, Const)
        if self.is_float:
            return _fold.FLOAT_OF[self.mem](self._v.bits)
        if type(self) is Boolean:
            return bool(self._v.bits)
        return _fold.int_of(self._v.bits, self.alu)

    def __str__(self) -> str:
        if current() is None and isinstance(self._v, Const):
            return str(self._python())
        return "?"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __format__(self, spec: str) -> str:
        if current() is None and isinstance(self._v, Const):
            return format(self._python(), spec)
        return "?"

    __hash__ = object.__hash__

    def _known(self, use: str) -> Any:
        if current() is None and isinstance(self._v, Const):
            return self._python()
        where = user_location()
        at = f"{where[0]}:{where[1]}: " if where else ""
        raise DSLRuntimeError(
            f"{at}a dynamic {type(self).__name__} is used as {use}, which needs a value known "
            "while the program is traced. Use control flow that the DSL transforms (if, for, "
            "while, and, or, not inside @cute.jit or @cute.kernel), or pass the value as "
            "cutlass.Constexpr"
        )

    def __bool__(self) -> bool:
        return bool(self._known("a Python truth value"))

    def __index__(self) -> int:
        if self.is_float:
            raise TypeError(f"{type(self).__name__} cannot be an index")
        return int(self._known("a Python integer (list index, range_constexpr bound)"))

    def __int__(self) -> int:
        return int(self._known("a Python integer"))

    def __float__(self) -> float:
        return float(self._known("a Python float"))

    # -- conversion -------------------------------------------------------------------------

    def to(self, dtype: Any, **_: Any) -> Any:
        """This value converted to `dtype` (rounded to nearest even; floats to integers "
        "truncate)."""
        if dtype is int or dtype is float or dtype is bool:
            return dtype(self._known(f"a Python {dtype.__name__}"))
        if not (isinstance(dtype, type) and issubclass(dtype, Numeric)):
            raise DSLTypeError(f"to() takes a numeric type, got {dtype!r}")
        return dtype._wrap(_convert(self, dtype))

    def bitcast(self, dtype: Any, **_: Any) -> Any:
        """The same bits as another type of the same width."""
        if dtype.width != self.width:
            raise DSLTypeError(f"bitcast from {type(self)} to {dtype}: the widths differ")
        return dtype._wrap(rebits(self._v, self.mem, dtype.mem))

    # -- operators --------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return _arith("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _arith("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _arith("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arith("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _arith("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _arith("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _arith("truediv", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _arith("truediv", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _arith("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _arith("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return _arith("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _arith("mod", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __pow__(self, other: Any) -> Any:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _power(as_numeric(other), self)

    def __and__(self, other: Any) -> Any:
        return _bitwise("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return _bitwise("or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return _bitwise("xor", self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Any:
        return _shift("shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _shift("shl", as_numeric(other), self)

    def __rshift__(self, other: Any) -> Any:
        return _shift("shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _shift("shr", as_numeric(other), self)

    def __neg__(self) -> Any:
        return negate(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return absolute(self)

    def __invert__(self) -> Any:
        if type(self) is Boolean:
            return Boolean._wrap(emit("not", "pred", self._v))
        if self.is_float:
            raise DSLTypeError(f"~ takes integers, got {type(self)}")
        return _wrapped(type(self), emit("not", _bits_type(self.alu), self._v))

    def __eq__(self, other: object) -> Any:
        return compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return compare("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return compare("ge", self, other)


class Integer(Numeric, Dynamic):
    """A dynamic integer; it may be a leaf of a shape, stride or coordinate."""

    __slots__ = ("_div", "_nonneg")
    is_integer = True
    _div: int
    _nonneg: bool

    def __init__(self, value: Any = 0, **_: Any) -> None:
        self._v = _convert(value, type(self))
        self._div = getattr(value, "_div", 1) if isinstance(value, Integer) else 1
        self._nonneg = not self.signed or bool(getattr(value, "_nonneg", False))
        if isinstance(self._v, Const):
            self._nonneg = self._python() >= 0

    @classmethod
    def _wrap(cls, operand: Operand, div: int = 1, nonneg: bool = False) -> Any:
        out = object.__new__(cls)
        out._v = operand
        out._div = div
        out._nonneg = nonneg or not cls.signed
        if isinstance(operand, Const) and not nonneg:
            out._nonneg = _fold.int_of(operand.bits, cls.alu) >= 0
        return out

    @property
    def divisibility(self) -> int:
        """A positive int known to divide the value."""
        return self._div

    def minimum(self, other: Any) -> Any:
        """The smaller of this value and `other`."""
        return minimum(self, other)

    def assume(self, div: int = 1, nonneg: bool | None = None) -> Any:
        """This value with facts that the program promises."""
        keep = self._nonneg if nonneg is None else nonneg
        return type(self)._wrap(self._v, math.lcm(self._div, div), keep)


class Float(Numeric):
    """A dynamic floating-point number."""

    __slots__ = ()
    is_float = True
    zero = 0.0
    #: Infinity, as a number of Python.
    inf = float("inf")


def _make(name: str, base: type, doc: str, **facts: Any) -> Any:
    return NumericMeta(
        name, (base,), {"__slots__": (), "__doc__": doc, "__module__": "cutlass", **facts}
    )


def _integer(name: str, width: int, signed: bool) -> Any:
    letter = "s" if signed else "u"
    return _make(
        name,
        Integer,
        f"A {width}-bit {'signed' if signed else 'unsigned'} integer.",
        width=width,
        signed=signed,
        mem=f"{letter}{width}",
        alu=f"{letter}{64 if width == 64 else 32}",
        short=f"{'i' if signed else 'ui'}{width}",
    )


Int4 = _integer("Int4", 4, True)
Int8 = _integer("Int8", 8, True)
Int16 = _integer("Int16", 16, True)
Int32 = _integer("Int32", 32, True)
Int64 = _integer("Int64", 64, True)
Int128 = _integer("Int128", 128, True)
Uint8 = _integer("Uint8", 8, False)
Uint16 = _integer("Uint16", 16, False)
Uint32 = _integer("Uint32", 32, False)
Uint64 = _integer("Uint64", 64, False)
Uint128 = _integer("Uint128", 128, False)
#: An address that a host passes: 64 bits, told from numbers where a launch needs the tensor behind
#: it.
Address = NumericMeta(
    "Address",
    (Integer,),
    {"__slots__": (), "width": 64, "signed": True, "mem": "s64", "alu": "s64", "short": "ptr"},
)


class Boolean(Numeric):
    """A dynamic truth value: a predicate register, one byte in memory."""

    __slots__ = ()
    width = 8
    mem = "pred"
    alu = "pred"
    short = "i1"
    is_integer = True
    signed = False
    zero = False


def _float(name: str, width: int, mem: str, short: str, doc: str) -> Any:
    return _make(name, Float, doc, width=width, mem=mem, alu=mem, short=short)


Float64 = _float("Float64", 64, "f64", "f64", "IEEE double precision.")
Float32 = _float("Float32", 32, "f32", "f32", "IEEE single precision.")
TFloat32 = _float("TFloat32", 32, "tf32", "tf32", "Single precision with a 10-bit mantissa.")
Float16 = _float("Float16", 16, "f16", "f16", "IEEE half precision.")
BFloat16 = _float("BFloat16", 16, "bf16", "bf16", "The 16-bit float with 8 exponent bits.")
Float8E4M3FN = _float(
    "Float8E4M3FN", 8, "e4m3", "f8E4M3FN", "8-bit float, 4 exponent bits, finite."
)
Float8E4M3 = _float("Float8E4M3", 8, "e4m3", "f8E4M3", "8-bit float, 4 exponent bits.")
Float8E5M2 = _float("Float8E5M2", 8, "e5m2", "f8E5M2", "8-bit float, 5 exponent bits.")
Float8E8M0FNU = _float("Float8E8M0FNU", 8, "ue8m0", "f8E8M0FNU", "8-bit power of two.")
Float8E4M3B11FNUZ = _float("Float8E4M3B11FNUZ", 8, "", "f8E4M3B11FNUZ", "8-bit float of bias 11.")
Float6E3M2FN = _float("Float6E3M2FN", 6, "", "f6E3M2FN", "6-bit float, 3 exponent bits.")
Float6E2M3FN = _float("Float6E2M3FN", 6, "", "f6E2M3FN", "6-bit float, 2 exponent bits.")
Float4E2M1FN = _float("Float4E2M1FN", 4, "", "f4E2M1FN", "4-bit float.")

_NARROW = ("e4m3", "e5m2")


def as_numeric(x: Any) -> Any:
    """`x` as a dynamic value: bool, int and float become Boolean, Int32 (Int64) and Float32."""
    if isinstance(x, Numeric):
        return x
    if isinstance(x, bool):
        return Boolean(x)
    if isinstance(x, int):
        return Int32(x) if -(1 << 31) <= x < (1 << 31) else Int64(x)
    if isinstance(x, float):
        return Float32(x)
    if isinstance(getattr(x, "item", None), Callable) and type(x).__module__ == "numpy":  # type: ignore[arg-type]
        return as_numeric(x.item())
    raise DSLTypeError(f"expected a number, got {type(x).__name__}")


def is_number(x: Any) -> bool:
    """Whether `x` is a dynamic value or a Python number."""
    return isinstance(x, Numeric | int | float)


def _bits_type(ty: str) -> str:
    return ty if ty == "pred" else f"b{BITS_OF[ty]}"


def rebits(v: Operand, frm: str, to: str) -> Operand:
    """The bits of `v` as type `to` of the same width; registers extend narrow types by their "
    "sign."""
    if frm == to:
        return v
    if frm == "pred":
        return emit("selp", "b32", Const(1, "b32"), Const(0, "b32"), v)
    if to == "pred":
        return emit("setp", "u32", v, Const(0, "b32"), attr="ne")
    if to in ("s8", "s16"):
        return emit("cvt", "s32", v, attr=to)
    if frm in ("s8", "s16"):
        return emit("cvt", "u32", v, attr="u" + frm[1:])
    return v


def _wrapped(cls: Any, v: Operand, div: int = 1, nonneg: bool = False) -> Any:
    """A result of 32-bit arithmetic as an integer of type `cls`: narrow types wrap around."""
    if cls.width < 32:
        _check_width(cls)
        v = emit("cvt", cls.alu, v, attr=cls.mem)
        nonneg = False
    return cls._wrap(v, div, nonneg)


def _check_width(cls: Any) -> None:
    if cls.width not in (8, 16, 32, 64):
        raise not_supported(f"arithmetic on {cls.__name__}", "convert to another type first")


def constant(x: Any, cls: Any) -> Const:
    """Python number `x` as the bits of type `cls`."""
    if cls is Boolean:
        return Const(int(bool(x)), "pred")
    if cls.is_float:
        if cls.mem not in _fold.BITS_FLOAT:
            raise not_supported(f"a {cls.__name__} value", "only its storage is modelled")
        bits = _fold.BITS_FLOAT[cls.mem](float(x))
        return Const(bits, CLASS_OF[cls.mem])
    if isinstance(x, float):
        if not math.isfinite(x):
            raise DSLTypeError(f"cannot convert {x} to {cls}")
        x = int(x)
    _check_width(cls)
    return Const(_fold.bits_int(x, cls.mem), CLASS_OF[cls.alu])


def _convert(x: Any, cls: Any) -> Operand:
    """`x` (a Python number or a dynamic value) as an operand of type `cls`."""
    if not isinstance(x, Numeric):
        if isinstance(x, int | float):
            return constant(x, cls)
        scalar = getattr(x, "__mkb_scalar__", None)
        if scalar is not None:
            return _convert(scalar(), cls)
        return _convert(as_numeric(x), cls)
    frm = type(x)
    if frm is cls:
        return x._v
    if isinstance(x._v, Const) and cls is not TFloat32 and "" not in (frm.mem, cls.mem):
        if cls.is_float and not frm.is_float and frm is not Boolean:
            bits = _fold.evaluate("cvt", cls.mem, "", frm.alu, [x._v.bits])
            if isinstance(bits, int) and cls.mem not in _NARROW:
                return Const(bits, CLASS_OF[cls.mem])
        elif frm.mem in _fold.FLOAT_OF or not frm.is_float:
            py = x._python()
            if cls is Boolean or cls.is_float:
                if cls is Boolean or cls.mem in _fold.BITS_FLOAT:
                    return constant(py, cls)
            elif not frm.is_float:
                return constant(py, cls)
            elif py == py and abs(py) < 2.0 ** (cls.width - 1):
                return constant(math.trunc(py), cls)
    return convert_operand(x._v, frm, cls)


def convert_operand(v: Operand, frm: Any, cls: Any) -> Operand:
    """Operand `v` of numeric type `frm` as type `cls`."""
    if frm is cls or frm.mem == cls.mem:
        return v
    if "" in (frm.mem, cls.mem):
        raise not_supported(f"conversion from {frm} to {cls}", "only their storage is modelled")
    if cls is Boolean:
        if frm.is_float:
            w = convert_operand(v, frm, Float32) if frm.width < 32 else v
            ty = "f64" if frm is Float64 else "f32"
            return emit("setp", ty, w, Const(0, CLASS_OF[ty]), attr="neu")
        return emit("setp", frm.alu, v, Const(0, CLASS_OF[frm.alu]), attr="ne")
    if frm is Boolean:
        one, zero = constant(1, cls), constant(0, cls)
        return emit("selp", f"b{64 if CLASS_OF[cls.mem] == 'b64' else 32}", one, zero, v)
    if frm.is_float:
        return _from_float(v, frm, cls)
    _check_width(frm)
    if cls.is_float:
        return _int_to_float(v, frm, cls)
    _check_width(cls)
    if cls.width < 32:
        low = emit("cvt", "u32", v, attr=frm.alu) if frm.width == 64 else v
        return emit("cvt", cls.alu, low, attr=cls.mem)
    if cls.width == 32 and frm.width <= 32:
        return v
    return emit("cvt", cls.alu, v, attr=frm.alu)


def _int_to_float(v: Operand, frm: Any, cls: Any) -> Operand:
    if cls.mem in ("f32", "f64", "f16", "bf16"):
        return emit("cvt", cls.mem, v, mods=".rn", attr=frm.alu)
    return convert_operand(emit("cvt", "f32", v, mods=".rn", attr=frm.alu), Float32, cls)


def _from_float(v: Operand, frm: Any, cls: Any) -> Operand:
    if frm.mem in _NARROW:
        half = emit("cvt", "f16x2", v, mods=".rn", attr=frm.mem + "x2")
        low = unpack("b32", half)[0]
        return convert_operand(low, Float16, cls)
    if frm.mem == "ue8m0":
        pair = unpack("b32", emit("cvt", "bf16x2", v, mods=".rn", attr="ue8m0x2"))
        return convert_operand(pair[0], BFloat16, cls)
    if frm is TFloat32:
        return v if cls is Float32 else convert_operand(v, Float32, cls)
    if not cls.is_float:
        _check_width(cls)
        if frm in (Float16, BFloat16):
            v, frm = convert_operand(v, frm, Float32), Float32
        if cls.width < 32:
            return emit(
                "cvt", cls.alu, emit("cvt", cls.alu, v, mods=".rz", attr=frm.mem), attr=cls.mem
            )
        return emit("cvt", cls.alu, v, mods=".rz", attr=frm.mem)
    if cls.mem in _NARROW:
        single = convert_operand(v, frm, Float32)
        packed = pack_floats(cls.mem + "x2", Const(0, "b32"), single)
        return emit("and", "b32", packed, Const(0xFF, "b32"))
    if cls is TFloat32:
        return emit("cvt", "tf32", convert_operand(v, frm, Float32), mods=".rna", attr="f32")
    if cls.mem == "ue8m0":
        single = convert_operand(v, frm, Float32)
        packed = emit("cvt.pack", "ue8m0x2", Const(0, "b32"), single, mods=".rp.satfinite")
        return emit("and", "b32", packed, Const(0xFF, "b32"))
    if frm in (Float16, BFloat16) and cls in (Float16, BFloat16, Float64):
        v = emit("cvt", "f32", v, attr=frm.mem)
        return emit("cvt", cls.mem, v, mods="" if cls is Float64 else ".rn", attr="f32")
    widening = cls.width > frm.width
    return emit("cvt", cls.mem, v, mods="" if widening else ".rn", attr=frm.mem)


def pack_floats(ty: str, hi: Operand, lo: Operand) -> Operand:
    """Two singles as one packed value of type `ty`, rounded to nearest even; fp8 is clamped."""
    mods = ".rn.satfinite" if ty[0] == "e" else ".rn"
    return emit("cvt.pack", ty, hi, lo, mods=mods)


def unpack(ty: str, v: Operand) -> tuple[Operand, Operand]:
    """The low and the high half of a register."""
    from ._ir import builder

    if isinstance(v, Const):
        half = BITS_OF[ty] // 2
        mask = (1 << half) - 1
        return Const(v.bits & mask, "b32"), Const((v.bits >> half) & mask, "b32")
    return builder("unpacking").emit("unpack", ty, v, dst=("b32", "b32"))


# -- promotion ------------------------------------------------------------------------------


def promote(a: Any, b: Any) -> Any:
    """The common type of two numeric types.

    A float wins over an integer, the wider over the narrower, and unsigned over signed of the same
    width; Float16 with BFloat16 gives Float32. Booleans count as Int32.
    """
    if a is Boolean:
        a = Int32
    if b is Boolean:
        b = Int32
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.width != b.width:
        return a if a.width > b.width else b
    if a.is_float:
        return Float32 if a.width <= 32 else a
    return a if not a.signed else b


def _literal_type(cls: Any, literal: Any) -> Any:
    """The type of `cls op literal`: a Python number adapts to the dynamic operand where it can."""
    if isinstance(literal, bool):
        return Int32 if cls is Boolean else cls
    if isinstance(literal, float):
        return cls if cls.is_float else (Float64 if cls.width == 64 else Float32)
    if cls is Boolean:
        return Int32
    if cls.is_float:
        return cls
    lo, hi = (
        (-(1 << (cls.width - 1)), 1 << cls.width) if cls.width <= 64 else (literal, literal + 1)
    )
    return cls if lo <= literal < hi else promote(cls, Int64)


def _operands(a: Any, b: Any) -> tuple[Any, Operand, Operand] | None:
    if isinstance(a, Numeric) and isinstance(b, Numeric):
        cls = promote(type(a), type(b))
    elif isinstance(a, Numeric) and isinstance(b, int | float):
        cls = _literal_type(type(a), b)
    elif isinstance(b, Numeric) and isinstance(a, int | float):
        cls = _literal_type(type(b), a)
    else:
        # A TensorSSA, for one, has operators of its own for the other side.
        return None
    return cls, _convert(a, cls), _convert(b, cls)


def _arith(op: str, a: Any, b: Any) -> Any:
    got = _operands(a, b)
    if got is None:
        return NotImplemented
    cls, x, y = got
    if cls.is_float:
        return _float_arith(op, cls, x, y)
    _check_width(cls)
    if op == "truediv":
        real = Float64 if cls.width == 64 else Float32
        return _float_arith(
            "truediv", real, _int_to_float(x, cls, real), _int_to_float(y, cls, real)
        )
    div, nonneg = _facts(op, a, b)
    if op in ("floordiv", "mod"):
        return _wrapped(cls, _floor_op(op, cls, x, y, _is_nonneg(a), _is_nonneg(b)), div, nonneg)
    name = {"add": "add", "sub": "sub", "mul": "mul.lo"}[op]
    return _wrapped(cls, emit(name, cls.alu, x, y), div, nonneg)


def _is_nonneg(x: Any) -> bool:
    if isinstance(x, Integer):
        return x._nonneg
    return isinstance(x, bool) or type(x) is Boolean or (isinstance(x, int) and x >= 0)


def _div_of(x: Any) -> int:
    if isinstance(x, Integer):
        return x._div
    return abs(x) if isinstance(x, int) and not isinstance(x, bool) else 1


def _facts(op: str, a: Any, b: Any) -> tuple[int, bool]:
    da, db = _div_of(a), _div_of(b)
    both = _is_nonneg(a) and _is_nonneg(b)
    # Sums and products wrap around: the sign of one is not known from its operands'.
    if op in ("add", "sub"):
        return math.gcd(da, db), False
    if op == "mul":
        return max(1, da * db), False
    if op == "floordiv":
        exact = isinstance(b, int) and b != 0 and da % b == 0
        return (max(1, da // abs(b)) if exact else 1), both
    positive = isinstance(b, int) and b > 0
    return (math.gcd(da, db) if positive else 1), positive or both


def _float_arith(op: str, cls: Any, x: Operand, y: Operand) -> Any:
    if cls.mem in _NARROW or cls.mem in ("", "ue8m0"):
        raise DSLTypeError(f"{cls} has no arithmetic: convert with .to(Float32) first")
    ty = "f32" if cls is TFloat32 else cls.mem
    if op in ("add", "sub", "mul"):
        return cls._wrap(emit(op, ty, x, y))
    if cls in (Float16, BFloat16):
        wide = [convert_operand(v, cls, Float32) for v in (x, y)]
        return Float32._wrap(_divide(op, "f32", *wide)).to(cls)
    return cls._wrap(_divide(op, ty, x, y))


def _divide(op: str, ty: str, x: Operand, y: Operand) -> Operand:
    quotient = emit("div", ty, x, y, mods=".rn")
    if op == "truediv":
        return quotient
    floor = emit("cvt", ty, quotient, mods=".rm", attr=ty)
    if op == "floordiv":
        return floor
    return emit("sub", ty, x, emit("mul", ty, floor, y))


def _floor_op(op: str, cls: Any, x: Operand, y: Operand, x_nonneg: bool, y_nonneg: bool) -> Operand:
    """Division rounded down, and its remainder (which has the divisor's sign), as in Python."""
    ty = cls.alu
    name = "div" if op == "floordiv" else "rem"
    if isinstance(y, Const):
        d = _fold.int_of(y.bits, ty)
        if d == 0:
            raise ZeroDivisionError(f"{'//' if op == 'floordiv' else '%'} by the constant 0")
        if d > 0 and d & (d - 1) == 0:
            if op == "floordiv":
                return x if d == 1 else emit("shr", ty, x, Const(d.bit_length() - 1, "b32"))
            return emit("and", _bits_type(ty), x, Const(d - 1, CLASS_OF[ty]))
        if d > 0 and ty == "s32":
            quotient = _divide_by_constant(x, d, x_nonneg)
            if op == "floordiv":
                return quotient
            return emit("sub", ty, x, emit("mul.lo", ty, quotient, y))
    if not cls.signed or (x_nonneg and y_nonneg):
        return emit(name, ty, x, y)
    zero = Const(0, CLASS_OF[ty])
    quotient = emit("div", ty, x, y)
    rest = emit("sub", ty, x, emit("mul.lo", ty, quotient, y))
    differs = emit("setp", ty, emit("xor", _bits_type(ty), rest, y), zero, attr="lt")
    inexact = emit("setp", ty, rest, zero, attr="ne")
    fix = emit("and", "pred", differs, inexact)
    kind = _bits_type(ty)
    if op == "floordiv":
        return emit("sub", ty, quotient, emit("selp", kind, Const(1, CLASS_OF[ty]), zero, fix))
    return emit("add", ty, rest, emit("selp", kind, y, zero, fix))


def _divide_by_constant(x: Operand, d: int, nonneg: bool) -> Operand:
    """`x // d` for d > 2, not a power of two: one high product and a shift where x is not negative.

    With 2^s < d < 2^(s+1) and m = ceil(2^(32+s) / d), m < 2^32 and m * d - 2^(32+s) < 2^(s+1), so
    the error of x * m / 2^(32+s) is below 1 / d for every x < 2^31. A negative x has the quotient
    ~(~x // d), and ~x is below 2^31.
    """
    s = d.bit_length() - 1
    m = -(-(1 << (32 + s)) // d)
    sign = None if nonneg else emit("shr", "s32", x, Const(31, "b32"))
    magnitude = x if sign is None else emit("xor", "b32", x, sign)
    high = emit("mul.hi", "u32", magnitude, Const(m, "b32"))
    quotient = emit("shr", "u32", high, Const(s, "b32")) if s else high
    return quotient if sign is None else emit("xor", "b32", quotient, sign)


def _bitwise(op: str, a: Any, b: Any) -> Any:
    if type(a) is Boolean and (type(b) is Boolean or isinstance(b, bool)):
        return Boolean._wrap(emit(op, "pred", a._v, _convert(b, Boolean)))
    got = _operands(a, b)
    if got is None:
        return NotImplemented
    cls, x, y = got
    if cls.is_float:
        raise DSLTypeError(f"{op} takes integers, got {cls}")
    both = _is_nonneg(a) and _is_nonneg(b)
    one = op == "and" and (_is_nonneg(a) or _is_nonneg(b))
    if cls.width < 32:
        return cls._wrap(emit(op, "b32", x, y), 1, False)
    return cls._wrap(emit(op, _bits_type(cls.alu), x, y), 1, both or one)


def _shift(op: str, a: Any, b: Any) -> Any:
    cls = type(a) if type(a) is not Boolean else Int32
    if cls.is_float or (isinstance(b, Numeric) and b.is_float) or isinstance(b, float):
        raise DSLTypeError("shifts take integers")
    amount = _convert(b, Uint32)
    ty = _bits_type(cls.alu) if op == "shl" else cls.alu
    nonneg = op == "shr" and _is_nonneg(a)
    div = (_div_of(a) << b) if op == "shl" and isinstance(b, int) and 0 <= b < 31 else 1
    return _wrapped(cls, emit(op, ty, _convert(a, cls), amount), div, nonneg)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, int) and not isinstance(exponent, bool) and 0 <= exponent <= 64:
        result: Any = type(base)(1)
        square = base
        while exponent:
            if exponent & 1:
                result = square if isinstance(result._v, Const) else result * square
            exponent >>= 1
            if exponent:
                square = square * square
        return result
    if not base.is_float:
        raise not_supported(
            "** with a dynamic or negative exponent on integers", "convert to Float32"
        )
    from .cute import math as cute_math

    if isinstance(exponent, int) and not isinstance(exponent, bool) and -64 <= exponent < 0:
        return 1.0 / _power(base, -exponent)
    if isinstance(exponent, float) and exponent.is_integer() and abs(exponent) <= 64:
        return _power(base, int(exponent))
    return cute_math.pow(base, exponent)


def negate(x: Any) -> Any:
    """`-x`."""
    if type(x) is Boolean:
        x = x.to(Int32)
    cls = type(x)
    if cls.is_float:
        if cls.mem in _NARROW or cls.mem == "":
            raise DSLTypeError(f"{cls} has no arithmetic: convert with .to(Float32) first")
        return cls._wrap(emit("neg", "f32" if cls is TFloat32 else cls.mem, x._v))
    return _wrapped(cls, emit("neg", "s" + cls.alu[1:], x._v), x._div)


def absolute(x: Any) -> Any:
    """`abs(x)`."""
    cls = type(x)
    if cls.is_float:
        return cls._wrap(emit("abs", "f32" if cls is TFloat32 else cls.mem, x._v))
    if not cls.signed:
        return x
    return _wrapped(cls, emit("abs", cls.alu, x._v), getattr(x, "_div", 1), True)


def compare(cmp: str, a: Any, b: Any) -> Any:
    """A comparison as a Boolean; NotImplemented where the operands are not numbers."""
    if type(a) is Boolean and (type(b) is Boolean or isinstance(b, bool)) and cmp in ("eq", "ne"):
        differ = emit("xor", "pred", a._v, _convert(b, Boolean))
        return Boolean._wrap(differ if cmp == "ne" else emit("not", "pred", differ))
    got = _operands(a, b)
    if got is None:
        return NotImplemented
    cls, x, y = got
    if cls.is_float:
        if cls.mem in _NARROW:
            x, y, cls = convert_operand(x, cls, Float32), convert_operand(y, cls, Float32), Float32
        if cls.mem in ("", "ue8m0"):
            raise DSLTypeError(f"{cls} has no comparison: convert with .to(Float32) first")
        ty = "f32" if cls is TFloat32 else cls.mem
        return Boolean._wrap(emit("setp", ty, x, y, attr="neu" if cmp == "ne" else cmp))
    return Boolean._wrap(emit("setp", cls.alu, x, y, attr=cmp))


def select(cond: Any, a: Any, b: Any) -> Any:
    """`a` where `cond` holds, else `b`; both are computed."""
    if isinstance(cond, bool):
        return a if cond else b
    if not isinstance(a, Numeric) and not isinstance(b, Numeric):
        a = as_numeric(a)
    if type(a) is Boolean and type(b) is Boolean:
        cls: Any = Boolean
        x, y = a._v, b._v
    else:
        got = _operands(a, b)
        if got is None:
            raise DSLTypeError(f"cannot select between {type(a).__name__} and {type(b).__name__}")
        cls, x, y = got
    pred = _convert(cond, Boolean)
    if isinstance(pred, Const):
        return cls._wrap(x if pred.bits else y)
    if cls is Boolean:
        both = emit("and", "pred", pred, x)
        other = emit("and", "pred", emit("not", "pred", pred), y)
        return Boolean._wrap(emit("or", "pred", both, other))
    out = emit("selp", "b64" if CLASS_OF[cls.mem] == "b64" else "b32", x, y, pred)
    if issubclass(cls, Integer):
        return cls._wrap(
            out, math.gcd(_div_of(a), _div_of(b)) or 1, _is_nonneg(a) and _is_nonneg(b)
        )
    return cls._wrap(out)


def _extreme(op: str, a: Any, b: Any) -> Any:
    if not isinstance(a, Numeric) and not isinstance(b, Numeric):
        return builtins.min(a, b) if op == "min" else builtins.max(a, b)
    got = _operands(a, b)
    if got is None:
        raise DSLTypeError(f"{op} takes numbers, got {type(a).__name__} and {type(b).__name__}")
    cls, x, y = got
    if cls.is_float:
        if cls.mem in _NARROW or cls.mem in ("", "ue8m0"):
            raise DSLTypeError(f"{cls} has no arithmetic: convert with .to(Float32) first")
        return cls._wrap(emit(op, "f32" if cls is TFloat32 else cls.mem, x, y))
    nonneg = _is_nonneg(a) and _is_nonneg(b) if op == "min" else _is_nonneg(a) or _is_nonneg(b)
    return cls._wrap(emit(op, cls.alu, x, y), math.gcd(_div_of(a), _div_of(b)) or 1, nonneg)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers; the types are promoted."""
    return _extreme("min", a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers; the types are promoted."""
    return _extreme("max", a, b)


ALL_TYPES = (
    *(Boolean, Int4, Int8, Int16, Int32, Int64, Int128, Uint8, Uint16, Uint32, Uint64, Uint128),
    *(Float64, Float32, TFloat32, Float16, BFloat16, Float8E4M3FN, Float8E4M3, Float8E5M2),
    *(Float8E8M0FNU, Float8E4M3B11FNUZ, Float6E3M2FN, Float6E2M3FN, Float4E2M1FN),
)
