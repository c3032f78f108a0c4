"""``y = x Wᵀ + b``: where most of a step's time goes, so the one place where weights are repacked."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

PACKABLE = (torch.float32, torch.bfloat16)


class Linear:
    """A linear layer whose weight is packed once, in the order in which the CPU's matmul kernel reads it.

    ``F.linear`` has to arrange the weight anew in every call. Packing once made a decode step's linear layers
    1.4 × (bf16) to 2.4 × (float32) faster on two AVX-512 cores. It uses operators that PyTorch keeps for
    ``torch.compile``; where they are missing, ``F.linear`` computes the same.

    Args:
        weight: ``[out_features, in_features]``; only its packed copy is kept where packing pays.
        bias: ``[out_features]`` or None.
    """

    __slots__ = ("bias", "packed", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.bias = bias
        self.packed = weight.device.type == "cpu" and weight.dtype in PACKABLE and _can_pack(weight.dtype)
        self.weight = _pack(weight) if self.packed else weight.contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """Maps ``[num_tokens, in_features]`` to ``[num_tokens, out_features]``."""
        if self.packed:
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
            return out
        return F.linear(x, self.weight, self.bias)


def _pack(weight: Tensor) -> Tensor:
    # no batch size given: weights packed for batch 1 are up to 1.5 × slower at every other size
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed


@cache
def _can_pack(dtype: torch.dtype) -> bool:
    """Whether this PyTorch on this CPU packs weights of ``dtype``: tried on a tiny layer, whatever the version."""
    weight = torch.eye(16, dtype=dtype)
    try:
        out = torch.ops.mkldnn._linear_pointwise(weight, _pack(weight), None, "none", [], "")
    except (AttributeError, RuntimeError):
        return False
    return torch.equal(out, weight)
