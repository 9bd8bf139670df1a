"""One-token gated delta rule decode with state update for a batch of sequences (Qwen3-Next)."""

# Source: FlashInfer-Trace, definitions/gdn/gdn_decode_qk8_v16_d128_k_last.json (Apache-2.0); batch,
# scale, A_log and dt_bias of workload record 35b0abd8-5892-44f2-a152-52cba6b59493, the rest drawn
# anew at the measured scales.

import torch

BATCH_SIZE = 64
SEQ_LEN = 1
NUM_Q_HEADS = 8
NUM_K_HEADS = 8
NUM_V_HEADS = 16
HEAD_SIZE = 128
A_MEAN, A_STD = 1.33, 1.56
B_MEAN, B_STD = 0.4, 1.38
Q_STD, K_STD, V_STD, STATE_STD = 0.18, 0.13, 0.073, 0.009
SCALE = 0.08838834764831843
A_LOG = [
    -0.169921875, 2.34375, 1.3359375, 2.1875, -0.9375, -1.09375, 1.765625, -0.443359375,
    0.91015625, -0.8125, 2.328125, 0.205078125, 1.375, 2.796875, -0.88671875, -1.3046875,
]  # fmt: skip
DT_BIAS = [
    -2.078125, -5.625, -4.3125, -3.421875, -3.796875, -3.296875, -4.375, -6.25,
    -3.703125, -0.2890625, -5.21875, -6.1875, -3.046875, -5.0625, -4.875, -5.34375,
]  # fmt: skip

REDUCED = {"BATCH_SIZE": 13}


def reference(q, k, v, state, A_log, a, dt_bias, b, scale):
    wide = torch.promote_types(q.dtype, torch.float32)
    batch, heads = q.shape[0], v.shape[2]
    group = heads // q.shape[2]
    q_wide, k_wide, v_wide = q[:, 0].to(wide), k[:, 0].to(wide), v[:, 0].to(wide)
    gate = torch.exp(
        -torch.exp(A_log.to(wide))
        * torch.nn.functional.softplus(a[:, 0].to(wide) + dt_bias.to(wide))
    )
    beta = torch.sigmoid(b[:, 0].to(wide))
    output = torch.zeros(batch, 1, heads, v.shape[3], dtype=wide, device=q.device)
    new_state = torch.empty(state.shape, dtype=wide, device=q.device)
    for i in range(batch):
        for h in range(heads):
            key, query = k_wide[i, h // group], q_wide[i, h // group]
            decayed = gate[i, h] * state[i, h].to(wide).transpose(0, 1)
            old = key @ decayed
            new = beta[i, h] * v_wide[i, h] + (1.0 - beta[i, h]) * old
            updated = decayed - torch.outer(key, old) + torch.outer(key, new)
            output[i, 0, h] = scale * (query @ updated)
            new_state[i, h] = updated.transpose(0, 1)
    return output.to(q.dtype), new_state


def make_inputs():
    def drawn(std, *shape):
        return std * torch.randn(*shape, dtype=torch.bfloat16, device="cuda")

    def gate_input(mean, std):
        shape = (BATCH_SIZE, SEQ_LEN, NUM_V_HEADS)
        return (mean + std * torch.randn(shape, device="cuda")).to(torch.bfloat16)

    q = drawn(Q_STD, BATCH_SIZE, SEQ_LEN, NUM_Q_HEADS, HEAD_SIZE)
    k = drawn(K_STD, BATCH_SIZE, SEQ_LEN, NUM_K_HEADS, HEAD_SIZE)
    v = drawn(V_STD, BATCH_SIZE, SEQ_LEN, NUM_V_HEADS, HEAD_SIZE)
    state = STATE_STD * torch.randn(BATCH_SIZE, NUM_V_HEADS, HEAD_SIZE, HEAD_SIZE, device="cuda")
    A_log = torch.tensor(A_LOG, dtype=torch.float32, device="cuda")
    a = gate_input(A_MEAN, A_STD)
    dt_bias = torch.tensor(DT_BIAS, dtype=torch.float32, device="cuda")
    b = gate_input(B_MEAN, B_STD)
    return [q, k, v, state, A_log, a, dt_bias, b, SCALE]
