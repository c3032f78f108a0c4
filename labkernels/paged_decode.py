"""Attention of one new token per sequence to its whole context, found in the cache through the block table.

What it computes, for every sequence and each of its query heads h, with the KV head g = h // group_size::

    out[h] = softmax(q[h] · K[g]ᵀ / √head_dim) · V[g]        K[g] and V[g] are [context_len, head_dim]

How the work is split: one program has one sequence, one KV head and one split of the context. The query heads that
share a KV head are the rows of a small matrix, so that each key is read once for all of them (grouped-query attention).

The program walks its split KEYS keys a turn and keeps none of them: it holds the highest score so far, and two sums
that are measured against it. When a turn brings a higher score, both sums are corrected (online softmax)::

    total ← total · exp(old - new) + Σ exp(score - new)        acc ← acc · exp(old - new) + Σ exp(score - new) · value

A few long sequences would leave most of a GPU idle. Then each context is cut into splits, and a second, small kernel
merges what they found.

    bytes moved     2 · Σ context_len · num_kv_heads · head_dim · itemsize, all K and V once; q and out beside it
    FLOPs           4 · Σ context_len · num_heads · head_dim: group_size operations a byte in bf16, so memory decides
    dtypes          float32, float16, bfloat16; scores and sums in float32, weights rounded to V's dtype
    sources         PagedAttention (Kwon et al., SOSP 2023); online softmax (Milakov and Gimelshein, 2018);
                    Flash-Decoding (Dao et al., 2023); grouped-query attention (Ainslie et al., EMNLP 2023)
"""

from __future__ import annotations

from functools import cache

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

MIN_SPLIT = 256  # keys: shorter splits cost more to merge than they gain
MERGED = 32  # splits that a merge is compiled for, unless a caller asks for more


