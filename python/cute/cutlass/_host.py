"""Owns the run of a host function: its recorded program is interpreted, launches go to the
device."""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _fold
from ._errors import DSLRuntimeError
from ._ir import BITS_OF, MASK32, Array, Block, Const, Inst, Value

#: What approximate instructions compute, for the host.
_APPROXIMATE: dict[str, Callable[[float], float]] = {
    "ex2.approx": lambda x: math.pow(2.0, x) if x < 1025 else math.inf,
    "lg2.approx": lambda x: math.log2(x) if x > 0 else (-math.inf if x == 0 else math.nan),
    "sin.approx": lambda x: math.sin(x) if math.isfinite(x) else math.nan,
    "cos.approx": lambda x: math.cos(x) if math.isfinite(x) else math.nan,
    "tanh.approx": math.tanh,
    "sqrt.approx": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "rsqrt.approx": lambda x: 1 / math.sqrt(x) if x > 0 else (math.inf if x == 0 else math.nan),
    "rcp.approx": lambda x: 1 / x if x else math.copysign(math.inf, x),
}

_CTYPES = {
    8: ctypes.c_uint8,
    16: ctypes.c_uint16,
    32: ctypes.c_uint32,
    64: ctypes.c_uint64,
}


@dataclass
class LaunchSpec:
    """A kernel with what its launch needs besides the operands.

    :param leaf_types: type name and whether it is an address, for each kernel argument.
    """

    text: str
    name: str
    leaf_kinds: tuple[tuple[int, bool], ...]
    location: tuple[str, int] | None


class _Break(Exception):
    pass


