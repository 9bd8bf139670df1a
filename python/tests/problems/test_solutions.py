"""Oracle solutions, both DSLs, on the virtual GPU: right for parameters from good to poor.

The device is the program `mkb`: that of MKB_PROGRAM, or the newest that cargo has built.
"""

import ast
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agreement import exact, excess
from loading import PROBLEMS, Problem

sys.path.insert(0, str(Path(__file__).parents[1]))
from driver import Worker, leaves

REPOSITORY = PROBLEMS.parent
STEPS = 20_000_000_000

#: Workloads of a second or so, ragged where the problem's own are: constants by problem.
SMALL: dict[int, dict[str, Any]] = {
    1: {"NUM_PAGES": 173, "KV_INDPTR": [0, 1, 38, 38, 131, 140]},
    21: {"NUM_TOKENS": 83, "MAX_PAD_TOKENS": 9, "NUM_BLOCKS": 11},
    28: {"BATCH_SIZE": 7},
    49: {"NUM_TOKENS": 45, "GATING_DIM": 64},
    53: {"M": 9, "HIDDEN": 384, "INTERMEDIATE": 256},
    72: {"BATCH_SIZE": 2},
}
SOLUTIONS = sorted(PROBLEMS.glob("*/_solutions/[0-9]*.py"))


def device_program() -> Path:
    """The program that has the virtual GPU."""
    if named := os.environ.get("MKB_PROGRAM"):
        return Path(named)
    built = [REPOSITORY / "target" / profile / "mkb" for profile in ("release", "debug")]
    built = [path for path in built if path.is_file()]
    if not built:
        pytest.skip("no program `mkb`: `cargo build -p mkb` builds it, or MKB_PROGRAM names it")
    return max(built, key=lambda path: path.stat().st_mtime)


#: Gives a program the descriptors 3, 4 and 5 that the virtual GPU's process expects.
HAND_OVER = """
import fcntl, os, sys
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:4]]
for target, fd in enumerate(fds, start=3):
    os.dup2(fd, target)
os.execv(sys.argv[4], sys.argv[4:])
"""


class Bench:
    """A submission's worker with a virtual GPU behind it."""

    def __init__(self, dsl: str) -> None:
        self.control, theirs = socket.socketpair()
        link, device_end = socket.socketpair()
        options = ("--dsl", dsl, "--device-fd", str(link.fileno()))
        self.worker = Worker("submission", *options, pass_fds=(link.fileno(),))
        fds = [self.worker.arena, device_end.fileno(), theirs.fileno()]
        program = [str(device_program()), "device-server", "1", "0", str(STEPS)]
        command = [sys.executable, "-c", HAND_OVER, *map(str, fds), *program]
        self.device = subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL)
        for end in (theirs, link, device_end):
            end.close()

    def close(self) -> None:
        self.worker.close()
        self.control.close()
        self.device.kill()
        self.device.wait()

    def solve(self, kernel: Path, inputs: list[Any]) -> list[torch.Tensor]:
        """What the kernel file's `solve` returns for inputs on the CPU."""
        self.worker.ask("import", path=str(kernel))
        placed = self.worker.ask("place", inputs=[described(x) for x in inputs])["inputs"]
        for value, x in zip(placed, inputs, strict=True):
            if isinstance(x, torch.Tensor):
                self.worker.fill(value, x.contiguous().view(torch.uint8).numpy().tobytes())
        outputs = self.worker.ask("call")["outputs"]
        tensors = [self.worker.tensor(leaf) for leaf in leaves(outputs)]
        self.worker.ask("release")
        return tensors


def described(x: Any) -> dict[str, Any]:
    """An input as the control socket has it."""
    if isinstance(x, torch.Tensor):
        dtype = str(x.dtype).removeprefix("torch.")
        stride = list(x.contiguous().stride())
        return {"t": "tensor", "dtype": dtype, "shape": list(x.shape), "stride": stride}
    if isinstance(x, float):
        return {"t": "float", "v": x.hex()}
    return {"t": "int", "v": x}


