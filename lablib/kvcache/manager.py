"""Block tables: which blocks hold the K/V of which request."""

from __future__ import annotations

from lablib.kvcache.pool import BlockPool

BlockChange = tuple[str, str, tuple[int, ...]]  # "allocated" or "freed", request id, block ids


class OutOfBlocks(RuntimeError):  # noqa: N818 - what it says is the field's own word
    """A request needs more blocks than are free."""


class KVCacheManager:
    """Owns the block table of every request that holds K/V.

    A contiguous reservation is paging with one giant block: with ``block_size = max_model_len``
    a request holds one block from its first token to its last.

    Args:
        num_blocks: blocks in the pool.
        block_size: tokens a block holds.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1 token, got {block_size}")
        self.block_size = block_size
        self.pool = BlockPool(num_blocks)
        self._tables: dict[str, tuple[int, ...]] = {}
        self._changes: list[BlockChange] = []

    @property
    def capacity(self) -> int:
        """Tokens the whole pool holds."""
        return self.pool.num_blocks * self.block_size

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that ``num_tokens`` tokens of one request fill, the last one perhaps in part."""
        return -(-num_tokens // self.block_size)

    def missing(self, request_id: str, num_tokens: int) -> int:
        """Blocks the request lacks to hold ``num_tokens`` tokens."""
        return max(0, self.blocks_for(num_tokens) - len(self._tables.get(request_id, ())))

    def can_fit(self, request_id: str, num_tokens: int) -> bool:
        """Whether the request can grow to ``num_tokens`` tokens with the blocks that are free now."""
        return self.missing(request_id, num_tokens) <= self.pool.num_free

    def grow(self, request_id: str, num_tokens: int) -> tuple[int, ...]:
        """Make the request's block table long enough for ``num_tokens`` tokens, and return it.

        Raises:
            OutOfBlocks: too few blocks are free; nothing has been taken.
        """
        missing = self.missing(request_id, num_tokens)
        table = self._tables.get(request_id, ())
        if missing == 0:
            return table
        if missing > self.pool.num_free:
            raise OutOfBlocks(
                f"request {request_id} needs {missing} more blocks for {num_tokens} tokens, "
                f"{self.pool.num_free} are free"
            )
        taken = tuple(self.pool.allocate() for _ in range(missing))
        self._tables[request_id] = table + taken
        self._changes.append(("allocated", request_id, taken))
        return table + taken

    def block_table(self, request_id: str) -> tuple[int, ...]:
        """The request's block ids, in the order of its tokens; empty when it holds none."""
        return self._tables.get(request_id, ())

    def free(self, request_id: str) -> None:
        """Give back all blocks of a request; one that holds none is left alone."""
        table = self._tables.pop(request_id, ())
        for block_id in table:
            self.pool.free(block_id)
        if table:
            self._changes.append(("freed", request_id, table))

    def take_changes(self) -> list[BlockChange]:
        """The block changes since the last call, in order; for the trace."""
        changes, self._changes = self._changes, []
        return changes
