"""Exercise 1.2: who computes how much in the next step of a static batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer
from lablib.request import Request, SamplingParams
from lablib.scheduler import RequestLevelBatching
from lablib.step import StepPlan, StepResult

Shape = tuple[int, int]  # prompt tokens, output tokens
MAX_MODEL_LEN = 64


def _steps(batch_size: int, shapes: Sequence[Shape], closed: bool, num_steps: int) -> Callable[[Any], list[Any]]:
    """Run a scheduler by hand; for each step: the ids admitted, and (id, start, tokens, padding) of each chunk."""

    def run(answer: Any) -> list[Any]:
        scheduler = answer(batch_size, MAX_MODEL_LEN)
        for i, (prompt, output) in enumerate(shapes):
            sampling = SamplingParams(max_tokens=output, ignore_eos=True)
            scheduler.add(Request(f"r{i}", [1] * prompt, sampling))
        if closed:
            scheduler.close()
        seen = []
        for _ in range(num_steps):
            plan = scheduler.schedule(0.0)
            if not isinstance(plan, StepPlan):
                return [plan]
            rows = [(c.request_id, c.start, len(c.token_ids), c.num_padding) for c in plan.chunks]
            seen.append({"admitted": list(plan.admitted), "rows": rows})
            if plan.chunks:
                tokens = tuple((1,) if chunk.sample else () for chunk in plan.chunks)
                scheduler.update(plan, StepResult(tokens, 0.0))
        return seen

    return run


def _case(
    name: str, batch_size: int, shapes: Sequence[Shape], num_steps: int, closed: bool = True, hint: str = ""
) -> Case:
    listed = ", ".join(f"r{i}: {prompt}+{output}" for i, (prompt, output) in enumerate(shapes)) or "none"
    given = (
        f"batch_size={batch_size}; requests (prompt+output tokens) {listed}; "
        f"{'closed' if closed else 'not closed'}; the first {num_steps} steps, each with its rows "
        "(id, start, tokens, padding)"
    )
    return Case(name, run=_steps(batch_size, shapes, closed, num_steps), given=given, hint=hint)


class _Wrong(RequestLevelBatching):
    """The reference in three parts, so that each wrong answer changes one."""

    def may_start(self) -> bool:
        return not self.running and (len(self.waiting) >= self.batch_size or self.closed)

    def size(self) -> int:
        return min(self.batch_size, len(self.waiting))

    def rows(self) -> list[Request]:
        return list(self.running.values())

    def width(self, rows: list[Request]) -> int:
        return max((self.num_missing(row) for row in rows), default=0)

    def schedule(self, now: float) -> StepPlan:
        admitted = []
        if self.may_start():
            admitted = [self.admit(self.max_model_len).request_id for _ in range(self.size())]
        rows = self.rows()
        width = self.width(rows)
        chunks = [self.chunk(row, self.num_missing(row), num_padding=width - self.num_missing(row)) for row in rows]
        return StepPlan(chunks=tuple(chunks), admitted=tuple(admitted), waits=self.why_waiting())


class _StartsAtOnce(_Wrong):
    def may_start(self) -> bool:
        return not self.running


class _NeverStartsAShortBatch(_Wrong):
    def may_start(self) -> bool:
        return not self.running and len(self.waiting) >= self.batch_size


class _StartsWhileOneRuns(_Wrong):
    def may_start(self) -> bool:
        return len(self.waiting) >= self.batch_size or self.closed


class _AdmitsEverybody(_Wrong):
    def size(self) -> int:
        return len(self.waiting)


class _LetsFinishedRowsGo(_Wrong):
    def rows(self) -> list[Request]:
        return [row for row in self.running.values() if self.num_missing(row) > 0]


class _NeverPads(_Wrong):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        chunks = tuple(chunk._replace(num_padding=0) for chunk in plan.chunks)
        return StepPlan(chunks=chunks, admitted=plan.admitted, waits=plan.waits)


class _PadsToTheLongestPrompt(_Wrong):
    def width(self, rows: list[Request]) -> int:
        return max((row.num_prompt_tokens for row in rows), default=0)


class _AdmitsAllTheTime(_Wrong):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        running = tuple(self.running)
        return StepPlan(chunks=plan.chunks, admitted=running, waits=plan.waits)


SCHEDULE = Exercise(
    key="1.2",
    title="Schedule a static batch",
    reference="lablib.scheduler.static:StaticBatching",
    cases=(
        _case("nobody waits: a plan without chunks", 2, [], 1, closed=False),
        _case("a full batch starts", 1, [(3, 2)], 1, closed=False),
        _case(
            "a batch that is not full waits",
            2,
            [(3, 2)],
            1,
            closed=False,
            hint="One request waits, two make a batch, and more may still come (`self.closed` is False): nobody runs yet.",
        ),
        _case(
            "a short batch starts once no more requests will come",
            2,
            [(3, 2)],
            1,
            hint="`self.closed` is True: the batch will never be full, so it starts with who is there.",
        ),
        _case("after the prompt, one token a step", 1, [(3, 3)], 3),
        _case(
            "prompts are padded to the longest",
            3,
            [(5, 2), (2, 2), (3, 2)],
            1,
            hint="Every row computes as many positions as the longest: its tokens, and padding for the rest.",
        ),
        _case(
            "a row that is done computes padding",
            2,
            [(3, 1), (3, 3)],
            3,
            hint="`self.num_missing(row)` is 0 for a row that is done: its chunk has no token and one padding position.",
        ),
        _case("no more rows than batch_size", 2, [(2, 2), (2, 2), (2, 2)], 1),
        _case(
            "the next batch starts when the last row is done",
            2,
            [(2, 1), (2, 3), (4, 1), (1, 2)],
            6,
            hint="A slot that is done is not free: as long as anybody is in `self.running`, the next batch waits.",
        ),
        _case("three batches, one after the other", 2, [(2, 2), (5, 1), (1, 1), (1, 4), (3, 2)], 9),
    ),
    hints=(
        "Two questions in turn. May a batch start now? Then: how many positions does each row of the batch compute?",
        "Start: nobody is running, and the queue holds a full batch or is closed; `admit` the first `batch_size` of it. "
        "Then for every row in `self.running.values()`: tokens = `self.num_missing(row)`, padding = the longest row's "
        "tokens minus its own.",
        "`if not self.running and (len(self.waiting) >= self.batch_size or self.closed):` admit "
        "`min(self.batch_size, len(self.waiting))` times `self.admit(self.max_model_len)`. "
        "`width = max((self.num_missing(row) for row in rows), default=0)`, then "
        "`self.chunk(row, self.num_missing(row), num_padding=width - self.num_missing(row))` for each row.",
    ),
    wrong=(
        WrongAnswer(
            "starts before the batch is full",
            _StartsAtOnce,
            says="It started although the batch was not full and more requests may come: wait for `self.batch_size` "
            "requests, or for `self.closed`.",
            case="a batch that is not full waits",
        ),
        WrongAnswer(
            "never starts a short last batch",
            _NeverStartsAShortBatch,
            says="No more requests will come (`self.closed`), and your scheduler waits for ever for a full batch.",
            case="a short batch starts once no more requests will come",
        ),
        WrongAnswer(
            "starts a batch while one runs",
            _StartsWhileOneRuns,
            says="A batch was running already: `self.running` must be empty before the next one starts.",
        ),
        WrongAnswer(
            "admits everybody",
            _AdmitsEverybody,
            says="More requests were admitted than the batch has rows: at most `self.batch_size`.",
        ),
        WrongAnswer(
            "lets finished rows go",
            _LetsFinishedRowsGo,
            says="A row that is done left the batch. In static batching it stays, and computes one padding position a step.",
            case="a row that is done computes padding",
        ),
        WrongAnswer(
            "never pads",
            _NeverPads,
            says="The rows differ in length, and the model wants a rectangle: set `num_padding` to what a row lacks.",
            case="prompts are padded to the longest",
        ),
        WrongAnswer(
            "pads to the longest prompt in every step",
            _PadsToTheLongestPrompt,
            says="The width is that of *this* step: after the prompts, every row has one token to compute.",
            case="after the prompt, one token a step",
        ),
        WrongAnswer(
            "says in every step that the rows were admitted",
            _AdmitsAllTheTime,
            says="`admitted` names those who start with *this* step; the rows of a running batch started earlier.",
            case="after the prompt, one token a step",
        ),
    ),
    difficulty=2,
    minutes=15,
    focus=("schedule",),
)