@triton.jit(do_not_specialize=["context_lens_ptr", "query_rows_ptr", "split_len", "table_stride"])
def paged_decode_kernel(
    q_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM], tokens q_stride apart
    k_cache_ptr,  # [num_slots, num_kv_heads, HEAD_DIM], slots slot_stride apart
    v_cache_ptr,  # the same
    block_tables_ptr,  # [num_sequences, max_blocks], rows table_stride apart
    context_lens_ptr,  # [num_sequences]
    query_rows_ptr,  # [num_sequences]: the row of q of each sequence
    out_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM]; SPLIT: float32 [num_sequences, NUM_HEADS, num_splits, HEAD_DIM]
    log_sums_ptr,  # SPLIT: float32 [num_sequences, NUM_HEADS, num_splits], log Σ exp(score) of each split
    scale,
    split_len,  # keys in a split
    q_stride,
    slot_stride,
    table_stride,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads that share a KV head
    ROWS: tl.constexpr,  # GROUP rounded up to what fills a tensor core
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    KEYS: tl.constexpr,  # keys a turn
    SPLIT: tl.constexpr,  # whether contexts are cut
    UPCAST: tl.constexpr,  # the interpreter can't compute in bfloat16
):
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    context_len = tl.load(context_lens_ptr + sequence)
    start = split * split_len
    if start >= context_len:  # other sequences are longer; merge_splits_kernel leaves this split out too
        return
    end = tl.minimum(start + split_len, context_len)

    row = tl.arange(0, ROWS)  # a query head of this group; rows from GROUP on are neither loaded nor stored
    dim = tl.arange(0, HEAD_DIM)
    head = kv_head * GROUP + row
    token = tl.load(query_rows_ptr + sequence)
    q_at = token * q_stride + head[:, None] * HEAD_DIM + dim[None, :]
    q = tl.load(q_ptr + q_at, mask=(row < GROUP)[:, None], other=0.0)
    if UPCAST:
        q = q.to(tl.float32)

    highest = tl.full([ROWS], -float("inf"), tl.float32)  # the highest score so far
    total = tl.zeros([ROWS], tl.float32)  # sum of exp(score - highest)
    acc = tl.zeros([ROWS, HEAD_DIM], tl.float32)  # sum of exp(score - highest) · value
    table_ptr = block_tables_ptr + sequence * table_stride
    for first in range(start, end, KEYS):
        position = first + tl.arange(0, KEYS)
        in_context = position < end
        block = tl.load(table_ptr + position // BLOCK_SIZE, mask=in_context, other=0)
        slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE  # slot · slot_stride may pass 2³¹
        kv_at = slot[:, None] * slot_stride + kv_head * HEAD_DIM + dim[None, :]
        k = tl.load(k_cache_ptr + kv_at, mask=in_context[:, None], other=0.0)
        v = tl.load(v_cache_ptr + kv_at, mask=in_context[:, None], other=0.0)
        if UPCAST:
            k, v = k.to(tl.float32), v.to(tl.float32)

        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [ROWS, KEYS]
        score = tl.where(in_context[None, :], score, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(score, axis=1))  # finite: each turn has a key before `end`
        shrink = tl.exp(highest - new_highest)  # what was summed so far was measured against a lower mark
        weight = tl.exp(score - new_highest[:, None])
        total = total * shrink + tl.sum(weight, axis=1)
        acc = acc * shrink[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        highest = new_highest

    if SPLIT:  # what merge_splits_kernel needs to weigh this split against the others
        num_splits = tl.num_programs(2)
        at = (sequence * NUM_HEADS + head) * num_splits + split
        tl.store(log_sums_ptr + at, highest + tl.log(total), mask=row < GROUP)
    else:
        at = token * NUM_HEADS + head
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at[:, None] * HEAD_DIM + dim[None, :], out, mask=(row < GROUP)[:, None])


@triton.jit(do_not_specialize=["context_lens_ptr", "query_rows_ptr", "split_len", "num_splits"])
def merge_splits_kernel(
    partial_ptr,  # float32 [num_sequences, NUM_HEADS, num_splits, HEAD_DIM]: out of each split
    log_sums_ptr,  # float32 [num_sequences, NUM_HEADS, num_splits]: log Σ exp(score) of each split
    context_lens_ptr,  # [num_sequences]
    query_rows_ptr,  # [num_sequences]
    out_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM]
    split_len,
    num_splits,
    NUM_HEADS: tl.constexpr,
    SPLITS: tl.constexpr,  # at least num_splits, a power of two
    HEAD_DIM: tl.constexpr,
):
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    split = tl.arange(0, SPLITS)
    dim = tl.arange(0, HEAD_DIM)
    written = split * split_len < tl.load(context_lens_ptr + sequence)  # a shorter context has fewer splits
    at = (sequence * NUM_HEADS + head) * num_splits + split
    log_sum = tl.load(log_sums_ptr + at, mask=written, other=-float("inf"))
    partial = tl.load(partial_ptr + at[:, None] * HEAD_DIM + dim[None, :], mask=written[:, None], other=0.0)
    weight = tl.exp(log_sum - tl.max(log_sum, axis=0))
    out = tl.sum(partial * weight[:, None], axis=0) / tl.sum(weight, axis=0)
    token = tl.load(query_rows_ptr + sequence)
    tl.store(out_ptr + (token * NUM_HEADS + head) * HEAD_DIM + dim, out.to(out_ptr.dtype.element_ty))


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    block_size: int,
    *,
    query_rows: Tensor | None = None,
    out: Tensor | None = None,
    max_context_len: int | None = None,
    split_len: int | None = None,
) -> Tensor:
    """Attend with one query a sequence.

    Args:
        q: ``[num_tokens, num_heads, head_dim]``, the heads of a token side by side.
        k_cache: ``[num_slots, num_kv_heads, head_dim]``, the heads of a slot side by side; block b is the slots from
            ``b * block_size`` on.
        v_cache: the same, with the same strides.
        block_tables: integers ``[num_sequences, max_blocks]``; what stands behind a context's last block is not read.
        context_lens: integers ``[num_sequences]``, at least 1: keys that each query attends to, its own included.
        block_size: tokens a block holds, any number.
        query_rows: integers ``[num_sequences]``: the row of ``q`` (and ``out``) that is each sequence's; by default
            row i is sequence i's.
        out: contiguous, of the shape of ``q``, to write into; other rows are left alone.
        max_context_len: the largest of ``context_lens``, or more; by default what the block tables have room for. (The
            host can't look into ``context_lens`` without waiting for the device.)
        split_len: keys in a split; by default ``default_split_len``.

    Returns:
        ``out``, by default a new tensor.

    Raises:
        TypeError: q and cache differ in dtype.
        ValueError: no kernel serves the dtype or head dimension, arguments don't fit together, or (interpreted) a block
            table leads out of the cache.
    """
    check_attention(q, k_cache, v_cache, block_tables, context_lens, block_size)
    (num_sequences, max_blocks), (_, num_heads, head_dim) = block_tables.shape, q.shape
    heads = Heads(num_heads, k_cache.shape[1], head_dim)
    out = output(q, out)
    if not num_sequences:
        return out
    if query_rows is None:
        query_rows = torch.arange(num_sequences, dtype=torch.int32, device=q.device)
    longest = max_context_len or max_blocks * block_size
    split_len = split_len or default_split_len(num_sequences, longest, heads, num_multiprocessors(q.device))
    num_splits = ceil_div(longest, split_len)
    partial, log_sums = out, out  # uncut, the kernel writes to out itself and never touches log_sums
    if num_splits > 1:
        partial = q.new_empty((num_sequences, num_heads, num_splits, head_dim), dtype=torch.float32)
        log_sums = q.new_empty((num_sequences, num_heads, num_splits), dtype=torch.float32)
    constants, options = launch_constants(q.dtype, heads, block_size, compute_capability(q.device))
    paged_decode_kernel[(num_sequences, heads.num_kv_heads, num_splits)](
        q, k_cache, v_cache, block_tables, context_lens, query_rows, partial, log_sums,
        head_dim**-0.5, split_len, q.stride(0), k_cache.stride(0), block_tables.stride(0),
        **constants, SPLIT=num_splits > 1, **options,
    )  # fmt: skip
    if num_splits > 1:
        merge_splits_kernel[(num_sequences, num_heads)](
            partial, log_sums, context_lens, query_rows, out, split_len, num_splits,
            NUM_HEADS=num_heads, SPLITS=max(MERGED, next_power_of_two(num_splits)), HEAD_DIM=head_dim,
        )  # fmt: skip
    return out


