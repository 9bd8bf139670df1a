"""The table of contents of the layout algebra: every public name of it, from one place."""

from __future__ import annotations

from . import _algebra, _basis, _coord_tensor, _int_tuple, _modes, _swizzle, _tiling
from . import _layout_type as _types
from ._algebra import *  # noqa: F403
from ._basis import *  # noqa: F403
from ._coord_tensor import *  # noqa: F403
from ._dynamic import Dynamic, LayoutError, NotStaticError
from ._int_tuple import *  # noqa: F403
from ._layout_type import *  # noqa: F403
from ._modes import *  # noqa: F403
from ._swizzle import *  # noqa: F403
from ._tiling import *  # noqa: F403

__all__ = ["Dynamic", "LayoutError", "NotStaticError"]
for _module in (_algebra, _basis, _coord_tensor, _int_tuple, _modes, _swizzle, _tiling, _types):
    __all__ += _module.__all__
