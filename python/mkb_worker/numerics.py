"""The numeric settings under which references run and inputs are drawn, and their restoration."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """TF32 and reduced-precision reductions off, 'highest' float32 products, float32 by default."""
    matmul = torch.backends.cuda.matmul
    names = (
        "allow_tf32",
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
    )
    before = {name: getattr(matmul, name) for name in names}
    convolution, precision = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    dtype = torch.get_default_dtype()
    try:
        torch.set_float32_matmul_precision("highest")
        for name in names:
            setattr(matmul, name, False)
        torch.backends.cudnn.allow_tf32 = False
        torch.set_default_dtype(torch.float32)
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        for name, value in before.items():
            setattr(matmul, name, value)
        torch.backends.cudnn.allow_tf32 = convolution
        torch.set_default_dtype(dtype)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers from `seed`; the generators' states come back afterwards."""
    with torch.random.fork_rng(devices=[0], device_type="cuda"):
        torch.manual_seed(seed)
        yield
