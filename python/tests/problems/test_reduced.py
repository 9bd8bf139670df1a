"""The reduced workloads keep the branches and the ragged edges of the full ones."""

import numpy as np
import pytest
import torch
from loading import Problem

SIX = [1, 21, 28, 49, 53, 72]


@pytest.mark.parametrize("number", SIX)
def test_reduced_names_constants_that_exist_and_are_smaller(number: int) -> None:
    full = Problem(number, reduced=False).module
    assert full.REDUCED
    for name, value in full.REDUCED.items():
        stock = getattr(full, name)
        assert type(value) is type(stock), name
        small, large = (value[-1], stock[-1]) if isinstance(value, list) else (value, stock)
        assert small < large, name


def test_01_lengths_are_ragged_and_hold_the_extremes_of_the_full_workload() -> None:
    full, reduced = Problem(1, reduced=False).module, Problem(1).module
    full_lengths, lengths = np.diff(full.KV_INDPTR), np.diff(reduced.KV_INDPTR)
    assert len(full_lengths) == 64 and full_lengths.sum() == 58966
    assert lengths.min() == full_lengths.min() == 509
    assert lengths.max() == full_lengths.max() == 3172
    assert {int(x) % 2 for x in lengths} == {0, 1}
    assert reduced.NUM_PAGES > reduced.KV_INDPTR[-1]


def test_01_pages_are_unique_and_not_in_order() -> None:
    pages = Problem(1, NUM_PAGES=99, KV_INDPTR=[0, 30, 77]).draw(1)[4]
    assert pages.dtype == torch.int32 and len(set(pages.tolist())) == 77
    assert pages.tolist() != sorted(pages.tolist())


def test_21_keeps_a_padded_tail_and_leaves_half_of_the_slots() -> None:
    full, reduced = Problem(21, reduced=False).module, Problem(21).module
    for module in (full, reduced):
        assert module.NUM_TOKENS * 2 == module.NUM_BLOCKS * module.BLOCK_SIZE
    for seed in range(5):
        slots = Problem(21).draw(seed)[2]
        pads = int((slots < 0).sum())
        assert 1 <= pads <= reduced.MAX_PAD_TOKENS
        assert torch.all(slots[-pads:] == -1) and torch.all(slots[:-pads] >= 0)
        assert len(set(slots[:-pads].tolist())) == len(slots) - pads


def test_28_and_49_have_batches_that_no_tile_divides() -> None:
    assert Problem(28).module.BATCH_SIZE % 2 == Problem(28, reduced=False).module.BATCH_SIZE % 2
    assert Problem(28).module.HIDDEN_SIZE == 4096
    assert Problem(49).module.NUM_TOKENS % 2 == 1


def test_53_sizes_stay_whole_blocks_of_128_and_several_of_them() -> None:
    module = Problem(53).module
    assert module.HIDDEN % 128 == 0 and module.HIDDEN > 128
    assert module.INTERMEDIATE % 128 == 0 and module.INTERMEDIATE > 128


def test_72_batch_shrinks_alone() -> None:
    assert set(Problem(72).module.REDUCED) == {"BATCH_SIZE"}
