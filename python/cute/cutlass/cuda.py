"""Owns `cutlass.cuda`: the driver calls that example programs make; torch's runtime stands behind
them."""

from __future__ import annotations

from typing import Any


def initialize_cuda_context(device_id: int = 0, flags: int = 0) -> int:
    """Make the device ready."""
    import torch

    torch.cuda.init()
    return 0


def stream_sync(stream: Any = None) -> None:
    """Wait for a stream; launches have ended when they return here."""


def stream_create(id: int = 0) -> Any:
    """A stream; launches run in order here."""
    from .cute.runtime import make_fake_stream

    return make_fake_stream()


def stream_destroy(stream: Any) -> None:
    """Give a stream back."""


def default_stream() -> Any:
    """The default stream."""
    from .cute.runtime import make_fake_stream

    return make_fake_stream()


def checkCudaErrors(result: Any) -> Any:
    """The values of a driver call's result."""
    values = tuple(result[1:]) if isinstance(result, tuple) else (result,)
    return values[0] if len(values) == 1 else (values or None)
