"""The programs of docs/cutedsl-guide.md run as they stand, and give what torch gives."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("device")

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "cutedsl-guide.md"
PROGRAMS = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", GUIDE.read_text(), re.DOTALL))


def run(folder: Path, name: str, x: Any) -> Any:
    path = folder / f"{name}.py"
    path.write_text(PROGRAMS.pop(name))
    spec = importlib.util.spec_from_file_location(f"guide_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.solve(x.to("cuda")).cpu()


def test_a_first_kernel(tmp_path: Path) -> None:
    x = torch.randn(1000)
    assert torch.equal(run(tmp_path, "scale", x), x * 2)


def test_threads_together(tmp_path: Path) -> None:
    x = torch.randn(5, 300)
    exact = torch.softmax(x.double(), dim=1)
    torch.testing.assert_close(run(tmp_path, "softmax", x).double(), exact, rtol=1e-6, atol=0)


def test_tiles(tmp_path: Path) -> None:
    x = torch.randn(13, 264).bfloat16()
    exact = torch.nn.functional.gelu(x.double(), approximate="tanh")
    torch.testing.assert_close(run(tmp_path, "gelu", x).double(), exact, rtol=1e-2, atol=1e-6)


def test_no_program_is_left_out() -> None:
    assert not PROGRAMS
