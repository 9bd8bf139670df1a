"""Owns the operations of `cute.arch` on memory: atomics, accesses, cp.async, mbarriers."""

from __future__ import annotations

from typing import Any

from .._errors import DSLTypeError, not_supported
from .._ir import CLASS_OF, Const, Operand, device_builder
from .._numeric import (
    Boolean,
    Float32,
    Int32,
    Int64,
    Numeric,
    Uint32,
    _convert,
    as_numeric,
)
from ._arch_threads import _text, _u32
from ._memory import AddressSpace, Pointer, load_vector, store_vector

# -- memory -------------------------------------------------------------------------------


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
    """Add `val` to what `ptr` points at, in shared or device memory; gives the old value.

    `tensor.iterator + offset` is a pointer to an element. Use :func:`red` where the old value is
    not needed. The order among threads is not defined, so sums of floats may differ in their last
    bits.
    """
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
    """Close the group of `cp.async` copies that this thread has begun; it may be empty."""
    _text("cp_async_commit_group", "cp.async.commit", [])


def cp_async_wait_group(n: Any, **_: Any) -> None:
    """Wait until at most `n` of this thread's groups of `cp.async` copies are unfinished.

    What other threads copied is there only after a barrier that follows.
    """
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


# -- mbarriers ----------------------------------------------------------------------------


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
