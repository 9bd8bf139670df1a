"""Role `submission` (untrusted): imports a kernel file and calls its `solve` on placed inputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from mkb_shim import native

from .describe import Json, RequestError, describe, place
from .load import load_file
from .tape import Segments

#: The folder of the CuTe DSL's packages, for its submissions alone.
CUTE = Path(__file__).parent.parent / "cute"


class Submission:
    """One kernel file; one draw at a time."""

    def __init__(self, segments: Segments, dsl: str | None) -> None:
        self.segments = segments
        self.solve: Any = None
        self.inputs: list[Any] | None = None
        self.outputs: Any = None
        self.kept: list[Any] = []
        if dsl == "cutedsl":
            if str(CUTE) not in sys.path:
                sys.path.insert(0, str(CUTE))
        elif dsl == "tirx":
            import mkb_tirx

            mkb_tirx.install()

    def do_import(self, request: Json) -> Json:
        module = load_file(request["path"], "kernel")
        solve = getattr(module, "solve", None)
        if not callable(solve):
            raise AttributeError("the file defines no function `solve`")
        self.solve = solve
        return {"tape": self.segments.cut()}

    def place(self, request: Json) -> Json:
        with native.unpoisoned():
            self.inputs = [place(value) for value in request["inputs"]]
        return {"inputs": [describe(value, self.kept) for value in self.inputs]}

    def call(self, _request: Json) -> Json:
        if self.solve is None:
            raise RequestError("nothing is imported")
        if self.inputs is None:
            raise RequestError("no inputs are placed")
        self.outputs = None
        self.segments.begin(self.inputs)
        outputs = self.solve(*self.inputs)
        torch.cuda.synchronize()
        self.outputs = outputs
        self.segments.end(outputs)
        return {"outputs": describe(outputs, self.kept), "tape": self.segments.cut()}

    def release(self, _request: Json) -> Json:
        self.inputs = self.outputs = None
        self.kept.clear()
        native.library().mkb_memory_trim()
        return {}
