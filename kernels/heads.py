"""The attention heads of a model: what the sizes of every kernel follow from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heads:
    """The attention heads of a model.

    Args:
        model: whose.
        num_heads: query heads.
        num_kv_heads: key/value heads.
        head_dim: width of a head.
    """

    model: str
    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def group_size(self) -> int:
        return self.num_heads // self.num_kv_heads


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << (n - 1).bit_length()
