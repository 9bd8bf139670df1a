"""Owns nested tuples of integers: structure (flatten, transform, compare) and shape arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ._basis import Ratio, ScaledBasis, add_coord
from ._dynamic import (
    Dynamic,
    LayoutError,
    ceil_div_leaf,
    divisibility_of,
    is_int,
    is_static_int,
    leaf_str,
    mul,
    public,
    sub,
)

__all__ = [
    "assume",
    "depth",
    "elem_less",
    "filter_tuple",
    "find",
    "find_if",
    "flatten_to_tuple",
    "get_divisibility",
    "has_underscore",
    "is_congruent",
    "is_weakly_congruent",
    "product",
    "product_each",
    "product_like",
    "repeat",
    "repeat_as_tuple",
    "repeat_like",
    "round_up",
    "shape_div",
    "transform_apply",
    "transform_leaf",
    "tuple_cat",
    "unflatten",
    "unwrap",
    "wrap",
]


# Structure.


def as_tuple(x: Any) -> Any:
    """``x`` with every list, at any depth, as a tuple."""
    return tuple(as_tuple(v) for v in x) if isinstance(x, tuple | list) else x


def to_str(x: Any) -> str:
    """The documented text of a nested tuple: ``(4,(2,?))``."""
    if isinstance(x, tuple):
        return "(" + ",".join(to_str(v) for v in x) + ")"
    return leaf_str(x)


def profile_of(x: Any) -> Any:
    """The nested tuple that gives ``x`` its profile: the shape of a layout or tensor, or ``x``."""
    if isinstance(x, tuple | list):
        return as_tuple(x)
    return as_tuple(x.shape) if hasattr(x, "shape") else x


def wrap(x: Any) -> tuple[Any, ...]:
    """``x`` if it is a tuple, else ``(x,)``."""
    return x if isinstance(x, tuple) else (x,)


def unwrap(x: Any) -> Any:
    """The element of a tuple of one, else ``x``."""
    return x[0] if isinstance(x, tuple) and len(x) == 1 else x


def depth(a: Any) -> int:
    """Nesting depth: 0 for a leaf, 1 for a flat (also an empty) tuple; of the shape of a layout."""
    a = profile_of(a)
    return 1 + max((depth(v) for v in a), default=0) if isinstance(a, tuple) else 0


def flatten_to_tuple(a: Any) -> tuple[Any, ...]:
    """All leaves of ``a``, left to right."""
    if isinstance(a, tuple | list):
        return tuple(leaf for v in a for leaf in flatten_to_tuple(v))
    return (a,)


def unflatten(sequence: Iterable[Any], profile: Any) -> Any:
    """The nested tuple of ``profile``'s structure with the elements of ``sequence`` as leaves.

    :raises RuntimeError: if the sequence is too short.
    """
    elements = iter(sequence)

    def fill(p: Any) -> Any:
        if isinstance(p, tuple | list):
            return tuple(fill(v) for v in p)
        try:
            return next(elements)
        except StopIteration:
            raise RuntimeError(
                f"unflatten: the sequence is too short for the profile {to_str(as_tuple(profile))}"
            ) from None

    return fill(profile)


def tuple_cat(*tuples: Any) -> tuple[Any, ...]:
    """One tuple of all elements; a non-tuple counts as a tuple of one."""
    return tuple(v for t in tuples for v in wrap(t))


def repeat_as_tuple(x: Any, n: int) -> tuple[Any, ...]:
    """``(x, x, ...)`` with ``n`` elements."""
    return (x,) * n


def repeat(x: Any, n: int) -> Any:
    """``x`` for ``n`` = 1, else ``(x, x, ...)`` with ``n`` elements.

    :raises ValueError: if ``n`` is less than 1.
    """
    if n < 1:
        raise ValueError(f"repeat: n must be at least 1, got {n}")
    return x if n == 1 else (x,) * n


def repeat_like(x: Any, target: Any) -> Any:
    """The structure of ``target`` with ``x`` at every leaf."""
    if isinstance(target, tuple | list):
        return tuple(repeat_like(x, v) for v in target)
    return x


def transform_leaf(f: Callable[..., Any], *args: Any) -> Any:
    """``f`` applied to corresponding leaves.

    :raises TypeError: if the arguments differ in structure.
    """
    if not any(isinstance(a, tuple) for a in args):
        return f(*args)
    if not all(isinstance(a, tuple) and len(a) == len(args[0]) for a in args):
        raise TypeError(
            "transform_leaf: arguments differ in structure: " + ", ".join(to_str(a) for a in args)
        )
    return tuple(transform_leaf(f, *elements) for elements in zip(*args, strict=True))


@public
def transform_apply(*args: Any, f: Callable[..., Any], g: Callable[..., Any]) -> Any:
    """``g(f(a[0], b[0], ...), f(a[1], b[1], ...), ...)``; ``g(f(a, b, ...))`` for non-tuples."""
    if not args:
        raise TypeError("transform_apply: expected at least one tuple")
    if isinstance(args[0], tuple):
        return g(*(f(*elements) for elements in zip(*args, strict=True)))
    return g(f(*args))


@public
def filter_tuple(*args: Any, f: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
    """The tuples that ``f`` returns for the elements, concatenated."""
    return transform_apply(*args, f=f, g=tuple_cat)


def has_underscore(a: Any) -> bool:
    """Whether a coordinate holds ``None`` (keep this mode) anywhere."""
    if isinstance(a, tuple | list):
        return any(has_underscore(v) for v in a)
    return a is None


def find_if(
    t: Any, pred_fn: Callable[[Any, Any], bool], hierarchical: bool = True
) -> int | tuple[int, ...] | None:
    """The position of the first leaf for which ``pred_fn(leaf, position)`` holds.

    A position is an index at the top level and a tuple of indices below it;
    ``hierarchical=False`` looks at top-level leaves alone.
    """
    flat_only = not hierarchical

    def search(x: Any, path: tuple[int, ...]) -> tuple[int, ...] | None:
        for i, v in enumerate(x):
            here = (*path, i)
            if isinstance(v, tuple):
                found = None if flat_only else search(v, here)
                if found is not None:
                    return found
            elif pred_fn(v, here[0] if len(here) == 1 else here):
                return here
        return None

    found = search(wrap(as_tuple(t)), ())
    if found is None:
        return None
    return found[0] if len(found) == 1 else found


def find(t: Any, x: int, hierarchical: bool = True) -> int | tuple[int, ...] | None:
    """The position of the first leaf known to equal the static int ``x``; see :func:`find_if`.

    :raises TypeError: if ``x`` is not a static int.
    """
    if not is_static_int(x):
        raise TypeError(f"find: x must be a static int, got {type(x).__name__}")
    return find_if(t, lambda v, _: is_int(v, x), hierarchical)


def is_congruent(a: Any, b: Any) -> bool:
    """Whether ``a`` and ``b`` (or their shapes) have the same nested structure."""
    a, b = profile_of(a), profile_of(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(is_congruent(x, y) for x, y in zip(a, b, strict=True))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def is_weakly_congruent(a: Any, b: Any) -> bool:
    """Whether ``b`` has the structure of ``a`` where a leaf of ``a`` may stand for any tuple."""
    a, b = profile_of(a), profile_of(b)
    if not isinstance(a, tuple):
        return True
    if not isinstance(b, tuple) or len(a) != len(b):
        return False
    return all(is_weakly_congruent(x, y) for x, y in zip(a, b, strict=True))


# Static and dynamic leaves.


def is_static(x: Any) -> bool:
    """Whether every part of ``x`` is known at trace time.

    :raises TypeError: for a type that the algebra does not know.
    """
    if isinstance(x, Dynamic):
        return False
    if isinstance(x, tuple | list):
        return all(is_static(v) for v in x)
    if x is None or isinstance(x, bool | int | float | str | Ratio):
        return True
    if callable(getattr(x, "is_static", None)):
        return x.is_static()
    if callable(x):
        return True
    raise TypeError(f"is_static: unsupported type {type(x).__name__}")


def get_divisibility(x: Any) -> int:
    """A positive int known to divide ``x``; a static int's own magnitude."""
    return divisibility_of(x)


