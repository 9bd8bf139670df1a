"""A worker's driver, for tests: starts one, asks it, reads its arena."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ARENA_BASE = 0x2000_0000_0000
PYTHON = Path(__file__).parent.parent
PROBLEMS = PYTHON.parent / "problems"


class Failed(Exception):
    """The worker answered that it failed."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"] + "\n" + error.get("traceback", ""))
        self.kind: str = error["kind"]
        self.message: str = error["message"]
        self.traceback: str = error.get("traceback", "")


class Worker:
    """One worker process, with an arena and a tape that the driver holds too."""

    def __init__(
        self, role: str, *options: str, tape: int | None = None, pass_fds: tuple[int, ...] = ()
    ) -> None:
        self.arena = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.arena, 8 << 30)
        fcntl.fcntl(self.arena, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.memory = mmap.mmap(self.arena, 8 << 30)
        self.tape = os.memfd_create("tape") if tape is None else tape
        self.account = os.memfd_create("account")
        ours, theirs = socket.socketpair()
        fds = (theirs.fileno(), self.arena, self.tape, self.account)
        names = ("--control-fd", "--arena-fd", "--tape-fd", "--account-fd")
        command = [sys.executable, "-m", "mkb_worker", role, *options]
        for name, fd in zip(names, fds, strict=True):
            command += [name, str(fd)]
        self.process = subprocess.Popen(
            command, pass_fds=(*fds, *pass_fds), env={**os.environ, "PYTHONPATH": str(PYTHON)}
        )
        theirs.close()
        self.socket = ours
        self.stream = ours.makefile("rwb")

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        self.stream.write(json.dumps({"op": op, **fields}).encode() + b"\n")
        self.stream.flush()
        line = self.stream.readline()
        assert line, "the worker ended"
        answer = json.loads(line)
        if not answer["ok"]:
            raise Failed(answer["error"])
        return answer

    def close(self) -> None:
        self.stream.close()
        self.socket.close()
        assert self.process.wait(timeout=20) == 0
        self.memory.close()
        os.close(self.arena)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def span(self, described: dict[str, Any]) -> tuple[int, int]:
        """Where a described tensor lies in the arena: start and length in bytes."""
        item = getattr(torch, described["dtype"]).itemsize
        pairs = zip(described["shape"], described["stride"], strict=True)
        elements = 1 + sum((n - 1) * s for n, s in pairs)
        start = described["address"] - ARENA_BASE
        return start, 0 if 0 in described["shape"] else elements * item

    def tensor(self, described: dict[str, Any]) -> torch.Tensor:
        """A copy of a described tensor, on the CPU."""
        start, length = self.span(described)
        dtype = getattr(torch, described["dtype"])
        if length == 0:
            return torch.empty(described["shape"], dtype=dtype)
        raw = bytearray(self.memory[start : start + length])
        flat = torch.frombuffer(raw, dtype=torch.uint8).view(dtype)
        return flat.as_strided(described["shape"], described["stride"])

    def fill(self, described: dict[str, Any], data: bytes) -> None:
        start, length = self.span(described)
        assert length == len(data)
        self.memory[start : start + length] = data


def copy_inputs(values: list[Any], source: Worker, target: Worker) -> None:
    """Places the inputs that `source` drew in `target`, and fills them."""
    shapes = [{k: v for k, v in value.items() if k != "address"} for value in values]
    placed = target.ask("place", inputs=shapes)["inputs"]
    for theirs, ours in zip(values, placed, strict=True):
        if theirs["t"] == "tensor":
            start, length = source.span(theirs)
            target.fill(ours, source.memory[start : start + length])


def leaves(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The tensors of a described value."""
    if value["t"] == "tensor":
        return [value]
    if value["t"] in ("list", "tuple"):
        return [leaf for item in value["items"] for leaf in leaves(item)]
    if value["t"] == "dict":
        return [leaf for pair in value["items"] for item in pair for leaf in leaves(item)]
    return []
