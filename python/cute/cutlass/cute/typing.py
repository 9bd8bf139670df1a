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
