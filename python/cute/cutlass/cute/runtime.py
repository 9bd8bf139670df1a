"""Owns what a host passes to a program: tensors of other frameworks, pointers, stand-ins for
tensors."""

from __future__ import annotations

import math
import threading
from typing import Any

from .. import _numeric as numeric
from .._errors import DSLRuntimeError, DSLTypeError
from .._numeric import Address, Int32, Int64, Numeric
from ._layout_type import Layout
from ._memory import AddressSpace, Pointer
from ._tensor import Tensor

_TORCH_TYPES = {
    "torch.bool": numeric.Boolean,
    "torch.int8": numeric.Int8,
    "torch.int16": numeric.Int16,
    "torch.int32": numeric.Int32,
    "torch.int64": numeric.Int64,
    "torch.uint8": numeric.Uint8,
    "torch.uint16": numeric.Uint16,
    "torch.uint32": numeric.Uint32,
    "torch.uint64": numeric.Uint64,
    "torch.float16": numeric.Float16,
    "torch.bfloat16": numeric.BFloat16,
    "torch.float32": numeric.Float32,
    "torch.float64": numeric.Float64,
    "torch.float8_e4m3fn": numeric.Float8E4M3FN,
    "torch.float8_e5m2": numeric.Float8E5M2,
    "torch.float8_e8m0fnu": numeric.Float8E8M0FNU,
}
_NUMPY_TYPES = {
    "bool": numeric.Boolean,
    "int8": numeric.Int8,
    "int16": numeric.Int16,
    "int32": numeric.Int32,
    "int64": numeric.Int64,
    "uint8": numeric.Uint8,
    "uint16": numeric.Uint16,
    "uint32": numeric.Uint32,
    "uint64": numeric.Uint64,
    "float16": numeric.Float16,
    "float32": numeric.Float32,
    "float64": numeric.Float64,
}


class _Calls(threading.local):
    """The framework tensors of the call in progress: their addresses are told from numbers by "
    "them."""

    tensors: list[Any] | None = None


CALLS = _Calls()


class SymInt:
    """A size that is known only when the program runs, with a width and a known divisor."""

    def __init__(self, width: int = 32, divisibility: int = 1, symbol: str | None = None) -> None:
        if width not in (32, 64):
            raise ValueError(f"SymInt: the width must be 32 or 64, got {width}")
        self.width = width
        self.divisibility = divisibility
        self.symbol = symbol

    def __mul__(self, other: Any) -> SymInt:
        factor = other.divisibility if isinstance(other, SymInt) else abs(int(other))
        width = max(self.width, other.width if isinstance(other, SymInt) else 32)
        return SymInt(width, self.divisibility * factor)

    __rmul__ = __mul__

    def __mod__(self, other: int) -> Any:
        return 0 if self.divisibility % other == 0 else self

    def __str__(self) -> str:
        notes = [f"i{self.width}"] + ([f"div={self.divisibility}"] if self.divisibility > 1 else [])
        return "?{" + " ".join(notes) + "}"

    __repr__ = __str__


def sym_int(
    width: int = 32, *, divisibility: int = 1, symbol: str | None = None, **_: Any
) -> SymInt:
    """A size that is known only when the program runs."""
    return SymInt(width, divisibility, symbol)


def sym_int32(divisibility: int = 1, **_: Any) -> SymInt:
    """A 32-bit size that is known only when the program runs."""
    return SymInt(32, divisibility)


def sym_int64(divisibility: int = 1, **_: Any) -> SymInt:
    """A 64-bit size that is known only when the program runs."""
    return SymInt(64, divisibility)


class _Facts:
    """Of one extent or stride, what the program may rely on: None is static, else a SymInt."""


