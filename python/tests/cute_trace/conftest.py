"""Puts the package on the path, so that these tests run from any folder without set-up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cute"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
