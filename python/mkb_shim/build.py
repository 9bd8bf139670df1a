"""Builds what the virtual GPU needs beside torch: stand-ins, our libcudart, the torch extension.

Run as `python -m mkb_shim.build` in the environment that it builds for; each step says so on
standard output, one line, and is skipped when its product is newer than its sources.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import stubs
from .paths import EXTENSION, LIBRARIES, MissingTorch, site_packages

NATIVE = Path(__file__).parent / "native"
CUDART_SOURCES = ("arena.cpp", "cudart.cpp", "device_info.cpp")
CUDART_HEADERS = ("arena.h", "device_info.h")
EXTENSION_SOURCES = (
    "fallback.cpp",
    "special.cpp",
    "encode.cpp",
    "tape.cpp",
    "player.cpp",
    "device.cpp",
    "launch.cpp",
    "api.cpp",
)


def build_libraries(site: Path) -> None:
    """Makes every library that torch's own ask for and that is not there."""
    into = site / LIBRARIES
    with tempfile.TemporaryDirectory(prefix=".mkb-build-", dir=site) as scratch:
        for library in stubs.missing_libraries(site / "torch/lib"):
            extra, read, ours = [], [], ""
            if library.soname == stubs.CUDART:
                extra, ours = [NATIVE / name for name in CUDART_SOURCES], "mkb_*"
                read = [NATIVE / name for name in CUDART_HEADERS]
            elif library.stem == "libcuda.":
                extra = [NATIVE / "driver.c"]
            if not _newer(into / library.soname, [*extra, *read, Path(stubs.__file__)]):
                print(f"library {library.soname}", flush=True)
                stubs.build(library, into, Path(scratch), extra=extra, ours=ours)


def build_extension(site: Path) -> None:
    """Compiles the extension that takes over torch's CUDA operations."""
    target = site / EXTENSION
    sources = [NATIVE / name for name in EXTENSION_SOURCES]
    if _newer(target, [*sources, *NATIVE.glob("*.h"), site / LIBRARIES / stubs.CUDART]):
        return
    print("torch extension", flush=True)
    torch = site / "torch"
    include = torch / "include"
    compile_one = [
        *("c++", "-std=c++20", "-O2", "-w", "-fPIC"),
        *("-I", str(include), "-I", str(include / "torch/csrc/api/include")),
    ]
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".mkb-build-", dir=site) as scratch:
        objects = [Path(scratch) / f"{source.stem}.o" for source in sources]

        def compile_source(source: Path, into: Path) -> None:
            command = [*compile_one, "-c", str(source), "-o", str(into)]
            subprocess.run(command, check=True, capture_output=True, text=True)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_source, sources, objects))
        unfinished = Path(scratch) / target.name
        command = ["c++", "-shared", "-o", str(unfinished), *map(str, objects)]
        command += ["-L", str(torch / "lib"), "-ltorch_cpu", "-lc10"]
        command += ["-L", str(site / LIBRARIES), f"-l:{stubs.CUDART}"]
        # torch's library asks for others that are not in the linker's path.
        command += ["-Wl,--allow-shlib-undefined"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        unfinished.replace(target)


def _newer(product: Path, sources: list[Path]) -> bool:
    if not product.exists():
        return False
    made = product.stat().st_mtime
    return all(source.stat().st_mtime <= made for source in sources)


def main() -> int:
    argparse.ArgumentParser(prog="mkb_shim.build", description=__doc__).parse_args()
    for compiler, language in (("cc", "C"), ("c++", "C++")):
        if shutil.which(compiler) is None:
            print(f"no {language} compiler: `{compiler}` is not on the PATH", file=sys.stderr)
            return 2
    try:
        site = site_packages()
        build_libraries(site)
        build_extension(site)
    except MissingTorch as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(error.cmd)}\n{error.stderr}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
