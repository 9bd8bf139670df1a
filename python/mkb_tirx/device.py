"""The task's device, as the file named in MKB_DEVICE_INFO describes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DeviceInfo:
    """What TVM asks a CUDA device for."""

    name: str
    #: (major, minor) compute capability.
    capability: tuple[int, int]
    sm_count: int
    #: Bytes.
    shared_per_block: int
    total_memory: int
    l2_bytes: int
    clock_khz: int

    @property
    def arch(self) -> str:
        """The target's `arch`: `sm_100a`, `sm_90a`."""
        major, minor = self.capability
        number = 10 * major + minor
        return f"sm_{number}a" if number >= 90 else f"sm_{number}"


def device_info() -> DeviceInfo:
    """The device of this process; a B200 where nothing says otherwise."""
    fields: dict[str, object] = {}
    path = os.environ.get("MKB_DEVICE_INFO")
    if path:
        fields = json.loads(Path(path).read_text(encoding="utf-8"))

    def number(key: str, default: int) -> int:
        value = fields.get(key, default)
        if not isinstance(value, int):
            raise ValueError(f"{path}: field {key!r} is not an integer: {value!r}")
        return value

    return DeviceInfo(
        name=str(fields.get("name", "NVIDIA B200")),
        capability=(number("major", 10), number("minor", 0)),
        sm_count=number("sm_count", 148),
        shared_per_block=number("shared_per_block_optin", 232_448),
        total_memory=number("total_memory", 192_000_000_000),
        l2_bytes=number("l2_bytes", 132_644_864),
        clock_khz=number("clock_khz", 1_965_000),
    )
