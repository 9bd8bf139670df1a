"""Random layouts, and dynamic values that remember how they were computed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from cutlass.cute._dynamic import (
    Dynamic,
    divisibility_of,
    product_divisibility,
    quotient_divisibility,
    sum_divisibility,
)
from cutlass.cute._layout import Layout, flatten_to_tuple, make_layout, unflatten


class Sym(Dynamic):
    """A dynamic integer of the tests: unknown to the algebra, with a value to check results by."""

    def __init__(self, value: Any, divisibility: int = 1) -> None:
        assert value % divisibility == 0
        self.value = value
        self._divisibility = max(1, divisibility)

    @property
    def divisibility(self) -> int:
        return self._divisibility

    def with_divisibility(self, divisor: int) -> Sym:
        return Sym(self.value, divisor)

    def __bool__(self) -> bool:
        raise AssertionError("the algebra asked for the truth of a dynamic value")

    def _op(
        self, other: Any, f: Callable[[Any, Any], Any], rule: Any = None, flip: bool = False
    ) -> Any:
        if not isinstance(other, int | Sym):
            return NotImplemented
        a, b = (other, self) if flip else (self, other)
        return Sym(f(value_of(a), value_of(b)), rule(a, b) if rule else 1)

    def __add__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a + b, sum_divisibility)

    def __radd__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a + b, sum_divisibility, flip=True)

    def __sub__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a - b, sum_divisibility)

    def __rsub__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a - b, sum_divisibility, flip=True)

    def __mul__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a * b, product_divisibility)

    def __rmul__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a * b, product_divisibility, flip=True)

    def __floordiv__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a // b, quotient_divisibility)

    def __rfloordiv__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a // b, None, flip=True)

    def __mod__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a % b)

    def __rmod__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a % b, None, flip=True)

    def __and__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a & b)

    __rand__ = __and__

    def __xor__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a ^ b)

    __rxor__ = __xor__

    def __rshift__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a >> b)

    def __lshift__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a << b)

    def __rlshift__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: a << b, None, flip=True)

    def __neg__(self) -> Any:
        return Sym(-self.value, self._divisibility)

    def __lt__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: int(a < b))

    def __gt__(self, o: Any) -> Any:
        return self._op(o, lambda a, b: int(a > b))

    def __eq__(self, o: object) -> Any:
        return self._op(o, lambda a, b: int(a == b))

    def __hash__(self) -> int:
        raise AssertionError("the algebra hashed a dynamic value")

    def minimum(self, o: Any) -> Any:
        return self._op(o, min)

    def __repr__(self) -> str:
        return f"Sym({self.value})"


def value_of(x: Any) -> Any:
    """What a tuple, layout or leaf is at run time: every dynamic value as its int."""
    if isinstance(x, Sym):
        assert x.value % divisibility_of(x) == 0
        return x.value
    if isinstance(x, tuple):
        return tuple(value_of(v) for v in x)
    if isinstance(x, Layout):
        return Layout(value_of(x.shape), value_of(x.stride))
    return x


def random_profile(rng: random.Random, leaves: int) -> Any:
    """A nested tuple with the given number of leaves (0 at each)."""
    if leaves == 1:
        return 0 if rng.random() < 0.8 else (0,)
    cut = sorted(rng.sample(range(1, leaves), rng.randint(1, leaves - 1)))
    sizes = [b - a for a, b in zip([0, *cut], [*cut, leaves], strict=True)]
    return tuple(random_profile(rng, n) for n in sizes)


def random_shape(rng: random.Random, max_leaves: int = 4, sizes: tuple[int, ...] = ()) -> Any:
    """A shape of small extents, 1 among them."""
    count = rng.randint(1, max_leaves)
    choices = sizes or (1, 1, 2, 2, 3, 4, 5, 6, 8)
    return unflatten([rng.choice(choices) for _ in range(count)], random_profile(rng, count))


def random_layout(rng: random.Random, max_leaves: int = 4) -> Layout:
    """A layout with any strides: repeating, overlapping, zero."""
    shape = random_shape(rng, max_leaves)
    strides = [rng.choice((0, 1, 2, 3, 4, 6, 8, 10, 12, 16)) for _ in flatten_to_tuple(shape)]
    return make_layout(shape, stride=unflatten(strides, shape))


def random_compact(rng: random.Random, max_leaves: int = 4) -> Layout:
    """A bijection onto [0, size): modes in any order, optionally all strides scaled."""
    shape = random_shape(rng, max_leaves)
    flat = flatten_to_tuple(shape)
    order = list(range(len(flat)))
    rng.shuffle(order)
    strides = [0] * len(flat)
    step = 1
    for i in order:
        strides[i] = step
        step *= flat[i]
    return make_layout(shape, stride=unflatten(strides, shape))


def random_injective(
    rng: random.Random, max_leaves: int = 4, sizes: tuple[int, ...] = ()
) -> Layout:
    """An injective layout whose strides divide each other in order, with gaps."""
    shape = random_shape(rng, max_leaves, sizes)
    flat = flatten_to_tuple(shape)
    order = list(range(len(flat)))
    rng.shuffle(order)
    strides = [0] * len(flat)
    step = 1
    for i in order:
        step *= rng.choice((1, 1, 2, 3))
        strides[i] = step
        step *= flat[i]
    return make_layout(shape, stride=unflatten(strides, shape))


def some_dynamic(rng: random.Random, layout: Layout, chance: float = 0.4) -> Layout:
    """``layout`` with some leaves unknown at trace time."""

    def hide(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(hide(v) for v in x)
        if not isinstance(x, int) or rng.random() >= chance:
            return x
        divisors = [d for d in (1, 2, 3, 4) if x % d == 0] if x else [1]
        return Sym(x, rng.choice(divisors))

    return Layout(hide(layout.shape), hide(layout.stride))


def values(layout: Any, count: int) -> list[Any]:
    """The layout as a function: its values at 0, 1, ..., count - 1."""
    return [layout(i) for i in range(count)]
