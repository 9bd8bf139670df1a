"""Values as they cross the control socket (JSON): described, and placed in the arena again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from mkb_shim.native import TapeError
from mkb_shim.values import DEEPEST, Other, Pairs, TensorAt, is_plain_tensor, type_name

Json = dict[str, Any]


class RequestError(Exception):
    """The driver's request is not as the protocol says."""


def describe(value: Any, keep: list[Any], depth: int = 0) -> Json:
    """A value that a problem or a submission returned.

    Memory that had to be made for the description is put in `keep`, whose owner lets it live.
    """
    if depth > DEEPEST:
        return {"t": "other", "type": f"nested deeper than {DEEPEST}"}
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value, keep)
    if value is None:
        return {"t": "none"}
    if kind is bool:
        return {"t": "bool", "v": value}
    if kind is int:
        return {"t": "int", "v": value}
    if kind is float:
        return {"t": "float", "v": value.hex()}
    if kind is str:
        return {"t": "str", "v": value}
    if kind is list or kind is tuple:
        return {"t": kind.__name__, "items": [describe(item, keep, depth + 1) for item in value]}
    if kind is dict:
        items = [
            [describe(key, keep, depth + 1), describe(item, keep, depth + 1)]
            for key, item in value.items()
        ]
        return {"t": "dict", "items": items}
    return {"t": "other", "type": type_name(value)}


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")


def _describe_tensor(tensor: torch.Tensor, keep: list[Any]) -> Json:
    with torch._C.DisableTorchFunctionSubclass():
        if not is_plain_tensor(tensor):
            return _describe_odd_tensor(tensor)
        # Conjugation and negation are flags on the memory: what is read there must be the value.
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
            keep.append(tensor)
        return {
            "t": "tensor",
            "dtype": dtype_name(tensor.dtype),
            "shape": list(tensor.shape),
            "stride": list(tensor.stride()),
            "address": tensor.data_ptr(),
        }


def _describe_odd_tensor(tensor: torch.Tensor) -> Json:
    """One that is no plain tensor of the device: its outside, and no address."""
    described: Json = {"t": "tensor", "dtype": dtype_name(tensor.dtype), "shape": [], "stride": []}
    try:
        described["shape"] = [int(size) for size in tensor.shape]
        if tensor.layout is torch.strided:
            described["stride"] = [int(stride) for stride in tensor.stride()]
    except RuntimeError:
        pass  # nested and fake tensors have no such shape
    named = type(tensor) is not torch.Tensor or tensor.layout is not torch.strided
    if named:
        layout = "" if tensor.layout is torch.strided else f" ({tensor.layout})"
        described["type"] = type_name(tensor) + layout
    if tensor.device.type != "cuda" or not named:
        described["device"] = str(tensor.device)
    return described


def place(described: Any, depth: int = 0) -> Any:
    """The value described, its tensors in fresh memory for the driver to fill."""
    if not isinstance(described, dict) or depth > DEEPEST:
        raise RequestError("a value is no object, or nested too deep")
    v = described.get("v")
    match described.get("t"):
        case "tensor":
            return _place_tensor(described)
        case "none":
            return None
        case "bool" if isinstance(v, bool):
            return v
        case "int" if isinstance(v, int):
            return v
        case "float" if isinstance(v, str):
            return float.fromhex(v)
        case "str" if isinstance(v, str):
            return v
        case "list":
            return [place(item, depth + 1) for item in described["items"]]
        case "tuple":
            return tuple(place(item, depth + 1) for item in described["items"])
        case "dict":
            return {
                place(key, depth + 1): place(item, depth + 1) for key, item in described["items"]
            }
        case kind:
            raise RequestError(f"a value of kind {kind!r} cannot be placed")


def _place_tensor(described: Json) -> torch.Tensor:
    dtype = getattr(torch, str(described.get("dtype")), None)
    if not isinstance(dtype, torch.dtype):
        raise RequestError(f"unknown dtype {described.get('dtype')!r}")
    shape, stride = described["shape"], described["stride"]
    if len(shape) != len(stride):
        raise RequestError("shape and stride have different lengths")
    return torch.empty_strided(shape, stride, dtype=dtype, device="cuda")


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a placed value, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(key)
            yield from tensors(item)


def tape_tensors(value: Any) -> Iterator[TensorAt]:
    """The same of a value that was read from a tape."""
    if isinstance(value, TensorAt):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tape_tensors(item)
    elif isinstance(value, Pairs):
        for key, item in value.items:
            yield from tape_tensors(key)
            yield from tape_tensors(item)


def rebuild(value: Any, tensor_at: Callable[[TensorAt], torch.Tensor]) -> Any:
    """A tape's value with its tensors made by `tensor_at`; what has no form there stays `Other`."""
    if isinstance(value, TensorAt):
        return tensor_at(value)
    if isinstance(value, list):
        return [rebuild(item, tensor_at) for item in value]
    if isinstance(value, tuple):
        return tuple(rebuild(item, tensor_at) for item in value)
    if isinstance(value, Pairs):
        try:
            return {rebuild(k, tensor_at): rebuild(v, tensor_at) for k, v in value.items}
        except TypeError as error:
            raise TapeError(f"a dict's key cannot be one: {error}") from None
    return value


def describe_rebuilt(value: Any, keep: list[Any]) -> Json:
    """Like `describe`, for a tree that `rebuild` made."""
    if isinstance(value, Other):
        return {"t": "other", "type": value.type}
    if type(value) in (list, tuple):
        return {
            "t": type(value).__name__,
            "items": [describe_rebuilt(item, keep) for item in value],
        }
    if type(value) is dict:
        items = [[describe_rebuilt(k, keep), describe_rebuilt(v, keep)] for k, v in value.items()]
        return {"t": "dict", "items": items}
    return describe(value, keep)
