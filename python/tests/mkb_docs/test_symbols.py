"""What is read from a module: calls as they were written, docstrings, comments, members."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from mkb_docs import pages, source
from mkb_docs.symbols import Package, describe

MODULE = '''
"""A module."""
import enum
import functools
from dataclasses import dataclass
from typing import Any


def decorated(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


@decorated
def whole(
    a: "int",
    /,
    b: dict[str,
            int] = {},
    *rest: int,
    key: str = 'x',  # a comment
    **more: Any,
) -> "None | int":
    """What it does.

    Then:
        Deeper.
    """


def bare(x=1, *, y): ...


#: How many.
#: In all.
COUNT = 3
#: Anything.
Anything = Any
short = functools.partial(whole, 1, key="y")


@dataclass(eq=False)
class Point:
    """A point."""

    #: Left to right.
    x: int
    y: float = 0.5

    def norm(self, order: int = 2) -> float:
        """Its length."""
        return 0.0

    @property
    def flat(self) -> bool:
        """Whether y is 0."""
        return self.y == 0

    @staticmethod
    def origin() -> "Point":
        """The point 0, 0."""
        return Point(0)

    def __add__(self, other: "Point") -> "Point":
        return self

    def _hidden(self): ...


class Colour(enum.Enum):
    """A colour."""

    #: Like blood.
    RED = 1


class Silent(Point):
    pass
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("package") / "described.py"
    path.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("described", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["described"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def shown(module: ModuleType, name: str) -> str:
    read = source.read(module.__file__ or "")
    assert read is not None
    comment = read.comment(name)
    return pages.entry(
        describe(f"m.{name}", getattr(module, name), Package("described"), comment), "##"
    )


def test_a_call_is_shown_as_it_was_written(module: ModuleType) -> None:
    text = shown(module, "whole")
    call = (
        "m.whole(a: int, /, b: dict[str, int] = {}, *rest: int, key: str = 'x', **more: Any)"
        " -> None | int"
    )
    assert text.splitlines()[:2] == ["## m.whole", f"`{call}` (function, described)"]
    assert text.endswith("\n    What it does.\n\n    Then:\n        Deeper.\n")


def test_what_nobody_documented_says_so(module: ModuleType) -> None:
    assert shown(module, "bare") == (
        "## m.bare\n`m.bare(x=1, *, y)` (function, described)\n\n    (no docstring)\n"
    )
    assert not describe("m.Silent", module.Silent, Package("described")).documented


def test_a_constant_has_its_value_and_its_comment(module: ModuleType) -> None:
    text = shown(module, "COUNT")
    assert "`m.COUNT = 3` (constant)" in text and "    How many. In all." in text
    assert "`m.Anything` (annotation)\n\n    Anything." in shown(module, "Anything")


def test_a_partial_function_says_what_is_given(module: ModuleType) -> None:
    text = shown(module, "short")
    assert "Is `whole` with `1, key='y'` given" in text and "What it does." in text


def test_a_class_has_its_members_and_operators(module: ModuleType) -> None:
    text = shown(module, "Point")
    for part in (
        "`m.Point(x: int, y: float = 0.5)` (class, described)",
        "Operators: `+`",
        "`m.Point.y: float = 0.5` (field)",
        "### m.Point.x\n`m.Point.x: int` (field)\n\n    Left to right.",
        "### m.Point.norm\n`m.Point.norm(order: int = 2) -> float` (method)\n\n    Its length.",
        "`m.Point.flat -> bool` (property)",
        "`m.Point.origin() -> Point` (static method)",
    ):
        assert part in text, part
    assert "_hidden" not in text and "`==`" not in text


def test_an_enumeration_has_its_values(module: ModuleType) -> None:
    assert "`m.Colour.RED = 1` (value)\n\n    Like blood." in shown(module, "Colour")


def test_what_is_inherited_is_named_with_its_class(module: ModuleType) -> None:
    text = shown(module, "Silent")
    assert "`norm` of `Point`" in text and "### " not in text
