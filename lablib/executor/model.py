"""The executor that runs a real model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from lablib.executor.packing import IntArray, PackChunks, PadBatch, pack_chunks, pad_batch, slot_mapping
from lablib.model import ForwardBatch, LanguageModel, sample
from lablib.step import Chunk, StepPlan, StepResult


class ModelExecutor:
    """Computes plans with a model and its KV cache.

    Args:
        model: the model; its KV cache is allocated here, and lost to whoever used it before.
        num_blocks: blocks of the KV cache.
        block_size: tokens a block holds.
        pad_batch: makes the rectangle of a padded batch; see ``lablib.executor.packing``.
        pack_chunks: makes the flat batch of a step without padding; see there too.
    """

    def __init__(
        self,
        model: LanguageModel,
        num_blocks: int,
        block_size: int,
        pad_batch: PadBatch = pad_batch,
        pack_chunks: PackChunks = pack_chunks,
    ) -> None:
        model.allocate_cache(num_blocks, block_size)
        self.model = model
        self.pad_batch = pad_batch
        self.pack_chunks = pack_chunks
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
        padded = any(chunk.num_padding for chunk in chunks)
        packed = self._pack_rectangle(chunks) if padded else self.pack_chunks(chunks, self.block_size)
        token_ids, positions, slots = (np.asarray(array, dtype=np.int64) for array in packed)
        num_real = np.array([len(chunk.token_ids) for chunk in chunks])
        lengths = num_real + np.array([chunk.num_padding for chunk in chunks])
        if not len(token_ids) == len(positions) == len(slots) == lengths.sum():
            raise ValueError(f"the plan has {lengths.sum()} positions, {len(token_ids)} were packed")
        last_real = np.cumsum(lengths) - lengths + num_real - 1
        return ForwardBatch(
            token_ids=self._tensor(token_ids),
            positions=self._tensor(positions),
            slot_mapping=self._tensor(slots),
            query_lens=lengths.tolist(),
            context_lens=[chunk.end for chunk in chunks],
            block_tables=[chunk.block_ids for chunk in chunks],
            logit_rows=self._tensor(last_real[[chunk.sample for chunk in chunks]]),
        )

    def _pack_rectangle(self, chunks: Sequence[Chunk]) -> tuple[IntArray, IntArray, IntArray]:
        """A padded batch as token ids, positions and slots; padding writes the scratch row behind the last block."""
        rows, starts = [chunk.token_ids for chunk in chunks], [chunk.start for chunk in chunks]
        token_ids, positions, is_real = (np.asarray(array, dtype=np.int64) for array in self.pad_batch(rows, starts))
        slots = np.full(token_ids.shape, self.num_blocks * self.block_size, dtype=np.int64)
        for row, chunk in enumerate(chunks):
            real = is_real[row].astype(np.bool_)
            slots[row, real] = slot_mapping(chunk.block_ids, positions[row, real], self.block_size)
        return token_ids.ravel(), positions.ravel(), slots.ravel()

    def _tensor(self, values: IntArray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64)).to(self.model.device)
