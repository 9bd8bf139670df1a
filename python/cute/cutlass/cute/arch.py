"""Owns `cute.arch`: the machine's own operations, each one that the PTX ISA documents.

What needs clusters, bulk copies or tensor memory is named here and says that it is not modelled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from .. import _numeric as n
from .._errors import DSLTypeError, not_supported
from .._flow import region
from .._ir import CLASS_OF, Const, Operand, device_builder
from .._numeric import (
    Boolean,
    Float32,
    Int32,
    Int64,
    Integer,
    Numeric,
    Uint32,
    Uint64,
    _convert,
    as_numeric,
    emit,
    maximum,
    minimum,
    rebits,
)
from ._memory import AddressSpace, Pointer, load_vector, store_vector

WARP_SIZE = 32
FULL_MASK = 0xFFFFFFFF


# -- special registers ----------------------------------------------------------------------


def _special(name: str, what: str, cls: Any = Int32) -> Any:
    b = device_builder(f"cute.arch.{what}")
    value = b.emit("special", "", attr=name, dst=(CLASS_OF[cls.alu],))
    return cls._wrap(value, 1, True)


def _triple(name: str, what: str) -> tuple[Any, Any, Any]:
    return tuple(_special(f"{name}.{axis}", what) for axis in "xyz")  # type: ignore[return-value]


def thread_idx(**_: Any) -> tuple[Any, Any, Any]:
    """The thread's coordinate in its block."""
    return _triple("tid", "thread_idx")


def block_dim(**_: Any) -> tuple[Any, Any, Any]:
    """Threads of a block, by dimension."""
    return _triple("ntid", "block_dim")


def block_idx(**_: Any) -> tuple[Any, Any, Any]:
    """The block's coordinate in the grid."""
    return _triple("ctaid", "block_idx")


def grid_dim(**_: Any) -> tuple[Any, Any, Any]:
    """Blocks of the grid, by dimension."""
    return _triple("nctaid", "grid_dim")


def lane_idx(**_: Any) -> Any:
    """The thread's number in its warp."""
    return _special("laneid", "lane_idx")


def warp_idx(**_: Any) -> Any:
    """The warp's number in its block, from the thread's coordinate."""
    x, y, z = thread_idx()
    dx, dy, _dz = block_dim()
    return (x + y * dx + z * dx * dy) // WARP_SIZE


def physical_warp_id(**_: Any) -> Any:
    """The warp slot that the warp occupies."""
    return _special("warpid", "physical_warp_id")


def smid(**_: Any) -> Any:
    """The multiprocessor that runs the block."""
    return _special("smid", "smid")


def nsmid(**_: Any) -> Any:
    """The number of multiprocessors."""
    return _special("nsmid", "nsmid")


def gridid(**_: Any) -> Any:
    """The number of the launch."""
    return _special("gridid", "gridid")


def nwarpid(**_: Any) -> Any:
    """Warp slots of a multiprocessor."""
    return _special("nwarpid", "nwarpid")


def warpsize(**_: Any) -> Any:
    """Threads of a warp, as a dynamic value."""
    return Int32(WARP_SIZE)


def clock(**_: Any) -> Any:
    """The multiprocessor's clock, low 32 bits."""
    return _special("clock", "clock")


def clock64(**_: Any) -> Any:
    """The multiprocessor's clock."""
    return _special("clock64", "clock64", Int64)


def globaltimer(**_: Any) -> Any:
    """The device's timer in nanoseconds."""
    return _special("globaltimer", "globaltimer", Int64)


def globaltimer_lo(**_: Any) -> Any:
    """Low 32 bits of the device's timer."""
    return globaltimer().to(Int32)


def lanemask_eq(**_: Any) -> Any:
    """The bit of this lane."""
    return _special("lanemask.eq", "lanemask_eq", Uint32)


def lanemask_lt(**_: Any) -> Any:
    """The bits of the lanes below this one."""
    return _special("lanemask.lt", "lanemask_lt", Uint32)


def lanemask_le(**_: Any) -> Any:
    """The bits of this lane and those below."""
    return _special("lanemask.le", "lanemask_le", Uint32)


def lanemask_gt(**_: Any) -> Any:
    """The bits of the lanes above this one."""
    return _special("lanemask.gt", "lanemask_gt", Uint32)


def lanemask_ge(**_: Any) -> Any:
    """The bits of this lane and those above."""
    return _special("lanemask.ge", "lanemask_ge", Uint32)


def dynamic_smem_size(**_: Any) -> Any:
    """Bytes of dynamic shared memory of the launch."""
    return _special("dynamic_shared_size", "dynamic_smem_size")


def get_dyn_smem_size(**_: Any) -> Any:
    """Bytes of dynamic shared memory of the launch."""
    return _special("dynamic_shared_size", "get_dyn_smem_size")


def total_smem_size(**_: Any) -> Any:
    """Bytes of shared memory of the block."""
    return _special("total_shared_size", "total_smem_size")


def make_warp_uniform(value: Any, **_: Any) -> Any:
    """`value`, which all threads of the warp have alike."""
    out = as_numeric(value)
    return out if type(out) is Int32 else out.to(Int32)


# -- synchronization ------------------------------------------------------------------------


def _text(
    what: str, template: str, operands: list[tuple[Any, str]], dst: tuple[str, ...] = ()
) -> Any:
    """Record an instruction by its text; `{}` stands for results, then operands."""
    b = device_builder(f"cute.arch.{what}")
    args = [o for o, _ in operands]
    return b.emit("text", "", *args, attr=(template, tuple(t for _, t in operands)), dst=dst)