@public
def assume(src: Any, divby: int | None = None) -> Any:
    """``src`` with the promise that ``divby`` divides it.

    :raises ValueError: if ``src`` is a static int that ``divby`` does not divide, or ``divby`` < 1.
    :raises TypeError: if ``src`` cannot carry the promise.
    """
    if divby is None:
        return src
    if not is_static_int(divby) or divby < 1:
        raise ValueError(f"assume: divby must be a positive int, got {divby!r}")
    if is_static_int(src):
        if src % divby:
            raise ValueError(f"assume: {src} is not divisible by {divby}")
        return src
    if isinstance(src, Dynamic) and hasattr(src, "with_divisibility"):
        return src.with_divisibility(divby)
    raise TypeError(f"assume: expected an integer, got {type(src).__name__}")


# Shape arithmetic.


def check_shape(function: str, shape: Any) -> Any:
    """``shape`` as tuples and ints.

    :raises TypeError: for a leaf that is no integer; :raises ValueError: for a negative one.
    """
    shape = as_tuple(shape)
    for leaf in flatten_to_tuple(shape):
        if isinstance(leaf, Dynamic):
            continue
        if not is_static_int(leaf):
            raise TypeError(
                f"{function}: a shape holds integers, got {type(leaf).__name__} in {shape!r}"
            )
        if leaf < 0:
            raise ValueError(f"{function}: a shape must not be negative, got {to_str(shape)}")
    return shape


