"""The extension's C functions, with Python types and exceptions."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .paths import EXTENSION, site_packages


class ShimError(RuntimeError):
    """Something that the virtual GPU's side of torch refuses; the message says what."""


class DeviceFault(ShimError):
    """A kernel did what it must not: bounds, alignment, deadlock, trap, assertion, step budget."""


class Incomplete(ShimError):
    """The virtual GPU does not model an operation; the message names it."""


class BadRequest(ShimError):
    """A module or a launch that the virtual GPU cannot accept."""


class DeviceLost(ShimError):
    """The virtual GPU's process is gone."""


class TapeError(ShimError):
    """A tape that is not as its format says, or that does not play."""


#: Status of the C functions -> exception; 0 is success.
_ERRORS: dict[int, type[ShimError]] = {
    1: DeviceFault,
    2: Incomplete,
    3: BadRequest,
    4: DeviceLost,
    5: TapeError,
    6: ShimError,
}

U64 = ctypes.c_uint64


def _load() -> ctypes.CDLL:
    import torch  # noqa: F401 (its libraries must be there first)

    path: Path = site_packages() / EXTENSION
    if not path.exists():
        raise ShimError(f"{path} is missing: run `python -m mkb_shim.build`")
    library = ctypes.CDLL(str(path))
    pointer = ctypes.POINTER(U64)
    text, size = ctypes.c_char_p, ctypes.c_size_t
    for name, result, arguments in (
        ("mkb_text", ctypes.c_void_p, [ctypes.POINTER(size)]),
        ("mkb_install", ctypes.c_int, []),
        ("mkb_memory_trim", None, []),
        ("mkb_memory_poison_new", None, [ctypes.c_int]),
        ("mkb_tape_open", ctypes.c_int, [ctypes.c_int]),
        ("mkb_tape_on", ctypes.c_int, []),
        ("mkb_tape_flush", ctypes.c_int64, []),
        ("mkb_tape_append", None, [ctypes.c_int, text, size]),
        ("mkb_tape_locate", ctypes.c_int, [U64, ctypes.c_int, pointer, pointer, pointer]),
        ("mkb_device_connect", None, [ctypes.c_int]),
        (
            "mkb_module_load",
            ctypes.c_int,
            [ctypes.c_int, text, size, ctypes.c_int, text, size, pointer],
        ),
        (
            "mkb_launch",
            ctypes.c_int,
            [U64, text, text, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32, text, size],
        ),
        (
            "mkb_play",
            ctypes.c_int,
            [text, U64, pointer, ctypes.POINTER(ctypes.c_int), pointer, pointer],
        ),
        ("mkb_play_bind", None, [U64, U64, U64]),
        ("mkb_play_forget", None, [U64]),
        ("mkb_play_remember", None, []),
        ("mkb_play_go_back", None, []),
        ("mkb_play_bind_module", None, [U64, U64]),
        ("mkb_play_resolve", ctypes.c_int, [U64, pointer, pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The loaded extension."""
    global _library
    if _library is None:
        _library = _load()
    return _library


def result_text() -> bytes:
    """What the last call on this thread left as its result or message."""
    size = ctypes.c_size_t()
    data = library().mkb_text(ctypes.byref(size))
    return ctypes.string_at(data, size.value) if size.value else b""


def check(status: int) -> None:
    """Raises the exception that `status` stands for."""
    if status != 0:
        sys.stdout.flush()
        raise _ERRORS.get(status, ShimError)(result_text().decode(errors="replace"))


@contextlib.contextmanager
def unpoisoned() -> Iterator[None]:
    """Neither new nor freed memory is poisoned."""
    library().mkb_memory_poison_new(0)
    try:
        yield
    finally:
        library().mkb_memory_poison_new(1)


def locate(address: int, *, announce: bool) -> tuple[int, int, int, bool]:
    """Where an address stands: allocation serial (0: none), offset, size, new to the tape."""
    serial, offset, size = U64(), U64(), U64()
    fresh = library().mkb_tape_locate(
        address, int(announce), ctypes.byref(serial), ctypes.byref(offset), ctypes.byref(size)
    )
    return serial.value, offset.value, size.value, bool(fresh)


def load_module(
    tape_format: int, tape_source: bytes, device_format: int, device_source: bytes
) -> tuple[int, list[tuple[str, tuple[int, ...]]]]:
    """Loads a module; its number, and each kernel's name with its parameters' sizes."""
    number = U64()
    check(
        library().mkb_module_load(
            tape_format,
            tape_source,
            len(tape_source),
            device_format,
            device_source,
            len(device_source),
            ctypes.byref(number),
        )
    )
    kernels, rest = [], result_text()
    while rest:
        name, _, rest = rest.partition(b"\0")
        count = rest[0]
        kernels.append((name.decode(), tuple(rest[1 : 1 + count])))
        rest = rest[1 + count :]
    return number.value, kernels


def launch(
    module: int,
    kernel: str,
    dsl: str,
    dims: Sequence[int],
    dynamic_shared_bytes: int,
    arguments: bytes,
) -> str:
    """Launches; what the kernel printed. `arguments` as `mkb_launch` in native/api.cpp wants."""
    if any(not 0 <= value < 1 << 32 for value in (*dims, dynamic_shared_bytes)):
        raise BadRequest(f"{kernel}: a launch dimension is negative or over 32 bits")
    check(
        library().mkb_launch(
            module,
            kernel.encode(),
            dsl.encode(),
            (ctypes.c_uint32 * 9)(*dims),
            dynamic_shared_bytes,
            arguments,
            len(arguments),
        )
    )
    return result_text().decode(errors="replace")
