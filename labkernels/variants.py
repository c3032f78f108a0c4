"""How the kernels are compiled for two models: what ``python -m labkernels report`` compiles and looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .cache_write import cache_write_kernel
from .cache_write import launch_constants as write_constants
from .paged_decode import MERGED, merge_splits_kernel, paged_decode_kernel
from .paged_decode import launch_constants as decode_constants
from .paged_prefill import launch_constants as prefill_constants
from .paged_prefill import paged_prefill_kernel
from .sizes import Heads

TYPE_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
MODELS = (Heads(9, 3, 64, "SmolLM2-135M"), Heads(32, 8, 128, "Llama-3-8B"))
BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel with everything fixed that its launcher fixes.

    Args:
        kernel: the function that Triton compiles.
        dtype: of the cache.
        heads: of the model.
        types: Triton's type of every argument that is passed when the kernel runs; ``*bf16`` is a pointer.
        constants: the values of its ``tl.constexpr`` arguments.
        num_warps: warps that share a program.
        num_stages: turns whose loads are under way at once, the running one included.
        note: what else sets it apart.
    """

    kernel: Any
    dtype: torch.dtype
    heads: Heads
    types: dict[str, str]
    constants: dict[str, Any]
    num_warps: int = 4
    num_stages: int = 3
    note: str = ""

    @property
    def aligned(self) -> list[str]:
        """Arguments that are divisible by 16 in every launch, which is what makes wide loads possible."""
        strides = ("q_stride", "k_stride", "v_stride", "slot_stride")
        return [name for name, kind in self.types.items() if kind.startswith("*") or name in strides]


def variants(dtype: torch.dtype, capability: int) -> list[Variant]:
    """Every kernel as it is compiled for each model on GPUs of one compute capability, in blocks of ``BLOCK_SIZE``."""
    return [variant for heads in MODELS for variant in _variants(dtype, heads, capability)]


def _variants(dtype: torch.dtype, heads: Heads, capability: int) -> list[Variant]:
    pointer = f"*{TYPE_NAMES[dtype]}"
    types = dict.fromkeys(("k_ptr", "v_ptr", "q_ptr", "k_cache_ptr", "v_cache_ptr", "out_ptr"), pointer)
    types |= dict.fromkeys(("block_tables_ptr", "context_lens_ptr"), "*i32")
    types |= dict.fromkeys(("query_rows_ptr", "query_lens_ptr", "starts_ptr"), "*i32")
    types |= dict.fromkeys(("num_tokens", "split_len", "num_splits", "table_stride"), "i32")
    types |= dict.fromkeys(("q_stride", "k_stride", "v_stride", "slot_stride"), "i32")
    types |= {"slot_mapping_ptr": "*i64", "partial_ptr": "*fp32", "log_sums_ptr": "*fp32", "scale": "fp32"}
    decode, decode_options = decode_constants(dtype, heads, BLOCK_SIZE, capability)
    prefill, prefill_options = prefill_constants(dtype, heads, BLOCK_SIZE, capability)
    merge = {"NUM_HEADS": heads.num_heads, "SPLITS": MERGED, "HEAD_DIM": heads.head_dim}
    cut = types | {"out_ptr": "*fp32"}

    def variant(kernel: Any, types: dict[str, str], constants: dict[str, Any], **options: Any) -> Variant:
        return Variant(kernel, dtype, heads, types, constants, **options)

    return [
        variant(cache_write_kernel, types, write_constants(heads.num_kv_heads * heads.head_dim)),
        variant(paged_decode_kernel, types, decode | {"SPLIT": False}, **decode_options),
        variant(paged_decode_kernel, cut, decode | {"SPLIT": True}, note="split", **decode_options),
        variant(merge_splits_kernel, types, merge),
        variant(paged_prefill_kernel, types, prefill, **prefill_options),
    ]
