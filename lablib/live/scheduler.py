"""Continuous batching whose limits can be changed while it runs."""

from __future__ import annotations

from lablib.kvcache import KVCacheManager
from lablib.request import Request
from lablib.scheduler import IterationScheduler


class LiveBatching(IterationScheduler):
    """Continuous batching with limits that change between steps: a lower one keeps newcomers out, and evicts nobody.

    Args:
        max_num_seqs: slots of the KV cache, the most requests that ever run at once.
        max_model_len: most tokens of one request.
        max_num_batched_tokens: most tokens of one step.

    Attributes:
        num_open_slots: how many requests may run for a newcomer to be admitted; 1 to ``max_num_seqs``. Can be set.
        max_num_batched_tokens: at least ``max_num_seqs``, so that whoever runs can always go on. Can be set.
    """

    def __init__(self, max_num_seqs: int, max_model_len: int, max_num_batched_tokens: int) -> None:
        kv = KVCacheManager(max_num_seqs, max_model_len)
        super().__init__(kv, max_num_seqs, max_model_len, max_num_batched_tokens)
        self.num_open_slots = max_num_seqs

    def why_not(self, request: Request, num_tokens: int) -> str:
        """See ``IterationScheduler``; slots above the limit count as taken."""
        return "slots" if len(self.running) >= self.num_open_slots else super().why_not(request, num_tokens)