class HostRun:
    """One run of a host program on given inputs."""

    def __init__(self, inputs: list[int], launch: Callable[[LaunchSpec, list[int]], str]) -> None:
        self.inputs = inputs
        self.launch = launch
        self.env: dict[Value, int] = {}
        self.arrays: dict[tuple[Array, int], int] = {}

    def get(self, operand: Any) -> int:
        return operand.bits if isinstance(operand, Const) else self.env[operand]

    def block(self, block: Block) -> None:
        for inst in block.insts:
            handler = _HANDLERS.get(inst.op)
            if handler is not None:
                handler(self, inst)
            else:
                self.compute(inst)

    def compute(self, inst: Inst) -> None:
        args = [self.get(a) for a in inst.args]
        got = _fold.evaluate(inst.op, inst.ty, inst.mods, inst.attr, args)
        if got is None:
            got = self.approximate(inst, args)
        if isinstance(got, tuple):
            self.env.update(zip(inst.dst, got, strict=True))
        else:
            self.env[inst.dst[0]] = got

    def approximate(self, inst: Inst, args: list[int]) -> int:
        function = _APPROXIMATE.get(inst.op)
        if function is not None:
            return _fold.BITS_FLOAT[inst.ty](function(_fold.FLOAT_OF[inst.ty](args[0])))
        plain = inst.mods.replace(".ftz", "")
        got = _fold.evaluate(inst.op, inst.ty, plain, inst.attr, args)
        if isinstance(got, int):
            return got
        if inst.op in ("div", "rem") and inst.ty[0] in "su":
            raise ZeroDivisionError(f"{_where(inst)}integer division by zero on the host")
        if inst.op in ("neg", "abs") and inst.ty in _fold.FLOAT_OF:
            return args[0]
        raise DSLRuntimeError(
            f"{_where(inst)}{inst.op}.{inst.ty} cannot run in a @cute.jit function on the host"
        )

    def if_(self, inst: Inst) -> None:
        region = inst.regions[0 if self.get(inst.args[0]) else 1]
        self.block(region)
        self.env.update(zip(inst.dst, [self.get(y) for y in region.yields], strict=True))

    def for_(self, inst: Inst) -> None:
        counter, ty, _, _ = inst.attr
        start, stop, step = (_fold.int_of(self.get(a), ty) for a in inst.args[:3])
        if step == 0:
            raise DSLRuntimeError(f"{_where(inst)}range: step must not be 0")
        body = inst.regions[0]
        carried = [self.get(a) for a in inst.args[3:]]
        for i in range(start, stop, step):
            self.env[counter] = _fold.bits_int(i, ty)
            self.env.update(zip(body.params, carried, strict=True))
            self.block(body)
            carried = [self.get(y) for y in body.yields]
        self.env.update(zip(inst.dst, carried, strict=True))

    def while_(self, inst: Inst) -> None:
        head, body = inst.regions
        carried = [self.get(a) for a in inst.args]
        while True:
            self.env.update(zip(head.params, carried, strict=True))
            self.block(head)
            if not self.get(head.cond):
                break
            self.block(body)
            carried = [self.get(y) for y in body.yields]
        self.env.update(zip(inst.dst, [self.get(y) for y in head.yields], strict=True))

    def vld(self, inst: Inst) -> None:
        key = (inst.attr, self.get(inst.args[0]))
        self._check_index(inst, key)
        self.env[inst.dst[0]] = self.arrays.get(key, MASK32)

    def vst(self, inst: Inst) -> None:
        key = (inst.attr, self.get(inst.args[0]))
        self._check_index(inst, key)
        self.arrays[key] = self.get(inst.args[1])

    def _check_index(self, inst: Inst, key: tuple[Array, int]) -> None:
        if not 0 <= key[1] < key[0].length:
            raise IndexError(
                f"{_where(inst)}index {key[1]} is outside a fragment of {key[0].length} elements"
            )

    def input(self, inst: Inst) -> None:
        self.env[inst.dst[0]] = self.inputs[inst.attr]

    def load(self, inst: Inst) -> None:
        address = self.get(inst.args[0]) + inst.attr["off"]
        bits = BITS_OF[inst.ty]
        for i, d in enumerate(inst.dst):
            raw = _CTYPES[bits].from_address(address + i * bits // 8).value
            self.env[d] = _fold.bits_int(raw, inst.ty) if inst.ty[0] == "s" else raw

    def store(self, inst: Inst) -> None:
        address = self.get(inst.args[0]) + inst.attr["off"]
        bits = BITS_OF[inst.ty]
        for i, v in enumerate(inst.args[1:]):
            _CTYPES[bits].from_address(address + i * bits // 8).value = self.get(v) & (
                (1 << bits) - 1
            )

    def printf(self, inst: Inst) -> None:
        template, types = inst.attr
        values = [_printed(self.get(a), ty) for a, ty in zip(inst.args, types, strict=True)]
        sys.stdout.write(format_c(template, values))
        sys.stdout.flush()

    def check(self, inst: Inst) -> None:
        if not self.get(inst.args[0]):
            raise AssertionError(f"{_where(inst)}{inst.attr}")

    def launched(self, inst: Inst) -> None:
        printed = self.launch(inst.attr, [self.get(a) for a in inst.args])
        if printed:
            sys.stdout.write(printed)
            sys.stdout.flush()


def _where(inst: Inst) -> str:
    return f"{inst.loc[0]}:{inst.loc[1]}: " if inst.loc else ""


def _printed(bits: int, ty: str) -> Any:
    return _fold.FLOAT_OF[ty](bits) if ty in _fold.FLOAT_OF else _fold.int_of(bits, ty)


_CONVERSION = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z)?([diouxXeEfFgGc%])")


def format_c(template: str, values: list[Any]) -> str:
    """`template` with C's conversions applied to the values."""
    rest = list(values)

    def one(match: re.Match[str]) -> str:
        flags, kind = match.groups()
        if kind == "%":
            return "%"
        value = rest.pop(0)
        if kind in "fFeEgG" and not math.isfinite(value):
            return "nan" if value != value else ("inf" if value > 0 else "-inf")
        return ("%" + flags + ("d" if kind in "iu" else kind)) % value

    return _CONVERSION.sub(one, template)


_HANDLERS = {
    "if": HostRun.if_,
    "for": HostRun.for_,
    "while": HostRun.while_,
    "vld": HostRun.vld,
    "vst": HostRun.vst,
    "ldparam": HostRun.input,
    "ld": HostRun.load,
    "st": HostRun.store,
    "printf": HostRun.printf,
    "assert": HostRun.check,
    "launch": HostRun.launched,
}
