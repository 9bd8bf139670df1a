"""Quantise K and V to fp8 with one scale per token and head, and append both to paged caches."""

# Source: vLLM at commit b9b6306ebe0f5fa5046553667192e56bb3934af0 (Apache-2.0),
# tests/quantization/test_per_token_kv_cache.py and
# vllm/v1/attention/ops/triton_reshape_and_cache_flash.py.

import torch

NUM_TOKENS = 2048
MAX_PAD_TOKENS = 128
NUM_HEADS = 8
HEAD_DIM = 128
BLOCK_SIZE = 16
NUM_BLOCKS = 256
FP8_MAX = 448.0
FP8_MIN = -448.0

# As in the full workload: half of the slots stay untouched, and a tail of padding tokens. Hardly
# smaller, since the full one takes no longer than a few launches.
REDUCED = {"NUM_TOKENS": 1792, "MAX_PAD_TOKENS": 112, "NUM_BLOCKS": 224}

MUTABLE_INPUTS = ("key_cache", "value_cache", "k_scale_cache", "v_scale_cache")


def _append(x, slots, valid, cache, scale_cache):
    wide = torch.promote_types(x.dtype, torch.float32)
    x = x.to(wide)
    scale = (x.abs().amax(dim=-1) / FP8_MAX).clamp(min=1e-6)
    y = (x * (1.0 / scale).unsqueeze(-1)).clamp(FP8_MIN, FP8_MAX)
    codes = y.to(torch.float32).to(torch.float8_e4m3fn).view(torch.uint8)
    block = slots // BLOCK_SIZE
    offset = slots % BLOCK_SIZE
    cache[block, offset] = codes[valid]
    scale_cache[block, offset] = scale[valid].to(scale_cache.dtype)


def reference(key, value, slot_mapping, key_cache, value_cache, k_scale_cache, v_scale_cache):
    valid = slot_mapping >= 0
    slots = slot_mapping[valid]
    _append(key, slots, valid, key_cache, k_scale_cache)
    _append(value, slots, valid, value_cache, v_scale_cache)
    return key_cache, value_cache, k_scale_cache, v_scale_cache


def make_inputs():
    heads = (NUM_TOKENS, NUM_HEADS, HEAD_DIM)
    key = torch.randn(heads, dtype=torch.bfloat16, device="cuda")
    value = torch.randn(heads, dtype=torch.bfloat16, device="cuda")
    slot_mapping = torch.randperm(NUM_BLOCKS * BLOCK_SIZE, device="cuda")[:NUM_TOKENS].clone()
    num_pads = int(torch.randint(1, MAX_PAD_TOKENS + 1, (1,), device="cuda").item())
    slot_mapping[NUM_TOKENS - num_pads :] = -1
    cache = (NUM_BLOCKS, BLOCK_SIZE, NUM_HEADS, HEAD_DIM)
    key_cache = torch.randint(0, 256, cache, dtype=torch.uint8, device="cuda")
    value_cache = torch.randint(0, 256, cache, dtype=torch.uint8, device="cuda")
    k_scale_cache = torch.rand(cache[:3], device="cuda") + 0.5
    v_scale_cache = torch.rand(cache[:3], device="cuda") + 0.5
    return [key, value, slot_mapping, key_cache, value_cache, k_scale_cache, v_scale_cache]
