"""The benchmark's rule of agreement, for tests: integers are equal; a float is at most three times
as far from the float64 anchor as the reference is, or three units of its dtype's precision."""

import numpy as np
import torch
from numpy.typing import NDArray


def exact(tensor: torch.Tensor) -> NDArray[np.float64]:
    """The values of a floating tensor (every one is a float64 too)."""
    return tensor.double().numpy()


def excess(actual: NDArray[np.float64], reference: torch.Tensor, anchor: torch.Tensor) -> float:
    """How far a floating output stands from the anchor, over what is allowed: at most 1 passes."""
    assert actual.shape == tuple(reference.shape) == tuple(anchor.shape)
    target = exact(anchor)
    reference_error = np.abs(exact(reference) - target).max()
    floor = torch.finfo(reference.dtype).eps * np.abs(target).max()
    return float(np.abs(actual - target).max() / (3 * max(reference_error, floor)))


def relative_error(actual: NDArray[np.float64], anchor: torch.Tensor) -> float:
    """The largest difference from the anchor, over the anchor's largest value."""
    target = exact(anchor)
    return float(np.abs(actual - target).max() / np.abs(target).max())
