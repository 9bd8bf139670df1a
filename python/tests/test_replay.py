"""Tapes of many kinds of operation play again to the same bits; hostile ones give an error."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import torch
from driver import Failed, Worker, leaves

#: Each is the body of a `solve(x, n)` with x float32 (6, 8) and n int64 (6,), and returns tensors.
BODIES = {
    "arithmetic": "return x * 2.0 + x.t().contiguous().t() - n[:, None] / 3",
    "views": "y = x[1:5:2, ::3].clone(); v = y.view(-1)[1:]; v.add_(1); return y, v",
    "in place through a view": "y = x.clone(); y[2].zero_(); y[:, 1:3] *= n[:, None]; return y",
    "out of another size": (
        "o = torch.empty(0, device='cuda'); torch.add(x, 1, out=o); return o, o * 2"
    ),
    "out used before and after": (
        "o = torch.ones(3, device='cuda'); p = o + 1; torch.mul(x, x, out=o); return p, o + 0"
    ),
    "resize": (
        "y = torch.arange(4., device='cuda'); y.resize_(2, 2); y.resize_(6); y[4:] = 7; return y"
    ),
    "uninitialised memory": "y = torch.empty(5, device='cuda'); y.fill_(3); return y",
    "indexing": (
        "y = x.clone(); y[n % 6, n % 8] = 5.0; y.index_add_(0, n % 6, x); return y, x[n % 6]"
    ),
    "masks": "return x[x > 0], x.masked_fill(x < 0, -1.0), torch.where(x > 0, x, n[:, None])",
    "sorting": "v, i = x.sort(dim=1); t = x.topk(3); return v, i, t.values, t.indices, n.unique()",
    "reductions": "return x.sum(), x.softmax(1), x.var(0), x.logsumexp(1), x.cumsum(1), x.argmax()",
    "products": "return x @ x.t(), torch.einsum('ij,kj->ik', x, x), torch.outer(x[0], x[1])",
    "casts": (
        "return x.to(torch.bfloat16), x.to(torch.float8_e4m3fn), x.half().double(),"
        " n.to(torch.int8), x.to(torch.float8_e5m2), (x > 0), x.to(torch.complex64)"
    ),
    "random numbers": (
        "torch.manual_seed(3); g = torch.Generator('cuda'); g.manual_seed(4)\n"
        "    return (torch.randn(9, device='cuda'), torch.rand(5, device='cuda', generator=g),"
        " torch.randperm(10, device='cuda'), torch.nn.functional.dropout(x, 0.5),"
        " torch.bernoulli(torch.full((8,), 0.5, device='cuda')), x.abs().multinomial(2),"
        " torch.randint(0, 9, (4,), device='cuda'))"
    ),
    "data from the host": (
        "t = torch.tensor([1.5, 2.5], device='cuda'); u = torch.arange(3).to('cuda');"
        " return t, u, x[0, 0] + torch.tensor(4.0)"
    ),
    "reads": (
        "k = int(n.max().item()); y = x.cpu(); return x * k + float(x[0, 0]), n + len(y.tolist())"
    ),
    "lists": (
        "a = [x.clone(), x.clone() * 2]; torch._foreach_add_(a, 1.0); b = torch._foreach_mul(a, a);"
        " return torch.cat(b), torch.stack(a), list(x.split(2)), torch._foreach_norm(a)"
    ),
    "autograd": (
        "w = x.clone().requires_grad_(); y = (w @ w.t()).relu().pow(2).mean(); y.backward();"
        " return w.grad, y.detach()"
    ),
    "modules": (
        "torch.manual_seed(1); m = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU(),"
        " torch.nn.LayerNorm(4)).cuda(); o = torch.optim.AdamW(m.parameters());"
        " m(x).square().sum().backward(); o.step(); return m(x).detach()"
    ),
    "attention": (
        "q = x.view(1, 2, 3, 8).to(torch.bfloat16);"
        " return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)"
    ),
    "complex": (
        "c = torch.complex(x, -x); return c.conj() * c, c.imag, torch.view_as_real(c), c.conj()"
    ),
    "streams": (
        "s = torch.cuda.Stream()\n    with torch.cuda.stream(s): y = x + 1\n"
        "    torch.cuda.current_stream().wait_stream(s); return y"
    ),
    "inputs returned": "return x, n, x[1:], {'a': x.t(), 'b': [n, None, 3, 'text', 2.5, True]}",
    "inputs changed": "x.mul_(2); return x.sum()",
    "empty tensors": (
        "return torch.empty(0, 3, device='cuda'), x[:0], torch.zeros(0, device='cuda').sum()"
    ),
    "freed and used again": (
        "y = x\n    for i in range(20):\n        y = y + i; z = y * 2; del z\n    return y"
    ),
    "inference mode": "with torch.inference_mode(): y = x + 1; y.mul_(2)\n    return y",
    "channels last": (
        "y = x.view(1, 2, 3, 8).to(memory_format=torch.channels_last); "
        " return y + 1, y.mean((2, 3))"
    ),
    "expanded": (
        "return x[:1].expand(6, 8) + x, torch.broadcast_to(n[:, None], (6, 8)).contiguous()"
    ),
    "a failing operation": (
        "try:\n        x @ x\n    except RuntimeError:\n        pass\n    return x + 1"
    ),
}
INPUTS = [
    {"t": "tensor", "dtype": "float32", "shape": [6, 8], "stride": [8, 1]},
    {"t": "tensor", "dtype": "int64", "shape": [6], "stride": [1]},
]


def fill(worker: Worker, placed: list[dict], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 8, generator=generator)
    n = torch.randint(0, 50, (6,), generator=generator)
    for described, tensor in zip(placed, (x, n), strict=True):
        worker.fill(described, bytes(tensor.view(torch.uint8).flatten().tolist()))


@pytest.fixture(scope="module")
def medley(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One kernel file that does what its last input names."""
    path = tmp_path_factory.mktemp("medley") / "kernel.py"
    lines = ["import torch"]
    for index, body in enumerate(BODIES.values()):
        lines += [f"def solve_{index}(x, n):", f"    {body}"]
    lines += ["def solve(x, n, which):", "    return globals()[f'solve_{which}'](x, n)"]
    path.write_text("\n".join(lines) + "\n")
    return path


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def record(worker: Worker, which: int) -> dict:
    inputs = [*INPUTS, {"t": "int", "v": which}]
    placed = worker.ask("place", inputs=inputs)["inputs"]
    fill(worker, placed[:2], which)
    return worker.ask("call")


