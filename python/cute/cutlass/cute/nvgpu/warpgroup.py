"""Owns `cute.nvgpu.warpgroup`: tensor-core operations, not modelled yet."""

from __future__ import annotations

from ._later import lazy_names

__getattr__ = lazy_names("cute.nvgpu.warpgroup", "tensor cores are not modelled yet")
