"""The pages of TIRx: what of the installed `apache-tvm` the author of a kernel writes with."""

from __future__ import annotations

import enum
import importlib
import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from .pages import Page
from .symbols import Package, Symbol, cls, describe, function, instance, unwrapped

PACKAGE = Package("tvm", frozenset({"validator"}))

#: What the virtual GPU does not model, by name or by what names begin with, and what it is.
REFUSED = {
    "T.ptx.tcgen05": "tensor cores with tensor memory",
    "T.ptx.wgmma": "tensor cores of a warp group",
    "T.ptx.mma": "tensor cores",
    "T.cuda.mma_fill": "tensor cores",
    "T.cuda.mma_store": "tensor cores",
    "T.cuda.runtime_instr_desc": "tensor cores",
    "T.cuda.get_tmem_addr": "tensor memory",
    "T.cuda.cluster_sync": "clusters",
    "T.ptx.barrier.cluster": "clusters",
    "T.ptx.mapa": "clusters",
    "T.ptx.map_shared_rank": "clusters",
    "T.ptx.clc_": "cluster launch control",
    "T.ptx.cp_async.bulk": "bulk and tensor copies (TMA)",
    "T.ptx.cp_async_bulk": "bulk copies",
    "T.ptx.cp_async.mbarrier": "asynchronous copies that arrive at an mbarrier",
    "T.ptx.prefetch_tensormap": "tensor copies (TMA)",
    "T.ptx.st_bulk": "bulk stores",
    "T.cuda.sm100_tma_2sm_mbarrier_addr": "tensor copies (TMA)",
    "T.cuda.grid_sync": "a barrier of the whole grid",
    "T.cuda.timer_": "timers",
    "T.ptx.ldg32": "this operation; a plain load under a condition does the same",
    "T.ptx.fns_b32": "this operation",
}

#: Namespaces of `T` for other machines, with what they are for.
ELSEWHERE = {
    "metal": "Apple's GPUs",
    "nki": "AWS Trainium",
    "webgpu": "WebGPU",
    "nvshmem": "several GPUs",
}

#: What of `tvm` itself a program needs.
TOP = (
    "tvm.compile",
    "tvm.DataType",
    "tvm.IRModule",
    "tvm.runtime.Executable",
    "tvm.runtime.Module",
    "tvm.runtime.Tensor",
    "tvm.runtime.from_dlpack",
    "tvm.runtime.tensor",
    "tvm.target.Target",
)

#: Names of `T` that are parts of the machinery.
INTERNAL = {
    *("builder", "parser", "tile", "scalar_wrapper", "register_script_namespace"),
    *("add_to_parent", "buffer_decl", "block_name_suffix_context"),
}
SCOPES = ("thread", "warp", "warpgroup", "wg", "cta", "cluster")
_TYPE = re.compile(r"(?P<base>(?:bfloat|float|int|uint)[0-9]+(?:_\w+?)?)(?:x(?P<lanes>[0-9]+))?")


