"""Owns copies: atoms, tiled copies over threads and values, and the accesses that they become."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._errors import DSLTypeError, not_supported
from .._flow import LoopRange, for_, region
from .._ir import device_builder
from .._numeric import Boolean, Int32, Numeric, _convert, rebits, select
from ._int_tuple import as_tuple, is_static, to_str
from ._memory import AddressSpace, Pointer, load_vector, store_vector
from ._modes import group_modes, rank, size, slice_
from ._tensor import Tensor, placed


class Op:
    """A machine operation of a copy or a matrix multiplication."""


class CopyOp(Op):
    """A machine operation that copies."""


class CopyUniversalOp(CopyOp):
    """Ordinary loads and stores."""

    def __str__(self) -> str:
        return "cute.nvgpu.CopyUniversalOp"


class CopyG2SOp(CopyOp):
    """`cp.async`: from global to shared memory, without waiting."""

    def __init__(self, cache_mode: Any = None) -> None:
        self.cache_mode = cache_mode

    def __str__(self) -> str:
        return "cute.nvgpu.cpasync.CopyG2SOp"


class CopyAtom:
    """A copy operation with its element type and how many bits each instruction moves."""

    def __init__(self, op: CopyOp, value_type: Any, num_bits: int | None) -> None:
        self.op = op
        self.value_type = value_type
        self.num_bits = num_bits

    @property
    def _values(self) -> int:
        if self.num_bits is None:
            return 1
        return max(1, self.num_bits // self.value_type.width)

    @property
    def _layouts(self) -> Any:
        from ._atom_layout import universal_copy_layouts

        return universal_copy_layouts(self._values)

    @property
    def thr_id(self) -> Any:
        """The threads of one instruction."""
        return self._layouts.thr_id

    @property
    def layout_src_tv(self) -> Any:
        """(thread, value) to an element of the source."""
        return self._layouts.src_tv

    @property
    def layout_dst_tv(self) -> Any:
        """(thread, value) to an element of the destination."""
        return self._layouts.dst_tv

    def __str__(self) -> str:
        return f"CopyAtom<{self.op}, {self.value_type}, {self.num_bits} bits>"

    __repr__ = __str__


class TiledCopy(CopyAtom):
    """A copy atom repeated over threads and values until it covers a tile."""

    def __init__(self, atom: CopyAtom, tiled: Any) -> None:
        super().__init__(atom.op, atom.value_type, atom.num_bits)
        self._tiled = tiled

    @property
    def layout_tv_tiled(self) -> Any:
        """(thread, value) to the position in the tile."""
        return self._tiled.layout_tv

    @property
    def layout_src_tv_tiled(self) -> Any:
        """(thread, value) of the source to the position in the tile."""
        return self._tiled.src_tv_tiled

    @property
    def layout_dst_tv_tiled(self) -> Any:
        """(thread, value) of the destination to the position in the tile."""
        return self._tiled.dst_tv_tiled

    @property
    def tiler_mn(self) -> Any:
        """The tile."""
        return self._tiled.tiler

    @property
    def size(self) -> int:
        """The number of threads."""
        return int(self._tiled.size)

    def get_slice(self, thr_idx: Any) -> ThrCopy:
        """The part of one thread."""
        return ThrCopy(self, thr_idx)

    def retile(self, src: Any, **_: Any) -> Any:
        """A fragment of another partition of the same tile, as this copy takes it."""
        return self._tiled.retile(src)

    def __str__(self) -> str:
        return f"TiledCopy<{self.op}, {self.value_type}, tile {to_str(as_tuple(self.tiler_mn))}>"

    __repr__ = __str__


class ThrCopy(TiledCopy):
    """One thread's part of a tiled copy."""

    def __init__(self, tiled_copy: TiledCopy, thr_idx: Any) -> None:
        super().__init__(tiled_copy, tiled_copy._tiled)
        self._thr_idx = thr_idx

    @property
    def thr_idx(self) -> Any:
        """The thread."""
        return self._thr_idx

    def partition_S(self, src: Any, **_: Any) -> Any:
        """What this thread reads: ((atom values, rest), rest of tiles...)."""
        from ._tensor import nonneg

        return self._tiled.partition_s(src, nonneg(self._thr_idx))

    def partition_D(self, dst: Any, **_: Any) -> Any:
        """What this thread writes: ((atom values, rest), rest of tiles...)."""
        from ._tensor import nonneg

        return self._tiled.partition_d(dst, nonneg(self._thr_idx))

    def __mkb_split__(self) -> Any:
        tiled, thread = TiledCopy(self, self._tiled), self._thr_idx
        if isinstance(thread, Numeric):
            return None, [thread], lambda parts: ThrCopy(tiled, parts[0])
        return thread, [], lambda _: ThrCopy(tiled, thread)


