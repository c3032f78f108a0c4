"""Where each gigabyte of a device goes, and how large a KV cache that leaves.

The rule is vLLM's: an engine may use the share ``gpu_memory_utilization`` of the memory. Weights, the tensors of the
largest step and what the libraries need come first; whole blocks of KV cache fill the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lablib.roofline import ModelShape, kv_bytes_per_token

GPU_MEMORY_UTILIZATION = 0.9
BLOCK_SIZE = 16
_BAR = 30


class PoolSizeError(ValueError):
    """No block of KV cache fits beside the rest; the message names need, limit and remedy."""


class Part(NamedTuple):
    """A part of the memory, in bytes, and where the number comes from."""

    num_bytes: int
    note: str


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """A device's memory, split into parts that add up to it.

    Args:
        device: for titles.
        model: the numbers behind a token's K and V.
        bytes_per_element: of K and V; 2 for bf16 and fp16, 4 for float32.
        block_size: tokens a block of the KV cache holds.
        memory: bytes the device has.
        kept_back: bytes the engine leaves alone.
        weights: bytes of the model.
        activations: bytes of the largest step's tensors.
        other: bytes that are taken by whatever else.

    Raises:
        PoolSizeError: the weights, or one block beside the rest, don't fit.
        ValueError: a block of less than one token.
    """

    device: str
    model: ModelShape
    bytes_per_element: int
    block_size: int
    memory: int
    kept_back: Part
    weights: Part
    activations: Part
    other: Part

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise ValueError(f"block_size must be at least 1 token, got {self.block_size}")
        limit = f"the engine may use {gigabytes(self.limit)} of {gigabytes(self.memory)}"
        need = self.taken + self.block_bytes
        remedy = "raise gpu_memory_utilization, " if need <= self.memory else ""
        if self.weights.num_bytes > self.limit:
            raise PoolSizeError(
                f"{self.name}: the weights alone need {gigabytes(self.weights.num_bytes)}, {limit}; {remedy}take a "
                "smaller model or dtype, or a device with more memory"
            )
        if self.num_blocks < 1:
            raise PoolSizeError(
                f"{self.name}: no block of KV cache fits: weights {gigabytes(self.weights.num_bytes)}, activations "
                f"{gigabytes(self.activations.num_bytes)}, other {gigabytes(self.other.num_bytes)} and a block of "
                f"{gigabytes(self.block_bytes)} need {gigabytes(need)}, {limit}; {remedy}lower max_num_batched_tokens, "
                "max_num_seqs or block_size, end what else uses the memory, or take a smaller model"
            )

    @property
    def name(self) -> str:
        return f"{self.model.name}, {8 * self.bytes_per_element}-bit, on {self.device}"

    @property
    def limit(self) -> int:
        """Bytes the engine may use."""
        return self.memory - self.kept_back.num_bytes

    @property
    def bytes_per_token(self) -> int:
        """Bytes of K and V that one token occupies."""
        return kv_bytes_per_token(
            self.model.num_layers, self.model.num_kv_heads, self.model.head_dim, self.bytes_per_element
        )

    @property
    def block_bytes(self) -> int:
        return self.block_size * self.bytes_per_token

    @property
    def taken(self) -> int:
        """Bytes that are needed before the first block."""
        return self.weights.num_bytes + self.activations.num_bytes + self.other.num_bytes

    @property
    def num_blocks(self) -> int:
        """Blocks of the KV cache: as many as fit."""
        return (self.limit - self.taken) // self.block_bytes

    @property
    def num_tokens(self) -> int:
        """Tokens the KV cache holds."""
        return self.num_blocks * self.block_size

    @property
    def parts(self) -> dict[str, Part]:
        """Where each byte goes."""
        cache = Part(self.num_blocks * self.block_bytes, f"{self.num_blocks:,} blocks of {self.block_size:,} tokens")
        parts = {
            "kept back": self.kept_back,
            "weights": self.weights,
            "activations": self.activations,
            "other": self.other,
            "KV cache": cache,
        }
        return {**parts, "left over": Part(self.memory - sum(p.num_bytes for p in parts.values()), "less than a block")}

    def requests_reserved(self, max_model_len: int) -> int:
        """How many requests fit when each reserves blocks for ``max_model_len`` tokens."""
        if max_model_len < 1:
            raise ValueError(f"max_model_len must be at least 1 token, got {max_model_len}")
        return self.num_blocks // -(-max_model_len // self.block_size)

    def requests_on_demand(self, mean_tokens: float) -> int:
        """How many requests fit when each holds only the blocks it has begun to fill.

        Args:
            mean_tokens: tokens a request holds on average. Of its last block half is empty, on average.
        """
        if mean_tokens < 1:
            raise ValueError(f"mean_tokens must be at least 1, got {mean_tokens}")
        return int(self.num_tokens / (mean_tokens + (self.block_size - 1) / 2))

    def formula(self) -> str:
        """How the bytes of a token's K and V come about."""
        model = self.model
        return (
            f"2 (K and V) · {model.num_layers} layers · {model.num_kv_heads} KV heads · {model.head_dim} elements · "
            f"{self.bytes_per_element} bytes = {self.bytes_per_token:,} bytes a token"
        )

    def __str__(self) -> str:
        """A table: bytes of each part, its share of the memory, a bar of plain characters, and what is behind it."""
        rows = [f"{self.name}: {gigabytes(self.memory)}", ""]
        for name, (num_bytes, note) in self.parts.items():
            share = num_bytes / self.memory
            bar = "#" * round(_BAR * share) or "." * (num_bytes > 0)
            rows.append(f"{name:<12}{gigabytes(num_bytes):>10}{share:>8.1%}  {bar:<{_BAR}}  {note}")
        return "\n".join(rows)


def keep_back(memory: int, gpu_memory_utilization: float) -> Part:
    """What the engine leaves alone of ``memory`` bytes; ``ValueError`` for a share outside (0, 1]."""
    if not 0 < gpu_memory_utilization <= 1:
        raise ValueError(
            f"gpu_memory_utilization is a share of the memory, above 0 and at most 1, got {gpu_memory_utilization}"
        )
    return Part(memory - int(memory * gpu_memory_utilization), f"gpu_memory_utilization = {gpu_memory_utilization:g}")


def gigabytes(num_bytes: float) -> str:
    """Bytes as a text; small amounts in MB."""
    return f"{num_bytes / 1e9:,.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:,.2f} MB"
