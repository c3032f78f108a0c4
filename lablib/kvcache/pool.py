"""Blocks of the KV cache, known by their ids alone."""

from __future__ import annotations

from collections import deque

from lablib.validate import whole


class BlockPool:
    """Hands out block ids ``0 … num_blocks - 1``; every operation is O(1).

    A block is free, or it has one reference for each request that uses it. The blocks that were
    freed first are used again first.

    Args:
        num_blocks: size of the pool, in blocks.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = whole("num_blocks, the size of a block pool,", num_blocks, least=1)
        self._free = deque(range(self.num_blocks))
        self._references = [0] * self.num_blocks

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_blocks - len(self._free)

    def allocate(self) -> int:
        """Take a free block and hold the first reference to it.

        Raises:
            IndexError: no block is free.
        """
        if not self._free:
            raise IndexError(f"all {self.num_blocks} blocks are in use; free one, or make the pool larger")
        block_id = self._free.popleft()
        self._references[block_id] = 1
        return block_id

    def share(self, block_id: int) -> None:
        """Hold one more reference to a block that is in use."""
        self._require_used(block_id)
        self._references[block_id] += 1

    def free(self, block_id: int) -> None:
        """Give one reference back; the block is free when the last one is gone.

        Raises:
            ValueError: the block is free already, or no block has this id.
        """
        self._require_used(block_id)
        self._references[block_id] -= 1
        if self._references[block_id] == 0:
            self._free.append(block_id)

    def _require_used(self, block_id: int) -> None:
        if not 0 <= block_id < self.num_blocks:
            raise ValueError(f"there is no block {block_id}: the pool has blocks 0 to {self.num_blocks - 1}")
        if self._references[block_id] == 0:
            raise ValueError(f"block {block_id} is free already; free each reference once")