def make_copy_atom(
    op: CopyOp, copy_internal_type: Any, *, num_bits_per_copy: int | None = None, **_: Any
) -> CopyAtom:
    """A copy atom of elements of type `copy_internal_type`.

    `num_bits_per_copy` (a power of two of at least an element's width, at most 128) fixes how wide
    each instruction is; without it the widest that layouts and alignments allow is taken.

    :raises ValueError: where the width is none of these; and by the copies made with the atom,
        where their tensors are not known to be contiguous and aligned that far.
    """
    if not isinstance(op, CopyUniversalOp | CopyG2SOp):
        raise not_supported(
            f"make_copy_atom with {op}", "only universal copies and cp.async are modelled yet"
        )
    if num_bits_per_copy == 0:
        num_bits_per_copy = None
    if num_bits_per_copy is not None:
        width = copy_internal_type.width
        if (
            num_bits_per_copy % width
            or num_bits_per_copy > 256
            or num_bits_per_copy & (num_bits_per_copy - 1)
        ):
            raise ValueError(
                f"make_copy_atom: num_bits_per_copy = {num_bits_per_copy} is no power of two of "
                f"whole {copy_internal_type} elements up to 256 bits"
            )
    if isinstance(op, CopyG2SOp):
        num_bits_per_copy = num_bits_per_copy or 128
        if num_bits_per_copy not in (32, 64, 128):
            raise ValueError(f"cp.async copies 32, 64 or 128 bits, not {num_bits_per_copy}")
    return CopyAtom(op, copy_internal_type, num_bits_per_copy)


def make_tiled_copy_tv(atom: CopyAtom, thr_layout: Any, val_layout: Any, **_: Any) -> TiledCopy:
    """A tiled copy of a layout of threads, each with a block of values."""
    from ._atom_layout import tiled_copy_layouts_tv

    return TiledCopy(atom, tiled_copy_layouts_tv(atom._layouts, thr_layout, val_layout))


def make_tiled_copy(atom: CopyAtom, layout_tv: Any, tiler_mn: Any, **_: Any) -> TiledCopy:
    """A copy that many threads share.

    `layout_tv` takes (thread, value) to a place in a tile of shape `tiler_mn`, both as
    :func:`make_layout_tv` gives them. `get_slice(thread)` is one thread's part; its `partition_S`
    and `partition_D` cut source and destination into (values of one access, accesses, ...).
    """
    from ._atom_layout import tiled_copy_layouts

    return TiledCopy(atom, tiled_copy_layouts(atom._layouts, layout_tv, tiler_mn))


def make_tiled_copy_S(atom: CopyAtom, tiled_copy: TiledCopy, **_: Any) -> TiledCopy:
    """A tiled copy that matches what `tiled_copy` reads."""
    from ._atom_layout import tiled_copy_layouts_s

    return TiledCopy(atom, tiled_copy_layouts_s(atom._layouts, tiled_copy._tiled))


def make_tiled_copy_D(atom: CopyAtom, tiled_copy: TiledCopy, **_: Any) -> TiledCopy:
    """A tiled copy that matches what `tiled_copy` writes."""
    from ._atom_layout import tiled_copy_layouts_d

    return TiledCopy(atom, tiled_copy_layouts_d(atom._layouts, tiled_copy._tiled))


def make_tiled_copy_A(atom: CopyAtom, tiled_mma: Any, **_: Any) -> TiledCopy:
    """A tiled copy that gives each thread its values of operand A."""
    from ._atom_layout import tiled_copy_layouts_a

    return TiledCopy(atom, tiled_copy_layouts_a(atom._layouts, tiled_mma._tiled))


