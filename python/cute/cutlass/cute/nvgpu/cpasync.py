"""Owns `cute.nvgpu.cpasync`: asynchronous copies. Of these, `cp.async` is modelled."""

from __future__ import annotations

import enum

from .._copy import CopyG2SOp
from ._later import lazy_names

__all__ = ["CopyG2SOp", "LoadCacheMode"]


class LoadCacheMode(enum.Enum):
    """At which levels a `cp.async` caches."""

    ALWAYS = 0
    GLOBAL = 1
    STREAMING = 2
    LAST_USE = 3
    NONE = 4


__getattr__ = lazy_names("cute.nvgpu.cpasync", "bulk and tensor copies are not modelled yet")
