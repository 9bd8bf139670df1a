"""Owns the module path `cutlass.cutlass_dsl`, by which programs reach types and control flow."""

from __future__ import annotations

from typing import Any

from . import (
    BFloat16,
    Boolean,
    Constexpr,
    DSLRuntimeError,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Integer,
    Numeric,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    const_expr,
    dsl_user_op,
    dynamic_expr,
    range,
    range_constexpr,
    select_,
)
from ._dsl import jit
from ._errors import DSLCudaRuntimeError
from ._flow import and_, not_, or_

__all__ = [
    "BFloat16",
    "Boolean",
    "Constexpr",
    "CuTeDSL",
    "DSLCudaRuntimeError",
    "DSLRuntimeError",
    "Float16",
    "Float32",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Integer",
    "Numeric",
    "T",
    "Uint8",
    "Uint16",
    "Uint32",
    "Uint64",
    "and_",
    "const_expr",
    "dsl_user_op",
    "dynamic_expr",
    "not_",
    "or_",
    "range",
    "range_constexpr",
    "select_",
]


class T:
    """Names of machine types."""

    @staticmethod
    def i32() -> Any:
        """A 32-bit integer."""
        return Int32

    @staticmethod
    def f32() -> Any:
        """A single."""
        return Float32


class CuTeDSL:
    """The DSL itself, as an object with its decorators."""

    jit = staticmethod(jit)
