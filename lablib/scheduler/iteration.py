"""Iteration-level scheduling: after every step, rows that are done leave and others join (Orca, OSDI 2022)."""

from __future__ import annotations

from lablib.kvcache import KVCacheManager
from lablib.limits import MAX_NUM_BATCHED_TOKENS, require_room_to_decode
from lablib.request import Request
from lablib.scheduler.base import Scheduler
from lablib.scheduler.policies import FCFS, Admission, MixedWholePrompts, QueueOrder, ReserveModelMax, StepMix
from lablib.step import Chunk, StepPlan
from lablib.validate import whole


class IterationScheduler(Scheduler):
    """One skeleton, running first and then admit what fits; everything else is a policy.

    Args:
        kv: block tables of the requests that run.
        max_num_seqs: slots, the most requests that run at once.
        max_model_len: most tokens of one request, prompt and output.
        max_num_batched_tokens: most tokens computed in one step; at least ``max_num_seqs``, so that all can decode.
        order: who is next.
        admission: how much cache a request is given when it starts.
        mix: how the token budget of a step is shared.

    Raises:
        ValueError: a limit that can't work; the message names both numbers.
    """

    def __init__(
        self,
        kv: KVCacheManager,
        max_num_seqs: int,
        max_model_len: int,
        max_num_batched_tokens: int,
        order: QueueOrder | None = None,
        admission: Admission | None = None,
        mix: StepMix | None = None,
    ) -> None:
        super().__init__(kv, max_num_seqs, max_model_len)
        require_room_to_decode(whole("max_num_batched_tokens", max_num_batched_tokens, least=1), max_num_seqs)
        self.max_num_batched_tokens = max_num_batched_tokens
        self.order = order or FCFS()
        self.admission = admission or ReserveModelMax()
        self.mix = mix or MixedWholePrompts()

    def require_servable(self, request: Request) -> None:
        """Refuse a request that could never be served; see ``Scheduler``."""
        super().require_servable(request)
        largest = self.mix.largest(self.max_num_batched_tokens)
        if largest is not None and request.num_prompt_tokens > largest:
            raise ValueError(
                f"request {request.request_id}: {request.num_prompt_tokens} prompt tokens are computed in one step, "
                f"over max_num_batched_tokens={self.max_num_batched_tokens}; raise it or shorten the prompt"
            )
        num_blocks = self.kv.pool.num_blocks
        reserve = self.admission.num_tokens(request, self.max_model_len)
        need, kept = self.kv.blocks_for(reserve), self.admission.keep_free(num_blocks)
        if need + kept > num_blocks:
            keeps = f" and keeps {kept} free" if kept else ""
            raise ValueError(
                f"request {request.request_id}: {type(self.admission).__name__} reserves {reserve} tokens = {need} "
                f"blocks{keeps}, the pool has {num_blocks}; make the pool larger, or reserve less"
            )

    def schedule(self, now: float) -> StepPlan:
        """Let every running request go on, then admit from the queue while slots, blocks and tokens last."""
        budget = self.max_num_batched_tokens
        chunks: list[Chunk] = []
        admitted: list[str] = []
        for request in self.running.values():
            num_tokens = self.mix.num_tokens(request, budget)
            if num_tokens:
                chunks.append(self.chunk(request, num_tokens))
                budget -= num_tokens
        reason = ""
        while self.waiting and not reason:
            request = self.order.first(self.waiting)
            num_tokens = self.mix.num_tokens(request, budget)
            reason = self.why_not(request, num_tokens)
            if not reason:
                self.admit(self.admission.num_tokens(request, self.max_model_len), request)
                chunks.append(self.chunk(request, num_tokens))
                admitted.append(request.request_id)
                budget -= num_tokens
        waits = self.waits(request, reason) if reason else {}
        return StepPlan(chunks=tuple(chunks), admitted=tuple(admitted), waits=waits)

    def why_not(self, request: Request, num_tokens: int) -> str:
        """Which limit keeps a waiting request from computing ``num_tokens`` in this step; empty when none does."""
        if self.num_free_slots == 0:
            return "slots"
        reserve = self.admission.num_tokens(request, self.max_model_len)
        kept = self.admission.keep_free(self.kv.pool.num_blocks)
        if not self.kv.can_fit(request.request_id, reserve, kept):
            need, free = self.kv.missing(request.request_id, reserve), self.kv.pool.num_free
            return f"blocks: needs {need}, free {free}" + (f", keeps {kept} free" if kept else "")
        return "" if num_tokens else "token budget"


def ContinuousBatching(  # noqa: N802 - reads as the scheduler it makes, beside StaticBatching
    max_num_seqs: int,
    max_model_len: int,
    max_num_batched_tokens: int | None = None,
    block_size: int | None = None,
    num_blocks: int | None = None,
    admission: Admission | None = None,
) -> IterationScheduler:
    """An iteration-level scheduler under the names that vLLM gives its limits.

    Args:
        max_num_seqs: most requests that run at once.
        max_model_len: most tokens of one request.
        max_num_batched_tokens: most tokens of one step; by default 8,192, or what a full prompt and a decode for every
            slot need, if that is more.
        block_size: tokens a block of the KV cache holds; by default ``max_model_len``, one block a request.
        num_blocks: blocks of the KV cache; by default enough for all slots.
        admission: how much cache a request is given when it starts; by default ``ReserveModelMax()``.

    Raises:
        TypeError, ValueError: a limit that is no whole number of at least 1, or can't work; the message names it.
    """
    whole("max_num_seqs", max_num_seqs, least=1)
    whole("max_model_len", max_model_len, least=1)
    block_size = max_model_len if block_size is None else whole("block_size", block_size, least=1)
    if num_blocks is None:
        num_blocks = max_num_seqs * -(-max_model_len // block_size)
    if max_num_batched_tokens is None:
        max_num_batched_tokens = max(MAX_NUM_BATCHED_TOKENS, max_model_len + max_num_seqs)
    return IterationScheduler(
        KVCacheManager(num_blocks, block_size),
        max_num_seqs,
        max_model_len,
        max_num_batched_tokens,
        admission=admission,
    )
