"""Owns `cute.printf` and `cute.print_tensor`: text that is printed when the program runs."""

from __future__ import annotations

import re
from typing import Any

from .._errors import DSLTypeError
from .._ir import builder
from .._numeric import Boolean, Float32, Float64, Int32, Numeric, Uint32, _convert
from ._int_tuple import as_tuple, is_static
from ._layout_type import ComposedLayout, Layout
from ._memory import AddressSpace, Pointer
from ._modes import size

_C_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?[diouxXeEfFgGcsp%]|\{[^{}]*\}")


class _Text:
    """A format string and its arguments, as C's printf takes them."""

    def __init__(self) -> None:
        self.format = ""
        self.args: list[tuple[str, Any]] = []

    def literal(self, text: str) -> None:
        self.format += text.replace("%", "%%")

    def number(self, x: Numeric, spec: str = "") -> None:
        """A dynamic number by a C conversion, or by its natural one."""
        ty, value, natural = _argument(x)
        if spec:
            kind = spec[-1]
            if kind in "fFeEgG" and ty[0] != "f":
                ty, value, _ = _argument(x.to(Float32))
            elif kind in "diuxXoc" and ty[0] == "f":
                ty, value, _ = _argument(x.to(Int32))
            if kind in "diuxXo" and ty[1:] == "64" and "l" not in spec:
                spec = spec[:-1] + "ll" + kind
        self.format += spec or natural
        self.args.append((ty, value))

    def add(self, x: Any) -> None:
        """Anything by its natural form."""
        from ._ssa import TensorSSA
        from ._tensor import Tensor

        if isinstance(x, Numeric):
            self.number(x)
        elif isinstance(x, float):
            self.literal(f"{x:f}")
        elif isinstance(x, bool):
            self.literal(str(int(x)))
        elif isinstance(x, tuple | list):
            self.tuple(as_tuple(x))
        elif isinstance(x, Layout):
            self.tuple(x.shape)
            self.literal(":")
            self.tuple(x.stride)
        elif isinstance(x, ComposedLayout):
            self.add(x.inner) if isinstance(x.inner, Layout) else self.literal(str(x.inner))
            self.literal(" o ")
            self.tuple(x.offset)
            self.literal(" o ")
            self.add(x.outer)
        elif isinstance(x, Pointer):
            self.pointer(x)
        elif isinstance(x, Tensor):
            self.tensor(x)
        elif isinstance(x, TensorSSA):
            self.values(x)
        else:
            scalar = getattr(x, "__mkb_scalar__", None)
            self.add(scalar()) if scalar is not None else self.literal(str(x))

    def tuple(self, t: Any) -> None:
        from ._basis import ScaledBasis

        if isinstance(t, tuple):
            self.literal("(")
            for i, x in enumerate(t):
                if i:
                    self.literal(",")
                self.tuple(x)
            self.literal(")")
        elif isinstance(t, ScaledBasis):
            self.tuple(t.value)
            self.literal("".join(f"@{m}" for m in reversed(t.mode)))
        elif isinstance(t, Numeric):
            self.number(t)
        else:
            self.literal("_" if t is None else str(t))

    def pointer(self, p: Pointer) -> None:
        if p.memspace is AddressSpace.rmem:
            self.literal(f"raw_ptr({p.dtype.short}, rmem, align<{p.alignment}>)")
            return
        self.literal("raw_ptr(")
        address = p.toint()
        self.format += "0x%016llx" if address.width == 64 else "0x%08x"
        self.args.append(("u64" if address.width == 64 else "u32", address._v))
        self.literal(f": {p.dtype.short}, {p.memspace}, align<{p.alignment}>)")

    def tensor(self, t: Any) -> None:
        if isinstance(t.iterator, Pointer):
            self.pointer(t.iterator)
        else:
            self.tuple(t.iterator if isinstance(t.iterator, tuple) else (t.iterator,))
        self.literal(" o ")
        self.add(t.layout)
        if is_static(t.shape) and isinstance(t.iterator, Pointer):
            self.literal(" =\n  ( ")
            for i in range(int(size(t.shape))):
                if i:
                    self.literal(", ")
                self.add(t[i])
            self.literal(" )")

    def values(self, v: Any) -> None:
        self.literal("(")
        for i, x in enumerate(v._items):
            if i:
                self.literal(", ")
            self.number(v.dtype._wrap(x))
        self.literal(")")

    def emit(self) -> None:
        b = builder("cute.printf")
        for template, args in _in_parts(self.format, self.args):
            types = tuple(ty for ty, _ in args)
            b.emit("printf", "", *(v for _, v in args), attr=(template, types), dst=())


#: Values that one printf of the device takes.
_MOST_VALUES = 32
_CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?(?:ll)?[a-zA-Z])")


def _in_parts(template: str, args: list[Any]) -> list[tuple[str, list[Any]]]:
    """A format and its values in pieces of as many values as the device takes at once."""
    parts: list[tuple[str, list[Any]]] = []
    begin, taken, used = 0, 0, 0
    for match in _CONVERSION.finditer(template):
        if match.group() == "%%":
            continue
        if used - taken == _MOST_VALUES:
            parts.append((template[begin : match.start()], args[taken:used]))
            begin, taken = match.start(), used
        used += 1
    parts.append((template[begin:], args[taken:]))
    return parts