def make_tiled_copy_B(atom: CopyAtom, tiled_mma: Any, **_: Any) -> TiledCopy:
    """A tiled copy that gives each thread its values of operand B."""
    from ._atom_layout import tiled_copy_layouts_b

    return TiledCopy(atom, tiled_copy_layouts_b(atom._layouts, tiled_mma._tiled))


def make_tiled_copy_C(atom: CopyAtom, tiled_mma: Any, **_: Any) -> TiledCopy:
    """A tiled copy that gives each thread its values of operand C."""
    from ._atom_layout import tiled_copy_layouts_c

    return TiledCopy(atom, tiled_copy_layouts_c(atom._layouts, tiled_mma._tiled))


def make_tiled_copy_C_atom(atom: CopyAtom, mma: Any, **_: Any) -> TiledCopy:
    """The smallest tiled copy of the first values of each thread's part of C."""
    from ._atom_layout import tiled_copy_layouts_c_atom

    return TiledCopy(atom, tiled_copy_layouts_c_atom(atom._layouts, mma._tiled))


def make_cotiled_copy(atom: CopyAtom, atom_layout_tv: Any, data_layout: Any, **_: Any) -> TiledCopy:
    """A tiled copy given by offsets into a data layout."""
    from ._atom_layout import cotiled_copy_layouts

    return TiledCopy(atom, cotiled_copy_layouts(atom._layouts, atom_layout_tv, data_layout))


# -- performing copies ----------------------------------------------------------------------


def _sides(name: str, src: Any, dst: Any) -> tuple[Tensor, Tensor]:
    for side in (src, dst):
        if isinstance(side, list | tuple):
            if len(side) != 1:
                raise not_supported(
                    f"{name} with auxiliary operands", "they belong to tensor-core copies"
                )
    src = src[0] if isinstance(src, list | tuple) else src
    dst = dst[0] if isinstance(dst, list | tuple) else dst
    for side, what in ((src, "source"), (dst, "destination")):
        if not isinstance(side, Tensor) or side.is_coordinate:
            raise DSLTypeError(f"{name}: the {what} must be a tensor in memory, got {side}")
    if src.element_type.width != dst.element_type.width:
        raise TypeError(
            f"{name}: the elements of {src.element_type} and {dst.element_type} differ in width"
        )
    return src, dst


def copy(
    atom: CopyAtom,
    src: Any,
    dst: Any,
    *,
    pred: Tensor | None = None,
    unroll_factor: int | None = None,
    **kwargs: Any,
) -> None:
    """Copy `src` to `dst`, each of profile (V, Rest...): the atom moves the first mode.

    `pred` has the profile of the rest, a Boolean for each access: where it does not hold, nothing
    is copied, and an asynchronous copy writes zeros. Both shapes must have the same sizes, mode by
    mode. With a tiled copy, `src` and `dst` are a thread's partitions.
    """
    if not isinstance(atom, CopyAtom):
        raise DSLTypeError(f"cute.copy takes a copy atom, got {type(atom).__name__}")
    if kwargs.get("loc") is None:
        kwargs.pop("loc", None)
    for name in kwargs:
        if name not in ("ip", "loc"):
            raise not_supported(f"cute.copy with {name}=", "it belongs to bulk copies")
    src, dst = _sides("cute.copy", src, dst)
    if rank(src) != rank(dst):
        raise ValueError(
            f"cute.copy: {to_str(as_tuple(src.shape))} and {to_str(as_tuple(dst.shape))} differ "
            "in rank"
        )
    if rank(src) > 1:
        a, b = size(src, mode=[1]), size(dst, mode=[1])
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise ValueError(
                f"cute.copy: mode 1 has {a} parts in the source and {b} in the destination"
            )
    if is_static(src.shape) and is_static(dst.shape):
        _copy_static(atom, src, dst, pred, "cute.copy")
        return
    _copy_dynamic(atom, src, dst, pred)


