"""Builds what the virtual GPU needs beside torch: stand-ins, our libcudart, the torch extension.

Run as `python -m mkb_shim.build` in the environment that it builds for; each step says so on
standard output, one line, and is skipped when its product is newer than its sources.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import stubs

NATIVE = Path(__file__).parent / "native"
#: Where torch's libraries look for CUDA's, relative to the folder that holds `torch`.
LIBRARIES = Path("nvidia/cu13/lib")
CUDART_SOURCES = ("arena.cpp", "cudart.cpp", "device_info.cpp")


class BuildError(Exception):
    """A step failed; the message says which and shows the compiler's words."""


def site_packages() -> Path:
    """The folder of this environment that holds `torch`."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise BuildError("torch is not installed in this environment")
    return Path(found.origin).parent.parent


def build_libraries(site: Path) -> None:
    """Makes every library that torch's own ask for and that is not there."""
    into = site / LIBRARIES
    with tempfile.TemporaryDirectory(prefix=".mkb-build-", dir=site) as scratch:
        for library in stubs.missing_libraries(site / "torch/lib"):
            extra, ours = [], ""
            if library.soname == stubs.CUDART:
                extra, ours = [NATIVE / name for name in CUDART_SOURCES], "mkb_*"
            elif library.stem == "libcuda.":
                extra = [NATIVE / "driver.c"]
            if not _newer(
                into / library.soname, [*extra, Path(stubs.__file__), *NATIVE.glob("*.h")]
            ):
                print(f"library {library.soname}", flush=True)
                stubs.build(library, into, Path(scratch), extra=extra, ours=ours)


def _newer(product: Path, sources: list[Path]) -> bool:
    if not product.exists():
        return False
    made = product.stat().st_mtime
    return all(source.stat().st_mtime <= made for source in sources)


def main() -> int:
    argparse.ArgumentParser(prog="mkb_shim.build", description=__doc__).parse_args()
    if shutil.which("cc") is None:
        print("no C compiler: `cc` is not on the PATH", file=sys.stderr)
        return 2
    try:
        build_libraries(site_packages())
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(error.cmd)}\n{error.stderr}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
