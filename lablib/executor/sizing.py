"""How large a KV cache fits on this device beside a model that is loaded: measured, as vLLM does it.

Run the largest step once, see what it took, and give what is left to the cache. Only CUDA counts what a step takes; on
the CPU it comes from the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lablib import host_memory
from lablib.memory import GPU_MEMORY_UTILIZATION, MemoryPlan, Part, PoolSizeError, gigabytes, keep_back
from lablib.model import LanguageModel, ModelConfig
from lablib.model.linear import Linear
from lablib.paper_memory import paper_activations
from lablib.request import SamplingParams
from lablib.roofline import ModelShape, kv_bytes_per_token
from lablib.step import Chunk, StepPlan

# 11,104 tokens of the default model in bf16. A lab's kernel may take 1.5 GB: with the labs' libraries loaded, this
# cache full and steps of 2,048 tokens, a process peaked at 1.03 GB in bf16 and 1.38 GB in float32.
HOST_CACHE_BYTES = 256_000_000


class DeviceMemory(Protocol):
    """What a device says about its memory, in bytes."""

    def total(self) -> int:
        """All there is."""

    def in_use(self) -> int:
        """What is taken now, by this process and by others."""

    def peak_of(self, run: Callable[[], object]) -> int | None:
        """The most that tensors took while ``run`` ran, over what they took before; None where nobody counts."""


@dataclass(frozen=True, slots=True)
class CudaMemory:
    """The memory of an NVIDIA GPU."""

    device: torch.device

    def total(self) -> int:
        return torch.cuda.mem_get_info(self.device)[1]

    def in_use(self) -> int:
        # PyTorch keeps freed memory for itself; the driver counts that as taken
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free

    def peak_of(self, run: Callable[[], object]) -> int:
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        run()
        torch.cuda.synchronize(self.device)
        return torch.cuda.max_memory_allocated(self.device) - before


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The memory of this machine, as far as a container lets this process use it."""

    def total(self) -> int:
        return host_memory.total()

    def in_use(self) -> int:
        return host_memory.total() - host_memory.free()

    def peak_of(self, run: Callable[[], object]) -> None:
        """Nothing counts tensors on the CPU, and the step would take seconds there."""


