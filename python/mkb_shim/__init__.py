"""torch on the virtual GPU: tensors that say `cuda` and live in the arena.

`install()` once before any other use. Operations on such tensors run torch's CPU kernels on the
same memory; each is recorded on the tape, and so are modules and launches, which go to the device.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .native import (
    BadRequest,
    DeviceFault,
    DeviceLost,
    Incomplete,
    ShimError,
    TapeError,
)

__all__ = [
    "Argument",
    "BadRequest",
    "DeviceFault",
    "DeviceLost",
    "Incomplete",
    "Kernel",
    "ModuleHandle",
    "ShimError",
    "TapeError",
    "install",
    "launch",
    "load_module",
    "prepare",
]

#: Formats of `load_module`: IR text, sent on as it is; TIRx with its target, lowered first.
FORMAT_IR_TEXT, FORMAT_TIRX = 0, 2
_DEVICE_TIRX = 1

_prepared = _installed = False


def prepare() -> None:
    """The part of `install` that may come before a fork: no memory, no device, no thread."""
    global _prepared
    if _prepared:
        return
    # Each tensor is an allocation of its own, so that the device can check its bounds.
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch

    from . import native

    native.check(native.library().mkb_install())
    # Results depend on the number of threads; and a process with a pool cannot fork.
    torch.set_num_threads(1)
    torch.backends.cudnn.enabled = False
    _prepared = True


def install(
    *, device_fd: int | None = None, tape_fd: int | None = None, arena_fd: int | None = None
) -> None:
    """Makes `torch.cuda` work on the arena, as device 0. Calls after the first do nothing.

    Without `arena_fd` (or MKB_ARENA_FD) the process has an arena of its own. `device_fd` is the
    socket of a virtual GPU: without one, launches are refused. `tape_fd` is a file to record to.
    """
    global _installed
    if _installed:
        return
    if arena_fd is not None:
        os.environ["MKB_ARENA_FD"] = str(arena_fd)
    prepare()
    import torch

    from . import native

    torch.cuda.init()
    if device_fd is not None:
        native.library().mkb_device_connect(device_fd)
    if tape_fd is not None and native.library().mkb_tape_open(tape_fd) != 0:
        raise ShimError(f"cannot record to file descriptor {tape_fd}")
    _installed = True


@dataclass(frozen=True)
class Kernel:
    """A kernel of a module, with the sizes of its parameters in bytes."""

    name: str
    parameter_sizes: tuple[int, ...]


@dataclass(frozen=True)
class ModuleHandle:
    """A module that the device holds."""

    number: int
    kernels: tuple[Kernel, ...]

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; `BadRequest` if there is none."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        known = ", ".join(kernel.name for kernel in self.kernels)
        raise BadRequest(f"the module has no kernel {name!r}; it has: {known}")


def load_module(format: int, source: bytes) -> ModuleHandle:
    """Hands a module to the device and puts it on the tape.

    `format` 0 is the virtual GPU's IR text; 2 a TIRx module as `mkb_tirx` envelopes it, which is
    lowered for the device here and again wherever the tape is played.
    """
    from . import native

    if format == FORMAT_IR_TEXT:
        device_format, device_source = FORMAT_IR_TEXT, source
    elif format == FORMAT_TIRX:
        import mkb_tirx

        device_format, device_source = _DEVICE_TIRX, mkb_tirx.lower(source)
    else:
        raise BadRequest(f"module format {format} is none of {FORMAT_IR_TEXT}, {FORMAT_TIRX}")
    number, kernels = native.load_module(format, source, device_format, device_source)
    return ModuleHandle(number, tuple(Kernel(name, sizes) for name, sizes in kernels))


#: ("ptr", tensor, byte offset), ("bytes", data), or ("struct", data, pointers), where each pointer
#: is (position in data, tensor, byte offset).
Argument: TypeAlias = (
    "tuple[Literal['ptr'], object, int] | tuple[Literal['bytes'], bytes] "
    "| tuple[Literal['struct'], bytes, Sequence[tuple[int, object, int]]]"
)


def launch(
    module: ModuleHandle,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    cluster: Sequence[int] | None,
    dynamic_shared_bytes: int,
    args: Sequence[Argument],
    dsl: str,
) -> str:
    """Runs a kernel and returns what it printed. Raises `DeviceFault` or `Incomplete`.

    Dimensions are x, y, z; those that are left out count as 1. The launch is on the tape before it
    runs.
    """
    from . import native

    dims = [*_three(grid, "grid"), *_three(block, "block"), *_three(cluster or (), "cluster")]
    encoded = bytearray()
    for argument in args:
        _encode_argument(encoded, argument)
    return native.launch(module.number, kernel, dsl, dims, dynamic_shared_bytes, bytes(encoded))


def _three(dims: Sequence[int], what: str) -> list[int]:
    if len(dims) > 3:
        raise BadRequest(f"{what} has {len(dims)} dimensions; at most 3")
    return [int(value) for value in dims] + [1] * (3 - len(dims))


def _encode_argument(out: bytearray, argument: Argument) -> None:
    from .values import put_bytes, put_varint

    match argument:
        case ("ptr", tensor, offset):
            data, pointers = bytes(8), [(0, tensor, offset)]
        case ("bytes", data):
            pointers = []
        case ("struct", data, pointers):
            pass
        case _:
            raise BadRequest(f"a kernel argument is no (kind, ...) tuple: {argument!r}")
    put_bytes(out, bytes(data))
    put_varint(out, len(pointers))
    for position, tensor, offset in pointers:
        put_varint(out, position)
        out += (_address(tensor) + offset & (1 << 64) - 1).to_bytes(8, "little")


def _address(tensor: object) -> int:
    """The device address of a tensor's first element."""
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cuda":
        where = tensor.device if isinstance(tensor, torch.Tensor) else type(tensor).__qualname__
        raise BadRequest(f"a pointer argument must be a tensor on cuda, not {where}")
    return tensor.data_ptr()
