"""The numbers that a launch starts from: the attention heads of a model, and two roundings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heads:
    """The attention heads of a model.

    Args:
        num_heads: query heads.
        num_kv_heads: key/value heads.
        head_dim: width of a head.
        model: whose; for titles.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    model: str = ""

    @property
    def group_size(self) -> int:
        """Query heads that share a KV head."""
        return self.num_heads // self.num_kv_heads


def ceil_div(a: int, b: int) -> int:
    """``a / b``, rounded up: how many pieces of ``b`` hold ``a``."""
    return -(-a // b)


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << (n - 1).bit_length()
