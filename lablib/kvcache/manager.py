"""Block tables: which blocks hold the K/V of which request."""

from __future__ import annotations

from lablib.kvcache.pool import BlockPool
from lablib.validate import whole

BlockChange = tuple[str, str, tuple[int, ...]]  # "allocated" or "freed", request id, block ids


class OutOfBlocks(RuntimeError):  # noqa: N818 - what it says is the field's own word
    """A request needs more blocks than are free; nothing has been taken.

    Args:
        request_id: who needs them.
        need: blocks that it lacks.
        free: blocks that are free.

    Attributes:
        step: the step that could not be planned, numbered as in the trace; the engine fills it in.
    """

    def __init__(self, request_id: str, need: int, free: int) -> None:
        super().__init__(request_id, need, free)
        self.request_id = request_id
        self.need = need
        self.free = free
        self.step: int | None = None

    def __str__(self) -> str:
        when = "" if self.step is None else f"step {self.step}: "
        blocks, are = "block" if self.need == 1 else "blocks", "is" if self.free == 1 else "are"
        return (
            f"{when}request {self.request_id} needs {self.need} more {blocks}, {self.free} {are} free; make the pool "
            "larger (num_blocks), or admit by a reserve rule that keeps room for what runs to grow"
        )


class KVCacheManager:
    """Owns the block table of every request that holds K/V.

    Block ``i`` of a table holds the request's positions ``i * block_size`` to ``(i + 1) * block_size - 1``, so a table
    grows by a block whenever a position is a multiple of ``block_size``, before anything is written there (vLLM, Kwon
    et al., SOSP 2023). A contiguous reservation is paging with one giant block: with ``block_size = max_model_len`` a
    request holds one block from its first token to its last.

    Args:
        num_blocks: blocks in the pool.
        block_size: tokens a block holds.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = whole("block_size (tokens)", block_size, least=1)
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

    def can_fit(self, request_id: str, num_tokens: int, keep_free: int = 0) -> bool:
        """Whether the request can grow to ``num_tokens`` tokens now, and ``keep_free`` blocks stay free."""
        return self.missing(request_id, num_tokens) + keep_free <= self.pool.num_free

    def grow(self, request_id: str, num_tokens: int) -> tuple[int, ...]:
        """Make the request's block table long enough for ``num_tokens`` tokens, and return it.

        Raises:
            OutOfBlocks: too few blocks are free; nothing has been taken.
        """
        table = self._tables.get(request_id, ())
        if num_tokens <= len(table) * self.block_size:  # nearly always: this runs for every row of every step
            return table
        missing = self.missing(request_id, num_tokens)
        if missing > self.pool.num_free:
            raise OutOfBlocks(request_id, missing, self.pool.num_free)
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
