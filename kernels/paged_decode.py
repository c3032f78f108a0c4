"""Attention of one new token per sequence to its whole context, found in the cache through the block table.

What it computes, for every sequence and each of its query heads h, with the KV head g = h // group_size::

    out[h] = softmax(q[h] · K[g]ᵀ / √head_dim) · V[g]        K[g] and V[g] are [context_len, head_dim]

How the work is split: one program has one sequence, one KV head and a stretch of the context. The query heads that
share a KV head are the rows of a small matrix, so that each key is read once for all of them (grouped-query attention).
The program walks its stretch TOKENS keys a turn and forgets them again: the softmax is corrected as keys come in
(online softmax). A few long sequences would leave most of a GPU idle, so their contexts are cut, and a second, small
kernel merges the results.

    bytes moved     2 · Σ context_len · num_kv_heads · head_dim · itemsize: all K and V once
    FLOPs           4 · Σ context_len · num_heads · head_dim: group_size operations a byte in bf16, so memory decides
    dtypes          float32, float16, bfloat16; scores and sums in float32
    sources         PagedAttention (Kwon et al., SOSP 2023); online softmax (Milakov and Gimelshein, 2018);
                    Flash-Decoding (Dao et al., 2023); grouped-query attention (Ainslie et al., EMNLP 2023)
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from .heads import Heads, next_power_of_two
from .launch import TENSOR_CORES, capability, check_attention, output
from .runtime import INTERPRETED, tl, triton

MIN_SPLIT = 256  # keys: shorter stretches cost more to merge than they gain
MAX_SPLITS = 32
PROGRAMS_PER_MULTIPROCESSOR = 4


@triton.jit(do_not_specialize=["split_len", "table_width"])
def paged_decode_kernel(
    q_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM], tokens q_stride apart
    k_cache_ptr,  # [num_slots, num_kv_heads, HEAD_DIM], slots slot_stride apart
    v_cache_ptr,  # the same
    block_tables_ptr,  # [num_sequences, table_width]
    context_lens_ptr,  # [num_sequences]
    query_rows_ptr,  # [num_sequences]
    out_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM], or what merge_splits_kernel takes
    log_sums_ptr,  # float32 [num_sequences, NUM_HEADS, num_splits]
    scale,
    split_len,  # keys in a stretch
    q_stride,
    slot_stride,
    table_width,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads that share a KV head
    ROWS: tl.constexpr,  # GROUP rounded up to what tl.dot takes
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TOKENS: tl.constexpr,  # keys a turn
    SPLIT: tl.constexpr,  # whether contexts are cut
    UPCAST: tl.constexpr,  # the interpreter can't compute in bfloat16
):
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    context_len = tl.load(context_lens_ptr + sequence)
    start = split * split_len
    if start >= context_len:
        return
    end = tl.minimum(start + split_len, context_len)

    row = tl.arange(0, ROWS)  # a query head of this group
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
    table_ptr = block_tables_ptr + sequence * table_width
    for first in range(start, end, TOKENS):
        position = first + tl.arange(0, TOKENS)
        in_context = position < end
        block = tl.load(table_ptr + position // BLOCK_SIZE, mask=in_context, other=0)
        slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
        kv_at = slot[:, None] * slot_stride + kv_head * HEAD_DIM + dim[None, :]
        k = tl.load(k_cache_ptr + kv_at, mask=in_context[:, None], other=0.0)
        v = tl.load(v_cache_ptr + kv_at, mask=in_context[:, None], other=0.0)
        if UPCAST:
            k, v = k.to(tl.float32), v.to(tl.float32)

        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [ROWS, TOKENS]
        score = tl.where(in_context[None, :], score, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(score, axis=1))
        shrink = tl.exp(highest - new_highest)  # what was summed so far was measured against a lower mark
        weight = tl.exp(score - new_highest[:, None])
        total = total * shrink + tl.sum(weight, axis=1)
        acc = acc * shrink[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        highest = new_highest

    if SPLIT:  # what merge_splits_kernel needs to weigh this stretch against the others
        num_splits = tl.num_programs(2)
        at = (sequence * NUM_HEADS + head) * num_splits + split
        tl.store(log_sums_ptr + at, highest + tl.log(total), mask=row < GROUP)
    else:
        at = token * NUM_HEADS + head
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at[:, None] * HEAD_DIM + dim[None, :], out, mask=(row < GROUP)[:, None])


@triton.jit(do_not_specialize=["split_len", "num_splits"])
def merge_splits_kernel(
    partial_ptr,  # float32 [num_sequences, NUM_HEADS, num_splits, HEAD_DIM]: out of each stretch
    log_sums_ptr,  # float32 [num_sequences, NUM_HEADS, num_splits]: log Σ exp(score) of each stretch
    context_lens_ptr,  # [num_sequences]
    query_rows_ptr,  # [num_sequences]
    out_ptr,  # [num_tokens, NUM_HEADS, HEAD_DIM]
    split_len,
    num_splits,
    NUM_HEADS: tl.constexpr,
    SPLITS: tl.constexpr,  # num_splits rounded up to a power of two
    HEAD_DIM: tl.constexpr,
):
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    split = tl.arange(0, SPLITS)
    dim = tl.arange(0, HEAD_DIM)
    written = split * split_len < tl.load(context_lens_ptr + sequence)  # a short context has fewer splits
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
    split_len: int | None = None,
) -> Tensor:
    """Attend with one query a sequence.

    Args:
        q: ``[num_tokens, num_heads, head_dim]``, the heads of a token side by side.
        k_cache: ``[num_slots, num_kv_heads, head_dim]``, the heads of a slot side by side; block b is the slots from
            ``b * block_size`` on.
        v_cache: the same, with the same strides.
        block_tables: integers ``[num_sequences, max_blocks]``; what stands behind a context's last block is not read.
        context_lens: integers ``[num_sequences]``: keys that each query attends to, its own included.
        block_size: tokens a block holds, any number.
        query_rows: integers ``[num_sequences]``: the row of ``q`` (and ``out``) that is each sequence's; by default
            row i is sequence i's.
        out: contiguous, of the shape of ``q``, to write into; other rows are left alone.
        split_len: keys in each stretch of a long context; by default ``default_split_len`` of the longest context that
            the block tables can hold.

    Returns:
        ``out``, by default a new tensor.

    Raises:
        TypeError: q and cache differ in dtype.
        ValueError: no kernel serves the dtype or head dimension, arguments don't fit together, or (interpreted) a block
            table leads out of the cache.
    """
    check_attention(q, k_cache, v_cache, block_tables, context_lens, block_size)
    (num_sequences, table_width), (_, num_heads, head_dim) = block_tables.shape, q.shape
    heads = Heads("", num_heads, k_cache.shape[1], head_dim)
    out = output(q, out)
    if query_rows is None:
        query_rows = torch.arange(num_sequences, dtype=torch.int32, device=q.device)
    longest = table_width * block_size
    split_len = split_len or default_split_len(num_sequences * heads.num_kv_heads, longest, q.device)
    num_splits = -(-longest // split_len)
    partial, log_sums = out, out  # what is not split needs no room for parts
    if num_splits > 1:
        partial = q.new_empty((num_sequences, num_heads, num_splits, head_dim), dtype=torch.float32)
        log_sums = q.new_empty((num_sequences, num_heads, num_splits), dtype=torch.float32)
    constants, options = tile(q.dtype, heads, block_size, capability(q.device))
    paged_decode_kernel[(num_sequences, heads.num_kv_heads, num_splits)](
        q, k_cache, v_cache, block_tables, context_lens, query_rows, partial, log_sums,
        head_dim**-0.5, split_len, q.stride(0), k_cache.stride(0), block_tables.stride(0),
        **constants, SPLIT=num_splits > 1, **options,
    )  # fmt: skip
    if num_splits > 1:
        merge_splits_kernel[(num_sequences, num_heads)](
            partial, log_sums, context_lens, query_rows, out, split_len, num_splits,
            NUM_HEADS=num_heads, SPLITS=next_power_of_two(num_splits), HEAD_DIM=head_dim,
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
        position = torch.arange(context_len, device=q.device)
        slot = block_tables[i, position // block_size] * block_size + position % block_size
        k = k_cache[slot].repeat_interleave(group_size, dim=1).float()  # [context_len, num_heads, head_dim]
        v = v_cache[slot].repeat_interleave(group_size, dim=1).float()
        score = torch.einsum("hd,thd->ht", q[i].float(), k) * q.shape[2] ** -0.5
        out[i] = torch.einsum("ht,thd->hd", score.softmax(dim=1), v)
    return out


def default_split_len(num_programs: int, longest: int, device: torch.device) -> int:
    """Keys in each stretch, so that even a few sequences give every multiprocessor of the device several programs.

    Args:
        num_programs: programs there are when nothing is cut: sequences × KV heads.
        longest: keys of the longest context.
        device: where the kernel runs.
    """
    wanted = PROGRAMS_PER_MULTIPROCESSOR * num_multiprocessors(device)
    num_splits = max(1, min(wanted // num_programs, longest // MIN_SPLIT, MAX_SPLITS))
    return -(-longest // num_splits)


@cache
def num_multiprocessors(device: torch.device) -> int:
    """Multiprocessors of a GPU; the interpreter runs one program after the other."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1


