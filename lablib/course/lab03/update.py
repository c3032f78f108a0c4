"""Exercise 3.2: finish and release in the same step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer
from lablib.request import Request, RequestOutput, SamplingParams
from lablib.scheduler import ContinuousBatching, Scheduler
from lablib.step import StepPlan, StepResult

Shape = tuple[int, int]  # prompt tokens, output tokens
STOP = 99


def _run(
    shapes: Sequence[Shape], num_steps: int, tokens: dict[int, tuple[int, ...]] | None = None, abort: str = ""
) -> Callable[[Any], list[Any]]:
    """Let an answer take in some steps; for each its outputs, who runs, K/V computed, and what is free afterwards."""

    def run(answer: Any) -> list[Any]:
        scheduler = ContinuousBatching(max_num_seqs=2, max_model_len=32)
        requests = [
            Request(f"r{i}", [1] * prompt, SamplingParams(max_tokens=output, stop_token_ids=(STOP,)))
            for i, (prompt, output) in enumerate(shapes)
        ]
        for request in requests:
            scheduler.add(request)
        seen = []
        for step in range(num_steps):
            plan = scheduler.schedule(0.0)
            if abort and step == 1:
                scheduler.abort(abort)
            sampled = (tokens or {}).get(step, (7,))
            outputs = answer(scheduler, plan, StepResult((sampled,) * len(plan.chunks), 0.0))
            delivered = [(o.request_id, o.token_ids, o.finished) for o in outputs] if outputs is not None else None
            seen.append(
                {
                    "outputs": delivered,
                    "computed": {name: request.num_computed_tokens for name, request in scheduler.running.items()},
                    "free": (scheduler.num_free_slots, scheduler.kv.pool.num_free),
                }
            )
        return seen

    return run


def _case(name: str, shapes: Sequence[Shape], num_steps: int, hint: str = "", extra: str = "", **options: Any) -> Case:
    listed = ", ".join(f"r{i}: {prompt}+{output}" for i, (prompt, output) in enumerate(shapes))
    given = (
        f"2 slots, 2 blocks; requests (prompt+output tokens) {listed}{extra}; after each of {num_steps} steps: outputs as "
        "(id, tokens, finished), tokens computed by each running request, free (slots, blocks)"
    )
    return Case(name, run=_run(shapes, num_steps, **options), given=given, hint=hint)


def _variant(
    advance: bool = True,
    finish_now: bool = True,
    only_finished: bool = False,
    skip_missing: bool = True,
    empty_outputs: bool = False,
) -> Callable[[Scheduler, StepPlan, StepResult], list[RequestOutput]]:
    def update(self: Scheduler, plan: StepPlan, result: StepResult) -> list[RequestOutput]:
        outputs = []
        for chunk, tokens in zip(plan.chunks, result.tokens, strict=True):
            request = self.running.get(chunk.request_id) if skip_missing else self.running[chunk.request_id]
            if request is None:
                continue
            done = request.finish_reason is not None
            request.num_computed_tokens += len(chunk.token_ids) if advance else 1
            new = () if done else self.append_tokens(request, tokens)
            if done if not finish_now else request.finish_reason is not None:
                outputs.append(self.finish(request, new))
            elif (new or empty_outputs) and not only_finished:
                outputs.append(RequestOutput(request.request_id, new))
        return outputs

    return update


def _delivers_all_sampled(self: Scheduler, plan: StepPlan, result: StepResult) -> list[RequestOutput]:
    outputs = []
    for chunk, tokens in zip(plan.chunks, result.tokens, strict=True):
        request = self.running.get(chunk.request_id)
        if request is None:
            continue
        request.num_computed_tokens += len(chunk.token_ids)
        self.append_tokens(request, tokens)
        done = request.finish_reason is not None
        outputs.append(self.finish(request, tokens) if done else RequestOutput(request.request_id, tokens))
    return outputs


UPDATE = Exercise(
    key="3.2",
    title="Finish and release in the same step",
    reference="lablib.scheduler.base:Scheduler.update",
    cases=(
        _case("a prompt is computed, a token delivered", [(4, 3)], 1),
        _case("each step moves one token on", [(4, 3)], 2),
        _case(
            "the last token finishes the request and frees slot and block",
            [(4, 2)],
            2,
            hint="`append_tokens` sets `request.finish_reason` with the last token: call `finish` in this same step.",
        ),
        _case("one is done, the other goes on", [(4, 1), (2, 3)], 2),
        _case(
            "tokens behind a stop token are dropped",
            [(4, 9)],
            2,
            extra=f"; step 1 samples 5, {STOP} (a stop token) and 6 at once",
            tokens={1: (5, STOP, 6)},
            hint="`append_tokens` returns the tokens it has really appended: deliver those.",
        ),
        _case(
            "a request aborted while the step ran is left alone",
            [(4, 9), (3, 9)],
            3,
            extra="; r0 is aborted while step 1 runs",
            abort="r0",
            hint="It is no longer in `self.running`: use `.get`, and go on with the next chunk.",
        ),
        _case(
            "a chunk without a sample delivers nothing",
            [(4, 3)],
            1,
            extra="; step 0 samples nothing",
            tokens={0: ()},
            hint="No new tokens and not finished: there is nothing to tell the caller.",
        ),
    ),
    hints=(
        "For each chunk and its tokens: the request has computed more, got some tokens, and is perhaps done.",
        "`request = self.running.get(chunk.request_id)` (skip it if None), add `len(chunk.token_ids)` to "
        "`num_computed_tokens`, `new = self.append_tokens(request, tokens)`; then `self.finish(request, new)` if "
        "`finish_reason` is set, a `RequestOutput(request.request_id, new)` if there are new tokens, nothing otherwise.",
        "`if request.finish_reason is not None: outputs.append(self.finish(request, new))`, "
        "`elif new: outputs.append(RequestOutput(request.request_id, new))`.",
    ),
    wrong=(
        WrongAnswer(
            "delivers empty outputs",
            _variant(empty_outputs=True),
            says="An output without any token was delivered: where nothing is new and nothing ended, there is nothing to tell.",
            case="a chunk without a sample delivers nothing",
        ),
        WrongAnswer(
            "counts one computed token a step",
            _variant(advance=False),
            says="A chunk may hold many tokens (a whole prompt): add `len(chunk.token_ids)`.",
            case="a prompt is computed, a token delivered",
        ),
        WrongAnswer(
            "finishes one step late",
            _variant(finish_now=False),
            says="The request was done in the step before: its slot and block stayed taken for a step too long.",
            case="the last token finishes the request and frees slot and block",
        ),
        WrongAnswer(
            "delivers only when a request is done",
            _variant(only_finished=True),
            says="Each new token is delivered in the step that made it: that is what streaming means.",
            case="a prompt is computed, a token delivered",
        ),
        WrongAnswer(
            "fails on an aborted request",
            _variant(skip_missing=False),
            says="The request was aborted while the step ran: `self.running` no longer has it.",
            case="a request aborted while the step ran is left alone",
        ),
        WrongAnswer(
            "delivers all that was sampled",
            _delivers_all_sampled,
            says="Tokens behind the stop token were delivered: `append_tokens` returns those that count.",
            case="tokens behind a stop token are dropped",
        ),
    ),
    difficulty=2,
    minutes=10,
)
