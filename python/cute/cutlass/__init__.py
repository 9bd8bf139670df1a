"""`cutlass`: our implementation of the CuTe DSL's documented Python API, for the virtual GPU.

Written from the public documentation, the BSD-3 C++ headers and the BSD-3 example programs. A
program is traced into the device IR of this project; nothing of NVIDIA's package takes part.
"""

from __future__ import annotations

from typing import Any

from . import (
    _missing,
    cute,  # first: the core imports its parts, and must find the package begun
)
from ._dsl import Constexpr, register_jit_arg_adapter
from ._errors import DSLRuntimeError, NotSupportedError
from ._flow import LoopRange as range
from ._flow import const_expr, dynamic_expr, range_constexpr
from ._flow import if_expression as _if_expression
from ._numeric import (
    BFloat16,
    Boolean,
    Float,
    Float4E2M1FN,
    Float6E2M3FN,
    Float6E3M2FN,
    Float8E4M3,
    Float8E4M3B11FNUZ,
    Float8E4M3FN,
    Float8E5M2,
    Float8E8M0FNU,
    Float16,
    Float32,
    Float64,
    Int4,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    Integer,
    Numeric,
    TFloat32,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uint128,
    as_numeric,
    maximum,
    minimum,
    select,
)
from .cute._memory import AddressSpace


def dsl_user_op(function: Any) -> Any:
    """Decorator of operations that take `loc` and `ip`: it changes nothing."""
    return function


range_dynamic = range
max = maximum
min = minimum
select_ = select
#: The version of the documentation that this implementation follows.
__version__ = "4.4.0"
#: The CUDA version that programs which ask are told; no CUDA takes part.
CUDA_VERSION = "13.0"

_SUBMODULES = ("utils", "torch", "cuda", "pipeline", "testing", "cutlass_dsl", "base_dsl")


def dtype(name: str) -> Any:
    """The numeric type of a name, such as `Float16`.

    :raises TypeError: if there is none.
    """
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, Numeric):
        return found
    raise TypeError(f"there is no numeric type {name!r}")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'cutlass' has no attribute {name!r}")


_missing.install()

__all__ = [
    *("AddressSpace", "BFloat16", "Boolean", "Constexpr", "DSLRuntimeError", "Float", "Float16"),
    *("Float32", "Float4E2M1FN", "Float64", "Float6E2M3FN", "Float6E3M2FN", "Float8E4M3"),
    *(
        "Float8E4M3B11FNUZ",
        "Float8E4M3FN",
        "Float8E5M2",
        "Float8E8M0FNU",
        "Int128",
        "Int16",
        "Int32",
    ),
    *("Int4", "Int64", "Int8", "Integer", "NotSupportedError", "Numeric", "TFloat32", "Uint128"),
    *("Uint16", "Uint32", "Uint64", "Uint8", "as_numeric", "const_expr", "dynamic_expr", "range"),
    *("range_constexpr", "register_jit_arg_adapter"),
]
