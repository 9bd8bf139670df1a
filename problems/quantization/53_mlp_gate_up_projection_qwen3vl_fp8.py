"""SiLU-gated pair of block-scaled fp8 linear layers on pre-quantised operands (Qwen3-VL MLP)."""

# Block quantisation: activations by 1x128, weights by 128x128 blocks; scale = max|x| / 448.

import torch

M = 8704
HIDDEN = 3584
INTERMEDIATE = 18944
BLOCK = 128
FP8_MAX = 448.0

REDUCED = {"M": 264, "HIDDEN": 768, "INTERMEDIATE": 1280}


def _dequantize_rows(x, scale):
    return x.to(scale.dtype) * scale.repeat_interleave(BLOCK, dim=1)


def _dequantize_blocks(weight, scale):
    scale = scale.repeat_interleave(BLOCK, dim=0).repeat_interleave(BLOCK, dim=1)
    return weight.to(scale.dtype) * scale


def reference(x, scale_x, gate_proj_weight, scale_gate, up_proj_weight, scale_up):
    wide = torch.promote_types(scale_x.dtype, torch.float32)
    activations = _dequantize_rows(x, scale_x.to(wide))
    gate = activations @ _dequantize_blocks(gate_proj_weight, scale_gate.to(wide)).t()
    up = activations @ _dequantize_blocks(up_proj_weight, scale_up.to(wide)).t()
    return (torch.nn.functional.silu(gate) * up).to(torch.bfloat16)


def _quantize(x, rows, columns):
    m, k = x.shape
    assert m % rows == 0 and k % columns == 0
    blocks = x.to(torch.float32).view(m // rows, rows, k // columns, columns)
    scale = (blocks.abs().amax(dim=(1, 3)) / FP8_MAX).clamp(min=1e-12)
    codes = (blocks / scale[:, None, :, None]).clamp(-FP8_MAX, FP8_MAX)
    return codes.view(m, k).to(torch.float8_e4m3fn), scale


def _weight():
    weight = torch.randn(INTERMEDIATE, HIDDEN, device="cuda") * HIDDEN**-0.5
    gain = 0.5 + 1.5 * torch.rand(INTERMEDIATE // BLOCK, HIDDEN // BLOCK, device="cuda")
    weight = weight * gain.repeat_interleave(BLOCK, dim=0).repeat_interleave(BLOCK, dim=1)
    return _quantize(weight, BLOCK, BLOCK)


def make_inputs():
    x, scale_x = _quantize(torch.randn(M, HIDDEN, device="cuda"), 1, BLOCK)
    gate_proj_weight, scale_gate = _weight()
    up_proj_weight, scale_up = _weight()
    return [x, scale_x, gate_proj_weight, scale_gate, up_proj_weight, scale_up]
