"""TVM's own lowering of a TIRx module, up to where its CUDA code generator would start."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm.tirx.build import split_host_device_mods

ENVELOPE_VERSION = 1


def device_target(info: dict[str, Any]) -> tvm.target.Target:
    """The target that a bare ``cuda`` means for the device that ``info`` describes."""
    return tvm.target.Target({"kind": "cuda", "arch": info["arch"]})


def make_envelope(mod: tvm.IRModule, target: tvm.target.Target, pipeline: str) -> bytes:
    """The module before lowering, with all that its lowering depends on (tape format 2)."""
    config = tvm.ir.transform.PassContext.current().config
    options = {name: _plain(value) for name, value in config.items()}
    envelope = {
        "mkb_tirx_source": ENVELOPE_VERSION,
        "module": tvm.ir.save_json(mod),
        "target": tvm.ir.save_json(target),
        "pipeline": pipeline,
        "config": options,
        "tvm": tvm.__version__,
    }
    return json.dumps(envelope).encode()


def _plain(value: Any) -> Any:
    """A pass option as JSON; options that are objects are not carried."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    raise TypeError(f"a pass option of type {type(value).__name__} cannot be handed over")


class Lowered:
    """A module after TVM's pipeline: the host's functions, and the device's."""

    def __init__(self, host: tvm.IRModule, device: tvm.IRModule) -> None:
        self.host = host
        self.device = device


def lower_module(mod: tvm.IRModule, target: tvm.target.Target, pipeline: str) -> Lowered:
    """Runs the pipeline and the finalising passes on host and device functions."""
    target = target.with_host(tvm.target.Target("llvm"))
    with target:
        mod = tvm.tirx.transform.BindTarget(target)(mod)
        passes, finalize_host, finalize_device = tvm.tirx.get_tir_pipeline(pipeline)
        host, by_target = split_host_device_mods(passes(mod))
        host = finalize_host()(host)
        devices = [finalize_device()(device) for device in by_target.values()]
    if not devices:
        devices = [tvm.IRModule({})]
    if len(devices) > 1:
        raise ValueError("a module for several devices: compile its parts one by one")
    return Lowered(host, devices[0])


def open_envelope(envelope: bytes) -> tuple[tvm.IRModule, tvm.target.Target, str, dict[str, Any]]:
    """Reads what :func:`make_envelope` wrote."""
    fields = json.loads(envelope)
    if fields.get("mkb_tirx_source") != ENVELOPE_VERSION:
        raise ValueError("not a TIRx module envelope of this version")
    mod = tvm.ir.load_json(fields["module"])
    target = tvm.ir.load_json(fields["target"])
    return mod, target, fields["pipeline"], fields["config"]


def lower(envelope: bytes) -> bytes:
    """The device module of an envelope, in the form that the virtual GPU translates (format 1)."""
    mod, target, pipeline, config = open_envelope(envelope)
    with tvm.transform.PassContext(config=config):
        lowered = lower_module(mod, target, pipeline)
    return device_json(lowered.device)


def device_json(device: tvm.IRModule) -> bytes:
    """A lowered device module as JSON; infinities and NaN, which JSON has not, as strings."""
    graph = json.loads(tvm.ir.save_json(device))
    for node in graph["nodes"]:
        if node["type"] == "ir.FloatImm":
            value = node["data"]["value"]
            if value != value or value in (float("inf"), float("-inf")):
                node["data"]["value"] = repr(float(value))
    graph.pop("metadata", None)
    envelope = {"mkb_tirx": ENVELOPE_VERSION, "files": [], "graph": graph}
    return json.dumps(envelope, separators=(",", ":"), allow_nan=False).encode()
