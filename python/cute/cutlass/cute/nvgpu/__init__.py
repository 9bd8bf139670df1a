"""Owns `cute.nvgpu`: the operations of copies and multiplications, by generation of machine."""

from __future__ import annotations

from typing import Any

from .._copy import CopyUniversalOp
from .._mma import MmaUniversalOp
from ._later import lazy_names
from .common import CacheEvictionPriority, MemoryOrder, MemoryScope

__all__ = [
    "CacheEvictionPriority",
    "CopyUniversalOp",
    "MemoryOrder",
    "MemoryScope",
    "MmaUniversalOp",
    "cpasync",
    "tcgen05",
    "warp",
    "warpgroup",
]

_SUBMODULES = ("common", "cpasync", "tcgen05", "warp", "warpgroup")
_names = lazy_names("cute.nvgpu", "it is not modelled yet")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    return _names(name)