def _u32(x: Any) -> Operand:
    return _convert(x, Uint32)


def sync_threads(**_: Any) -> None:
    """Wait for all threads of the block."""
    _text("sync_threads", "bar.sync 0", [])


def barrier(*, barrier_id: Any = None, number_of_threads: Any = None, **_: Any) -> None:
    """Wait at a named barrier, for `number_of_threads` threads (all where not given)."""
    ident = _u32(0 if barrier_id is None else barrier_id)
    if number_of_threads is None:
        _text("barrier", "bar.sync {}", [(ident, "u32")])
    else:
        _text("barrier", "bar.sync {}, {}", [(ident, "u32"), (_u32(number_of_threads), "u32")])


def barrier_arrive(
    *, barrier_id: Any = None, number_of_threads: Any = None, aligned: bool = True, **_: Any
) -> None:
    """Arrive at a named barrier without waiting."""
    if number_of_threads is None:
        raise ValueError("cute.arch.barrier_arrive needs number_of_threads")
    op = "bar.arrive" if aligned else "barrier.arrive"
    ident = _u32(0 if barrier_id is None else barrier_id)
    _text("barrier_arrive", op + " {}, {}", [(ident, "u32"), (_u32(number_of_threads), "u32")])


def sync_warp(mask: Any = FULL_MASK, **_: Any) -> None:
    """Wait for the warp's threads in `mask`."""
    _text("sync_warp", "warpsync {}", [(_u32(mask), "u32")])


def _fence(name: str, text: str) -> Callable[..., None]:
    def fence(**_: Any) -> None:
        _text(name, text, [])

    fence.__name__ = name
    fence.__doc__ = f"`{text}`."
    return fence


fence_acq_rel_cta = _fence("fence_acq_rel_cta", "fence.acq_rel.cta")
fence_acq_rel_cluster = _fence("fence_acq_rel_cluster", "fence.acq_rel.cluster")
fence_acq_rel_gpu = _fence("fence_acq_rel_gpu", "fence.acq_rel.gpu")
fence_acq_rel_sys = _fence("fence_acq_rel_sys", "fence.acq_rel.sys")
mbarrier_init_fence = _fence("mbarrier_init_fence", "fence.mbarrier_init")


def fence_proxy(kind: str, *, space: Any = None, use_intrinsic: Any = None, **_: Any) -> None:
    """Order accesses of the generic proxy against another."""
    if kind not in ("async", "async.shared", "async.global"):
        raise not_supported(f"cute.arch.fence_proxy({kind!r})", "only the async proxy is modelled")
    _text("fence_proxy", "fence.proxy.async", [])


def fence_view_async_shared(**_: Any) -> None:
    """Order this thread's shared-memory accesses before those of the async proxy."""
    _text("fence_view_async_shared", "fence.proxy.async", [])


@contextmanager
def elect_one(**_: Any) -> Any:
    """The body runs in one thread of each warp."""
    pred = _text("elect_one", "elect {}, {}", [(Const(FULL_MASK, "b32"), "u32")], ("pred",))
    with region(Boolean._wrap(pred)):
        yield


def nanosleep(duration: Any, **_: Any) -> None:
    """Suspend the thread for about `duration` nanoseconds."""
    _text("nanosleep", "nanosleep {}", [(_u32(duration), "u32")])


# -- warps ----------------------------------------------------------------------------------


def _words(value: Any) -> tuple[Any, list[Operand]]:
    """A value as 32-bit words, and its type."""
    value = as_numeric(value)
    if type(value) is Boolean:
        return Boolean, [rebits(value._v, "pred", "u8")]
    if CLASS_OF[value.mem] == "b64":
        b = device_builder("a shuffle")
        return type(value), list(b.emit("unpack", "b64", value._v, dst=("b32", "b32")))
    return type(value), [value._v]


def _from_words(cls: Any, words: list[Operand]) -> Any:
    if cls is Boolean:
        return Boolean._wrap(rebits(words[0], "u8", "pred"))
    if len(words) == 2:
        return cls._wrap(emit("pack", "b64", *words))
    return cls._wrap(words[0])


def _shuffle(mode: str, value: Any, lane: Any, mask: Any, clamp: Any, what: str) -> Any:
    from ._ssa import TensorSSA

    if isinstance(value, TensorSSA):
        items = [
            _shuffle(mode, value.dtype._wrap(x), lane, mask, clamp, what)._v for x in value._items
        ]
        return TensorSSA._of(items, value.shape, value.dtype)
    cls, words = _words(value)
    out = [
        _text(
            what,
            f"shfl.{mode}.b32 {{}}, {{}}, {{}}, {{}}, {{}}",
            [(w, "b32"), (_u32(lane), "u32"), (_u32(clamp), "u32"), (_u32(mask), "u32")],
            ("b32",),
        )
        for w in words
    ]
    return _from_words(cls, out)


def shuffle_sync(
    value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: Any = 31, **_: Any
) -> Any:
    """The value of lane `offset`."""
    return _shuffle("idx", value, offset, mask, mask_and_clamp, "shuffle_sync")


def shuffle_sync_up(
    value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: Any = 0, **_: Any
) -> Any:
    """The value of the lane `offset` below."""
    return _shuffle("up", value, offset, mask, mask_and_clamp, "shuffle_sync_up")


def shuffle_sync_down(
    value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: Any = 31, **_: Any
) -> Any:
    """The value of the lane `offset` above."""
    return _shuffle("down", value, offset, mask, mask_and_clamp, "shuffle_sync_down")


