"""Owns pointers and what is read and written through them, one element or a vector at a time."""

from __future__ import annotations

import enum
import math
from typing import Any

from .._errors import DSLTypeError, not_supported
from .._ir import BITS_OF, CLASS_OF, Array, Const, Operand, builder
from .._numeric import (
    Address,
    Boolean,
    Int32,
    Int64,
    Integer,
    Numeric,
    _convert,
    emit,
    rebits,
)
from .._tree import rewrap
from ._dynamic import add, divisibility_of, is_static_int


class AddressSpace(enum.Enum):
    """Where a pointer points."""

    generic = 0
    gmem = 1
    smem = 3
    rmem = 5
    tmem = 6

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


_SPACE = {AddressSpace.generic: "generic", AddressSpace.gmem: "global", AddressSpace.smem: "shared"}


class Pointer:
    """An address with the type of what lies there, its space and a known alignment in bytes.

    Offsets count elements. A register pointer has an :class:`Array` as its base.
    """

    __slots__ = ("_align", "_base", "_dtype", "_dyn", "_off", "_space")

    def __init__(
        self,
        base: Any,
        dtype: Any,
        space: AddressSpace,
        align: int | None = None,
        off: int = 0,
        dyn: Any = None,
    ) -> None:
        self._base = base
        self._dtype = dtype
        self._space = space
        self._align = align or max(1, dtype.width // 8)
        self._off = off
        self._dyn = dyn

    # -- facts ------------------------------------------------------------------------------

    @property
    def dtype(self) -> Any:
        """The type of an element."""
        return self._dtype

    value_type = element_type = dtype

    @property
    def memspace(self) -> AddressSpace:
        """The space it points into."""
        return self._space

    @property
    def alignment(self) -> int:
        """Bytes that are known to divide the address."""
        align = self._align
        size = max(1, self._dtype.width // 8)
        if self._off:
            align = math.gcd(align, self._off * size)
        if self._dyn is not None:
            align = math.gcd(align, divisibility_of(self._dyn) * size)
        return align

    max_alignment = alignment

    @property
    def type(self) -> str:
        """The type as text: `ptr<f32, gmem, align<16>>`."""
        natural = max(1, self._dtype.width // 8)
        align = "" if self.alignment == natural else f", align<{self.alignment}>"
        return f"ptr<{self._dtype.short}, {self._space}{align}>"

    def __str__(self) -> str:
        return self.type

    __repr__ = __str__

    # -- arithmetic -------------------------------------------------------------------------

    def __add__(self, offset: Any) -> Pointer:
        if isinstance(offset, Numeric) and not isinstance(offset, Integer):
            raise DSLTypeError(f"a pointer moves by integers, got {type(offset).__name__}")
        if is_static_int(offset):
            return Pointer(
                self._base, self._dtype, self._space, self._align, self._off + offset, self._dyn
            )
        if not isinstance(offset, Integer):
            raise DSLTypeError(f"a pointer moves by integers, got {type(offset).__name__}")
        dyn = offset if self._dyn is None else add(self._dyn, offset)
        return Pointer(self._base, self._dtype, self._space, self._align, self._off, dyn)

    __radd__ = __add__

    def __sub__(self, offset: Any) -> Pointer:
        return self + (-offset)

    def toint(self, **_: Any) -> Any:
        """The address: Int64 for global and generic pointers, else Int32."""
        base, off = self.address()
        if self._space in (AddressSpace.gmem, AddressSpace.generic):
            return Int64._wrap(emit("add", "s64", base, Const(off, "b64")))
        return Int32._wrap(emit("add", "s32", base, Const(off, "b32")))

    @property
    def llvm_ptr(self) -> Pointer:
        """The pointer itself."""
        return self

    def align(self, min_align: int, **_: Any) -> Pointer:
        """This address rounded up to a multiple of `min_align`, a power of two."""
        if min_align <= 0 or min_align & (min_align - 1):
            raise ValueError(f"align: {min_align} is not a power of two")
        if self.alignment % min_align == 0:
            return self
        if self._space is AddressSpace.rmem:
            raise DSLTypeError("align: a register pointer has no address")
        address = self.toint()
        ty = address.alu
        rounded = emit("add", ty, address._v, Const(min_align - 1, CLASS_OF[ty]))
        rounded = emit("and", "b" + ty[1:], rounded, Const(-min_align, CLASS_OF[ty]))
        return Pointer(rounded, self._dtype, self._space, min_align)

    def with_dtype(self, dtype: Any) -> Pointer:
        """The same address as a pointer to `dtype`."""
        if dtype.width == self._dtype.width:
            out = Pointer(self._base, dtype, self._space, self._align, self._off, self._dyn)
            return out
        if self._space is AddressSpace.rmem:
            return self._recast_register(dtype)
        if self._off * self._dtype.width % dtype.width == 0 and self._dyn is None:
            off = self._off * self._dtype.width // dtype.width
            return Pointer(self._base, dtype, self._space, self._align, off)
        base, off = self.address()
        cls = "s64" if CLASS_OF["b64"] == base.cls else "s32"
        return Pointer(
            emit("add", cls, base, Const(off, base.cls)), dtype, self._space, self.alignment
        )

    def _recast_register(self, dtype: Any) -> Pointer:
        old, new = self._dtype.width, dtype.width
        if self._dyn is None and self._off * old % new == 0:
            return Pointer(self._base, dtype, self._space, self._align, self._off * old // new)
        if self._dyn is not None and old % new == 0 and self._off * old % new == 0:
            dyn = self._dyn * (old // new)
            return Pointer(self._base, dtype, self._space, self._align, self._off * old // new, dyn)
        raise not_supported(
            f"recasting a register pointer from {self._dtype} to {dtype}",
            "its offset is not known to be a whole number of the new elements",
        )

    # -- access -----------------------------------------------------------------------------

    def address(self) -> tuple[Operand, int]:
        """The address as a register and a constant number of bytes."""
        size = self._dtype.width // 8
        if size == 0:
            raise not_supported(f"access to {self._dtype} elements", "they are smaller than a byte")
        if self._space is AddressSpace.rmem:
            raise DSLTypeError("a register fragment has no address: copy it to memory instead")
        if self._space is AddressSpace.tmem:
            raise not_supported("tensor memory", "it is not modelled yet")
        base: Operand = self._base
        if self._dyn is not None:
            base = _advance(base, self._dyn, size)
        return base, self._off * size

    def load(self, **_: Any) -> Any:
        """The element at this address."""
        return self._dtype._wrap(load_vector(self, 1)[0])

    def store(self, value: Any, **_: Any) -> None:
        """Write the element at this address; `value` is converted to its type."""
        store_vector(self, [_convert(value, self._dtype)])

    def __getitem__(self, index: Any) -> Any:
        return (self + index).load()

    def __setitem__(self, index: Any, value: Any) -> None:
        (self + index).store(value)

    def __mkb_split__(self) -> Any:
        """Frame and leaves: the base (unless registers) and the dynamic offset."""
        parts: list[Any] = []
        register = self._space is AddressSpace.rmem
        if not register:
            parts.append((Address if self._base.cls == "b64" else Int32)._wrap(self._base))
        if self._dyn is not None:
            parts.append(self._dyn)
        dtype, space, align, off, dyn = self._dtype, self._space, self._align, self._off, self._dyn
        base = self._base
        static = (dtype, space, align, off, base if register else None, dyn is not None)

        def make(got: list[Any]) -> Pointer:
            rest = list(got)
            new_base = base if register else rest.pop(0)._v
            offset = None
            if dyn is not None:
                offset = rest.pop(0)
                if divisibility_of(dyn) > 1:
                    offset = offset.assume(divisibility_of(dyn))
            return Pointer(new_base, dtype, space, align, off, offset)

        return static, parts, make


def _advance(base: Operand, dyn: Any, size: int) -> Operand:
    """`base` moved by `dyn` elements of `size` bytes."""
    if base.cls == "b64":
        if dyn.width == 64:
            step = emit("mul.lo", "s64", dyn._v, Const(size, "b64"))
        else:
            step = emit("mul.wide", dyn.alu, dyn._v, Const(size, "b32"), attr="index")
        return emit("add", "s64", base, step)
    index = dyn.to(Int32)._v if dyn.width == 64 else dyn._v
    return emit("add", "s32", base, emit("mul.lo", "s32", index, Const(size, "b32")))


def _attr(ptr: Pointer, off: int, order: str = "", hint: str = "") -> dict[str, Any]:
    return {"space": _SPACE[ptr.memspace], "order": order, "hint": hint, "off": off}


def _check_host(ptr: Pointer) -> None:
    if builder("a memory access").target == "host" and ptr.memspace is not AddressSpace.generic:
        raise DSLTypeError(
            f"{ptr.type}: device memory cannot be accessed in a @cute.jit function on the host: "
            "do it in a @cute.kernel"
        )


def load_vector(ptr: Pointer, n: int, order: str = "", hint: str = "") -> list[Operand]:
    """`n` consecutive elements from `ptr` in one access; the caller has checked the alignment.

    A narrow element comes sign- or zero-extended, a Boolean as a predicate.
    """
    dtype = ptr.dtype
    if ptr.memspace is AddressSpace.rmem:
        return [_register_load(ptr + i) for i in range(n)]
    _check_host(ptr)
    base, off = ptr.address()
    attr = _attr(ptr, off, order, hint)
    mem = "u8" if dtype is Boolean else dtype.mem
    b = builder("a load")
    size = BITS_OF[mem] // 8
    if (size == 1 and n > 1) or (size * n > 16 and size < 4):
        word = {2: "b16", 4: "b32"}.get(size * n, "b32")
        words = max(1, size * n // 4)
        got = b.emit("ld", word, base, attr=attr, dst=("b32",) * words)
        items: list[Operand] = []
        for w in got if isinstance(got, tuple) else (got,):
            if size == 2:
                items.extend(b.emit("unpack", "b32", w, dst=("b32", "b32")))
            else:
                parts = 2 if word == "b16" else 4
                items.extend(b.emit("split8", word, w, dst=("b32",) * parts))
        return [_typed(x, dtype) for x in items]
    got = b.emit("ld", mem, base, attr=attr, dst=(CLASS_OF[mem],) * n)
    items = list(got) if isinstance(got, tuple) else [got]
    if dtype is Boolean:
        return [rebits(x, "u8", "pred") for x in items]
    return items


def _typed(x: Operand, dtype: Any) -> Operand:
    """The low bits of a register as an element of `dtype`."""
    if dtype is Boolean:
        return rebits(x, "u8", "pred")
    return rebits(x, "u" + dtype.mem[1:], dtype.mem) if dtype.mem in ("s8", "s16") else x


def store_vector(ptr: Pointer, values: list[Operand], order: str = "", hint: str = "") -> None:
    """Write consecutive elements to `ptr` in one access."""
    dtype = ptr.dtype
    if ptr.memspace is AddressSpace.rmem:
        for i, v in enumerate(values):
            _register_store(ptr + i, v)
        return
    _check_host(ptr)
    b = builder("a store")
    if dtype is Boolean:
        values = [rebits(v, "pred", "u8") for v in values]
    mem = "u8" if dtype is Boolean else dtype.mem
    size = BITS_OF[mem] // 8
    base, off = ptr.address()
    n = len(values)
    if (size == 1 and n > 1) or (size == 2 and n > 8):
        if size == 2:
            values = [emit("pack", "b32", *values[i : i + 2]) for i in range(0, n, 2)]
            mem = "b32"
        else:
            group = min(n, 4)
            mem = "b16" if group == 2 else "b32"
            values = [emit("pack8", mem, *values[i : i + group]) for i in range(0, n, group)]
    b.emit("st", mem, base, *values, attr=_attr(ptr, off, order, hint), dst=())


# -- registers ------------------------------------------------------------------------------


def _register_index(ptr: Pointer) -> tuple[Array, Any, int]:
    """The array, the element index in units of the array's elements, and elements per access."""
    array: Array = ptr._base
    have, want = BITS_OF[array.ty], ptr.dtype.width
    index = ptr._off if ptr._dyn is None else ptr._dyn + ptr._off
    return array, index, want // have if want >= have else -(have // want)


def _operand_index(index: Any) -> Operand:
    return Const(index, "b32") if is_static_int(index) else index.to(Int32)._v


def _register_load(ptr: Pointer) -> Operand:
    array, index, ratio = _register_index(ptr)
    b = builder("a register fragment")
    mem = ptr.dtype.mem
    if ratio == 1:
        return rebits(b.load(array, _operand_index(index)), array.ty, mem)
    if ratio > 1:
        parts = [b.load(array, _operand_index(index * ratio + i)) for i in range(ratio)]
        return _typed(_join(parts, BITS_OF[array.ty]), ptr.dtype)
    parts_per = -ratio
    whole = b.load(array, _operand_index(index // parts_per))
    if is_static_int(index):
        return _typed(
            _split(whole, BITS_OF[array.ty], ptr.dtype.width)[index % parts_per], ptr.dtype
        )
    raise not_supported(
        "a dynamic index into a narrower view of a register fragment", "unroll the loop"
    )


def _register_store(ptr: Pointer, value: Operand) -> None:
    array, index, ratio = _register_index(ptr)
    b = builder("a register fragment")
    mem = ptr.dtype.mem
    if ratio == 1:
        b.store(array, _operand_index(index), rebits(value, mem, array.ty))
        return
    if ratio > 1:
        parts = _split(value, ptr.dtype.width, BITS_OF[array.ty])
        for i, part in enumerate(parts):
            b.store(array, _operand_index(index * ratio + i), _as_element(part, array.ty))
        return
    parts_per = -ratio
    if not is_static_int(index):
        raise not_supported(
            "a dynamic index into a narrower view of a register fragment", "unroll the loop"
        )
    at = _operand_index(index // parts_per)
    parts = _split(b.load(array, at), BITS_OF[array.ty], ptr.dtype.width)
    parts[index % parts_per] = value
    b.store(array, at, _join(parts, ptr.dtype.width))


def _as_element(x: Operand, ty: str) -> Operand:
    return rebits(x, "u" + ty[1:], ty) if ty in ("s8", "s16") else x


def _join(parts: list[Operand], bits: int) -> Operand:
    """Narrow values, lowest first, as one register."""
    if bits == 8 and len(parts) in (2, 4):
        return emit("pack8", "b16" if len(parts) == 2 else "b32", *parts)
    if bits == 8:
        return emit("pack", "b64", _join(parts[:4], 8), _join(parts[4:], 8))
    if bits == 16 and len(parts) == 4:
        return emit("pack", "b64", _join(parts[:2], 16), _join(parts[2:], 16))
    return emit("pack", "b32" if bits == 16 else "b64", *parts)


def _split(x: Operand, have: int, want: int) -> list[Operand]:
    """One register of `have` bits as values of `want` bits, lowest first."""
    if have == want:
        return [x]
    if isinstance(x, Const):
        return [
            Const((x.bits >> (want * i)) & ((1 << want) - 1), "b32") for i in range(have // want)
        ]
    b = builder("splitting a register")
    if have == 64:
        halves = b.emit("unpack", "b64", x, dst=("b32", "b32"))
        return [p for h in halves for p in _split(h, 32, want)]
    if want == 16:
        return list(b.emit("unpack", "b32", x, dst=("b32", "b32")))
    return list(b.emit("split8", f"b{have}", x, dst=("b32",) * (have // 8)))


def make_ptr(
    dtype: Any,
    value: Any,
    mem_space: AddressSpace = AddressSpace.generic,
    *,
    assumed_align: int | None = None,
    **_: Any,
) -> Pointer:
    """A pointer to `dtype` at an address; a Python int is a constant address."""
    wide = mem_space in (AddressSpace.gmem, AddressSpace.generic)
    cls = Int64 if wide else Int32
    base = cls(value)._v if not isinstance(value, Pointer) else value.toint()._v
    return Pointer(base, dtype, mem_space, assumed_align)


def recast_ptr(ptr: Pointer, swizzle_: Any = None, dtype: Any = None, **_: Any) -> Pointer:
    """The same address as a pointer to another type."""
    if swizzle_ is not None:
        raise not_supported(
            "recast_ptr with a swizzle", "give the tensor a swizzled layout instead"
        )
    return ptr if dtype is None else ptr.with_dtype(dtype)


def register_pointer(dtype: Any, length: int, name: str = "") -> Pointer:
    """Fresh thread-private storage for `length` elements."""
    if dtype.width not in (8, 16, 32, 64):
        raise not_supported(f"a register fragment of {dtype}", "its elements are no whole bytes")
    mem = dtype.mem if dtype.mem else f"b{dtype.width}"
    return Pointer(Array(mem, max(1, length), 32, name), dtype, AddressSpace.rmem, 32)


def same_kind(like: Numeric, operand: Operand) -> Numeric:
    """`operand` as a value of the type of `like`."""
    return rewrap(like, operand)
