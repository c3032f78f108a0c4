"""Splitting a device's memory on paper: from a model's shape and the limits of a step, without torch or a device."""

from __future__ import annotations

from typing import NamedTuple

from lablib.limits import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, require_room_to_decode
from lablib.memory import BLOCK_SIZE, GPU_MEMORY_UTILIZATION, MemoryPlan, Part, gigabytes, keep_back
from lablib.roofline import ModelShape

# The driver's context, the kernels' code, the libraries' workspaces: vLLM has logged 0.1 to 1.8 GiB (its issues and
# pull requests 10511, 12126).
_OTHER_ON_PAPER = 1_000_000_000


class StepBytes(NamedTuple):
    """What the tensors of a step take at its two largest moments, in bytes.

    Args:
        layers: all tokens, inside a layer.
        logits: the rows that sample, behind the output head.
    """

    layers: int
    logits: int


def paper_plan(
    model: ModelShape,
    device: str,
    memory: int,
    bytes_per_element: int = 2,
    gpu_memory_utilization: float = GPU_MEMORY_UTILIZATION,
    max_num_batched_tokens: int = MAX_NUM_BATCHED_TOKENS,
    max_num_seqs: int = MAX_NUM_SEQS,
    block_size: int = BLOCK_SIZE,
) -> MemoryPlan:
    """Split a GPU's memory on paper: attention reads K and V where they are, and copies none.

    Args:
        model: its shape.
        device: for titles.
        memory: bytes the device has.
        bytes_per_element: of weights, tensors, K and V; 2 for bf16 and fp16, 4 for float32.
        gpu_memory_utilization: share of the memory that the engine may use, above 0, at most 1.
        max_num_batched_tokens: most tokens of a step.
        max_num_seqs: most rows that sample in it.
        block_size: tokens a block of the KV cache holds.

    Raises:
        PoolSizeError: it does not fit.
        ValueError: a limit that can't work.
    """
    return MemoryPlan(
        device,
        model,
        bytes_per_element,
        block_size,
        memory,
        keep_back(memory, gpu_memory_utilization),
        Part(model.num_weights * bytes_per_element, f"{model.num_weights / 1e6:,.0f} M of {bytes_per_element} bytes"),
        paper_activations(model, bytes_per_element, max_num_batched_tokens, max_num_seqs),
        Part(_OTHER_ON_PAPER, "assumed: driver, kernels' code, workspaces"),
    )


def paper_activations(
    model: ModelShape, bytes_per_element: int, max_num_batched_tokens: int, max_num_seqs: int
) -> Part:
    """What the largest step takes, from the shapes of this project's decoder; arguments as in ``step_bytes``.

    Both of its largest moments are counted, though one follows the other: what an allocator keeps of the first seldom
    serves the second. (On the CPU a process grew by 0.8 to 2.1 × this sum, because of holes that glibc keeps; told to
    give freed memory back at once, by the larger moment alone and 4 to 9% more.)
    """
    layers, logits = step_bytes(model, bytes_per_element, max_num_batched_tokens, max_num_seqs)
    note = f"{max_num_batched_tokens:,} tokens in a layer {gigabytes(layers)}, {max_num_seqs:,} rows of logits"
    return Part(layers + logits, f"{note} {gigabytes(logits)}")


def step_bytes(model: ModelShape, bytes_per_element: int, max_num_batched_tokens: int, max_num_seqs: int) -> StepBytes:
    """Bytes of the tensors that live at the largest moments of a step.

    Through all layers a token takes its id, position and slot (8 bytes each), the cosines and sines of its position,
    and its row of the residual stream. Inside a layer the feed-forward network takes most: the stream after attention,
    its norm, gate and up, SiLU of the gate, and the product. Logits come in the model's dtype, and are converted to
    float32. K and V that attention gathers are not counted.

    Args:
        model: its shape.
        bytes_per_element: of the model's dtype.
        max_num_batched_tokens: tokens of the step.
        max_num_seqs: rows that sample.

    Raises:
        ValueError: no row, or fewer tokens than rows.
    """
    if max_num_seqs < 1:
        raise ValueError(f"max_num_seqs must be at least 1, got {max_num_seqs}")
    require_room_to_decode(max_num_batched_tokens, max_num_seqs)
    elements = 2 * model.head_dim + 3 * model.hidden_size + 4 * model.intermediate_size
    logit_bytes = bytes_per_element + (4 if bytes_per_element < 4 else 0)
    return StepBytes(
        layers=max_num_batched_tokens * (24 + elements * bytes_per_element),
        logits=max_num_seqs * model.vocab_size * logit_bytes,
    )