def tile(dtype: torch.dtype, heads: Heads, block_size: int, capability: int) -> tuple[dict[str, int], dict[str, int]]:
    """The constants of a launch, and how it is compiled: as many keys a turn as the registers hold without spilling."""
    tensor_cores = dtype.itemsize == 2 and capability >= TENSOR_CORES
    tokens = 64 if tensor_cores else 2048 // heads.head_dim
    constants = {
        "NUM_HEADS": heads.num_heads,
        "GROUP": heads.group_size,
        "ROWS": max(16, next_power_of_two(heads.group_size)),
        "HEAD_DIM": heads.head_dim,
        "BLOCK_SIZE": block_size,
        "TOKENS": 256 if INTERPRETED else tokens,  # a turn of the interpreter costs the same for 16 keys as for 256
        "UPCAST": INTERPRETED and dtype == torch.bfloat16,
    }
    return constants, {"num_warps": 4, "num_stages": 3}


def bytes_moved(context_lens: list[int], heads: Heads, dtype: torch.dtype) -> int:
    """Bytes that a launch must read and write: K and V of every context once, q and out."""
    kv = 2 * sum(context_lens) * heads.num_kv_heads
    return (kv + 2 * len(context_lens) * heads.num_heads) * heads.head_dim * dtype.itemsize


def flops(context_lens: list[int], heads: Heads) -> int:
    """Floating-point operations of a launch: a multiplication and an addition for each element of K and of V."""
    return 4 * sum(context_lens) * heads.num_heads * heads.head_dim


TEST_SHAPES = (  # heads, block size, context lengths
    (Heads("one of each", 1, 1, 64), 16, (1,)),
    (Heads("SmolLM2-135M", 9, 3, 64), 16, (1, 15, 16, 17, 31, 32, 33)),
    (Heads("Llama-3-8B", 32, 8, 128), 256, (255, 256, 257, 700)),
    (Heads("group of 8", 8, 1, 128), 7, (6, 7, 8, 300)),
    (Heads("group of 7", 14, 2, 64), 1, (1, 2, 600)),
    (Heads("one giant block", 4, 2, 64), 2048, (5, 2048)),
    (Heads("long", 2, 1, 64), 16, (8192, 1, 4097)),
)
