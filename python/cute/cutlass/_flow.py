"""Owns control flow during a trace: what the rewritten `if`, `for`, `while`, `and`, `or`, `not`
call.

A variable that a body may change becomes a one-element :class:`Array` while the body is recorded;
the optimizer turns those into loop-carried values.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from ._errors import DSLRuntimeError, DSLTypeError
from ._ir import Array, Block, Builder, Const, builder, current, user_location
from ._numeric import (
    Boolean,
    Int32,
    Int64,
    Integer,
    Numeric,
    as_numeric,
    maximum,
    minimum,
    promote,
)
from ._tree import OUTSIDE, UNBOUND, Spec, Unavailable, flatten, is_unavailable, rewrap, unflatten

frozenset = builtins.frozenset
ZERO = Const(0, "b32")
_NONE: frozenset[str] = frozenset()


class LoopRange:
    """A loop that runs when the program runs: `range(...)` or `cutlass.range(...)`.

    :param unroll: copies of the body per turn; :param unroll_full: no loop remains.
    """

    def __init__(
        self,
        *args: Any,
        unroll: int = -1,
        unroll_full: bool = False,
        prefetch_stages: int | None = None,
        pipelining: Any = None,
        vectorize: Any = None,
        **_: Any,
    ) -> None:
        if not 1 <= len(args) <= 3:
            raise TypeError(f"range takes 1 to 3 arguments, got {len(args)}")
        start, stop, step = 0, 0, 1
        if len(args) == 1:
            (stop,) = args
        elif len(args) == 2:
            start, stop = args
        else:
            start, stop, step = args
        for what, bound in (("start", start), ("stop", stop), ("step", step)):
            ok = isinstance(bound, Integer) or (
                isinstance(bound, int) and not isinstance(bound, bool)
            )
            if not ok:
                raise DSLTypeError(
                    f"{_at()}range: {what} must be an integer, got {type(bound).__name__}"
                )
        if isinstance(step, int) and step == 0:
            raise ValueError(f"{_at()}range: step must not be 0")
        self.start, self.stop, self.step = start, stop, step
        self.unroll = unroll
        self.unroll_full = unroll_full or unroll == 0

    def __iter__(self) -> Any:
        bounds = (self.start, self.stop, self.step)
        if current() is None and all(isinstance(b, int) for b in bounds):
            return iter(builtins.range(*bounds))
        raise DSLRuntimeError(
            f"{_at()}a dynamic range cannot be iterated here: use it directly in `for ... in "
            "range(...)` inside @cute.jit or @cute.kernel, or use cutlass.range_constexpr"
        )


def range_constexpr(*args: Any) -> builtins.range:
    """A range that Python runs while the program is traced; its bounds must be known."""
    for bound in args:
        if isinstance(bound, Numeric):
            raise DSLRuntimeError(
                f"{_at()}range_constexpr needs bounds known at trace time, got a dynamic "
                f"{type(bound).__name__}: use range(...)"
            )
    return builtins.range(*args)


def const_expr(x: Any) -> Any:
    """Declares that `x` is known at trace time.

    :raises DSLRuntimeError: if it is not.
    """
    if isinstance(x, Numeric) and current() is not None:
        raise DSLRuntimeError(
            f"{_at()}const_expr needs a value known at trace time, got a dynamic "
            f"{type(x).__name__}: "
            "drop const_expr for a branch taken at run time"
        )
    return x


def dynamic_expr(x: Any) -> Any:
    """Declares that `x` is decided when the program runs."""
    return x


def _at() -> str:
    where = user_location()
    return f"{where[0]}:{where[1]}: " if where else ""


def _is_dynamic_condition(cond: Any) -> bool:
    return isinstance(cond, Numeric) or hasattr(cond, "__mkb_scalar__")


def _condition(cond: Any) -> Any:
    scalar = getattr(cond, "__mkb_scalar__", None)
    if scalar is not None:
        cond = scalar()
    return cond if type(cond) is Boolean else cond.to(Boolean)


class _Carried:
    """The variables that a body may change, held in arrays while it is recorded."""

    def __init__(
        self, b: Builder, names: tuple[str, ...], values: tuple[Any, ...], what: str
    ) -> None:
        self.b = b
        self.home = b.block
        self.names = names
        self.what = what
        self.specs: list[Spec | None] = []
        self.arrays: list[list[tuple[Array, Numeric]]] = []
        self.plain: list[Any] = []
        self.lost: dict[int, str] = {}
        for name, value in zip(names, values, strict=True):
            leaves: list[Numeric] = []
            spec = None if is_unavailable(value) else flatten(value, leaves)
            held = []
            for leaf in leaves:
                array = Array(leaf.mem if leaf.mem else leaf.alu, 1, name=name)
                b.store(array, ZERO, leaf._v)
                held.append((array, leaf))
            self.specs.append(spec)
            self.arrays.append(held)
            self.plain.append(value)

    def lift(self, i: int, cls: Any = None) -> None:
        """Turn a Python number into a dynamic variable, whose initial value is stored before "
        "the body."""
        value = as_numeric(self.plain[i])
        if cls is not None:
            value = value.to(cls)
        array = Array(value.mem, 1, name=self.names[i])
        with self.b.inside(self.home):
            self.b.store(array, ZERO, value._v)
        self.arrays[i] = [(array, value)]
        self.specs[i] = Spec("leaf", type(value))

    def read(self) -> list[Any]:
        """The variables' present values."""
        out: list[Any] = []
        for i, spec in enumerate(self.specs):
            if spec is None:
                out.append(Unavailable(self.names[i], UNBOUND))
                continue
            if not self.arrays[i]:
                out.append(self.plain[i])
                continue
            leaves = [rewrap(leaf, self.b.load(a, ZERO)) for a, leaf in self.arrays[i]]
            out.append(unflatten(spec, iter(leaves)))
        return out

    def result(self) -> tuple[Any, ...]:
        """The variables after the statement."""
        values = self.read()
        for i, spec in enumerate(self.specs):
            if spec is None:
                values[i] = Unavailable(self.names[i], OUTSIDE)
            elif i in self.lost:
                values[i] = Unavailable(self.names[i], self.lost[i])
        return tuple(values)

    def write(self, i: int, new: Any, exposed: bool) -> None:
        """Record that variable `i` has value `new` at the end of a body."""
        spec = self.specs[i]
        if spec is None or is_unavailable(new):
            if spec is not None and is_unavailable(new):
                self.lost[i] = OUTSIDE
            return
        leaves: list[Numeric] = []
        got = flatten(new, leaves)
        if not self.arrays[i] and spec.kind == "py" and got.kind == "py" and spec.matches(got):
            return
        if not exposed and spec.kind == "py" and isinstance(self.plain[i], int | float):
            if isinstance(new, Numeric | int | float):
                self.lift(i, _branch_type(self.plain[i], [new] if isinstance(new, Numeric) else []))
                spec = self.specs[i]
                assert spec is not None
        if not got.matches(spec):
            converted = self._convert(i, new)
            if converted is None:
                message = (
                    f"changes its type in a {self.what} from {spec.describe()} to "
                    f"{got.describe()}, "
                    "which the DSL does not allow: convert explicitly, or use another name"
                )
                if exposed or (spec.kind == "leaf" and got.kind == "leaf"):
                    raise DSLTypeError(f"{_at()}`{self.names[i]}` {message}")
                self.lost[i] = message
                return
            leaves = [converted]
        for (array, _), leaf in zip(self.arrays[i], leaves, strict=True):
            self.b.store(array, ZERO, leaf._v)

    def _convert(self, i: int, new: Any) -> Numeric | None:
        """A Python number meets a dynamic variable: it takes the variable's type if it loses "
        "nothing."""
        spec = self.specs[i]
        assert spec is not None
        if spec.kind == "leaf" and isinstance(new, int | float):
            cls = spec.static
            if isinstance(new, float) and not cls.is_float:
                return None
            if (cls is Boolean) != isinstance(new, bool):
                return None
            return cls(new)  # type: ignore[no-any-return]
        return None


