"""Puts the packages and the problems' helpers on the path."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
for folder in (TESTS / "problems", TESTS, TESTS.parent):
    sys.path.insert(0, str(folder))
