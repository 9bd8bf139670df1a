"""Owns the module path `cutlass.testing`."""

from .cute.testing import CantImplementError, JitArguments, assert_, assert_close, benchmark

__all__ = ["CantImplementError", "JitArguments", "assert_", "assert_close", "benchmark"]
