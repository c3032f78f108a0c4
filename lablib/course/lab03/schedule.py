"""Exercise 3.1: running first, then admit what fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer
from lablib.kvcache import KVCacheManager
from lablib.request import Request, SamplingParams
from lablib.scheduler import IterationScheduler
from lablib.step import StepPlan, StepResult

Shape = tuple[int, int]  # prompt tokens, output tokens
MAX_MODEL_LEN = 32


def _steps(
    shapes: Sequence[Shape], num_steps: int, max_num_seqs: int, budget: int, num_blocks: int
) -> Callable[[Any], list[Any]]:
    """Run a scheduler by hand; for each step who was admitted, (id, tokens) of each chunk, and news of who waits."""

    def run(answer: Any) -> list[Any]:
        scheduler = answer(KVCacheManager(num_blocks, MAX_MODEL_LEN), max_num_seqs, MAX_MODEL_LEN, budget)
        for i, (prompt, output) in enumerate(shapes):
            scheduler.add(Request(f"r{i}", [1] * prompt, SamplingParams(max_tokens=output, ignore_eos=True)))
        seen = []
        for _ in range(num_steps):
            plan = scheduler.schedule(0.0)
            if not isinstance(plan, StepPlan):
                return [plan]
            chunks = [(chunk.request_id, len(chunk.token_ids)) for chunk in plan.chunks]
            seen.append({"admitted": list(plan.admitted), "chunks": chunks, "waits": dict(plan.waits)})
            tokens = tuple((1,) if chunk.sample else () for chunk in plan.chunks)
            scheduler.update(plan, StepResult(tokens, 0.0))
        return seen

    return run


def _case(
    name: str,
    shapes: Sequence[Shape],
    num_steps: int,
    max_num_seqs: int = 2,
    budget: int = 64,
    num_blocks: int = 8,
    hint: str = "",
) -> Case:
    listed = ", ".join(f"r{i}: {prompt}+{output}" for i, (prompt, output) in enumerate(shapes)) or "none"
    given = (
        f"{max_num_seqs} slots, {budget} tokens a step, {num_blocks} blocks; requests (prompt+output tokens) {listed}; "
        f"the first {num_steps} steps"
    )
    return Case(name, run=_steps(shapes, num_steps, max_num_seqs, budget, num_blocks), given=given, hint=hint)


class _AdmitsOneAStep(IterationScheduler):
    def why_not(self, request: Request, num_tokens: int) -> str:
        if getattr(self, "_admitted", False):
            return "slots"
        return super().why_not(request, num_tokens)

    def admit(self, num_tokens: int, request: Request | None = None) -> Request:
        self._admitted = True
        return super().admit(num_tokens, request)

    def schedule(self, now: float) -> StepPlan:
        self._admitted = False
        return super().schedule(now)


class _WaitsForAnEmptyEngine(IterationScheduler):
    def why_not(self, request: Request, num_tokens: int) -> str:
        return "batch is running" if self._had_rows else super().why_not(request, num_tokens)

    def schedule(self, now: float) -> StepPlan:
        self._had_rows = bool(self.running)
        return super().schedule(now)


class _NewcomersFirst(IterationScheduler):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        new = [chunk for chunk in plan.chunks if chunk.request_id in plan.admitted]
        old = [chunk for chunk in plan.chunks if chunk.request_id not in plan.admitted]
        return replace(plan, chunks=tuple(new + old))


class _IgnoresTheBudget(IterationScheduler):
    def schedule(self, now: float) -> StepPlan:
        self.max_num_batched_tokens = 10**9
        return super().schedule(now)


class _ForgetsWhatNewcomersUse(IterationScheduler):
    def schedule(self, now: float) -> StepPlan:
        budget = self.max_num_batched_tokens
        chunks, admitted = [], []
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
        waits = self.waits(request, reason) if reason else {}
        return StepPlan(chunks=tuple(chunks), admitted=tuple(admitted), waits=waits)


class _LetsOthersPass(IterationScheduler):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        budget = self.max_num_batched_tokens - plan.num_tokens
        chunks, admitted = list(plan.chunks), list(plan.admitted)
        for request in list(self.waiting):
            num_tokens = self.mix.num_tokens(request, budget)
            if not self.why_not(request, num_tokens):
                self.admit(self.max_model_len, request)
                chunks.append(self.chunk(request, num_tokens))
                admitted.append(request.request_id)
                budget -= num_tokens
        return StepPlan(chunks=tuple(chunks), admitted=tuple(admitted), waits=plan.waits)


class _NamesNoReason(IterationScheduler):
    def schedule(self, now: float) -> StepPlan:
        return replace(super().schedule(now), waits={})


SCHEDULE = Exercise(
    key="3.1",
    title="Running first, then admit what fits",
    reference="lablib.scheduler.iteration:IterationScheduler",
    cases=(
        _case("nobody is there", [], 1),
        _case("a prompt, then a token a step", [(5, 3)], 3),
        _case("two start together", [(3, 2), (4, 2)], 2),
        _case(
            "three slots fill in one step",
            [(3, 2), (4, 2), (2, 2)],
            1,
            max_num_seqs=3,
            hint="Go on admitting while the queue's head fits: a loop, not an `if`.",
        ),
        _case("who finds no slot waits, and is told why", [(3, 3), (4, 3), (2, 1)], 2),
        _case(
            "a slot that got free is filled in the next step",
            [(3, 1), (4, 4), (2, 2)],
            3,
            hint="r0 is done after step 0; r2 computes its prompt in step 1, beside r1's decode.",
        ),
        _case(
            "a prompt that exceeds what is left of the step waits",
            [(6, 3), (6, 2)],
            3,
            budget=8,
            hint="Each chunk uses up tokens of the budget, newcomers' chunks too.",
        ),
        _case(
            "two newcomers share one budget",
            [(5, 2), (5, 2), (5, 2)],
            2,
            max_num_seqs=3,
            budget=10,
        ),
        _case("no block is free", [(3, 2), (3, 2)], 3, num_blocks=1),
        _case(
            "nobody overtakes the head of the queue",
            [(6, 2), (7, 1), (1, 1)],
            2,
            max_num_seqs=3,
            budget=8,
            hint="r2 would fit, but r1 was there first: stop at the first request that must wait.",
        ),
    ),
    hints=(
        "Two loops: one over `self.running.values()`, one over the queue's head while there is one that fits. Both draw on "
        "the same budget.",
        "Running: `n = self.mix.num_tokens(request, budget)`; if n, a chunk of n tokens, and n less budget. Waiting: ask "
        "`self.order.first(self.waiting)`, how many tokens it would compute, and `self.why_not(request, n)`; an empty "
        "answer means admit, chunk, note its id, less budget; anything else is the reason to stop.",
        "`while self.waiting and not reason:` … `reason = self.why_not(request, n)` … `if not reason:` "
        "`self.admit(self.admission.num_tokens(request, self.max_model_len), request)`; at the end "
        "`waits = self.waits(request, reason) if reason else {}`.",
    ),
    wrong=(
        WrongAnswer(
            "admits one request a step",
            _AdmitsOneAStep,
            says="More requests fit into this step: admit in a loop until the head of the queue must wait.",
            case="two start together",
        ),
        WrongAnswer(
            "waits until nobody runs",
            _WaitsForAnEmptyEngine,
            says="That is static batching again: newcomers may join while others run.",
        ),
        WrongAnswer(
            "lets newcomers go before the running",
            _NewcomersFirst,
            says="Running requests come first, in the plan and for the budget; newcomers take what is left.",
            case="a slot that got free is filled in the next step",
        ),
        WrongAnswer(
            "ignores the token budget",
            _IgnoresTheBudget,
            says="The step computes more than `self.max_num_batched_tokens`: every chunk uses up the budget, newcomers' chunks too.",
            case="a prompt that exceeds what is left of the step waits",
        ),
        WrongAnswer(
            "forgets what newcomers use",
            _ForgetsWhatNewcomersUse,
            says="The step computes more than `self.max_num_batched_tokens`: every chunk uses up the budget, newcomers' chunks too.",
            case="a prompt that exceeds what is left of the step waits",
        ),
        WrongAnswer(
            "lets others pass the head of the queue",
            _LetsOthersPass,
            says="Somebody overtook the head of the queue. First come, first served: stop at the first who must wait.",
            case="nobody overtakes the head of the queue",
        ),
        WrongAnswer(
            "does not say why somebody waits",
            _NamesNoReason,
            says="The plan is right, but `waits` is empty: give `self.waits(request, reason)` for the one who must wait.",
            case="who finds no slot waits, and is told why",
        ),
    ),
    difficulty=3,
    minutes=15,
    focus=("schedule",),
)
