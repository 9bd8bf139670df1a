"""Owns divides and products: splitting a layout into tiles, repeating a tile, taking one tile."""

from __future__ import annotations

from typing import Any

from ._algebra import coalesce_layout, complement, compose_layouts
from ._dynamic import Dynamic, LayoutError, is_static_int, mul, public
from ._int_tuple import (
    as_tuple,
    ceil_div_shape,
    check_shape,
    is_static,
    product_each,
    profile_of,
    to_str,
    wrap,
)
from ._layout_type import Layout, over_layout
from ._modes import append, cosize, dice, make_layout, make_ordered_layout, size, slice_

__all__ = [
    "blocked_product",
    "ceil_div",
    "flat_divide",
    "flat_product",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "raked_product",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]


def _pair(a: Layout, b: Layout) -> Layout:
    return Layout((a.shape, b.shape), (a.stride, b.stride))


def _by_tiler(function: str, layout: Layout, tiler: Any, f: Any) -> Layout:
    """``f(mode, tiler mode)`` over the leaves of a tiler; further modes stay as they are."""
    if isinstance(tiler, Layout):
        return f(layout, tiler)
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        modes = wrap(layout.shape)
        if len(tiler) > len(modes):
            raise LayoutError(f"{function}: the tiler {tiler} has more modes than {layout}")
        parts = [_by_tiler(function, layout[i], t, f) for i, t in enumerate(tiler)]
        parts += [layout[i] for i in range(len(tiler), len(modes))]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    if is_static_int(tiler) or isinstance(tiler, Dynamic):
        return f(layout, make_layout(tiler))
    raise TypeError(f"{function}: a tiler holds layouts and ints, got {type(tiler).__name__}")


def _gather(function: str, t: Any, tiler: Any) -> tuple[Any, Any]:
    """``((tile, rest), ...)`` by the structure of the tiler as ``((tile, ...), (rest, ...))``."""
    if not isinstance(tiler, tuple):
        if tiler is None and not (isinstance(t, tuple) and len(t) == 2):
            raise LayoutError(
                f"{function}: None in the tiler keeps a mode as it is, which must then be a pair "
                f"(tile, rest), not {to_str(t)}; use the mode's size to keep it whole"
            )
        return t
    modes = wrap(t)
    split = [_gather(function, m, g) for m, g in zip(modes, tiler, strict=False)]
    rest = tuple(s[1] for s in split) + modes[len(tiler) :]
    return tuple(s[0] for s in split), rest


def _zipped(function: str, layout: Layout, tiler: Any) -> Layout:
    return Layout(_gather(function, layout.shape, tiler), _gather(function, layout.stride, tiler))


def _unpacked(layout: Layout, first: bool) -> Layout:
    """``(A,(b,c))`` as ``(A,b,c)``; with ``first`` also the modes of ``A`` at the top level."""

    def open_(t: Any) -> tuple[Any, ...]:
        return (wrap(t[0]) if first else (t[0],)) + wrap(t[1])

    return Layout(open_(layout.shape), open_(layout.stride))


# Divides.


def _divide(layout: Layout, tiler: Layout) -> Layout:
    whole = coalesce_layout(layout).shape
    return compose_layouts(layout, _pair(tiler, complement(tiler, whole)))


@public
def logical_divide(target: Any, tiler: Any) -> Any:
    """``target`` as ``(tile, rest)``: the elements that ``tiler`` points to, and its repetitions.

    A tuple as tiler splits mode by mode; in it an int ``n`` stands for ``n:1`` (1 for ``1:0``), and
    ``None`` leaves a mode as it is.

    :raises ValueError: if the tiler has too many modes or does not fit.
    """
    tiler = as_tuple(tiler)
    return over_layout(
        "logical_divide", target, lambda x: _by_tiler("logical_divide", x, tiler, _divide)
    )


@public
def zipped_divide(target: Any, tiler: Any) -> Any:
    """:func:`logical_divide` with the modes gathered: ``((tile, ...), (rest, ...))``."""
    tiler = as_tuple(tiler)
    return over_layout("zipped_divide", target, lambda x: _zipped_divide("zipped_divide", x, tiler))


