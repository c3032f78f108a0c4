"""Write the K and V of new tokens into the cache, each token into the slot that its block table gives it.

What it computes, for every token t of the step::

    k_cache[slot_mapping[t]] = k[t]
    v_cache[slot_mapping[t]] = v[t]

The slot of a token at ``position`` is ``block_table[position // block_size] · block_size + position % block_size``:
with blocks of 4 and the block table [7, 2], a sequence of 6 tokens fills slots 28, 29, 30, 31, 8 and 9.

How the work is split: one program copies TOKENS tokens. A token's heads stand side by side, so each copy is one run of
``num_kv_heads · head_dim`` elements; only where it goes is irregular.

    bytes moved     num_tokens · (4 · num_kv_heads · head_dim · itemsize + 8): K and V read and written, and a slot
    FLOPs           none: this kernel is as fast as memory
    dtypes          float32, float16, bfloat16
    source          the idea of vLLM's reshape_and_cache (Kwon et al., PagedAttention, SOSP 2023)
"""

from __future__ import annotations

import torch
from torch import Tensor

from .launch import check_cache, check_slots
from .runtime import INTERPRETED, tl, triton
from .sizes import Heads, ceil_div, next_power_of_two

ELEMENTS = 4096  # of K that a program copies


@triton.jit(do_not_specialize=["num_tokens"])
def cache_write_kernel(
    k_ptr,  # [num_tokens, WIDTH], tokens k_stride apart
    v_ptr,  # [num_tokens, WIDTH], tokens v_stride apart
    k_cache_ptr,  # [num_slots, WIDTH], slots slot_stride apart
    v_cache_ptr,  # the same
    slot_mapping_ptr,  # [num_tokens]
    num_tokens,
    k_stride,
    v_stride,
    slot_stride,
    WIDTH: tl.constexpr,  # elements of a token's K: num_kv_heads · head_dim
    COLUMNS: tl.constexpr,  # WIDTH rounded up: tl.arange takes powers of two only
    TOKENS: tl.constexpr,  # tokens a program
):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    column = tl.arange(0, COLUMNS)
    slot = tl.load(slot_mapping_ptr + token, mask=token < num_tokens, other=0)
    slot = slot.to(tl.int64)  # slot · slot_stride passes 2³¹ in a large cache
    mask = (token < num_tokens)[:, None] & (column < WIDTH)[None, :]

    cache_at = slot[:, None] * slot_stride + column[None, :]
    # no `other`: what the mask leaves out is not stored either
    k = tl.load(k_ptr + token[:, None] * k_stride + column[None, :], mask=mask)
    tl.store(k_cache_ptr + cache_at, k, mask=mask)
    v = tl.load(v_ptr + token[:, None] * v_stride + column[None, :], mask=mask)
    tl.store(v_cache_ptr + cache_at, v, mask=mask)


def cache_write(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor) -> None:
    """Write K and V of ``num_tokens`` tokens; slots that no token writes keep what they hold.

    Args:
        k: ``[num_tokens, num_kv_heads, head_dim]``, the heads of a token side by side.
        v: the same.
        k_cache: ``[num_slots, num_kv_heads, head_dim]``, the heads of a slot side by side.
        v_cache: the same, with the same strides.
        slot_mapping: integers ``[num_tokens]``; a slot that is named twice gets either token, so only padding may
            share one.

    Raises:
        TypeError: dtypes that differ.
        ValueError: shapes that don't fit, or (interpreted) a slot that the cache does not have.
    """
    check_cache(k_cache, v_cache)
    num_tokens, num_kv_heads, head_dim = k.shape
    if k.dtype != k_cache.dtype or v.dtype != v_cache.dtype:
        raise TypeError(f"k is {k.dtype} and v {v.dtype}, the cache {k_cache.dtype}: all must have one dtype")
    if v.shape != k.shape or k.shape[1:] != k_cache.shape[1:] or slot_mapping.shape != (num_tokens,):
        raise ValueError(
            f"k {tuple(k.shape)}, v {tuple(v.shape)} and a slot mapping {tuple(slot_mapping.shape)} don't fit a cache "
            f"of {tuple(k_cache.shape)}"
        )
    if k.stride()[1:] != (head_dim, 1) or v.stride()[1:] != (head_dim, 1):
        raise ValueError("the heads of a token must stand side by side in k and v; call .contiguous() on them")
    if INTERPRETED:
        check_slots(slot_mapping, len(k_cache))
    if num_tokens:
        constants = launch_constants(num_kv_heads * head_dim)
        strides = (k.stride(0), v.stride(0), k_cache.stride(0))
        grid = (ceil_div(num_tokens, constants["TOKENS"]),)
        cache_write_kernel[grid](k, v, k_cache, v_cache, slot_mapping, num_tokens, *strides, **constants)


def cache_write_torch(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slot_mapping: Tensor) -> None:
    """The same in PyTorch."""
    k_cache[slot_mapping] = k
    v_cache[slot_mapping] = v


def launch_constants(width: int) -> dict[str, int]:
    """What is fixed when the kernel is compiled, for tokens whose K has ``width`` elements."""
    columns = next_power_of_two(width)
    return {"WIDTH": width, "COLUMNS": columns, "TOKENS": max(1, ELEMENTS // columns)}


def bytes_moved(num_tokens: int, heads: Heads, dtype: torch.dtype) -> int:
    """Bytes that a launch must read and write: K and V twice, and a slot of 8 bytes."""
    return num_tokens * (4 * heads.num_kv_heads * heads.head_dim * dtype.itemsize + 8)


TEST_SHAPES = (  # num_tokens, num_kv_heads, head_dim
    (1, 3, 64),
    (37, 3, 64),
    (64, 8, 128),
    (17, 1, 128),
    (300, 2, 64),
)
