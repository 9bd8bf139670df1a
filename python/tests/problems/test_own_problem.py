"""The page "Write your own problem": its problem and its solution do what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from agreement import exact, excess
from loading import PROBLEMS, Problem
from test_solutions import Bench, agrees, literal, points, with_choice

PAGE = PROBLEMS.parent / "docs" / "write-your-own-problem.md"
PROBLEM, SOLUTION = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    path = tmp_path / "99_scale_rows.py"
    path.write_text(PROBLEM)
    return Problem(99, path=path, ROWS=13)


def test_its_problem_scales_rows(problem: Problem) -> None:
    inputs = problem.draw(4)
    x = exact(inputs[0])
    expected = x / np.abs(x).max(axis=1, keepdims=True)
    (reference,), (anchor,) = problem.reference(inputs), problem.anchor(inputs)
    assert excess(expected, reference, anchor) <= 1
    assert not agrees(torch.zeros_like(reference), reference, anchor)
    assert not agrees(inputs[0], reference, anchor)


def test_its_solution_is_right_all_over_its_space(problem: Problem, tmp_path: Path) -> None:
    inputs = problem.draw(5)
    (reference,), (anchor,) = problem.reference(inputs), problem.anchor(inputs)
    assert literal(SOLUTION, "PARAMS").keys() == literal(SOLUTION, "SPACE").keys()
    bench = Bench("cutedsl")
    try:
        for i, choice in enumerate(points(SOLUTION)):
            kernel = tmp_path / f"kernel_{i}.py"
            kernel.write_text(with_choice(SOLUTION, choice))
            (out,) = bench.solve(kernel, inputs)
            assert agrees(out, reference, anchor), choice
    finally:
        bench.close()