@public
def product(a: Any) -> Any:
    """The product of all leaves; 1 for an empty tuple."""
    result: Any = 1
    for leaf in flatten_to_tuple(a):
        result = mul(result, leaf)
    return result


@public
def product_each(a: Any) -> tuple[Any, ...]:
    """The product of each mode."""
    return tuple(product(v) for v in wrap(as_tuple(a)))


@public
def product_like(a: Any, target_profile: Any) -> Any:
    """The product of the part of ``a`` at each leaf of ``target_profile``.

    :raises ValueError: if ``a`` is coarser than the profile.
    """
    if not isinstance(target_profile, tuple | list):
        return product(a)
    if not isinstance(a, tuple | list) or len(a) != len(target_profile):
        raise ValueError(
            f"product_like: {to_str(as_tuple(a))} does not match the profile "
            f"{to_str(as_tuple(target_profile))}"
        )
    return tuple(product_like(x, p) for x, p in zip(a, target_profile, strict=True))


def inner_product(a: Any, b: Any) -> Any:
    """The sum of the products of corresponding leaves; coordinates where ``b`` holds bases."""
    result: Any = 0
    for x, y in zip(flatten_to_tuple(a), flatten_to_tuple(b), strict=True):
        result = add_coord(result, mul(x, y))
    return result


def _fold_int(a: tuple[Any, ...], b: Any, divide: Callable[[Any, Any], Any]) -> tuple[Any, ...]:
    """Divides ``a``'s modes, left to right, by what is left of the int ``b``."""
    result = []
    for x in a:
        result.append(divide(x, b))
        b = divide(b, product(x))
    return tuple(result)


def ceil_div_shape(a: Any, b: Any) -> Any:
    """Shape ``a`` over shape ``b``, rounded up: mode by mode; a lone int runs over the modes."""
    if isinstance(a, tuple):
        if isinstance(b, tuple):
            if len(b) > len(a):
                raise LayoutError(f"ceil_div: {to_str(b)} has more modes than {to_str(a)}")
            padded = b + (1,) * (len(a) - len(b))
            return tuple(ceil_div_shape(x, y) for x, y in zip(a, padded, strict=True))
        return _fold_int(a, b, ceil_div_shape)
    return ceil_div_leaf(a, product(b))