def shuffle_sync_bfly(
    value: Any, offset: Any, mask: Any = FULL_MASK, mask_and_clamp: Any = 31, **_: Any
) -> Any:
    """The value of the lane whose number differs by the bits of `offset`."""
    return _shuffle("bfly", value, offset, mask, mask_and_clamp, "shuffle_sync_bfly")


def shuffle_sync_op(
    value: Any,
    offset: Any,
    mask: Any = FULL_MASK,
    mask_and_clamp: Any = 31,
    kind: Any = "idx",
    **_: Any,
) -> Any:
    """A shuffle of the given kind (`idx`, `up`, `down`, `bfly`)."""
    name = str(getattr(kind, "name", kind)).lower()
    if name not in ("idx", "up", "down", "bfly"):
        raise ValueError(f"cute.arch.shuffle_sync_op: unknown kind {kind!r}")
    return _shuffle(name, value, offset, mask, mask_and_clamp, "shuffle_sync_op")


def warp_reduction(
    val: Any, op: Callable[[Any, Any], Any], *, threads_in_group: int = 32, **_: Any
) -> Any:
    """`op` over groups of neighbouring lanes; every lane gets its group's result."""
    offset = threads_in_group // 2
    while offset > 0:
        val = op(val, shuffle_sync_bfly(val, offset=offset, mask=FULL_MASK, mask_and_clamp=31))
        offset //= 2
    return val


def warp_reduction_sum(val: Any, *, threads_in_group: int = 32, **_: Any) -> Any:
    """The sum over groups of neighbouring lanes."""
    return warp_reduction(val, lambda a, b: a + b, threads_in_group=threads_in_group)


def warp_reduction_max(val: Any, *, threads_in_group: int = 32, **_: Any) -> Any:
    """The maximum over groups of neighbouring lanes."""
    return warp_reduction(val, maximum, threads_in_group=threads_in_group)


def warp_reduction_min(val: Any, *, threads_in_group: int = 32, **_: Any) -> Any:
    """The minimum over groups of neighbouring lanes."""
    return warp_reduction(val, minimum, threads_in_group=threads_in_group)


def _vote(mode: str, pred: Any, mask: Any, what: str) -> Any:
    p = _predicate(pred)
    out = _text(
        what, f"vote.{mode} {{}}, {{}}, {{}}", [(p, "pred"), (_u32(mask), "u32")], ("pred",)
    )
    return Boolean._wrap(out)


def _predicate(pred: Any) -> Operand:
    """A predicate in a register: instructions that read one take no immediate."""
    p = _convert(pred, Boolean)
    if isinstance(p, Const):
        p = device_builder("a predicate").emit(
            "text", "", p, attr=("mov.pred {}, {}", ("pred",)), dst=("pred",)
        )
    return p


def vote_all_sync(pred: Any, mask: Any = FULL_MASK, **_: Any) -> Any:
    """Whether `pred` holds in every lane of `mask`."""
    return _vote("all", pred, mask, "vote_all_sync")


def vote_any_sync(pred: Any, mask: Any = FULL_MASK, **_: Any) -> Any:
    """Whether `pred` holds in any lane of `mask`."""
    return _vote("any", pred, mask, "vote_any_sync")


def vote_uni_sync(pred: Any, mask: Any = FULL_MASK, **_: Any) -> Any:
    """Whether `pred` is the same in every lane of `mask`."""
    return _vote("uni", pred, mask, "vote_uni_sync")


def vote_ballot_sync(pred: Any, mask: Any = FULL_MASK, **_: Any) -> Any:
    """A bit for each lane of `mask`: whether `pred` holds there."""
    operands = [(_predicate(pred), "pred"), (_u32(mask), "u32")]
    return Int32._wrap(_text("vote_ballot_sync", "ballot.b32 {}, {}, {}", operands, ("b32",)))


def match_sync(mask: Any, value: Any, kind: str = "any", **_: Any) -> Any:
    """The lanes that hold the same value (`any`), or all of `mask` if all do (`all`)."""
    value = as_numeric(value)
    ty = "b64" if CLASS_OF[value.mem] == "b64" else "b32"
    operands = [(value._v, ty), (_u32(mask), "u32")]
    return Uint32._wrap(
        _text("match_sync", f"match.{kind}.{ty} {{}}, {{}}, {{}}", operands, ("b32",))
    )


def activemask(**_: Any) -> Any:
    """The lanes that are active here."""
    return Uint32._wrap(_text("activemask", "activemask {}", [], ("b32",)))


def warp_redux_sync(
    value: Any,
    kind: str,
    mask_and_clamp: Any = FULL_MASK,
    *,
    abs: bool | None = None,
    nan: bool | None = None,
    **_: Any,
) -> Any:
    """A reduction over the lanes of the mask, in one instruction."""
    value = as_numeric(value)
    cls = type(value)
    if cls.is_float:
        if cls is not Float32:
            raise DSLTypeError(
                f"cute.arch.warp_redux_sync takes Float32 or 32-bit integers, got {cls}"
            )
        op = kind.removeprefix("f")
        if op not in ("max", "min"):
            raise ValueError(f"cute.arch.warp_redux_sync: {kind!r} is no reduction of floats")
        op += ".nan" if nan else ""
        ty = "f32"
    else:
        if cls.width != 32:
            raise DSLTypeError(f"cute.arch.warp_redux_sync takes 32-bit integers, got {cls}")
        op = kind.removeprefix("u") if kind.startswith("um") else kind
        if op not in ("add", "and", "or", "xor", "max", "min"):
            raise ValueError(f"cute.arch.warp_redux_sync: unknown kind {kind!r}")
        ty = "u32" if kind.startswith("um") or not cls.signed else "s32"
        if op in ("and", "or", "xor"):
            ty = "b32"
    suffix = ".abs" if abs else ""
    operands = [(value._v, ty), (_u32(mask_and_clamp), "u32")]
    return cls._wrap(
        _text("warp_redux_sync", f"redux.{op}{suffix}.{ty} {{}}, {{}}, {{}}", operands, ("b32",))
    )


