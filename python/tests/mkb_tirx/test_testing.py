"""The pytest plugin: TVM's own tensors against NumPy, and what each kind of test is counted as."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkb_shim")
from mkb_tirx.testing import OUTCOMES, Record, operation, table

PYTHON = Path(__file__).resolve().parents[2]

#: Tests as TVM's are written: arrays of TVM on `tvm.cuda(0)`, skipped where there is no device.
PROGRAM = """
import numpy as np
import pytest
import tvm
from tvm.script import tirx as T
from tvm.testing import env

pytestmark = pytest.mark.skipif(not env.has_cuda_compute(9), reason="need cuda")


def compiled(func):
    return tvm.compile(tvm.IRModule({"main": func}), target="cuda", tir_pipeline="tirx")


@T.prim_func
def halve(x_ptr: T.handle, y_ptr: T.handle) -> None:
    x = T.match_buffer(x_ptr, (64,), "float16")
    y = T.match_buffer(y_ptr, (64,), "float16")
    T.device_entry()
    thread = T.thread_id([64])
    y[thread] = x[thread] * T.float16(0.5)


@T.prim_func
def bulk(x_ptr: T.handle) -> None:
    x = T.match_buffer(x_ptr, (64,), "float32")
    T.device_entry()
    thread = T.thread_id([64])
    T.ptx.cp_async.bulk.wait_group(0)
    x[thread] = T.float32(0)


@T.prim_func
def foreign(x_ptr: T.handle) -> None:
    x = T.match_buffer(x_ptr, (64,), "float32")
    T.device_entry()
    thread = T.thread_id([64])
    x[thread] = T.cuda.func_call(
        "own", source_code="__device__ float own() { return 1; }", return_type="float32"
    )


def halved():
    values = np.random.default_rng(3).standard_normal(64).astype("float16")
    x = tvm.runtime.tensor(values, device=tvm.cuda(0))
    y = tvm.runtime.empty((64,), "float16", tvm.cuda(0))
    compiled(halve)(x, y)
    return values, y


def test_right():
    values, y = halved()
    np.testing.assert_array_equal(y.numpy(), values * np.array(0.5, "float16"))


def test_wrong():
    values, y = halved()
    np.testing.assert_array_equal(y.numpy(), values)


def test_copies():
    values, y = halved()
    host = y.copyto(tvm.cpu())
    again = host.copyto(tvm.cuda(0))
    np.testing.assert_array_equal(again.numpy(), values / 2)
    assert again.device == tvm.cuda(0) and host.device == tvm.cpu()


def test_text_alone():
    assert "halve_kernel" in compiled(halve).mod.imports[0].inspect_source()


def test_incomplete():
    x = tvm.runtime.tensor(np.ones(64, "float32"), device=tvm.cuda(0))
    compiled(bulk)(x)


def test_source_of_its_own():
    compiled(foreign)


@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    assert False


@pytest.mark.skipif(env.has_cuda(), reason="for machines without a GPU")
def test_without_a_device():
    pass
"""


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PYTHON)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_outcomes_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM)
    outcomes = tmp_path / "outcomes.json"
    options = ("-q", "-p", "no:cacheprovider", "--outcomes", str(outcomes))
    done = python(tmp_path, "-m", "pytest", "-p", "mkb_tirx.testing", *options, "test_program.py")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    records = [Record(**json.loads(line)) for line in outcomes.read_text().splitlines()]
    named = {record.test.split("::")[1]: record for record in records}
    assert {name: record.outcome for name, record in named.items()} == {
        "test_right": "ran",
        "test_wrong": "failed",
        "test_copies": "ran",
        "test_text_alone": "host only",
        "test_incomplete": "incomplete",
        "test_source_of_its_own": "refused",
        "test_expected_to_fail": "skipped",
        "test_without_a_device": "skipped",
    }
    assert named["test_incomplete"].reason == "tirx.ptx.cp_async_bulk_wait_group"
    assert named["test_right"].launches == 1
    assert "2 failed" in done.stdout and "1 incomplete" in done.stdout


def test_a_program_runs_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        PROGRAM + "\n\ntest_right()\ntest_copies()\nprint('right')"
    )
    done = python(tmp_path, "-m", "mkb_tirx", "program.py")
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_an_operation_is_found_in_what_a_launch_says() -> None:
    reached = (
        "kernel `k` reached `tirx.ptx.mma, a.py:3`, which the virtual GPU does not model, at a"
    )
    assert operation(reached) == "tirx.ptx.mma"
    lacking = "the virtual GPU does not model tensor maps (TMA) (in kernel main_kernel)"
    assert operation(lacking) == "tensor maps (TMA)"
    assert operation("something else") == "something else"


def test_the_table_counts_by_file() -> None:
    records = [
        Record("a.py::x", "a.py", "ran", "", 1, 0.1),
        Record("a.py::y", "a.py", "incomplete", "tirx.ptx.mma", 0, 0.1),
        Record("b.py::z", "b.py", "incomplete", "tirx.ptx.mma", 0, 0.1),
    ]
    head, a, b, total, missing = table(records)
    assert head.split() == " ".join(OUTCOMES).split()
    assert a.split() == ["a.py", "1", "1"]
    assert b.split() == ["b.py", "1"]
    assert total.split() == ["all", "1", "2"]
    assert missing == "not modelled: tirx.ptx.mma (2)"
