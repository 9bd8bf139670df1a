"""Segments of this process's tape: where each begins, where it ends, what went in and came out."""

from __future__ import annotations

from typing import Any

from mkb_shim import ShimError, native
from mkb_shim.values import encode

ENTRY_BEGIN, ENTRY_END = 8, 9


class Segments:
    """Cuts the tape into stretches without a gap; each `cut` ends one."""

    def __init__(self) -> None:
        self.start = self._flush()

    def begin(self, inputs: list[Any]) -> None:
        """A draw begins: the inputs are the caller's, so what memory they have is born here."""
        self._mark(ENTRY_BEGIN, inputs, born=True)

    def end(self, outputs: Any) -> None:
        """A draw ends with these outputs."""
        self._mark(ENTRY_END, outputs, born=False)

    def skip(self) -> None:
        """What was recorded since the last cut belongs to no segment."""
        self.start = self._flush()

    def cut(self) -> list[int]:
        """Offset and length of what was recorded since the last cut."""
        start, self.start = self.start, self._flush()
        return [start, self.start - start]

    def _mark(self, entry: int, value: Any, *, born: bool) -> None:
        if native.library().mkb_tape_on() == 0:
            return
        body = bytearray()
        encode(body, value, born=born)
        native.library().mkb_tape_append(entry, bytes(body), len(body))

    def _flush(self) -> int:
        length = native.library().mkb_tape_flush()
        if length < 0:
            raise ShimError("the tape cannot be written: its file is full or closed")
        return length
