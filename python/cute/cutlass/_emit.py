"""Owns the last step of a kernel: values become registers, and the program becomes device IR text.

A loop-carried value and what the loop yields for it share one register wherever the old value is no
longer read, so that an accumulation is one instruction. Registers are then packed by their live
ranges.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

from . import _fold
from ._ir import BITS_OF, Array, Block, Builder, Const, Inst, Loc, Operand, Value
from ._passes import uses, walk_blocks


class Reg:
    """A register before packing."""

    __slots__ = ("cls", "end", "name", "start")

    def __init__(self, cls: str) -> None:
        self.cls = cls
        self.start = -1
        self.end = -1
        self.name = ""


@dataclass
class _Line:
    """One line of text: `{}` in the template stands for the next register of `regs`."""

    template: str
    regs: list[Reg] = field(default_factory=list)
    opens: bool = False
    closes: bool = False
    loop: bool = False
    reuse: bool = False
    writes: int = 0


def immediate(c: Const, ty: str) -> str:
    """A constant as an immediate of type `ty`."""
    if c.cls == "pred" or ty == "pred":
        return "true" if c.bits else "false"
    if ty in ("f32", "tf32"):
        return f"0f{c.bits & 0xFFFFFFFF:08X}"
    if ty == "f64":
        return f"0d{c.bits:016X}"
    if ty in ("f16", "bf16"):
        return f"0h{c.bits & 0xFFFF:04X}"
    if ty[0] == "s":
        return str(_fold.int_of(c.bits, ty))
    width = BITS_OF[ty]
    return str(c.bits & ((1 << width) - 1))


def _last_use(block: Block, value: Value) -> int:
    """Index of the last instruction of `block` that reads `value`, at any depth; -1 if none "
    "does."""
    last = -1
    for i, inst in enumerate(block.insts):
        if value in inst.args or any(_reads(r, value) for r in inst.regions):
            last = i
    return last


def _reads(block: Block, value: Value) -> bool:
    for b in walk_blocks(block):
        if value in b.yields or b.cond is value:
            return True
        if any(value in inst.args for inst in b.insts):
            return True
    return False


