"""Owns which thread holds which value: thread-value layouts of copies and matrix multiplications.

Everything here is a computation on layouts. A *TV layout* maps (thread, value) to the position of
the value, as an int that counts through a tile colexicographically.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ._algebra import (
    coalesce,
    complement,
    composition,
    filter,
    left_inverse,
    right_inverse,
    upcast,
)
from ._dynamic import LayoutError, is_static_int, public
from ._int_tuple import as_tuple, is_static, product_each, repeat, to_str, wrap
from ._layout_type import Layout
from ._modes import append, make_layout, prepend, rank, shape, size, slice_
from ._tiling import (
    logical_divide,
    logical_product,
    raked_product,
    tiled_product,
    zipped_divide,
)

__all__ = [
    "CopyAtomLayouts",
    "MmaAtomLayouts",
    "TiledCopyLayouts",
    "TiledMmaLayouts",
    "cotiled_copy_layouts",
    "make_layout_tv",
    "tiled_copy_layouts",
    "tiled_copy_layouts_a",
    "tiled_copy_layouts_b",
    "tiled_copy_layouts_c",
    "tiled_copy_layouts_c_atom",
    "tiled_copy_layouts_d",
    "tiled_copy_layouts_s",
    "tiled_copy_layouts_tv",
    "tiled_mma_layouts",
    "universal_copy_layouts",
    "universal_mma_layouts",
]


def _with_shape(layout: Layout, new_shape: Any) -> Layout:
    """The same function of ints through another shape."""
    return composition(layout, make_layout(new_shape))


def _zip(layout: Layout) -> Layout:
    """``((a,b),(c,d))`` as ``((a,c),(b,d))``."""

    def swap(t: Any) -> tuple[Any, ...]:
        return tuple(zip(*t, strict=True))

    return Layout(swap(layout.shape), swap(layout.stride))


def _compose_first(x: Any, first: Layout) -> Any:
    """A rank-2 layout or tensor with its mode 0 composed, mode 1 as it is."""
    return composition(x, (first, None))


@public
def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[Any, Layout]:
    """The tile that threads cover, each with a block of values, and its TV layout.

    :param thr_layout: maps (m, n) to a thread; compact.
    :param val_layout: maps (m, n) to a value of one thread; compact.
    :returns: the tile's shape, and the layout of (thread, value) to the position in the tile.
    :raises ValueError: if a layout is dynamic, or the two do not cover the tile exactly once.
    """
    for name, layout in (("thr_layout", thr_layout), ("val_layout", val_layout)):
        if not isinstance(layout, Layout):
            raise TypeError(f"make_layout_tv: {name} must be a Layout, got {type(layout).__name__}")
        if not is_static(layout.shape) or not is_static(layout.stride):
            raise LayoutError(f"make_layout_tv: {name} must be static, got {layout}")
    positions = raked_product(thr_layout, val_layout)
    inverse = right_inverse(positions)
    if size(inverse) != size(positions):
        raise LayoutError(
            f"make_layout_tv: {thr_layout} and {val_layout} must both be compact: of "
            f"{size(positions)} elements, {size(inverse)} have a thread and a value of their own"
        )
    tv = _with_shape(inverse, (size(thr_layout), size(val_layout)))
    return product_each(positions.shape), tv


# Copies.


@dataclass(frozen=True)
class CopyAtomLayouts:
    """The threads of one copy instruction, and which values each reads and writes.

    :param thr_id: the threads that take part.
    :param src_tv: (thread, value) to an element of the source.
    :param dst_tv: (thread, value) to an element of the destination.
    :param ref_tv: the one of the two that a tiled copy's TV layout speaks of.
    """

    thr_id: Layout
    src_tv: Layout
    dst_tv: Layout
    ref_tv: Layout

    @property
    def num_threads(self) -> int:
        """Threads that take part in one instruction."""
        return size(self.ref_tv, mode=[0])

    @property
    def num_values(self) -> int:
        """Values of each thread in one instruction."""
        return size(self.ref_tv, mode=[1])


def universal_copy_layouts(values_per_copy: int) -> CopyAtomLayouts:
    """One thread copies ``values_per_copy`` consecutive elements."""
    if not is_static_int(values_per_copy) or values_per_copy < 1:
        raise LayoutError(f"a copy moves at least one element, got {values_per_copy!r}")
    tv = Layout((1, values_per_copy), (0, 1 if values_per_copy > 1 else 0))
    return CopyAtomLayouts(Layout(1, 0), tv, tv, tv)


@dataclass(frozen=True)
class TiledCopyLayouts:
    """A copy instruction repeated over threads and values until it covers a tile.

    :param atom: the instruction.
    :param layout_tv: (thread, value) to the position in the tile.
    :param tiler: the tile: a tuple with a size or a layout for each mode.
    :raises ValueError: if threads or values are no multiple of the instruction's.
    """

    atom: CopyAtomLayouts
    layout_tv: Layout
    tiler: Any

    def __post_init__(self) -> None:
        threads, values = size(self.layout_tv, mode=[0]), size(self.layout_tv, mode=[1])
        if threads % self.atom.num_threads:
            raise LayoutError(
                f"a tiled copy of {threads} threads is no multiple of the {self.atom.num_threads} "
                "threads of its copy atom"
            )
        if values % self.atom.num_values:
            raise LayoutError(
                f"a tiled copy of {values} values a thread is no multiple of the "
                f"{self.atom.num_values} values of its copy atom"
            )

    @property
    def size(self) -> int:
        """The number of threads."""
        return size(self.layout_tv, mode=[0])

    def thread_fragments_s(self, source: Any) -> Any:
        """A source layout or tensor as (thread, (atom values, rest of values), rest of tiles)."""
        return self._thread_fragments(source, self.atom.src_tv)

    def thread_fragments_d(self, destination: Any) -> Any:
        """A destination as (thread, (atom values, rest of values), rest of tiles)."""
        return self._thread_fragments(destination, self.atom.dst_tv)

    def _thread_fragments(self, x: Any, target_tv: Layout) -> Any:
        if rank(x) < len(wrap(self.tiler)):
            raise LayoutError(
                f"a tensor of shape {to_str(x.shape)} has fewer modes than the tile of the copy"
            )
        return self._fragments_of_tiles(zipped_divide(x, self.tiler), target_tv)

    def _fragments_of_tiles(self, tiles: Any, target_tv: Layout) -> Any:
        ref_to_target = composition(right_inverse(self.atom.ref_tv), target_tv)
        atoms = zipped_divide(self.layout_tv, (self.atom.num_threads, self.atom.num_values))
        target = _compose_first(atoms, ref_to_target)
        positions = coalesce(_zip(target), target_profile=(1, (1, 1)))
        return slice_(_compose_first(tiles, positions), ((None, None), None))

    def partition_s(self, source: Any, thread: Any) -> Any:
        """The part of a source that ``thread`` reads: ((atom values, rest), rest of tiles...)."""
        return self._partition(self.thread_fragments_s(source), source, thread)

    def partition_d(self, destination: Any, thread: Any) -> Any:
        """The part of a destination that ``thread`` writes."""
        return self._partition(self.thread_fragments_d(destination), destination, thread)

    def _partition(self, fragments: Any, x: Any, thread: Any) -> Any:
        return slice_(fragments, (thread, None, repeat(None, rank(x))))

    def retile(self, fragment: Any) -> Any:
        """A thread's fragment of the same tile, partitioned by another TV layout, as this one's."""
        values = size(fragment, mode=[0])
        inverse = _with_shape(right_inverse(self.layout_tv), shape(self.tiler))
        tiles = upcast(inverse, self.size * values)
        in_order = logical_product(make_layout(values), right_inverse(tiles))
        by_atom = zipped_divide(in_order, make_layout(self.atom.num_values))
        divided = zipped_divide(fragment, prepend(product_each(tiles.shape), values))
        result = _compose_first(divided, by_atom)
        keep = append((0,), None, up_to_rank=rank(fragment)) if rank(fragment) > 1 else 0
        return slice_(result, (None, keep))

    @cached_property
    def src_tv_tiled(self) -> Layout:
        """(thread, value) of the source to the position in the tile."""
        return self._tiled(self.atom.src_tv)

    @cached_property
    def dst_tv_tiled(self) -> Layout:
        """(thread, value) of the destination to the position in the tile."""
        return self._tiled(self.atom.dst_tv)

    def _tiled(self, target_tv: Layout) -> Layout:
        one_tile = make_layout((shape(self.tiler), 1))
        return slice_(self._fragments_of_tiles(one_tile, target_tv), (None, None, 0))


def tiled_copy_layouts(atom: CopyAtomLayouts, layout_tv: Layout, tiler: Any) -> TiledCopyLayouts:
    """A tiled copy of a given TV layout and tile."""
    return TiledCopyLayouts(atom, layout_tv, as_tuple(tiler))


def tiled_copy_layouts_tv(
    atom: CopyAtomLayouts, thr_layout: Layout, val_layout: Layout
) -> TiledCopyLayouts:
    """A tiled copy of a layout of threads, each with a block of values; see make_layout_tv."""
    tiler, layout_tv = make_layout_tv(thr_layout, val_layout)
    return TiledCopyLayouts(atom, layout_tv, tiler)


def tiled_copy_layouts_s(atom: CopyAtomLayouts, tiled: TiledCopyLayouts) -> TiledCopyLayouts:
    """A tiled copy whose reference is what ``tiled`` reads."""
    return TiledCopyLayouts(atom, tiled.src_tv_tiled, tiled.tiler)


def tiled_copy_layouts_d(atom: CopyAtomLayouts, tiled: TiledCopyLayouts) -> TiledCopyLayouts:
    """A tiled copy whose reference is what ``tiled`` writes."""
    return TiledCopyLayouts(atom, tiled.dst_tv_tiled, tiled.tiler)


def _tilers_of(tile_shape: tuple[Any, ...], layout_tv: Layout) -> tuple[Layout, ...]:
    """For each mode of a tile, the layout of the coordinates in it that a TV layout touches."""
    result = []
    for i in range(len(tile_shape)):
        ones = tuple(1 if j == i else 0 for j in range(len(tile_shape)))
        result.append(filter(composition(Layout(tile_shape, ones), layout_tv)))
    return tuple(result)


def cotiled_copy_layouts(
    atom: CopyAtomLayouts, atom_layout_tv: Layout, data_layout: Layout
) -> TiledCopyLayouts:
    """A tiled copy given by offsets: (thread, value) to an index of ``data_layout``.

    :raises ValueError: if a layout is dynamic, or an offset is no index of the data layout.
    """
    for name, layout in (("atom_layout_tv", atom_layout_tv), ("data_layout", data_layout)):
        if not is_static(layout):
            raise LayoutError(f"make_cotiled_copy: {name} must be static, got {layout}")
    nothing = Layout(1, 0)
    to_coord = make_layout((left_inverse(data_layout), nothing))
    layout_tv_data = composition(to_coord, atom_layout_tv)
    back = composition(make_layout((data_layout, nothing)), layout_tv_data[1])
    if coalesce(back) != coalesce(atom_layout_tv[1]):
        raise LayoutError(
            f"make_cotiled_copy: {atom_layout_tv} points to elements that {data_layout} lacks"
        )
    data_shape = product_each(data_layout.shape)
    tiler = _tilers_of(data_shape, layout_tv_data)
    tile_to_data = composition(make_layout(data_shape), tiler)
    return TiledCopyLayouts(atom, composition(left_inverse(tile_to_data), layout_tv_data), tiler)


# Matrix multiplications.


@dataclass(frozen=True)
class MmaAtomLayouts:
    """The threads of one matrix instruction, its shape, and which values each thread holds.

    :param thr_id: the threads that take part.
    :param shape_mnk: the sizes M, N and K of one instruction.
    :param a_tv: (thread, value) to a position in the M x K tile; b_tv in N x K, c_tv in M x N.
    """

    thr_id: Layout
    shape_mnk: tuple[Any, Any, Any]
    a_tv: Layout
    b_tv: Layout
    c_tv: Layout


def universal_mma_layouts() -> MmaAtomLayouts:
    """One thread multiplies and adds one element."""
    one = Layout((1, 1), (0, 0))
    return MmaAtomLayouts(Layout(1, 0), (1, 1, 1), one, one, one)


#: The modes of (M, N, K) that each operand has.
_OPERAND_MODES = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


@dataclass(frozen=True)
class TiledMmaLayouts:
    """A matrix instruction repeated over threads, and over values by a permutation.

    :param atom: the instruction.
    :param atom_layout_mnk: (m, n, k) to an instruction's number among the threads.
    :param permutation_mnk: for each mode a size or layout of the tile, or ``None`` for the size
        that the instructions cover.
    """

    atom: MmaAtomLayouts
    atom_layout_mnk: Layout
    permutation_mnk: tuple[Any, Any, Any]

    @cached_property
    def thr_layout_vmnk(self) -> Layout:
        """(thread within the instruction, m, n, k) to the thread."""
        return tiled_product(self.atom.thr_id, self.atom_layout_mnk)

    @property
    def size(self) -> int:
        """The number of threads."""
        return size(self.thr_layout_vmnk)

    def permutation(self, mode: int) -> Any:
        """The tiler of a mode (0: M, 1: N, 2: K)."""
        given = self.permutation_mnk[mode]
        if given is not None:
            return given
        return size(self.atom.shape_mnk[mode]) * size(self.thr_layout_vmnk, mode=[mode + 1])

    def tile_size(self, mode: int) -> int:
        """The size of the tile in a mode."""
        return size(self.permutation(mode))

    def _atom_tv(self, operand: str) -> Layout:
        return {"A": self.atom.a_tv, "B": self.atom.b_tv, "C": self.atom.c_tv}[operand]

    def thread_fragments(self, operand: str, x: Any) -> Any:
        """An operand as ((thread v, (thread m, thread k)), (values, (rest m, rest k, ...)))."""
        first, second = _OPERAND_MODES[operand]
        if rank(x) < 2:
            raise LayoutError(f"operand {operand} of an MMA has at least 2 modes, got {x.shape}")
        permuted = logical_divide(x, (self.permutation(first), self.permutation(second)))
        sizes = self.atom.shape_mnk
        atoms = zipped_divide(
            permuted, (make_layout(size(sizes[first])), make_layout(size(sizes[second])))
        )
        values = _compose_first(atoms, self._atom_tv(operand))
        vmnk = self.thr_layout_vmnk
        threads = tuple(make_layout(size(vmnk, mode=[m + 1])) for m in (first, second))
        return zipped_divide(values, (None, threads))

    def partition(self, operand: str, x: Any, thread: Any) -> Any:
        """The part of an operand that ``thread`` holds: (values, rest m, rest k, ...)."""
        fragments = self.thread_fragments(operand, x)
        v, *mnk = self.thr_layout_vmnk.get_flat_coord(thread)
        first, second = _OPERAND_MODES[operand]
        keep = (None, repeat(None, rank(fragments, mode=[1, 1])))
        return slice_(fragments, ((v, (mnk[first], mnk[second])), keep))

    def partition_shape(self, operand: str, operand_shape: Any) -> Any:
        """The shape of each thread's part of an operand of the given shape."""
        fragments = self.thread_fragments(operand, make_layout(operand_shape))
        keep = (None, repeat(None, rank(fragments, mode=[1, 1])))
        return slice_(fragments, (0, keep)).shape

    def tv_layout(self, operand: str) -> Layout:
        """(thread, value) to the position in the operand's tile.

        Threads that differ only in a mode that the operand lacks share its values.
        """
        first, second = _OPERAND_MODES[operand]
        tile = make_layout((self.tile_size(first), self.tile_size(second)))
        fragments = self.thread_fragments(operand, tile)
        vmnk = self.thr_layout_vmnk
        if operand != "C":
            counts = (size(vmnk, mode=[1]), size(vmnk, mode=[2]))
            strides = (1, 0) if operand == "A" else (0, 1)
            shared = Layout(counts, strides)
            fragments = composition(fragments, ((None, (shared, None)), None))
        whole = make_layout((vmnk, complement(vmnk)))
        count = size(vmnk)
        numbers = composition(Layout((count, 1), (1, 0)), right_inverse(whole))
        return _compose_first(fragments, numbers)