@public
def round_up(a: Any, b: Any) -> Any:
    """Each leaf of ``a`` raised to a multiple of that of ``b``; missing modes of ``b`` are 1."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(b) > len(a):
            raise LayoutError(f"round_up: {to_str(b)} has more modes than {to_str(a)}")
        padded = b + (1,) * (len(a) - len(b))
        return tuple(round_up(x, y) for x, y in zip(a, padded, strict=True))
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise TypeError(f"round_up: {to_str(a)} and {to_str(b)} differ in structure")
    return mul(ceil_div_leaf(a, b), b)


@public
def shape_div(lhs: Any, rhs: Any) -> Any:
    """Shape over shape, where one of two paired ints divides the other; the result is rounded up.

    ``(4,5,6)`` by ``40`` is ``(1,1,3)``: the int is used up mode by mode, from the left.

    :raises ValueError: if neither of two static ints divides the other, or ranks differ.
    """
    if isinstance(lhs, tuple):
        if isinstance(rhs, tuple):
            if len(lhs) != len(rhs):
                raise LayoutError(f"shape_div: ranks of {to_str(lhs)} and {to_str(rhs)} differ")
            return tuple(shape_div(x, y) for x, y in zip(lhs, rhs, strict=True))
        return _fold_int(lhs, rhs, shape_div)
    rhs = product(rhs)
    if is_static_int(lhs) and is_static_int(rhs) and lhs % rhs and rhs % lhs:
        raise LayoutError(f"shape_div: neither of {lhs} and {rhs} divides the other")
    return ceil_div_leaf(lhs, rhs)


@public
def elem_less(lhs: Any, rhs: Any) -> Any:
    """Whether every leaf of ``lhs`` is less than its partner in ``rhs``.

    Modes that only ``rhs`` has do not matter; modes that only ``lhs`` has make it false. The
    result is a bool, or a dynamic boolean where a leaf is dynamic.

    :raises TypeError: if a leaf meets a tuple.
    """
    lhs, rhs = as_tuple(lhs), as_tuple(rhs)
    if isinstance(lhs, tuple) and isinstance(rhs, tuple):
        result: Any = True
        for x, y in zip(lhs, rhs, strict=False):
            less = elem_less(x, y)
            if less is False:
                return False
            result = less if result is True else (result if less is True else result & less)
        return result if len(lhs) <= len(rhs) else False
    if isinstance(lhs, tuple) or isinstance(rhs, tuple):
        raise TypeError(f"elem_less: {to_str(lhs)} and {to_str(rhs)} differ in structure")
    return lhs < rhs


# Compact strides.


def compact_col_major(shape: Any, start: Any = 1) -> Any:
    """Strides of a compact layout, leftmost mode fastest; 0 for modes of static size 1."""
    if isinstance(start, tuple):
        return tuple(compact_col_major(s, c) for s, c in zip(shape, start, strict=True))
    current = start

    def strides(s: Any) -> Any:
        nonlocal current
        if isinstance(s, tuple):
            return tuple(strides(v) for v in s)
        if is_int(s, 1):
            return 0
        stride, current = current, mul(current, s)
        return stride

    return strides(shape)


def compact_order(shape: Any, order: Any) -> Any:
    """Strides of a compact layout whose modes run in the order of ``order``, smallest fastest.

    ``order`` is weakly congruent to ``shape``. Dynamic elements of it count as larger than every
    static one, from left to right.

    :raises ValueError: if the structures do not match.
    """
    if not is_weakly_congruent(order, shape):
        raise LayoutError(f"the order {to_str(order)} does not match the shape {to_str(shape)}")
    sizes = flatten_to_tuple(product_like(shape, order))
    flat = flatten_to_tuple(order)
    top = max((o for o in flat if is_static_int(o)), default=0) + 1
    ranks = [o if is_static_int(o) else top + i for i, o in enumerate(flat)]

    def strides(s: Any, o: Any) -> Any:
        if isinstance(o, tuple):
            return tuple(strides(x, y) for x, y in zip(s, o, strict=True))
        smaller = tuple(size for size, rank in zip(sizes, ranks, strict=True) if rank < o)
        return compact_col_major(s, product(smaller))

    return strides(shape, unflatten(ranks, order))


def basis_like(shape: Any, path: tuple[int, ...] = ()) -> Any:
    """The strides of an identity layout: the unit element of each mode (1 for a lone int)."""
    if isinstance(shape, tuple):
        return tuple(basis_like(s, (*path, i)) for i, s in enumerate(shape))
    return ScaledBasis(1, path) if path else 1


def last_index(shape: Any) -> Any:
    """The largest coordinate of a shape: each leaf less 1."""
    return transform_leaf(lambda s: sub(s, 1), shape)