class Emitter:
    """Turns one optimized kernel into text."""

    def __init__(self, builder: Builder, root: Block) -> None:
        self.builder = builder
        self.root = root
        self.regs: dict[Value, Reg] = {}
        self.old: dict[Value, Value | None] = {}
        self.lines: list[_Line] = []
        self.files: dict[str, int] = {}
        self.loc: Loc = None
        self.depth = 1
        self.local: dict[Array, int] = {}
        self.local_size = 0
        self.reads = uses(root)

    # -- placing ----------------------------------------------------------------------------

    def reg(self, value: Value) -> Reg:
        got = self.regs.get(value)
        if got is None:
            got = self.regs[value] = Reg(value.cls)
        return got

    def line(self, template: str, *operands: Any, writes: int = 0, reuse: bool = False) -> None:
        """Add a line; operands are registers, or (operand, type) for what may be an immediate."""
        regs: list[Reg] = []
        parts = template.split("{}")
        out = parts[0]
        for part, operand in zip(parts[1:], operands, strict=True):
            if isinstance(operand, Reg):
                regs.append(operand)
                out += "{}"
            else:
                value, ty = operand
                if isinstance(value, Const):
                    out += immediate(value, ty)
                else:
                    regs.append(self.reg(value))
                    out += "{}"
            out += part
        self.lines.append(_Line("  " * self.depth + out, regs, writes=writes, reuse=reuse))

    def open(self, template: str, *operands: Any, loop: bool = False) -> None:
        self.line(template, *operands)
        self.lines[-1].opens = True
        self.lines[-1].loop = loop
        self.depth += 1

    def close(self, text: str = "}", loop: bool = False, reopen: bool = False) -> None:
        self.depth -= 1
        self.line(text)
        self.lines[-1].closes = True
        self.lines[-1].loop = loop
        if reopen:
            self.lines[-1].opens = True
            self.depth += 1

    def locate(self, inst: Inst) -> None:
        if inst.loc is not None and inst.loc != self.loc:
            self.loc = inst.loc
            number = self.files.setdefault(inst.loc[0], len(self.files) + 1)
            self.line(f".loc {number} {inst.loc[1]}")

    def copies(self, pairs: list[tuple[Reg, Operand]], guard: str = "") -> None:
        """Assign all at once: no source is overwritten before it is read."""
        todo = []
        for dst, src in pairs:
            source: Any = src if isinstance(src, Const) else self.reg(src)
            if source is not dst:
                todo.append((dst, source))
        while todo:
            sources = {id(s) for _, s in todo}
            ready = [p for p in todo if id(p[0]) not in sources]
            if not ready:
                dst, src = todo[0]
                spare = Reg(dst.cls)
                self.mov(spare, dst, guard)
                todo = [(d, spare if s is dst else s) for d, s in todo]
                continue
            for dst, src in ready:
                self.mov(dst, src, guard)
            todo = [p for p in todo if p not in ready]

    def mov(self, dst: Reg, src: Any, guard: str = "") -> None:
        if isinstance(src, Const):
            self.line(
                f"{guard}mov.{dst.cls} {{}}, {immediate(src, dst.cls)}", dst, writes=1, reuse=True
            )
        else:
            self.line(f"{guard}mov.{dst.cls} {{}}, {{}}", dst, src, writes=1, reuse=True)

    # -- coalescing -------------------------------------------------------------------------

    def share_yields(self, block: Block, targets: list[Reg], olds: list[Value | None]) -> None:
        """Give what `block` yields the target registers, where their old contents are read no "
        "more."""
        where = {d: i for i, inst in enumerate(block.insts) for d in inst.dst}
        taken: set[Value] = set()
        for slot, (y, target, old) in enumerate(zip(block.yields, targets, olds, strict=True)):
            if not isinstance(y, Value) or y not in where or y in self.regs or y in taken:
                continue
            at = where[y]
            inst = block.insts[at]
            if old is not None:
                if any(o is old for j, o in enumerate(block.yields) if j != slot):
                    continue
                last = _last_use(block, old)
                if last > at:
                    continue
                if last == at and not self.may_replace(inst, y, old):
                    continue
            taken.add(y)
            self.regs[y] = target
            self.old[y] = old

    def may_replace(self, inst: Inst, y: Value, old: Value) -> bool:
        """Whether `inst` may write `y` over `old`, which it also reads."""
        if not inst.regions:
            return len(inst.dst) == 1
        slot = inst.dst.index(y)
        if inst.op == "for":
            body = inst.regions[0]
            return (
                inst.args.count(old) == 1 and inst.args[3 + slot] is old and not _reads(body, old)
            )
        # An `if` writes it at the end of a branch, or where that branch's own check allows.
        return inst.op == "if" and inst.args[0] is not old

    # -- code -------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        for inst in block.insts:
            self.locate(inst)
            if inst.op == "if":
                self.if_(inst)
            elif inst.op == "for":
                self.for_(inst)
            elif inst.op == "while":
                self.while_(inst)
            else:
                self.plain(inst)

    def if_(self, inst: Inst) -> None:
        targets = [self.reg(d) for d in inst.dst]
        olds = [self.old.get(d) for d in inst.dst]
        then, otherwise = inst.regions
        if self.guarded(inst, targets, olds):
            return
        if not then.insts and not any(
            self.differs(y, t) for y, t in zip(then.yields, targets, strict=True)
        ):
            # Only the other branch does anything.
            negated = Reg("pred")
            self.line("not.pred {}, {}", negated, (inst.args[0], "pred"), writes=1)
            self.share_yields(otherwise, targets, olds)
            self.open("if {} {", negated)
            self.block(otherwise)
            self.copies(list(zip(targets, otherwise.yields, strict=True)))
            self.close()
            return
        self.share_yields(then, targets, olds)
        self.share_yields(otherwise, targets, olds)
        self.open("if {} {", (inst.args[0], "pred"))
        self.block(then)
        self.copies(list(zip(targets, then.yields, strict=True)))
        if otherwise.insts or any(
            self.differs(y, t) for y, t in zip(otherwise.yields, targets, strict=True)
        ):
            self.close("} else {", reopen=True)
            self.block(otherwise)
            self.copies(list(zip(targets, otherwise.yields, strict=True)))
        self.close()

    def differs(self, y: Operand, target: Reg) -> bool:
        return isinstance(y, Const) or self.regs.get(y) is not target

    def guarded(self, inst: Inst, targets: list[Reg], olds: list[Value | None]) -> bool:
        """A branch of a few memory operations becomes guarded instructions."""
        then, otherwise = inst.regions
        if otherwise.insts or not 0 < len(then.insts) <= 2 or not isinstance(inst.args[0], Value):
            return False
        if not all(i.op in ("ld", "st", "cp.async", "red") for i in then.insts):
            return False
        defined = [d for i in then.insts for d in i.dst]
        if any(y not in defined for y in then.yields):
            return False
        if any(old is not None and _reads(then, old) for old in olds):
            return False
        if any(v in defined for i in then.insts for v in i.args):
            return False
        for y, target in zip(then.yields, targets, strict=True):
            if y in self.regs and self.regs[y] is not target:
                return False
        if len(set(then.yields)) != len(then.yields):
            return False
        for y, target in zip(then.yields, targets, strict=True):
            assert isinstance(y, Value)
            self.regs[y] = target
        self.copies(list(zip(targets, otherwise.yields, strict=True)))
        # What the guarded load writes besides must not be taken for undefined by the packing.
        for i in then.insts:
            self.locate(i)
            self.plain(i, guard=inst.args[0])
        return True

    def for_(self, inst: Inst) -> None:
        counter, ty, _, _ = inst.attr
        start, stop, step = inst.args[:3]
        body = inst.regions[0]
        targets = [self.reg(d) for d in inst.dst]
        for p, t in zip(body.params, targets, strict=True):
            self.regs[p] = t
        self.copies(list(zip(targets, inst.args[3:], strict=True)))
        c = self.reg(counter)
        self.copies([(c, start)])
        done = Reg("pred")
        self.share_yields(body, targets, list(body.params))
        counts_down = isinstance(step, Const) and _fold.int_of(step.bits, ty) < 0
        once = self.runs(start, stop, step, ty)
        if not once:
            self.test(done, c, stop, step, ty, counts_down)
            self.not_(done)
            self.open("if {} {", done)
        self.open("loop {", loop=True)
        self.block(body)
        self.copies(list(zip(targets, body.yields, strict=True)))
        self.line(f"add.{ty} {{}}, {{}}, {{}}", c, c, (step, ty), writes=1)
        self.test(done, c, stop, step, ty, counts_down)
        self.line("break {}", done)
        self.close(loop=True)
        if not once:
            self.close()

    def runs(self, start: Operand, stop: Operand, step: Operand, ty: str) -> bool:
        """Whether the loop is known to have at least one turn."""
        if not all(isinstance(x, Const) for x in (start, stop, step)):
            return False
        lo, hi, by = (_fold.int_of(x.bits, ty) for x in (start, stop, step))  # type: ignore[union-attr]
        return len(range(lo, hi, by)) > 0

    def not_(self, p: Reg) -> None:
        self.line("not.pred {}, {}", p, p, writes=1)

    def test(self, done: Reg, c: Reg, stop: Operand, step: Operand, ty: str, down: bool) -> None:
        """`done` = the counter has passed `stop`."""
        if isinstance(step, Const) or ty[0] == "u":
            cmp = "le" if down else "ge"
            self.line(f"setp.{cmp}.{ty} {{}}, {{}}, {{}}", done, c, (stop, ty), writes=1)
            return
        # The direction is known only at run time.
        up, past_up, past_down = Reg("pred"), Reg("pred"), Reg("pred")
        self.line(f"setp.gt.{ty} {{}}, {{}}, 0", up, (step, ty), writes=1)
        self.line(f"setp.ge.{ty} {{}}, {{}}, {{}}", past_up, c, (stop, ty), writes=1)
        self.line(f"setp.le.{ty} {{}}, {{}}, {{}}", past_down, c, (stop, ty), writes=1)
        self.line("selp.pred {}, {}, {}, {}", done, past_up, past_down, up, writes=1)

    def while_(self, inst: Inst) -> None:
        head, body = inst.regions
        params = [self.reg(p) for p in head.params]
        for i, d in enumerate(inst.dst):
            if head.yields[i] is head.params[i] and d not in self.regs:
                self.regs[d] = params[i]
        targets = [self.reg(d) for d in inst.dst]
        self.copies(list(zip(params, inst.args, strict=True)))
        self.share_yields(body, params, list(head.params))
        self.open("loop {", loop=True)
        self.block(head)
        self.copies(list(zip(targets, head.yields, strict=True)))
        assert head.cond is not None
        if isinstance(head.cond, Value):
            self.line("break !{}", (head.cond, "pred"))
        elif isinstance(head.cond, Const) and not head.cond.bits:
            self.line("break")
        self.block(body)
        self.copies(list(zip(params, body.yields, strict=True)))
        self.close(loop=True)

    def plain(self, inst: Inst, guard: Operand | None = None) -> None:
        prefix = "@{} " if guard is not None else ""
        head: list[Any] = [(guard, "pred")] if guard is not None else []
        writes = len(inst.dst)
        text, operands = render(self, inst)
        if text is None:
            return
        reuse = len(inst.dst) == 1 and inst.op not in ("ld", "shfl", "atom")
        self.line(prefix + text, *head, *operands, writes=writes, reuse=reuse and guard is None)

    # -- storage ----------------------------------------------------------------------------

    def array_offset(self, array: Array) -> int:
        if array not in self.local:
            size = max(1, BITS_OF[array.ty] // 8)
            align = max(16, size)
            offset = -(-self.local_size // align) * align
            self.local[array] = offset
            self.local_size = offset + size * array.length
        return self.local[array]

    # -- packing ----------------------------------------------------------------------------

    def pack(self) -> dict[str, int]:
        """Name the registers so that those not live together share; gives how many each class "
        "needs."""
        loops: list[tuple[int, int]] = []
        stack: list[tuple[int, bool]] = []
        for i, line in enumerate(self.lines):
            if line.closes:
                begin, was_loop = stack.pop()
                if was_loop:
                    loops.append((begin, i))
            if line.opens:
                stack.append((i, line.loop and not line.closes))
            for r in line.regs:
                if r.start < 0:
                    r.start = i
                r.end = i
        regs = list(dict.fromkeys(r for line in self.lines for r in line.regs))
        # A register that lives into a loop from before it lives until the loop's end. Inner loops
        # come first in `loops`, so an extension is seen by the loops around it.
        for begin, end in loops:
            for r in regs:
                if r.start < begin < r.end < end:
                    r.end = end
        order = sorted(regs, key=lambda r: r.start)
        free: dict[str, list[str]] = {"b32": [], "b64": [], "pred": []}
        made = {"b32": 0, "b64": 0, "pred": 0}
        letter = {"b32": "r", "b64": "d", "pred": "p"}
        ends: list[tuple[int, int, Reg]] = []
        for n, r in enumerate(order):
            while ends and (
                ends[0][0] < r.start or (ends[0][0] == r.start and self.lines[r.start].reuse)
            ):
                _, _, done = heapq.heappop(ends)
                free[done.cls].append(done.name)
            if free[r.cls]:
                r.name = free[r.cls].pop()
            else:
                r.name = f"%{letter[r.cls]}{made[r.cls]}"
                made[r.cls] += 1
            heapq.heappush(ends, (r.end, n, r))
        return made

    def text(self) -> str:
        """The kernel's text, without the module's header."""
        self.block(self.root)
        made = self.pack()
        body = [
            line.template.replace("{}", "\0") if not line.regs else _fill(line)
            for line in self.lines
        ]
        b = self.builder
        params = ", ".join(f"%{name}: {size}" for name, size in b.params)
        out = [f".kernel @{b.name} ({params}) {{"]
        if b.shared_static:
            out.append(f"  .shared {b.shared_static}")
        if self.local_size:
            out.append(f"  .local {self.local_size}")
        if b.max_threads:
            out.append(f"  .maxthreads {b.max_threads}")
        registers = min(255, -(-(made["b32"] + 2 * made["b64"] + 8) // 8) * 8)
        out.append(f"  .registers {registers}")
        for cls, prefix in (("pred", "p"), ("b32", "r"), ("b64", "d")):
            if made[cls]:
                names = " ".join(f"%{prefix}{i}" for i in range(made[cls]))
                out.append(f"  .reg {cls} {names}")
        out.extend(body)
        out.append("}")
        return "\n".join(out) + "\n"


def _fill(line: _Line) -> str:
    out = line.template
    for r in line.regs:
        out = out.replace("{}", r.name, 1)
    return out


def _regs(emitter: Emitter, values: tuple[Value, ...]) -> list[Reg]:
    return [emitter.reg(v) for v in values]


def _braces(n: int) -> str:
    return "{}" if n == 1 else "\x01" + ", ".join(["{}"] * n) + "\x02"


def _address(inst: Inst, slot: int, off: int) -> str:
    if isinstance(inst.args[slot], Const):
        return "[{}]"
    return "[{}]" if off == 0 else f"[{{}}{off:+d}]"


def _const_address(c: Const, off: int) -> Const:
    return Const(c.bits + off, c.cls)


def render(e: Emitter, inst: Inst) -> tuple[str | None, list[Any]]:
    """Template and operands of an instruction."""
    op, ty, mods, args = inst.op, inst.ty, inst.mods, inst.args
    d: list[Any] = _regs(e, inst.dst)
    special = _RENDER.get(op)
    if special is not None:
        return special(e, inst, d)
    types = [ty] * len(args)
    if op in ("shl", "shr"):
        types = [ty, "u32"]
    elif op == "mad.wide":
        types = [ty, ty, ty[0] + "64" if BITS_OF[ty] == 32 else ty[0] + "32"]
    elif op in ("bfe", "bfi"):
        types = [*([ty] * (len(args) - 2)), "u32", "u32"]
    slots = ", ".join(["{}"] * (len(d) + len(args)))
    return f"{op}{mods}.{ty} {slots}", [*d, *zip(args, types, strict=True)]


def _r_mov(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"mov.{d[0].cls} {{}}, {{}}", [*d, (inst.args[0], inst.ty or d[0].cls)]


def _r_special(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"mov.special {{}}, {inst.attr}", d


def _r_ldparam(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"ld.param.{inst.ty} {{}}, [{inst.attr}]", d


def _r_cvt(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"cvt{inst.mods}.{inst.ty}.{inst.attr} {{}}, {{}}", [*d, (inst.args[0], inst.attr)]


def _r_cvt_pack(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    hi, lo = inst.args
    return f"cvt.pack{inst.mods}.{inst.ty} {{}}, {{}}, {{}}", [*d, (hi, "f32"), (lo, "f32")]


def _r_setp(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    a, b = inst.args
    return f"setp.{inst.attr}{inst.mods}.{inst.ty} {{}}, {{}}, {{}}", [
        *d,
        (a, inst.ty),
        (b, inst.ty),
    ]


def _r_testp(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"testp.{inst.attr}.{inst.ty} {{}}, {{}}", [*d, (inst.args[0], inst.ty)]


def _r_selp(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    a, b, p = inst.args
    cls = d[0].cls
    return f"selp.{cls} {{}}, {{}}, {{}}, {{}}", [*d, (a, cls), (b, cls), (p, "pred")]


def _r_pack(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    half = f"b{BITS_OF[inst.ty] // 2}"
    return f"pack.{inst.ty} {{}}, {{}}, {{}}", [*d, (inst.args[0], half), (inst.args[1], half)]


def _r_unpack(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"unpack.{inst.ty} {{}}, {{}}, {{}}", [*d, (inst.args[0], inst.ty)]


def _r_split8(e: Emitter, inst: Inst, d: list[Any]) -> tuple[None, list[Any]]:
    for i, (value, reg) in enumerate(zip(inst.dst, d, strict=True)):
        if e.reads.get(value):
            source = (inst.args[0], "u32")
            e.line(f"bfe.u32 {{}}, {{}}, {8 * i}, 8", reg, source, writes=1)
    return None, []


def _r_pack8(e: Emitter, inst: Inst, d: list[Any]) -> tuple[None, list[Any]]:
    out = d[0]
    low: Any = (inst.args[0], "b32")
    for i, arg in enumerate(inst.args[1:], 1):
        target = out if i == len(inst.args) - 1 else Reg("b32")
        e.line(f"bfi.b32 {{}}, {{}}, {{}}, {8 * i}, 8", target, (arg, "b32"), low, writes=1)
        low = target
    return None, []


def _r_vld(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    address, off, ty = _local(e, inst)
    if inst.attr.ty == "pred":
        byte = Reg("b32")
        e.line(f"ld.local.u8 {{}}, [{address}{off}]", byte, *_local_regs(e, inst), writes=1)
        return "setp.ne.u32 {}, {}, 0", [*d, byte]
    return f"ld.local.{ty} {{}}, [{address}{off}]", [*d, *_local_regs(e, inst)]


def _r_vst(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    address, off, ty = _local(e, inst)
    value: Any = (inst.args[1], ty)
    if inst.attr.ty == "pred":
        byte = Reg("b32")
        e.line("selp.b32 {}, 1, 0, {}", byte, _pred(e, inst.args[1]), writes=1)
        value, ty = byte, "u8"
    return f"st.local.{ty} [{address}{off}], {{}}", [*_local_regs(e, inst), value]


def _pred(e: Emitter, p: Operand) -> Any:
    if isinstance(p, Const):
        reg = Reg("pred")
        e.mov(reg, p)
        return reg
    return e.reg(p)


def _local(e: Emitter, inst: Inst) -> tuple[str, str, str]:
    """Address template, offset text and type of an access to an array in local memory."""
    array: Array = inst.attr
    base = e.array_offset(array)
    size = BITS_OF[array.ty] // 8
    index = inst.args[0]
    ty = {8: "b8", 16: "b16", 32: "b32", 64: "b64"}[BITS_OF[array.ty]]
    if isinstance(index, Const):
        return "", str(base + size * index.bits), ty
    return "{}", f"+{base}" if base else "", ty


def _local_regs(e: Emitter, inst: Inst) -> list[Any]:
    array: Array = inst.attr
    index = inst.args[0]
    if isinstance(index, Const):
        return []
    size = BITS_OF[array.ty] // 8
    if size == 1:
        return [e.reg(index)]
    scaled = Reg("b32")
    e.line(f"shl.b32 {{}}, {{}}, {size.bit_length() - 1}", scaled, e.reg(index), writes=1)
    return [scaled]


def _r_ld(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    a = inst.attr
    vector = f".v{len(d)}" if len(d) > 1 else ""
    head = f"ld{a['order']}.{a['space']}{a['hint']}{vector}.{inst.ty} {_braces(len(d))}, "
    address, operand = _memory(inst, 0, a["off"])
    return head + address, [*d, operand]


def _memory(inst: Inst, slot: int, off: int) -> tuple[str, Any]:
    base = inst.args[slot]
    if isinstance(base, Const):
        return "[{}]", (_const_address(base, off), "u64" if base.cls == "b64" else "u32")
    return _address(inst, slot, off), (base, "u64")


def _r_st(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    a = inst.attr
    values = inst.args[1:]
    vector = f".v{len(values)}" if len(values) > 1 else ""
    address, operand = _memory(inst, 0, a["off"])
    head = f"st{a['order']}.{a['space']}{a['hint']}{vector}.{inst.ty} {address}, "
    return head + _braces(len(values)), [operand, *((v, inst.ty) for v in values)]


def _r_atom(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    a = inst.attr
    address, operand = _memory(inst, 0, a["off"])
    values = [(v, inst.ty) for v in inst.args[1:]]
    slots = "".join(", {}" for _ in values)
    if inst.op == "red":
        return f"red.{a['op']}{a['order']}.{a['space']}.{inst.ty} {address}{slots}", [
            operand,
            *values,
        ]
    return f"atom.{a['op']}{a['order']}.{a['space']}.{inst.ty} {{}}, {address}{slots}", [
        *d,
        operand,
        *values,
    ]


def _r_prefetch(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    address, operand = _memory(inst, 0, inst.attr["off"])
    return f"prefetch.{inst.attr['space']} {address}", [operand]


def _r_cp_async(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    size, smem_off, gmem_off, hint = inst.attr
    smem, smem_operand = _memory(inst, 0, smem_off)
    gmem, gmem_operand = _memory(inst, 1, gmem_off)
    text = f"cp.async{hint}.{size} {smem}, {gmem}"
    operands = [smem_operand, gmem_operand]
    if len(inst.args) > 2:
        text += ", {}"
        operands.append((inst.args[2], "u32"))
    return text, operands


def _r_text(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    """An instruction whose template is its attribute: destinations first, then the operands' "
    "types."""
    template, types = inst.attr
    return template, [*d, *zip(inst.args, types, strict=True)]


def _r_printf(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    template, types = inst.attr
    operands = []
    for value in inst.args:
        if isinstance(value, Const):
            # What is printed stands in a register.
            held = Reg(value.cls)
            e.mov(held, value)
            operands.append(held)
        else:
            operands.append(e.reg(value))
    places = "".join(f", {ty} {{}}" for ty in types)
    return f"printf {literal(template)}{places}", operands


def literal(text: str) -> str:
    """A quoted string within a template: its braces are no places of operands."""
    return quote(text).replace("{", "\x01").replace("}", "\x02")


def quote(text: str) -> str:
    """A string as the text form writes it."""
    out = []
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c == "\n":
            out.append("\\n")
        elif c == "\t":
            out.append("\\t")
        elif c.isprintable() and ord(c) < 128:
            out.append(c)
        else:
            out.extend(f"\\x{b:02x}" for b in c.encode())
    return '"' + "".join(out) + '"'


def _r_cvta(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"cvta.{inst.attr} {{}}, {{}}", [*d, (inst.args[0], "u64")]


def _r_lop3(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"lop3.b32 {{}}, {{}}, {{}}, {{}}, {inst.attr:#04x}", [
        *d,
        *((a, "b32") for a in inst.args),
    ]


def _r_shf(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"shf.{inst.attr}.b32 {{}}, {{}}, {{}}, {{}}", [*d, *((a, "u32") for a in inst.args)]


def _r_prmt(e: Emitter, inst: Inst, d: list[Any]) -> tuple[str, list[Any]]:
    return f"prmt.b32{inst.attr or ''} {{}}, {{}}, {{}}, {{}}", [
        *d,
        *((a, "b32") for a in inst.args),
    ]


_RENDER = {
    "mov": _r_mov,
    "special": _r_special,
    "ldparam": _r_ldparam,
    "cvt": _r_cvt,
    "cvt.pack": _r_cvt_pack,
    "setp": _r_setp,
    "testp": _r_testp,
    "selp": _r_selp,
    "pack": _r_pack,
    "unpack": _r_unpack,
    "split8": _r_split8,
    "pack8": _r_pack8,
    "vld": _r_vld,
    "vst": _r_vst,
    "ld": _r_ld,
    "st": _r_st,
    "atom": _r_atom,
    "red": _r_atom,
    "prefetch": _r_prefetch,
    "cp.async": _r_cp_async,
    "text": _r_text,
    "printf": _r_printf,
    "cvta": _r_cvta,
    "lop3": _r_lop3,
    "shf": _r_shf,
    "prmt": _r_prmt,
}


def module_text(kernels: list[tuple[Builder, Block]]) -> str:
    """The device IR text of a module."""
    bodies = []
    files: dict[str, int] = {}
    for builder, root in kernels:
        emitter = Emitter(builder, root)
        emitter.files = files
        bodies.append(emitter.text())
    out = [".vir 1"]
    for name, number in files.items():
        out.append(f".file {number} {quote(name)}")
    text = "\n".join(out) + "\n\n" + "\n".join(bodies)
    return text.replace("\x01", "{").replace("\x02", "}")
