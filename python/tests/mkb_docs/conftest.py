"""Puts the packages on the path, and makes the documentation once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2]
ROOT = PYTHON.parent
for folder in (PYTHON, PYTHON / "cute"):
    sys.path.insert(0, str(folder))

from mkb_docs.build import Documentation, documentation  # noqa: E402


@pytest.fixture(scope="session")
def made() -> Documentation:
    """The documentation of this repository."""
    return documentation(ROOT)
