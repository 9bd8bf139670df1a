"""Role `replay` (trusted): plays segments of a submission's tape on inputs of its own."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

import mkb_shim
from mkb_shim import native
from mkb_shim.values import FLAG_CONJUGATE, FLAG_NEGATIVE, Decoder, TensorAt

from .describe import (
    Json,
    RequestError,
    describe,
    describe_rebuilt,
    place,
    rebuild,
    tape_tensors,
    tensors,
)
from .tape import Segments

_FINISHED, _BEGIN, _END, _MODULE = range(4)


class Replay:
    """Keeps what the tape made from one segment to the next."""

    def __init__(self, segments: Segments, tape_fd: int) -> None:
        self.segments = segments
        self.tape_fd = tape_fd
        self.inputs: list[Any] | None = None
        self.outputs: Any = None
        self.bound: list[int] = []
        self.kept: list[Any] = []

    def place(self, request: Json) -> Json:
        with native.unpoisoned():
            self.inputs = [place(value) for value in request["inputs"]]
        return {"inputs": [describe(value, self.kept) for value in self.inputs]}

    def replay(self, request: Json) -> Json:
        segment = self._read(int(request["offset"]), int(request["length"]))
        self.outputs = None
        # A segment that is to be played again finds memory as it found it first.
        if request.get("again", False):
            native.library().mkb_play_go_back()
        elif request.get("remember", False):
            native.library().mkb_play_remember()
        described: Json | None = None
        at = native.U64(0)
        why, body, size = ctypes.c_int(), native.U64(), native.U64()
        while True:
            native.check(
                native.library().mkb_play(
                    segment,
                    len(segment),
                    ctypes.byref(at),
                    ctypes.byref(why),
                    ctypes.byref(body),
                    ctypes.byref(size),
                )
            )
            entry = Decoder(segment[body.value : body.value + size.value])
            if why.value == _FINISHED:
                break
            if why.value == _BEGIN:
                self._begin(entry.value())
            elif why.value == _MODULE:
                recorded, format = entry.varint(), entry.take(1)[0]
                module = mkb_shim.load_module(format, entry.take(entry.varint()))
                native.library().mkb_play_bind_module(recorded, module.number)
            else:
                self.outputs = rebuild(entry.value(), self._tensor)
                self.segments.end(self.outputs)
                described = describe_rebuilt(self.outputs, self.kept)
        return {"outputs": described, "account": self.segments.cut()}

    def release(self, _request: Json) -> Json:
        for serial in self.bound:
            native.library().mkb_play_forget(serial)
        self.bound.clear()
        self.inputs = self.outputs = None
        self.kept.clear()
        native.library().mkb_memory_trim()
        return {}

    def _read(self, offset: int, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = os.pread(self.tape_fd, length - len(data), offset + len(data))
            if not part:
                raise RequestError(f"the tape ends at {offset + len(data)}")
            data += part
        return bytes(data)

    def _begin(self, recorded: Any) -> None:
        """Lets the placed inputs stand for the recorded ones."""
        if self.inputs is None:
            raise RequestError("no inputs are placed")
        theirs, ours = list(tape_tensors(recorded)), list(tensors(self.inputs))
        if len(theirs) != len(ours):
            raise native.TapeError(
                f"the tape has {len(theirs)} input tensors where {len(ours)} are placed"
            )
        for number, (their, our) in enumerate(zip(theirs, ours, strict=True)):
            same = (
                their.dtype == our.dtype
                and their.sizes == tuple(our.shape)
                and their.strides == our.stride()
                and their.offset == 0
            )
            if not same:
                raise native.TapeError(f"input tensor {number} on the tape is not the placed one")
            if their.serial == 0:
                continue
            storage = our.untyped_storage()
            native.library().mkb_play_bind(their.serial, storage.data_ptr(), storage.nbytes())
            self.bound.append(their.serial)
        self.segments.begin(self.inputs)

    @staticmethod
    def _tensor(at: TensorAt) -> torch.Tensor:
        """The tensor here that the tape's END names."""
        span = 0
        if 0 not in at.sizes:
            span = 1 + sum((n - 1) * s for n, s in zip(at.sizes, at.strides, strict=True))
        if at.serial == 0:
            if span:
                raise native.TapeError("a returned tensor stands in no memory")
            return torch.empty_strided(at.sizes, at.strides, dtype=at.dtype, device="cuda")
        address, size = native.U64(), native.U64()
        known = native.library().mkb_play_resolve(
            at.serial, ctypes.byref(address), ctypes.byref(size)
        )
        if not known:
            raise native.TapeError("a returned tensor stands in memory that the tape never made")
        item = at.dtype.itemsize
        if at.offset % item or at.offset + span * item > size.value:
            raise native.TapeError("a returned tensor reaches past its memory")
        made = _view(address.value, size.value, at)
        if at.flags & FLAG_CONJUGATE:
            made = made.conj()
        if at.flags & FLAG_NEGATIVE:
            made = torch._neg_view(made)
        return made


def _view(address: int, size: int, at: TensorAt) -> torch.Tensor:
    """A tensor over memory that the player keeps until the tape frees it."""
    storage = torch._C._construct_storage_from_data_pointer(address, torch.device("cuda", 0), size)
    made = torch.empty(0, dtype=at.dtype, device="cuda")
    return made.set_(storage, at.offset // at.dtype.itemsize, at.sizes, at.strides)
