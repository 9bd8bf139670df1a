"""Owns `cutlass.utils`: allocation of shared memory, and small helpers of kernels."""

from __future__ import annotations

import enum
from typing import Any

from .._errors import DSLTypeError, not_supported
from .._ir import Builder, device_builder
from .._numeric import Numeric, Uint8
from ..cute._dynamic import is_int
from ..cute._layout_type import ComposedLayout, Layout
from ..cute._memory import AddressSpace, Pointer
from ..cute._modes import cosize, make_composed_layout, make_layout
from ..cute._struct import struct
from ..cute._tensor import Tensor, make_tensor

#: Alignment of the first byte of dynamic shared memory.
SMEM_BASE_ALIGNMENT = 1024

#: Shared memory that one block may use, in bytes (CUDA programming guide, compute capabilities).
_SMEM_CAPACITY = {
    "sm_80": 163 * 1024,
    "sm_86": 99 * 1024,
    "sm_89": 99 * 1024,
    "sm_90": 227 * 1024,
    "sm_100": 227 * 1024,
    "sm_103": 227 * 1024,
    "sm_120": 99 * 1024,
}


def shared_allocation(b: Builder, size: int, align: int) -> int:
    """Reserve `size` bytes of the kernel's dynamic shared memory; gives their offset."""
    if align <= 0 or align & (align - 1):
        raise ValueError(f"an alignment must be a power of two, got {align}")
    offset = -(-b.dynamic_shared // align) * align
    b.dynamic_shared = offset + size
    return offset


class SmemAllocator:
    """Hands out shared memory of the block, one piece after the other."""

    def __init__(self, **_: Any) -> None:
        self._builder = device_builder("SmemAllocator")

    def allocate(self, size_or_type: Any, byte_alignment: int = 1, **_: Any) -> Any:
        """A struct, a scalar (its pointer), or a number of bytes (a pointer to them)."""
        if isinstance(size_or_type, struct):
            align = max(byte_alignment, size_or_type.__alignof__())
            return size_or_type(self._take(size_or_type.__sizeof__(), align))
        if isinstance(size_or_type, type) and issubclass(size_or_type, Numeric):
            size = max(1, size_or_type.width // 8)
            return self._take(size, max(byte_alignment, size)).with_dtype(size_or_type)
        if isinstance(size_or_type, Numeric) or not isinstance(size_or_type, int):
            raise DSLTypeError(
                "SmemAllocator.allocate takes a struct, a numeric type or bytes, got "
                f"{size_or_type!r}"
            )
        if size_or_type < 0:
            raise ValueError(f"SmemAllocator.allocate: negative size {size_or_type}")
        return self._take(size_or_type, byte_alignment)

    def allocate_array(
        self, element_type: Any, num_elems: int = 1, byte_alignment: int | None = None, **_: Any
    ) -> Any:
        """A pointer to `num_elems` elements."""
        if not isinstance(num_elems, int) or num_elems < 0:
            raise DSLTypeError(
                f"SmemAllocator.allocate_array: num_elems must be a static int, got {num_elems!r}"
            )
        size = max(1, element_type.width // 8)
        bytes_needed = element_type.width * num_elems // 8
        return self._take(bytes_needed, byte_alignment or size).with_dtype(element_type)

    def allocate_tensor(
        self,
        element_type: Any,
        layout: Any,
        byte_alignment: int = 1,
        swizzle: Any = None,
        **_: Any,
    ) -> Tensor:
        """A tensor of the given layout."""
        if not isinstance(layout, Layout | ComposedLayout):
            layout = make_layout(layout)
        if not layout.is_static():
            raise DSLTypeError(
                f"SmemAllocator.allocate_tensor: the layout must be static, got {layout}"
            )
        if swizzle is not None:
            layout = make_composed_layout(swizzle, 0, layout)
        size = max(1, element_type.width // 8)
        bytes_needed = int(cosize(layout)) * element_type.width // 8
        pointer = self._take(bytes_needed, max(byte_alignment, size))
        return make_tensor(pointer.with_dtype(element_type), layout)

    def _take(self, size: int, align: int) -> Pointer:
        from .._ir import Const

        offset = shared_allocation(self._builder, size, align)
        known = align
        while known < SMEM_BASE_ALIGNMENT and offset % (known * 2) == 0:
            known *= 2
        del known
        return Pointer(Const(offset, "b32"), Uint8, AddressSpace.smem, align)

    @staticmethod
    def capacity_in_bytes(compute_capability: str = "sm_100") -> int:
        """Shared memory that a block may use."""
        return get_smem_capacity_in_bytes(compute_capability)


def get_smem_capacity_in_bytes(compute_capability: str = "sm_100") -> int:
    """Shared memory that a block may use, in bytes.

    :raises ValueError: for an unknown architecture.
    """
    key = compute_capability.rstrip("af")
    if key not in _SMEM_CAPACITY:
        raise ValueError(f"unknown compute capability {compute_capability!r}")
    return _SMEM_CAPACITY[key]


class LayoutEnum(enum.Enum):
    """Which mode of a matrix is contiguous."""

    ROW_MAJOR = "row"
    COL_MAJOR = "col"

    @staticmethod
    def from_tensor(tensor: Any) -> LayoutEnum:
        """The order of a tensor's first two modes."""
        stride = tensor.layout.stride
        if is_int(stride[1], 1):
            return LayoutEnum.ROW_MAJOR
        if is_int(stride[0], 1):
            return LayoutEnum.COL_MAJOR
        raise ValueError(f"neither of the first two modes of {tensor.layout} is contiguous")

    def is_n_major_c(self) -> bool:
        """Whether the N mode of C is contiguous."""
        return self is LayoutEnum.ROW_MAJOR

    def is_m_major_c(self) -> bool:
        """Whether the M mode of C is contiguous."""
        return self is LayoutEnum.COL_MAJOR

    def is_k_major_a(self) -> bool:
        """Whether the K mode of A is contiguous."""
        return self is LayoutEnum.ROW_MAJOR

    def is_k_major_b(self) -> bool:
        """Whether the K mode of B is contiguous."""
        return self is LayoutEnum.COL_MAJOR


class HardwareInfo:
    """What the device can hold."""

    def __init__(self, device_id: int = 0) -> None:
        import torch

        self._properties = torch.cuda.get_device_properties(device_id)

    def get_device_multiprocessor_count(self) -> int:
        """The number of multiprocessors."""
        return int(self._properties.multi_processor_count)

    def get_max_active_clusters(self, cluster_size: int, **_: Any) -> int:
        """Clusters that run at once, one block a multiprocessor."""
        return self.get_device_multiprocessor_count() // max(1, cluster_size)

    def get_l2_cache_size_in_bytes(self) -> int:
        """Bytes of the L2 cache."""
        return int(self._properties.L2_cache_size)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise not_supported(
        f"cutlass.utils.{name}", "it belongs to tensor-core kernels, not modelled yet"
    )
