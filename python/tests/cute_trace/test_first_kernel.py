"""An elementwise addition, from Python to the device IR."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import pytest
from tracing import instructions, operations, tensor


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    threads, _, _ = cute.arch.block_dim()
    i = block * threads + thread
    if i < n:
        c[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32) -> None:
    add_kernel(a, b, c, n).launch(grid=[cute.ceil_div(n, 128), 1, 1], block=[128, 1, 1])


def test_an_elementwise_addition_becomes_guarded_loads_an_add_and_a_store() -> None:
    lines = instructions(add, tensor(1000), tensor(1000), tensor(1000), 1000)
    names = [line.split()[0] for line in lines]
    assert names.count("ld.global.f32") == 2
    assert names.count("st.global.f32") == 1
    assert names.index("if") < names.index("ld.global.f32") < names.index("add.f32")
    assert any(line.startswith("setp.lt.s32") for line in lines)


def test_the_lines_of_the_program_are_in_the_text() -> None:
    text = cute.compile(add, tensor(8), tensor(8), tensor(8), 8).kernels()[0]
    assert f'.file 1 "{__file__}"' in text
    line = add_kernel._function.__code__.co_firstlineno + 7
    assert f".loc 1 {line}" in text


def test_a_kernel_cannot_be_called_from_python() -> None:
    with pytest.raises(cutlass.DSLRuntimeError, match=r"called from Python.*@cute\.jit"):
        add_kernel(tensor(1), tensor(1), tensor(1), 1)


def test_the_index_is_multiplied_once_for_all_three_tensors() -> None:
    names = operations(add, tensor(1000), tensor(1000), tensor(1000), 1000)
    assert names.count("mul.wide.s32") == 1
