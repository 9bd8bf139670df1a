"""Functions of floats are within a few units in the last place of Python's."""

from __future__ import annotations

import math
import random

import cutlass.cute as cute
import numpy as np
import pytest
from cutlass import Float32

FUNCTIONS = {
    "exp": (math.exp, -87.0, 88.0, 2),
    "exp2": (lambda x: 2.0**x, -126.0, 127.0, 2),
    "log": (math.log, 1e-30, 1e30, 2),
    "log2": (math.log2, 1e-30, 1e30, 3),
    "log10": (math.log10, 1e-30, 1e30, 3),
    "sqrt": (math.sqrt, 0.0, 1e30, 0.5),
    "rsqrt": (lambda x: 1 / math.sqrt(x), 1e-20, 1e20, 2),
    "sin": (math.sin, -1e4, 1e4, 2),
    "cos": (math.cos, -1e4, 1e4, 2),
    "tan": (math.tan, -100.0, 100.0, 4),
    "tanh": (math.tanh, -10.0, 10.0, 2),
    "erf": (math.erf, -5.0, 5.0, 3),
    "atan": (math.atan, -100.0, 100.0, 3),
    "asin": (math.asin, -1.0, 1.0, 4),
    "acos": (math.acos, -0.99, 0.99, 4),
}


def traced(name: str) -> object:
    function = getattr(cute.math, name)

    @cute.jit
    def call(x: Float32):
        return function(x)

    return call


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_close_to_the_exact_value(name: str) -> None:
    exact, low, high, ulps = FUNCTIONS[name]
    call = traced(name)
    rng = random.Random(name)
    for _ in range(80):
        if low > 0:
            x = math.exp(rng.uniform(math.log(low), math.log(high)))
        else:
            x = rng.choice([rng.uniform(low, high), rng.uniform(max(low, -1.0), min(high, 1.0))])
        x = float(np.float32(x))
        expected = exact(x)
        unit = float(np.spacing(np.float32(abs(expected))))
        assert abs(call(x) - expected) <= ulps * unit + 1e-44, (name, x)


def test_special_values() -> None:
    assert traced("exp")(1000.0) == math.inf
    assert traced("exp")(-1000.0) == 0.0
    assert traced("log")(0.0) == -math.inf
    assert math.isnan(traced("log")(-1.0))
    assert math.isnan(traced("sin")(math.inf))
    assert traced("tanh")(100.0) == 1.0
    assert traced("erf")(-100.0) == -1.0


@cute.jit
def powers(x: Float32, y: Float32):
    return x**2.0, x**-2, x**3, x**y, cute.math.pow(x, y)


@pytest.mark.parametrize("x", [-2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("y", [-3.0, -2.0, 0.0, 1.0, 2.0, 2.5])
def test_powers_are_those_of_c(x: float, y: float) -> None:
    def power(x: float, y: float) -> float:
        if x == 0 and y < 0:
            return math.inf
        try:
            return math.pow(x, y)
        except ValueError:
            return math.nan

    got = powers(x, y)
    expected = (power(x, 2), power(x, -2), power(x, 3), power(x, y), power(x, y))
    assert got == pytest.approx(expected, rel=1e-6, nan_ok=True)
