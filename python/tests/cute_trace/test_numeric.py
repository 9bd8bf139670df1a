"""Numeric types on the host: operators against Python, conversions against NumPy."""

from __future__ import annotations

import operator

import cutlass
import cutlass.cute as cute
import pytest
from cutlass import Boolean, Float32, Int8, Int32, Int64, Uint8, Uint32

PAIRS = [(10, 3), (-10, 3), (10, -3), (-10, -3), (7, 7), (0, 5), (2**31 - 1, 2), (-(2**31), 3)]


def wrap32(x: int) -> int:
    x &= 0xFFFFFFFF
    return x - (1 << 32) if x >> 31 else x


@cute.jit
def integer_operators(a: Int32, b: Int32):
    return a + b, a - b, a * b, a // b, a % b, a & b, a | b, a ^ b, a << 3, a >> 2, -a, ~a


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_integer_operators_are_pythons_wrapped_to_32_bits(a: int, b: int) -> None:
    expected = (a + b, a - b, a * b, a // b, a % b, a & b, a | b, a ^ b, a << 3, a >> 2, -a, ~a)
    assert integer_operators(a, b) == tuple(wrap32(x) for x in expected)


@cute.jit
def by_a_constant(a: Int32, d: cutlass.Constexpr):
    return a // d, a % d


@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 100, 1000, 65537, -3, -4])
def test_division_by_a_constant_rounds_down(d: int) -> None:
    for a in (0, 1, 2, 99, 100, 12345678, 2**31 - 1, -1, -7, -8, -(2**31)):
        assert by_a_constant(a, d) == (wrap32(a // d), wrap32(a % d))


@cute.jit
def wrapped_by_a_constant(t: Int32, d: cutlass.Constexpr):
    product = t * 0x10000001
    total = t + 0x7FFFFFFF
    return product // d, product % d, total // d, total % d


@pytest.mark.parametrize("d", [3, 5, 7, 1000])
def test_division_of_what_wrapped_around_rounds_down(d: int) -> None:
    for t in (0, 1, 8, 15, 31, 2**31 - 1):
        product, total = wrap32(t * 0x10000001), wrap32(t + 0x7FFFFFFF)
        expected = (product // d, product % d, total // d, total % d)
        assert wrapped_by_a_constant(t, d) == expected


@cute.jit
def by_a_constant_not_negative(n: Int32, d: cutlass.Constexpr):
    quotient, rest = Int32(0), Int32(0)
    for i in range(n, n + 1):
        quotient = i // d
        rest = i % d
    return quotient, rest


@pytest.mark.parametrize("d", [3, 5, 6, 7, 9, 11, 641, 1000, 99991, 2**30 + 1, 2**31 - 1])
def test_division_through_a_high_product_is_exact(d: int) -> None:
    samples = {0, 1, d - 1, d, 2 * d - 1, 2**31 - 2, 2**30, 2**31 // d * d, 2**31 // d * d - 1}
    for n in sorted(s for s in samples if 0 <= s < 2**31 - 1):
        assert by_a_constant_not_negative(n, d) == (n // d, n % d)


@cute.jit
def comparisons(a: Int32, b: Int32):
    return a < b, a <= b, a > b, a >= b, a == b, a != b


def test_comparisons_are_pythons() -> None:
    for a, b in PAIRS:
        assert comparisons(a, b) == (a < b, a <= b, a > b, a >= b, a == b, a != b)


@cute.jit
def promotions(i8: Int8, i32: Int32, i64: Int64, u32: Uint32, f32: Float32, p: Boolean):
    values = (
        i8 + i8,
        i8 + i32,
        i32 + i64,
        i32 + u32,
        i32 + f32,
        i32 / i32,
        f32 * 2,
        i32 * 2.0,
        p + p,
    )
    print(",".join(str(type(v)) for v in values))
    return i32 / i32


def test_promotion_follows_float_width_and_sign(capsys: pytest.CaptureFixture[str]) -> None:
    assert promotions(1, 10, 3, 4, 1.5, True) == 1.0
    names = "Int8,Int32,Int64,Uint32,Float32,Float32,Float32,Float32,Int32"
    assert capsys.readouterr().out.strip() == names


@cute.jit
def narrow(a: Int32):
    small = a.to(Int8)
    return small, small + small, a.to(Uint8), a.to(Uint8) * a.to(Uint8), small.to(Int64)


def test_narrow_integers_wrap_around() -> None:
    for a in (0, 127, 128, 300, -1, -129):
        small = (a + 128) % 256 - 128
        doubled = (2 * small + 128) % 256 - 128
        byte = a % 256
        assert narrow(a) == (small, doubled, byte, byte * byte % 256, small)


@cute.jit
def float_to_integer(x: Float32):
    return x.to(Int32), x.to(Int8)


def test_floats_are_truncated() -> None:
    for x in (3.14, -3.99, 0.0, 100.7):
        assert float_to_integer(x) == (int(x), int(x))


@cute.jit
def through(x: Float32, kind: cutlass.Constexpr):
    return x.to(kind).to(Float32)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (cutlass.Float16, "float16"),
        (cutlass.BFloat16, "bfloat16"),
        (cutlass.Float8E4M3FN, "float8_e4m3fn"),
        (cutlass.Float8E5M2, "float8_e5m2"),
    ],
)
def test_conversion_to_narrow_floats_rounds_as_torch_does(kind: type, name: str) -> None:
    torch = pytest.importorskip("torch")
    values = [0.0, -0.0, 1.0, 1.0625, 1.1875, 3.3, -0.001953125, 0.0029296875, 1e-3, 240.0, 7e-8]
    for x in values:
        expected = torch.tensor(x).to(getattr(torch, name)).float().item()
        assert through(x, kind) == expected


@cute.jit
def literal_arithmetic(x: cutlass.Float16):
    return x * 2.0 + 1


def test_a_python_number_takes_the_type_of_the_dynamic_operand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert literal_arithmetic(1.5) == 4.0

    @cute.jit
    def kind(x: cutlass.Float16) -> None:
        print(type(x * 2.0))

    kind(1.0)
    assert capsys.readouterr().out.strip() == "Float16"


@cute.jit
def powers(x: Int32, y: Float32):
    return x**3, y**2


def test_small_powers_are_products() -> None:
    assert powers(5, 1.5) == (125, 2.25)


@cute.jit
def extremes(a: Int32, b: Float32):
    return max(a, b), min(a, 7), max(3, 4), abs(a)


def test_max_and_min_take_dynamic_values() -> None:
    assert extremes(-5, 2.5) == (2.5, -5, 4, 5)


def test_outside_a_trace_numbers_are_numbers() -> None:
    assert int(Int32(5) + 2) == 7
    assert str(Float32(1.5)) == "1.5"
    assert operator.index(Int32(3)) == 3
    assert bool(Int32(3) > 2)
