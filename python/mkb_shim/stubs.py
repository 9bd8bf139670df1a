"""Stand-ins for the NVIDIA libraries that torch's CUDA build links to and that we do without.

Each stand-in has the soname, the symbols and the symbol versions that torch's libraries ask for,
read from their ELF files, and nothing behind them: a call says its name once on standard error and
returns the library's "not supported" status. `libcudart` is ours (`cudart.c`); here it gets the
symbols that it does not implement.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .elf import read_needs

CUDART = "libcudart.so.13"

#: Soname prefix -> "not supported" status of that library's functions (public API references).
_STATUS = {
    "libcuda.": 801,
    "libcudart.": 801,
    "libcublas.": 15,
    "libcublasLt.": 15,
    "libcusparse.": 10,
    "libcusparseLt.": 10,
    "libcusolver.": 9,
    "libcufft.": 16,
    "libcudnn.": 3000,
    "libcurand.": 204,
    "libcupti.": 27,
    "libnvrtc.": 11,
    "libnccl.": 3,
    "libnvshmem_host.": 1,
    "libcufile.": 5001,
}
#: Libraries whose functions torch tries without need: silent.
_QUIET = ("libcupti.", "libcufile.", "libnvshmem_host.", "libnccl.")
#: Symbols without a version are matched to their library by prefix, in this order.
_PREFIXES = {
    "cusparseLt": "libcusparseLt.",
    "cuFile": "libcufile.",
    "curand": "libcurand.",
    "nccl": "libnccl.",
    "nvshmem": "libnvshmem_host.",
    "cu": "libcuda.",
}


@dataclass(frozen=True)
class StandIn:
    """A library to make: its soname and its symbols by version ("" for none)."""

    soname: str
    symbols: dict[str, tuple[str, ...]]

    @property
    def stem(self) -> str:
        """The soname up to and with its first dot."""
        return self.soname.partition(".")[0] + "."


def missing_libraries(torch_lib: Path) -> list[StandIn]:
    """What the libraries in `torch_lib` need of NVIDIA's, sorted by soname."""
    all_needs = [read_needs(path) for path in sorted(torch_lib.glob("*.so*"))]
    wanted: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    by_stem: dict[str, str] = {}
    for needs in all_needs:
        for library in needs.libraries:
            stem = library.partition(".")[0] + "."
            if stem in _STATUS:
                by_stem[stem] = library
                _ = wanted[library]  # makes the entry: some are needed for their name alone
    defined = frozenset().union(*(needs.defined for needs in all_needs))
    for needs in all_needs:
        for library, versions in needs.versioned.items():
            if library in wanted:
                for version, symbols in versions.items():
                    wanted[library][version] |= symbols
        for symbol in needs.unversioned - defined:
            for prefix, stem in _PREFIXES.items():
                if symbol.startswith(prefix) and stem in by_stem:
                    wanted[by_stem[stem]][""].add(symbol)
                    break
    return [
        StandIn(library, {v: tuple(sorted(s)) for v, s in sorted(versions.items())})
        for library, versions in sorted(wanted.items())
    ]


def stub_source(library: StandIn) -> str:
    """C text with a weak definition of each symbol, so that a real one beside it wins."""
    status = _STATUS[library.stem]
    quiet = library.stem in _QUIET
    lines = [
        "#include <stdio.h>",
        '#define WEAK __attribute__((weak, visibility("default")))',
        "static void say(const char *name, int *said) {",
        "    if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))",
        f'        fprintf(stderr, "mkb: {library.soname}: %s is not modelled\\n", name);',
        "}",
        "#define STUB(name) WEAK long name(void) "
        + (
            f"{{ return {status}; }}"
            if quiet
            else f"{{ static int said; say(#name, &said); return {status}; }}"
        ),
        '#define TEXT(name) WEAK const char *name(void) { return "not modelled"; }',
        "#define ZERO(name) WEAK long name(void) { return 0; }",
    ]
    for symbol in sorted({s for symbols in library.symbols.values() for s in symbols}):
        lines.append(f"{_kind(symbol)}({symbol})")
    return "\n".join(lines) + "\n"


def _kind(symbol: str) -> str:
    if symbol.endswith(("ErrorString", "ErrorName", "StatusString", "GetLastError", "StatusName")):
        # `cudaGetLastError` returns a number, but that one is implemented in `cudart.c`.
        return "TEXT"
    if symbol.endswith(("GetVersion", "GetCudartVersion", "GetProperty")):
        return "ZERO"
    return "STUB"


def version_script(library: StandIn, ours: str = "") -> str | None:
    """The linker's version script, or None where no symbol has a version.

    `ours` is a pattern of further symbols to export; with it, nothing else is.
    """
    nodes = [
        f"{version} {{ global: {' '.join(f'{symbol};' for symbol in symbols)} }};"
        for version, symbols in library.symbols.items()
        if version
    ]
    if ours:
        nodes.append(f"MKB {{ global: {ours}; local: *; }};")
    return "\n".join(nodes) + "\n" if nodes else None


def build(
    library: StandIn,
    into: Path,
    scratch: Path,
    compiler: str = "cc",
    extra: Iterable[Path] = (),
    ours: str = "",
) -> Path:
    """Compiles and links one stand-in to `into/<soname>`, with the C and C++ sources `extra`.

    `ours` is a pattern of symbols of `extra` to export beside those that torch asks for.

    Raises `subprocess.CalledProcessError` with the compiler's words in `stderr`.
    """
    into.mkdir(parents=True, exist_ok=True)
    scratch.mkdir(parents=True, exist_ok=True)
    source = scratch / f"{library.soname}.c"
    source.write_text(stub_source(library))
    command = [compiler, "-shared", "-fPIC", "-O2", "-w", f"-Wl,-soname,{library.soname}"]
    script = version_script(library, ours)
    if script is not None:
        path = scratch / f"{library.soname}.map"
        path.write_text(script)
        command.append(f"-Wl,--version-script={path}")
    target = into / library.soname
    unfinished = scratch / library.soname
    sources = [str(path) for path in extra]
    command += ["-o", str(unfinished), *sources, str(source)]
    if any(path.endswith(".cpp") for path in sources):
        command += ["-std=c++17", "-lstdc++"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    unfinished.replace(target)
    return target
