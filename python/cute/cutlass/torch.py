"""Owns `cutlass.torch`: the passage between torch's types and tensors and the DSL's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from . import _numeric as numeric
from ._errors import DSLTypeError
from .cute.runtime import _TORCH_TYPES, _FakeStream, _Tensor, from_dlpack, make_fake_stream

_BY_NAME = {
    kind: getattr(torch, name.split(".")[1])
    for name, kind in _TORCH_TYPES.items()
    if hasattr(torch, name.split(".")[1])
}


def dtype(ty: Any) -> torch.dtype:
    """The torch type of a numeric type."""
    found = _BY_NAME.get(ty)
    if found is None and ty is numeric.TFloat32:
        found = torch.float32
    if found is None:
        raise DSLTypeError(f"{ty} has no torch type")
    return found


def as_tensor(pointer: Any, shape: Any, torch_type: torch.dtype) -> torch.Tensor:
    """A torch tensor over the memory of a runtime pointer's tensor."""
    source = getattr(pointer, "_source", None)
    if source is None:
        raise DSLTypeError("as_tensor: the pointer comes from no torch tensor")
    return source.view(torch_type).reshape(shape)


def current_stream() -> _FakeStream:
    """torch's current stream; launches run in order here."""
    return make_fake_stream()


def default_stream() -> _FakeStream:
    """The default stream; launches run in order here."""
    return make_fake_stream()


class TensorInitType(Enum):
    """How a test tensor is filled."""

    SKIP = "skip"
    SCALAR = "scalar"
    RANDOM = "random"
    GAUSSIAN = "gaussian"


@dataclass
class ScalarInitConfig:
    """The value of a constant tensor."""

    value: float = 0.0


@dataclass
class RandomInitConfig:
    """The range of a random tensor of integers."""

    min_val: int = -2
    max_val: int = 2


@dataclass
class GaussianInitConfig:
    """Mean, deviation and scale of a normal tensor."""

    mean: float = 0.0
    std: float = 1.0
    scale: float = 1.0


def create_and_permute_torch_tensor(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    permute_order: tuple[int, ...] | None = None,
    init_type: TensorInitType = TensorInitType.RANDOM,
    init_config: Any = None,
    device: Any = None,
) -> torch.Tensor:
    """A filled test tensor with its dimensions permuted."""
    values = torch.empty(shape, dtype=torch.float32)
    if init_type is TensorInitType.SCALAR:
        values.fill_((init_config or ScalarInitConfig()).value)
    elif init_type is TensorInitType.RANDOM:
        config = init_config or RandomInitConfig()
        values.random_(config.min_val, config.max_val + 1)
    elif init_type is TensorInitType.GAUSSIAN:
        config = init_config or GaussianInitConfig()
        values.normal_(config.mean, config.std).mul_(config.scale)
    out = values.to(dtype)
    if permute_order is not None:
        out = out.permute(permute_order)
    return out.to(device) if device is not None else out


def matrix(
    l: int,  # noqa: E741
    mode0: int,
    mode1: int,
    is_mode0_major: bool,
    cutlass_dtype: Any,
    init_type: TensorInitType = TensorInitType.RANDOM,
    init_config: Any = None,
    device: Any = None,
) -> torch.Tensor:
    """A batch of test matrices of shape (mode0, mode1, l)."""
    shape = (l, mode1, mode0) if is_mode0_major else (l, mode0, mode1)
    order = (2, 1, 0) if is_mode0_major else (1, 2, 0)
    kind = dtype(cutlass_dtype)
    storage = torch.float32 if cutlass_dtype.width < 16 else kind
    return create_and_permute_torch_tensor(shape, storage, order, init_type, init_config, device)


def cute_tensor_like(
    data_ref: torch.Tensor,
    cutlass_dtype: Any,
    is_dynamic_layout: bool,
    assumed_align: int | None = None,
) -> tuple[_Tensor, torch.Tensor]:
    """A device copy of a tensor in the given type, and its view for the DSL."""
    torch_tensor = torch.empty_like(data_ref, dtype=dtype(cutlass_dtype), device="cuda")
    torch_tensor.copy_(data_ref.to(dtype(cutlass_dtype)))
    tensor = from_dlpack(torch_tensor, assumed_align=assumed_align)
    if is_dynamic_layout:
        leading = get_leading_dim(torch_tensor)
        tensor = tensor.mark_layout_dynamic(leading_dim=leading)
    return tensor, torch_tensor


def get_leading_dim(tensor: torch.Tensor) -> int | None:
    """The dimension of stride 1."""
    for i, stride in enumerate(tensor.stride()):
        if stride == 1:
            return i
    return None
