"""Owns the names of types for annotations."""

from __future__ import annotations

from typing import Any

from .runtime import sym_int64

Int = Any
IntTuple = Any
Shape = Any
Stride = Any
Coord = Any
Tile = Any
Tiler = Any
XTuple = Any

__all__ = [
    *(
        "AddressSpace",
        "BFloat16",
        "Boolean",
        "ComposedLayout",
        "Coord",
        "Float",
        "Float16",
        "Float32",
    ),
    *(
        "Float64",
        "Float8E4M3FN",
        "Float8E5M2",
        "Int",
        "Int16",
        "Int32",
        "Int64",
        "Int8",
        "IntTuple",
    ),
    *("Integer", "Layout", "Numeric", "Pointer", "Shape", "Stride", "SymInt", "TFloat32", "Tensor"),
    *("Tile", "Tiler", "Uint16", "Uint32", "Uint64", "Uint8", "XTuple", "sym_int", "sym_int32"),
    "sym_int64",
]


def __getattr__(name: str) -> Any:
    # Looked up when asked for: the packages that define the types import this module.
    import cutlass
    import cutlass.cute
    from cutlass.cute import runtime

    if name in __all__:
        for home in (cutlass, cutlass.cute, runtime):
            if name in vars(home):
                return vars(home)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