def _lift_numbers(c: _Carried, kept: frozenset[str]) -> None:
    """A number that one turn may leave to the next is dynamic from the start."""
    for i, name in enumerate(c.names):
        if name not in kept:
            continue
        spec = c.specs[i]
        if spec is not None and spec.kind == "py" and isinstance(c.plain[i], int | float):
            c.lift(i)


def if_(
    cond: Any,
    then: Callable[..., tuple[Any, ...]],
    otherwise: Callable[..., tuple[Any, ...]],
    names: tuple[str, ...],
    values: tuple[Any, ...],
) -> tuple[Any, ...]:
    """A rewritten `if`: a static condition picks its branch, a dynamic one records both."""
    if not _is_dynamic_condition(cond):
        return (then if cond else otherwise)(*values)
    b = builder("a dynamic if")
    held = _Held.entering
    pred = _condition(cond)._v
    results: list[tuple[Any, ...]] = []
    blocks = (Block(), Block())
    for block, branch in zip(blocks, (then, otherwise), strict=True):
        with b.inside(block), _dynamic(held):
            results.append(branch(*values))
    # Which variables changed decides which need a place; both branches write it at their end.
    changed = [i for i in range(len(names)) if any(r[i] is not values[i] for r in results)]
    carried = _Carried(
        b, tuple(names[i] for i in changed), tuple(values[i] for i in changed), "dynamic if"
    )
    for j, i in enumerate(changed):
        spec = carried.specs[j]
        if spec is not None and spec.kind == "py" and isinstance(values[i], int | float):
            others = [r[i] for r in results if isinstance(r[i], Numeric)]
            if others or any(not _equal_py(r[i], values[i]) for r in results):
                carried.lift(j, _branch_type(values[i], others))
        elif spec is None and not any(is_unavailable(r[i]) for r in results):
            _both_define(carried, j, results[0][i], results[1][i])
    for block, result in zip(blocks, results, strict=True):
        with b.inside(block):
            for j, i in enumerate(changed):
                carried.write(j, result[i], exposed=True)
    b.structured("if", (pred,), blocks)
    after = carried.result()
    out = list(values)
    for j, i in enumerate(changed):
        out[i] = after[j]
    return tuple(out)


