"""TVM's own lowering of a TIRx module, up to where its CUDA code generator would start."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import tvm
from tvm.tirx.build import split_host_device_mods

from .device import device_info

ENVELOPE_VERSION = 1

#: Lowered forms of the envelopes that this process made last: `install`'s build has them already.
_recent: OrderedDict[bytes, bytes] = OrderedDict()
_KEPT = 8


@dataclass(frozen=True)
class Lowered:
    """A module after TVM's pipeline."""

    host: tvm.IRModule
    device: tvm.IRModule


def make_envelope(mod: tvm.IRModule, target: tvm.target.Target, pipeline: str | None) -> bytes:
    """The module before lowering, with all that its lowering depends on (tape format 2)."""
    config = tvm.transform.PassContext.current().config
    envelope = {
        "mkb_tirx_source": ENVELOPE_VERSION,
        "module": tvm.ir.save_json(mod),
        "target": tvm.ir.save_json(target),
        "pipeline": pipeline,
        "config": {str(name): _plain(str(name), value) for name, value in config.items()},
        "tvm": tvm.__version__,
    }
    return json.dumps(envelope).encode()


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    raise TypeError(f"the pass option {name!r} of type {type(value).__name__} is not supported")


def lower_module(mod: tvm.IRModule, target: tvm.target.Target, pipeline: str | None) -> Lowered:
    """Runs the pipeline and the finalising passes on the host's and the device's functions."""
    target = target.with_host(tvm.target.Target("llvm"))
    with target:
        mod = tvm.tirx.transform.BindTarget(target)(mod)
        if pipeline is None:
            made = tvm.tirx.get_default_tir_pipeline(target)
        else:
            made = tvm.tirx.get_tir_pipeline(pipeline)
        passes, finalize_host, finalize_device = made
        host, by_target = split_host_device_mods(passes(mod))
        host = finalize_host()(host)
        devices = [finalize_device()(device) for device in by_target.values()]
    if len(devices) > 1:
        raise ValueError("a module with functions for several devices is not supported")
    return Lowered(host, devices[0] if devices else tvm.IRModule({}))


def lower(envelope: bytes) -> bytes:
    """The device module of an envelope, in the form that the virtual GPU translates (format 1).

    Raises `ValueError` for bytes that are no envelope of this version, and what TVM raises for a
    module that it cannot lower.
    """
    key = sha256(envelope).digest()
    if (known := _recent.get(key)) is not None:
        return known
    fields = json.loads(envelope)
    if not isinstance(fields, dict) or fields.get("mkb_tirx_source") != ENVELOPE_VERSION:
        raise ValueError("not a TIRx module envelope of this version")
    if fields["tvm"] != tvm.__version__:
        raise ValueError(f"the module was made by TVM {fields['tvm']}; here is {tvm.__version__}")
    mod = tvm.ir.load_json(fields["module"])
    target = tvm.ir.load_json(fields["target"])
    if not isinstance(mod, tvm.IRModule) or not isinstance(target, tvm.target.Target):
        raise ValueError("the envelope holds no module and target")
    with tvm.transform.PassContext(config=fields["config"]):
        lowered = lower_module(mod, target, fields["pipeline"])
    return remember(envelope, device_json(lowered.device))


def remember(envelope: bytes, lowered: bytes) -> bytes:
    """Keeps the lowered form of an envelope that was just made; gives it back."""
    _recent[sha256(envelope).digest()] = lowered
    while len(_recent) > _KEPT:
        _recent.popitem(last=False)
    return lowered


def device_json(device: tvm.IRModule) -> bytes:
    """A lowered device module as JSON; infinities and NaN, which JSON has not, as strings."""
    text = tvm.ir.save_json(device)
    graph = json.loads(text)
    for node in graph["nodes"]:
        if node["type"] == "ir.FloatImm":
            value = float(node["data"]["value"])
            if value != value or value in (float("inf"), float("-inf")):
                node["data"]["value"] = repr(value)
    graph.pop("metadata", None)
    envelope = {"mkb_tirx": ENVELOPE_VERSION, "graph": graph}
    return json.dumps(envelope, separators=(",", ":"), allow_nan=False).encode()


def check_arch(target: tvm.target.Target) -> None:
    """Refuses a target whose code would not run on the task's device."""
    wanted, info = str(target.attrs.get("arch", "")), device_info()
    digits = "".join(c for c in wanted.removeprefix("sm_") if c.isdigit())
    own = 10 * info.capability[0] + info.capability[1]
    exact = wanted[-1:].isalpha()
    if not digits or int(digits) > own or (exact and wanted != info.arch):
        raise ValueError(
            f"code for {wanted or 'no arch'} does not run on {info.name} ({info.arch})"
        )
