"""What every scheduler shares: queues, slots, and the bookkeeping after a step."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque

from lablib.kvcache import KVCacheManager
from lablib.request import FinishReason, Request, RequestOutput, RequestStatus
from lablib.step import Chunk, StepPlan, StepResult
from lablib.validate import whole


class SchedulerStuck(RuntimeError):  # noqa: N818 - reads as what has happened
    """Requests wait, nothing runs, and nothing that could happen would change that."""


class Scheduler(ABC):
    """Decides who computes how many tokens in the next step.

    A scheduler knows no tensor, no wall clock and no randomness: the same calls give the same
    plans. ``schedule`` moves requests between queues and hands out blocks; only ``update``
    advances what has been computed.

    Args:
        kv: block tables of the requests that run.
        max_num_seqs: slots, the most requests that run at once.
        max_model_len: most tokens of one request, prompt and output.

    Raises:
        TypeError, ValueError: a limit that is no whole number of at least 1; the message names it.
    """

    def __init__(self, kv: KVCacheManager, max_num_seqs: int, max_model_len: int) -> None:
        self.kv = kv
        self.max_num_seqs = whole("max_num_seqs", max_num_seqs, least=1)
        self.max_model_len = whole("max_model_len", max_model_len, least=1)
        self.waiting: deque[Request] = deque()
        self.running: dict[str, Request] = {}
        self.closed = False
        self._free_slots = list(range(self.max_num_seqs))
        self._last_wait: tuple[str, str] = ("", "")

    @property
    def num_free_slots(self) -> int:
        return len(self._free_slots)

    # What callers do

    def add(self, request: Request) -> None:
        """Put a request at the end of the queue.

        Raises:
            ValueError: the request can never be served; the message names it, its need and the limit.
        """
        self.require_servable(request)
        if self.closed:
            raise ValueError(f"request {request.request_id}: the scheduler is closed; reopen() it to go on")
        self.waiting.append(request)

    def require_servable(self, request: Request) -> None:
        """Refuse a request that could never be served, even if it were alone.

        Raises:
            ValueError: the message names the request, its need and the limit.
        """
        need = request.num_prompt_tokens + request.max_tokens
        what = f"request {request.request_id}: {request.num_prompt_tokens} prompt + {request.max_tokens} output tokens"
        if need > self.max_model_len:
            raise ValueError(f"{what} exceed max_model_len={self.max_model_len}; shorten it or lower max_tokens")
        if self.kv.blocks_for(need) > self.kv.pool.num_blocks:
            raise ValueError(f"{what} can never fit in a KV cache of {self.kv.capacity} tokens; make the pool larger")

    def abort(
        self, request_id: str, reason: FinishReason = FinishReason.ABORT, message: str = ""
    ) -> list[RequestOutput]:
        """End a request at once, wherever it is; no output means that there is no such request.

        Args:
            request_id: which.
            reason: why it ends.
            message: more about that.
        """
        request = self.running.get(request_id)
        if request is None:
            request = next((r for r in self.waiting if r.request_id == request_id), None)
            if request is None:
                return []
            self.waiting.remove(request)
        request.finish_reason = reason
        return [self.finish(request)._replace(message=message)]

    def close(self) -> None:
        """Say that no more requests will come, so that nobody waits for them."""
        self.closed = True

    def reopen(self) -> None:
        """Take requests again after ``close``."""
        self.closed = False

    def has_work(self) -> bool:
        """Whether any request waits or runs."""
        return bool(self.waiting or self.running)

    # What the engine does, once a step

    @abstractmethod
    def schedule(self, now: float) -> StepPlan:
        """Plan the next step at ``now`` (seconds); a plan without chunks means that nobody can compute yet.

        Raises:
            OutOfBlocks: a running request can't grow. Nothing is lost: when blocks have become free, by an abort say,
                the next call goes on.
        """

    def next_event(self, now: float) -> float | None:
        """When to call ``schedule`` again after a plan without chunks (seconds); ``None``: only an arrival helps."""
        return None

    def update(self, plan: StepPlan, result: StepResult) -> list[RequestOutput]:
        """Take in what a step has computed: advance, append, finish and free."""
        outputs = []
        for chunk, tokens in zip(plan.chunks, result.tokens, strict=True):
            request = self.running.get(chunk.request_id)
            if request is None:  # aborted while the step ran
                continue
            request.num_computed_tokens += len(chunk.token_ids)
            new_tokens = self.append_tokens(request, tokens)
            if request.finish_reason is not None:
                outputs.append(self.finish(request, new_tokens))
            elif new_tokens:
                outputs.append(RequestOutput(request.request_id, new_tokens))
        return outputs

    def rollback(self, plan: StepPlan) -> None:
        """Undo a plan whose step failed: who was admitted waits again, at the head and in the same order.

        Blocks by which running requests have grown stay theirs: the next plan needs them too.
        """
        for request_id in reversed(plan.admitted):
            request = self.running.pop(request_id, None)
            if request is None:  # aborted while the step ran
                continue
            self._release(request)
            if request.finish_reason is None:
                request.status = RequestStatus.WAITING
                self.waiting.appendleft(request)

    # What a subclass builds its schedule() from

    def admit(self, num_tokens: int, request: Request | None = None) -> Request:
        """Move a waiting request, the head of the queue by default, to a slot, with blocks for ``num_tokens`` tokens.

        Raises:
            IndexError: nobody waits, or no slot is free.
            OutOfBlocks: too few blocks are free.
        """
        if not self.waiting or not self._free_slots:
            who = "nobody waits" if not self.waiting else f"all {self.max_num_seqs} slots are taken"
            raise IndexError(f"admit() was called although {who}")
        request = request or self.waiting[0]
        self.kv.grow(request.request_id, num_tokens)
        self.waiting.remove(request)
        request.slot = heapq.heappop(self._free_slots)
        request.status = RequestStatus.RUNNING
        self.running[request.request_id] = request
        return request

    def chunk(self, request: Request, num_tokens: int, num_padding: int = 0) -> Chunk:
        """The request's next ``num_tokens`` tokens as a chunk; it samples when no token is left to compute after it.

        The request's block table grows to hold those tokens: blocks are there before anything is written to them.

        Raises:
            OutOfBlocks: too few blocks are free.
        """
        if request.slot is None:
            raise ValueError(f"request {request.request_id} has no slot; admit it first")
        start, end = request.num_computed_tokens, request.num_computed_tokens + num_tokens
        return Chunk(  # in the order of its fields: this runs for every row of every step, and names cost time
            request.request_id,
            request.slot,
            start,
            request.tokens(start, end),
            num_padding,
            self.kv.grow(request.request_id, end),
            request.sampling,
            len(request.output_token_ids),
            num_tokens > 0 and end == request.num_tokens,
        )

    def waits(self, request: Request, reason: str) -> dict[str, str]:
        """Why the request that is next still waits, if that is news; empty otherwise."""
        if self._last_wait == (request.request_id, reason):
            return {}
        self._last_wait = (request.request_id, reason)
        return {request.request_id: reason}

    # What update() is built from

    def append_tokens(self, request: Request, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Append sampled tokens up to the one that finishes the request; return those appended."""
        for count, token in enumerate(tokens, start=1):
            request.output_token_ids.append(token)
            request.finish_reason = self._why_finished(request, token)
            if request.finish_reason is not None:
                return tokens[:count]
        return tokens

    def _why_finished(self, request: Request, token: int) -> FinishReason | None:
        if token in request.sampling.stop_token_ids:
            return FinishReason.STOP
        if len(request.output_token_ids) >= request.max_tokens:
            return FinishReason.LENGTH
        return None

    def finish(self, request: Request, new_tokens: tuple[int, ...] = ()) -> RequestOutput:
        """End a request whose ``finish_reason`` is set, and give back all it holds."""
        if self.running.pop(request.request_id, None) is not None:
            self._release(request)
        request.status = RequestStatus.FINISHED
        return RequestOutput(request.request_id, new_tokens, request.finish_reason)

    def _release(self, request: Request) -> None:
        """Give back the slot and the blocks of a request; its K/V are gone."""
        self.kv.free(request.request_id)
        if request.slot is not None:
            heapq.heappush(self._free_slots, request.slot)
        request.slot = None
        request.num_computed_tokens = 0
