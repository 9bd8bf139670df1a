"""Owns what an import of a module says that this implementation does not have."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from ._errors import UnsupportedModuleError


class _Missing(MetaPathFinder):
    """Asked last: nothing else has found the module."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if not name.startswith("cutlass."):
            return None
        raise UnsupportedModuleError(
            f"{name} is not supported on the virtual GPU: the module is not modelled yet"
        )


def install() -> None:
    """Makes such imports say so from now on."""
    if not any(isinstance(finder, _Missing) for finder in sys.meta_path):
        sys.meta_path.append(_Missing())
