"""Owns the operations of `cute.arch` on threads: indices, barriers, warps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from .._errors import DSLTypeError, not_supported
from .._flow import region
from .._ir import CLASS_OF, Const, Operand, device_builder
from .._numeric import (
    Boolean,
    Float32,
    Int32,
    Int64,
    Uint32,
    _convert,
    as_numeric,
    emit,
    maximum,
    minimum,
    rebits,
)

#: Threads of a warp.
WARP_SIZE = 32
#: All lanes of a warp: bit `i` stands for lane `i`.
FULL_MASK = 0xFFFFFFFF


# -- special registers --------------------------------------------------------------------


def _special(name: str, what: str, cls: Any = Int32) -> Any:
    b = device_builder(f"cute.arch.{what}")
    value = b.emit("special", "", attr=name, dst=(CLASS_OF[cls.alu],))
    return cls._wrap(value, 1, True)


def _triple(name: str, what: str) -> tuple[Any, Any, Any]:
    return tuple(_special(f"{name}.{axis}", what) for axis in "xyz")  # type: ignore[return-value]


def thread_idx(**_: Any) -> tuple[Any, Any, Any]:
    """The thread's coordinate (x, y, z) in its block, as three Int32; x changes fastest."""
    return _triple("tid", "thread_idx")


def block_dim(**_: Any) -> tuple[Any, Any, Any]:
    """Threads of a block, by dimension."""
    return _triple("ntid", "block_dim")


def block_idx(**_: Any) -> tuple[Any, Any, Any]:
    """The block's coordinate (x, y, z) in the grid, as three Int32."""
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


# -- synchronization ----------------------------------------------------------------------


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
    """Wait for all threads of the block; what they wrote before to memory is seen after it.

    Every thread of the block must reach it: a barrier in a branch that only some take is a fault.
    """
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


# -- warps --------------------------------------------------------------------------------


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
    """The value of the lane whose number differs by the bits of `offset` (0 to 31).

    `value` is a number of up to 64 bits. All lanes in `mask`, by default the whole warp, must
    reach it together.
    """
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
    """`op` over groups of neighbouring lanes; every lane gets its group's result.

    `threads_in_group` is a power of two, at most 32. `op` takes two values and should not care for
    their order. It is made of shuffles, so all lanes of the warp must take part.
    """
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


# -- one block a cluster -------------------------------------------------------------------


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