class _Tensor:
    """A tensor of another framework, and which parts of its layout are dynamic."""

    #: A stand-in and the tensor that takes its place at a call are of one kind.
    __mkb_kind__ = "tensor"

    def __init__(
        self,
        source: Any,
        dtype: Any,
        shape: tuple[int, ...],
        stride: tuple[int, ...],
        address: int,
        space: AddressSpace,
        align: int,
        stride_width: int,
    ) -> None:
        self._source = source
        self._dtype = dtype
        self._shape = shape
        self._stride = stride
        self._address = address
        self._space = space
        self._align = align
        self._stride_width = stride_width
        self._shape_sym: tuple[SymInt | None, ...] = (None,) * len(shape)
        self._stride_sym: tuple[SymInt | None, ...] = (None,) * len(shape)

    # -- facts ------------------------------------------------------------------------------

    @property
    def element_type(self) -> Any:
        """The numeric type of an element."""
        return self._dtype

    @element_type.setter
    def element_type(self, dtype: Any) -> None:
        if dtype.width != self._dtype.width:
            raise DSLTypeError(f"element_type: {dtype} is not as wide as {self._dtype}")
        self._dtype = dtype

    @property
    def dtype(self) -> Any:
        """The numeric type of an element."""
        return self._dtype

    @property
    def memspace(self) -> AddressSpace:
        """`gmem` for device memory, `generic` for the host's."""
        return self._space

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._shape

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides in elements."""
        return self._stride

    @property
    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._address

    @property
    def iterator(self) -> _Pointer:
        """A pointer to the first element."""
        return _Pointer(self._address, self._dtype, self._space, self._align, self._source)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self._shape) * self._dtype.width // 8

    @property
    def leading_dim(self) -> Any:
        """The dimension of stride 1, if there is one."""
        found = [i for i, d in enumerate(self._stride) if d == 1]
        return found[0] if found else None

    @property
    def layout(self) -> Any:
        """Layouts exist only inside a traced function."""
        raise DSLRuntimeError(
            "the layout of a runtime tensor is available inside @cute.jit functions only"
        )

    @property
    def dynamic_shapes_mask(self) -> tuple[int, ...]:
        """1 for each dynamic extent."""
        return tuple(int(s is not None) for s in self._shape_sym)

    @property
    def dynamic_strides_mask(self) -> tuple[int, ...]:
        """1 for each dynamic stride."""
        return tuple(int(s is not None) for s in self._stride_sym)

    def fill(self, value: Any) -> None:
        """Fill the framework's tensor."""
        if hasattr(self._source, "fill_"):
            self._source.fill_(value)
        else:
            self._source.fill(value)

    def __str__(self) -> str:
        shape = ", ".join(map(str, self._shape)) + ("," if len(self._shape) == 1 else "")
        stride = ", ".join(map(str, self._stride)) + ("," if len(self._stride) == 1 else "")
        return f"Tensor<0x{self._address:016x}@{self._space} o ({shape}):({stride})>"

    __repr__ = __str__

    # -- marks ------------------------------------------------------------------------------

    def mark_layout_dynamic(self, leading_dim: int | None = None) -> _Tensor:
        """Every extent and stride becomes dynamic, but stride 1 of the leading dimension and 0.

        :raises ValueError: if the leading dimension cannot be deduced, or has another stride.
        """
        rank = len(self._shape)
        if leading_dim is None:
            ones = [i for i, d in enumerate(self._stride) if d == 1]
            if len(ones) > 1:
                ones = [i for i in ones if self._shape[i] > 1]
                if len(ones) != 1:
                    raise ValueError(
                        "Can't deduce the leading dimension from layout (multiple dimensions have "
                        f"stride 1 but {'none has' if not ones else 'more than one has'} size > "
                        "1), please specify the leading_dim explicitly"
                    )
            leading_dim = ones[0] if ones else None
        else:
            if not -rank <= leading_dim < rank:
                raise ValueError(
                    f"leading_dim {leading_dim} is outside a tensor of {rank} dimensions"
                )
            leading_dim %= rank
            if self._stride[leading_dim] != 1:
                raise ValueError(
                    f"Expected strides[leading_dim] == 1, but got {self._stride[leading_dim]}"
                )
        if self._stride_width == 32:
            last = sum((s - 1) * d for s, d in zip(self._shape, self._stride, strict=True))
            if last > 0x7FFFFFFF:
                raise ValueError(
                    "Layout has int32 overflow risk. Please set use_32bit_stride to False."
                )
        self._shape_sym = tuple(SymInt(32) for _ in self._shape)
        self._stride_sym = tuple(
            None if i == leading_dim or d == 0 else SymInt(self._stride_width)
            for i, d in enumerate(self._stride)
        )
        return self

    def mark_compact_shape_dynamic(
        self, mode: int, stride_order: tuple[int, ...] | None = None, divisibility: int = 1
    ) -> _Tensor:
        """One extent of a compact tensor becomes dynamic, and so do the strides that it scales.

        :raises ValueError: if the tensor is not compact in the order, or the order cannot be
        deduced.
        """
        rank = len(self._shape)
        if not -rank <= mode < rank:
            raise ValueError(f"mode {mode} is outside a tensor of {rank} dimensions")
        mode %= rank
        if self._shape[mode] % divisibility:
            raise ValueError(
                f"the extent {self._shape[mode]} of mode {mode} is no multiple of {divisibility}"
            )
        if stride_order is None:
            if sum(
                d == 1 and s != 1 for d, s in zip(self._stride, self._shape, strict=True)
            ) > 1 or (sum(d == 1 for d in self._stride) > 1):
                raise ValueError(
                    "mark_compact_shape_dynamic: several dimensions have stride 1; give "
                    "stride_order"
                )
            order = sorted(range(rank), key=lambda i: -self._stride[i])
        else:
            order = [int(i) for i in stride_order]
            if sorted(order) != list(range(rank)):
                raise ValueError(f"stride_order {stride_order} is no permutation of the dimensions")
        expected = 1
        for i in reversed(order):
            if self._shape[i] != 1 and self._stride[i] != expected:
                raise ValueError(
                    f"mark_compact_shape_dynamic: the layout {self._shape}:{self._stride} is not "
                    f"compact in the order {tuple(order)}"
                )
            expected *= self._shape[i]
        shapes = list(self._shape_sym)
        shapes[mode] = SymInt(32, divisibility)
        self._shape_sym = tuple(shapes)
        strides = list(self._stride_sym)
        running: Any = 1
        for i in reversed(order):
            if isinstance(running, SymInt):
                strides[i] = SymInt(self._stride_width, running.divisibility)
            extent = self._shape_sym[i]
            running = running * (extent if extent is not None else self._shape[i])
        self._stride_sym = tuple(strides)
        return self

    # -- passing ----------------------------------------------------------------------------

    def __mkb_split__(self) -> Any:
        """Frame and leaves: the address, then dynamic extents, then dynamic strides."""
        if CALLS.tensors is not None:
            CALLS.tensors.append(self)
        leaves: list[Any] = [Address(self._address)]
        static: list[Any] = []
        facts: list[Any] = []
        for value, sym in (
            *zip(self._shape, self._shape_sym, strict=True),
            *zip(self._stride, self._stride_sym, strict=True),
        ):
            static.append(value if sym is None else None)
            facts.append(None if sym is None else (sym.width, sym.divisibility))
            if sym is not None:
                if value % sym.divisibility:
                    raise DSLRuntimeError(
                        f"the size {value} is no multiple of the promised {sym.divisibility}"
                    )
                leaves.append((Int64 if sym.width == 64 else Int32)(value))
        dtype, space, align, rank = self._dtype, self._space, self._align, len(self._shape)
        if self._address % align:
            raise DSLRuntimeError(
                f"the tensor's address 0x{self._address:x} is not aligned to the promised "
                f"{align} bytes"
            )

        def make(parts: list[Any]) -> Tensor:
            rest = list(parts)
            base = rest.pop(0)
            filled = []
            for known, fact in zip(static, facts, strict=True):
                if fact is None:
                    filled.append(known)
                else:
                    filled.append(rest.pop(0).assume(fact[1], True))
            shape, stride = tuple(filled[:rank]), tuple(filled[rank:])
            return Tensor(Pointer(base._v, dtype, space, align), Layout(shape, stride))

        return (dtype, space, align, tuple(static), tuple(facts)), leaves, make

    def conform(self, template: Any) -> _Tensor:
        """This tensor with the static and dynamic parts of `template`.

        :raises DSLRuntimeError: if a part that is static there differs here.
        """
        if self._dtype is not template._dtype:
            raise DSLRuntimeError(f"expected a tensor of {template._dtype}, got {self._dtype}")
        if len(self._shape) != len(template._shape):
            raise DSLRuntimeError(
                f"expected a tensor of {len(template._shape)} dimensions, got {len(self._shape)}"
            )
        if self._space is not template._space:
            raise DSLRuntimeError(
                f"expected a tensor in {template._space}, got one in {self._space}"
            )
        for what, mine, theirs, syms in (
            ("shape", self._shape, template._shape, template._shape_sym),
            ("stride", self._stride, template._stride, template._stride_sym),
        ):
            for i, (a, b, sym) in enumerate(zip(mine, theirs, syms, strict=True)):
                if sym is None and a != b and not (what == "stride" and self._shape[i] == 1):
                    raise DSLRuntimeError(
                        f"the function was compiled for {what}[{i}] = {b}, got {a}: compile it "
                        "again, or mark the dimension dynamic"
                    )
        out = _Tensor(
            self._source,
            self._dtype,
            self._shape,
            self._stride,
            self._address,
            self._space,
            template._align,
            template._stride_width,
        )
        out._shape_sym, out._stride_sym = template._shape_sym, template._stride_sym
        # A dimension of one element has any stride: take the one that the program knows.
        out._stride = tuple(
            b if sym is None else a
            for a, b, sym in zip(self._stride, template._stride, template._stride_sym, strict=True)
        )
        return out


