"""Control flow that a trace records does what the same Python does."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import pytest
from cutlass import Boolean, Float32, Int32


def collatz_and_sums(n: int) -> tuple[int, int]:
    s = 0
    for i in range(n):
        if i % 2 == 0:
            s += i
        elif i > 5:
            s -= 1
    steps = 0
    k = n
    while k != 1:
        if k % 2 == 0:
            k = k // 2
        else:
            k = 3 * k + 1
        steps += 1
    for i in range(10, 0, -3):
        s = s + i
    return s, steps


traced = cute.jit(collatz_and_sums)


@pytest.mark.parametrize("n", [1, 2, 7, 12, 27, 97])
def test_loops_and_branches_are_pythons(n: int) -> None:
    assert traced(n) == collatz_and_sums(n)


@cute.jit
def unrolled(n: Int32):
    s = Int32(0)
    for i in cutlass.range(n, unroll=4):
        s = s * 3 + i
    for i in cutlass.range(2, n, 3, unroll=2):
        s = s * 5 + i
    for i in cutlass.range(7, unroll_full=True):
        s = s ^ i
    return s


@pytest.mark.parametrize("n", range(-2, 24))
def test_unrolling_keeps_every_turn_and_its_order(n: int) -> None:
    s = 0
    for i in range(n):
        s = s * 3 + i
    for i in range(2, n, 3):
        s = s * 5 + i
    for i in range(7):
        s = s ^ i
    s &= 0xFFFFFFFF
    assert unrolled(n) == (s - (1 << 32) if s >> 31 else s)


@cute.jit
def logic(a: Int32, b: Int32):
    x = 1 if (a > 0 and b > 0) or not a < 100 else 0
    y = 5
    if 0 < a < 10:
        y = a
    return x, y


@pytest.mark.parametrize(("a", "b"), [(1, 1), (-1, 3), (200, 0), (9, 0), (10, 10)])
def test_and_or_not_and_chains_are_pythons(a: int, b: int) -> None:
    x = 1 if (a > 0 and b > 0) or not a < 100 else 0
    assert logic(a, b) == (x, a if 0 < a < 10 else 5)


@cute.jit
def static_branch(flag: cutlass.Constexpr, a: Int32):
    if flag:
        return a + 1
    return a - 1


def test_a_static_condition_picks_its_branch_and_may_return() -> None:
    assert static_branch(True, 5) == 6
    assert static_branch(False, 5) == 4


@cute.jit
def swap(n: Int32):
    a, b = Int32(1), Int32(2)
    for _ in range(n):
        a, b = b, a
    return a, b


def test_variables_may_be_swapped_in_a_loop() -> None:
    assert swap(3) == (2, 1)
    assert swap(4) == (1, 2)


@cute.jit
def nested(n: Int32):
    total = Int32(0)
    for i in range(n):
        for j in range(i):
            if (i + j) % 3 == 0:
                total += i * j
            k = 0
            while k < j:
                total += 1
                k += 2
    return total


@pytest.mark.parametrize("n", [0, 1, 5, 9])
def test_loops_nest(n: int) -> None:
    total = 0
    for i in range(n):
        for j in range(i):
            if (i + j) % 3 == 0:
                total += i * j
            total += (j + 1) // 2
    assert nested(n) == total


@cute.jit
def both_branches(a: Int32):
    if a > 0:
        x = a * 2
    else:
        x = -a
    return x


def test_a_variable_that_both_branches_define_is_available() -> None:
    assert both_branches(4) == 8
    assert both_branches(-4) == 4


@cute.jit
def fragment_in_a_loop(n: Int32):
    f = cute.make_rmem_tensor((4,), Float32)
    f.fill(1.0)
    for i in range(n):
        f[i % 4] = f[i % 4] * 2.0
    return f[0], f[1], f[2], f[3]


def test_a_fragment_is_indexed_by_a_dynamic_value() -> None:
    assert fragment_in_a_loop(6) == (4.0, 4.0, 2.0, 2.0)


@cute.jit
def closures(n: Int32):
    def twice(x: Int32) -> Int32:
        return x + x

    add = lambda x: x + n  # noqa: E731
    s = Int32(0)
    for i in range(n):
        s = s + add(twice(i))
    return s


def test_inner_functions_are_inlined() -> None:
    assert closures(4) == sum(2 * i + 4 for i in range(4))


class Counter:
    def __init__(self, step: int) -> None:
        self.__step = step

    @cute.jit
    def run(self, n: Int32):
        s = Int32(0)
        for _ in range(n):
            s += self.__step
        return s


def test_methods_see_private_attributes() -> None:
    assert Counter(3).run(5) == 15


@cute.jit
def any_and_all(a: Int32, p: Boolean):
    return any([a > 3, p]), all([a > 3, p])


def test_any_and_all_take_dynamic_values() -> None:
    assert any_and_all(4, False) == (True, False)


scale = 2


@cute.jit
def uses_a_global(a: Int32):
    return a * scale


def test_a_changed_global_is_seen_by_the_next_call() -> None:
    global scale
    assert uses_a_global(5) == 10
    scale = 3
    assert uses_a_global(5) == 15
    scale = 2


@cute.jit
def prints(a: Int32, b: cutlass.Constexpr[int]) -> None:
    print(">>>", a, b)
    cute.printf(">?? {} {} %5.2f", a, b, a.to(Float32) / 3)


def test_print_is_for_the_trace_and_printf_for_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = cute.compile(prints, Int32(8), 2)
    assert capsys.readouterr().out == ">>> ? 2\n"
    compiled(Int32(8))
    compiled(Int32(9))
    assert capsys.readouterr().out == ">?? 8 2  2.67\n>?? 9 2  3.00\n"


def last_places(n: int, m: int) -> tuple[int, int, int, int, float]:
    where = 0
    for i in range(n):
        if i % 3 == 1:
            where = i
    inner = -1
    for i in range(n):
        for j in range(m - i):
            inner = i * 10 + j
    k = 0
    seen = -1
    while k < n:
        if k % 2 == 0:
            seen = k
        k += 1
    both = 7
    for i in range(n):
        if i > 1:
            if i % 2 == 0:
                both = i
            else:
                both = 0
    share = 0.5
    for i in range(n):
        if i == 2:
            share = 2.0
    return where, inner, seen, both, share


traced_places = cute.jit(last_places)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 1), (2, 1), (3, 4), (5, 2), (8, 3), (9, 0)])
def test_a_turn_that_assigns_nothing_keeps_the_last_ones_number(n: int, m: int) -> None:
    assert traced_places(n, m) == last_places(n, m)


@cute.jit
def unsigned_turns(a: cutlass.Uint32, b: cutlass.Uint32):
    n = Int32(0)
    for _ in cutlass.range(a, b, 1, unroll=4):
        n += 1
    return n


@pytest.mark.parametrize(("a", "b"), [(10, 3), (3, 10), (5, 5), (0, 4), (2**32 - 6, 2**32 - 1)])
def test_an_unsigned_range_that_ends_before_it_begins_has_no_turn(a: int, b: int) -> None:
    assert unsigned_turns(a, b) == len(range(a, b))


class Settings:
    """Read by the program below."""

    factor = 2


TABLE = {"a": 3}
LIST = [5]


def helper(x: Int32) -> Int32:
    return x + 7


def other(x: Int32) -> Int32:
    return x + 8


@cute.jit
def reads_much(x: Int32):
    return helper(x) * Settings.factor * TABLE["a"] * LIST[0]


def test_what_a_program_read_may_change_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def expected(x: int) -> int:
        return helper(x) * Settings.factor * TABLE["a"] * LIST[0]

    assert reads_much(1) == expected(1)
    monkeypatch.setattr(Settings, "factor", 11)
    assert reads_much(1) == expected(1)
    monkeypatch.setitem(TABLE, "a", 13)
    assert reads_much(1) == expected(1)
    monkeypatch.setitem(globals(), "LIST", [17])
    assert reads_much(1) == expected(1)
    LIST[0] = 19
    assert reads_much(1) == expected(1)
    monkeypatch.setitem(globals(), "helper", other)
    assert reads_much(1) == expected(1)


def test_a_closures_integer_and_float_are_not_alike() -> None:
    def make(c: float) -> tuple[object, object]:
        @cute.jit
        def halved(x: Int32):
            return x / 2 + c

        return halved

    assert make(2)(3) == 3.5
    value: float = 2

    @cute.jit
    def typed(x: Int32):
        return x * value

    assert isinstance(typed(3), int)
    value = 2.0
    assert isinstance(typed(3), float)