def tiled_mma_layouts(
    atom: MmaAtomLayouts, atom_layout_mnk: Any = (1, 1, 1), permutation_mnk: Any = None
) -> TiledMmaLayouts:
    """A tiled MMA; layouts and permutations of fewer than three modes are filled up."""
    layout = make_layout(atom_layout_mnk)
    if rank(layout) > 3:
        raise LayoutError(f"make_tiled_mma: atom_layout_mnk has more than 3 modes: {layout}")
    if not isinstance(layout.shape, tuple):
        layout = Layout((layout.shape,), (layout.stride,))
    layout = append(layout, Layout(1, 0), up_to_rank=3)
    given = wrap(as_tuple(permutation_mnk))
    if len(given) > 3:
        raise LayoutError(f"make_tiled_mma: permutation_mnk has more than 3 modes: {given}")
    return TiledMmaLayouts(atom, layout, (*given, *(None,) * (3 - len(given))))


def tiled_copy_layouts_a(atom: CopyAtomLayouts, mma: TiledMmaLayouts) -> TiledCopyLayouts:
    """A tiled copy that gives each thread its values of operand A."""
    return TiledCopyLayouts(atom, mma.tv_layout("A"), (mma.tile_size(0), mma.tile_size(2)))


def tiled_copy_layouts_b(atom: CopyAtomLayouts, mma: TiledMmaLayouts) -> TiledCopyLayouts:
    """A tiled copy that gives each thread its values of operand B."""
    return TiledCopyLayouts(atom, mma.tv_layout("B"), (mma.tile_size(1), mma.tile_size(2)))


