"""Owns `cute.testing`: assertions inside programs, and refusals of measurements that mean nothing
here."""

from __future__ import annotations

from typing import Any

from .._emit import literal
from .._errors import not_supported
from .._ir import builder, current, user_location
from .._numeric import Boolean, Numeric, _convert


class CantImplementError(Exception):
    """A kernel cannot be built for the given parameters."""


class JitArguments:
    """Arguments of a compiled function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs
        self.references: list[Any] = []

    def add_to_scope(self, references: list[Any]) -> None:
        """Keep objects alive as long as the arguments."""
        self.references.extend(references)


def assert_(cond: Any, msg: str | None = None, **_: Any) -> None:
    """Fail when the program runs if `cond` does not hold."""
    if current() is None or not isinstance(cond, Numeric):
        assert cond, msg
        return
    b = builder("cute.testing.assert_")
    where = user_location()
    text = msg or (f"assertion at {where[0]}:{where[1]}" if where else "assertion")
    pred = _convert(cond, Boolean)
    if b.target == "host":
        b.emit("assert", "", pred, attr=text, dst=())
        return
    b.emit("text", "", pred, attr=(f"assert {{}}, {literal(text)}", ("pred",)), dst=())


def assert_close(actual: Any, expected: Any, **kwargs: Any) -> None:
    """torch's comparison."""
    import torch

    torch.testing.assert_close(actual, expected, **kwargs)


def benchmark(*_: Any, **__: Any) -> float:
    """Wall-clock time of a simulation says nothing about a GPU: refused."""
    raise not_supported(
        "cute.testing.benchmark",
        "a measured time of the virtual GPU would mean nothing; the judge models time",
    )


def get_workspace_count(*_: Any, **__: Any) -> int:
    """Workspaces for a benchmark that does not run: one."""
    return 1


def autotune_jit(*_: Any, **__: Any) -> Any:
    """Tuning by wall-clock time: refused."""
    raise not_supported(
        "cute.testing.autotune_jit", "it chooses by measured times, which mean nothing here"
    )


def tune(*_: Any, **__: Any) -> Any:
    """Tuning by wall-clock time: refused."""
    raise not_supported(
        "cute.testing.tune", "it chooses by measured times, which mean nothing here"
    )
