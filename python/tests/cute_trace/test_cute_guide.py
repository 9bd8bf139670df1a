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


def test_asynchronous_copies_and_two_kernels(tmp_path: Path) -> None:
    x = torch.randn(88, 256)
    exact = x.double().sum(dim=0)
    sums = run(tmp_path, "column_sums", x).double()
    torch.testing.assert_close(sums, exact, rtol=1e-6, atol=1e-5)


def test_atomics(tmp_path: Path) -> None:
    x = torch.randint(0, 64, (9001,), dtype=torch.int32)
    assert torch.equal(run(tmp_path, "histogram", x).long(), torch.bincount(x, minlength=64))


def test_a_warp_a_row_in_place(tmp_path: Path) -> None:
    x = torch.randn(7, 256).bfloat16()
    exact = x.double() * torch.rsqrt(x.double().pow(2).mean(dim=1, keepdim=True) + 1e-5)
    given = x.to("cuda")
    normalized = run(tmp_path, "normalize", given)
    torch.testing.assert_close(normalized.double(), exact, rtol=1e-2, atol=1e-6)
    assert torch.equal(given.cpu(), normalized), "it was not changed in place"


def test_no_program_is_left_out() -> None:
    assert not PROGRAMS