def _argument(x: Numeric) -> tuple[str, Any, str]:
    cls = type(x)
    if cls is Boolean:
        return "s32", _convert(x, Int32), "%d"
    if cls is Float64:
        return "f64", x._v, "%f"
    if cls.is_float:
        return "f32", _convert(x, Float32), "%f"
    if cls.width == 64:
        return cls.alu, x._v, "%lld" if cls.signed else "%llu"
    return ("s32", x._v, "%d") if cls.signed else ("u32", _convert(x, Uint32), "%u")


def printf(*args: Any, end: str = "\n", **_: Any) -> None:
    """Print when the program runs: values, or a format (`{}` or C conversions) and its values."""
    if not args:
        raise ValueError("cute.printf needs something to print")
    text = _Text()
    if isinstance(args[0], str):
        _format(text, args[0], list(args[1:]))
    else:
        for i, x in enumerate(args):
            if i:
                text.literal(" ")
            text.add(x)
    text.literal(end)
    text.emit()


def _format(text: _Text, fmt: str, args: list[Any]) -> None:
    at = 0
    for match in _C_FORMAT.finditer(fmt):
        text.literal(fmt[at : match.start()])
        at = match.end()
        spec = match.group()
        if spec == "%%":
            text.literal("%")
            continue
        if not args:
            raise ValueError(f"cute.printf: the format {fmt!r} has more places than values")
        value = args.pop(0)
        if spec[0] == "{":
            text.add(value)
        elif isinstance(value, Numeric):
            text.number(value, spec)
        elif isinstance(value, int | float):
            text.literal(re.sub(r"(hh|h|ll|l|z)(?=\w$)", "", spec) % value)
        elif isinstance(value, str):
            text.literal(spec % value)
        else:
            text.add(value)
    text.literal(fmt[at:])
    if args:
        raise ValueError(f"cute.printf: the format {fmt!r} has fewer places than values")


def print_tensor(tensor: Any, *, verbose: bool = False, **_: Any) -> None:
    """Print the elements of a tensor, its engine and its layout."""
    from ._memory import make_ptr  # noqa: F401
    from ._ssa import TensorSSA
    from ._tensor import Tensor, make_rmem_tensor

    if isinstance(tensor, TensorSSA):
        fragment = make_rmem_tensor(tensor.shape, tensor.dtype)
        fragment.store(tensor)
        tensor = fragment
    if not isinstance(tensor, Tensor):
        raise DSLTypeError(f"cute.print_tensor takes a tensor, got {type(tensor).__name__}")
    text = _Text()
    text.literal("tensor(")
    if isinstance(tensor.iterator, Pointer):
        text.pointer(tensor.iterator)
    else:
        text.tuple(tensor.iterator if isinstance(tensor.iterator, tuple) else (tensor.iterator,))
    text.literal(" o ")
    text.add(tensor.layout)
    text.literal(", data=")
    if not is_static(tensor.shape):
        _print_dynamic(text, tensor)
        return
    shape = tensor.shape if isinstance(tensor.shape, tuple) else (tensor.shape,)
    extents = [int(size(s)) for s in shape]
    if verbose:
        text.literal(" (\n")
        for crd in _coordinates(extents):
            text.literal(f"\t({','.join(map(str, crd))})= ")
            text.add(tensor[crd if len(crd) > 1 else crd[0]])
            text.literal("\n")
        text.literal(")\n")
        text.emit()
        return
    text.literal("\n       ")
    _rows(text, tensor, extents, len(extents) - 1, (), "       ")
    text.literal(")\n")
    text.emit()


def _coordinates(extents: list[int]) -> list[tuple[int, ...]]:
    """Coordinates with the last mode fastest."""
    out: list[tuple[int, ...]] = [()]
    for e in extents:
        out = [(*c, i) for c in out for i in range(e)]
    return out


def _rows(
    text: _Text, tensor: Any, extents: list[int], mode: int, fixed: tuple[int, ...], pad: str
) -> None:
    """The elements as nested lists: modes beyond the second outermost, the second mode in a row."""
    if len(extents) == 1:
        for i in range(extents[0]):
            text.literal("[ ")
            text.add(tensor[i])
            text.literal(", ]" + (",\n" + pad if i + 1 < extents[0] else ""))
        return
    if mode > 1:
        text.literal("[")
        for i in range(extents[mode]):
            _rows(text, tensor, extents, mode - 1, (i, *fixed), pad + " ")
            if i + 1 < extents[mode]:
                text.literal(",\n\n" + pad + " ")
        text.literal("]")
        return
    text.literal("[")
    for r in range(extents[0]):
        text.literal("[ ")
        for c in range(extents[1]):
            text.add(tensor[(r, c, *fixed)])
            text.literal(",  " if c + 1 < extents[1] else ", ")
        text.literal("]" + (",\n" + pad + " " if r + 1 < extents[0] else ""))
    text.literal("]")


def _print_dynamic(text: _Text, tensor: Any) -> None:
    """A tensor whose shape is known only when the program runs: one element a line."""
    from .._flow import LoopRange, for_

    text.literal("\n")
    text.emit()

    def body(i: Any) -> tuple[Any, ...]:
        line = _Text()
        line.literal("  [")
        line.number(i)
        line.literal("] = ")
        line.add(tensor[i])
        line.literal("\n")
        line.emit()
        return ()

    for_(LoopRange(size(tensor.shape)), body, (), frozenset(), ())
    tail = _Text()
    tail.literal(")\n")
    tail.emit()
