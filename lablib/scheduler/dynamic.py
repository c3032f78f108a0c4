"""Dynamic batching: a static batch that starts when it is full, or when somebody has waited long enough."""

from __future__ import annotations

from collections.abc import Sequence

from lablib.scheduler.static import StaticBatching
from lablib.validate import real, whole


class DynamicBatching(StaticBatching):
    """Launches on size, or on the age of the oldest waiting request (as NVIDIA Triton's dynamic batcher does).

    Args:
        max_batch_size: most rows of a batch.
        max_model_len: tokens reserved for every row, prompt and output.
        max_wait: seconds that the oldest request waits for others, at most.
        preferred_batch_sizes: sizes at which a batch starts at once; only the largest possible one when empty.
        stream: deliver every token at once, instead of all answers at the batch's end.
    """

    def __init__(
        self,
        max_batch_size: int,
        max_model_len: int,
        max_wait: float = 0.0,
        preferred_batch_sizes: Sequence[int] = (),
        stream: bool = False,
    ) -> None:
        super().__init__(whole("max_batch_size", max_batch_size, least=1), max_model_len, stream)
        for size in preferred_batch_sizes:
            if not 1 <= whole("a preferred batch size", size) <= max_batch_size:
                raise ValueError(f"preferred batch size {size} is not between 1 and max_batch_size={max_batch_size}")
        self.max_wait = real("max_wait (seconds)", max_wait, least=0)
        self.preferred_batch_sizes = tuple(sorted(preferred_batch_sizes)) or (max_batch_size,)

    def launch_size(self, now: float) -> int:
        """Rows of the batch that may start at ``now``; 0: go on waiting.

        The largest preferred size that the queue fills starts at once. When the oldest request has waited for
        ``max_wait``, or nobody else will come, everybody who is here starts, up to a full batch.
        """
        if self.running or not self.waiting:
            return 0
        if self.closed or now >= self.launch_time():
            return min(len(self.waiting), self.batch_size)
        filled = [size for size in self.preferred_batch_sizes if size <= len(self.waiting)]
        return filled[-1] if filled else 0

    def launch_time(self) -> float:
        """When the oldest waiting request has waited long enough, in seconds."""
        return self.waiting[0].arrival_time + self.max_wait

    def next_event(self, now: float) -> float | None:
        """The timer of the oldest request, while no batch runs."""
        return self.launch_time() if self.waiting and not self.running else None
