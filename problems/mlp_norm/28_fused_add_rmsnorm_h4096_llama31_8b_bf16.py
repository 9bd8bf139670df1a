"""Residual add followed by RMSNorm over 4096 channels (Llama 3.1 8B)."""

# Source: FlashInfer-Trace, definitions/rmsnorm/fused_add_rmsnorm_h4096.json (Apache-2.0); batch size
# of workload record 3e460c8c-7cad-4071-959f-e689ca024206, values drawn anew.

import torch

BATCH_SIZE = 14509
HIDDEN_SIZE = 4096

# Not a multiple of any power of two above 1, as the full batch is not.
REDUCED = {"BATCH_SIZE": 1361}


def reference(hidden_states: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor):
    wide = torch.promote_types(hidden_states.dtype, torch.float32)
    x = hidden_states.to(wide) + residual.to(wide)
    y = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5) * weight.to(wide)
    return y.to(hidden_states.dtype)


def make_inputs():
    hidden_states = torch.randn(BATCH_SIZE, HIDDEN_SIZE, dtype=torch.bfloat16, device="cuda")
    residual = torch.randn(BATCH_SIZE, HIDDEN_SIZE, dtype=torch.bfloat16, device="cuda")
    weight = (1.0 + 0.1 * torch.randn(HIDDEN_SIZE, device="cuda")).to(torch.bfloat16)
    return [hidden_states, residual, weight]