def _zipped_divide(function: str, layout: Layout, tiler: Any) -> Layout:
    return _zipped(function, _by_tiler(function, layout, tiler, _divide), tiler)


@public
def tiled_divide(target: Any, tiler: Any) -> Any:
    """:func:`zipped_divide` with the rest unpacked: ``((tile, ...), rest, ...)``."""
    tiler = as_tuple(tiler)
    return over_layout(
        "tiled_divide",
        target,
        lambda x: _unpacked(_zipped_divide("tiled_divide", x, tiler), first=False),
    )


@public
def flat_divide(target: Any, tiler: Any) -> Any:
    """:func:`zipped_divide` with both unpacked: ``(tile, ..., rest, ...)``."""
    tiler = as_tuple(tiler)
    return over_layout(
        "flat_divide",
        target,
        lambda x: _unpacked(_zipped_divide("flat_divide", x, tiler), first=True),
    )


@public
def ceil_div(input: Any, tiler: Any) -> Any:
    """The number of tiles, mode by mode, that cover a shape: the rest of its zipped divide."""
    shape, tiler = profile_of(as_tuple(input)), as_tuple(tiler)
    if isinstance(tiler, Layout):
        return complement(tiler, shape).shape
    if isinstance(tiler, tuple) and isinstance(shape, tuple):
        if len(tiler) > len(shape):
            raise LayoutError(f"ceil_div: {tiler} has more modes than {to_str(shape)}")
        tiled = tuple(ceil_div(s, t) for s, t in zip(shape, tiler, strict=False))
        return tiled + shape[len(tiler) :]
    return ceil_div_shape(shape, tiler)


# Products.


def _product(block: Layout, tiler: Layout) -> Layout:
    room = complement(block, mul(size(block), cosize(tiler)))
    return _pair(block, compose_layouts(room, tiler))


@public
def logical_product(block: Any, tiler: Any) -> Any:
    """``(block, repetitions)``: ``block`` repeated as ``tiler`` says, each copy disjoint.

    A tuple as tiler repeats mode by mode; ``None`` leaves a mode as it is.
    """
    tiler = as_tuple(tiler)
    return over_layout(
        "logical_product", block, lambda x: _by_tiler("logical_product", x, tiler, _product)
    )


def _zipped_product(function: str, block: Layout, tiler: Any) -> Layout:
    return _zipped(function, _by_tiler(function, block, tiler, _product), tiler)


@public
def zipped_product(block: Any, tiler: Any) -> Any:
    """:func:`logical_product` with the modes gathered: ``((block, ...), (repetitions, ...))``."""
    tiler = as_tuple(tiler)
    return over_layout(
        "zipped_product", block, lambda x: _zipped_product("zipped_product", x, tiler)
    )


@public
def tiled_product(block: Any, tiler: Any) -> Any:
    """:func:`zipped_product` with the repetitions unpacked."""
    tiler = as_tuple(tiler)
    return over_layout(
        "tiled_product",
        block,
        lambda x: _unpacked(_zipped_product("tiled_product", x, tiler), first=False),
    )


@public
def flat_product(block: Any, tiler: Any) -> Any:
    """:func:`zipped_product` with both unpacked."""
    tiler = as_tuple(tiler)
    return over_layout(
        "flat_product",
        block,
        lambda x: _unpacked(_zipped_product("flat_product", x, tiler), first=True),
    )


def _mode_products(block: Layout, tiler: Layout) -> tuple[Layout, Layout, int]:
    """The two modes of the logical product of operands padded to one rank, and that rank."""
    ranks = max(len(wrap(block.shape)), len(wrap(tiler.shape)))
    padded_block = append(block, Layout(1, 0), up_to_rank=ranks)
    padded_tiler = append(tiler, Layout(1, 0), up_to_rank=ranks)
    result = _product(_wrapped(padded_block), _wrapped(padded_tiler))
    return result[0], result[1], ranks


def _wrapped(layout: Layout) -> Layout:
    return Layout(wrap(layout.shape), wrap(layout.stride))