def pages() -> list[Page]:
    """One page a module or namespace."""
    known: dict[int, str] = {}
    made = [
        Page("api/tvm.md", "tvm", "compiling, targets, compiled modules, tensors", "", _top(known)),
        Page(
            "api/tvm.script.tirx.md",
            "tvm.script.tirx",
            "the kernel language: launch, buffers, loops, arithmetic, warp shuffles (`T.name`)",
            "`from tvm.script import tirx as T`. Types stand in `tvm.script.tirx.types.md`, "
            "`T.cuda` and `T.ptx` on pages of their own, nodes of the IR in `tvm.tirx.md`.",
            _language(known),
        ),
        Page(
            "api/tvm.script.tirx.types.md",
            "Types of tvm.script.tirx",
            "scalar and vector types (`T.float32`, `T.int32`, `T.float16x2`, ...)",
            "A type is an annotation of a parameter, a conversion of a constant, a declaration: "
            "`n = T.int32()` names a size that the buffers decide, `T.float32(0)` is a constant, "
            '`T.float32("-inf")` and `"nan"` are, too, and `x: T.float32[4]` is local storage.',
            _types(),
        ),
        Page(
            "api/tvm.script.tirx.cuda.md",
            "T.cuda",
            "barriers, reductions over warps and CTAs, atomics, conversions, copies of given width",
            "",
            tuple(_namespace("T.cuda")),
        ),
        Page(
            "api/tvm.script.tirx.ptx.md",
            "T.ptx",
            "instructions of PTX: loads and stores, cp.async, mbarrier, ldmatrix, barriers, fences",
            "",
            tuple(_namespace("T.ptx")),
        ),
        Page(
            "api/tvm.script.tirx.tile.md",
            "tvm.script.tirx.tile",
            "tile primitives: copy, fill, arithmetic and reductions of whole tiles (`Tx.cta.sum`)",
            "`from tvm.script.tirx import tile as Tx`. `Tx.copy` is done by one thread; with a "
            "scope before it, as in `Tx.cta.copy`, all threads of that scope take part.",
            _tiles(known),
        ),
    ]
    for module, shown, about in (
        ("tvm.tirx.layout", "tvm.tirx.layout", "layouts of tiles in memory and over threads"),
        ("tvm.tirx.lang.alloc_pool", "tvm.tirx.lang.alloc_pool", "pools of shared memory"),
        ("tvm.tirx.lang.pipeline", "tvm.tirx.lang.pipeline", "pipelines over mbarriers"),
        (
            "tvm.tirx.lang.tile_scheduler",
            "tvm.tirx.lang.tile_scheduler",
            "tiles for CTAs, in order",
        ),
        ("tvm.tirx.lang.warp_role", "tvm.tirx.lang.warp_role", "roles of warps"),
        ("tvm.tirx", "tvm.tirx", "nodes of the IR, and functions that make expressions"),
    ):
        loaded = importlib.import_module(module)
        symbols = _symbols(shown, loaded, public(loaded), known)
        made.append(Page(f"api/{module}.md", module, about, "", symbols))
    return made


def _top(known: dict[int, str]) -> tuple[Symbol, ...]:
    import tvm

    found = []
    for path in TOP:
        value: Any = tvm
        for part in path.split(".")[1:]:
            value = getattr(value, part)
        known[id(value)] = path
        symbol = describe(path, value, PACKAGE)
        if symbol.kind not in ("class", "function"):
            symbol = instance(path, value, PACKAGE)
        found.append(symbol)
    return tuple(found)


def _language(known: dict[int, str]) -> tuple[Symbol, ...]:
    from tvm.script import tirx as language

    names = [
        name
        for name in public(language)
        if name not in INTERNAL
        and name not in ("cuda", "ptx", *SCOPES)
        and type(getattr(language, name)).__name__ != "DtypeConstructor"
    ]
    nodes = [name for name in names if _is_node(getattr(language, name))]
    spoken = [name for name in names if name not in nodes and name not in ELSEWHERE]
    symbols = list(_symbols("T", language, spoken, known))
    symbols += [
        Symbol(f"T.{name}", "class", same_as=f"tvm.tirx.{getattr(language, name).__name__}")
        for name in nodes
    ]
    for name, machine in ELSEWHERE.items():
        given = ", ".join(sorted(n for n in dir(getattr(language, name)) if not n.startswith("_")))
        text = f"For {machine}, and of no use on this device: {given}."
        symbols.append(Symbol(f"T.{name}", "namespace", text=text))
    return tuple(sorted(symbols, key=lambda symbol: (symbol.name.lower(), symbol.name)))


def _types() -> tuple[Symbol, ...]:
    """One entry a scalar type, which names its vectors."""
    from tvm.script import tirx as language

    lanes: dict[str, list[int]] = {}
    others = []
    for name in public(language):
        value = getattr(language, name)
        if type(value).__name__ != "DtypeConstructor":
            continue
        match = _TYPE.fullmatch(name)
        if match is None:
            others.append(name)
            continue
        lanes.setdefault(match["base"], [])
        if match["lanes"]:
            lanes[match["base"]].append(int(match["lanes"]))
    constructor = type(language.float32)
    call = function("", constructor.__call__, bound=True)
    symbols = []
    for base in sorted([*lanes, *others]):
        vectors = [f"`T.{base}x{count}`" for count in sorted(lanes.get(base, []))]
        text = f"Vectors: {', '.join(vectors)}." if vectors else "There are no vectors of it."
        names = re.findall(r"dtype_str|'[^']*'", repr(getattr(language, base)))
        text = f"The type {names[0]} in calls that take a name. {text}"
        symbols.append(Symbol(f"T.{base}", "type", call.signature, text=text))
    shared = replace(instance("T.<type>", language.float32, PACKAGE), members=(), notes=())
    return (shared, *symbols)


