"""Puts this folder's helpers on the path, and torch on one thread (results depend on the count)."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)
