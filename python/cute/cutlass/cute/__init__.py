"""`cutlass.cute`: layouts, tensors, kernels. The table of contents of this package."""

from __future__ import annotations

from typing import Any

from .. import _dsl
from .._dsl import (
    Compiler,
    EnableAssertions,
    EnableTVMFFI,
    GenerateLineInfo,
    GPUArch,
    KeepCUBIN,
    KeepPTX,
    KeepSASS,
    LinkLibraries,
    NvdisasmOptions,
    OptLevel,
    PtxasOptions,
    jit,
    kernel,
)
from .._numeric import (
    BFloat16,
    Boolean,
    Float,
    Float8E4M3FN,
    Float8E5M2,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Integer,
    Numeric,
    TFloat32,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
)
from . import _divmod, _layout, _mma, _ssa, _tensor
from ._atom_layout import make_layout_tv
from ._copy import (
    CopyAtom,
    ThrCopy,
    TiledCopy,
    autovec_copy,
    basic_copy,
    basic_copy_if,
    copy,
    copy_atom_call,
    make_copy_atom,
    make_cotiled_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_S,
    make_tiled_copy_tv,
)
from ._divmod import *  # noqa: F403
from ._layout import *  # noqa: F403
from ._memory import AddressSpace, Pointer, make_ptr, recast_ptr
from ._mma import (
    MmaAtom,
    ThrMma,
    TiledMma,
    gemm,
    make_mma_atom,
    make_tiled_mma,
    mma_atom_call,
)
from ._print import print_tensor, printf
from ._ssa import *  # noqa: F403
from ._struct import struct, union
from ._tensor import (
    Tensor,
    make_fragment_like,
    make_identity_tensor,
    make_rmem_tensor,
    make_rmem_tensor_like,
    make_tensor,
    recast_tensor,
)
from .nvgpu._later import Later
from .nvgpu.common import CacheEvictionPriority
from .runtime import SymInt, sym_int, sym_int32, sym_int64
from .typing import Coord, Int, IntTuple, Shape, Stride, Tile, Tiler, XTuple

compile = Compiler()

#: The older name of `make_rmem_tensor`.
make_fragment = make_rmem_tensor

core = _layout
native_struct = Later("cute.native_struct", "use cute.struct")


def static(value: Any, **_: Any) -> Any:
    """`value`, which is known at trace time."""
    return value


_SUBMODULES = ("arch", "math", "nvgpu", "runtime", "testing", "typing")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name in (
        "exp",
        "exp2",
        "log",
        "log2",
        "log10",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
    ):
        from . import math

        return getattr(math, name)
    if name == "experimental":
        return Later("cute.experimental", "it is not modelled yet")
    raise AttributeError(f"module 'cutlass.cute' has no attribute {name!r}")