# -- memory ---------------------------------------------------------------------------------


def _pointer(ptr: Any, what: str) -> Pointer:
    from ._tensor import Tensor

    if isinstance(ptr, Tensor):
        ptr = ptr.iterator
    if not isinstance(ptr, Pointer):
        raise DSLTypeError(f"cute.arch.{what} takes a pointer, got {type(ptr).__name__}")
    if ptr.memspace not in (AddressSpace.gmem, AddressSpace.smem, AddressSpace.generic):
        raise DSLTypeError(f"cute.arch.{what}: {ptr.type} points to no shared or global memory")
    return ptr


def _order(sem: str | None, scope: str | None) -> str:
    if sem is None and scope is None:
        return ""
    return f".{sem or 'relaxed'}.{scope or 'gpu'}"


_SPACES = {
    AddressSpace.generic: "generic",
    AddressSpace.gmem: "global",
    AddressSpace.smem: "shared",
}


def _atomic(
    what: str, op: str, ptr: Any, values: list[Any], sem: Any, scope: Any, ty: str | None = None
) -> Any:
    pointer = _pointer(ptr, what)
    dtype = pointer.dtype
    operands = [_convert(v, dtype) for v in values]
    b = device_builder(f"cute.arch.{what}")
    base, off = pointer.address()
    if ty is None:
        ty = dtype.mem
        if op in ("and", "or", "xor", "exch", "cas"):
            ty = f"b{dtype.width}"
        elif op == "add" and dtype is Int64:
            ty = "u64"
    attr = {"op": op, "space": _SPACES[pointer.memspace], "order": _order(sem, scope), "off": off}
    out = b.emit("atom", ty, base, *operands, attr=attr, dst=(CLASS_OF[ty],))
    return dtype._wrap(out)


def atomic_add(ptr: Any, val: Any, *, sem: Any = None, scope: Any = None, **_: Any) -> Any:
    """Add to memory; gives the old value."""
    return _atomic("atomic_add", "add", ptr, [val], sem, scope)


def atomic_and(ptr: Any, val: Any, *, sem: Any = None, scope: Any = None, **_: Any) -> Any:
    """Bitwise and with memory; gives the old value."""
    return _atomic("atomic_and", "and", ptr, [val], sem, scope)


def atomic_or(ptr: Any, val: Any, *, sem: Any = None, scope: Any = None, **_: Any) -> Any:
    """Bitwise or with memory; gives the old value."""
    return _atomic("atomic_or", "or", ptr, [val], sem, scope)


def atomic_xor(ptr: Any, val: Any, *, sem: Any = None, scope: Any = None, **_: Any) -> Any:
    """Bitwise xor with memory; gives the old value."""
    return _atomic("atomic_xor", "xor", ptr, [val], sem, scope)


def atomic_exch(ptr: Any, val: Any, *, sem: Any = None, scope: Any = None, **_: Any) -> Any:
    """Exchange with memory; gives the old value."""
    return _atomic("atomic_exch", "exch", ptr, [val], sem, scope)


def atomic_cas(
    ptr: Any, *, cmp: Any, val: Any, sem: Any = None, scope: Any = None, **_: Any
) -> Any:
    """Write `val` if memory holds `cmp`; gives the old value."""
    return _atomic("atomic_cas", "cas", ptr, [cmp, val], sem, scope)


def atomic_max(ptr: Any, val: Any, *, sem: Any = None, scope: Any = None, **_: Any) -> Any:
    """Maximum with memory; gives the old value."""
    if _pointer(ptr, "atomic_max").dtype.is_float:
        return atomic_fmax(ptr, val, sem=sem, scope=scope)
    return _atomic("atomic_max", "max", ptr, [val], sem, scope)


def atomic_min(ptr: Any, val: Any, *, sem: Any = None, scope: Any = None, **_: Any) -> Any:
    """Minimum with memory; gives the old value."""
    if _pointer(ptr, "atomic_min").dtype.is_float:
        return atomic_fmin(ptr, val, sem=sem, scope=scope)
    return _atomic("atomic_min", "min", ptr, [val], sem, scope)


def _atomic_float_extreme(
    what: str, biggest: bool, ptr: Any, val: Any, sign_bit: Any, sem: Any, scope: Any
) -> Any:
    """Singles compare as signed integers where the sign bit is clear, and the other way round as
    unsigned ones where it is set; so one integer atomic does for each sign.
    """
    from .._flow import if_

    pointer = _pointer(ptr, what)
    if pointer.dtype is not Float32:
        raise DSLTypeError(f"cute.arch.{what} takes Float32, got {pointer.dtype}")
    value = as_numeric(val).to(Float32)
    as_signed, as_unsigned = pointer.with_dtype(Int32), pointer.with_dtype(Uint32)
    up, down = ("max", "min") if biggest else ("min", "max")

    def positive(_old: Any) -> tuple[Any]:
        return (_atomic(what, up, as_signed, [value.bitcast(Int32)], sem, scope).bitcast(Float32),)

    def negative(_old: Any) -> tuple[Any]:
        return (
            _atomic(what, down, as_unsigned, [value.bitcast(Uint32)], sem, scope).bitcast(Float32),
        )

    if sign_bit is not None:
        return (negative if sign_bit else positive)(None)[0]
    is_positive = value.bitcast(Int32) >= 0
    return if_(is_positive, positive, negative, ("old",), (Float32(0.0),))[0]


