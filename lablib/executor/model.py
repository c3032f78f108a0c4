"""The executor that runs a real model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from lablib.executor.packing import BoolArray, IntArray, PadBatch, pack_rows, pad_batch
from lablib.model import ForwardBatch, LanguageModel, sample
from lablib.step import Chunk, StepPlan, StepResult


class ModelExecutor:
    """Computes plans with a model and its KV cache.

    Args:
        model: the model; its KV cache is allocated here, and lost to whoever used it before.
        num_blocks: blocks of the KV cache.
        block_size: tokens a block holds.
        pad_batch: makes the rectangle of a padded batch; see ``lablib.executor.packing.pad_batch``.
    """

    def __init__(self, model: LanguageModel, num_blocks: int, block_size: int, pad_batch: PadBatch = pad_batch) -> None:
        model.allocate_cache(num_blocks, block_size)
        self.model = model
        self.pad_batch = pad_batch
        self.name = f"{model.config.name}, {str(model.dtype).removeprefix('torch.')} on {model.device.type}"
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.max_model_len = model.config.max_model_len
        self.eos_token_ids: tuple[int, ...] = tuple(model.config.eos_token_ids)
        self.decode: Callable[[Sequence[int]], str] | None = model.decode

    def execute(self, plan: StepPlan) -> StepResult:
        """Run one forward pass over all chunks, and sample where a chunk asks for it."""
        start = time.perf_counter()
        logits = self.model.forward(self.pack(plan.chunks))
        sampled = [chunk for chunk in plan.chunks if chunk.sample]
        tokens = iter(sample(logits, [c.sampling for c in sampled], [c.output_index for c in sampled]))
        result = tuple((next(tokens),) if chunk.sample else () for chunk in plan.chunks)
        return StepResult(result, time.perf_counter() - start)

    def pack(self, chunks: Sequence[Chunk]) -> ForwardBatch:
        """Lay the chunks out as one flat batch: what the model is given."""
        rows, starts = [chunk.token_ids for chunk in chunks], [chunk.start for chunk in chunks]
        pack = self.pad_batch if any(chunk.num_padding for chunk in chunks) else pack_rows
        token_ids, positions, real = (np.asarray(array, dtype=np.int64).reshape(-1) for array in pack(rows, starts))
        is_real = real.astype(np.bool_)
        lengths = np.array([len(chunk.token_ids) + chunk.num_padding for chunk in chunks])
        if len(token_ids) != lengths.sum():
            raise ValueError(f"the plan has {lengths.sum()} positions, {pack.__name__} packed {len(token_ids)}")
        ends = np.cumsum(lengths)
        last_real = ends - lengths + np.array([len(row) for row in rows]) - 1
        return ForwardBatch(
            token_ids=self._tensor(token_ids),
            positions=self._tensor(positions),
            slot_mapping=self._tensor(self._slot_mapping(chunks, positions, is_real, ends)),
            query_lens=lengths.tolist(),
            context_lens=[chunk.end for chunk in chunks],
            block_tables=[list(chunk.block_ids) for chunk in chunks],
            logit_rows=self._tensor(last_real[[chunk.sample for chunk in chunks]]),
        )

    def _slot_mapping(
        self, chunks: Sequence[Chunk], positions: IntArray, is_real: BoolArray, ends: IntArray
    ) -> IntArray:
        """Row of the flat KV cache that each position writes; padding writes the scratch row behind the last block."""
        slots = np.full(len(positions), self.num_blocks * self.block_size, dtype=np.int64)
        starts = np.concatenate(([0], ends[:-1]))
        for chunk, start, end in zip(chunks, starts, ends, strict=True):
            real = positions[start:end][is_real[start:end]]
            blocks = np.asarray(chunk.block_ids, dtype=np.int64)[real // self.block_size]
            slots[start:end][is_real[start:end]] = blocks * self.block_size + real % self.block_size
        return slots

    def _tensor(self, values: IntArray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(self.model.device)
