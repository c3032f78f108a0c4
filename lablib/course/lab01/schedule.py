"""Exercise 1.2: who computes how much in the next step of a static batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer
from lablib.request import Request, SamplingParams
from lablib.scheduler import StaticBatching
from lablib.step import StepPlan, StepResult

Shape = tuple[int, int]  # prompt tokens, output tokens
MAX_MODEL_LEN = 64
WIDTH = "`width = max((self.num_missing(row) for row in rows), default=0)`"


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
            admitted = [each if isinstance(each, str) else type(each) for each in plan.admitted]
            seen.append({"admitted": admitted, "rows": rows})
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


class _StartsAtOnce(StaticBatching):
    def launch_size(self, now: float) -> int:
        return 0 if self.running else min(self.batch_size, len(self.waiting))


class _NeverStartsAShortBatch(StaticBatching):
    def launch_size(self, now: float) -> int:
        return 0 if self.running or len(self.waiting) < self.batch_size else self.batch_size


class _StartsWhileOneRuns(StaticBatching):
    def launch_size(self, now: float) -> int:
        if len(self.waiting) < self.batch_size and not self.closed:
            return 0
        return min(self.batch_size, len(self.waiting))


class _AdmitsEverybody(StaticBatching):
    def launch_size(self, now: float) -> int:
        if self.running or (len(self.waiting) < self.batch_size and not self.closed):
            return 0
        return len(self.waiting)


class _LetsFinishedRowsGo(StaticBatching):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        return replace(plan, chunks=tuple(chunk for chunk in plan.chunks if chunk.token_ids))


class _NeverPads(StaticBatching):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        return replace(plan, chunks=tuple(chunk._replace(num_padding=0) for chunk in plan.chunks))


class _PadsToTheLongestPrompt(StaticBatching):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        width = max((row.num_prompt_tokens for row in self.running.values()), default=0)
        return replace(plan, chunks=tuple(c._replace(num_padding=width - len(c.token_ids)) for c in plan.chunks))


class _AdmitsAllTheTime(StaticBatching):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        return replace(plan, admitted=tuple(self.running))


def _launch_sizes(answer: Any) -> list[Any]:
    """What ``launch_size`` says of queues of 0 to 3 requests, open and closed, with batches of two."""
    sizes = []
    for count in range(4):
        scheduler = answer(2, MAX_MODEL_LEN)
        for i in range(count):
            scheduler.add(Request(f"r{i}", [1], SamplingParams(max_tokens=1)))
        sizes.append(scheduler.launch_size(0.0))
        scheduler.close()
        sizes.append(scheduler.launch_size(0.0))
    return sizes


class _AdmitsRequestsInsteadOfIds(StaticBatching):
    def schedule(self, now: float) -> StepPlan:
        plan = super().schedule(now)
        requests: tuple[Any, ...] = tuple(self.running[name] for name in plan.admitted)
        return replace(plan, admitted=requests)


class _AdmitsNobodyByName(StaticBatching):
    def schedule(self, now: float) -> StepPlan:
        return replace(super().schedule(now), admitted=())


SCHEDULE = Exercise(
    key="1.2",
    title="Schedule a static batch",
    reference="lablib.scheduler.static:StaticBatching",
    cases=(
        Case(
            "how many may start",
            run=_launch_sizes,
            given="`launch_size` of batches of 2, with 0, 1, 2 and 3 requests waiting; each open, then closed",
        ),
        _case("nobody waits: a plan without chunks", 2, [], 1, closed=False),
        _case("a full batch starts", 1, [(3, 2)], 1, closed=False),
        _case(
            "a batch that is not full waits",
            2,
            [(3, 2)],
            1,
            closed=False,
            hint="One waits, two make a batch, and more may still come (`self.closed` is False): nobody runs yet.",
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
            hint="`self.num_missing(row)` is 0 for a row that is done: no token, one padding position.",
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
        "`launch_size` answers: may a batch start now, and with how many? `schedule` then admits that many and gives "
        "every row of the batch as many positions as the row that needs most.",
        "`launch_size`: 0 while anybody is running; 0 while the queue is shorter than a batch and not closed; else the "
        "queue's length, but no more than `batch_size`. `schedule`: for each row in `self.running.values()`, tokens = "
        "`self.num_missing(row)`, padding = the most that any row misses, minus its own.",
        "`admitted = [self.admit(self.max_model_len).request_id for _ in range(self.launch_size(now))]`, "
        "`width = max((self.num_missing(row) for row in rows), default=0)`, then "
        "`self.chunk(row, self.num_missing(row), num_padding=width - self.num_missing(row))` for each row.",
    ),
    wrong=(
        WrongAnswer(
            "starts before the batch is full",
            _StartsAtOnce,
            says="It started although the batch was not full and more requests may come: wait for `self.batch_size` "
            "requests, or for `self.closed`.",
            case="how many may start",
        ),
        WrongAnswer(
            "never starts a short last batch",
            _NeverStartsAShortBatch,
            says="No more requests will come (`self.closed`), and your scheduler waits for ever for a full batch.",
            case="how many may start",
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
            says="A row that is done left the batch. It must stay, and compute one padding position a step.",
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
            "lists requests where ids are wanted",
            _AdmitsRequestsInsteadOfIds,
            says="`admitted` holds ids, not requests: `self.admit(…).request_id`.",
            case="a full batch starts",
        ),
        WrongAnswer(
            "lists nobody as admitted",
            _AdmitsNobodyByName,
            says="`admitted` is empty: it names those who start with this step, by their `request_id`.",
            case="a full batch starts",
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
    focus=("launch_size", "schedule"),
    equivalent={
        f"{WIDTH} → {WIDTH.replace('=0', f'={other}')}": "without rows the width is not used" for other in (1, -1)
    },
)
