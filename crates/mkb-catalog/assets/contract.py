"""The correctness contract that submissions are judged by, to read and to try things with.

The judge has its own implementation; this file is a statement of the rule, not a part of it.

    mismatch = compare(actual, reference, anchor)   # None where the outputs agree

`reference` is what the task's reference returns, `anchor` what it returns on inputs whose
float32, float16 and bfloat16 tensors were converted to float64.
"""

import math

import torch

Output = torch.Tensor | list | tuple | dict | int | float | bool | str | None


def compare(actual: Output, reference: Output, anchor: Output, path: str = "output") -> str | None:
    """Say where and how `actual` breaks the contract, or None where it keeps it."""
    if type(actual) is not type(reference):
        return f"{path}: a {type(actual).__name__}, not a {type(reference).__name__}"
    if isinstance(reference, list | tuple):
        if len(actual) != len(reference):
            return f"{path}: {len(actual)} items, not {len(reference)}"
        keys: list = list(range(len(reference)))
    elif isinstance(reference, dict):
        if actual.keys() != reference.keys():
            return f"{path}: keys {list(actual)}, not {list(reference)}"
        keys = list(reference)
    elif isinstance(reference, torch.Tensor):
        return _compare_tensors(actual, reference, anchor, path)
    else:
        return None if actual == reference else f"{path}: {actual!r}, not {reference!r}"
    for key in keys:
        mismatch = compare(actual[key], reference[key], anchor[key], f"{path}[{key!r}]")
        if mismatch is not None:
            return mismatch
    return None


def _compare_tensors(
    actual: torch.Tensor, reference: torch.Tensor, anchor: torch.Tensor, path: str
) -> str | None:
    for what in ("shape", "dtype", "device"):
        if getattr(actual, what) != getattr(reference, what):
            return f"{path}: {what} {getattr(actual, what)}, not {getattr(reference, what)}"
    if actual.numel() == 0:
        return None
    if not reference.dtype.is_floating_point:
        wrong = int((actual != reference).sum())
        return f"{path}: {wrong} of {actual.numel()} elements differ" if wrong else None
    values, expected = actual.double(), anchor.double()
    if bool(values.isnan().any()):
        return f"{path}: NaN in {int(values.isnan().sum())} elements"
    overflowed = reference.double().isinf() & ~expected.isinf()
    must_be = expected.isinf()
    may_be = must_be | (overflowed & (values == reference.double()))
    wrong_inf = (must_be & (values != expected)) | (values.isinf() & ~may_be)
    if bool(wrong_inf.any()):
        return f"{path}: {int(wrong_inf.sum())} elements are infinite where they must not be"
    known = ~(must_be | overflowed)
    reference_error = _largest((reference.double() - expected)[known])
    floor = torch.finfo(reference.dtype).eps * _largest(expected[known])
    allowance = 3.0 * max(reference_error, floor)
    error = (values - expected).abs()[~values.isinf()]
    excess = error > allowance
    if bool(excess.any()):
        return (
            f"{path}: off by {_largest(error):.3g} where {allowance:.3g} is allowed, "
            f"in {int(excess.sum())} of {actual.numel()} elements"
        )
    return None


def _largest(values: torch.Tensor) -> float:
    largest = float(values.abs().max()) if values.numel() else 0.0
    return largest if math.isfinite(largest) else math.inf
