"""Random structured programs: each thread computes what plain Python computes for its input."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

import pytest
from cutlass.cute.runtime import from_dlpack

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("device")

HEADER = """
import cutlass
import cutlass.cute as cute

def program(a, b, c, n):
{body}
    return a + 3 * b + 7 * c

@cute.kernel
def kernel(x: cute.Tensor, out: cute.Tensor, n: cutlass.Int32):
    t, _, _ = cute.arch.thread_idx()
    out[t] = cute.jit(program)(x[t], x[t] % 7, cutlass.Int32(5), n)

@cute.jit
def run(x: cute.Tensor, out: cute.Tensor, n: cutlass.Int32):
    kernel(x, out, n).launch(grid=(1, 1, 1), block=(64, 1, 1))
"""


class Generator:
    """Statements over the variables a, b, c and the loop variables in sight."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loops = 0

    def expression(self, names: list[str], depth: int = 2) -> str:
        r = self.rng
        if depth == 0 or r.random() < 0.3:
            return r.choice([*names, str(r.randint(-9, 9))])
        left, right = self.expression(names, depth - 1), self.expression(names, depth - 1)
        kind = r.randint(0, 6)
        if kind < 3:
            return f"({left} {r.choice('+-*')} {right})"
        if kind == 3:
            return f"({left} % {r.choice([2, 3, 5, 8, 16])})"
        if kind == 4:
            return f"({left} // {r.choice([2, 3, 4, 7])})"
        if kind == 5:
            return f"{r.choice(['max', 'min'])}({left} + 0 * a, {right})"
        return f"({left} & 63)"

    def condition(self, names: list[str]) -> str:
        r = self.rng
        first = f"{self.expression(names, 1)} + 0 * a {r.choice(['<', '>', '==', '!=', '<='])} "
        first += self.expression(names, 1)
        if r.random() < 0.3:
            return f"{first} {r.choice(['and', 'or'])} not {self.condition(names)}"
        return first

    def block(self, names: list[str], depth: int, pad: str) -> str:
        return "".join(self.statement(names, depth, pad) for _ in range(self.rng.randint(1, 3)))

    def statement(self, names: list[str], depth: int, pad: str) -> str:
        r = self.rng
        kind = r.randint(0, 5) if depth else 0
        if kind <= 1:
            # Small enough that no product of four of them leaves 32 bits.
            target = r.choice("abc")
            return f"{pad}{target} = ({self.expression(names)}) % 101 + 0 * {target}\n"
        inner = pad + "    "
        if kind <= 3:
            out = f"{pad}if {self.condition(names)}:\n{self.block(names, depth - 1, inner)}"
            if r.random() < 0.6:
                out += f"{pad}else:\n{self.block(names, depth - 1, inner)}"
            return out
        self.loops += 1
        name = f"i{self.loops}"
        if kind == 4:
            bound = r.choice(
                ["n", "3", "a % 5", "b % 4", f"{r.randint(1, 4)}, n + 2, 2", "5, 0, -2"]
            )
            body = self.block([*names, name], depth - 1, inner)
            return f"{pad}for {name} in range({bound}):\n{body}"
        body = self.block(names, depth - 1, inner)
        return (
            f"{pad}{name} = 0 * a + {r.randint(0, 4)}\n"
            f"{pad}while {name} > 0 and ({self.condition(names)}):\n"
            f"{body}{inner}{name} = {name} - 1\n"
        )


def load(path: Path, body: str) -> ModuleType:
    path.write_text(HEADER.format(body=body))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program_does_what_python_does(seed: int, tmp_path: Path) -> None:
    generator = Generator(seed)
    body = "".join(generator.statement(["a", "b", "c", "n"], 3, "    ") for _ in range(4))
    module = load(tmp_path / f"program_{seed}.py", body)
    x = torch.randint(0, 150, (64,), dtype=torch.int32)
    out = torch.zeros(64, dtype=torch.int32, device="cuda")
    module.run(from_dlpack(x.to("cuda")), from_dlpack(out), 4)
    expected = [module.program(v, v % 7, 5, 4) for v in x.tolist()]
    assert out.cpu().tolist() == expected, body