def paged_decode_torch(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    block_size: int,
) -> Tensor:
    """The same in PyTorch, one sequence after the other; row i of ``q`` is sequence i's."""
    group_size = q.shape[1] // k_cache.shape[1]
    out = torch.empty_like(q)
    for i, context_len in enumerate(context_lens.tolist()):
        k, v = gather_context(k_cache, v_cache, block_tables[i], context_len, block_size, group_size)
        score = torch.einsum("hd,thd->ht", q[i].float(), k) * q.shape[2] ** -0.5
        out[i] = torch.einsum("ht,thd->hd", score.softmax(dim=1), v)
    return out


def default_split_len(num_sequences: int, longest: int, heads: Heads, multiprocessors: int) -> int:
    """Keys in a split, so that even a few sequences fill every multiprocessor with programs.

    Args:
        num_sequences: sequences in the batch.
        longest: keys of the longest context.
        heads: of the model; each KV head is a program of its own.
        multiprocessors: of the GPU.
    """
    programs = (6 if heads.head_dim <= 64 else 4) * multiprocessors
    num_splits = max(1, min(programs // (num_sequences * heads.num_kv_heads), longest // MIN_SPLIT, MERGED))
    turn = 64  # keys: whole turns, or each split would end with a short one
    return ceil_div(longest, num_splits * turn) * turn


@cache
def num_multiprocessors(device: torch.device) -> int:
    """Multiprocessors of a GPU; the interpreter runs one program after the other."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1


def launch_constants(
    dtype: torch.dtype, heads: Heads, block_size: int, capability: int
) -> tuple[dict[str, int], dict[str, int]]:
    """What ``attention_constants`` makes of as many keys a turn as the registers hold without spilling."""
    keys = max(16, (4096 if uses_tensor_cores(dtype, capability) else 2048) // heads.head_dim)
    rows = max(16, next_power_of_two(heads.group_size))
    return attention_constants(dtype, heads, block_size, rows, keys, capability)


def bytes_moved(context_lens: list[int], heads: Heads, dtype: torch.dtype) -> int:
    """Bytes that a launch must read and write: K and V of every context once, q and out."""
    kv = 2 * sum(context_lens) * heads.num_kv_heads
    return (kv + 2 * len(context_lens) * heads.num_heads) * heads.head_dim * dtype.itemsize


def flops(context_lens: list[int], heads: Heads) -> int:
    """Floating-point operations of a launch: a multiplication and an addition for each element of K and of V."""
    return 4 * sum(context_lens) * heads.num_heads * heads.head_dim


TEST_SHAPES = (  # heads, block size, context lengths
    (Heads(1, 1, 64, "one of each"), 16, (1,)),
    (Heads(9, 3, 64, "SmolLM2-135M"), 16, (1, 15, 16, 17, 31, 32, 33)),
    (Heads(32, 8, 128, "Llama-3-8B"), 256, (255, 256, 257, 700)),
    (Heads(8, 1, 128, "group of 8"), 7, (6, 7, 8, 300)),
    (Heads(14, 2, 64, "group of 7"), 1, (1, 2, 600)),
    (Heads(4, 2, 64, "one giant block"), 2048, (5, 2048)),
    (Heads(2, 1, 64, "long"), 16, (8192, 1, 4097)),
)