def test_tapes_of_every_kind_play_to_the_same_bits(medley: Path) -> None:
    with Worker("submission") as submission, Worker("replay", tape=submission.tape) as replay:
        offset, length = submission.ask("import", path=str(medley))["tape"]
        replay.ask("replay", offset=offset, length=length)
        for which, name in enumerate(BODIES):
            called = record(submission, which)
            placed = replay.ask("place", inputs=[*INPUTS, {"t": "int", "v": which}])["inputs"]
            fill(replay, placed[:2], which)
            offset, length = called["tape"]
            try:
                played = replay.ask("replay", offset=offset, length=length)
            except Failed as failed:
                raise AssertionError(f"{name}: {failed}") from None
            ours, theirs = leaves(called["outputs"]), leaves(played["outputs"])
            assert len(ours) == len(theirs) > 0, name
            for a, b in zip(ours, theirs, strict=True):
                assert {**a, "address": 0} == {**b, "address": 0}, name
                assert torch.equal(bits(submission.tensor(a)), bits(replay.tensor(b))), name
            submission.ask("release")
            replay.ask("release")


def test_hostile_tapes_give_an_error_and_leave_the_player_alive(medley: Path) -> None:
    """Bytes of real tapes changed, moved, cut and repeated at random."""
    generator = random.Random(20261201)
    with Worker("submission") as submission, Worker("replay") as replay:
        submission.ask("import", path=str(medley))
        tapes = []
        for which in range(len(BODIES)):
            offset, length = record(submission, which)["tape"]
            tapes.append(os.pread(submission.tape, length, offset))
            submission.ask("release")
        failed = 0
        for _ in range(1500):
            tape = bytearray(generator.choice(tapes))
            for _ in range(generator.choice((1, 1, 2, 5))):
                mutate(tape, generator, generator.choice(tapes))
            os.pwrite(replay.tape, tape, 0)
            replay.ask("place", inputs=INPUTS)
            try:
                replay.ask("replay", offset=0, length=len(tape))
            except Failed:
                failed += 1
            replay.ask("release")
        assert failed > 500


def mutate(tape: bytearray, generator: random.Random, other: bytes) -> None:
    at = generator.randrange(len(tape))
    match generator.randrange(5):
        case 0:
            tape[at] = generator.randrange(256)
        case 1:
            tape[at] = (tape[at] + generator.choice((-1, 1))) % 256
        case 2:
            del tape[at : at + generator.randrange(1, 9)]
        case 3:
            tape[at:at] = other[: generator.randrange(1, 200)]
        case 4:
            start = generator.randrange(len(other))
            tape[at : at + 8] = other[start : start + 8]
    if not tape:
        tape.append(0)


def test_a_tape_with_other_inputs_than_placed_is_refused(medley: Path) -> None:
    with Worker("submission") as submission, Worker("replay", tape=submission.tape) as replay:
        submission.ask("import", path=str(medley))
        offset, length = record(submission, 0)["tape"]
        wrong = [INPUTS[0], {**INPUTS[1], "shape": [7]}]
        for placed in ([INPUTS[0]], wrong):
            replay.ask("place", inputs=placed)
            with pytest.raises(Failed, match="input"):
                replay.ask("replay", offset=offset, length=length)
