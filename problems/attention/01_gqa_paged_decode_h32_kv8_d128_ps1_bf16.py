"""Batched single-token GQA decode attention over a paged KV cache with page size 1 (Llama 3.1 8B)."""

# Source: FlashInfer-Trace, definitions/gqa_paged/gqa_paged_decode_h32_kv8_d128_ps1.json (Apache-2.0);
# geometry of workload record 5444fc56-b282-4228-b233-ee170d1bd127, page placement drawn anew.

import math

import torch

NUM_QO_HEADS = 32
NUM_KV_HEADS = 8
HEAD_DIM = 128
PAGE_SIZE = 1
NUM_PAGES = 68237
SM_SCALE = 0.0883883461356163
KV_INDPTR = [
    0, 542, 1067, 1637, 2236, 3014, 3538, 4063, 4576, 5134, 5652, 6168, 6723, 7234, 7754, 8281,
    9129, 9707, 12277, 15364, 16907, 19227, 21549, 23026, 24599, 26116, 26643, 27348, 27869, 28398,
    28921, 29459, 29975, 30499, 31031, 31549, 32469, 33110, 33799, 34316, 34832, 35354, 35905,
    36437, 36974, 39857, 43029, 43851, 44373, 45273, 45915, 46427, 46950, 47501, 49996, 50527,
    52650, 54239, 55046, 55603, 56118, 56966, 57882, 58391, 58966,
]  # fmt: skip

# Seven ragged sequences, the shortest and the longest of the full workload among them (509, 3172).
REDUCED = {"NUM_PAGES": 7919, "KV_INDPTR": [0, 542, 1051, 4223, 4739, 5381, 5900, 6777]}


def reference(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    wide = torch.promote_types(q.dtype, torch.float32)
    batch, heads, dim = q.shape
    kv_heads = k_cache.shape[2]
    group = heads // kv_heads
    assert heads == NUM_QO_HEADS and kv_heads == NUM_KV_HEADS and dim == HEAD_DIM
    assert k_cache.shape[1] == PAGE_SIZE
    output = torch.zeros(batch, heads, dim, dtype=q.dtype, device=q.device)
    lse = torch.full((batch, heads), -math.inf, dtype=wide, device=q.device)
    for i in range(batch):
        begin, end = int(kv_indptr[i].item()), int(kv_indptr[i + 1].item())
        pages = kv_indices[begin:end].to(torch.int64)
        k = k_cache[pages, 0].to(wide).repeat_interleave(group, dim=1)
        v = v_cache[pages, 0].to(wide).repeat_interleave(group, dim=1)
        logits = torch.einsum("hd,nhd->hn", q[i].to(wide), k) * sm_scale
        lse[i] = torch.logsumexp(logits, dim=-1) / math.log(2.0)
        output[i] = torch.einsum("hn,nhd->hd", torch.softmax(logits, dim=-1), v).to(q.dtype)
    return output, lse


def make_inputs():
    batch, tokens = len(KV_INDPTR) - 1, KV_INDPTR[-1]
    cache = (NUM_PAGES, PAGE_SIZE, NUM_KV_HEADS, HEAD_DIM)
    q = torch.randn(batch, NUM_QO_HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
    k_cache = torch.randn(cache, dtype=torch.bfloat16, device="cuda")
    v_cache = torch.randn(cache, dtype=torch.bfloat16, device="cuda")
    kv_indptr = torch.tensor(KV_INDPTR, dtype=torch.int32, device="cuda")
    kv_indices = torch.randperm(NUM_PAGES, device="cuda")[:tokens].to(torch.int32)
    return [q, k_cache, v_cache, kv_indptr, kv_indices, SM_SCALE]
