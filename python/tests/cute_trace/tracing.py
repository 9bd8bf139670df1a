"""Owns what the tests of tracing share: stand-in tensors, and a kernel's instructions."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor


def tensor(*shape: int, dtype: Any = cutlass.Float32, align: int | None = None) -> Any:
    """A row-major stand-in for a device tensor."""
    order = tuple(reversed(range(len(shape))))
    return make_fake_compact_tensor(dtype, shape, stride_order=order, assumed_align=align)


def instructions(function: Any, *args: Any) -> list[str]:
    """The instructions of the first kernel that `function` launches, without declarations."""
    text = cute.compile(function, *args).kernels()[0]
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(".")]


def operations(function: Any, *args: Any) -> list[str]:
    """The names of these instructions."""
    return [line.split()[0].removeprefix("@") for line in instructions(function, *args)]
