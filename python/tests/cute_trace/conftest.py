"""Puts the packages on the path, and starts a virtual GPU for the tests that run kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2]
for folder in (PYTHON, PYTHON / "cute", Path(__file__).resolve().parent):
    sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def device() -> Iterator[None]:
    """torch on the arena, and a virtual GPU that runs its launches."""
    pytest.importorskip("torch")
    from mkb_shim import local

    program = local.program()
    if program is None:
        pytest.skip("no mkb program is built: cargo build, or name one in MKB_PROGRAM")
    stop = local.start(program)
    yield
    stop()
