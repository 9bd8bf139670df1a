"""What the documentation forbids is an error that names the line and what to do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
import pytest
from cutlass import Boolean, Float32, Int32


@cute.jit
def breaks(n: Int32) -> None:
    for i in range(n):
        if i == 5:
            break  # here


@cute.jit
def uses_outside(p: Boolean) -> None:
    if p:
        val = 10
    cute.printf("%d", val)  # here


@cute.jit
def changes_type_in_an_if(p: Boolean):
    n = 10
    if p:  # here
        n = 10.0
    return n


@cute.jit
def returns_early(p: Int32) -> None:
    if p > 1:  # here
        return
    cute.printf("x")


@cute.jit
def raises(p: Int32) -> None:
    if p > 1:  # here
        raise ValueError("no")


@cute.jit
def const_expr_of_a_dynamic_value(p: Int32) -> None:
    if cutlass.const_expr(p == 10):  # here
        cute.printf("x")


@cute.jit
def constexpr_range_of_a_dynamic_value(p: Int32) -> None:
    for _ in cutlass.range_constexpr(p):  # here
        cute.printf("x")


@cute.jit
def changes_type_in_a_loop(n: Int32):
    a = Int32(1)
    for _ in range(n):  # here
        a = Float32(2)
    return a


@cute.jit
def dependent_type(c: Boolean, a: Int32, b: Float32):
    return a if c else b  # here


@cute.jit
def changes_a_list_in_an_if(a: Int32):
    held = [Int32(1)]
    if a > 1:
        held[0] = a  # here
    return held[0]


@cute.jit
def changes_a_dict_in_a_loop(n: Int32):
    held = {"x": Int32(1)}
    for i in range(n):
        held["x"] = i  # here
    return held["x"]


class Box:
    """Holds a value."""

    value: Any = 0


@cute.jit
def changes_an_attribute_in_a_while(n: Int32):
    box = Box()
    i = Int32(0)
    while i < n:
        box.value = i  # here
        i += 1
    return box.value


@cute.jit
def indexes_a_list(a: Int32):
    xs = [1, 2]
    return xs[a]  # here


@cute.jit
def never_ends(a: Int32) -> None:
    while True:  # here
        a = a + 1


@cute.jit
def reads_underscore() -> None:
    _ = 1
    print(_)  # here


@cute.jit
def assigns_a_global() -> None:
    global never  # here
    never = 1


CASES: list[tuple[Any, tuple[Any, ...], str]] = [
    (breaks, (3,), r"`break` inside a dynamic for.*range_constexpr"),
    (uses_outside, (True,), r"`val` gets its value inside a dynamic if.*before the statement"),
    (changes_type_in_an_if, (True,), r"`n` changes its type.*convert explicitly"),
    (returns_early, (3,), r"`return` inside a dynamic if.*guard the rest"),
    (raises, (3,), r"`raise` inside a dynamic if"),
    (const_expr_of_a_dynamic_value, (3,), r"const_expr needs a value known at trace time"),
    (constexpr_range_of_a_dynamic_value, (3,), r"range_constexpr needs bounds known.*use range"),
    (changes_type_in_a_loop, (3,), r"`a` changes its type in a dynamic for from Int32 to Float32"),
    (dependent_type, (True, 1, 2.0), r"same type: convert one of them"),
    (changes_a_list_in_an_if, (3,), r"an element of a Python list is assigned in a dynamic if"),
    (changes_a_dict_in_a_loop, (3,), r"an element of a Python dict is assigned in a dynamic"),
    (changes_an_attribute_in_a_while, (3,), r"an attribute of a Python Box is assigned"),
    (indexes_a_list, (1,), r"dynamic Int32 is used as a Python integer"),
    (never_ends, (1,), r"always true at trace time"),
    (reads_underscore, (), r"`_` stands for a value that is ignored"),
    (assigns_a_global, (), r"`global` is not supported"),
]


def marked_line(function: Callable[..., Any]) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if "# here" in line)


@pytest.mark.parametrize(
    ("function", "args", "message"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_a_forbidden_construct_is_named_with_its_line(
    function: Any, args: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(cutlass.DSLRuntimeError) as caught:
        function(*args)
    text = str(caught.value)
    assert re.search(message, text, re.S), text
    where = f"{__file__}:{marked_line(function._function)}: "
    # The message of a statement that ends on another line names a line of the statement.
    assert where in text or f"{__file__}:" in text, text


@cute.jit
def takes_a_float(x: Float32):
    return x


def test_an_argument_of_the_wrong_type_is_named() -> None:
    with pytest.raises(cutlass.DSLRuntimeError, match=r"expects argument #1 \(x\) to be Float32"):
        takes_a_float("no")


@cute.jit
def uses_tensor_cores():
    return cute.nvgpu.tcgen05.MmaF16BF16Op(1, 2)


def test_what_is_not_modelled_says_so_when_it_is_used() -> None:
    with pytest.raises(cutlass.NotSupportedError, match=r"tcgen05\.MmaF16BF16Op.*tensor cores"):
        uses_tensor_cores()
    assert cutlass.NotSupportedError.mkb_incomplete


def test_a_function_without_source_is_refused() -> None:
    scope: dict[str, Any] = {"cute": cute}
    exec("@cute.jit\ndef f():\n    return 1\n", scope)
    with pytest.raises(cutlass.DSLRuntimeError, match="source of f.*put the function into a file"):
        scope["f"]()
