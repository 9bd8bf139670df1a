"""Known operands are folded to the bits that the machine would compute; torch is the judge."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from cutlass import _fold

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("ty", "name"), [("bf16", "bfloat16"), ("f16", "float16")])
def test_singles_round_to_16_bits_as_torch_rounds_them(ty: str, name: str) -> None:
    bits = torch.randint(-(2**31), 2**31, (5000,), dtype=torch.int32)
    singles = bits.view(torch.float32)
    expected = singles.to(getattr(torch, name)).view(torch.int16)
    for x, e in zip(singles.tolist(), expected.tolist(), strict=True):
        if x == x:
            assert _fold.BITS_FLOAT[ty](x) == e & 0xFFFF


@pytest.mark.parametrize(
    ("ty", "name", "largest"), [("e4m3", "float8_e4m3fn", 448.0), ("e5m2", "float8_e5m2", 57344.0)]
)
def test_singles_round_to_8_bits_as_torch_rounds_them(ty: str, name: str, largest: float) -> None:
    singles = torch.randn(5000) * torch.exp(torch.randn(5000) * 4)
    kind = getattr(torch, name)
    expected = singles.clamp(-largest, largest).to(kind).view(torch.uint8)
    for x, e in zip(singles.tolist(), expected.tolist(), strict=True):
        assert _fold.BITS_FLOAT[ty](x) == e
    every = torch.arange(256, dtype=torch.uint8).view(kind).float().tolist()
    for b, x in enumerate(every):
        got = _fold.FLOAT_OF[ty](b)
        assert got == x or (got != got and x != x)


def test_a_fused_multiply_add_is_rounded_once() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        a, b, c = (_fold.bits_f32(rng.gauss(0, 1) * 2.0 ** rng.randint(-20, 20)) for _ in "abc")
        exact = Fraction(_fold.f32_of(a)) * Fraction(_fold.f32_of(b)) + Fraction(_fold.f32_of(c))
        bits = _fold._fma("f32", a, b, c)
        assert bits is not None
        got = np.float32(_fold.f32_of(bits))
        error = abs(Fraction(float(got)) - exact)
        for neighbour in (
            np.nextafter(got, np.float32(-np.inf)),
            np.nextafter(got, np.float32(np.inf)),
        ):
            assert error <= abs(Fraction(float(neighbour)) - exact)


def test_integers_round_to_singles_once() -> None:
    rng = random.Random(2)
    for _ in range(2000):
        x = rng.getrandbits(63) >> rng.randint(0, 40)
        bits = _fold.evaluate("cvt", "f32", ".rn", "s64", [x])
        assert bits == int(np.frombuffer(np.int64(x).astype(np.float32).tobytes(), np.uint32)[0])
