"""The Triton kernels against attention written out in float64: on a GPU where there is one, else interpreted."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labkernels import (
    cache_write,
    cache_write_torch,
    paged_decode,
    paged_decode_torch,
    paged_prefill,
    paged_prefill_torch,
)
from labkernels.cache_write import TEST_SHAPES as WRITE_SHAPES
from labkernels.paged_decode import TEST_SHAPES as DECODE_SHAPES
from labkernels.paged_decode import default_split_len
from labkernels.paged_prefill import TEST_SHAPES as PREFILL_SHAPES
from labkernels.sizes import Heads

pytest.importorskip("triton", reason="the kernels need Triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}  # relative, of a head's output vector
DTYPES = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float32", "float16", "bfloat16"])


@dataclass(slots=True)
class Paged:
    """Sequences whose K and V stand in scattered blocks of a cache that is poisoned everywhere else."""

    heads: Heads
    block_size: int
    k: list[Tensor]  # of each sequence [context_len, num_kv_heads, head_dim]
    v: list[Tensor]
    k_cache: Tensor
    v_cache: Tensor
    block_tables: Tensor
    context_lens: Tensor


def paged(heads: Heads, block_size: int, context_lens: list[int], dtype: torch.dtype, seed: int = 0) -> Paged:
    """Random K and V, scattered over a cache with a block to spare between any two."""
    generator = torch.Generator().manual_seed(seed)
    counts = [-(-length // block_size) for length in context_lens]
    num_blocks = 2 * sum(counts) + 1
    ids = list(range(num_blocks))
    random.Random(seed).shuffle(ids)
    cache = torch.full((num_blocks * block_size, 2, heads.num_kv_heads, heads.head_dim), torch.nan, dtype=dtype)
    tables = torch.full((len(counts), max(counts) + 2), 2**30, dtype=torch.int32)  # behind a context stands nonsense
    k, v = [], []
    for i, (length, count) in enumerate(zip(context_lens, counts, strict=True)):
        table, ids = ids[:count], ids[count:]
        tables[i, :count] = torch.tensor(table)
        shape = (length, heads.num_kv_heads, heads.head_dim)
        k.append(torch.randn(shape, generator=generator).to(dtype))
        v.append((torch.randn(shape, generator=generator) + 1).to(dtype))
        slots = [table[p // block_size] * block_size + p % block_size for p in range(length)]
        cache[slots, 0], cache[slots, 1] = k[-1], v[-1]
    cache = cache.to(DEVICE)
    lens = torch.tensor(context_lens, dtype=torch.int32, device=DEVICE)
    return Paged(heads, block_size, k, v, cache[:, 0], cache[:, 1], tables.to(DEVICE), lens)


def reference(q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
    """One sequence in float64: ``q [n, num_heads, head_dim]`` at ``positions [n]`` over dense K and V."""
    group_size = q.shape[1] // k.shape[1]
    k, v = (x.double().repeat_interleave(group_size, dim=1) for x in (k, v))
    score = torch.einsum("qhd,thd->hqt", q.double(), k) / q.shape[2] ** 0.5
    unseen = torch.arange(len(k)) > positions[:, None]
    return torch.einsum("hqt,thd->qhd", score.masked_fill(unseen, -torch.inf).softmax(-1), v)


def queries(count: int, heads: Heads, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    qkv = 2 * torch.randn(count, heads.num_heads + 2, heads.head_dim, generator=generator)  # tokens are not adjacent
    return qkv.to(dtype).to(DEVICE)[:, : heads.num_heads]


def assert_close(out: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    error = (out.double().cpu() - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() < TOLERANCE[dtype], f"relative error {error.max():.2e}"


def check_decode(cache: Paged, dtype: torch.dtype, split_len: int | None = None) -> None:
    """Rows of q in reverse, with a row between them that is nobody's, so that a wrong row shows."""
    count = len(cache.k)
    q = queries(2 * count, cache.heads, dtype)
    rows = torch.arange(2 * count - 2, -1, -2, dtype=torch.int32, device=DEVICE)
    out = q.new_full(q.shape, torch.nan)
    args = (cache.k_cache, cache.v_cache, cache.block_tables, cache.context_lens, cache.block_size)
    given_out = paged_decode(q, *args, query_rows=rows, out=out, split_len=split_len)
    assert given_out is out
    for i, row in enumerate(rows.tolist()):
        last = torch.tensor([len(cache.k[i]) - 1])
        assert_close(out[row], reference(q[row].cpu()[None], cache.k[i], cache.v[i], last)[0], dtype)
    assert out[1::2].isnan().all()