def _branch_type(value: Any, others: list[Numeric]) -> Any:
    natural = type(as_numeric(value))
    if not others:
        return natural
    cls = type(others[0])
    if cls is Boolean or natural is Boolean:
        return natural
    return cls if (cls.is_float or not natural.is_float) else natural


def _equal_py(a: Any, b: Any) -> bool:
    return type(a) is type(b) and not isinstance(a, Numeric) and bool(a == b)


def _both_define(c: _Carried, j: int, a: Any, b: Any) -> None:
    """A variable without a value before, which both branches define alike, is available "
    "afterwards."""
    la: list[Numeric] = []
    lb: list[Numeric] = []
    sa, sb = flatten(a, la), flatten(b, lb)
    if not sa.matches(sb):
        if not (sa.kind in ("leaf", "py") and sb.kind in ("leaf", "py")):
            return
        if not all(isinstance(x, Numeric | int | float) for x in (a, b)):
            return
        na, nb = as_numeric(a), as_numeric(b)
        if isinstance(a, Numeric) and isinstance(b, Numeric) and type(a) is not type(b):
            return
        cls = type(a) if isinstance(a, Numeric) else type(b) if isinstance(b, Numeric) else None
        if cls is None:
            cls = promote(type(na), type(nb)) if type(na) is not type(nb) else type(na)
        la = [na.to(cls)]
        sa = Spec("leaf", cls)
    c.specs[j] = sa
    c.plain[j] = a
    c.arrays[j] = [(Array(leaf.mem, 1, name=c.names[j]), leaf) for leaf in la]


