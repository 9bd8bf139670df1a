"""Lowers the programs of the translator's tests with TVM and writes the fixtures.

Run in an environment with TVM 0.25.0.post1, with `python/` on PYTHONPATH:
`python crates/vgpu-tirx/tests/programs/generate.py`. The fixtures are in the repository, so the
tests themselves need no Python.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parents[3] / "python"))

from mkb_tirx.spans import patch_parser  # noqa: E402

patch_parser()
from cases import CASES, Case  # noqa: E402
from first import add, block_sum  # noqa: E402
from mkb_tirx.build import signature_of  # noqa: E402
from mkb_tirx.lowering import Lowered, device_json, lower_module  # noqa: E402

FIXTURES = HERE.parent / "fixtures"


def lowered(program: Any) -> Lowered:
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_100a"})
    return lower_module(tvm.IRModule({"main": program}), target, "tirx")


def as_hex(array: np.ndarray) -> str:
    return np.ascontiguousarray(array).tobytes().hex()


def fixture(case: Case) -> dict[str, Any]:
    low = lowered(case.program)
    ((kernel, func),) = ((str(var.name_hint), f) for var, f in low.device.functions.items())
    arguments = []
    for param, dtype in zip(func.params, signature_of(func).parameters, strict=True):
        # A buffer's pointer is named after it.
        name = str(param.name)
        key = name if name in case.arguments else name.removesuffix("_ptr")
        value = case.arguments.get(key, case.sizes.get(name))
        if dtype == "handle":
            arguments.append({"array": key})
        else:
            arguments.append({"bytes": as_hex(np.asarray(value, dtype))})
    return {
        "kernel": kernel,
        "device": json.loads(device_json(low.device)),
        "grid": [*case.grid, 1, 1][:3],
        "block": [*case.block, 1, 1][:3],
        "dynamic_shared": case.dynamic_shared,
        "arguments": arguments,
        "arrays": {
            name: {
                "dtype": str(value.dtype),
                "before": as_hex(value),
                "after": as_hex(case.expected[name]) if name in case.expected else as_hex(value),
            }
            for name, value in case.arguments.items()
            if isinstance(value, np.ndarray)
        },
        "tolerance": case.tolerance,
        "printed": case.printed,
    }


def main() -> None:
    FIXTURES.mkdir(exist_ok=True)
    (FIXTURES / "cases").mkdir(exist_ok=True)
    for program in (add, block_sum):
        name = str(program.attrs["global_symbol"])
        (FIXTURES / f"{name}.json").write_bytes(device_json(lowered(program).device))
    for name, make in CASES.items():
        text = json.dumps(fixture(make()), separators=(",", ":"), allow_nan=False)
        (FIXTURES / "cases" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(name, len(text))


if __name__ == "__main__":
    main()
