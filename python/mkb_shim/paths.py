"""Where the parts that are built beside torch lie."""

from __future__ import annotations

import importlib.util
from pathlib import Path

#: Where torch's libraries look for CUDA's, relative to the folder that holds `torch`.
LIBRARIES = Path("nvidia/cu13/lib")
#: The torch extension, in the same folder as `torch`.
EXTENSION = Path("mkb_native/libmkb_torch.so")


class MissingTorch(Exception):
    """This environment has no torch."""


def site_packages() -> Path:
    """The folder of this environment that holds `torch`."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise MissingTorch("torch is not installed in this environment")
    return Path(found.origin).parent.parent
