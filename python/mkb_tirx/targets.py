"""A CUDA target without an architecture means the task's device."""

from __future__ import annotations

import json
from typing import Any

import tvm

from .device import device_info


def with_arch(target: Any) -> Any:
    """`target` as it was given to `Target(...)`, with the device's `arch` where it names none."""
    if isinstance(target, str):
        text = target.strip()
        if text == "cuda":
            return {"kind": "cuda", "arch": device_info().arch}
        if text.startswith("{"):
            try:
                fields = json.loads(text)
            except ValueError:
                return target
            return with_arch(fields)
        return target
    if isinstance(target, dict) and target.get("kind") == "cuda" and "arch" not in target:
        return {**target, "arch": device_info().arch}
    return target


def patch_target() -> None:
    """Makes bare CUDA targets and `Target.from_device` know the device."""
    original = tvm.target.Target.__init__
    detect = tvm.target.Target.from_device

    def init(self: tvm.target.Target, target: Any, host: Any = None) -> None:
        original(self, with_arch(target), with_arch(host))

    def from_device(device: Any) -> tvm.target.Target:
        name = device if isinstance(device, str) else str(device)
        return tvm.target.Target("cuda") if name.startswith("cuda") else detect(device)

    tvm.target.Target.__init__ = init
    tvm.target.Target.from_device = staticmethod(from_device)
