"""Owns `CUstream`, the type by which CuTe DSL programs pass a stream; launches run in order
here."""

from __future__ import annotations

from typing import Any


class CUstream:
    """A stream, by its handle."""

    def __init__(self, init_value: Any = 0) -> None:
        self._handle = int(init_value)

    def __int__(self) -> int:
        return self._handle

    def __mkb_split__(self) -> Any:
        return "stream", [], lambda _: self


class CUresult:
    """The result of a driver call."""

    CUDA_SUCCESS = 0


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(
        f"the virtual GPU has no driver API: cuda.bindings.driver.{name} is not there"
    )