def for_(
    iterable: Any,
    body: Callable[..., tuple[Any, ...]],
    names: tuple[str, ...],
    exposed: frozenset[str],
    values: tuple[Any, ...],
    unsure: frozenset[str] = _NONE,
) -> tuple[Any, ...]:
    """A rewritten `for`: a :class:`LoopRange` is recorded, anything else runs now.

    :param exposed: names that the body may read before it assigns them;
    :param unsure: names that it assigns, but not on every way: a turn may keep the last value.
    """
    if not isinstance(iterable, LoopRange):
        for item in iterable:
            values = body(item, *values)
        return values
    b = builder("a dynamic for")
    held = _Held.entering
    start, stop, step, cls = _bounds(iterable)
    carried = _Carried(b, names, values, "dynamic for")
    _lift_numbers(carried, exposed | unsure)
    block = Block()
    from ._ir import CLASS_OF, Value

    induction = Value(CLASS_OF[cls.alu])
    nonneg = start._nonneg and _is_positive(iterable.step)
    index = cls._wrap(induction, _stride_of(iterable), nonneg)
    with b.inside(block), _dynamic(held):
        entry = carried.read()
        result = body(index, *entry)
        _finish(carried, names, exposed, entry, result)
    b.structured(
        "for",
        (start._v, stop._v, step._v),
        (block,),
        (induction, cls.alu, iterable.unroll, iterable.unroll_full),
    )
    return carried.result()


def _finish(
    carried: _Carried,
    names: tuple[str, ...],
    exposed: frozenset[str],
    entry: list[Any],
    result: tuple[Any, ...],
) -> None:
    for i, name in enumerate(names):
        if result[i] is not entry[i]:
            carried.write(i, result[i], name in exposed)


def _is_positive(step: Any) -> bool:
    return isinstance(step, int) and step > 0


def _stride_of(r: LoopRange) -> int:
    import math

    if isinstance(r.step, int) and isinstance(r.start, int):
        return max(1, math.gcd(r.start, r.step))
    return 1


def _bounds(r: LoopRange) -> tuple[Any, Any, Any, Any]:
    cls: Any = Int32
    for bound in (r.start, r.stop, r.step):
        kind = type(as_numeric(bound))
        if kind is Int64 and isinstance(bound, int):
            cls = promote(cls, Int64)
        elif isinstance(bound, Integer):
            cls = promote(cls, kind) if kind.width >= 32 else cls
    return (*(as_numeric(x).to(cls) for x in (r.start, r.stop, r.step)), cls)


def while_(
    test: Callable[..., Any],
    body: Callable[..., tuple[Any, ...]],
    names: tuple[str, ...],
    exposed: frozenset[str],
    values: tuple[Any, ...],
    unsure: frozenset[str] = _NONE,
) -> tuple[Any, ...]:
    """A rewritten `while`: recorded, unless its condition is a constant False."""
    b = builder("a dynamic while")
    held = _Held.entering
    carried = _Carried(b, names, values, "dynamic while")
    _lift_numbers(carried, exposed | unsure)
    head, block = Block(), Block()
    with b.inside(head):
        cond = test(*carried.read())
        if not _is_dynamic_condition(cond):
            if not cond:
                return values
            raise DSLRuntimeError(
                f"{_at()}the condition of this while is always true at trace time: the loop has no "
                "end. Use while cutlass.const_expr(...) for a loop that Python runs"
            )
        head.cond = _condition(cond)._v
    with b.inside(block), _dynamic(held):
        entry = carried.read()
        result = body(*entry)
        _finish(carried, names, exposed, entry, result)
    b.structured("while", (), (head, block))
    return carried.result()


