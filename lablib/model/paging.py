"""What every paged attention backend does in the same way: lay out the cache, and bring block tables into shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lablib.model.batch import ForwardBatch
from lablib.model.config import ModelConfig


def new_cache(
    config: ModelConfig, num_blocks: int, block_size: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Zeros ``[num_layers, num_blocks * block_size + 1, 2, num_kv_heads, head_dim]``; padding writes the last row."""
    rows = num_blocks * block_size + 1
    return torch.zeros((config.num_layers, rows, 2, config.num_kv_heads, config.head_dim), dtype=dtype, device=device)


def require_cache(block_size: int) -> None:
    """Refuse to compute before there is a cache.

    Raises:
        RuntimeError: ``block_size`` is 0, as it is until a backend has allocated.
    """
    if block_size == 0:
        raise RuntimeError("the model has no KV cache yet: call model.allocate_cache(num_blocks, block_size) first")


def padded_block_tables(batch: ForwardBatch, sequences: Sequence[int], block_size: int) -> npt.NDArray[np.int64]:
    """Block tables of some sequences, ``[num_sequences, blocks of the longest context]``, with 0 behind their ends."""
    width = -(-max(batch.context_lens[i] for i in sequences) // block_size)
    tables = np.zeros((len(sequences), width), dtype=np.int64)
    for row, i in zip(tables, sequences, strict=True):
        table = batch.block_tables[i][:width]
        row[: len(table)] = table
    return tables
