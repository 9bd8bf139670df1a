"""Owns the errors that a program written in the DSL can meet while it is traced or called."""

from __future__ import annotations


class DSLRuntimeError(RuntimeError):
    """A program breaks a rule of the DSL; the message names the file, the line and the remedy."""


class DSLTypeError(DSLRuntimeError, TypeError):
    """A value has a type that the operation does not take."""


class DSLUnavailableError(DSLRuntimeError, NameError):
    """A variable is read outside the control-flow body that defined it."""


class NotSupportedError(DSLRuntimeError, NotImplementedError):
    """A documented feature that this implementation does not model yet.

    A judge reports it as `incomplete`: nothing is known about the program.
    """

    #: Read by the worker, which reports the class `incomplete` instead of `exception`.
    mkb_incomplete = True


class UnsupportedModuleError(NotSupportedError, ModuleNotFoundError):
    """A module of the documented package that this implementation does not have."""


class DSLCudaRuntimeError(DSLRuntimeError):
    """The device refuses a launch."""


def not_supported(what: str, why: str) -> NotSupportedError:
    """The error for feature `what`, naming the user's line."""
    from ._ir import user_location

    where = user_location()
    at = f"{where[0]}:{where[1]}: " if where else ""
    return NotSupportedError(f"{at}{what} is not supported on the virtual GPU: {why}")