def _namespace(path: str) -> Iterator[Symbol]:
    """The functions of a namespace object and of those below it."""
    from tvm.script import tirx as language

    value: Any = language
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    call = operator_of(value)
    if call is not None:
        yield _told(function(path, call))
    for name in sorted(members_of(value)):
        item = getattr(value, name)
        if type(item).__name__.endswith("Namespace"):
            yield from _namespace(f"{path}.{name}")
        else:
            yield _told(describe(f"{path}.{name}", item, PACKAGE))


def members_of(namespace: Any) -> list[str]:
    """The public names of a namespace object."""
    return [name for name in dir(namespace) if not name.startswith("_")]


def operator_of(namespace: Any) -> types.FunctionType | None:
    """The function that a call of a namespace object stands for."""
    name = getattr(namespace, "__tir_call_op_name__", None)
    return getattr(importlib.import_module("tvm.backend.cuda.op"), name) if name else None


def refused(name: str) -> str | None:
    """What the virtual GPU would have to model for a name, where it does not."""
    for start, what in REFUSED.items():
        if name == start or name.startswith((start + ".", start + "_")):
            return what
        if start.endswith("_") and name.startswith(start):
            return what
    return None


def _told(symbol: Symbol) -> Symbol:
    what = refused(symbol.name)
    if what is None:
        return symbol
    return replace(symbol, notes=(f"NOT MODELLED on the virtual GPU: {what}.", *symbol.notes))


def _tiles(known: dict[int, str]) -> tuple[Symbol, ...]:
    from tvm.script.tirx import tile

    names = [name for name in tile.__all__ if name not in SCOPES]
    symbols = []
    for symbol in _symbols("Tx", tile, names, known):
        if symbol.name != "Tx.compose_op":
            short = symbol.name.removeprefix("Tx.")
            scopes = ", ".join(f"`Tx.{scope}.{short}`" for scope in SCOPES)
            symbol = replace(symbol, kind="tile primitive", notes=(f"Also {scopes}.",))
        symbols.append(symbol)
    for scope in SCOPES:
        described = cls(f"Tx.{scope}", type(getattr(tile, scope)), PACKAGE)
        symbols.append(
            Symbol(
                f"Tx.{scope}", "scope of tile primitives", home=described.home, text=described.text
            )
        )
    return tuple(sorted(symbols, key=lambda symbol: symbol.name.lower()))


def _symbols(
    shown: str, module: types.ModuleType, names: Iterable[str], known: dict[int, str]
) -> tuple[Symbol, ...]:
    symbols = []
    for name in names:
        value = unwrapped(getattr(module, name))
        path = f"{shown}.{name}"
        if isinstance(value, type | types.FunctionType) and id(value) in known:
            symbols.append(Symbol(path, "alias", same_as=known[id(value)]))
            continue
        known.setdefault(id(value), path)
        symbols.append(_told(describe(path, value, PACKAGE)))
    return tuple(symbols)


def public(module: types.ModuleType) -> list[str]:
    names = []
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or type(value).__module__
        if name.endswith(("Functor", "Visitor", "Mutator")):  # for those who write passes
            continue
        ours = home.split(".")[0] in ("tvm", "functools") or isinstance(value, enum.EnumMeta)
        if not name.startswith("_") and ours and not isinstance(value, types.ModuleType):
            names.append(name)
    return sorted(set(names), key=lambda n: (n.lower(), n))


def _is_node(value: Any) -> bool:
    return isinstance(value, type) and type(value).__name__ == "_ObjectSlotsMeta"
