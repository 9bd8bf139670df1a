"""Owns the names of types for annotations."""

from __future__ import annotations

from typing import Any

from .runtime import sym_int64

#: An integer known at trace time, or one of the device (`cutlass.Int32` and its kin).
Int = Any
#: An integer, or a tuple of such, nested at will.
IntTuple = Any
#: Extents: positive integers, nested at will; `(4, (2, 8))` has two modes, 64 elements.
Shape = Any
#: Distances in elements between neighbours of each mode, nested as the shape is.
Stride = Any
#: Where in a shape: integers, nested as the shape is or less; `None` keeps a whole mode.
Coord = Any
#: What a mode is cut into: an integer, a layout, a tuple of such; `None` takes the mode whole.
Tile = Any
#: What a tensor is cut by: a shape, a layout, or a tuple with one of these for each mode.
Tiler = Any
#: Anything, or a tuple of it, nested at will.
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