@dataclass(frozen=True, slots=True)
class StepLimits:
    """What the largest step is.

    Args:
        max_num_batched_tokens: its tokens.
        max_num_seqs: its rows.
        max_model_len: most tokens of one sequence.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int

    def largest(self, block_size: int) -> tuple[StepPlan, StepPlan]:
        """The step of most tokens (prompts, all rows sample), and the one that reads most K/V (decodes).

        All their positions live in block 0: what a step costs does not depend on which rows of the cache it reads.
        """

        def chunk(row: int, start: int, num_tokens: int) -> Chunk:
            table = (0,) * -(-(start + num_tokens) // block_size)
            return Chunk(f"r{row}", row, start, (0,) * num_tokens, 0, table, SamplingParams(), 0, True)

        rows = self.max_num_seqs
        tokens = min(self.max_num_batched_tokens, rows * self.max_model_len)
        prompts = (chunk(row, 0, tokens // rows + (row < tokens % rows)) for row in range(rows))
        decodes = (chunk(row, self.max_model_len - 1, 1) for row in range(rows))
        return StepPlan(chunks=tuple(prompts)), StepPlan(chunks=tuple(decodes))


def size_pool(
    model: LanguageModel,
    execute: Callable[[StepPlan], object],
    block_size: int,
    limits: StepLimits,
    gpu_memory_utilization: float | None = None,
    memory: DeviceMemory | None = None,
) -> MemoryPlan:
    """Split the memory of the device that a model is on.

    Args:
        model: loaded, with a KV cache of one block that will be replaced.
        execute: runs a step with it.
        block_size: tokens a block holds.
        limits: of the largest step.
        gpu_memory_utilization: share of the memory that this and all else may use together. None: 0.9 on a GPU; on the
            CPU a cache of 256 MB, and at most half of what is free.
        memory: of the device; None: ask it.

    Raises:
        PoolSizeError: no block fits, or not even the largest step.
        ValueError: a limit that can't work.
    """
    on_gpu = model.device.type == "cuda"
    memory = memory or (CudaMemory(model.device) if on_gpu else HostMemory())
    shape, itemsize = shape_of(model.config), model.dtype.itemsize
    activations = _activations(shape, itemsize, execute, block_size, limits, memory)
    weights = weight_bytes(model)
    # asked after the step: by now its kernels are loaded and their workspaces made
    total, in_use = memory.total(), memory.in_use()
    block = block_size * kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim, itemsize)
    other = max(0, in_use - weights - block)
    if gpu_memory_utilization is None and not on_gpu:
        kept_back = _keep_back_on_host(total, weights + activations.num_bytes + other)
    else:
        given = gpu_memory_utilization
        kept_back = keep_back(total, GPU_MEMORY_UTILIZATION if given is None else given)
    return MemoryPlan(
        device=f"this machine's {model.device.type}",
        model=shape,
        bytes_per_element=itemsize,
        block_size=block_size,
        memory=total,
        kept_back=kept_back,
        weights=Part(weights, "the tensors of this model, counted"),
        activations=activations,
        other=Part(other, "taken by Python, libraries and other programs, measured"),
    )


def _activations(
    shape: ModelShape,
    itemsize: int,
    execute: Callable[[StepPlan], object],
    block_size: int,
    limits: StepLimits,
    memory: DeviceMemory,
) -> Part:
    on_paper = paper_activations(shape, itemsize, limits.max_num_batched_tokens, limits.max_num_seqs)
    steps = limits.largest(block_size)
    try:
        peak = memory.peak_of(lambda: [execute(step) for step in steps])
    except torch.OutOfMemoryError as error:
        raise PoolSizeError(
            f"{shape.name}: the largest step ran out of memory; on paper it takes {gigabytes(on_paper.num_bytes)} for "
            f"{on_paper.note}, and attention may copy K and V; lower max_num_batched_tokens, max_num_seqs or "
            "max_model_len, or end what else uses the device"
        ) from error
    if peak is None:
        return on_paper
    return Part(peak, f"measured; on paper {gigabytes(on_paper.num_bytes)}")


def _keep_back_on_host(total: int, fixed: int) -> Part:
    """Leave all to other programs but a cache of 256 MB, and half of what is free if that is less."""
    cache = min(HOST_CACHE_BYTES, max(0, total - fixed) // 2)
    return Part(max(0, total - fixed - cache), "left to other programs")


def shape_of(config: ModelConfig) -> ModelShape:
    """A loaded model's numbers as paper arithmetic wants them."""
    return ModelShape(
        name=config.name,
        num_weights=config.num_parameters,
        num_layers=config.num_layers,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        num_heads=config.num_heads,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        tied=config.tie_word_embeddings,
    )


def weight_bytes(model: LanguageModel) -> int:
    """Bytes of a model's tensors: weights, packed copies of them, and the tables of the rotary embedding."""
    return sum(dict(_sizes(model.decoder)).values())


def _sizes(thing: object) -> Iterator[tuple[int, int]]:
    """Id and bytes of all tensors and packed weights below an object of the decoder; one that is used twice, twice."""
    if isinstance(thing, Tensor):
        yield id(thing), thing.numel() * thing.element_size()
    elif isinstance(thing, list):
        for each in thing:
            yield from _sizes(each)
    elif isinstance(thing, Linear):
        yield id(thing.weight), thing.nbytes
        yield from _sizes(thing.bias)
    elif type(thing).__module__.startswith("lablib.model"):
        names = getattr(type(thing), "__slots__", None) or vars(thing)
        for name in names:
            yield from _sizes(getattr(thing, name))
