"""Owns the recorded program: values, instructions, structured blocks, and the builder that a trace
fills.

The instructions are those of the device IR (`crates/vgpu/IR.md`); registers here are values with
one definition, and what a program may change (loop-carried variables, register fragments) is an
:class:`Array`, which the optimizer turns into values.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._errors import DSLRuntimeError

#: Register class by type of the device IR.
CLASS_OF = {
    "pred": "pred",
    **dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), "b64"),
    **dict.fromkeys(
        (
            *("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32"),
            *("f16", "bf16", "f32", "tf32", "f16x2", "bf16x2"),
            *("e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "ue8m0", "e4m3x2", "e5m2x2"),
            *("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"),
        ),
        "b32",
    ),
}

#: Bits of a type in memory and registers (a predicate is a byte in memory).
BITS_OF = {
    "pred": 8,
    **dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), 64),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "tf32", "f16x2", "bf16x2"), 32),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16", "e4m3x2", "e5m2x2"), 16),
    **dict.fromkeys(("b8", "u8", "s8", "e4m3", "e5m2", "ue8m0", "e2m1x2"), 8),
}

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF


class Value:
    """What one instruction computes, for each thread."""

    __slots__ = ("cls", "id")
    _next = 0

    def __init__(self, cls: str) -> None:
        Value._next += 1
        self.id = Value._next
        self.cls = cls

    def __repr__(self) -> str:
        return f"%{self.cls[0]}{self.id}"


class Const:
    """The same bits in every thread: a register's content, as an unsigned int."""

    __slots__ = ("bits", "cls")

    def __init__(self, bits: int, cls: str) -> None:
        self.bits = bits & (1 if cls == "pred" else MASK64 if cls == "b64" else MASK32)
        self.cls = cls

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and other.bits == self.bits and other.cls == self.cls

    def __hash__(self) -> int:
        return hash((self.bits, self.cls))

    def __repr__(self) -> str:
        return f"{self.bits:#x}"


Operand = Value | Const
Loc = tuple[str, int] | None


class Array:
    """Thread-private storage of `length` elements of type `ty`: a register fragment or a variable.

    It becomes registers where every index is known, local memory otherwise.
    """

    __slots__ = ("align", "id", "length", "name", "ty")
    _next = 0

    def __init__(self, ty: str, length: int, align: int = 16, name: str = "") -> None:
        Array._next += 1
        self.id = Array._next
        self.ty = ty
        self.length = length
        self.align = align
        self.name = name


class Block:
    """Instructions in order. `params` and `yields` are filled by the optimizer."""

    __slots__ = ("cond", "insts", "params", "yields")

    def __init__(self) -> None:
        self.insts: list[Inst] = []
        self.params: list[Value] = []
        self.yields: list[Operand] = []
        self.cond: Operand | None = None


class Inst:
    """One instruction; `attr` holds what is neither operand nor type (comparison, space, text)."""

    __slots__ = ("args", "attr", "dst", "loc", "mods", "op", "regions", "ty")

    def __init__(
        self,
        op: str,
        ty: str = "",
        args: tuple[Any, ...] = (),
        dst: tuple[Value, ...] = (),
        mods: str = "",
        attr: Any = None,
        loc: Loc = None,
        regions: tuple[Block, ...] = (),
    ) -> None:
        self.op = op
        self.ty = ty
        self.args = args
        self.dst = dst
        self.mods = mods
        self.attr = attr
        self.loc = loc
        self.regions = regions

    def __repr__(self) -> str:
        name = f"{self.op}{self.mods}.{self.ty}"
        return f"{list(self.dst)} = {name} {list(self.args)} {self.attr or ''}"


#: Instructions whose result depends on their operands alone.
PURE = frozenset(
    """add sub mul mul.lo mul.hi mul.wide mul24.lo mul24.hi div rem min max and or xor shl shr neg
    abs not cnot popc clz bfind bfind.shiftamt brev mad.lo mad.hi mad.wide mad24.lo mad24.hi
    sad bfe bfi lop3 shf prmt dp4a dp2a add.sat sub.sat fma copysign rcp rcp.approx sqrt
    sqrt.approx rsqrt.approx ex2.approx lg2.approx sin.approx cos.approx tanh.approx div.full
    div.approx testp cvt cvt.pack setp selp mov special pack unpack split8 pack8 ldparam addc
    subc cvta isspace""".split()
)

