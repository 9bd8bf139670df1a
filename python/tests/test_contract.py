"""The contract that agents read says what the protocol says."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

ASSETS = Path(__file__).parents[2] / "crates/mkb-catalog/assets"
INF = float("inf")


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("contract", ASSETS / "contract.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


contract = _load()


def f32(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def f64(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_allowance_is_three_times_the_references_own_error() -> None:
    reference, anchor = f32(1.0, 2.001), f64(1.0, 2.0)
    assert contract.compare(f32(1.0, 2.0029), reference, anchor) is None
    assert "off by" in contract.compare(f32(1.0, 2.0031), reference, anchor)


def test_allowance_is_at_least_three_steps_at_the_largest_magnitude() -> None:
    reference = torch.tensor([1.0, 128.0], dtype=torch.bfloat16)
    anchor = reference.double()
    near = torch.tensor([3.96875, 128.0], dtype=torch.bfloat16)
    far = torch.tensor([4.03125, 128.0], dtype=torch.bfloat16)
    assert contract.compare(near, reference, anchor) is None
    assert contract.compare(far, reference, anchor) is not None


def test_more_accurate_than_the_reference_passes() -> None:
    assert contract.compare(f32(1.0), f32(1.5), f64(1.0)) is None


def test_nan_never_passes() -> None:
    nan = float("nan")
    assert "NaN" in contract.compare(f32(nan), f32(nan), f64(nan))


@pytest.mark.parametrize(
    ("actual", "reference", "anchor", "agrees"),
    [
        (INF, INF, INF, True),
        (-INF, INF, INF, False),
        (1.0, INF, INF, False),
        (INF, INF, 7.0, True),
        (7.0, INF, 7.0, True),
        (1.0, INF, 7.0, False),
        (INF, 7.0, 7.0, False),
    ],
)
def test_infinities(actual: float, reference: float, anchor: float, agrees: bool) -> None:
    outcome = contract.compare(f32(actual, 1.0), f32(reference, 1.0), f64(anchor, 1.0))
    assert (outcome is None) == agrees


def test_integers_and_booleans_are_equal_or_not() -> None:
    whole = torch.tensor([1, 2])
    assert contract.compare(whole, whole.clone(), whole) is None
    assert "1 of 2" in contract.compare(torch.tensor([1, 3]), whole, whole)


def test_shape_dtype_and_containers_must_agree() -> None:
    one = f32(1.0)
    anchor = f64(1.0)
    assert "dtype" in contract.compare(anchor, one, anchor)
    assert "shape" in contract.compare(f32(1.0, 1.0), one, anchor)
    assert "a list, not a tuple" in contract.compare([one], (one,), (anchor,))
    assert "2 items, not 1" in contract.compare((one, one), (one,), (anchor,))
    assert contract.compare({"a": one, "b": 1}, {"b": 1, "a": one}, {"b": 1, "a": anchor}) is None
    assert "output['b'][0]" in contract.compare({"b": [f32(9.0)]}, {"b": [one]}, {"b": [anchor]})


def test_nothing_to_compare_passes_only_where_nothing_is_expected() -> None:
    empty = torch.empty(0)
    assert contract.compare(empty, empty, empty.double()) is None
    assert contract.compare(empty, f32(1.0), f64(1.0)) is not None
    assert contract.compare(None, f32(1.0), f64(1.0)) is not None


def test_zeros_do_not_pass_for_something() -> None:
    reference = torch.randn(64, dtype=torch.float32)
    assert contract.compare(torch.zeros(64), reference, reference.double()) is not None
