"""Between the host and the device that computes: the only ways that a step's numbers take.

A GPU works through a queue. Copies to it are put into that queue, and nobody waits; whoever wants to read a result has
to wait until all that was queued before is done. A step may do that once, at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def to_device(
    values: npt.NDArray[np.integer] | Sequence[int], device: torch.device, dtype: type[np.integer] = np.int64
) -> Tensor:
    """Copies integers of any shape to ``device`` as ``dtype``, without waiting for it.

    From ordinary memory CUDA would copy at once, after waiting for its queue; so they go through pinned memory.
    """
    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=dtype))
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def to_host(*tensors: Tensor) -> list[Tensor]:
    """Copies tensors to the host, and waits for all that their device has queued: once, also where they are empty."""
    copies = [tensor.to("cpu", non_blocking=tensor.is_cuda) for tensor in tensors]
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    return copies
