"""The pages of our implementation of the CuTe DSL: which modules, under which names."""

from __future__ import annotations

import ast
import importlib
import types
from dataclasses import dataclass
from typing import Any

from . import source
from .pages import Page
from .symbols import Package, Symbol, describe

PACKAGE = Package("cutlass", frozenset({"alu", "mem", "short"}))


@dataclass(frozen=True)
class Module:
    """A module that has a page."""

    name: str
    #: How programs name it.
    shown: str
    about: str
    preface: str = ""
    #: Names that the module gives when asked for them.
    lazy: tuple[str, ...] = ()
    #: Whether what the module imports is for programs, without a list that says so.
    passes_on: bool = False


#: What modules import for themselves.
_HELPERS = ("annotations", "Any", "Callable", "lazy_names")
_REFUSED = (
    "Every other name that NVIDIA's documentation has here can be imported, and raises "
    "`NotSupportedError` when it is used: {why}."
)

MODULES = (
    Module(
        "cutlass",
        "cutlass",
        "numeric types, control flow of traced functions, compile-time constants",
    ),
    Module(
        "cutlass.cute",
        "cute",
        "kernels, layouts and their algebra, tensors, copies, products, structs, printing",
        "`import cutlass.cute as cute`. `cute.experimental` and `cute.native_struct` are refused.",
        (
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
        ),
        passes_on=True,
    ),
    Module(
        "cutlass.cute.arch",
        "cute.arch",
        "operations of the machine: indices, barriers, shuffles, votes, atomics, cp.async, bits",
    ),
    Module("cutlass.cute.math", "cute.math", "mathematical functions of numbers and of TensorSSA"),
    Module(
        "cutlass.cute.runtime",
        "cutlass.cute.runtime",
        "tensors from torch, symbolic sizes, fake tensors to compile with",
    ),
    Module(
        "cutlass.cute.nvgpu",
        "cute.nvgpu",
        "operations that copy and multiply atoms are made of",
        _REFUSED.format(why="it is not modelled"),
    ),
    Module(
        "cutlass.cute.nvgpu.common",
        "cute.nvgpu.common",
        "enumerations that operations share",
    ),
    Module(
        "cutlass.cute.nvgpu.cpasync",
        "cute.nvgpu.cpasync",
        "asynchronous copies from global to shared memory",
        _REFUSED.format(why="bulk and tensor copies are not modelled"),
    ),
    Module(
        "cutlass.cute.nvgpu.warp",
        "cute.nvgpu.warp",
        "tensor cores of a warp: nothing of it is modelled",
        _REFUSED.format(why="tensor cores are not modelled"),
    ),
    Module(
        "cutlass.cute.nvgpu.warpgroup",
        "cute.nvgpu.warpgroup",
        "tensor cores of a warp group: nothing of it is modelled",
        _REFUSED.format(why="tensor cores are not modelled"),
    ),
    Module(
        "cutlass.cute.nvgpu.tcgen05",
        "cute.nvgpu.tcgen05",
        "tensor cores with tensor memory: nothing of it is modelled",
        _REFUSED.format(why="tensor cores are not modelled"),
    ),
    Module(
        "cutlass.cute.typing",
        "cutlass.cute.typing",
        "names for annotations",
    ),
    Module(
        "cutlass.cute.testing",
        "cute.testing",
        "checks inside kernels; the stopwatch is refused",
    ),
    Module("cutlass.utils", "cutlass.utils", "allocation of shared memory, facts of the device"),
    Module(
        "cutlass.pipeline",
        "cutlass.pipeline",
        "named barriers; pipelines are not modelled",
        _REFUSED.format(why="pipelines over bulk copies are not modelled"),
    ),
    Module("cutlass.torch", "cutlass.torch", "torch's types and tensors beside the DSL's"),
    Module("cutlass.cuda", "cutlass.cuda", "driver calls of example programs"),
    Module(
        "cutlass.cutlass_dsl", "cutlass.cutlass_dsl", "the same names by the path of older programs"
    ),
)


def pages() -> list[Page]:
    """One page a module."""
    known: dict[int, str] = {}
    return [_page(module, known) for module in MODULES]


def _page(module: Module, known: dict[int, str]) -> Page:
    loaded = importlib.import_module(module.name)
    names = {*public(loaded, module.passes_on), *module.lazy}
    for name in names:  # a function is documented under its own name, other names refer to it
        value = getattr(loaded, name)
        if getattr(value, "__name__", None) == name:
            known.setdefault(id(value), f"{module.shown}.{name}")
    symbols = []
    for name in sorted(names, key=lambda n: (n.lower(), n)):
        value = getattr(loaded, name)
        shown = f"{module.shown}.{name}"
        if _shared(value) and known.get(id(value), shown) != shown:
            symbols.append(Symbol(shown, "alias", same_as=known[id(value)]))
            continue
        known.setdefault(id(value), shown)
        symbols.append(describe(shown, value, PACKAGE, comment(loaded, name)))
    return Page(f"api/{module.name}.md", module.name, module.about, module.preface, tuple(symbols))


def public(module: types.ModuleType, passes_on: bool) -> list[str]:
    """The names that a module gives to programs: listed, defined, or all that it imports."""
    listed = getattr(module, "__all__", None)
    names = set(listed or ())
    read = source.read(module.__file__ or "")
    for name, value in vars(module).items():
        hidden = name.startswith("_") or name in _HELPERS or isinstance(value, types.ModuleType)
        own = passes_on or (read is not None and name in read.defined)
        if own and not hidden and _comes_from_here(value):
            names.add(name)
    return sorted(names)


def _comes_from_here(value: Any) -> bool:
    home = getattr(value, "__module__", None)
    if home is None:  # constants
        return isinstance(value, int | float | str)
    return value is Any or home.split(".")[0] == "cutlass" or hasattr(value, "__mro_entries__")


def _shared(value: Any) -> bool:
    if value is Any:
        return False
    return isinstance(value, type | types.FunctionType) or type(value).__module__.startswith(
        "cutlass"
    )


def comment(module: types.ModuleType, name: str) -> str:
    """The `#:` lines of a name, where it is assigned or where it was imported from."""
    for _ in range(5):
        path = getattr(module, "__file__", None)
        read = path and source.read(path)
        if not read:
            return ""
        if name in read.names:
            return read.comment(name)
        origin = _imported_from(module, name)
        if origin is None:
            return ""
        module, name = origin
    return ""


def _imported_from(module: types.ModuleType, name: str) -> tuple[types.ModuleType, str] | None:
    with open(module.__file__ or "") as file:
        tree = ast.parse(file.read())
    package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                relative = "." * node.level + (node.module or "")
                return importlib.import_module(relative, package), alias.name
    return None
