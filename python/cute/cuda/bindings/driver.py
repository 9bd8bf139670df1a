"""Owns `CUstream`, the type by which CuTe DSL programs pass a stream; launches run in order
here."""

from __future__ import annotations

import enum
from typing import Any


class CUstream:
    """A stream, by its handle."""

    __mkb_kind__ = "stream"

    def __init__(self, init_value: Any = 0) -> None:
        self._handle = int(init_value)

    def __int__(self) -> int:
        return self._handle

    def __mkb_split__(self) -> Any:
        return "stream", [], lambda _: self


class CUresult(enum.IntEnum):
    """The result of a driver call."""

    CUDA_SUCCESS = 0


class CUstream_flags(enum.IntEnum):
    """How a stream is made."""

    CU_STREAM_DEFAULT = 0
    CU_STREAM_NON_BLOCKING = 1


_Done = tuple[CUresult]


def cuInit(flags: int) -> _Done:
    """Make the device ready."""
    return (CUresult.CUDA_SUCCESS,)


def cuStreamCreate(flags: int = 0) -> tuple[CUresult, CUstream]:
    """A stream."""
    return CUresult.CUDA_SUCCESS, CUstream(0)


def cuStreamSynchronize(stream: Any) -> _Done:
    """Wait for a stream: launches have ended when they return here."""
    return (CUresult.CUDA_SUCCESS,)


def cuStreamDestroy(stream: Any) -> _Done:
    """Give a stream back."""
    return (CUresult.CUDA_SUCCESS,)


def cuCtxSynchronize() -> _Done:
    """Wait for the device: launches have ended when they return here."""
    return (CUresult.CUDA_SUCCESS,)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(f"the virtual GPU has no driver API: cuda.bindings.driver.{name}")
