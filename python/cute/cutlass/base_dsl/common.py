"""Owns the module path `cutlass.base_dsl.common`: the error that programs catch."""

from .._errors import DSLRuntimeError

__all__ = ["DSLRuntimeError"]
