"""The executor that runs a real model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from lablib.executor.packing import IntArray, PackChunks, PadBatch, pack_chunks, pad_batch, slot_mapping
from lablib.executor.sizing import DeviceMemory, StepLimits, size_pool
from lablib.limits import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from lablib.memory import BLOCK_SIZE, MemoryPlan
from lablib.model import ForwardBatch, LanguageModel, sample
from lablib.model.transfer import to_device
from lablib.step import Chunk, StepPlan, StepResult


class ModelExecutor:
    """Computes plans with a model and its KV cache.

    Attributes:
        memory: where the device's memory goes, if the pool was sized from it; print it.

    Args:
        model: the model; its weights are shared, the KV cache is this executor's own, and goes when it goes.
        num_blocks: blocks of the KV cache; None: as many as the device's memory holds beside the rest, see ``memory``.
        block_size: tokens a block holds.
        pad_batch: makes the rectangle of a padded batch; see ``lablib.executor.packing``.
        pack_chunks: makes the flat batch of a step without padding; see there too.
        gpu_memory_utilization: for ``num_blocks=None``, share of the memory that the engine may use. None: 0.9 on a
            GPU; on the CPU a cache of 256 MB, and at most half of what is free.
        max_num_batched_tokens: for ``num_blocks=None``, most tokens of a step: the scheduler's limit.
        max_num_seqs: for ``num_blocks=None``, most rows of a step: the scheduler's limit.
        max_model_len: most tokens of one sequence; None: the model's own limit.
        device_memory: for ``num_blocks=None``, says what is taken and free; None: the model's device.

    Raises:
        PoolSizeError: ``num_blocks=None``, and no block fits.
        ValueError: a limit that can't work.
    """

    def __init__(
        self,
        model: LanguageModel,
        num_blocks: int | None = None,
        block_size: int = BLOCK_SIZE,
        pad_batch: PadBatch = pad_batch,
        pack_chunks: PackChunks = pack_chunks,
        *,
        gpu_memory_utilization: float | None = None,
        max_num_batched_tokens: int = MAX_NUM_BATCHED_TOKENS,
        max_num_seqs: int = MAX_NUM_SEQS,
        max_model_len: int | None = None,
        device_memory: DeviceMemory | None = None,
    ) -> None:
        self.pad_batch = pad_batch
        self.pack_chunks = pack_chunks
        self.name = f"{model.config.name}, {str(model.dtype).removeprefix('torch.')} on {model.device.type}"
        self.block_size = block_size
        self.max_model_len = _within(model.config.max_model_len, max_model_len)
        self.vocab_size = model.config.vocab_size
        self.eos_token_ids: tuple[int, ...] = tuple(model.config.eos_token_ids)
        self.decode: Callable[[Sequence[int]], str] | None = model.decode
        self.memory: MemoryPlan | None = None
        self.num_blocks = 1 if num_blocks is None else num_blocks
        self.model = model.with_cache(self.num_blocks, block_size)
        if num_blocks is None:
            limits = StepLimits(max_num_batched_tokens, max_num_seqs, self.max_model_len)
            self.memory = size_pool(self.model, self.execute, block_size, limits, gpu_memory_utilization, device_memory)
            self.num_blocks = self.memory.num_blocks
            self.model.allocate_cache(self.num_blocks, block_size)

    def execute(self, plan: StepPlan) -> StepResult:
        """Run one forward pass over all chunks, and sample where a chunk asks for it.

        The time is whole on a GPU too: sampling waits for all that the step has queued, also when nothing is sampled.
        """
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
        device = self.model.device
        last_real = np.cumsum(lengths) - lengths + num_real - 1
        return ForwardBatch(
            token_ids=to_device(token_ids, device),
            positions=to_device(positions, device),
            slot_mapping=to_device(slots, device),
            query_lens=lengths.tolist(),
            starts=[chunk.start for chunk in chunks],
            context_lens=[chunk.end for chunk in chunks],
            block_tables=[chunk.block_ids for chunk in chunks],
            logit_rows=to_device(last_real[[chunk.sample for chunk in chunks]], device),
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


def _within(own_limit: int, max_model_len: int | None) -> int:
    if max_model_len is None:
        return own_limit
    if not 1 <= max_model_len <= own_limit:
        raise ValueError(f"max_model_len={max_model_len} is not between 1 and the model's own limit of {own_limit}")
    return max_model_len
