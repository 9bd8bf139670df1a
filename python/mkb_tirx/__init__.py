"""TIRx on the virtual GPU: `install()` makes TVM's CUDA target mean the task's device.

A submission's `tvm.compile` hands its module over before lowering; calls launch through `mkb_shim`.
`lower` is the trusted half: TVM's own lowering of what was handed over.
"""

from __future__ import annotations

from .build import install
from .lowering import lower

__all__ = ["install", "lower"]