class _FakeTensor(_Tensor):
    """A stand-in for a tensor: type and layout without data, to compile with."""

    def __init__(
        self,
        dtype: Any,
        shape: Any,
        *,
        stride: Any,
        memspace: AddressSpace = AddressSpace.gmem,
        assumed_align: int | None = None,
        use_32bit_stride: bool = False,
    ) -> None:
        if len(shape) != len(stride):
            raise ValueError(f"a fake tensor of {len(shape)} extents has {len(stride)} strides")
        align = assumed_align or max(1, dtype.width // 8)
        super().__init__(
            None,
            dtype,
            tuple(s.divisibility if isinstance(s, SymInt) else int(s) for s in shape),
            tuple(s.divisibility if isinstance(s, SymInt) else int(s) for s in stride),
            0,
            memspace,
            align,
            32 if use_32bit_stride else 64,
        )
        self._shape_sym = tuple(s if isinstance(s, SymInt) else None for s in shape)
        self._stride_sym = tuple(s if isinstance(s, SymInt) else None for s in stride)
        self._given = (tuple(shape), tuple(stride))

    @property
    def shape(self) -> Any:
        """The extents, symbols among them."""
        return self._given[0]

    @property
    def stride(self) -> Any:
        """The strides, symbols among them."""
        return self._given[1]

    @property
    def iterator(self) -> Any:
        """A stand-in has no data."""
        raise DSLRuntimeError("a fake tensor has no data")

    def fill(self, value: Any) -> None:
        """A stand-in has no data."""
        raise DSLRuntimeError("a fake tensor has no data")

    def __str__(self) -> str:
        return f"FakeTensor<{self._dtype}, {self._given[0]}, {self._given[1]}>"

    __repr__ = __str__


def make_fake_tensor(
    dtype: Any,
    shape: Any,
    stride: Any,
    *,
    memspace: AddressSpace = AddressSpace.gmem,
    assumed_align: int | None = None,
    **_: Any,
) -> _FakeTensor:
    """A stand-in for a tensor with the given strides."""
    return _FakeTensor(dtype, shape, stride=stride, memspace=memspace, assumed_align=assumed_align)


def make_fake_compact_tensor(
    dtype: Any,
    shape: Any,
    *,
    stride_order: tuple[int, ...] | None = None,
    memspace: AddressSpace = AddressSpace.gmem,
    assumed_align: int | None = None,
    use_32bit_stride: bool = False,
    **_: Any,
) -> _FakeTensor:
    """A stand-in for a compact tensor; in `stride_order`, 0 is the fastest dimension."""
    rank = len(shape)
    order = tuple(range(rank)) if stride_order is None else tuple(stride_order)
    if sorted(order) != list(range(rank)):
        raise ValueError(f"stride_order {stride_order} is no permutation of {rank} dimensions")
    stride: list[Any] = [0] * rank
    running: Any = 1
    for place in range(rank):
        i = order.index(place)
        if isinstance(running, SymInt):
            stride[i] = SymInt(32 if use_32bit_stride else 64, running.divisibility)
        else:
            stride[i] = running
        running = shape[i] * running if isinstance(shape[i], SymInt) else running * shape[i]
    return _FakeTensor(
        dtype,
        shape,
        stride=tuple(stride),
        memspace=memspace,
        assumed_align=assumed_align,
        use_32bit_stride=use_32bit_stride,
    )


class _FakeStream:
    """A stand-in for a stream."""

    __mkb_kind__ = "stream"

    def __mkb_split__(self) -> Any:
        return "stream", [], lambda _: self


def make_fake_stream(**_: Any) -> _FakeStream:
    """A stand-in for a stream."""
    return _FakeStream()


class _Pointer:
    """An address that the host passes."""

    def __init__(
        self,
        pointer: int,
        dtype: Any,
        mem_space: AddressSpace = AddressSpace.generic,
        assumed_align: int | None = None,
        source: Any = None,
    ) -> None:
        self._address = int(pointer)
        self._dtype = dtype
        self._space = mem_space
        self._align = assumed_align or max(1, dtype.width // 8)
        self._source = source

    @property
    def dtype(self) -> Any:
        """The type of an element."""
        return self._dtype

    @property
    def memspace(self) -> AddressSpace:
        """The space it points into."""
        return self._space

    @property
    def alignment(self) -> int:
        """Bytes that are promised to divide the address."""
        return self._align

    def align(self, min_align: int, **_: Any) -> _Pointer:
        """The pointer with another promise."""
        return _Pointer(self._address, self._dtype, self._space, min_align, self._source)

    def size_in_bytes(self) -> int:
        """Bytes of the pointer."""
        return 8

    def conform(self, template: _Pointer) -> _Pointer:
        """The address with the promises of `template`, which are checked at the call."""
        if self._dtype is not template._dtype:
            raise DSLRuntimeError(
                f"expected a pointer to {template._dtype}, got one to {self._dtype}"
            )
        return _Pointer(
            self._address, template._dtype, template._space, template._align, self._source
        )

    def __mkb_split__(self) -> Any:
        if CALLS.tensors is not None:
            CALLS.tensors.append(self)
        if self._address % self._align:
            raise DSLRuntimeError(
                f"the address 0x{self._address:x} is not aligned to the promised {self._align} "
                "bytes"
            )
        dtype, space, align = self._dtype, self._space, self._align
        return (
            (dtype, space, align),
            [Address(self._address)],
            lambda parts: Pointer(parts[0]._v, dtype, space, align),
        )

    def __str__(self) -> str:
        return f"Ptr<0x{self._address:016x}@{self._space}>"

    __repr__ = __str__


def make_ptr(
    dtype: Any,
    value: Any,
    mem_space: AddressSpace = AddressSpace.generic,
    assumed_align: int | None = None,
    **_: Any,
) -> Any:
    """A pointer that the host passes; within a trace, a pointer at that address."""
    from .._ir import current

    if current() is not None:
        from ._memory import make_ptr as make_traced

        return make_traced(dtype, value, mem_space, assumed_align=assumed_align)
    if isinstance(value, Numeric):
        raise DSLTypeError("make_ptr: the address must be a Python int outside a trace")
    if not isinstance(value, int):
        value = getattr(value, "value", value)
    return _Pointer(int(value or 0), dtype, mem_space, assumed_align)


def nullptr(dtype: Any, mem_space: AddressSpace = AddressSpace.generic, **_: Any) -> Any:
    """The null pointer."""
    return make_ptr(dtype, 0, mem_space, 1)


def from_dlpack(
    tensor: Any,
    assumed_align: int | None = None,
    use_32bit_stride: bool = False,
    *,
    enable_tvm_ffi: bool = False,
    **_: Any,
) -> _Tensor:
    """A view of a torch tensor, NumPy array or any DLPack tensor, with a static layout.

    :param assumed_align: bytes that are promised to divide the address; checked at each call.
    """
    name = type(tensor).__module__.split(".")[0]
    if name == "numpy":
        kind = _NUMPY_TYPES.get(tensor.dtype.name)
        size = tensor.dtype.itemsize
        if kind is None or any(s % size for s in tensor.strides):
            raise DSLTypeError(f"from_dlpack: a NumPy array of {tensor.dtype} has no CuTe type")
        stride = tuple(s // size for s in tensor.strides)
        address, space = tensor.ctypes.data, AddressSpace.generic
        shape = tuple(tensor.shape)
    else:
        if not hasattr(tensor, "data_ptr") or name != "torch":
            if not hasattr(tensor, "__dlpack__"):
                raise DSLTypeError(f"from_dlpack: {type(tensor).__name__} has no __dlpack__")
            import torch

            tensor = torch.from_dlpack(tensor)
        kind = _TORCH_TYPES.get(str(tensor.dtype))
        if kind is None:
            raise DSLTypeError(f"from_dlpack: a torch tensor of {tensor.dtype} has no CuTe type")
        if tensor.requires_grad:
            raise DSLTypeError("from_dlpack: the tensor requires grad; pass tensor.detach()")
        shape, stride = tuple(tensor.shape), tuple(tensor.stride())
        address = tensor.data_ptr()
        space = AddressSpace.gmem if tensor.device.type == "cuda" else AddressSpace.generic
    align = assumed_align or max(1, kind.width // 8)
    if address % align:
        raise ValueError(f"from_dlpack: the address 0x{address:x} is not aligned to {align} bytes")
    return _Tensor(
        tensor, kind, shape, stride, address, space, align, 32 if use_32bit_stride else 64
    )


def is_framework_tensor(x: Any) -> bool:
    """Whether `x` is a tensor that a call converts by itself."""
    module = type(x).__module__.split(".")[0]
    if module == "numpy":
        return hasattr(x, "ctypes") and hasattr(x, "strides")
    return hasattr(x, "__dlpack__") and not isinstance(x, _Tensor)


def from_framework(x: Any) -> _Tensor:
    """A tensor passed as it is: its layout is dynamic but for the leading dimension."""
    tensor = from_dlpack(x)
    return tensor.mark_layout_dynamic() if tensor._shape else tensor
