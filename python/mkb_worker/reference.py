"""Role `reference` (trusted): draws inputs, runs the reference and its float64 anchor."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import torch

from mkb_shim import native

from .describe import Json, RequestError, describe
from .load import load_file
from .numerics import pinned, seeded
from .tape import Segments

#: Top-level inputs of these types become float64 for the anchor.
_WIDENED = (torch.float32, torch.float16, torch.bfloat16)


class Reference:
    """One problem; one draw at a time."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        self.problem: ModuleType | None = None
        self.inputs: list[Any] | None = None
        self.kept: list[Any] = []

    def load(self, request: Json) -> Json:
        workload = request.get("workload", "full")
        if workload not in ("full", "reduced"):
            raise RequestError(f"the workload is full or reduced, not {workload!r}")
        problem = load_file(request["path"], "problem")
        if workload == "reduced":
            _reduce(problem)
        self.release({})
        self.problem = problem
        parameters = list(inspect.signature(problem.reference).parameters)
        mutable = list(getattr(problem, "MUTABLE_INPUTS", ()))
        if unknown := set(mutable) - set(parameters):
            raise RequestError(f"MUTABLE_INPUTS names no parameter: {', '.join(sorted(unknown))}")
        return {"parameters": parameters, "mutable_inputs": mutable}

    def draw(self, request: Json) -> Json:
        problem = self._problem()
        self.release({})
        with pinned(), seeded(int(request["seed"])), native.unpoisoned():
            inputs = problem.make_inputs()
        if type(inputs) is not list:
            raise RequestError(f"make_inputs returned {type(inputs).__qualname__}, not a list")
        self.inputs = inputs
        return {"inputs": [describe(value, self.kept) for value in inputs]}

    def reference(self, _request: Json) -> Json:
        inputs = [_copy(value) for value in self._inputs()]
        self.segments.skip()
        self.segments.begin(inputs)
        with pinned():
            outputs = self._problem().reference(*inputs)
        torch.cuda.synchronize()
        self.segments.end(outputs)
        self.kept.append((inputs, outputs))
        return {
            "outputs": describe(outputs, self.kept),
            "inputs": [describe(value, self.kept) for value in inputs],
            "tape": self.segments.cut(),
        }

    def anchor(self, _request: Json) -> Json:
        # What reads memory that nobody wrote shows in the reference itself: its memory is poisoned.
        with pinned(), native.unpoisoned():
            inputs = [_widen(_copy(value)) for value in self._inputs()]
            outputs = self._problem().reference(*inputs)
        self.segments.skip()
        self.kept.append(outputs)
        return {"outputs": describe(outputs, self.kept)}

    def release(self, _request: Json) -> Json:
        self.inputs = None
        self.kept.clear()
        self.segments.skip()
        native.library().mkb_memory_trim()
        return {}

    def _problem(self) -> ModuleType:
        if self.problem is None:
            raise RequestError("no problem is loaded")
        return self.problem

    def _inputs(self) -> list[Any]:
        if self.inputs is None:
            raise RequestError("no inputs are drawn")
        return self.inputs


def _reduce(problem: ModuleType) -> None:
    """Gives the module the constants of its reduced workload."""
    reduced = getattr(problem, "REDUCED", None)
    if not isinstance(reduced, dict):
        raise RequestError("the problem declares no reduced workload (REDUCED)")
    for name, value in reduced.items():
        if not hasattr(problem, name):
            raise RequestError(f"REDUCED names {name}, which the problem does not define")
        setattr(problem, name, value)


def _copy(value: Any) -> Any:
    """A copy with memory of its own and the same strides, overlapping ones included."""
    if isinstance(value, torch.Tensor):
        if value.numel() == 0:
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )
        span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
        flat = value.as_strided((span,), (1,), value.storage_offset()).clone()
        return flat.as_strided(value.shape, value.stride(), 0)
    if type(value) is list or type(value) is tuple:
        return type(value)(_copy(item) for item in value)
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    return value


def _widen(value: Any) -> Any:
    if type(value) is torch.Tensor and value.dtype in _WIDENED:
        return value.to(torch.float64)
    return value