#: Of the special registers, those that may differ from one reading to the next.
VOLATILE_SPECIALS = frozenset(("clock", "clock64", "globaltimer"))

#: Results of these are 32 bits whatever the operand's width.
_NARROW_RESULT = frozenset(("popc", "clz", "bfind", "bfind.shiftamt"))
#: Results of these have twice the operand's width.
_WIDE_RESULT = frozenset(("mul.wide", "mad.wide"))


def result_class(op: str, ty: str) -> str:
    """Register class of what `op` at `ty` computes."""
    if op in ("setp", "testp", "isspace"):
        return "pred"
    if op in _NARROW_RESULT:
        return "b32"
    if op in _WIDE_RESULT:
        return "b64" if BITS_OF[ty] == 32 else "b32"
    return CLASS_OF[ty]


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def user_location() -> Loc:
    """File and line of the innermost frame that is not part of this package."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and not name.startswith("<"):
            return (name, frame.f_lineno)
        frame = frame.f_back
    return None


class Builder:
    """The program being traced: a host function or a kernel.

    :param target: ``"host"`` or ``"device"``.
    """

    def __init__(self, target: str, name: str) -> None:
        self.target = target
        self.name = name
        self.root = Block()
        self.block = self.root
        self.params: list[tuple[str, int]] = []
        self.shared_static = 0
        self.dynamic_shared = 0
        self.dynamic_shared_used = False
        self.uses_param_alignment = 8
        self.max_threads = 0
        #: Extra facts that helper objects keep for one trace, by their own key.
        self.notes: dict[Any, Any] = {}

    def emit(
        self,
        op: str,
        ty: str = "",
        *args: Operand,
        mods: str = "",
        attr: Any = None,
        dst: tuple[str, ...] | None = None,
    ) -> Any:
        """Append an instruction; gives its result, a tuple of results, or None where `dst` is "
        "()."""
        classes = (result_class(op, ty),) if dst is None else dst
        values = tuple(Value(c) for c in classes)
        self.block.insts.append(Inst(op, ty, args, values, mods, attr, user_location()))
        if dst is None:
            return values[0]
        return values[0] if len(values) == 1 else (values or None)

    def structured(
        self, op: str, args: tuple[Operand, ...], regions: tuple[Block, ...], attr: Any = None
    ) -> None:
        """Append an `if`, `for` or `while`."""
        self.block.insts.append(Inst(op, "", args, (), "", attr, user_location(), regions))

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Record into `block`."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def load(self, array: Array, index: Operand) -> Value:
        """Read one element of thread-private storage."""
        return self.emit("vld", array.ty, index, attr=array, dst=(CLASS_OF[array.ty],))

    def store(self, array: Array, index: Operand, value: Operand) -> None:
        """Write one element of thread-private storage."""
        self.emit("vst", array.ty, index, value, attr=array, dst=())


class _State(threading.local):
    builder: Builder | None = None


_STATE = _State()


def current() -> Builder | None:
    """The program being traced in this thread, or None outside a trace."""
    return _STATE.builder


def builder(what: str) -> Builder:
    """The program being traced.

    :raises DSLRuntimeError: outside a trace; `what` is named in the message.
    """
    if _STATE.builder is None:
        raise DSLRuntimeError(
            f"{what} works only inside a function decorated with @cute.jit or @cute.kernel, "
            "while it is compiled"
        )
    return _STATE.builder


def device_builder(what: str) -> Builder:
    """The kernel being traced.

    :raises DSLRuntimeError: outside a kernel; `what` is named in the message.
    """
    b = builder(what)
    if b.target != "device":
        raise DSLRuntimeError(f"{what} is a device operation: call it inside a @cute.kernel")
    return b


@contextmanager
def tracing(b: Builder) -> Iterator[Builder]:
    """Make `b` the program being traced."""
    outer, _STATE.builder = _STATE.builder, b
    try:
        yield b
    finally:
        _STATE.builder = outer


def signed(bits: int, width: int) -> int:
    """The two's-complement reading of the low `width` bits."""
    bits &= (1 << width) - 1
    return bits - (1 << width) if bits >> (width - 1) else bits