def tiled_copy_layouts_c(atom: CopyAtomLayouts, mma: TiledMmaLayouts) -> TiledCopyLayouts:
    """A tiled copy that gives each thread its values of operand C."""
    return TiledCopyLayouts(atom, mma.tv_layout("C"), (mma.tile_size(0), mma.tile_size(1)))


def tiled_copy_layouts_c_atom(atom: CopyAtomLayouts, mma: TiledMmaLayouts) -> TiledCopyLayouts:
    """The smallest tiled copy whose values are the first ones of each thread's part of C.

    :raises ValueError: if the copy atom has more values than a thread's part of C.
    """
    c_tv = mma.tv_layout("C")
    values = size(atom.src_tv, mode=[1])
    if values > size(c_tv, mode=[1]):
        raise LayoutError(
            f"make_tiled_copy_C_atom: the copy atom has {values} values, a thread's part of C "
            f"only {size(c_tv, mode=[1])}"
        )
    layout_tv = composition(c_tv, make_layout((size(c_tv, mode=[0]), values)))
    tile = (mma.tile_size(0), mma.tile_size(1))
    tiler = _tilers_of(tile, layout_tv)
    tile_to_mma = composition(make_layout(tile), tiler)
    return TiledCopyLayouts(atom, composition(left_inverse(tile_to_mma), layout_tv), tiler)
