"""What the launchers share, constants and checks of their arguments, and what the twins in PyTorch do."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from .runtime import INTERPRETED
from .sizes import Heads

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MIN_HEAD_DIM = 16  # tl.dot adds up at least so many products
TENSOR_CORES = 80  # compute capability from which on tl.dot uses tensor cores, for all but float32
# A turn loads its blocks' ids, then K and V, then computes: with fewer stages the next K and V don't come in meanwhile.
NUM_STAGES = 5


@cache
def compute_capability(device: torch.device) -> int:
    """A GPU's compute capability, 90 for sm_90; the interpreter passes for one with tensor cores."""
    if device.type != "cuda":
        return TENSOR_CORES
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def uses_tensor_cores(dtype: torch.dtype, capability: int) -> bool:
    """Whether tl.dot uses tensor cores for this dtype on a GPU of this compute capability."""
    return dtype.itemsize == 2 and capability >= TENSOR_CORES


def attention_constants(
    dtype: torch.dtype, heads: Heads, block_size: int, rows: int, keys: int, capability: int
) -> tuple[dict[str, int], dict[str, int]]:
    """What is fixed when an attention kernel is compiled, and how it is compiled.

    ``num_warps`` groups of 32 threads share a program; ``num_stages`` turns are under way at once, so that the loads of
    the next ones run while this one computes.

    Args:
        dtype: of the cache.
        heads: of the model.
        block_size: tokens a block holds.
        rows: rows of the matrix of queries.
        keys: keys a turn.
        capability: compute capability of the GPU.
    """
    constants = {
        "NUM_HEADS": heads.num_heads,
        "GROUP": heads.group_size,
        "ROWS": rows,
        "HEAD_DIM": heads.head_dim,
        "BLOCK_SIZE": block_size,
        "KEYS": 256 if INTERPRETED else keys,  # a turn of the interpreter costs the same for 16 keys as for 256
        "UPCAST": INTERPRETED and dtype == torch.bfloat16,
    }
    return constants, {"num_warps": 4, "num_stages": NUM_STAGES if uses_tensor_cores(dtype, capability) else 3}


def gather_context(
    k_cache: Tensor, v_cache: Tensor, block_table: Tensor, context_len: int, block_size: int, group_size: int
) -> tuple[Tensor, Tensor]:
    """K and V of one sequence in one piece, repeated for each query head; for the twins, as the kernels do without.

    Returns two tensors, float32 ``[context_len, num_heads, head_dim]``.
    """
    position = torch.arange(context_len, device=k_cache.device)
    slot = block_table[position // block_size] * block_size + position % block_size
    k, v = (cache[slot].repeat_interleave(group_size, dim=1).float() for cache in (k_cache, v_cache))
    return k, v


def unsupported(dtype: torch.dtype, head_dim: int) -> str:
    """Why no attention kernel serves this dtype or head dimension; empty when one does."""
    if dtype not in DTYPES:
        names = ", ".join(str(each).removeprefix("torch.") for each in DTYPES)
        return f"the dtype is {dtype}: the kernels compute in {names}"
    if head_dim < MIN_HEAD_DIM or head_dim & (head_dim - 1):
        return f"head_dim is {head_dim}: the kernels need a power of two, at least {MIN_HEAD_DIM}"
    return ""


def check_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, context_lens: Tensor, block_size: int
) -> None:
    """Refuse arguments that a kernel would misread.

    Raises:
        TypeError: q and cache differ in dtype.
        ValueError: no kernel serves the dtype or head dimension, or shapes, strides or block tables don't fit together.
    """
    check_cache(k_cache, v_cache)
    num_slots, num_kv_heads, head_dim = k_cache.shape
    if q.dtype != k_cache.dtype:
        raise TypeError(f"q is {q.dtype}, the cache {k_cache.dtype}: both must have one dtype")
    if q.ndim != 3 or q.shape[2] != head_dim or q.shape[1] % num_kv_heads or q.stride()[1:] != (head_dim, 1):
        raise ValueError(
            f"q {tuple(q.shape)} with strides {q.stride()} does not fit a cache of {num_kv_heads} × {head_dim}: it "
            "must be [num_tokens, num_heads, head_dim], the heads of a token side by side, with a whole number of "
            "query heads for each KV head"
        )
    reason = unsupported(q.dtype, head_dim)
    if reason:
        raise ValueError(reason)
    if block_tables.ndim != 2 or len(block_tables) != len(context_lens) or block_tables.stride(1) != 1:
        raise ValueError(
            f"{len(context_lens)} context lengths with block tables {tuple(block_tables.shape)}: "
            "there must be one row of block ids a sequence, side by side"
        )
    if INTERPRETED:
        check_block_tables(block_tables, context_lens, block_size, num_slots)


