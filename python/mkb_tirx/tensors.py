"""TVM tensors on the CUDA device, which here is torch's arena."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
import tvm
import tvm_ffi
from tvm.runtime import _ffi_api

from .device import device_info

_CUDA = 2
#: `runtime.GetDeviceAttr` kinds (tvm/runtime/device_api.h, DeviceAttrKind).
_EXIST, _MAX_THREADS, _WARP, _SHARED, _VERSION, _NAME, _CLOCK, _SMS = range(8)
_REGISTERS, _L2, _TOTAL, _AVAILABLE = 9, 13, 14, 15


def as_torch(value: Any) -> torch.Tensor | None:
    """An argument as a torch tensor on the device, sharing memory; `None` for what is none."""
    if isinstance(value, torch.Tensor):
        return value if value.device.type == "cuda" else None
    if isinstance(value, tvm_ffi.core.Tensor) and _on_cuda(value):
        return _bytes_of(value)
    return None


def _on_cuda(tensor: Any) -> bool:
    return tensor.device.dlpack_device_type() == _CUDA


def _bytes_of(tensor: Any) -> torch.Tensor:
    """A TVM tensor's memory as bytes."""
    size = _byte_size(tensor.shape, tvm_ffi.dtype(tensor.dtype))
    view = _ffi_api.TVMTensorCreateView(tensor, tvm_ffi.Shape([size]), tvm_ffi.dtype("uint8"), 0)
    return torch.utils.dlpack.from_dlpack(view)


def _byte_size(shape: Any, dtype: Any) -> int:
    count = 1
    for extent in shape:
        count *= int(extent)
    return (count * dtype.bits * dtype.lanes + 7) // 8


def _from_host(data: ctypes.c_void_p, size: int) -> torch.Tensor:
    buffer = (ctypes.c_uint8 * size).from_address(data.value or 0)
    return (
        torch.frombuffer(buffer, dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
    )


def patch_tensors() -> None:
    """Makes `tvm.runtime.tensor(..., device=tvm.cuda(0))`, `.numpy()` and copies work."""
    alloc, copy_in = _ffi_api.TVMTensorAllocWithScope, _ffi_api.TVMTensorCopyFromBytes
    copy_out, copy = _ffi_api.TVMTensorCopyToBytes, _ffi_api.TVMTensorCopyFromTo
    attribute = _ffi_api.GetDeviceAttr

    def alloc_cuda(shape: Any, dtype: Any, device: Any, scope: Any = None) -> Any:
        if device.dlpack_device_type() != _CUDA:
            return alloc(shape, dtype, device, scope)
        size = _byte_size(shape, tvm_ffi.dtype(dtype))
        memory = torch.empty(size, dtype=torch.uint8, device="cuda")
        flat = tvm_ffi.from_dlpack(memory)
        return _ffi_api.TVMTensorCreateView(flat, shape, tvm_ffi.dtype(dtype), 0)

    def copy_from_bytes(tensor: Any, data: Any, size: int) -> None:
        if not _on_cuda(tensor):
            return copy_in(tensor, data, size)
        _bytes_of(tensor).copy_(_from_host(data, size))
        return None

    def copy_to_bytes(tensor: Any, data: Any, size: int) -> None:
        if not _on_cuda(tensor):
            return copy_out(tensor, data, size)
        _from_host(data, size).copy_(_bytes_of(tensor))
        return None

    def copy_between(source: Any, target: Any) -> None:
        if not (_on_cuda(source) or _on_cuda(target)):
            return copy(source, target)
        _bytes_of(target).copy_(_bytes_of(source))
        return None

    def device_attribute(kind: int, number: int, which: int) -> Any:
        if kind != _CUDA:
            return attribute(kind, number, which)
        info = device_info()
        major, minor = info.capability
        answers: dict[int, Any] = {
            _EXIST: int(number == 0),
            _MAX_THREADS: 1024,
            _WARP: 32,
            _SHARED: info.shared_per_block,
            _VERSION: f"{major}.{minor}",
            _NAME: info.name,
            _CLOCK: info.clock_khz,
            _SMS: info.sm_count,
            _REGISTERS: 65_536,
            _L2: info.l2_bytes,
            _TOTAL: info.total_memory,
            _AVAILABLE: info.total_memory,
        }
        return answers.get(which)

    _ffi_api.TVMTensorAllocWithScope = alloc_cuda
    _ffi_api.TVMTensorCopyFromBytes = copy_from_bytes
    _ffi_api.TVMTensorCopyToBytes = copy_to_bytes
    _ffi_api.TVMTensorCopyFromTo = copy_between
    _ffi_api.GetDeviceAttr = device_attribute
    tvm.runtime.Device.sync = lambda _device, _stream=None: None
