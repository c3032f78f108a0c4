"""Attention of several new tokens per sequence, a prompt or a chunk of one, to their contexts in the paged cache.

What it computes, for the query at position p of a sequence and its query head h, with the KV head g = h // group_size::

    out[h] = softmax(q[h] · K[g, :p+1]ᵀ / √head_dim) · V[g, :p+1]        a token sees itself and what stands before it

The chunk's own K and V must stand in the cache already (``cache_write`` comes first), so keys of earlier chunks and
keys of this one are found in the same way: through the block table.

How the work is split: one program has one sequence, one KV head and some consecutive queries. Its rows are pairs of a
query and a query head, so that each key is read once for all heads that share it. As in ``paged_decode`` the program
walks the keys KEYS a turn with an online softmax; it stops at the last key that its last query may see.

    bytes moved     at least K and V of every context once, q and out; each program reads K and V up to its last query
    FLOPs           4 · num_heads · head_dim · Σ keys that a query sees: hundreds of operations a byte, so arithmetic
                    decides, not memory
    dtypes          float32, float16, bfloat16; scores and sums in float32, weights rounded to V's dtype
    sources         FlashAttention-2 (Dao, 2023); heads of a group packed as in vLLM's unified attention kernel;
                    chunks of prompts over a paged cache: Sarathi-Serve (Agrawal et al., OSDI 2024)
"""

from __future__ import annotations

import torch
from torch import Tensor

from .launch import (
    attention_constants,
    check_attention,
    compute_capability,
    gather_context,
    output,
    uses_tensor_cores,
)
from .runtime import tl, triton
from .sizes import Heads, ceil_div, next_power_of_two