def check_cache(k_cache: Tensor, v_cache: Tensor) -> None:
    """Refuse a cache that a kernel would misread; raises as ``check_attention``."""
    if k_cache.dtype != v_cache.dtype:
        raise TypeError(f"k_cache holds {k_cache.dtype}, v_cache {v_cache.dtype}: both must have one dtype")
    if k_cache.shape != v_cache.shape or k_cache.stride() != v_cache.stride():
        raise ValueError("k_cache and v_cache must have the same shape and strides")
    if k_cache.ndim != 3 or k_cache.stride()[1:] != (k_cache.shape[2], 1):
        raise ValueError(
            f"the cache has shape {tuple(k_cache.shape)} and strides {k_cache.stride()}: it must be "
            "[num_slots, num_kv_heads, head_dim], with the heads of a slot side by side"
        )


def output(q: Tensor, out: Tensor | None) -> Tensor:
    """The tensor to write to: ``out``, or a new one where none is given.

    Raises:
        ValueError: ``out`` does not have the shape and dtype of ``q``, or is not contiguous.
    """
    if out is None:
        return q.new_empty(q.shape)
    if out.shape != q.shape or out.dtype != q.dtype or not out.is_contiguous():
        raise ValueError(f"out {tuple(out.shape)} must be contiguous {q.dtype} {tuple(q.shape)}, as q is")
    return out


def check_slots(slot_mapping: Tensor, num_slots: int) -> None:
    """Refuse slots that the cache does not have, as ``check_block_tables`` does."""
    if len(slot_mapping) and not 0 <= int(slot_mapping.min()) <= int(slot_mapping.max()) < num_slots:
        raise ValueError(
            f"the slot mapping names slots {int(slot_mapping.min())} to {int(slot_mapping.max())}, "
            f"the cache has slots 0 to {num_slots - 1}"
        )


def check_block_tables(block_tables: Tensor, context_lens: Tensor, block_size: int, num_slots: int) -> None:
    """Refuse block tables that lead out of the cache, where an access would return junk or end the process.

    Only the interpreter's launches look: on a GPU the host would wait for the device in every layer.
    """
    if not len(context_lens):
        return
    if int(context_lens.min()) < 1:
        raise ValueError("a sequence has no context: a query attends at least to its own token")
    num_blocks = -(-context_lens // block_size)
    if int(num_blocks.max()) > block_tables.shape[1]:
        raise ValueError(
            f"a context of {int(context_lens.max())} tokens fills {int(num_blocks.max())} blocks of {block_size}, "
            f"the block tables have {block_tables.shape[1]}"
        )
    used = block_tables[torch.arange(block_tables.shape[1], device=block_tables.device) < num_blocks[:, None]]
    if not 0 <= int(used.min()) <= int(used.max()) < num_slots // block_size:
        raise ValueError(
            f"a block table names blocks {int(used.min())} to {int(used.max())}, a cache of {num_slots} slots has "
            f"{num_slots // block_size} blocks of {block_size}"
        )
