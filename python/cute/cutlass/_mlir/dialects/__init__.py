"""Owns the module path `cutlass._mlir.dialects`: names of operations, none of them modelled."""

from __future__ import annotations

from ...cute.nvgpu._later import lazy_names

__getattr__ = lazy_names("cutlass._mlir.dialects", "there is no MLIR behind this implementation")
