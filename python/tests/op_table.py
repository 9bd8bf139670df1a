"""Runs torch's own table of operations on the virtual GPU and on the CPU, and compares.

A tool, not a test: `python tests/op_table.py [PATTERN]`. torch's samples (`op_db`) need the package
`expecttest`. Every operation whose samples run on the CPU must give the same results on `cuda`:
equal bits for the same kernels, or close where torch takes another path there.
"""

from __future__ import annotations

import collections
import fnmatch
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
warnings.simplefilter("ignore")

import mkb_shim

mkb_shim.install()

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

#: Operations whose results are not a function of their inputs.
RANDOM = ("bernoulli", "dropout", "multinomial", "normal", "rand", "exponential", "geometric")
RANDOM += ("cauchy", "log_normal", "uniform", "rrelu", "empty", "_fused_sdp", "svd_lowrank")
RANDOM += ("pca_lowrank", "fractional_max_pool", "multi_head_attention_forward")


def to_cuda(value: Any) -> Any:
    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.detach().to("cuda").requires_grad_(x.requires_grad)
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return "cuda"
        return x

    return tree_map(move, value)


def same(a: Any, b: Any) -> str | None:
    left, right = tree_flatten(a)[0], tree_flatten(b)[0]
    if len(left) != len(right):
        return f"{len(left)} results against {len(right)}"
    for x, y in zip(left, right, strict=True):
        if not isinstance(x, torch.Tensor):
            if x != y and x == x and not isinstance(x, torch.device):
                return f"{x} against {y}"
            continue
        if x.layout is not torch.strided:
            return None
        if x.device.type != "cpu":
            x = x.detach().cpu()  # a sample that names a device of its own
        if not y.is_cuda and x.numel() > 1:
            return "a result is not on cuda"
        z = y.detach().cpu()
        if x.dtype != z.dtype or x.shape != z.shape:
            return f"{x.dtype} {tuple(x.shape)} against {z.dtype} {tuple(z.shape)}"
        try:
            torch.testing.assert_close(z, x.detach(), equal_nan=True, check_stride=False)
        except AssertionError as error:
            return str(error).splitlines()[0] + " " + " ".join(str(error).splitlines()[2:4])
    return None


def check(op: Any, dtype: torch.dtype) -> str | None:
    """None if all samples agree, else what is wrong with the first that does not."""
    torch.manual_seed(0)
    grad = op.supports_autograd and dtype in (torch.float32,)
    for index, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=grad)):
        if index >= 12:
            break
        # Dropout draws other numbers on a CPU and on a CUDA device, here as anywhere.
        if sample.kwargs.get("dropout_p"):
            continue
        arguments = (sample.input, sample.args, sample.kwargs)
        device = to_cuda(arguments)
        try:
            expected = op(arguments[0], *arguments[1], **arguments[2])
        except Exception:
            continue
        try:
            got = op(device[0], *device[1], **device[2])
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {str(error).splitlines()[0][:160]} ({where.name})"
        if any(word in op.name for word in RANDOM):
            continue
        if problem := same(expected, got):
            return problem
        if grad and (problem := gradients(arguments, expected, device, got)):
            return problem
    return None


def gradients(host: Any, expected: Any, device: Any, got: Any) -> str | None:
    def total(value: Any) -> torch.Tensor | None:
        parts = [
            x.sum() if not x.is_complex() else x.abs().sum()
            for x in tree_flatten(value)[0]
            if isinstance(x, torch.Tensor) and x.requires_grad and x.layout is torch.strided
        ]
        return sum(parts[1:], parts[0]) if parts else None

    def leaves(value: Any) -> list[torch.Tensor]:
        return [
            x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor) and x.requires_grad
        ]

    on_host, on_device = total(expected), total(got)
    if on_host is None:
        return None
    if on_device is None:
        return "no gradient on cuda"
    try:
        wanted = torch.autograd.grad(on_host, leaves(host), allow_unused=True)
    except Exception:
        return None
    try:
        given = torch.autograd.grad(on_device, leaves(device), allow_unused=True)
    except Exception as error:
        return f"backward: {type(error).__name__}: {str(error).splitlines()[0][:160]}"
    problem = same(wanted, given)
    return f"backward: {problem}" if problem else None


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    results: collections.Counter[str] = collections.Counter()
    for op in op_db:
        name = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
        if not fnmatch.fnmatch(name, pattern):
            continue
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            if dtype not in op.dtypes:
                continue
            try:
                problem = check(op, dtype)
            except Exception as error:
                results["not run"] += 1
                print(f"NOT RUN {name} {dtype}: {type(error).__name__}", flush=True)
                continue
            results["failed" if problem else "passed"] += 1
            if problem:
                print(f"FAILED {name} {dtype}: {problem}", flush=True)
    print(dict(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
