"""`python -m mkb_shim.program FILE ARGUMENTS`: an unmodified program or notebook, with torch's CUDA
side and the CuTe DSL on a virtual GPU and without a judge.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

from . import local


def main(usage: str | None = __doc__, prepare: Callable[[], None] | None = None) -> None:
    """Runs what the command line names; `prepare` is called once the virtual GPU is there."""
    if len(sys.argv) < 2:
        raise SystemExit(f"usage: {usage}")
    server = local.program()
    if server is None:
        raise SystemExit("no mkb is built: run `cargo build --release`, or name one in MKB_PROGRAM")
    file = Path(sys.argv[1])
    sys.path[:0] = [str(file.resolve().parent), str(Path(__file__).resolve().parents[1] / "cute")]
    local.start(server, threads=2)
    if prepare is not None:
        prepare()
    sys.argv = sys.argv[1:]
    if file.suffix == ".ipynb":
        _notebook(file)
    else:
        runpy.run_path(str(file), run_name="__main__")


def _notebook(file: Path) -> None:
    """Runs the code cells in order, in one module; keeps their texts, which the DSL reads."""
    import linecache

    cells = json.loads(file.read_text())["cells"]
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        lines = "".join(cell["source"]).splitlines(keepends=True)
        # Commands of the notebook's shell are no Python.
        text = "".join(line for line in lines if not line.lstrip().startswith(("%", "!")))
        name = f"<{file.name}, cell {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec", dont_inherit=True), names)


if __name__ == "__main__":
    main()
