"""Owns the swizzle: an exclusive-or of some bits of an index with other bits of it."""

from __future__ import annotations

from typing import Any

from ._dynamic import LayoutError, is_static_int, public

__all__ = ["Swizzle", "make_swizzle"]


class Swizzle:
    """``S<B,M,S>``: bits [M, M+B) of an index are xored with the B bits that lie S higher.

    For a negative S the bits at [M-S, M-S+B) are xored with those at [M, M+B). It is its own
    inverse.

    :param num_bits: B >= 0, the number of bits in the mask.
    :param num_base: M >= 0, the number of low bits that stay as they are.
    :param num_shift: S, the distance between the two groups of bits, at least B in magnitude.
    """

    __slots__ = ("num_base", "num_bits", "num_shift")

    def __init__(self, num_bits: int, num_base: int, num_shift: int) -> None:
        for name, value in (("b", num_bits), ("m", num_base), ("s", num_shift)):
            if not is_static_int(value):
                raise TypeError(f"make_swizzle: {name} must be a static int, got {value!r}")
        if num_bits < 0 or num_base < 0:
            raise LayoutError(f"make_swizzle: b and m must not be negative: {num_bits}, {num_base}")
        if abs(num_shift) < num_bits:
            raise LayoutError(f"make_swizzle: |s| must be at least b: s={num_shift}, b={num_bits}")
        self.num_bits = num_bits
        self.num_base = num_base
        self.num_shift = num_shift

    @property
    def source_mask(self) -> int:
        """The bits that are read (YYY)."""
        return ((1 << self.num_bits) - 1) << (self.num_base + max(0, self.num_shift))

    @property
    def target_mask(self) -> int:
        """The bits that change (ZZZ)."""
        return ((1 << self.num_bits) - 1) << (self.num_base - min(0, self.num_shift))

    def __call__(self, index: Any) -> Any:
        """The swizzled index.

        :raises TypeError: if the index is a coordinate.
        """
        if isinstance(index, tuple):
            raise TypeError(f"a swizzle maps integers, got the coordinate {index}")
        if self.num_bits == 0:
            return index
        bits = index & self.source_mask
        shift = self.num_shift
        return index ^ (bits >> shift if shift >= 0 else bits << -shift)

    def is_static(self) -> bool:
        """Always: the parameters are static ints."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Swizzle):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int, int]:
        return (self.num_bits, self.num_base, self.num_shift)

    def __str__(self) -> str:
        return f"S<{self.num_bits},{self.num_base},{self.num_shift}>"

    __repr__ = __str__


@public
def make_swizzle(b: int, m: int, s: int) -> Swizzle:
    """The swizzle ``S<b,m,s>``.

    :raises ValueError: if ``b`` or ``m`` is negative or ``|s| < b``.
    """
    return Swizzle(b, m, s)


def swizzle_from_masks(source_mask: int, target_mask: int) -> Swizzle:
    """The swizzle that xors the bits of ``target_mask`` with those of ``source_mask``.

    :raises ValueError: if no swizzle has these masks.
    """
    bits = source_mask.bit_count()
    low = min(_trailing_zeros(source_mask), _trailing_zeros(target_mask))
    shift = _trailing_zeros(source_mask) - _trailing_zeros(target_mask)
    if bits != target_mask.bit_count() or abs(shift) < bits:
        raise LayoutError(f"no swizzle has the masks {source_mask:#x} and {target_mask:#x}")
    swizzle = Swizzle(bits, low, shift)
    if (swizzle.source_mask, swizzle.target_mask) != (source_mask, target_mask):
        raise LayoutError(f"no swizzle has the masks {source_mask:#x} and {target_mask:#x}")
    return swizzle


def recast_swizzle(swizzle: Swizzle, numerator: int, denominator: int) -> Swizzle:
    """The swizzle on indices in units of ``numerator / denominator`` elements.

    :raises ValueError: if either is not a power of two.
    """
    bits, base, shift = swizzle.num_bits, swizzle.num_base, swizzle.num_shift
    for factor in (numerator, denominator):
        if factor.bit_count() != 1:
            raise LayoutError(f"recast_layout: {swizzle} cannot be recast by a factor of {factor}")
    base += denominator.bit_length() - numerator.bit_length()
    if base < 0:
        bits, base = max(bits + base, 0), 0
    return Swizzle(bits, base, shift)


def _trailing_zeros(x: int) -> int:
    return (x & -x).bit_length() - 1 if x else 0
