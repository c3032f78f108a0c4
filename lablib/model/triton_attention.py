"""Paged attention with the lab's Triton kernels: the backend of a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labkernels import cache_write, paged_decode, paged_prefill
from labkernels.launch import unsupported
from lablib.model.batch import ForwardBatch
from lablib.model.config import ModelConfig
from lablib.model.paging import new_cache, padded_block_tables, require_cache
from lablib.model.transfer import to_device


@dataclass(slots=True)
class _Sequences:
    """Some sequences of a batch as the kernels see them; int32 ``[num_sequences]`` each."""

    context_lens: Tensor
    query_rows: Tensor
    query_lens: Tensor
    starts: Tensor
    block_tables: Tensor  # [num_sequences, blocks of the longest context]
    max_query_len: int
    max_context_len: int


class TritonAttention:
    """Paged attention in three kernels a layer: write K and V, attend for decodes, attend for prompts and chunks.

    The cache of a layer is laid out as ``TorchAttention`` has it; here it is read in place, whatever the block size, so
    nothing is gathered and nothing is padded. Without a GPU the kernels run in Triton's interpreter: exact, and some
    thousand times slower.
    """

    def __init__(self) -> None:
        self.cache = torch.empty(0)
        self.block_size = 0
        self._layers: list[tuple[Tensor, ...]] = []  # K and V cache of each
        self._decodes: _Sequences | None = None
        self._chunks: _Sequences | None = None

    def allocate(
        self, config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        """See ``AttentionBackend``; raises ``ValueError`` when no kernel serves the model's heads or dtype."""
        reason = unsupported(dtype, config.head_dim)
        if reason:
            raise ValueError(f"{config.name} can't use the Triton kernels: {reason}; choose the torch backend")
        self.cache = new_cache(config, num_blocks, block_size, dtype, device)
        self.block_size = block_size
        self._layers = [layer.unbind(1) for layer in self.cache]

    def prepare(self, batch: ForwardBatch) -> None:
        """See ``AttentionBackend``."""
        require_cache(self.block_size)
        lens = batch.query_lens
        self._decodes = self._sequences(batch, [i for i, query_len in enumerate(lens) if query_len == 1])
        self._chunks = self._sequences(batch, [i for i, query_len in enumerate(lens) if query_len > 1])

    def _sequences(self, batch: ForwardBatch, which: list[int]) -> _Sequences | None:
        """Brings what the kernels must know of some sequences to the device, in one transfer."""
        if not which:
            return None
        first_rows = batch.first_rows
        lens = [batch.context_lens[i] for i in which]
        counts = [batch.query_lens[i] for i in which]
        tables = padded_block_tables(batch, which, self.block_size)
        columns = np.array([lens, [first_rows[i] for i in which], counts, [batch.starts[i] for i in which]])
        there = to_device(np.concatenate((columns.ravel(), tables.ravel())), batch.positions.device, np.int32)
        context_lens, query_rows, query_lens, starts = there[: columns.size].view(columns.shape)
        block_tables = there[columns.size :].view(tables.shape)
        return _Sequences(context_lens, query_rows, query_lens, starts, block_tables, max(counts), max(lens))

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, batch: ForwardBatch) -> Tensor:
        """See ``AttentionBackend``."""
        k_cache, v_cache = self._layers[layer]
        cache_write(k, v, k_cache, v_cache, batch.slot_mapping)
        out = q.new_empty(q.shape)
        if self._decodes is not None:
            some = self._decodes
            paged_decode(
                q, k_cache, v_cache, some.block_tables, some.context_lens, self.block_size,
                query_rows=some.query_rows, out=out, max_context_len=some.max_context_len,
            )  # fmt: skip
        if self._chunks is not None:
            some = self._chunks
            paged_prefill(
                q, k_cache, v_cache, some.block_tables, some.context_lens, self.block_size,
                query_rows=some.query_rows, query_lens=some.query_lens, starts=some.starts,
                max_query_len=some.max_query_len, out=out,
            )  # fmt: skip
        return out.view(len(q), -1)
