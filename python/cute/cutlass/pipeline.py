"""Owns `cutlass.pipeline`: names of pipelines, not modelled yet but for the named barrier."""

from __future__ import annotations

from typing import Any

from .cute import arch
from .cute.nvgpu._later import lazy_names


class NamedBarrier:
    """A barrier of the block with a number of its own, for `num_threads` threads."""

    def __init__(self, barrier_id: int, num_threads: int, **_: Any) -> None:
        if not 0 <= barrier_id < 16:
            raise ValueError(f"NamedBarrier: the number must be 0 to 15, got {barrier_id}")
        self.barrier_id = barrier_id
        self.num_threads = num_threads

    def arrive(self, **_: Any) -> None:
        """Arrive without waiting."""
        arch.barrier_arrive(barrier_id=self.barrier_id, number_of_threads=self.num_threads)

    def arrive_and_wait(self, **_: Any) -> None:
        """Arrive, and wait for the others."""
        arch.barrier(barrier_id=self.barrier_id, number_of_threads=self.num_threads)

    wait = sync = arrive_and_wait


def sync(barrier_id: int = 0, **_: Any) -> None:
    """Wait for all threads of the block."""
    arch.barrier(barrier_id=barrier_id)


__getattr__ = lazy_names("cutlass.pipeline", "pipelines over bulk copies are not modelled yet")