def _copy_dynamic(atom: CopyAtom, src: Tensor, dst: Tensor, pred: Tensor | None) -> None:
    """Over rest modes whose size is known only when the program runs."""
    if rank(src) < 2:
        raise DSLTypeError("cute.copy: the first mode must be static")
    grouped = [group_modes(t, 1, rank(t)) for t in (src, dst)]
    grouped_pred = group_modes(pred, 1, rank(pred)) if pred is not None and rank(pred) > 1 else pred

    def body(i: Any) -> tuple[Any, ...]:
        parts = [slice_(t, (None, i.assume(1, True))) for t in grouped]
        part_pred = slice_(grouped_pred, (None, i)) if grouped_pred is not None else None
        _copy_static(atom, parts[0], parts[1], part_pred, "cute.copy")
        return ()

    for_(LoopRange(size(grouped[0], mode=[1])), body, (), frozenset(), ())


def copy_atom_call(
    atom: CopyAtom, src: Any, dst: Any, *, pred: Tensor | None = None, **_: Any
) -> None:
    """One copy instruction (or the few that a composite first mode needs)."""
    src, dst = _sides("cute.copy_atom_call", src, dst)
    _copy_static(atom, src, dst, pred, "cute.copy_atom_call")


def autovec_copy(src: Any, dst: Any, **_: Any) -> None:
    """Copy with the widest accesses that layouts and alignments allow."""
    src, dst = _sides("cute.autovec_copy", src, dst)
    if not (is_static(src.shape) and is_static(dst.shape)):
        raise DSLTypeError("cute.autovec_copy needs static shapes")
    _copy_static(
        CopyAtom(CopyUniversalOp(), src.element_type, None), src, dst, None, "cute.autovec_copy"
    )


def basic_copy(src: Any, dst: Any, **_: Any) -> None:
    """Copy element by element."""
    src, dst = _sides("cute.basic_copy", src, dst)
    _basic(src, dst, None)


def basic_copy_if(pred: Tensor, src: Any, dst: Any, **_: Any) -> None:
    """Copy the elements for which `pred` holds."""
    src, dst = _sides("cute.basic_copy_if", src, dst)
    _basic(src, dst, pred)


def _basic(src: Tensor, dst: Tensor, pred: Tensor | None) -> None:
    n, m = size(src), size(dst)
    if isinstance(n, int) and isinstance(m, int):
        if n != m or (pred is not None and isinstance(size(pred), int) and size(pred) != n):
            raise ValueError("cute.basic_copy: the sizes differ")
        for i in range(n):
            if pred is None:
                dst[i] = src[i]
            else:
                with region(_condition(pred[i])):
                    dst[i] = src[i]
        return

    def body(i: Any) -> tuple[Any, ...]:
        i = i.assume(1, True)
        if pred is None:
            dst[i] = src[i]
        else:
            with region(_condition(pred[i])):
                dst[i] = src[i]
        return ()

    for_(LoopRange(n), body, (), frozenset(), ())


def _condition(x: Any) -> Any:
    return Boolean._wrap(_convert(x, Boolean))


