"""Owns the optimizer: a recorded program becomes one where every value has a single definition.

One walk folds constants, shares equal computations, unrolls loops of known length, hoists what a
loop does not change, and (given the arrays to promote) replaces variables and register fragments
by values that structured statements yield. The walks are repeated, since each exposes work for the
next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _fold
from ._errors import DSLRuntimeError
from ._ir import (
    CLASS_OF,
    PURE,
    VOLATILE_SPECIALS,
    Array,
    Block,
    Const,
    Inst,
    Loc,
    Operand,
    Value,
    result_class,
)
from ._passes import count, eliminate_dead, fuse, promotable, walk_blocks, widen_stores

#: A loop of known length is unrolled while trips * instructions stay below this...
UNROLL_BUDGET = 4096
#: ...or below this, where it indexes a register fragment that would otherwise live in memory...
UNROLL_BUDGET_FRAGMENT = 32768
#: ...and it has at most this many turns.
UNROLL_TRIPS = 256
#: A branch of at most this many cheap instructions becomes selections.
SELECT_BUDGET = 8

_COMMUTATIVE = frozenset(("add", "mul.lo", "mul.wide", "mul.hi", "and", "or", "xor", "min", "max"))
_CHEAP = PURE - {"div", "rem", "sqrt", "rcp", "ldparam", "sin.approx", "cos.approx"}
_MEMORY = frozenset(("ld", "st", "atom", "red", "prefetch"))
_INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_FLOATS = frozenset(("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2", "tf32"))


def undefined(cls: str) -> Const:
    """What a variable holds before it is written: all bits set, a NaN for a float."""
    return Const(-1, cls)


class _Walk:
    """One rewriting walk. `promote` holds the arrays that become values."""

    def __init__(self, promote: frozenset[Array]) -> None:
        self.promote = promote
        self.env: dict[Value, Operand] = {}
        self.state: dict[tuple[Array, int], Operand] = {}
        self.shared: dict[Any, Any] = {}
        self.log: list[Any] = []
        self.defs: dict[Value, Inst] = {}
        self.out = Block()
        self.loc: Loc = None

    # -- values -----------------------------------------------------------------------------

    def get(self, operand: Any) -> Any:
        if isinstance(operand, Value):
            try:
                return self.env[operand]
            except KeyError:
                where = f"{self.loc[0]}:{self.loc[1]}: " if self.loc else ""
                raise DSLRuntimeError(
                    f"{where}a value computed inside a control-flow body (or a `with` region) is "
                    "used outside it: assign it to a variable that has a value before the "
                    "statement"
                ) from None
        return operand

    def make(
        self, op: str, ty: str, args: tuple[Any, ...], mods: str = "", attr: Any = None
    ) -> Operand:
        """The result of a pure instruction with one result, simplified or shared."""
        if op in _COMMUTATIVE and isinstance(args[0], Const) and not isinstance(args[1], Const):
            args = (args[1], args[0])
        if all(isinstance(a, Const) for a in args) and args:
            bits = _fold.evaluate(op, ty, mods, attr, [a.bits for a in args])
            if isinstance(bits, int):
                return Const(bits, result_class(op, ty) if op != "mov" else args[0].cls)
        simpler = self.simplify(op, ty, args, mods, attr)
        if simpler is not None:
            return simpler
        if ty in ("u32", "u64") and op in ("add", "sub", "mul.lo"):
            ty = "s" + ty[1:]
        key = (op, ty, mods, attr, args)
        old = self.shared.get(key)
        if old is not None:
            return old
        cls = (
            args[0].cls
            if op in ("selp", "mov") and ty in ("b32", "b64", "pred")
            else result_class(op, ty)
        )
        value = Value(cls)
        inst = Inst(op, ty, args, (value,), mods, attr, self.loc)
        self.out.insts.append(inst)
        self.defs[value] = inst
        self.share(key, value)
        return value

    def share(self, key: Any, value: Any) -> None:
        self.shared[key] = value
        self.log.append(key)

    def define(self, value: Operand) -> Inst | None:
        return self.defs.get(value) if isinstance(value, Value) else None

    def addend(self, v: Operand, ty: str) -> tuple[Operand, int] | None:
        """`v` as base + constant, at integer type `ty`."""
        d = self.define(v)
        if d is not None and d.op == "add" and d.ty == ty and isinstance(d.args[1], Const):
            return d.args[0], _fold.int_of(d.args[1].bits, ty)
        return None

    def simplify(
        self, op: str, ty: str, args: tuple[Any, ...], mods: str, attr: Any
    ) -> Operand | None:
        a = args[0] if args else None
        b = args[1] if len(args) > 1 else None
        if ty == "pred":
            return self.simplify_pred(op, args)
        if op == "selp":
            if isinstance(args[2], Const):
                return a if args[2].bits else b
            if a is b or (isinstance(a, Const) and a == b):
                return a
            return None
        if ty in ("s32", "u32", "s64", "u64", "b32", "b64"):
            return self.simplify_int(op, ty, a, b, attr)
        if op == "cvt" and attr == ty and not mods:
            return a
        if op == "pack":
            lo, hi = self.define(a), self.define(b)
            if (
                lo is not None
                and lo is hi
                and lo.op == "unpack"
                and lo.dst == (a, b)
                and lo.ty == ty
            ):
                return lo.args[0]
        if op == "pack8":
            return self.simplify_pack8(ty, args)
        return None

    def simplify_pack8(self, ty: str, args: tuple[Any, ...]) -> Operand | None:
        source = self.define(args[0])
        if source is None or source.op != "split8":
            return None
        n = len(args)
        where = [i for i, d in enumerate(source.dst) if d is args[0]]
        start = where[0] if where else 0
        if source.dst[start : start + n] == args:
            if len(source.dst) == n:
                return source.args[0]
            if n == 2 and len(source.dst) == 4 and start in (0, 2):
                halves = self.multi("unpack", "b32", (source.args[0],), ("b32", "b32"))
                return halves[start // 2]
        if n == 4:
            other = self.define(args[2])
            if (
                other is not None
                and other.op == "split8"
                and len(source.dst) == len(other.dst) == 2
                and source.dst == args[:2]
                and other.dst == args[2:]
            ):
                return self.make("pack", "b32", (source.args[0], other.args[0]))
        return None

    def simplify_pred(self, op: str, args: tuple[Any, ...]) -> Operand | None:
        a = args[0]
        if op == "not":
            d = self.define(a)
            if d is not None and d.op == "not" and d.ty == "pred":
                return d.args[0]  # type: ignore[no-any-return]
            if d is not None and d.op == "setp" and d.ty not in _FLOATS and d.attr in _INVERSE:
                return self.make("setp", d.ty, d.args, d.mods, _INVERSE[d.attr])
            return None
        if op in ("and", "or"):
            for x, y in ((a, args[1]), (args[1], a)):
                if isinstance(x, Const):
                    if op == "and":
                        return y if x.bits else Const(0, "pred")
                    return Const(1, "pred") if x.bits else y
            return a if a is args[1] else None
        if op == "xor" and isinstance(args[1], Const):
            return self.make("not", "pred", (a,)) if args[1].bits else a
        return None

    def simplify_int(self, op: str, ty: str, a: Any, b: Any, attr: Any) -> Operand | None:
        if not isinstance(b, Const):
            if op == "add" and ty[0] in "su":
                return self.sum_of(ty, a, b)
            if op == "sub" and ty[0] in "su":
                signed = "s" + ty[1:]
                left, right = self.addend(a, signed), self.addend(b, signed)
                if left or right:
                    (x, c), (y, d) = left or (a, 0), right or (b, 0)
                    return self.plus(signed, self.make("sub", signed, (x, y)), c - d)
                return Const(0, CLASS_OF[ty]) if a is b else None
            if op == "mul.wide" and attr == "index":
                return None
            return None
        c = _fold.int_of(b.bits, ty) if op not in ("shl", "shr") else b.bits
        signed = ("s" if ty[0] in "su" else ty[0]) + ty[1:]
        if op == "add":
            return self.plus(signed, a, c) if c == 0 or self.addend(a, signed) else None
        if op == "sub":
            return self.plus(signed, a, -c)
        if op == "mul.lo":
            return self.times(signed, a, c)
        if op == "mul.wide":
            inner = self.addend(a, ty) if attr == "index" else None
            if inner is not None:
                wide = ty[0] + "64"
                return self.plus(wide, self.make(op, ty, (inner[0], b), "", attr), inner[1] * c)
            return None
        if op == "shl" and c == 0:
            return a
        if op == "shr" and c == 0:
            return a
        if op in ("or", "xor") and c == 0:
            return a
        if op == "and":
            if c == 0:
                return Const(0, b.cls)
            if b.bits == Const(-1, b.cls).bits:
                return a
            d = self.define(a)
            if d is not None and d.op == "and" and isinstance(d.args[1], Const):
                return self.make("and", ty, (d.args[0], Const(d.args[1].bits & b.bits, b.cls)))
        return a if op == "div" and c == 1 else None

    def plus(self, ty: str, a: Any, c: int) -> Operand:
        """`a + c`, constants gathered outermost."""
        inner = self.addend(a, ty)
        if inner is not None:
            a, c = inner[0], c + inner[1]
        k = Const(_fold.bits_int(c, ty), CLASS_OF[ty])
        if k.bits == 0:
            return a  # type: ignore[no-any-return]
        if isinstance(a, Const):
            return Const(_fold.bits_int(_fold.int_of(a.bits, ty) + c, ty), k.cls)
        return self.raw("add", ty, (a, k))

    def raw(
        self, op: str, ty: str, args: tuple[Any, ...], mods: str = "", attr: Any = None
    ) -> Operand:
        """As :meth:`make`, without simplification."""
        key = (op, ty, mods, attr, args)
        old = self.shared.get(key)
        if old is None:
            old = Value(result_class(op, ty))
            inst = Inst(op, ty, args, (old,), mods, attr, self.loc)
            self.out.insts.append(inst)
            self.defs[old] = inst
            self.share(key, old)
        return old

    def sum_of(self, ty: str, a: Any, b: Any) -> Operand | None:
        signed = "s" + ty[1:]
        left, right = self.addend(a, signed), self.addend(b, signed)
        if left is None and right is None:
            return None
        (x, c), (y, d) = left or (a, 0), right or (b, 0)
        return self.plus(signed, self.make("add", signed, (x, y)), c + d)

    def times(self, ty: str, a: Any, c: int) -> Operand | None:
        if c == 0:
            return Const(0, CLASS_OF[ty])
        if c == 1:
            return a  # type: ignore[no-any-return]
        inner = self.addend(a, ty)
        if inner is not None:
            return self.plus(
                ty, self.make("mul.lo", ty, (inner[0], Const(c, CLASS_OF[ty]))), inner[1] * c
            )
        if c > 0 and c & (c - 1) == 0:
            bits = "b" + ty[1:]
            return self.make("shl", bits, (a, Const(c.bit_length() - 1, "b32")))
        d = self.define(a)
        if d is not None and d.op == "mul.lo" and isinstance(d.args[1], Const):
            k = Const(_fold.bits_int(_fold.int_of(d.args[1].bits, ty) * c, ty), CLASS_OF[ty])
            return self.make("mul.lo", ty, (d.args[0], k))
        return None

    def multi(
        self,
        op: str,
        ty: str,
        args: tuple[Any, ...],
        classes: tuple[str, ...],
        mods: str = "",
        attr: Any = None,
    ) -> Any:
        """The results of a pure instruction with several."""
        if all(isinstance(a, Const) for a in args):
            bits = _fold.evaluate(op, ty, mods, attr, [a.bits for a in args])
            if isinstance(bits, tuple):
                return tuple(Const(x, c) for x, c in zip(bits, classes, strict=True))
        if op == "unpack":
            d = self.define(args[0])
            if d is not None and d.op == "pack" and d.ty == ty:
                return d.args
        key = (op, ty, mods, attr, args)
        old = self.shared.get(key)
        if old is not None:
            return old
        values = tuple(Value(c) for c in classes)
        inst = Inst(op, ty, args, values, mods, attr, self.loc)
        self.out.insts.append(inst)
        for v in values:
            self.defs[v] = inst
        self.share(key, values)
        return values

    # -- instructions -----------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for inst in block.insts:
            self.loc = inst.loc
            handler = _HANDLERS.get(inst.op)
            if handler is not None:
                handler(self, inst)
            elif inst.op in PURE:
                self.pure(inst)
            else:
                self.effect(inst)

    def pure(self, inst: Inst) -> None:
        args = tuple(self.get(a) for a in inst.args)
        if len(inst.dst) != 1:
            results = self.multi(
                inst.op, inst.ty, args, tuple(d.cls for d in inst.dst), inst.mods, inst.attr
            )
            for d, r in zip(inst.dst, results, strict=True):
                self.env[d] = r
            return
        if inst.op == "special" and inst.attr in VOLATILE_SPECIALS:
            self.effect(inst)
            return
        if inst.op == "special" or inst.op in ("ldparam", "selp", "mov"):
            if inst.op in ("selp", "mov"):
                self.env[inst.dst[0]] = self.make(inst.op, inst.ty, args, inst.mods, inst.attr)
                return
            key = (inst.op, inst.ty, inst.mods, inst.attr, args)
            old = self.shared.get(key)
            if old is None:
                old = Value(inst.dst[0].cls)
                new = Inst(inst.op, inst.ty, args, (old,), inst.mods, inst.attr, inst.loc)
                self.out.insts.append(new)
                self.defs[old] = new
                self.share(key, old)
            self.env[inst.dst[0]] = old
            return
        self.env[inst.dst[0]] = self.make(inst.op, inst.ty, args, inst.mods, inst.attr)

    def effect(self, inst: Inst) -> None:
        args = tuple(self.get(a) for a in inst.args)
        attr = inst.attr
        if inst.op in _MEMORY:
            args, attr = self.fold_address(args, attr)
        elif inst.op == "cp.async":
            smem, soff = self.base_offset(args[0], attr[1])
            gmem, goff = self.base_offset(args[1], attr[2])
            args, attr = (smem, gmem, *args[2:]), (attr[0], soff, goff, attr[3])
        values = tuple(Value(d.cls) for d in inst.dst)
        new = Inst(inst.op, inst.ty, args, values, inst.mods, attr, inst.loc)
        self.out.insts.append(new)
        for d, v in zip(inst.dst, values, strict=True):
            self.env[d] = v
            self.defs[v] = new

    def fold_address(self, args: tuple[Any, ...], attr: Any) -> tuple[tuple[Any, ...], Any]:
        base, offset = self.base_offset(args[0], attr["off"])
        if base is args[0]:
            return args, attr
        return (base, *args[1:]), {**attr, "off": offset}

    def base_offset(self, base: Any, offset: int) -> tuple[Any, int]:
        d = self.define(base)
        while d is not None and d.op == "add" and isinstance(d.args[1], Const):
            step = _fold.int_of(d.args[1].bits, d.ty)
            if not -(1 << 30) < offset + step < (1 << 30):
                break
            base, offset = d.args[0], offset + step
            d = self.define(base)
        return base, offset

    def vld(self, inst: Inst) -> None:
        array, index = inst.attr, self.get(inst.args[0])
        if array in self.promote:
            key = (array, index.bits)
            self.env[inst.dst[0]] = self.state.get(key) or undefined(CLASS_OF[array.ty])
            return
        value = Value(inst.dst[0].cls)
        self.env[inst.dst[0]] = value
        self.out.insts.append(Inst("vld", inst.ty, (index,), (value,), "", array, inst.loc))

    def vst(self, inst: Inst) -> None:
        array = inst.attr
        index, value = self.get(inst.args[0]), self.get(inst.args[1])
        if array in self.promote:
            self.state[(array, index.bits)] = value
            return
        self.out.insts.append(Inst("vst", inst.ty, (index, value), (), "", array, inst.loc))

    # -- structure --------------------------------------------------------------------------

    def region(self, block: Block) -> Block:
        """Walk `block` into a new one; what it shares is forgotten afterwards."""
        return self.region_of(lambda: self.block(block))

    def region_of(self, walk: Callable[[], None]) -> Block:
        """What `walk` emits, as a new block; what it shares is forgotten afterwards."""
        outer, self.out = self.out, Block()
        mark = len(self.log)
        walk()
        for key in self.log[mark:]:
            self.shared.pop(key, None)
        del self.log[mark:]
        new, self.out = self.out, outer
        return new

    def if_(self, inst: Inst) -> None:
        cond = self.get(inst.args[0])
        if isinstance(cond, Const):
            taken = inst.regions[0 if cond.bits else 1]
            self.block(taken)
            for d, y in zip(inst.dst, taken.yields, strict=True):
                self.env[d] = self.get(y)
            return
        before = self.state
        blocks: list[Block] = []
        states = []
        yields = []
        for region in inst.regions:
            self.state = dict(before)
            blocks.append(self.region(region))
            yields.append([self.get(y) for y in region.yields])
            states.append(self.state)
        self.state = before
        results: list[tuple[Any, Operand, Operand]] = []
        for i, d in enumerate(inst.dst):
            results.append((d, yields[0][i], yields[1][i]))
        for key in sorted(states[0].keys() | states[1].keys(), key=lambda k: (k[0].id, k[1])):
            x, y = (s.get(key) or undefined(CLASS_OF[key[0].ty]) for s in states)
            if key not in before or x is not before.get(key) or y is not before.get(key):
                results.append((key, x, y))
        self.loc = inst.loc
        if self.as_selections(cond, blocks, results):
            return
        values = []
        for name, x, y in results:
            if x is y or (isinstance(x, Const) and x == y):
                self.bind(name, x)
                continue
            value = Value(x.cls)
            values.append(value)
            blocks[0].yields.append(x)
            blocks[1].yields.append(y)
            self.bind(name, value)
        if not blocks[0].insts and not blocks[1].insts and not values:
            return
        new = Inst("if", "", (cond,), tuple(values), "", None, inst.loc, tuple(blocks))
        self.out.insts.append(new)

    def bind(self, name: Any, value: Operand) -> None:
        if isinstance(name, Value):
            self.env[name] = value
        else:
            self.state[name] = value

    def as_selections(self, cond: Operand, blocks: list[Block], results: list[Any]) -> bool:
        insts = [*blocks[0].insts, *blocks[1].insts]
        changed = [
            r for r in results if not (r[1] is r[2] or (isinstance(r[1], Const) and r[1] == r[2]))
        ]
        if not changed and not insts:
            for name, x, _ in results:
                self.bind(name, x)
            return True
        if len(insts) + len(changed) > SELECT_BUDGET or not all(i.op in _CHEAP for i in insts):
            return False
        self.out.insts.extend(insts)
        for name, x, y in results:
            self.bind(name, self.selection(cond, x, y))
        return True

    def selection(self, cond: Operand, x: Operand, y: Operand) -> Operand:
        if x is y or (isinstance(x, Const) and x == y):
            return x
        if x.cls == "pred":
            both = self.make("and", "pred", (cond, x))
            other = self.make("and", "pred", (self.make("not", "pred", (cond,)), y))
            return self.make("or", "pred", (both, other))
        return self.make("selp", x.cls, (x, y, cond))

    def stored_keys(self, *blocks: Block) -> list[tuple[Array, int]]:
        keys = {
            (i.attr, i.args[0].bits)
            for block in blocks
            for b in walk_blocks(block)
            for i in b.insts
            if i.op == "vst" and i.attr in self.promote
        }
        return sorted(keys, key=lambda k: (k[0].id, k[1]))

    def for_(self, inst: Inst) -> None:
        _, ty, unroll, full = inst.attr
        start, stop, step = (self.get(a) for a in inst.args[:3])
        inits = [self.get(a) for a in inst.args[3:]]
        body = inst.regions[0]
        trips = None
        if all(isinstance(x, Const) for x in (start, stop, step)):
            lo, hi, by = (_fold.int_of(x.bits, ty) for x in (start, stop, step))
            if by == 0:
                raise DSLRuntimeError("range: step must not be 0")
            trips = len(range(lo, hi, by))
            if trips == 0:
                for d, x in zip(inst.dst, inits, strict=True):
                    self.env[d] = x
                return
            if self.should_unroll(body, trips, unroll, full):
                self.unroll(inst, body, range(lo, hi, by), ty, inits)
                return
        if unroll > 1 and isinstance(step, Const) and _fold.int_of(step.bits, ty) > 0:
            inits, start = self.partly(inst, ty, start, stop, step, inits, unroll)
        results = self.loop(inst, ty, start, stop, step, inits, 1)
        for d, x in zip(inst.dst, results, strict=True):
            self.env[d] = x

    def partly(
        self,
        inst: Inst,
        ty: str,
        start: Operand,
        stop: Operand,
        step: Const,
        inits: list[Operand],
        copies: int,
    ) -> tuple[list[Operand], Operand]:
        """Run the turns that fill whole groups of `copies`; gives the values and where the rest "
        "begins."""
        stride = _fold.int_of(step.bits, ty) * copies
        cls = CLASS_OF[ty]
        unsigned = "u" + ty[1:]
        # Of a range that ends before it begins, no turn: its span would wrap around.
        span = self.make("sub", ty, (self.make("max", ty, (stop, start)), start))
        groups = self.make("div", unsigned, (span, Const(stride, cls)))
        if stride & (stride - 1) == 0:
            groups = self.make("shr", unsigned, (span, Const(stride.bit_length() - 1, "b32")))
        covered = self.make("mul.lo", ty, (groups, Const(stride, cls)))
        middle = self.make("add", ty, (start, covered))
        done = self.loop(inst, ty, start, middle, Const(stride, cls), inits, copies)
        return done, middle

    def loop(
        self,
        inst: Inst,
        ty: str,
        start: Operand,
        stop: Operand,
        step: Operand,
        inits: list[Operand],
        copies: int,
    ) -> list[Operand]:
        """Walk a loop that remains one, `copies` turns of it in each of its turns; gives its "
        "results."""
        if all(isinstance(x, Const) for x in (start, stop, step)):
            bounds = [_fold.int_of(x.bits, ty) for x in (start, stop, step)]  # type: ignore[union-attr]
            if len(range(*bounds)) == 0:
                return inits
        induction = inst.attr[0]
        body = inst.regions[0]
        fixed: dict[int, Operand] = {}
        params, carried_in, yielded = [], [], []
        for i, (p, init, y) in enumerate(zip(body.params, inits, body.yields, strict=True)):
            if y is p:
                self.env[p] = init
                fixed[i] = init
            else:
                params.append(p)
                yielded.append(y)
                carried_in.append(init)
        keys = self.stored_keys(body)
        key_inits = [self.state.get(k) or undefined(CLASS_OF[k[0].ty]) for k in keys]
        new_params = [Value(i.cls) for i in carried_in]
        key_params = [Value(i.cls) for i in key_inits]
        counter = Value(CLASS_OF[ty])
        outer_state = self.state
        self.state = {**outer_state, **dict(zip(keys, key_params, strict=True))}
        current: list[Operand] = list(new_params)

        def turns() -> None:
            nonlocal current
            single = _fold.int_of(step.bits, ty) // copies if isinstance(step, Const) else 0
            for k in range(copies):
                index: Operand = counter
                if k:
                    index = self.make("add", ty, (counter, Const(single * k, CLASS_OF[ty])))
                self.env[induction] = index
                for p, value in zip(params, current, strict=True):
                    self.env[p] = value
                self.block(body)
                current = [self.get(y) for y in yielded]

        new = self.region_of(turns)
        new.params = [*new_params, *key_params]
        new.yields = [*current, *(self.state[k] for k in keys)]
        self.state = outer_state
        self.loc = inst.loc
        self.hoist(new, {counter, *new.params})
        results = [Value(p.cls) for p in new.params]
        for k, r in zip(keys, results[len(new_params) :], strict=True):
            self.state[k] = r
        self.out.insts.append(
            Inst(
                "for",
                "",
                (start, stop, step, *carried_in, *key_inits),
                tuple(results),
                "",
                (counter, ty, inst.attr[2] if copies == 1 and inst.attr[2] < 2 else 1, False),
                inst.loc,
                (new,),
            )
        )
        rest = iter(results[: len(new_params)])
        return [fixed[i] if i in fixed else next(rest) for i in range(len(inits))]

    def should_unroll(self, body: Block, trips: int, unroll: int, full: bool) -> bool:
        if full:
            return True
        if unroll >= 1:
            return unroll >= trips and unroll > 1
        size = trips * max(1, count(body))
        if trips == 1:
            return True
        if trips > UNROLL_TRIPS:
            return False
        if size <= UNROLL_BUDGET:
            return True
        indexed = any(
            i.op in ("vld", "vst") and not isinstance(i.args[0], Const)
            for b in walk_blocks(body)
            for i in b.insts
        )
        return indexed and size <= UNROLL_BUDGET_FRAGMENT

    def unroll(
        self, inst: Inst, body: Block, turns: range, ty: str, carried: list[Operand]
    ) -> None:
        induction = inst.attr[0]
        for turn in turns:
            self.env[induction] = Const(_fold.bits_int(turn, ty), CLASS_OF[ty])
            for p, v in zip(body.params, carried, strict=True):
                self.env[p] = v
            self.block(body)
            carried = [self.get(y) for y in body.yields]
        for d, v in zip(inst.dst, carried, strict=True):
            self.env[d] = v

    def while_(self, inst: Inst) -> None:
        head, body = inst.regions
        inits = [self.get(a) for a in inst.args]
        keys = self.stored_keys(head, body)
        key_inits = [self.state.get(k) or undefined(CLASS_OF[k[0].ty]) for k in keys]
        params = [Value(i.cls) for i in (*inits, *key_inits)]
        for p, v in zip(head.params, params, strict=False):
            self.env[p] = v
        outer_state = self.state
        self.state = {**outer_state, **dict(zip(keys, params[len(inits) :], strict=True))}
        # The body sees what the head computed, so both share one scope.
        mark = len(self.log)
        outer, self.out = self.out, Block()
        self.block(head)
        new_head, self.out = self.out, outer
        new_head.cond = self.get(head.cond)
        new_head.params = params
        new_head.yields = [*(self.get(y) for y in head.yields), *(self.state[k] for k in keys)]
        new_body = self.region(body)
        new_body.yields = [*(self.get(y) for y in body.yields), *(self.state[k] for k in keys)]
        for key in self.log[mark:]:
            self.shared.pop(key, None)
        del self.log[mark:]
        self.state = outer_state
        inside = set(params)
        inside = self.hoist(new_head, inside)
        self.hoist(new_body, inside)
        results = [Value(p.cls) for p in params]
        for d, r in zip(inst.dst, results, strict=False):
            self.env[d] = r
        for k, r in zip(keys, results[len(inits) :], strict=True):
            self.state[k] = r
        self.loc = inst.loc
        self.out.insts.append(
            Inst(
                "while",
                "",
                (*inits, *key_inits),
                tuple(results),
                "",
                None,
                inst.loc,
                (new_head, new_body),
            )
        )

    def hoist(self, block: Block, inside: set[Value]) -> set[Value]:
        """Move what does not depend on the loop in front of it; gives the values left inside."""
        kept: list[Inst] = []
        for inst in block.insts:
            movable = inst.op in PURE and not (
                inst.op == "special" and inst.attr in VOLATILE_SPECIALS
            )
            if movable and not any(isinstance(a, Value) and a in inside for a in inst.args):
                self.out.insts.append(inst)
                continue
            kept.append(inst)
            inside.update(inst.dst)
            for region in inst.regions:
                _collect(region, inside)
        block.insts = kept
        return inside


def _collect(block: Block, into: set[Value]) -> None:
    into.update(block.params)
    for inst in block.insts:
        into.update(inst.dst)
        if inst.op == "for":
            into.add(inst.attr[0])
        for region in inst.regions:
            _collect(region, into)


_HANDLERS = {
    "if": _Walk.if_,
    "for": _Walk.for_,
    "while": _Walk.while_,
    "vld": _Walk.vld,
    "vst": _Walk.vst,
}


def optimize(root: Block) -> Block:
    """The optimized program."""
    walk = _Walk(frozenset())
    walk.block(root)
    block = walk.out
    for _ in range(3):
        arrays = promotable(block)
        walk = _Walk(arrays)
        walk.block(block)
        block = walk.out
        eliminate_dead(block)
        if not promotable(block):
            break
    walk = _Walk(frozenset())
    walk.block(block)
    block = walk.out
    widen_stores(block)
    eliminate_dead(block)
    fuse(block)
    return block
