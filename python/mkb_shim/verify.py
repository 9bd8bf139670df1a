"""Checks an environment end to end, and writes the versions of what it holds as JSON.

Run as `python -m mkb_shim.verify FILE`.
"""

from __future__ import annotations

import compileall
import json
import platform
import sys
from pathlib import Path

import mkb_shim


def main() -> int:
    mkb_shim.install()
    import torch
    import tvm

    x = torch.arange(6, dtype=torch.float32, device="cuda").reshape(2, 3)
    product = (x @ x.T).cpu()
    if product.tolist() != [[5.0, 14.0], [14.0, 50.0]] or not x.is_cuda:
        print(f"a product on the virtual GPU came out as {product.tolist()}", file=sys.stderr)
        return 1
    # Workers write no byte code: what they may import later gets it here.
    for package in (tvm, sys.modules["tvm_ffi"]):
        compileall.compile_dir(Path(package.__file__).parent, quiet=2)
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "tvm": tvm.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    Path(sys.argv[1]).write_text(json.dumps(versions))
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