def _zip_modes(a: Layout, b: Layout, ranks: int) -> Layout:
    pairs = [_pair(a[i], b[i]) for i in range(ranks)]
    return Layout(tuple(p.shape for p in pairs), tuple(p.stride for p in pairs))


@public
def blocked_product(block: Any, tiler: Any) -> Any:
    """Mode by mode ``(block, repetitions)``: whole blocks side by side."""

    def multiply(x: Layout) -> Layout:
        blocks, tiles, ranks = _mode_products(x, tiler)
        return _zip_modes(blocks, tiles, ranks)

    return over_layout("blocked_product", block, multiply)


@public
def raked_product(block: Any, tiler: Any) -> Any:
    """Mode by mode ``(repetitions, block)``: blocks interleaved, element by element."""

    def multiply(x: Layout) -> Layout:
        blocks, tiles, ranks = _mode_products(x, tiler)
        return _zip_modes(tiles, blocks, ranks)

    return over_layout("raked_product", block, multiply)


@public
def tile_to_shape(atom: Any, trg_shape: Any, order: Any) -> Any:
    """``atom`` repeated until it fills ``trg_shape``, the repetitions in the order of ``order``.

    :raises ValueError: if the atom has more modes than the shape or does not divide it.
    """
    target = check_shape("tile_to_shape", trg_shape)
    sizes = product_each(target)

    def tile(x: Layout) -> Layout:
        if len(wrap(x.shape)) > len(sizes):
            raise LayoutError(f"tile_to_shape: {x} has more modes than {to_str(target)}")
        padded = append(x, Layout(1, 0), up_to_rank=len(sizes))
        block = product_each(padded.shape)
        for s, b in zip(sizes, block, strict=True):
            if is_static(s) and is_static(b) and s % b:
                raise LayoutError(
                    f"tile_to_shape: {to_str(block)} does not divide {to_str(target)}"
                )
        return blocked_product(padded, make_ordered_layout(ceil_div_shape(sizes, block), order))

    return over_layout("tile_to_shape", atom, tile)


# One tile.


def _projected(x: Any, proj: Any) -> Any:
    """The modes of ``x`` that a projection keeps: those where it is not ``None``."""
    return x if proj is None else dice(x, as_tuple(proj))


@public
def local_tile(input: Any, tiler: Any, coord: Any, proj: Any = None) -> Any:
    """The tile of ``input`` (a tensor or layout) at ``coord``, in tiles of ``tiler``.

    ``None`` in ``coord`` keeps a mode of tiles, after the modes of the tile. ``proj`` drops the
    modes of tiler and coordinate where it is ``None``.
    """
    tiler = _projected(as_tuple(tiler), proj)
    coord = _projected(as_tuple(coord), proj)
    divided = zipped_divide(input, tiler)
    tile_modes, rest = divided.shape
    keep = (None,) * len(tile_modes) if isinstance(tile_modes, tuple) else None
    if isinstance(rest, tuple) and len(rest) > 1:
        coord = append(wrap(coord), None, up_to_rank=len(rest))
    return slice_(divided, (keep, coord))


@public
def local_partition(target: Any, tiler: Any, index: Any, proj: Any = 1) -> Any:
    """The elements of ``target`` (a tensor or layout) that belong to one thread of a layout.

    ``tiler`` maps thread coordinates to thread indices; ``index`` is the thread's. The result holds
    one element of each tile of the tiler's shape.
    """
    layout = tiler if isinstance(tiler, Layout) else make_layout(tiler)
    proj = as_tuple(proj)
    shape = layout.shape
    coord = layout.get_flat_coord(index)
    if isinstance(proj, tuple):
        shape, coord = dice(product_each(shape), proj), dice(wrap(coord), proj)
    else:
        shape = product_each(shape) if isinstance(shape, tuple) else shape
    divided = zipped_divide(target, shape)
    rest = divided.shape[1]
    keep = (None,) * len(rest) if isinstance(rest, tuple) else None
    return slice_(divided, (coord, keep))
