"""Modules and names by which programs reach the DSL."""

from __future__ import annotations

import importlib

import cutlass
import cutlass.cute.typing
import pytest


def test_every_name_that_typing_lists_is_there() -> None:
    missing = [n for n in cutlass.cute.typing.__all__ if not hasattr(cutlass.cute.typing, n)]
    assert missing == []
    assert cutlass.cute.typing.Boolean is cutlass.Boolean


def test_a_module_that_is_not_there_is_not_modelled_yet() -> None:
    name = "cutlass.utils.hopper_helpers"
    with pytest.raises(ModuleNotFoundError, match=f"{name} is not supported on the virtual GPU"):
        importlib.import_module(name)
    with pytest.raises(cutlass.NotSupportedError):
        importlib.import_module(name)


def test_infinity_is_a_number_of_python() -> None:
    assert -cutlass.Float32.inf == float("-inf")
