"""The workloads are those of the published definitions: constants, shapes, types, distributions."""

import math
from typing import Any

import pytest
import torch
from loading import Problem

#: Constants of the full workloads, from the sources that the problem files name.
FULL: dict[int, dict[str, Any]] = {
    1: {
        "NUM_QO_HEADS": 32,
        "NUM_KV_HEADS": 8,
        "HEAD_DIM": 128,
        "PAGE_SIZE": 1,
        "NUM_PAGES": 68237,
        "SM_SCALE": 0.0883883461356163,
    },
    21: {
        "NUM_TOKENS": 2048,
        "MAX_PAD_TOKENS": 128,
        "NUM_HEADS": 8,
        "HEAD_DIM": 128,
        "BLOCK_SIZE": 16,
        "NUM_BLOCKS": 256,
    },
    28: {"BATCH_SIZE": 14509, "HIDDEN_SIZE": 4096},
    49: {
        "NUM_TOKENS": 16384,
        "NUM_EXPERTS": 256,
        "TOP_K": 8,
        "NUM_GROUPS": 8,
        "TOP_GROUPS": 4,
        "GATING_DIM": 4096,
        "SCALING_FACTOR": 2.5,
        "DECISION_MARGIN": 1e-4,
        "REDRAW_LIMIT": 16,
    },
    53: {"M": 8704, "HIDDEN": 3584, "INTERMEDIATE": 18944},
    72: {
        "BATCH_SIZE": 64,
        "NUM_Q_HEADS": 8,
        "NUM_K_HEADS": 8,
        "NUM_V_HEADS": 16,
        "HEAD_SIZE": 128,
        "SCALE": 0.08838834764831843,
    },
}

BF16, F32, I32, I64 = torch.bfloat16, torch.float32, torch.int32, torch.int64
U8, FP8 = torch.uint8, torch.float8_e4m3fn

#: A small workload of each, and the inputs that it must draw: type and shape, or a plain number.
DRAWN: dict[int, tuple[dict[str, Any], list[Any]]] = {
    1: (
        {"NUM_PAGES": 60, "KV_INDPTR": [0, 7, 50]},
        [
            (BF16, (2, 32, 128)),
            (BF16, (60, 1, 8, 128)),
            (BF16, (60, 1, 8, 128)),
            (I32, (3,)),
            (I32, (50,)),
            0.0883883461356163,
        ],
    ),
    21: (
        {"NUM_TOKENS": 96, "MAX_PAD_TOKENS": 6, "NUM_BLOCKS": 12},
        [
            (BF16, (96, 8, 128)),
            (BF16, (96, 8, 128)),
            (I64, (96,)),
            (U8, (12, 16, 8, 128)),
            (U8, (12, 16, 8, 128)),
            (F32, (12, 16, 8)),
            (F32, (12, 16, 8)),
        ],
    ),
    28: ({"BATCH_SIZE": 9}, [(BF16, (9, 4096)), (BF16, (9, 4096)), (BF16, (4096,))]),
    49: (
        {"NUM_TOKENS": 40, "GATING_DIM": 512},
        [(BF16, (40, 512)), (BF16, (256, 512)), (BF16, (256,)), 2.5],
    ),
    53: (
        {"M": 64, "HIDDEN": 512, "INTERMEDIATE": 384},
        [
            (FP8, (64, 512)),
            (F32, (64, 4)),
            (FP8, (384, 512)),
            (F32, (3, 4)),
            (FP8, (384, 512)),
            (F32, (3, 4)),
        ],
    ),
    72: (
        {"BATCH_SIZE": 5},
        [
            (BF16, (5, 1, 8, 128)),
            (BF16, (5, 1, 8, 128)),
            (BF16, (5, 1, 16, 128)),
            (F32, (5, 16, 128, 128)),
            (F32, (16,)),
            (BF16, (5, 1, 16)),
            (F32, (16,)),
            (BF16, (5, 1, 16)),
            0.08838834764831843,
        ],
    ),
}


@pytest.mark.parametrize("number", sorted(FULL))
def test_full_workloads_have_the_published_sizes(number: int) -> None:
    module = Problem(number, reduced=False).module
    assert {name: getattr(module, name) for name in FULL[number]} == FULL[number]


@pytest.mark.parametrize("number", sorted(DRAWN))
def test_inputs_have_their_types_and_shapes_and_are_contiguous(number: int) -> None:
    changes, expected = DRAWN[number]
    inputs = Problem(number, **changes).draw(1)
    found = [(x.dtype, tuple(x.shape)) if isinstance(x, torch.Tensor) else x for x in inputs]
    assert found == expected
    assert all(x.is_contiguous() for x in inputs if isinstance(x, torch.Tensor))


def moments(x: torch.Tensor) -> tuple[float, float]:
    """Mean and standard deviation."""
    return float(x.double().mean()), float(x.double().std())


#: Inputs by problem and place, with the mean and the standard deviation that they are drawn with.
NORMAL = [
    (1, 0, 0.0, 1.0),
    (1, 1, 0.0, 1.0),
    (1, 2, 0.0, 1.0),
    (21, 0, 0.0, 1.0),
    (21, 1, 0.0, 1.0),
    (28, 0, 0.0, 1.0),
    (28, 1, 0.0, 1.0),
    (28, 2, 1.0, 0.1),
    (49, 0, 0.0, 1.0),
    (49, 1, 0.0, 512**-0.5),
    (49, 2, 0.0, 1.0),
    (72, 0, 0.0, 0.18),
    (72, 1, 0.0, 0.13),
    (72, 2, 0.0, 0.073),
    (72, 3, 0.0, 0.009),
    (72, 5, 1.33, 1.56),
    (72, 7, 0.4, 1.38),
]


@pytest.mark.parametrize(("number", "place", "mean", "std"), NORMAL)
def test_normal_inputs_have_their_mean_and_spread(
    number: int, place: int, mean: float, std: float
) -> None:
    x = Problem(number, **DRAWN[number][0]).draw(3)[place]
    found_mean, found_std = moments(x)
    # Five standard errors of each estimate, and the rounding to bfloat16 of the spread.
    assert abs(found_mean - mean) < 5 * std / math.sqrt(x.numel()) + std / 256
    assert abs(found_std / std - 1) < 5 / math.sqrt(2 * x.numel()) + 1 / 256


def test_uniform_inputs_fill_their_ranges() -> None:
    inputs = Problem(21).draw(2)
    for cache in inputs[3:5]:
        assert torch.bincount(cache.flatten().int(), minlength=256).min() > 0
    for scales in inputs[5:7]:
        assert scales.min() >= 0.5 and scales.max() < 1.5
        assert abs(float(scales.double().mean()) - 1.0) < 0.01


def test_dequantised_operands_of_53_have_the_spread_that_was_quantised() -> None:
    x, scale_x, gate, scale_gate, _, _ = Problem(53).draw(2)
    wide = x.double() * scale_x.double().repeat_interleave(128, dim=1)
    assert abs(moments(wide)[1] - 1) < 0.01
    blocks = scale_gate.double().repeat_interleave(128, dim=0).repeat_interleave(128, dim=1)
    # A gain of U[0.5, 2] for each block: spread 768^-1/2 times the gains' root mean square, 1.323.
    spread = moments(gate.double() * blocks)[1] * 768**0.5
    assert 1.1 < spread < 1.55
