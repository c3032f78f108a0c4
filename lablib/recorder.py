"""Writes a trace while an engine runs, a step at a time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lablib.request import FinishReason, Request, RequestOutput
from lablib.step import Chunk, StepPlan, StepResult
from lablib.trace import EVENT_KINDS, Trace

END_EVENTS = {FinishReason.ABORT: "aborted", FinishReason.ERROR: "failed"}
OpenRun = tuple[int, tuple[int, ...]]
BlockChange = tuple[str, str, tuple[int, ...]]  # "allocated" or "freed", request id, block ids


class TraceRecorder:
    """Keeps ``trace`` up to date, so that it is whole after every step, whatever happens next.

    Args:
        meta: see ``Trace``.
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self.trace = Trace(meta)
        self._index: dict[str, int] = {}
        self._reasons: dict[str, int] = {}  # as in the trace; a busy run has thousands of "blocks: needs n, free m"
        # By request, the entry it has in a table, and what the next step must bring for that entry to go on.
        self._open_runs: dict[str, OpenRun] = {}
        self._open_deliveries: dict[str, OpenRun] = {}
        self._prompts: list[Sequence[int]] = []
        self._last_us = 0

    def add_request(self, request: Request) -> None:
        """Enter a request that has arrived; each id once."""
        prompt = request.prompt_token_ids
        self._enter(request.request_id, prompt, request.arrival_time, len(prompt), request.max_tokens)

    def _enter(self, name: str, prompt: Sequence[int], arrival: float, prompt_tokens: int, max_tokens: int) -> None:
        requests = self.trace.requests
        self._index[name] = len(requests["id"])
        self._prompts.append(prompt)
        row: tuple[Any, ...] = (name, round(arrival * 1e6), prompt_tokens, max_tokens, None, -1, "", [], "", [])
        for column, value in zip(requests.values(), row, strict=True):
            column.append(value)

    def refuse(self, request: Request, name: str, message: str, now: float) -> None:
        """Enter a request that was refused at the door at ``now`` (seconds), under a ``name`` that is free."""
        prompt = request.prompt_token_ids
        is_prompt = all(isinstance(token, int) and token >= 0 for token in prompt)
        self._enter(name, prompt if is_prompt else (), now, len(prompt), request.max_tokens)
        self._finish(self._index[name], FinishReason.ERROR, message)
        self.record_event("refused", name)

    def record_event(self, kind: str, request_id: str) -> None:
        """Note what happened to a request in the step that comes next."""
        self._append("events", (self.trace.num_steps, EVENT_KINDS.index(kind), self._index[request_id]))

    def record_blocks(self, changes: Iterable[BlockChange]) -> None:
        """Note block changes that hold from the next step on; a request frees the end of its table, or all of it."""
        for kind, request_id, block_ids in changes:
            freed = kind == "freed"
            self._append("blocks", (self.trace.num_steps, self._index[request_id], int(freed), len(block_ids)))
            if not freed:
                self.trace.block_ids.extend(block_ids)

    def record_plan(self, plan: StepPlan) -> None:
        """Note what the plan changed in the queues, computed or not."""
        for request_id in plan.preempted:
            self.record_event("preempted", request_id)
        for request_id, reason in plan.waits.items():
            if reason not in self._reasons:
                self._reasons[reason] = len(self.trace.reasons)
                self.trace.reasons.append(reason)
            self._append("waits", (self.trace.num_steps, self._index[request_id], self._reasons[reason]))

    def record_step(self, plan: StepPlan, result: StepResult, start: float, end: float) -> None:
        """Note a step that was computed between ``start`` and ``end``, in seconds since the run began."""
        step = self.trace.num_steps
        for request_id in plan.admitted:
            self.record_event("admitted", request_id)
        for chunk, tokens in zip(plan.chunks, result.tokens, strict=True):
            self._record_chunk(step, chunk, len(tokens))
        start_us, end_us = round(start * 1e6), round(end * 1e6)
        self._append("steps", (start_us - self._last_us, end_us - start_us))
        self._last_us = end_us

    def record_outputs(self, outputs: Iterable[RequestOutput]) -> None:
        """Note what the callers were given at the end of the step recorded last."""
        step = max(0, self.trace.num_steps - 1)
        for output in outputs:
            if output.token_ids:
                self._record_delivery(step, output.request_id, output.token_ids)
            if output.finish_reason is not None:
                request = self._index[output.request_id]
                self._finish(request, output.finish_reason, output.message)
                kind = END_EVENTS.get(output.finish_reason, "finished")
                self._append("events", (step, EVENT_KINDS.index(kind), request))

    def add_text(self, decode: Callable[[Sequence[int]], str]) -> None:
        """Give the trace the words behind the token ids of every request."""
        requests = self.trace.requests
        requests["prompt_text"] = [decode(prompt) for prompt in self._prompts]
        requests["text"] = [text_pieces(decode, output) for output in requests["output"]]

    def _record_chunk(self, step: int, chunk: Chunk, sampled: int) -> None:
        request_id, slot, start, token_ids, padding, *_ = chunk
        tokens = len(token_ids)
        entry = self._open_runs.get(request_id)
        if entry is not None and entry[1] == (step, slot, start, tokens, padding, sampled):
            row = entry[0]
            self.trace.tables["runs"]["count"][row] += 1
        else:
            row = len(self.trace.tables["runs"]["count"])
            self._append("runs", (self._index[request_id], slot, step, 1, start, tokens, padding, sampled))
        self._open_runs[request_id] = (row, (step + 1, slot, start + tokens, tokens, padding, sampled))

    def _record_delivery(self, step: int, request_id: str, token_ids: tuple[int, ...]) -> None:
        request, tokens = self._index[request_id], len(token_ids)
        self.trace.requests["output"][request].extend(token_ids)
        entry = self._open_deliveries.get(request_id)
        if entry is not None and entry[1] == (step, tokens):
            row = entry[0]
            self.trace.tables["deliveries"]["count"][row] += 1
        else:
            row = len(self.trace.tables["deliveries"]["count"])
            self._append("deliveries", (request, step, 1, tokens))
        self._open_deliveries[request_id] = (row, (step + 1, tokens))

    def _finish(self, request: int, reason: FinishReason, message: str) -> None:
        requests = self.trace.requests
        requests["finish_reason"][request] = reason.value
        requests["finish_step"][request] = max(0, self.trace.num_steps - 1)
        requests["message"][request] = message

    def _append(self, table: str, row: tuple[int, ...]) -> None:
        columns: dict[str, array[int]] = self.trace.tables[table]
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)


def text_pieces(decode: Callable[[Sequence[int]], str], token_ids: Iterable[int]) -> list[str]:
    """Text of each token; one that ends inside a character stays empty, and the token that completes it has it all."""
    pieces: list[str] = []
    pending: list[int] = []
    for token_id in token_ids:
        pending.append(token_id)
        text = decode(pending)
        pieces.append("" if text.endswith("\ufffd") else text)
        if pieces[-1]:
            pending.clear()
    return pieces
