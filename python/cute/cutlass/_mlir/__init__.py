"""Owns the module path `cutlass._mlir`: programs import names from it that are not modelled."""

from __future__ import annotations

from ..cute.nvgpu._later import lazy_names

__getattr__ = lazy_names("cutlass._mlir", "there is no MLIR behind this implementation")