def _copy_static(atom: CopyAtom, src: Tensor, dst: Tensor, pred: Tensor | None, name: str) -> None:
    n, m = int(size(src)), int(size(dst))
    if n != m:
        raise ValueError(f"{name}: {n} elements of the source, {m} of the destination")
    width = max(1, src.element_type.width // 8)
    exact = None
    limit = 16
    if atom.num_bits is not None:
        exact = atom.num_bits // src.element_type.width
        limit = atom.num_bits // 8
    group = 1
    if pred is not None:
        p = int(size(pred))
        if n % p:
            raise ValueError(f"{name}: {p} predicates do not divide {n} elements")
        group = n // p
    asynchronous = isinstance(atom.op, CopyG2SOp)
    if asynchronous:
        _check_async(src, dst, name)
    for a, b, indices in _runs(src, dst, n, width, limit, group if pred is not None else None):
        if (
            exact is not None
            and len(indices) < exact
            and (asynchronous or not _registers_both(src, dst))
        ):
            if len(indices) * 8 * width != atom.num_bits:
                raise ValueError(_too_narrow(atom, name, a, b, len(indices) * width))
        if pred is None:
            _move(atom, a, b, len(indices))
            continue
        held = pred[indices[0] // group]
        if asynchronous:
            _move_async(atom, a, b, len(indices), held)
            continue
        if isinstance(held, bool | int) and not isinstance(held, Numeric):
            if held:
                _move(atom, a, b, len(indices))
            continue
        with region(_condition(held)):
            _move(atom, a, b, len(indices))


def _registers_both(src: Tensor, dst: Tensor) -> bool:
    return src.memspace is AddressSpace.rmem and dst.memspace is AddressSpace.rmem


def _too_narrow(atom: CopyAtom, name: str, a: Pointer, b: Pointer, got: int) -> str:
    return (
        f"{name}: the copy atom moves {atom.num_bits} bits at once, but only {8 * got} bits are "
        f"known to be contiguous and aligned in both {a.type} and {b.type}: give "
        "from_dlpack(assumed_align=...), make the layout static and contiguous, or lower "
        "num_bits_per_copy"
    )


def _check_async(src: Tensor, dst: Tensor, name: str) -> None:
    device_builder("cp.async")
    if src.memspace is not AddressSpace.gmem or dst.memspace is not AddressSpace.smem:
        raise DSLTypeError(
            f"{name}: cp.async copies from global to shared memory, not {src.type} to {dst.type}"
        )


def _runs(
    src: Tensor, dst: Tensor, n: int, width: int, limit: int, group: int | None
) -> Iterator[tuple[Pointer, Pointer, list[int]]]:
    """Runs of elements that are neighbours on both sides, as wide as alignment and `limit` "
    "allow."""
    where: list[list[tuple[int, int]]] = [[(0, 0)] * n, [(0, 0)] * n]
    bases: list[list[Pointer]] = []
    for side, tensor in enumerate((src, dst)):
        found = placed(tensor, n)
        bases.append([base for base, _ in found])
        for number, (_, members) in enumerate(found):
            for offset, indices in members.items():
                for i in indices:
                    where[side][i] = (number, offset)
    registers = [t.memspace is AddressSpace.rmem for t in (src, dst)]
    lead = 1 if registers[0] and not registers[1] else 0
    order = sorted(range(n), key=lambda i: where[lead][i])
    at = 0
    while at < n:
        i = order[at]
        run = 1
        while at + run < n and _follows(where, registers, i, order[at + run], run, group):
            run += 1
        pointers = [bases[s][where[s][i][0]] + where[s][i][1] for s in (0, 1)]
        count = 1
        while count * 2 <= run and count * 2 * width <= limit:
            step = count * 2 * width
            if any(not registers[s] and pointers[s].alignment % step for s in (0, 1)):
                break
            count *= 2
        yield pointers[0], pointers[1], order[at : at + count]
        at += count


def _follows(
    where: list[list[tuple[int, int]]],
    registers: list[bool],
    first: int,
    other: int,
    k: int,
    group: int | None,
) -> bool:
    """Whether `other` lies `k` elements behind `first` on both sides, under the same predicate."""
    if group is not None and other // group != first // group:
        return False
    for s in (0, 1):
        base, offset = where[s][first]
        if where[s][other] != (base, offset + k):
            return False
    return True


def _move_async(atom: CopyAtom, a: Pointer, b: Pointer, n: int, held: Any = None) -> None:
    """`cp.async`; where the predicate does not hold, zeros are written and nothing is read."""
    smem, smem_off = b.address()
    gmem, gmem_off = a.address()
    nbytes = n * a.dtype.width // 8
    mode = str(getattr(atom.op.cache_mode, "name", "ALWAYS")).upper()
    hint = ".cg" if mode == "GLOBAL" and nbytes == 16 else ""
    operands = [smem, gmem]
    if held is not None:
        operands.append(select(_condition(held), Int32(nbytes), Int32(0))._v)
    device_builder("cp.async").emit(
        "cp.async", "", *operands, attr=(nbytes, smem_off, gmem_off, hint), dst=()
    )


def _move(atom: CopyAtom, a: Pointer, b: Pointer, n: int) -> None:
    if isinstance(atom.op, CopyG2SOp):
        _move_async(atom, a, b, n)
        return
    values = load_vector(a, n)
    if a.dtype.mem != b.dtype.mem:
        values = [rebits(v, a.dtype.mem, b.dtype.mem) for v in values]
    store_vector(b, values)
