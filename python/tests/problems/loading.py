"""Loads problem files for tests on a machine without a GPU: smaller constants, CPU for "cuda"."""

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

PROBLEMS = Path(__file__).parents[3] / "problems"
_NAMES = itertools.count()


class OnCpu(TorchFunctionMode):
    """Within it, torch functions that are asked for the device "cuda" take the CPU."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class Problem:
    """A problem's module, with its reduced workload (and `changes` after it) applied."""

    def __init__(
        self, number: int, reduced: bool = True, path: Path | None = None, **changes: Any
    ) -> None:
        if path is None:
            (path,) = PROBLEMS.glob(f"*/{number:02d}_*.py")
        spec = importlib.util.spec_from_file_location(f"problem_{number}_{next(_NAMES)}", path)
        assert spec is not None and spec.loader is not None
        self.path = path
        self.module: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        for name, value in {**(self.module.REDUCED if reduced else {}), **changes}.items():
            assert hasattr(self.module, name), f"{path.name} has no constant {name}"
            setattr(self.module, name, value)

    def draw(self, seed: int) -> list[Any]:
        """The inputs that `make_inputs` draws for a seed."""
        with torch.random.fork_rng(devices=[]), OnCpu():
            torch.manual_seed(seed)
            return self.module.make_inputs()

    def reference(self, inputs: list[Any]) -> tuple[Any, ...]:
        """The reference's outputs, as a tuple even where there is one, on a copy of the inputs."""
        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
        outputs = self.module.reference(*copies)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    def anchor(self, inputs: list[Any]) -> tuple[Any, ...]:
        """The reference's outputs on the inputs with their floats (but fp8) widened to float64."""
        widened = (torch.float32, torch.float16, torch.bfloat16)
        return self.reference(
            [
                x.double() if isinstance(x, torch.Tensor) and x.dtype in widened else x
                for x in inputs
            ]
        )