def atomic_fmax(
    ptr: Any, val: Any, *, sign_bit: Any = None, sem: Any = None, scope: Any = None, **_: Any
) -> Any:
    """Maximum of a Float32 with memory; gives the old value."""
    return _atomic_float_extreme("atomic_fmax", True, ptr, val, sign_bit, sem, scope)


def atomic_fmin(
    ptr: Any, val: Any, *, sign_bit: Any = None, sem: Any = None, scope: Any = None, **_: Any
) -> Any:
    """Minimum of a Float32 with memory; gives the old value."""
    return _atomic_float_extreme("atomic_fmin", False, ptr, val, sign_bit, sem, scope)


def atomic_max_float32(ptr: Any, value: Any, *, positive_only: bool = True, **_: Any) -> Any:
    """Deprecated form of :func:`atomic_fmax`."""
    return atomic_fmax(ptr, value, sign_bit=False if positive_only else None)


def red(
    ptr: Any, val: Any, *, op: str, dtype: Any, sem: Any = None, scope: Any = None, **_: Any
) -> None:
    """A reduction into memory without a result."""
    pointer = _pointer(ptr, "red")
    ty = dtype if isinstance(dtype, str) else dtype.mem
    if op in ("umin", "umax"):
        op, ty = op[1:], "u" + ty[1:]
    if op in ("and", "or", "xor"):
        ty = "b" + ty[1:]
    b = device_builder("cute.arch.red")
    base, off = pointer.address()
    attr = {"op": op, "space": _SPACES[pointer.memspace], "order": _order(sem, scope), "off": off}
    b.emit("red", ty, base, as_numeric(val)._v, attr=attr, dst=())


_EVICT = {
    None: "",
    "evict_normal": "",
    "evict_first": ".cs",
    "evict_last": ".el",
    "evict_no_allocate": ".na",
    "evict_unchanged": "",
}


def _hint(cop: str | None, priority: str | None) -> str:
    if cop in ("cg", "cs", "lu", "cv"):
        return f".{cop}"
    return _EVICT[priority]


def load(
    ptr: Any,
    dtype: Any,
    *,
    sem: Any = None,
    scope: Any = None,
    level1_eviction_priority: Any = None,
    cop: Any = None,
    ss: Any = None,
    level_prefetch_size: Any = None,
    **_: Any,
) -> Any:
    """A value of `dtype` from memory, with ordering and cache hints."""
    pointer = _pointer(ptr, "load").with_dtype(dtype)
    got = load_vector(pointer, 1, _order(sem, scope), _hint(cop, level1_eviction_priority))
    return dtype._wrap(got[0])


def store(
    ptr: Any,
    val: Any,
    *,
    level1_eviction_priority: Any = None,
    cop: Any = None,
    ss: Any = None,
    sem: Any = None,
    scope: Any = None,
    **_: Any,
) -> None:
    """A value to memory, with ordering and cache hints."""
    value = as_numeric(val)
    pointer = _pointer(ptr, "store").with_dtype(type(value))
    hint = _hint(None if cop == "wt" else cop, level1_eviction_priority)
    store_vector(pointer, [value._v], _order(sem, scope), hint)


def cp_async_commit_group(**_: Any) -> None:
    """Close the group of asynchronous copies begun so far."""
    _text("cp_async_commit_group", "cp.async.commit", [])


def cp_async_wait_group(n: Any, **_: Any) -> None:
    """Wait until at most `n` groups are unfinished."""
    if isinstance(n, Numeric):
        raise DSLTypeError("cute.arch.cp_async_wait_group needs a count known at trace time")
    _text("cp_async_wait_group", f"cp.async.wait_group {int(n)}", [])