def literal(text: str, name: str) -> dict[str, Any]:
    """A top-level dictionary of a solution."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"no {name}")


def with_choice(text: str, choice: dict[str, Any]) -> str:
    """The solution with another choice, as the tuner writes it."""
    lines = text.splitlines()
    (index,) = [i for i, line in enumerate(lines) if line.startswith("PARAMS = ")]
    written = json.dumps(choice).replace("true", "True").replace("false", "False")
    return "\n".join([*lines[:index], f"PARAMS = {written}", *lines[index + 1 :]]) + "\n"


def points(text: str) -> list[dict[str, Any]]:
    """The solution's choice, both ends of every parameter, and a mixture."""
    space = literal(text, "SPACE")
    ends = [{name: values[end] for name, values in space.items()} for end in (0, -1)]
    names = list(space)
    mixed = {name: values[i % len(values)] for i, (name, values) in enumerate(space.items(), 1)}
    crossed = {name: ends[i % 2][name] for i, name in enumerate(names)}
    return [literal(text, "PARAMS"), *ends, mixed, crossed]


@pytest.fixture(scope="module", params=["cutedsl", "tirx"])
def bench(request: pytest.FixtureRequest) -> Iterator[tuple[str, Bench]]:
    bench = Bench(request.param)
    yield request.param, bench
    bench.close()


@pytest.mark.parametrize("number", sorted(SMALL))
def test_a_solution_is_right_for_parameters_from_good_to_poor(
    bench: tuple[str, Bench], number: int, tmp_path: Path
) -> None:
    dsl, device = bench
    (path,) = [
        p for p in SOLUTIONS if p.name.startswith(f"{number:02d}_") and p.stem.endswith(f"_{dsl}")
    ]
    text = path.read_text()
    problem = Problem(number, **SMALL[number])
    inputs = problem.draw(2**61 + number)
    reference, anchor = problem.reference(inputs), problem.anchor(inputs)
    for i, choice in enumerate(points(text)):
        kernel = tmp_path / f"kernel_{i}.py"
        kernel.write_text(with_choice(text, choice))
        outputs = device.solve(kernel, inputs)
        assert len(outputs) == len(reference), choice
        for place, (out, ref, target) in enumerate(zip(outputs, reference, anchor, strict=True)):
            assert out.dtype == ref.dtype and out.shape == ref.shape, (place, choice)
            assert agrees(out, ref, target), (place, choice)


def agrees(actual: torch.Tensor, reference: torch.Tensor, anchor: torch.Tensor) -> bool:
    """The benchmark's rule for one tensor."""
    if not reference.dtype.is_floating_point:
        return torch.equal(actual, reference)
    finite = ~reference.isinf()
    if not torch.equal(actual[~finite], reference[~finite]):
        return False
    values = exact(actual[finite])
    return not np.isnan(values).any() and excess(values, reference[finite], anchor[finite]) <= 1


@pytest.mark.parametrize("number", sorted(SMALL))
def test_zeros_constants_and_what_was_there_do_not_pass(number: int) -> None:
    problem = Problem(number, **SMALL[number])
    inputs = problem.draw(2**60 + number)
    reference, anchor = problem.reference(inputs), problem.anchor(inputs)
    given = [x for x in inputs if isinstance(x, torch.Tensor)]
    for out, target in zip(reference, anchor, strict=True):
        assert agrees(out, out, target)
        finite = exact(target)[~target.isinf().numpy()] if out.dtype.is_floating_point else None
        constants = [0] if finite is None else [0, finite.mean(), float(np.median(finite))]
        for constant in constants:
            wrong = torch.full_like(out, constant)
            wrong[out.isinf()] = out[out.isinf()]
            assert not agrees(wrong, out, target), constant
        for x in given:
            if x.shape == out.shape and x.dtype == out.dtype:
                assert not agrees(x, out, target)