def prefill_args(chunks: list[tuple[int, int]]) -> dict[str, Tensor]:
    """Where the queries of each sequence stand, with a row that is nobody's before each."""
    lens = [num_queries for _, num_queries in chunks]
    rows = [sum(lens[:i]) + i + 1 for i in range(len(lens))]
    columns = {"query_rows": rows, "query_lens": lens, "starts": [start for start, _ in chunks]}
    return {name: torch.tensor(values, dtype=torch.int32, device=DEVICE) for name, values in columns.items()}


def check_prefill(cache: Paged, chunks: list[tuple[int, int]], dtype: torch.dtype) -> None:
    where = prefill_args(chunks)
    q = queries(sum(n for _, n in chunks) + len(chunks), cache.heads, dtype)
    out = q.new_full(q.shape, torch.nan)
    args = (cache.k_cache, cache.v_cache, cache.block_tables, cache.context_lens, cache.block_size)
    paged_prefill(q, *args, **where, max_query_len=max(n for _, n in chunks), out=out)
    for i, (start, num_queries) in enumerate(chunks):
        row = int(where["query_rows"][i])
        mine = slice(row, row + num_queries)
        positions = torch.arange(start, start + num_queries)
        assert_close(out[mine], reference(q[mine].cpu(), cache.k[i], cache.v[i], positions), dtype)
        assert out[row - 1].isnan().all()


@DTYPES
@pytest.mark.parametrize("shape", WRITE_SHAPES, ids=str)
def test_cache_write_puts_each_token_into_its_slot_and_touches_no_other(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> None:
    num_tokens, num_kv_heads, head_dim = shape
    qkv = torch.randn(num_tokens, 4 * num_kv_heads, head_dim, device=DEVICE).to(dtype)
    k, v = qkv[:, :num_kv_heads].contiguous(), qkv[:, -num_kv_heads:]  # rows side by side, and part of a projection
    cache = torch.full((2 * num_tokens + 1, 2, num_kv_heads, head_dim), torch.nan, dtype=dtype, device=DEVICE)
    slots = torch.randperm(len(cache), device=DEVICE)[:num_tokens]
    cache_write(k, v, cache[:, 0], cache[:, 1], slots)
    expected = torch.full_like(cache, torch.nan)
    cache_write_torch(k, v, expected[:, 0], expected[:, 1], slots)
    assert torch.equal(expected[slots], torch.stack((k, v), dim=1))
    assert cache.equal(expected) or torch.equal(cache.isnan(), expected.isnan())
    assert torch.equal(cache[slots], expected[slots])


@DTYPES
@pytest.mark.parametrize("shape", DECODE_SHAPES, ids=lambda shape: shape[0].model)
def test_paged_decode_is_attention(shape: tuple[Heads, int, tuple[int, ...]], dtype: torch.dtype) -> None:
    heads, block_size, context_lens = shape
    check_decode(paged(heads, block_size, list(context_lens), dtype), dtype)


@DTYPES
@pytest.mark.parametrize("shape", PREFILL_SHAPES, ids=lambda shape: shape[0].model)
def test_paged_prefill_is_causal_attention(
    shape: tuple[Heads, int, tuple[tuple[int, int], ...]], dtype: torch.dtype
) -> None:
    heads, block_size, chunks = shape
    check_prefill(paged(heads, block_size, [sum(chunk) for chunk in chunks], dtype), list(chunks), dtype)


HEADS = st.builds(
    lambda num_kv_heads, group_size, head_dim: Heads(num_kv_heads * group_size, num_kv_heads, head_dim),
    st.integers(1, 3),
    st.integers(1, 8),
    st.sampled_from([64, 128]),
)
BLOCK_SIZES = st.sampled_from([1, 2, 7, 16, 64, 256])


@settings(max_examples=40, deadline=None)
@given(
    heads=HEADS,
    block_size=BLOCK_SIZES,
    lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1)), min_size=1, max_size=4),
    extra=st.integers(1, 40),
    split_len=st.sampled_from([None, None, 16, 100, 256]),
    dtype=st.sampled_from(list(TOLERANCE)),
    seed=st.integers(0, 99),
)
def test_paged_decode_is_attention_for_any_heads_blocks_lengths_and_cuts(
    heads: Heads,
    block_size: int,
    lengths: list[tuple[int, int]],
    extra: int,
    split_len: int | None,
    dtype: torch.dtype,
    seed: int,
) -> None:
    context_lens = [max(1, blocks * block_size + off) for blocks, off in lengths] + [extra]  # at and around borders
    check_decode(paged(heads, block_size, context_lens, dtype, seed), dtype, split_len)


