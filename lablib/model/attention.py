"""Attention over a paged KV cache: where K and V live, how they are written, and how a query finds its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lablib.model.batch import ForwardBatch
from lablib.model.buckets import bucket_by_length
from lablib.model.config import ModelConfig
from lablib.model.paging import new_cache, padded_block_tables, require_cache
from lablib.model.transfer import to_device


class AttentionBackend(Protocol):
    """Owns the KV cache and its layout; the decoder hands over q, k and v and gets the heads' output back."""

    def allocate(
        self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """Makes room for ``num_blocks * block_size`` tokens in every layer, and one scratch row for padding."""

    def prepare(self, batch: ForwardBatch) -> None:
        """Works out, once a step, everything that depends on the batch alone: indices, masks, groups."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, batch: ForwardBatch) -> Tensor:
        """Writes K and V of one layer and attends.

        Args:
            layer: which layer's cache.
            q: ``[num_tokens, num_heads, head_dim]``, rotated.
            k: ``[num_tokens, num_kv_heads, head_dim]``, rotated.
            v: ``[num_tokens, num_kv_heads, head_dim]``.
            batch: the batch that was prepared.

        Returns:
            ``[num_tokens, num_heads * head_dim]``.
        """


@dataclass(slots=True)
class _Decodes:
    """Sequences with one query each and contexts of similar length: they share one padded attention call."""

    rows: Tensor  # [n] their places in the flat batch
    keys: Tensor  # [n * length] the cache rows of each sequence's keys
    length: int  # of the longest context
    mask: Tensor | None  # [n, 1, group_size, length], -inf where a sequence's context has ended


@dataclass(slots=True)
class _Chunk:
    """Several queries of one sequence: rows ``start … end`` of the flat batch, causal among themselves."""

    start: int
    end: int
    keys: Tensor | None  # [context_len] cache rows; None: a prompt from its first token, which needs no cache
    mask: Tensor | None  # bool [num_queries, context_len]; None: query i sees keys 0 … i


class TorchAttention:
    """Paged attention in plain PyTorch, on every device.

    The cache of a layer is ``[num_blocks * block_size + 1, 2, num_kv_heads, head_dim]``: token after token, K beside V,
    so that a block of any size is a plain slice and one gather fetches both. (vLLM's FlashAttention layout is the same
    but for the place of the 2.) Only rows that a sequence has written are ever read for it.

    Keys are gathered row by row, in blocks of every size. Reading giant blocks in place is no faster, for packed keys
    save at least what the copy takes (32 rows, two cores, in place against gathered: at context 128 37.0 and 34.5 ms a
    step in bf16, 49.0 and 49.2 in float32; at 1,024 122 and 107, 163 and 154). Gathering whole blocks of 16 saves 4% of
    attention's time, but reads behind a sequence's end, and to make that harmless costs nearly as much.
    """

    def __init__(self) -> None:
        self.cache = torch.empty(0)
        self.block_size = 0
        self.group_size = 1
        self._decodes: list[_Decodes] = []
        self._chunks: list[_Chunk] = []

    def allocate(
        self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """See ``AttentionBackend``."""
        self.cache = new_cache(config, num_blocks, block_size, dtype, device)
        self.block_size = block_size
        self.group_size = config.num_heads // config.num_kv_heads

    def prepare(self, batch: ForwardBatch) -> None:
        """See ``AttentionBackend``."""
        require_cache(self.block_size)
        first_rows = batch.first_rows
        self._chunks = [self._prepare_chunk(batch, i, first_rows[i]) for i, n in enumerate(batch.query_lens) if n > 1]
        decodes = [i for i, query_len in enumerate(batch.query_lens) if query_len == 1]
        self._decodes = self._prepare_decodes(batch, decodes, first_rows)

    def _prepare_decodes(self, batch: ForwardBatch, sequences: list[int], first_rows: list[int]) -> list[_Decodes]:
        if not sequences:
            return []
        lengths = [batch.context_lens[i] for i in sequences]
        buckets = self._buckets(lengths)
        sequences = [sequences[member] for bucket in buckets for member in bucket]
        facts = [(first_rows[i], batch.context_lens[i]) for i in sequences]
        numbers = np.column_stack((facts, padded_block_tables(batch, sequences, self.block_size)))
        # one transfer for all
        parts = torch.split(to_device(numbers, batch.positions.device), [len(bucket) for bucket in buckets])
        return [
            self._prepare_bucket(part, [lengths[member] for member in bucket])
            for part, bucket in zip(parts, buckets, strict=True)
        ]

    def _buckets(self, lengths: list[int]) -> list[list[int]]:
        """Which decodes share a call: on a GPU all, since that buckets pay has been measured on CPUs only."""
        if self.cache.device.type != "cpu":
            return [list(range(len(lengths)))]
        return bucket_by_length(lengths, key_bytes=self.cache[0, 0].nbytes)

    def _prepare_bucket(self, numbers: Tensor, lengths: list[int]) -> _Decodes:
        """numbers: ``[n, 2 + width]``, of each sequence its row in the batch, its length and its block table."""
        rows, ends, tables = numbers[:, 0], numbers[:, 1:2], numbers[:, 2:]
        length = max(lengths)
        positions = torch.arange(length, device=numbers.device)
        mask = None
        if min(lengths) < length:
            mask = torch.zeros(len(lengths), length, dtype=self.cache.dtype, device=numbers.device)
            mask = mask.masked_fill_(positions >= ends, -torch.inf)[:, None, None].expand(-1, 1, self.group_size, -1)
        # past a sequence's end its own last key is read again, and masked: somebody else's NaN times zero would be NaN
        keys = self._cache_rows(tables, torch.minimum(positions, ends - 1)).flatten()
        return _Decodes(rows, keys, length, mask)

    def _prepare_chunk(self, batch: ForwardBatch, sequence: int, row: int) -> _Chunk:
        end = row + batch.query_lens[sequence]
        start, context_len = batch.starts[sequence], batch.context_lens[sequence]
        if start == 0:
            return _Chunk(row, end, keys=None, mask=None)
        device = batch.positions.device
        positions = torch.arange(context_len, device=device)
        table = to_device(batch.block_tables[sequence][: -(-context_len // self.block_size)], device)
        # padding queries see every key: what they see does not matter, but seeing none gives NaN
        last_seen = start + torch.arange(end - row, device=device)
        keys = self._cache_rows(table[None], positions[None])[0]
        return _Chunk(row, end, keys, mask=positions <= last_seen[:, None])

    def _cache_rows(self, tables: Tensor, positions: Tensor) -> Tensor:
        """Finds the cache rows of ``positions [n, length]`` through the block tables ``[n, num_blocks]``."""
        blocks = tables.gather(1, positions // self.block_size)
        return blocks * self.block_size + positions % self.block_size

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, batch: ForwardBatch) -> Tensor:
        """See ``AttentionBackend``."""
        cache = self.cache[layer]
        cache[:, 0].index_copy_(0, batch.slot_mapping, k)
        cache[:, 1].index_copy_(0, batch.slot_mapping, v)
        num_tokens, num_kv_heads, head_dim = k.shape
        q = q.view(num_tokens, num_kv_heads, self.group_size, head_dim)
        if not self._chunks and len(self._decodes) == 1:  # all of the batch, in order
            return self._attend_decodes(cache, q, self._decodes[0])
        out = torch.empty_like(q).view(num_tokens, -1)
        for chunk in self._chunks:
            rows = slice(chunk.start, chunk.end)
            out[rows] = self._attend_chunk(cache, q[rows], k[rows], v[rows], chunk)
        for decodes in self._decodes:
            found = self._attend_decodes(cache, q.index_select(0, decodes.rows), decodes)
            out.index_copy_(0, decodes.rows, found)
        return out

    def _attend_decodes(self, cache: Tensor, q: Tensor, decodes: _Decodes) -> Tensor:
        """One query a sequence. Query heads that share a KV head stand where queries stand, so no key is repeated.

        That is 4.7 × (bf16) and 1.3 × (float32) as fast as ``enable_gqa`` at batch 8, context 128.

        q: ``[n, num_kv_heads, group_size, head_dim]``; returns ``[n, num_heads * head_dim]``.
        """
        n = q.shape[0]
        kv = cache.index_select(0, decodes.keys).view(n, decodes.length, *cache.shape[1:])
        k, v = kv.permute(2, 0, 3, 1, 4)  # [n, num_kv_heads, length, head_dim] each
        return F.scaled_dot_product_attention(q, k, v, attn_mask=decodes.mask).reshape(n, -1)

    def _attend_chunk(self, cache: Tensor, q: Tensor, k: Tensor, v: Tensor, chunk: _Chunk) -> Tensor:
        """Several queries of one sequence, q ``[num_queries, num_kv_heads, group_size, head_dim]``."""
        if chunk.keys is not None:
            k, v = cache.index_select(0, chunk.keys).unbind(1)
        return causal_attention(q, k, v, chunk.mask)


class CausalAttention:
    """Attention without a cache, for one sequence computed whole: what lab 00 starts from."""

    def allocate(
        self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """Nothing to allocate."""

    def prepare(self, batch: ForwardBatch) -> None:
        """Nothing to prepare."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, batch: ForwardBatch) -> Tensor:
        """Every token attends to itself and to all before it; shapes as in ``AttentionBackend``."""
        num_tokens, num_kv_heads, head_dim = k.shape
        return causal_attention(q.view(num_tokens, num_kv_heads, -1, head_dim), k, v)


def causal_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of one sequence's queries to its keys.

    Args:
        q: ``[num_queries, num_kv_heads, group_size, head_dim]``.
        k: ``[num_keys, num_kv_heads, head_dim]``.
        v: ``[num_keys, num_kv_heads, head_dim]``.
        mask: bool ``[num_queries, num_keys]``, True where a query may look; None: query i sees keys 0 … i.

    Returns:
        ``[num_queries, num_heads * head_dim]``.
    """
    num_queries, _, group_size, _ = q.shape
    # KV heads stand where the batch stands; expanding over the group copies nothing
    q = q.permute(1, 2, 0, 3)
    k = k.transpose(0, 1)[:, None].expand(-1, group_size, -1, -1)
    v = v.transpose(0, 1)[:, None].expand(-1, group_size, -1, -1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    return out.permute(2, 0, 1, 3).reshape(num_queries, -1)