def if_expression(cond: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
    """A rewritten `x if c else y`."""
    if not _is_dynamic_condition(cond):
        return a() if cond else b()
    missing = Unavailable("the conditional expression", UNBOUND)
    (out,) = if_(
        cond, lambda _: (a(),), lambda _: (b(),), ("the conditional expression",), (missing,)
    )
    if is_unavailable(out):
        raise DSLTypeError(
            f"{_at()}the two sides of a conditional expression with a dynamic condition must have "
            "the same type: convert one of them"
        )
    return out


def and_(first: Any, *rest: Callable[[], Any]) -> Any:
    """A rewritten `and`: Python's for static operands, a Boolean for dynamic ones."""
    value = first
    for later in rest:
        if not _is_dynamic_condition(value):
            if not value:
                return value
            value = later()
            continue
        other = later()
        if not _is_dynamic_condition(other):
            value = _condition(value) if other else False
            continue
        value = _condition(value) & _condition(other)
    return value


def or_(first: Any, *rest: Callable[[], Any]) -> Any:
    """A rewritten `or`: Python's for static operands, a Boolean for dynamic ones."""
    value = first
    for later in rest:
        if not _is_dynamic_condition(value):
            if value:
                return value
            value = later()
            continue
        other = later()
        if not _is_dynamic_condition(other):
            value = True if other else _condition(value)
            continue
        value = _condition(value) | _condition(other)
    return value


def not_(x: Any) -> Any:
    """A rewritten `not`."""
    return ~_condition(x) if _is_dynamic_condition(x) else not x


def chain(first: Any, *links: tuple[Callable[[Any, Any], Any], Callable[[], Any]]) -> Any:
    """A rewritten chain of comparisons, `a < b < c`."""
    left, result = first, True
    for compare, right_of in links:
        right = right_of()
        result = and_(result, lambda c=compare, x=left, y=right: c(x, y))  # type: ignore[misc]
        left = right
    return result


def static_test(cond: Any, statement: str) -> bool:
    """The condition of an `if` or `while` whose body leaves early; it must be static."""
    if _is_dynamic_condition(cond) and current() is not None:
        raise DSLRuntimeError(
            f"{_at()}`{statement}` inside a dynamic if, for or while is not supported by the DSL: "
            "guard the rest of the body with an if instead, or make the condition static with "
            "cutlass.const_expr"
        )
    return bool(cond)


def static_iter(iterable: Any, statement: str) -> Any:
    """The iterable of a `for` whose body leaves early; it must not be a dynamic range."""
    if isinstance(iterable, LoopRange):
        raise DSLRuntimeError(
            f"{_at()}`{statement}` inside a dynamic for is not supported by the DSL: use "
            "cutlass.range_constexpr for a loop that Python runs, or guard the rest of the body "
            "with an if"
        )
    return iterable


def loop_range(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The iterable of `for ... in function(...)`: the built-in range becomes a dynamic loop."""
    if function is builtins.range:
        return LoopRange(*args, **kwargs)
    return function(*args, **kwargs)


def call_builtin(name: str, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of `max`, `min`, `any` or `all`, which take dynamic values in the DSL."""
    if function is not getattr(builtins, name) or kwargs:
        return function(*args, **kwargs)
    items = list(args[0]) if len(args) == 1 and not isinstance(args[0], Numeric) else list(args)
    if not any(_is_dynamic_condition(x) for x in items):
        return function(*args)
    if name in ("max", "min"):
        pick = maximum if name == "max" else minimum
        out = items[0]
        for x in items[1:]:
            out = pick(out, x)
        return out
    combine = or_ if name == "any" else and_
    return combine(items[0], *[(lambda v=x: v) for x in items[1:]])


class _Held:
    """The Python objects that were there when the dynamic statements being traced began."""

    entering: frozenset[int] = frozenset()
    outside: ClassVar[list[frozenset[int]]] = []


@contextmanager
def _dynamic(held: frozenset[int]) -> Iterator[None]:
    """Traces a branch or a body that runs, or not, when the program runs."""
    _Held.outside.append(held)
    try:
        yield
    finally:
        _Held.outside.pop()


def store_into(target: Any, attribute: bool) -> None:
    """What an assignment to an element or attribute does first.

    :raises DSLRuntimeError: in a dynamic statement, for an object of Python's from outside it:
        tracing would change it whether or not the program gets there.
    """
    kept = isinstance(target, list | dict) or (
        attribute and not type(target).__module__.startswith(("cutlass", "torch"))
    )
    if kept and any(id(target) in held for held in _Held.outside):
        what = "an attribute" if attribute else "an element"
        raise DSLRuntimeError(
            f"{_at()}{what} of a Python {type(target).__name__} is assigned in a dynamic if, for "
            "or while and would change on every way: assign to a variable in it and to the "
            f"{type(target).__name__} after it"
        )


def grab(scope: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    """The present values of local variables."""
    _Held.entering = builtins.frozenset(map(id, scope.values()))
    return tuple(scope.get(n, Unavailable(n, UNBOUND)) for n in names)


@contextmanager
def region(pred: Any) -> Any:
    """Record what the `with` body does under the condition `pred`."""
    b = builder("a conditional region")
    block = Block()
    with b.inside(block):
        yield
    b.structured("if", (pred._v,), (block, Block()))