def alloc_smem(
    element_type: Any, size_in_elems: int, alignment: int | None = None, **_: Any
) -> Pointer:
    """Shared memory for `size_in_elems` elements."""
    from ..utils import shared_allocation

    size = max(1, element_type.width // 8)
    offset = shared_allocation(
        device_builder("cute.arch.alloc_smem"), size * size_in_elems, alignment or size
    )
    return shared_pointer(element_type, offset, alignment or size)


def shared_pointer(dtype: Any, offset: int, align: int) -> Pointer:
    """A pointer to a byte offset within the block's dynamic shared memory."""
    return Pointer(Const(offset, "b32"), dtype, AddressSpace.smem, max(align, dtype.width // 8))


def get_dyn_smem(element_type: Any, alignment: int | None = None, **_: Any) -> Pointer:
    """The start of the dynamic shared memory."""
    b = device_builder("cute.arch.get_dyn_smem")
    b.dynamic_shared_used = True
    return shared_pointer(element_type, 0, alignment or 16)


# -- mbarriers ------------------------------------------------------------------------------


def _mbar(ptr: Any, what: str) -> tuple[Operand, str]:
    pointer = _pointer(ptr, what)
    if pointer.memspace is not AddressSpace.smem:
        raise DSLTypeError(f"cute.arch.{what}: a barrier lies in shared memory, got {pointer.type}")
    base, off = pointer.address()
    if isinstance(base, Const):
        return Const(base.bits + off, "b32"), "[{}]"
    return base, f"[{{}}{off:+d}]" if off else "[{}]"


def _no_cluster(what: str, peer: Any) -> None:
    if peer is not None:
        raise not_supported(
            f"cute.arch.{what} with peer_cta_rank_in_cluster", "clusters are not modelled yet"
        )


def mbarrier_init(mbar_ptr: Any, cnt: Any, **_: Any) -> None:
    """Set up a barrier object for `cnt` arrivals a phase."""
    base, at = _mbar(mbar_ptr, "mbarrier_init")
    _text("mbarrier_init", f"mbarrier.init {at}, {{}}", [(base, "u32"), (_u32(cnt), "u32")])


def mbarrier_arrive(
    mbar_ptr: Any, peer_cta_rank_in_cluster: Any = None, arrive_count: Any = 1, **_: Any
) -> None:
    """Arrive."""
    _no_cluster("mbarrier_arrive", peer_cta_rank_in_cluster)
    base, at = _mbar(mbar_ptr, "mbarrier_arrive")
    _text(
        "mbarrier_arrive",
        f"mbarrier.arrive {at}, {{}}",
        [(base, "u32"), (_u32(arrive_count), "u32")],
    )


def mbarrier_expect_tx(
    mbar_ptr: Any, bytes: Any, peer_cta_rank_in_cluster: Any = None, **_: Any
) -> None:
    """Expect more bytes in this phase."""
    _no_cluster("mbarrier_expect_tx", peer_cta_rank_in_cluster)
    base, at = _mbar(mbar_ptr, "mbarrier_expect_tx")
    _text(
        "mbarrier_expect_tx",
        f"mbarrier.expect_tx {at}, {{}}",
        [(base, "u32"), (_u32(bytes), "u32")],
    )


def mbarrier_arrive_and_expect_tx(
    mbar_ptr: Any, bytes: Any, peer_cta_rank_in_cluster: Any = None, **_: Any
) -> None:
    """Arrive and expect more bytes in this phase."""
    _no_cluster("mbarrier_arrive_and_expect_tx", peer_cta_rank_in_cluster)
    base, at = _mbar(mbar_ptr, "mbarrier_arrive_and_expect_tx")
    operands = [(base, "u32"), (Const(1, "b32"), "u32"), (_u32(bytes), "u32")]
    _text("mbarrier_arrive_and_expect_tx", f"mbarrier.arrive.expect_tx {at}, {{}}, {{}}", operands)


def _wait(what: str, op: str, mbar_ptr: Any, phase: Any) -> Any:
    base, at = _mbar(mbar_ptr, what)
    operands = [(base, "u32"), (_u32(phase), "u32")]
    return Boolean._wrap(_text(what, f"mbarrier.{op}.parity {{}}, {at}, {{}}", operands, ("pred",)))


def mbarrier_test_wait(mbar_ptr: Any, phase: Any, **_: Any) -> Any:
    """Whether the phase of this parity has completed."""
    return _wait("mbarrier_test_wait", "test_wait", mbar_ptr, phase)


def mbarrier_try_wait(mbar_ptr: Any, phase: Any, **_: Any) -> Any:
    """Whether the phase of this parity has completed; may wait for it a while."""
    return _wait("mbarrier_try_wait", "try_wait", mbar_ptr, phase)


def mbarrier_conditional_try_wait(cond: Any, mbar_ptr: Any, phase: Any, **_: Any) -> Any:
    """:func:`mbarrier_try_wait` where `cond` holds, else true."""
    from .._flow import if_expression

    return if_expression(
        as_numeric(cond), lambda: mbarrier_try_wait(mbar_ptr, phase), lambda: Boolean(True)
    )


def mbarrier_wait(mbar_ptr: Any, phase: Any, **_: Any) -> None:
    """Wait until the phase of this parity has completed."""
    from .._flow import while_

    while_(lambda: ~mbarrier_try_wait(mbar_ptr, phase), lambda: (), (), frozenset(), ())


# -- arithmetic -----------------------------------------------------------------------------


def _float32(x: Any) -> Operand:
    return _convert(x, Float32)


def _extreme(op: str, a: Any, b: Any, abs: bool, nan: bool, ftz: bool) -> Any:
    mods = (".ftz" if ftz else "") + (".nan" if nan else "") + (".xorsign.abs" if abs else "")
    return Float32._wrap(emit(op, "f32", _float32(a), _float32(b), mods=mods))


def fmax(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    abs: bool = False,
    nan: bool = False,
    ftz: bool = False,
    **_: Any,
) -> Any:
    """The larger of Float32 values."""
    out = _extreme("max", a, b, abs, nan, ftz)
    return out if c is None else _extreme("max", out, c, abs, nan, ftz)


def fmin(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    abs: bool = False,
    nan: bool = False,
    ftz: bool = False,
    **_: Any,
) -> Any:
    """The smaller of Float32 values."""
    out = _extreme("min", a, b, abs, nan, ftz)
    return out if c is None else _extreme("min", out, c, abs, nan, ftz)


def rcp_approx(a: Any, **_: Any) -> Any:
    """`1 / a`, approximately."""
    return Float32._wrap(emit("rcp.approx", "f32", _float32(a), mods=".ftz"))


def exp2(a: Any, **_: Any) -> Any:
    """`2 ** a`, approximately."""
    return Float32._wrap(emit("ex2.approx", "f32", _float32(a), mods=".ftz"))


def exp(a: Any, **_: Any) -> Any:
    """`e ** a`, approximately, through :func:`exp2`."""
    return exp2(as_numeric(a).to(Float32) * 1.4426950408889634)


def log2(a: Any, **_: Any) -> Any:
    """The logarithm of base 2, approximately."""
    return Float32._wrap(emit("lg2.approx", "f32", _float32(a), mods=".ftz"))


def fma(a: Any, b: Any, c: Any, **_: Any) -> Any:
    """`a * b + c`, rounded once."""
    kinds = [type(x) for x in (a, b, c) if isinstance(x, Numeric)]
    cls = kinds[0] if kinds else Float32
    for k in kinds[1:]:
        cls = n.promote(cls, k)
    if not cls.is_float:
        raise DSLTypeError("cute.arch.fma takes floats")
    return cls._wrap(emit("fma", cls.mem, *(_convert(x, cls) for x in (a, b, c)), mods=".rn"))


_ROUND = {None: ".rn", "rn": ".rn", "rz": ".rz", "rm": ".rm", "rp": ".rp"}


def _packed(op: str, operands: tuple[Any, ...], rnd: Any, ftz: bool) -> tuple[Any, Any]:
    pairs = []
    for pair in operands:
        lo, hi = (_float32(x) for x in (pair[0], pair[1]))
        pairs.append(emit("pack", "b64", lo, hi))
    name = str(getattr(rnd, "name", rnd)).lower() if rnd is not None else None
    if name not in _ROUND:
        raise ValueError(f"unknown rounding {rnd!r}")
    mods = _ROUND[name] + (".ftz" if ftz else "")
    got = emit(op, "f32x2", *pairs, mods=mods)
    lo, hi = device_builder("a packed operation").emit("unpack", "b64", got, dst=("b32", "b32"))
    return Float32._wrap(lo), Float32._wrap(hi)


def add_packed_f32x2(
    a: Any, b: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two sums at once."""
    return _packed("add", (a, b), rnd, ftz)


def sub_packed_f32x2(
    a: Any, b: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two differences at once."""
    return _packed("sub", (a, b), rnd, ftz)


def mul_packed_f32x2(
    a: Any, b: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two products at once."""
    return _packed("mul", (a, b), rnd, ftz)


def fma_packed_f32x2(
    a: Any, b: Any, c: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> tuple[Any, Any]:
    """Two fused multiply-adds at once."""
    return _packed("fma", (a, b, c), rnd, ftz)


def calc_packed_f32x2_op(
    a: Any, b: Any, c: Any, op: Any, *, rnd: Any = None, ftz: bool = False, **_: Any
) -> Any:
    """A packed operation by its function."""
    return op(a, b, rnd=rnd, ftz=ftz) if c is None else op(a, b, c, rnd=rnd, ftz=ftz)


def _integer(x: Any, what: str) -> Any:
    value = as_numeric(x)
    if not isinstance(value, Integer) or value.width < 32:
        raise DSLTypeError(f"cute.arch.{what} takes a 32- or 64-bit integer, got {type(value)}")
    return value


def popc(value: Any, **_: Any) -> Any:
    """The number of bits set."""
    v = _integer(value, "popc")
    out = Int32._wrap(emit("popc", "b" + v.alu[1:], v._v), 1, True)
    return out if v.width == 32 else out.to(type(v))


def clz(value: Any, **_: Any) -> Any:
    """The number of leading zeros."""
    v = _integer(value, "clz")
    return Uint32._wrap(emit("clz", "b" + v.alu[1:], v._v))


def bfind(value: Any, **_: Any) -> Any:
    """The position of the most significant bit that is not a sign bit."""
    v = _integer(value, "bfind")
    return Uint32._wrap(emit("bfind", v.alu, v._v))


def brev(value: Any, **_: Any) -> Any:
    """The bits in reverse order."""
    v = _integer(value, "brev")
    return type(v)._wrap(emit("brev", "b" + v.alu[1:], v._v))


def bfe(value: Any, start: Any, length: Any, **_: Any) -> Any:
    """A bit field, extended by its sign for signed types."""
    v = _integer(value, "bfe")
    return type(v)._wrap(emit("bfe", v.alu, v._v, _u32(start), _u32(length)))


def bfi(replacement: Any, value: Any, start: Any, length: Any, **_: Any) -> Any:
    """`value` with a bit field replaced by the low bits of `replacement`."""
    v = _integer(value, "bfi")
    r = _convert(replacement, type(v))
    return type(v)._wrap(emit("bfi", "b" + v.alu[1:], r, v._v, _u32(start), _u32(length)))


def _pair(a: Any, b: Any, what: str) -> tuple[Any, Operand, Operand]:
    left = _integer(a, what) if isinstance(a, Numeric) else None
    right = _integer(b, what) if isinstance(b, Numeric) else None
    cls = type(left if left is not None else right if right is not None else Int32(0))
    return cls, _convert(a, cls), _convert(b, cls)


def mul_hi(a: Any, b: Any, **_: Any) -> Any:
    """The high half of a product."""
    cls, x, y = _pair(a, b, "mul_hi")
    return cls._wrap(emit("mul.hi", cls.alu, x, y))


def mul_wide(a: Any, b: Any, **_: Any) -> Any:
    """The whole product of 32-bit integers."""
    cls, x, y = _pair(a, b, "mul_wide")
    if cls.width != 32:
        raise DSLTypeError("cute.arch.mul_wide takes 32-bit integers")
    wide = Int64 if cls.signed else Uint64
    return wide._wrap(emit("mul.wide", cls.alu, x, y))


def mul24(a: Any, b: Any, hi: bool = False, **_: Any) -> Any:
    """The product of the low 24 bits."""
    cls, x, y = _pair(a, b, "mul24")
    return cls._wrap(emit("mul24.hi" if hi else "mul24.lo", cls.alu, x, y))


def mad24(a: Any, b: Any, c: Any, hi: bool = False, **_: Any) -> Any:
    """The product of the low 24 bits, plus `c`."""
    cls, x, y = _pair(a, b, "mad24")
    return cls._wrap(emit("mad24.hi" if hi else "mad24.lo", cls.alu, x, y, _convert(c, cls)))


def add_sat_int(a: Any, b: Any, **_: Any) -> Any:
    """A sum that stays within Int32."""
    return Int32._wrap(emit("add.sat", "s32", _convert(a, Int32), _convert(b, Int32)))


def sub_sat_int(a: Any, b: Any, **_: Any) -> Any:
    """A difference that stays within Int32."""
    return Int32._wrap(emit("sub.sat", "s32", _convert(a, Int32), _convert(b, Int32)))


def lop3(a: Any, b: Any, c: Any, lut: int, **_: Any) -> Any:
    """Any function of three bits, by its table."""
    cls, x, y = _pair(a, b, "lop3")
    return cls._wrap(emit("lop3", "b32", x, y, _convert(c, cls), attr=int(lut)))


def shf(a: Any, b: Any, shift: Any, kind: str = "l", **_: Any) -> Any:
    """A funnel shift of `a` (high) and `b` (low)."""
    cls, hi, lo = _pair(a, b, "shf")
    modes = {"l": "l.wrap", "r": "r.wrap", "clamp_left": "l.clamp", "clamp_right": "r.clamp"}
    if kind not in modes:
        raise ValueError(f"cute.arch.shf: unknown kind {kind!r}")
    return cls._wrap(emit("shf", "b32", lo, hi, _u32(shift), attr=modes[kind]))


def prmt(src: Any, src_reg_shifted: Any, prmt_indices: Any, **_: Any) -> Any:
    """Bytes picked from two registers."""
    out = emit("prmt", "b32", _u32(src), _u32(src_reg_shifted), _u32(prmt_indices))
    return Int32._wrap(out)


def cvt_f32_tf32(src_f32: Any, **_: Any) -> Any:
    """A single rounded to TF32."""
    return as_numeric(src_f32).to(Float32).to(n.TFloat32)


def griddepcontrol_wait(**_: Any) -> None:
    """Wait for the launches before this one; launches run one after the other here."""
    device_builder("cute.arch.griddepcontrol_wait")


def griddepcontrol_launch_dependents(**_: Any) -> None:
    """Let the launches after this one begin; launches run one after the other here."""
    device_builder("cute.arch.griddepcontrol_launch_dependents")


# -- one block a cluster --------------------------------------------------------------------


def cluster_dim(**_: Any) -> tuple[Any, Any, Any]:
    """Clusters of the grid, by dimension."""
    return _triple("nclusterid", "cluster_dim")


def cluster_idx(**_: Any) -> tuple[Any, Any, Any]:
    """The cluster's coordinate in the grid."""
    return _triple("clusterid", "cluster_idx")


def block_in_cluster_idx(**_: Any) -> tuple[Any, Any, Any]:
    """The block's coordinate in its cluster."""
    return _triple("cluster_ctaid", "block_in_cluster_idx")


def block_in_cluster_dim(**_: Any) -> tuple[Any, Any, Any]:
    """Blocks of a cluster, by dimension."""
    return _triple("cluster_nctaid", "block_in_cluster_dim")


def block_idx_in_cluster(**_: Any) -> Any:
    """The block's number in its cluster."""
    return _special("cluster_ctarank", "block_idx_in_cluster")


def cluster_size(**_: Any) -> Any:
    """Blocks of a cluster."""
    return _special("cluster_nctarank", "cluster_size")


_LATER = {
    "clusters": """cluster_wait cluster_arrive cluster_arrive_relaxed cluster_launch_control_query
        store_async_dsmem map_dsmem_ptr issue_clc_query clc_response aggr_smem_size""",
    "bulk copies": """cp_async_bulk_commit_group cp_async_bulk_wait_group
        cp_async_mbarrier_arrive_noinc""",
    "tensor memory": """alloc_tmem dealloc_tmem relinquish_tmem_alloc_permit retrieve_tmem_ptr
        fence_view_async_tmem_load fence_view_async_tmem_store get_max_tmem_alloc_cols
        get_min_tmem_alloc_cols""",
    "register reallocation between warp groups": """setmaxregister_increase setmaxregister_decrease
        warpgroup_reg_alloc warpgroup_reg_dealloc""",
    "this operation": """add_cc addc sub_cc subc mad_cc madc cvt_i8x4_to_f32x4 cvt_i8x2_to_f32x2
        cvt_i8_bf16 cvt_i8x2_to_bf16x2 cvt_i8x4_to_bf16x4 cvt_f32x2_bf16x2 cvt_i8_bf16_intrinsic
        cvt_i4_bf16_intrinsic sext_unpacked_i4_i8_intrinsic""",
}


def _later(name: str, what: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise not_supported(f"cute.arch.{name}", f"{what} are not modelled yet")

    refuse.__name__ = name
    refuse.__doc__ = f"Not modelled yet ({what})."
    return refuse


for _what, _names in _LATER.items():
    for _name in _names.split():
        globals()[_name] = _later(_name, _what)
