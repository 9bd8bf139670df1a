"""Owns names that exist but are not modelled: they may be imported, and say so when they are
used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._errors import not_supported


class Later:
    """An API that is not modelled yet: calling it, or reading anything of it, raises."""

    def __init__(self, name: str, why: str) -> None:
        self.__dict__["_name"] = name
        self.__dict__["_why"] = why

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise not_supported(self._name, self._why)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Later(f"{self._name}.{name}", self._why)

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (object,)

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<{self._name}: not modelled yet>"


def lazy_names(module: str, why: str) -> Callable[[str], Any]:
    """A module `__getattr__` that gives every public name a :class:`Later`."""

    def get(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Later(f"{module}.{name}", why)

    return get
