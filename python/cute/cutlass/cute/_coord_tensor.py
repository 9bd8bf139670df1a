"""Owns coordinate tensors: tensors whose elements are computed, not stored."""

from __future__ import annotations

from typing import Any

from ._basis import ScaledBasis, add_coord
from ._dynamic import is_int, public
from ._int_tuple import as_tuple, check_shape, flatten_to_tuple, has_underscore, repeat_like, to_str
from ._layout_type import ComposedLayout, Layout, TensorBase
from ._modes import make_identity_layout, make_layout, slice_

__all__ = ["CoordTensor", "make_coord_tensor", "make_identity_tensor"]


class CoordTensor(TensorBase):
    """A tensor whose element at ``c`` is ``iterator + layout(c)``.

    :param iterator: the element at coordinate 0: an int or a coordinate.
    :param layout: a layout to ints or, by scaled basis strides, to coordinates.
    """

    def __init__(self, iterator: Any, layout: Layout | ComposedLayout) -> None:
        iterator = as_tuple(iterator)
        strides = flatten_to_tuple(layout.stride) if isinstance(layout, Layout) else ()
        to_coords = any(isinstance(d, ScaledBasis) for d in strides)
        if to_coords and not isinstance(iterator, tuple) and not is_int(iterator, 0):
            iterator = (iterator,)
        self.iterator = iterator
        self.layout = layout

    def with_layout(self, layout: Any) -> CoordTensor:
        """The same first element through another layout."""
        return CoordTensor(self.iterator, layout)

    def advanced(self, offset: Any, layout: Any) -> CoordTensor:
        """The first element moved on by ``offset``, through ``layout``."""
        return CoordTensor(add_coord(self.iterator, offset), layout)

    def __getitem__(self, coord: Any) -> Any:
        """The element at a coordinate, or the slice that a coordinate with ``None`` keeps."""
        coord = as_tuple(coord)
        if has_underscore(coord):
            return slice_(self, coord)
        return add_coord(self.iterator, self.layout(coord))

    def __setitem__(self, coord: Any, value: Any) -> None:
        raise TypeError("the elements of a coordinate tensor are computed and cannot be set")

    def __str__(self) -> str:
        return f"tensor<{to_str(self.iterator)} o {self.layout}>"

    __repr__ = __str__


@public
def make_coord_tensor(iterator: Any, layout: Any) -> CoordTensor:
    """A coordinate tensor from its first element and a layout or shape."""
    if not isinstance(layout, Layout | ComposedLayout):
        layout = make_layout(layout)
    return CoordTensor(iterator, layout)


@public
def make_identity_tensor(shape: Any) -> CoordTensor:
    """The tensor that maps each coordinate of ``shape`` to itself."""
    shape = check_shape("make_identity_tensor", shape)
    return CoordTensor(repeat_like(0, shape), make_identity_layout(shape))
