"""From the host to where the model computes: the only way that a step's integers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def to_device(values: npt.NDArray[Any] | Sequence[Any], device: torch.device) -> Tensor:
    """Copies numbers to ``device`` without waiting for what it is computing.

    Args:
        values: an array, or a list or nested lists of integers; integers become int64.
        device: where the tensor shall live. A CUDA device copies from pinned memory by itself, in the order of its
            queue; from ordinary memory the host would have to wait for all that the queue still holds.
    """
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        array = array.astype(np.int64, copy=False)
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
