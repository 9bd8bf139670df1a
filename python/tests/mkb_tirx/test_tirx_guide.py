"""The programs of docs/tirx-guide.md run as they stand, and give what NumPy gives."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from test_solutions import Bench

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "tirx-guide.md"
PROGRAMS = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", GUIDE.read_text(), re.DOTALL))


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    bench = Bench("tirx")
    yield bench
    bench.close()


def run(bench: Bench, tmp_path: Path, name: str, x: torch.Tensor) -> np.ndarray:
    path = tmp_path / f"{name}.py"
    path.write_text(PROGRAMS.pop(name))
    (y,) = bench.solve(path, [x])
    return y.numpy()


def drawn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(shape, generator=generator)


def test_a_first_kernel(bench: Bench, tmp_path: Path) -> None:
    x = drawn(1000)
    np.testing.assert_array_equal(run(bench, tmp_path, "scale", x), x.numpy() * 2)


def test_threads_together(bench: Bench, tmp_path: Path) -> None:
    x = drawn(5, 300)
    exact = np.exp(x.numpy().astype("float64"))
    exact /= exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(run(bench, tmp_path, "softmax", x), exact, rtol=2e-6)


def test_vectors_and_what_does_not_fill_them(bench: Bench, tmp_path: Path) -> None:
    x = drawn(7, 293).bfloat16()
    path = tmp_path / "gelu.py"
    path.write_text(PROGRAMS.pop("gelu"))
    (y,) = bench.solve(path, [x])
    exact = torch.nn.functional.gelu(x.double(), approximate="tanh")
    torch.testing.assert_close(y.double(), exact, rtol=1e-2, atol=1e-5)


def test_asynchronous_copies_and_two_kernels(bench: Bench, tmp_path: Path) -> None:
    x = drawn(88, 256)
    exact = x.numpy().astype("float64").sum(axis=0)
    np.testing.assert_allclose(run(bench, tmp_path, "column_sums", x), exact, rtol=1e-6, atol=1e-5)


def test_atomics(bench: Bench, tmp_path: Path) -> None:
    x = torch.arange(9001, dtype=torch.int32) * 7 % 61
    expected = np.bincount(x.numpy(), minlength=64)
    np.testing.assert_array_equal(run(bench, tmp_path, "histogram", x), expected)


def test_a_warp_a_row_in_place(bench: Bench, tmp_path: Path) -> None:
    x = drawn(7, 256).bfloat16()
    exact = x.double() * torch.rsqrt(x.double().pow(2).mean(dim=1, keepdim=True) + 1e-5)
    path = tmp_path / "normalize.py"
    path.write_text(PROGRAMS.pop("normalize"))
    (y,) = bench.solve(path, [x])
    torch.testing.assert_close(y.double(), exact, rtol=1e-2, atol=1e-5)


def test_tiles(bench: Bench, tmp_path: Path) -> None:
    x = drawn(96, 64)
    exact = x.numpy().astype("float64").sum(axis=1)
    np.testing.assert_allclose(run(bench, tmp_path, "row_sums", x), exact, atol=1e-5)


def test_no_program_is_left_out() -> None:
    assert not PROGRAMS