@triton.jit(do_not_specialize=["context_lens_ptr", "query_rows_ptr", "query_lens_ptr", "starts_ptr", "table_stride"])
def paged_prefill_kernel(
    q_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM], tokens q_stride apart
    k_cache_ptr,  # [num_slots, num_kv_heads, HEAD_DIM], slots slot_stride apart
    v_cache_ptr,  # the same
    block_tables_ptr,  # [num_sequences, max_blocks], rows table_stride apart
    context_lens_ptr,  # [num_sequences]
    query_rows_ptr,  # [num_sequences]: row of q of a sequence's first query
    query_lens_ptr,  # [num_sequences]
    starts_ptr,  # [num_sequences]: position of a sequence's first query
    out_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM]
    scale,
    q_stride,
    slot_stride,
    table_stride,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads that share a KV head
    ROWS: tl.constexpr,  # pairs of query and head that a program has; at least GROUP
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    KEYS: tl.constexpr,  # keys a turn
    UPCAST: tl.constexpr,  # the interpreter can't compute in bfloat16
):
    QUERIES: tl.constexpr = ROWS // GROUP  # the last ROWS % GROUP rows stay empty
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    first_query = (tl.num_programs(2) - 1 - tl.program_id(2)) * QUERIES  # the last queries see most keys: they go first
    query_len = tl.load(query_lens_ptr + sequence)
    if first_query >= query_len:
        return
    context_len = tl.load(context_lens_ptr + sequence)
    query_start = tl.load(starts_ptr + sequence)

    row = tl.arange(0, ROWS)  # with 2 heads a group: q0h0 q0h1 q1h0 q1h1 …
    dim = tl.arange(0, HEAD_DIM)
    query = first_query + row // GROUP
    query_position = query_start + query
    head = kv_head * GROUP + row % GROUP
    is_real = (row < QUERIES * GROUP) & (query < query_len)
    token = tl.load(query_rows_ptr + sequence) + query
    q_at = token[:, None] * q_stride + head[:, None] * HEAD_DIM + dim[None, :]
    q = tl.load(q_ptr + q_at, mask=is_real[:, None], other=0.0)
    if UPCAST:
        q = q.to(tl.float32)

    # as in paged_decode, but for what is visible
    highest = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, HEAD_DIM], tl.float32)
    table_ptr = block_tables_ptr + sequence * table_stride
    last_query = tl.minimum(first_query + QUERIES, query_len) - 1
    end = tl.minimum(query_start + last_query + 1, context_len)
    for first in range(0, end, KEYS):
        position = first + tl.arange(0, KEYS)
        in_context = position < end
        block = tl.load(table_ptr + position // BLOCK_SIZE, mask=in_context, other=0)
        slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
        kv_at = slot[:, None] * slot_stride + kv_head * HEAD_DIM + dim[None, :]
        k = tl.load(k_cache_ptr + kv_at, mask=in_context[:, None], other=0.0)
        v = tl.load(v_cache_ptr + kv_at, mask=in_context[:, None], other=0.0)
        if UPCAST:
            k, v = k.to(tl.float32), v.to(tl.float32)

        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [ROWS, KEYS]
        visible = in_context[None, :] & (position[None, :] <= query_position[:, None])
        score = tl.where(visible, score, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(score, axis=1))  # finite: all rows see position 0, in the first turn
        shrink = tl.exp(highest - new_highest)
        weight = tl.exp(score - new_highest[:, None])
        total = total * shrink + tl.sum(weight, axis=1)
        acc = acc * shrink[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        highest = new_highest

    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    out_at = (token * NUM_HEADS + head)[:, None] * HEAD_DIM + dim[None, :]
    tl.store(out_ptr + out_at, out, mask=is_real[:, None])


def paged_prefill(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    block_size: int,
    *,
    query_rows: Tensor,
    query_lens: Tensor,
    starts: Tensor,
    max_query_len: int,
    out: Tensor | None = None,
) -> Tensor:
    """Attend with several queries a sequence, each to the keys up to its own.

    Args:
        q: ``[num_tokens, num_heads, head_dim]``, the heads of a token side by side; a sequence has consecutive rows.
        k_cache: ``[num_slots, num_kv_heads, head_dim]``, the heads of a slot side by side; block b is the slots from
            ``b * block_size`` on.
        v_cache: the same, with the same strides.
        block_tables: integers ``[num_sequences, max_blocks]``; what stands behind a context's last block is not read.
        context_lens: integers ``[num_sequences]``: keys there are, the chunk's own included. Queries at positions from
            there on (padding) see all of them.
        block_size: tokens a block holds, any number.
        query_rows: integers ``[num_sequences]``: the row of each sequence's first query.
        query_lens: integers ``[num_sequences]``: how many queries it has.
        starts: integers ``[num_sequences]``: position of its first query.
        max_query_len: the largest of ``query_lens``; a number of the host's, so that nobody waits for the device.
        out: contiguous, of the shape of ``q``, to write into; rows of no sequence are left alone.

    Returns:
        ``out``, by default a new tensor.

    Raises:
        TypeError: q and cache differ in dtype.
        ValueError: no kernel serves the dtype or head dimension, arguments don't fit together, or (interpreted) a block
            table leads out of the cache.
    """
    check_attention(q, k_cache, v_cache, block_tables, context_lens, block_size)
    heads = Heads(q.shape[1], k_cache.shape[1], q.shape[2])
    out = output(q, out)
    if not len(context_lens):
        return out
    constants, options = launch_constants(q.dtype, heads, block_size, compute_capability(q.device))
    queries = constants["ROWS"] // heads.group_size
    paged_prefill_kernel[(len(context_lens), heads.num_kv_heads, ceil_div(max_query_len, queries))](
        q, k_cache, v_cache, block_tables, context_lens, query_rows, query_lens, starts, out,
        heads.head_dim**-0.5, q.stride(0), k_cache.stride(0), block_tables.stride(0), **constants, **options,
    )  # fmt: skip
    return out


def paged_prefill_torch(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    block_size: int,
    *,
    query_rows: Tensor,
    query_lens: Tensor,
    starts: Tensor,
) -> Tensor:
    """The same in PyTorch, one sequence after the other."""
    group_size = q.shape[1] // k_cache.shape[1]
    out = torch.empty_like(q)
    for i, (context_len, row, num_queries, start) in enumerate(
        zip(context_lens.tolist(), query_rows.tolist(), query_lens.tolist(), starts.tolist(), strict=True)
    ):
        k, v = gather_context(k_cache, v_cache, block_tables[i], context_len, block_size, group_size)
        score = torch.einsum("qhd,thd->hqt", q[row : row + num_queries].float(), k) * q.shape[2] ** -0.5
        query_position = start + torch.arange(num_queries, device=q.device)
        position = torch.arange(context_len, device=q.device)
        score = score.masked_fill(position > query_position[:, None], -torch.inf)
        out[row : row + num_queries] = torch.einsum("hqt,thd->qhd", score.softmax(dim=2), v)
    return out


def launch_constants(
    dtype: torch.dtype, heads: Heads, block_size: int, capability: int
) -> tuple[dict[str, int], dict[str, int]]:
    """What ``attention_constants`` makes of as many queries and keys as the registers hold without spilling."""
    rows, keys = (64, max(16, 4096 // heads.head_dim)) if uses_tensor_cores(dtype, capability) else (32, 16)
    rows = max(rows, next_power_of_two(heads.group_size))
    return attention_constants(dtype, heads, block_size, rows, keys, capability)


def bytes_moved(query_lens: list[int], context_lens: list[int], heads: Heads, dtype: torch.dtype) -> int:
    """Bytes that a launch must read and write at least: K and V of every context once, q and out."""
    kv = 2 * sum(context_lens) * heads.num_kv_heads
    return (kv + 2 * sum(query_lens) * heads.num_heads) * heads.head_dim * dtype.itemsize


def flops(query_lens: list[int], context_lens: list[int], heads: Heads) -> int:
    """Floating-point operations for chunks that end with their contexts; keys out of a query's sight don't count."""
    seen = sum(n * context - n * (n - 1) // 2 for n, context in zip(query_lens, context_lens, strict=True))
    return 4 * seen * heads.num_heads * heads.head_dim


TEST_SHAPES = (  # heads, block size, (start, queries) of each sequence
    (Heads(1, 1, 64, "one of each"), 16, ((0, 2),)),
    (Heads(9, 3, 64, "SmolLM2-135M"), 16, ((0, 15), (0, 16), (16, 17), (31, 33))),
    (Heads(32, 8, 128, "Llama-3-8B"), 256, ((0, 100), (255, 2))),
    (Heads(8, 1, 128, "group of 8"), 7, ((6, 7), (7, 8), (300, 40))),
    (Heads(14, 2, 64, "group of 7"), 1, ((0, 20), (50, 3))),
    (Heads(4, 2, 64, "one giant block"), 2048, ((0, 130), (1900, 148))),
    (Heads(2, 1, 64, "long"), 16, ((8000, 192),)),
)
