"""Sigmoid router with an expert bias and group-limited top-k, weights normalised and scaled (Ring-flash)."""

# Semantics: the public Bailing MoE code (group-limited top-k, masked groups at -inf, weights without
# bias, divided by their sum + 1e-20).

import torch

NUM_TOKENS = 16384
NUM_EXPERTS = 256
TOP_K = 8
NUM_GROUPS = 8
TOP_GROUPS = 4
GATING_DIM = 4096
SCALING_FACTOR = 2.5
DECISION_MARGIN = 1e-4
REDRAW_LIMIT = 16

REDUCED = {"NUM_TOKENS": 2053, "GATING_DIM": 512}


def _scores(hidden_states, weight, expert_bias):
    wide = torch.promote_types(hidden_states.dtype, torch.float32)
    scores = torch.sigmoid(hidden_states.to(wide) @ weight.to(wide).t())
    return scores, scores + expert_bias.to(wide)


def _group_scores(biased):
    grouped = biased.view(biased.shape[0], NUM_GROUPS, -1)
    return grouped.topk(2, dim=-1).values.sum(dim=-1)


def _mask_groups(biased, group_scores):
    kept = group_scores.topk(TOP_GROUPS, dim=-1).indices
    mask = torch.zeros_like(group_scores, dtype=torch.bool).scatter_(1, kept, True)
    mask = mask.repeat_interleave(biased.shape[1] // NUM_GROUPS, dim=1)
    return biased.masked_fill(~mask, float("-inf"))


def reference(hidden_states, weight, expert_bias, scaling_factor):
    scores, biased = _scores(hidden_states, weight, expert_bias)
    masked = _mask_groups(biased, _group_scores(biased))
    indices = masked.topk(TOP_K, dim=-1, sorted=True).indices
    weights = scores.gather(1, indices)
    weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * scaling_factor
    return indices, weights


def _margins(hidden_states, weight, expert_bias):
    _, biased = _scores(hidden_states, weight, expert_bias)
    group_scores = _group_scores(biased)
    best_groups = group_scores.topk(TOP_GROUPS + 1, dim=-1).values
    best = _mask_groups(biased, group_scores).topk(TOP_K + 1, dim=-1).values
    gaps = (best[:, :-1] - best[:, 1:]).amin(dim=-1)
    return torch.minimum(best_groups[:, -2] - best_groups[:, -1], gaps)


def make_inputs():
    def drawn(*shape):
        return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")

    hidden_states = drawn(NUM_TOKENS, GATING_DIM)
    weight = drawn(NUM_EXPERTS, GATING_DIM) / GATING_DIM**0.5
    expert_bias = drawn(NUM_EXPERTS)
    for _ in range(REDRAW_LIMIT):
        close = _margins(hidden_states, weight, expert_bias) < DECISION_MARGIN
        n_close = int(close.sum().item())
        if n_close == 0:
            return [hidden_states, weight, expert_bias, SCALING_FACTOR]
        hidden_states[close] = drawn(n_close, GATING_DIM)
    if bool((_margins(hidden_states, weight, expert_bias) < DECISION_MARGIN).any().item()):
        raise RuntimeError(f"a router row is still below the margin after {REDRAW_LIMIT} redraws")
    return [hidden_states, weight, expert_bias, SCALING_FACTOR]
