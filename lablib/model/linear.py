"""``y = x Wᵀ + b``: where most of a step's time goes, so the one place where weights are repacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Packing:
    """A way of keeping a weight in the order in which a CPU's matmul kernel reads it.

    Args:
        name: of the library that packs, and the type it keeps.
        bytes_per_weight: what the kernel reads from memory for each weight.
        multiple_of: input features are kept in so many at a time; what fills the last of them is not read.
        pack: makes the packed copy of ``weight`` ``[out_features, in_features]`` and ``bias``; not always a tensor.
        multiply: ``multiply(x, packed, bias)``.
    """

    name: str
    bytes_per_weight: int
    multiple_of: int
    pack: Callable[[Tensor, Tensor | None], Any]
    multiply: Callable[[Tensor, Any, Tensor | None], Tensor]


class Linear:
    """A linear layer whose weight is packed once, in the order in which the CPU's matmul kernel reads it.

    ``F.linear`` has to arrange the weight anew in every call. Packing once made a decode step's linear layers
    1.4 × (bf16) to 2.4 × (float32) faster on two AVX-512 cores.

    A decode step waits for its weights, and a CPU without AVX-512 computes in float32. There float32 weights that fp16
    holds exactly, as it does a bf16 checkpoint's, are kept in half the bytes and widened in registers: the same
    products, 2 to 3 × sooner at batch 8 and 1.3 to 1.8 × at batch 32 (``benchmarks/linear.py --avx2``).

    Both use operators that PyTorch keeps for other purposes; where they are missing, ``F.linear`` computes the same.

    Args:
        weight: ``[out_features, in_features]``; only its packed copy is kept where packing pays.
        bias: ``[out_features]`` or None.

    Attributes:
        packing: how the weight is kept; None: as it is.
        num_weights: ``out_features × in_features``.
        bytes_per_weight: what a call reads from memory for each of them.
        nbytes: size of what is kept of the weight.
    """

    __slots__ = ("bias", "bytes_per_weight", "nbytes", "num_weights", "packing", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.bias = bias
        self.packing = _best_packing(weight)
        self.weight = self.packing.pack(weight, bias) if self.packing else weight.contiguous()
        self.num_weights = weight.numel()
        self.bytes_per_weight = self.packing.bytes_per_weight if self.packing else weight.element_size()
        multiple_of = self.packing.multiple_of if self.packing else 1
        out_features, in_features = weight.shape
        self.nbytes = out_features * -(-in_features // multiple_of) * multiple_of * self.bytes_per_weight

    def __call__(self, x: Tensor) -> Tensor:
        """Maps ``[num_tokens, in_features]`` to ``[num_tokens, out_features]``."""
        if self.packing:
            return self.packing.multiply(x, self.weight, self.bias)
        return F.linear(x, self.weight, self.bias)


def _pack_onednn(weight: Tensor, bias: Tensor | None) -> Any:
    # no batch size given: weights packed for batch 1 are up to 1.5 × slower at every other size
    return torch.ops.mkldnn._reorder_linear_weight(weight, None)


def _multiply_onednn(x: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return out


def _pack_fbgemm(weight: Tensor, bias: Tensor | None) -> Any:
    return torch.ops.quantized.linear_prepack_fp16(weight, bias)


def _multiply_fbgemm(x: Tensor, packed: Any, bias: Tensor | None) -> Tensor:
    out: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, packed)
    return out


ONEDNN = {
    dtype: Packing(f"oneDNN, {name}", dtype.itemsize, 1, _pack_onednn, _multiply_onednn)
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bf16"))
}
FBGEMM = Packing("FBGEMM, fp16", 2, 512, _pack_fbgemm, _multiply_fbgemm)


def _best_packing(weight: Tensor) -> Packing | None:
    if weight.device.type != "cpu" or weight.dtype not in ONEDNN:
        return None
    if _halves_pay() and weight.dtype == torch.float32 and _works(FBGEMM, weight.dtype) and _fits_halves(weight):
        return FBGEMM
    packing = ONEDNN[weight.dtype]
    return packing if _works(packing, weight.dtype) else None


def _halves_pay() -> bool:
    """Whether widening is the faster way: with AVX-512, oneDNN's float32 kernels are ahead from batch 32 on."""
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


def _fits_halves(weight: Tensor) -> bool:
    return torch.equal(weight.half().float(), weight)


@cache
def _works(packing: Packing, dtype: torch.dtype) -> bool:
    """Whether this PyTorch on this CPU packs weights of ``dtype`` so: tried on a tiny layer, whatever the version."""
    weight = torch.eye(16, dtype=dtype)
    try:
        out = packing.multiply(weight, packing.pack(weight, None), None)
    except (AttributeError, RuntimeError):
        return False
    return torch.equal(out, weight)
