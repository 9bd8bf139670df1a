"""Owns what the optimizer does to a whole program at once: what is dead goes, products and sums
fuse, neighbouring 16-bit stores pair, and reads outside a value's scope are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._errors import DSLRuntimeError
from ._ir import BITS_OF, PURE, Array, Block, Const, Inst, Loc, Operand, Value


def walk_blocks(block: Block) -> Iterator[Block]:
    """`block` and every block inside it."""
    yield block
    for inst in block.insts:
        for region in inst.regions:
            yield from walk_blocks(region)


def count(block: Block) -> int:
    """Instructions in `block`, those of inner blocks included."""
    return sum(1 + sum(count(r) for r in i.regions) for i in block.insts)


def promotable(root: Block) -> frozenset[Array]:
    """Arrays that are indexed by constants alone."""
    seen: set[Array] = set()
    bad: set[Array] = set()
    for block in walk_blocks(root):
        for inst in block.insts:
            if inst.op in ("vld", "vst"):
                seen.add(inst.attr)
                if not isinstance(inst.args[0], Const):
                    bad.add(inst.attr)
    return frozenset(seen - bad)


def eliminate_dead(root: Block) -> None:
    """Drop what no effect depends on: instructions, yields, loop-carried values, whole loops."""
    needs: dict[Value, list[Any]] = {}
    roots: list[Any] = []

    def scan(block: Block) -> bool:
        live = False
        for inst in block.insts:
            if inst.op == "if":
                inner = [scan(r) for r in inst.regions]
                if any(inner):
                    roots.append(inst.args[0])
                    live = True
                for i, d in enumerate(inst.dst):
                    needs[d] = [inst.args[0], *(r.yields[i] for r in inst.regions)]
            elif inst.op == "for":
                body = inst.regions[0]
                if scan(body):
                    roots.extend(inst.args[:3])
                    live = True
                needs.setdefault(inst.attr[0], []).extend(inst.args[:3])
                for i, (p, d) in enumerate(zip(body.params, inst.dst, strict=True)):
                    needs[p] = [inst.args[3 + i], body.yields[i], *inst.args[:3]]
                    needs[d] = [p]
            elif inst.op == "while":
                head, body = inst.regions
                scan(head)
                scan(body)
                # Its end depends on its condition: a loop that may not end is an effect.
                roots.append(head.cond)
                live = True
                for i, (p, d) in enumerate(zip(head.params, inst.dst, strict=True)):
                    needs[p] = [inst.args[i], body.yields[i]]
                    needs[d] = [head.yields[i]]
            elif (
                inst.op in PURE or inst.op == "vld" or (inst.op == "ld" and not inst.attr["order"])
            ):
                for d in inst.dst:
                    needs[d] = list(inst.args)
            else:
                roots.extend(inst.args)
                for d in inst.dst:
                    needs[d] = []
                live = True
        return live

    scan(root)
    marked: set[Value] = set()
    work = [v for v in roots if isinstance(v, Value)]
    while work:
        v = work.pop()
        if v in marked:
            continue
        marked.add(v)
        work.extend(n for n in needs.get(v, ()) if isinstance(n, Value) and n not in marked)

    def sweep(block: Block) -> None:
        kept = []
        for inst in block.insts:
            if inst.op in ("if", "for", "while"):
                for r in inst.regions:
                    sweep(r)
                _prune(inst, marked)
                if inst.op != "while" and not inst.dst and not any(r.insts for r in inst.regions):
                    continue
                kept.append(inst)
            elif (
                inst.op in PURE or inst.op == "vld" or (inst.op == "ld" and not inst.attr["order"])
            ):
                if any(d in marked for d in inst.dst):
                    kept.append(inst)
            else:
                kept.append(inst)
        block.insts = kept

    sweep(root)


def _prune(inst: Inst, marked: set[Value]) -> None:
    if inst.op == "if":
        keep = [i for i, d in enumerate(inst.dst) if d in marked]
        inst.dst = tuple(inst.dst[i] for i in keep)
        for r in inst.regions:
            r.yields = [r.yields[i] for i in keep]
        return
    head = inst.regions[0]
    keep = [
        i
        for i, (p, d) in enumerate(zip(head.params, inst.dst, strict=True))
        if p in marked or d in marked
    ]
    first = 3 if inst.op == "for" else 0
    inst.args = (*inst.args[:first], *(inst.args[first + i] for i in keep))
    inst.dst = tuple(inst.dst[i] for i in keep)
    for r in inst.regions:
        r.yields = [r.yields[i] for i in keep]
    head.params = [head.params[i] for i in keep]


def uses(root: Block) -> dict[Value, int]:
    """How often each value is read."""
    out: dict[Value, int] = {}

    def see(v: Any) -> None:
        if isinstance(v, Value):
            out[v] = out.get(v, 0) + 1

    for block in walk_blocks(root):
        for y in block.yields:
            see(y)
        see(block.cond)
        for inst in block.insts:
            for a in inst.args:
                see(a)
    return out


def fuse(root: Block) -> None:
    """Multiply and add of integers becomes `mad` where the product has no other reader."""
    reads = uses(root)
    for block in walk_blocks(root):
        products: dict[Value, Inst] = {}
        for inst in block.insts:
            if inst.op in ("mul.lo", "mul.wide") and reads.get(inst.dst[0]) == 1:
                products[inst.dst[0]] = inst
            elif inst.op == "add" and inst.ty in ("s32", "s64"):
                for i in (0, 1):
                    product = products.get(inst.args[i])
                    if product is None:
                        continue
                    wide = product.op == "mul.wide"
                    if wide != (inst.ty == "s64" and BITS_OF[product.ty] == 32):
                        continue
                    other = inst.args[1 - i]
                    inst.op = "mad.wide" if wide else "mad.lo"
                    inst.ty = product.ty
                    inst.args = (*product.args, other)
                    inst.attr = None
                    product.op = "dead"
                    break
        block.insts = [i for i in block.insts if i.op != "dead"]


def widen_stores(root: Block) -> None:
    """A store of 16-bit values that came in pairs stores the pairs."""
    halves: dict[Value, Inst] = {}
    for block in walk_blocks(root):
        for inst in block.insts:
            if inst.op == "unpack" and inst.ty == "b32":
                for d in inst.dst:
                    halves[d] = inst
    for block in walk_blocks(root):
        for inst in block.insts:
            if inst.op != "st" or BITS_OF[inst.ty] != 16 or len(inst.args) % 2 == 0:
                continue
            pairs = [_pair(halves, *inst.args[i : i + 2]) for i in range(1, len(inst.args), 2)]
            if all(p is not None for p in pairs):
                inst.args = (inst.args[0], *pairs)
                inst.ty = "b32"


def _pair(halves: dict[Value, Inst], lo: Operand, hi: Operand) -> Operand | None:
    if isinstance(lo, Const) and isinstance(hi, Const):
        return Const((lo.bits & 0xFFFF) | (hi.bits & 0xFFFF) << 16, "b32")
    source = halves.get(lo)  # type: ignore[arg-type]
    if source is not None and source.dst == (lo, hi):
        return source.args[0]  # type: ignore[no-any-return]
    return None


def check_scopes(root: Block) -> None:
    """Refuse a program that reads a value outside the block that computes it.

    :raises DSLRuntimeError: naming the line of the read.
    """
    known: set[Value] = set()

    def see(operand: Any, loc: Loc) -> None:
        if isinstance(operand, Value) and operand not in known:
            where = f"{loc[0]}:{loc[1]}: " if loc else ""
            raise DSLRuntimeError(
                f"{where}a value computed inside a control-flow body is used outside it: assign it "
                "to a variable that has a value of the same type before the statement"
            )

    def scan(block: Block) -> list[Value]:
        added: list[Value] = []

        def add(v: Value) -> None:
            if v not in known:
                known.add(v)
                added.append(v)

        for inst in block.insts:
            for a in inst.args:
                see(a, inst.loc)
            if inst.op == "for":
                add(inst.attr[0])
            inner: list[Value] = []
            for region in inst.regions:
                inner.extend(scan(region))
                if region.cond is not None:
                    see(region.cond, inst.loc)
                if inst.op == "if":
                    known.difference_update(inner)
                    inner = []
            known.difference_update(inner)
            for d in inst.dst:
                add(d)
        return added

    scan(root)
