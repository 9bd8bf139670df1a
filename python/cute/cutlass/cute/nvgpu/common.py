"""Owns the enumerations that operations of several generations share."""

from __future__ import annotations

import enum

from .._copy import CopyUniversalOp
from .._mma import MmaUniversalOp

__all__ = [
    "CacheEvictionPriority",
    "CopyUniversalOp",
    "MemoryOrder",
    "MemoryScope",
    "MmaUniversalOp",
    "OperandMajorMode",
    "OperandSource",
]


class CacheEvictionPriority(enum.Enum):
    """How long an access keeps its line in the cache."""

    EVICT_NORMAL = 0
    EVICT_FIRST = 1
    EVICT_LAST = 2
    EVICT_UNCHANGED = 3
    NO_ALLOCATE = 4


class MemoryOrder(enum.Enum):
    """How an access is ordered."""

    WEAK = 0
    RELAXED = 1
    ACQUIRE = 2
    RELEASE = 3
    ACQ_REL = 4
    SC = 5
    MMIO = 6
    CONSTANT = 7
    VOLATILE = 8


class MemoryScope(enum.Enum):
    """Who takes part in an ordering."""

    CTA = 0
    CLUSTER = 1
    GPU = 2
    SYS = 3


class OperandMajorMode(enum.Enum):
    """Which mode of an operand is contiguous."""

    MN = 0
    K = 1


class OperandSource(enum.Enum):
    """Where an operand lies."""

    RMEM = 0
    SMEM = 1
    TMEM = 2
