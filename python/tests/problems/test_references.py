"""Each reference against the same mathematics in NumPy, and invariants that its sources state."""

import math
from typing import Any

import numpy as np
import oracles
import pytest
import torch
from agreement import exact, excess, relative_error
from loading import Problem

SEEDS = (1, 2**40 + 3, 2**62 + 5)
each_seed = pytest.mark.parametrize("seed", SEEDS)


def check_float(actual: Any, reference: torch.Tensor, anchor: torch.Tensor) -> None:
    """The mathematics agree with the float64 reference closely, with the other by the contract."""
    assert relative_error(actual, anchor) < 1e-11
    assert excess(actual, reference, anchor) <= 1
    # The contract can fail: what is wrong by a tenth of the largest value does not pass.
    wrong = actual.copy()
    wrong.reshape(-1)[0] += 0.1 * np.abs(actual).max()
    assert excess(wrong, reference, anchor) > 1


@each_seed
def test_01_is_attention_over_the_pages_of_each_sequence(seed: int) -> None:
    indptr = [0, 1, 38, 131, 140]
    problem = Problem(1, NUM_PAGES=173, KV_INDPTR=indptr)
    q, k, v, starts, pages, scale = inputs = problem.draw(seed)
    output, lse = oracles.paged_decode(
        exact(q), exact(k), exact(v), starts.numpy(), pages.numpy(), scale
    )
    reference, anchor = problem.reference(inputs), problem.anchor(inputs)
    assert reference[0].dtype == torch.bfloat16 and reference[1].dtype == torch.float32
    check_float(output, reference[0], anchor[0])
    check_float(lse, reference[1], anchor[1])


def test_01_a_sequence_of_one_token_returns_its_value_row() -> None:
    problem = Problem(1, NUM_PAGES=9, KV_INDPTR=[0, 1])
    inputs = problem.draw(7)
    output, _ = problem.reference(inputs)
    row = inputs[2][int(inputs[4][0]), 0]
    assert torch.equal(output[0], row.repeat_interleave(4, dim=0))


def test_01_an_empty_sequence_gives_zeros_and_minus_infinity() -> None:
    problem = Problem(1, NUM_PAGES=9, KV_INDPTR=[0, 0, 2])
    output, lse = problem.reference(problem.draw(7))
    assert torch.all(output[0] == 0) and torch.all(lse[0] == -math.inf)
    assert torch.all(output[1].isfinite()) and torch.all(lse[1].isfinite())


@each_seed
def test_21_codes_and_scales_are_those_of_ieee_single_precision(seed: int) -> None:
    problem = Problem(21, NUM_TOKENS=160, MAX_PAD_TOKENS=16, NUM_BLOCKS=20)
    inputs = problem.draw(seed)
    key, value, slots, k_cache, v_cache, k_scales, v_scales = inputs
    expected = oracles.append_quantized(
        key.float().numpy(),
        value.float().numpy(),
        slots.numpy(),
        (k_cache.numpy(), v_cache.numpy()),
        (k_scales.numpy(), v_scales.numpy()),
    )
    for actual, wanted in zip(problem.reference(inputs), expected, strict=True):
        assert np.array_equal(actual.numpy(), wanted)


@each_seed
def test_21_unwritten_slots_keep_what_they_held_and_outputs_are_the_inputs(seed: int) -> None:
    problem = Problem(21)
    inputs = problem.draw(seed)
    slots = inputs[2]
    before = [tensor.clone() for tensor in inputs[3:]]
    outputs = problem.module.reference(*inputs)
    assert all(out is given for out, given in zip(outputs, inputs[3:], strict=True))
    assert problem.module.MUTABLE_INPUTS == (
        "key_cache",
        "value_cache",
        "k_scale_cache",
        "v_scale_cache",
    )
    written = slots[slots >= 0]
    untouched = torch.ones(problem.module.NUM_BLOCKS * 16, dtype=torch.bool)
    untouched[written] = False
    assert untouched.sum() == problem.module.NUM_BLOCKS * 16 - len(written)
    for old, new in zip(before, outputs, strict=True):
        assert torch.equal(old.flatten(0, 1)[untouched], new.flatten(0, 1)[untouched])
        assert not torch.equal(old.flatten(0, 1)[written], new.flatten(0, 1)[written])


