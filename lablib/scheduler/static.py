"""Static batching: take a batch, run it to the end of its longest answer, take the next."""

from __future__ import annotations

from lablib.scheduler.request_level import RequestLevelBatching
from lablib.step import StepPlan


class StaticBatching(RequestLevelBatching):
    """Batches as in a loop around ``model.generate(batch)``.

    A batch starts when it is full, or when no more requests will come. Prompts are padded to the
    longest one and computed together; then every row computes one position a step until the last
    row is done. A row that is done keeps its slot and its block, and goes on computing padding.
    """

    def launch_size(self, now: float) -> int:
        """Rows of the batch that may start at ``now`` (seconds); 0: none may."""
        if self.running or (len(self.waiting) < self.batch_size and not self.closed):
            return 0
        return min(self.batch_size, len(self.waiting))

    def schedule(self, now: float) -> StepPlan:
        """Start a batch if one may; then plan one rectangle of positions, whatever the rows need."""
        admitted = [self.admit(self.max_model_len).request_id for _ in range(self.launch_size(now))]
        rows = list(self.running.values())
        width = max((self.num_missing(row) for row in rows), default=0)
        chunks = [self.chunk(row, self.num_missing(row), num_padding=width - self.num_missing(row)) for row in rows]
        return StepPlan(chunks=tuple(chunks), admitted=tuple(admitted), waits=self.why_waiting())
