"""Owns `cute.nvgpu.tcgen05`: tensor-core operations, not modelled yet."""

from __future__ import annotations

from ._later import lazy_names

__getattr__ = lazy_names("cute.nvgpu.tcgen05", "tensor cores are not modelled yet")