def test_21_the_largest_channel_of_a_row_takes_the_largest_code() -> None:
    problem = Problem(21)
    inputs = problem.draw(3)
    key, slots = inputs[0], inputs[2]
    cache, _, scales, _ = problem.reference(inputs)
    token = 5
    codes = cache[int(slots[token]) // 16, int(slots[token]) % 16]
    values = oracles.e4m3_values()[codes.numpy()]
    assert np.all(np.abs(values).max(axis=-1) == 448)
    recovered = values * scales[int(slots[token]) // 16, int(slots[token]) % 16].numpy()[:, None]
    wanted = exact(key[token])
    assert np.all(np.abs(recovered - wanted) <= np.abs(wanted) / 16 * 1.0001 + 2.0**-10)


def test_21_a_row_of_zeros_has_the_smallest_scale() -> None:
    problem = Problem(21)
    inputs = problem.draw(3)
    inputs[0][0] = 0
    slot = int(inputs[2][0])
    cache, _, scales, _ = problem.reference(inputs)
    assert torch.all(scales[slot // 16, slot % 16] == torch.tensor(1e-6))
    assert torch.all(cache[slot // 16, slot % 16] == 0)


@each_seed
def test_28_is_rmsnorm_of_the_sum_that_is_not_rounded(seed: int) -> None:
    problem = Problem(28, BATCH_SIZE=37)
    hidden, residual, weight = inputs = problem.draw(seed)
    reference, anchor = problem.reference(inputs), problem.anchor(inputs)
    assert reference[0].dtype == torch.bfloat16
    check_float(
        oracles.add_rmsnorm(exact(hidden), exact(residual), exact(weight)), reference[0], anchor[0]
    )


def test_28_rows_have_a_mean_square_of_one_before_the_weight() -> None:
    problem = Problem(28, BATCH_SIZE=5)
    hidden, residual, weight = problem.draw(11)
    (y,) = problem.anchor([hidden, residual, torch.ones_like(weight)])
    assert torch.allclose(y.pow(2).mean(dim=-1), torch.ones(5, dtype=y.dtype), atol=1e-5)


@each_seed
def test_49_picks_by_biased_affinity_within_the_best_groups(seed: int) -> None:
    problem = Problem(49, NUM_TOKENS=197)
    hidden, weight, bias, factor = inputs = problem.draw(seed)
    indices, weights = oracles.group_limited_routing(
        exact(hidden), exact(weight), exact(bias), factor, groups=8, kept=4, top=8
    )
    reference, anchor = problem.reference(inputs), problem.anchor(inputs)
    assert reference[0].dtype == torch.int64 and reference[1].dtype == torch.float32
    assert np.array_equal(reference[0].numpy(), indices)
    assert np.array_equal(anchor[0].numpy(), indices)
    check_float(weights, reference[1], anchor[1])


@each_seed
def test_49_indices_lie_in_at_most_four_groups_and_weights_sum_to_the_factor(seed: int) -> None:
    problem = Problem(49, GATING_DIM=64)
    indices, weights = problem.reference(problem.draw(seed))
    assert indices.shape == weights.shape == (problem.module.NUM_TOKENS, 8)
    assert torch.allclose(weights.sum(dim=-1), torch.tensor(2.5))
    for row in indices:
        assert len(set(row.tolist())) == 8
        assert len(set((row // 32).tolist())) <= 4


def test_49_draws_no_token_whose_choice_is_close() -> None:
    problem = Problem(49, NUM_TOKENS=512, GATING_DIM=128)
    hidden, weight, bias, _ = problem.draw(13)
    biased = oracles.sigmoid(exact(hidden) @ exact(weight).T) + exact(bias)
    for row in biased:
        groups = np.sort(row.reshape(8, 32), axis=1)[:, -2:].sum(axis=1)
        order = np.argsort(-groups)
        assert groups[order[3]] - groups[order[4]] > 0.99e-4
        allowed = np.concatenate([row[g * 32 : g * 32 + 32] for g in order[:4]])
        best = np.sort(allowed)[::-1][:9]
        assert np.min(best[:-1] - best[1:]) > 0.99e-4


@each_seed
def test_53_is_the_gated_product_of_dequantised_operands(seed: int) -> None:
    problem = Problem(53, M=9, HIDDEN=384, INTERMEDIATE=256)
    inputs = problem.draw(seed)
    assert [x.dtype for x in inputs] == [torch.float8_e4m3fn, torch.float32] * 3
    values = [exact(x) if x.dtype == torch.float32 else e4m3(x) for x in inputs]
    reference, anchor = problem.reference(inputs), problem.anchor(inputs)
    assert reference[0].dtype == torch.bfloat16 and anchor[0].dtype == torch.bfloat16
    actual = oracles.gated_fp8_projection(*values)
    # The problem casts to bfloat16 always, so the anchor carries that rounding too.
    assert relative_error(actual, anchor[0]) < 2.0**-8
    assert excess(actual, reference[0], anchor[0]) <= 1


def e4m3(x: torch.Tensor) -> Any:
    """The values of an fp8 tensor by the format's own definition."""
    return oracles.e4m3_values()[x.view(torch.uint8).numpy()]


def test_53_quantised_weights_come_from_blocks_with_gains_of_their_own() -> None:
    problem = Problem(53)
    _, scale_x, gate, scale_gate, _, _ = problem.draw(5)
    module = problem.module
    assert scale_x.shape == (module.M, module.HIDDEN // 128)
    assert scale_gate.shape == (module.INTERMEDIATE // 128, module.HIDDEN // 128)
    assert scale_gate.max() / scale_gate.min() > 2
    blocks = np.abs(e4m3(gate)).reshape(*scale_gate.shape[:1], 128, scale_gate.shape[1], 128)
    assert np.all(blocks.max(axis=(1, 3)) == 448)


@each_seed
def test_72_is_one_step_of_the_gated_delta_rule(seed: int) -> None:
    problem = Problem(72, BATCH_SIZE=2)
    inputs = problem.draw(seed)
    values = [exact(x) if isinstance(x, torch.Tensor) else x for x in inputs]
    output, state = oracles.gated_delta_step(*values)
    reference, anchor = problem.reference(inputs), problem.anchor(inputs)
    assert reference[0].dtype == torch.bfloat16 and reference[1].dtype == torch.float32
    check_float(output, reference[0], anchor[0])
    check_float(state, reference[1], anchor[1])


def test_72_zero_beta_only_decays_and_full_beta_stores_the_value() -> None:
    problem = Problem(72, BATCH_SIZE=1)
    q, k, v, state, a_log, a, dt_bias, b, scale = problem.draw(2)
    k = torch.nn.functional.normalize(k.double(), dim=-1)
    _, kept = problem.anchor([q, k, v, state, a_log, a, dt_bias, torch.full_like(b, -1e4), scale])
    decay = kept / state.double()
    assert torch.allclose(decay, decay[:, :, :1, :1].expand_as(decay))
    assert torch.all(decay <= 1) and torch.all(decay >= 0)
    _, stored = problem.anchor([q, k, v, state, a_log, a, dt_bias, torch.full_like(b, 1e4), scale])
    recalled = torch.einsum("hvk,hk->hv", stored[0], k[0, 0].repeat_interleave(2, dim=0))
    assert torch.allclose(recalled, v[0, 0].double())


@pytest.mark.parametrize("number", [1, 21, 28, 49, 53, 72])
def test_inputs_follow_the_seed_and_are_not_changed_unless_named(number: int) -> None:
    changes = {1: {"NUM_PAGES": 99, "KV_INDPTR": [0, 3, 40]}, 28: {"BATCH_SIZE": 3}}
    problem = Problem(number, **changes.get(number, {}))
    first, again, other = problem.draw(5), problem.draw(5), problem.draw(6)
    tensors = [i for i, x in enumerate(first) if isinstance(x, torch.Tensor)]

    def same(a: Any, b: Any) -> bool:
        return torch.equal(a.view(torch.uint8), b.view(torch.uint8))

    assert all(same(first[i], again[i]) for i in tensors)
    assert not all(same(first[i], other[i]) for i in tensors)
    mutable = getattr(problem.module, "MUTABLE_INPUTS", ())
    names = list(problem.module.reference.__code__.co_varnames)[: len(first)]
    problem.module.reference(*first)
    for i in tensors:
        assert same(first[i], again[i]) == (names[i] not in mutable), names[i]
