"""Values on the tape (docs/tape.md), written and read in Python: the trees of BEGIN and END."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import torch

from . import native

TAG_NONE, TAG_TENSOR, TAG_HOST_TENSOR, TAG_UNDEFINED, TAG_INT, TAG_DOUBLE = range(6)
TAG_BOOL, TAG_STRING, TAG_COMPLEX, TAG_LIST, TAG_DEVICE, TAG_GENERATOR = range(6, 12)
TAG_SAME, TAG_DICT, TAG_TUPLE, TAG_OTHER, TAG_HOST_RESULT = range(12, 17)
FLAG_CONJUGATE, FLAG_NEGATIVE, FLAG_BORN = 2, 4, 8

#: Codes of torch's scalar types as its C++ side numbers them (c10::ScalarType).
DTYPES: dict[int, torch.dtype] = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    8: torch.complex32,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
    25: torch.float8_e5m2fnuz,
    26: torch.float8_e4m3fnuz,
    27: torch.uint16,
    28: torch.uint32,
    29: torch.uint64,
    44: torch.float8_e8m0fnu,
    45: torch.float4_e2m1fn_x2,
}
DTYPE_CODES = {dtype: code for code, dtype in DTYPES.items()}

#: Trees deeper than this are refused, in both directions.
DEEPEST = 64


@dataclass(frozen=True)
class TensorAt:
    """A device tensor on the tape: its allocation, byte offset there, strides in elements."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    serial: int
    offset: int
    flags: int = 0


@dataclass(frozen=True)
class Other:
    """Anything that has no form on the tape: its qualified type name."""

    type: str


def type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def put_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_bytes(out: bytearray, data: bytes) -> None:
    put_varint(out, len(data))
    out += data


def is_plain_tensor(value: object) -> bool:
    """Exactly `torch.Tensor`, strided, on the virtual GPU, of a type that the tape knows."""
    return (
        type(value) is torch.Tensor
        and value.device.type == "cuda"
        and value.layout is torch.strided
        and value.dtype in DTYPE_CODES
    )


def encode(out: bytearray, value: Any, *, born: bool, depth: int = 0) -> None:
    """Appends `value`. With `born`, allocations new to the tape are born here, else announced."""
    if depth > DEEPEST:
        raise native.TapeError(f"a value is nested deeper than {DEEPEST}")
    kind = type(value)
    if is_plain_tensor(value):
        _encode_tensor(out, value, born)
    elif value is None:
        out.append(TAG_NONE)
    elif kind is bool:
        out += bytes((TAG_BOOL, value))
    elif kind is int and -(1 << 63) <= value < 1 << 63:
        out.append(TAG_INT)
        put_varint(out, -2 * value - 1 if value < 0 else 2 * value)
    elif kind is float:
        out.append(TAG_DOUBLE)
        out += struct.pack("<d", value)
    elif kind is complex:
        out.append(TAG_COMPLEX)
        out += struct.pack("<dd", value.real, value.imag)
    elif kind is str:
        out.append(TAG_STRING)
        put_bytes(out, value.encode(errors="replace"))
    elif kind is list or kind is tuple:
        out.append(TAG_LIST if kind is list else TAG_TUPLE)
        put_varint(out, len(value))
        for item in value:
            encode(out, item, born=born, depth=depth + 1)
    elif kind is dict:
        out.append(TAG_DICT)
        put_varint(out, len(value))
        for key, item in value.items():
            encode(out, key, born=born, depth=depth + 1)
            encode(out, item, born=born, depth=depth + 1)
    else:
        out.append(TAG_OTHER)
        put_bytes(out, type_name(value).encode())


def _encode_tensor(out: bytearray, tensor: torch.Tensor, born: bool) -> None:
    base = tensor.untyped_storage().data_ptr()
    serial, offset, size, fresh = native.locate(base, announce=not born)
    flags = FLAG_BORN if fresh else 0
    flags |= FLAG_CONJUGATE if tensor.is_conj() else 0
    flags |= FLAG_NEGATIVE if tensor.is_neg() else 0
    out += bytes((TAG_TENSOR, flags, DTYPE_CODES[tensor.dtype]))
    put_varint(out, tensor.dim())
    for length in tensor.shape:
        put_varint(out, length)
    for stride in tensor.stride():
        put_varint(out, stride)
    put_varint(out, serial)
    put_varint(out, offset + tensor.storage_offset() * tensor.element_size())
    if fresh:
        put_varint(out, size)


class Decoder:
    """Reads values from bytes that nobody vouches for; raises `TapeError`."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise native.TapeError("a value ends too early")
        taken = self.data[self.at : self.at + size]
        self.at += size
        return taken

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise native.TapeError("a number is too long")
        if value >= 1 << 64:
            raise native.TapeError("a number is too long")
        return value

    def count(self) -> int:
        value = self.varint()
        if value > len(self.data) - self.at:
            raise native.TapeError("a count is larger than its entry")
        return value

    def text(self) -> str:
        return self.take(self.varint()).decode(errors="replace")

    def value(self, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise native.TapeError(f"a value is nested deeper than {DEEPEST}")
        tag = self.take(1)[0]
        if tag == TAG_NONE:
            return None
        if tag == TAG_TENSOR:
            return self._tensor()
        if tag == TAG_INT:
            raw = self.varint()
            return raw >> 1 if raw & 1 == 0 else -(raw >> 1) - 1
        if tag == TAG_DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if tag == TAG_COMPLEX:
            return complex(*struct.unpack("<dd", self.take(16)))
        if tag == TAG_BOOL:
            return self.take(1)[0] != 0
        if tag == TAG_STRING:
            return self.text()
        if tag in (TAG_LIST, TAG_TUPLE):
            items = [self.value(depth + 1) for _ in range(self.count())]
            return items if tag == TAG_LIST else tuple(items)
        if tag == TAG_DICT:
            # Pairs, not a dict: keys may be of any kind here.
            return Pairs(
                [(self.value(depth + 1), self.value(depth + 1)) for _ in range(self.count())]
            )
        if tag == TAG_OTHER:
            return Other(self.text())
        raise native.TapeError(f"a value has tag {tag}, which does not belong here")

    def _tensor(self) -> TensorAt:
        flags, code = self.take(2)
        if code not in DTYPES:
            raise native.TapeError(f"a tensor has the unknown type {code}")
        dims = self.varint()
        if dims > 64:
            raise native.TapeError("a tensor has more than 64 dimensions")
        sizes = tuple(self.varint() for _ in range(dims))
        strides = tuple(self.varint() for _ in range(dims))
        serial, offset = self.varint(), self.varint()
        if flags & FLAG_BORN:
            self.varint()
        return TensorAt(DTYPES[code], sizes, strides, serial, offset, flags)


@dataclass(frozen=True)
class Pairs:
    """A dict of the tape, in its order."""

    items: list[tuple[Any, Any]]
