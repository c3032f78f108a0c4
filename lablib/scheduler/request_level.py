"""Request-level batching: a batch is one block of iron, from its first step to its longest row's last."""

from __future__ import annotations

from lablib.kvcache import KVCacheManager
from lablib.request import FinishReason, Request, RequestOutput, RequestStatus
from lablib.scheduler.base import Scheduler
from lablib.step import StepPlan, StepResult
from lablib.validate import whole


class RequestLevelBatching(Scheduler):
    """What batchers of whole requests share: rows that are done stay until all are, then the batch ends.

    Subclasses say in ``schedule`` when a batch starts and who is in it.

    Args:
        batch_size: most rows of a batch.
        max_model_len: tokens reserved for every row, prompt and output.
        stream: deliver every token at once; else all answers come when the batch ends (so TTFT = E2E).
    """

    def __init__(self, batch_size: int, max_model_len: int, stream: bool = False) -> None:
        self.batch_size = whole("batch_size", batch_size, least=1)
        whole("max_model_len", max_model_len, least=1)
        super().__init__(KVCacheManager(batch_size, max_model_len), batch_size, max_model_len)
        self.stream = stream

    def num_missing(self, request: Request) -> int:
        """Tokens the row still has to compute before its next sample; 0 once it is done."""
        return 0 if request.finish_reason else request.num_tokens - request.num_computed_tokens

    def why_waiting(self) -> dict[str, str]:
        """Why the head of the queue waits, if that is news: for the plan."""
        if not self.waiting:
            return {}
        return self.waits(self.waiting[0], "batch is running" if self.running else f"batch needs {self.batch_size}")

    def update(self, plan: StepPlan, result: StepResult) -> list[RequestOutput]:
        """Take in a step; when every row is done, end the batch and deliver."""
        outputs = []
        for chunk, tokens in zip(plan.chunks, result.tokens, strict=True):
            request = self.running.get(chunk.request_id)
            if request is None:  # the batch ended by an abort while the step ran
                continue
            request.num_computed_tokens += len(chunk.token_ids)
            if request.finish_reason is None:
                new_tokens = self.append_tokens(request, tokens)
                if self.stream and new_tokens:
                    outputs.append(RequestOutput(request.request_id, new_tokens, request.finish_reason))
        return outputs + self._end_batch()

    def abort(
        self, request_id: str, reason: FinishReason = FinishReason.ABORT, message: str = ""
    ) -> list[RequestOutput]:
        """End a request at once; a row of the running batch still holds its place to the batch's end."""
        request = self.running.get(request_id)
        if request is None:
            return super().abort(request_id, reason, message)
        if request.finish_reason is not None:
            return []
        request.finish_reason = reason
        request.status = RequestStatus.FINISHED
        tokens = () if self.stream else tuple(request.output_token_ids)
        return [RequestOutput(request_id, tokens, reason, message), *self._end_batch()]

    def _end_batch(self) -> list[RequestOutput]:
        """Free every row if all are done, and deliver what has not been delivered."""
        rows = list(self.running.values())
        if any(request.finish_reason is None for request in rows):
            return []
        told = {request.request_id for request in rows if request.finished}  # aborted, or failed, before the end
        outputs = [self.finish(request, tuple(request.output_token_ids)) for request in rows]
        return [] if self.stream else [output for output in outputs if output.request_id not in told]