@settings(max_examples=30, deadline=None)
@given(
    heads=HEADS,
    block_size=BLOCK_SIZES,
    chunks=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 70)), min_size=1, max_size=3),
    dtype=st.sampled_from(list(TOLERANCE)),
    seed=st.integers(0, 99),
)
def test_paged_prefill_is_causal_attention_for_any_heads_blocks_and_chunks(
    heads: Heads, block_size: int, chunks: list[tuple[int, int]], dtype: torch.dtype, seed: int
) -> None:
    check_prefill(paged(heads, block_size, [sum(chunk) for chunk in chunks], dtype, seed), chunks, dtype)


@pytest.mark.parametrize("split_len", [16, 128, 1000, 2048])
def test_cutting_contexts_changes_nothing_but_rounding(split_len: int) -> None:
    cache = paged(Heads(6, 2, 64), 16, [1, 127, 128, 129, 2048], torch.float32)
    cache.block_tables = cache.block_tables[:, :128].contiguous()  # not a block more than the longest context fills
    check_decode(cache, torch.float32, split_len)


@pytest.mark.parametrize(
    ("num_sequences", "longest", "heads", "num_splits"),
    [
        (64, 4096, Heads(9, 3, 64), 4),  # 192 programs would leave most of 132 multiprocessors' room empty
        (64, 4096, Heads(32, 8, 128), 1),  # 512 programs fill them
        (1, 4096, Heads(32, 8, 128), 16),  # splits of 256 keys, no shorter
        (1, 8192, Heads(1, 1, 64), 32),  # no more than a merge is compiled for
        (1, 100, Heads(9, 3, 64), 1),
        (1000, 4096, Heads(9, 3, 64), 1),
    ],
)
def test_long_contexts_are_cut_until_the_gpu_is_full_and_no_further(
    num_sequences: int, longest: int, heads: Heads, num_splits: int
) -> None:
    split_len = default_split_len(num_sequences, longest, heads, multiprocessors=132)
    assert (num_splits - 1) * split_len < longest <= num_splits * split_len
    assert split_len % 64 == 0, "a split ends with a whole turn"


def test_padding_queries_of_a_rectangle_get_numbers_and_change_nothing() -> None:
    cache = paged(Heads(6, 2, 64), 16, [5, 20], torch.float32)
    q = queries(20, cache.heads, torch.float32)  # ten rows each: real queries at 0 … 4 and 10 … 19
    where = {
        "query_rows": torch.tensor([0, 10], device=DEVICE),
        "query_lens": torch.tensor([10, 10], device=DEVICE),
        "starts": torch.tensor([0, 10], device=DEVICE),
    }
    args = (cache.k_cache, cache.v_cache, cache.block_tables, cache.context_lens, cache.block_size)
    out = paged_prefill(q, *args, **where, max_query_len=10)
    assert_close(out[:5], reference(q[:5].cpu(), cache.k[0], cache.v[0], torch.arange(5)), torch.float32)
    last = torch.full((5,), 4)  # padding sees the whole context, and no more
    assert_close(out[5:10], reference(q[5:10].cpu(), cache.k[0], cache.v[0], last), torch.float32)


@DTYPES
def test_the_twins_in_pytorch_agree_with_the_reference(dtype: torch.dtype) -> None:
    chunks = [(0, 9), (16, 1), (30, 20)]
    cache = paged(Heads(6, 2, 64), 16, [sum(chunk) for chunk in chunks], dtype)
    args = (cache.k_cache, cache.v_cache, cache.block_tables, cache.context_lens, cache.block_size)
    q = queries(3, cache.heads, dtype)
    out = paged_decode_torch(q, *args)
    for i in range(3):
        last = torch.tensor([len(cache.k[i]) - 1])
        assert_close(out[i], reference(q[i].cpu()[None], cache.k[i], cache.v[i], last)[0], dtype)
    where = prefill_args(chunks)
    q = queries(33, cache.heads, dtype)
    out = paged_prefill_torch(q, *args, **where)
    for i, (start, num_queries) in enumerate(chunks):
        mine = slice(int(where["query_rows"][i]), int(where["query_rows"][i]) + num_queries)
        positions = torch.arange(start, start + num_queries)
        assert_close(out[mine], reference(q[mine].cpu(), cache.k[i], cache.v[i], positions), dtype)
