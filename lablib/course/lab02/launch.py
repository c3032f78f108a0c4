"""Exercise 2.1: when a batch starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer
from lablib.request import Request, SamplingParams
from lablib.scheduler import DynamicBatching

Question = tuple[str, float]  # which method, at what time
BIG = 8


def _waiting(answer: Any, arrivals: Sequence[float], **options: Any) -> Any:
    """A scheduler of that class with requests in its queue."""
    scheduler = answer(BIG, 64, **options)
    for i, arrival in enumerate(arrivals):
        scheduler.add(Request(f"r{i}", [1, 1], SamplingParams(max_tokens=4), arrival_time=arrival))
    return scheduler


def _ask(
    arrivals: Sequence[float], questions: Sequence[Question], closed: bool = False, running: int = 0, **options: Any
) -> Callable[[Any], list[Any]]:
    def run(answer: Any) -> list[Any]:
        scheduler = _waiting(answer, arrivals, **options)
        for _ in range(running):
            scheduler.admit(64)
        if closed:
            scheduler.close()
        return [getattr(scheduler, name)(now) for name, now in questions]

    return run


def _case(
    name: str,
    arrivals: Sequence[float],
    questions: Sequence[Question],
    expect: list[Any],
    hint: str = "",
    closed: bool = False,
    running: int = 0,
    **options: Any,
) -> Case:
    asked = ", ".join(f"{method}({now:g})" for method, now in questions)
    settings = ", ".join(f"{key}={value}" for key, value in options.items())
    state = f"; {running} of them running" if running else "; closed" if closed else ""
    given = f"max_batch_size={BIG}, {settings}; arrivals at {list(arrivals)}{state}; asked: {asked}"
    run = _ask(arrivals, questions, closed, running, **options)
    return Case(name, run=run, expect=expect, given=given, hint=hint)


class _WaitsForAFullBatch(DynamicBatching):
    def launch_size(self, now: float) -> int:
        return 0 if self.running or len(self.waiting) < self.batch_size else self.batch_size


class _LooksAtTheYoungest(DynamicBatching):
    def launch_time(self) -> float:
        return self.waiting[-1].arrival_time + self.max_wait


class _LaunchesAfterTheAge(DynamicBatching):
    def launch_size(self, now: float) -> int:
        if self.waiting and not self.closed and now == self.launch_time():
            return 0
        return super().launch_size(now)


class _SmallestPreferred(DynamicBatching):
    def launch_size(self, now: float) -> int:
        size = super().launch_size(now)
        filled = [preferred for preferred in self.preferred_batch_sizes if preferred <= len(self.waiting)]
        timer = self.closed or (self.waiting and now >= self.launch_time())
        return filled[0] if size and filled and not timer else size


class _TimerWithoutAQueue(DynamicBatching):
    def next_event(self, now: float) -> float | None:
        return self.launch_time() if self.waiting else None


class _SendsAPreferredSizeWhenTheTimerFires(DynamicBatching):
    def launch_size(self, now: float) -> int:
        filled = [size for size in self.preferred_batch_sizes if size <= len(self.waiting)]
        if filled and not self.running:
            return filled[-1]
        return super().launch_size(now)


class _NoCap(DynamicBatching):
    def launch_size(self, now: float) -> int:
        due = self.waiting and not self.running and (self.closed or now >= self.launch_time())
        return len(self.waiting) if due else super().launch_size(now)


LAUNCH = Exercise(
    key="2.1",
    title="Launch on size or age",
    reference="lablib.scheduler.dynamic:DynamicBatching",
    cases=(
        _case("an empty queue", [], [("launch_size", 5), ("next_event", 5)], [0, None], max_wait=2.0),
        _case("a full batch starts at once", [1.0] * 9, [("launch_size", 1)], [8], max_wait=2.0),
        _case(
            "a few requests wait for company",
            [1.0, 1.5],
            [("launch_size", 1.5), ("launch_size", 2.9)],
            [0, 0],
            max_wait=2.0,
        ),
        _case(
            "the age of the oldest request starts the batch",
            [1.0, 1.5],
            [("launch_size", 3.0), ("launch_size", 3.5)],
            [2, 2],
            hint="At 3.0 the oldest request (arrival 1.0) has waited for max_wait = 2.0: everybody who is here starts.",
            max_wait=2.0,
        ),
        _case(
            "the timer is the oldest request's",
            [1.0, 1.5],
            [("next_event", 1.5)],
            [3.0],
            hint="`next_event` says when `launch_size` would change by itself: at the oldest arrival + max_wait.",
            max_wait=2.0,
        ),
        _case(
            "nothing starts while a batch runs, and no timer is needed",
            [1.0] * 4,
            [("launch_size", 9), ("next_event", 9)],
            [0, None],
            running=2,
            hint="The batch's end will wake the scheduler; until then there is nothing to wait for.",
            max_wait=2.0,
        ),
        _case("nobody else will come", [1.0, 1.0], [("launch_size", 1)], [2], closed=True, max_wait=2.0),
        _case(
            "the largest preferred size that is full starts at once",
            [1.0] * 5,
            [("launch_size", 1)],
            [4],
            max_wait=2.0,
            preferred_batch_sizes=(2, 4),
        ),
        _case(
            "when the timer fires, everybody starts",
            [1.0] * 5,
            [("launch_size", 3)],
            [5],
            hint="A preferred size is a reason not to wait. The request that is too old takes all others with it.",
            max_wait=2.0,
            preferred_batch_sizes=(2, 4),
        ),
        _case(
            "never more than a batch",
            [1.0] * 12,
            [("launch_size", 9)],
            [8],
            hint="12 wait and are due, but a batch has 8 rows: `min(len(self.waiting), self.batch_size)`.",
            max_wait=2.0,
            preferred_batch_sizes=(4,),
        ),
        _case("max_wait of 0 never waits", [1.0], [("launch_size", 1), ("next_event", 1)], [1, 1.0], max_wait=0.0),
    ),
    hints=(
        "Three reasons to start: nobody else will come, the oldest has waited long enough, or a preferred size is full. "
        "One reason not to: a batch is running.",
        "`launch_time`: the arrival time of `self.waiting[0]` plus `max_wait`. `launch_size`: 0 if a batch runs or nobody "
        "waits; everybody (up to `batch_size`) if closed or `now` has reached `launch_time()`; else the largest preferred "
        "size that the queue fills. `next_event`: `launch_time()`, if somebody waits and no batch runs.",
        "`if self.closed or now >= self.launch_time(): return min(len(self.waiting), self.batch_size)`, then "
        "`filled = [size for size in self.preferred_batch_sizes if size <= len(self.waiting)]` and "
        "`return filled[-1] if filled else 0`.",
    ),
    wrong=(
        WrongAnswer(
            "starts more rows than a batch has",
            _NoCap,
            says="More rows than `self.batch_size` were started; the rest must wait for the next batch.",
            case="never more than a batch",
        ),
        WrongAnswer(
            "waits for a full batch",
            _WaitsForAFullBatch,
            says="That is static batching: the oldest request has waited for `max_wait`, and still nothing starts.",
            case="the age of the oldest request starts the batch",
        ),
        WrongAnswer(
            "looks at the youngest request",
            _LooksAtTheYoungest,
            says="You measured the age of the *youngest*: under steady arrivals the timer would never fire.",
            case="the age of the oldest request starts the batch",
        ),
        WrongAnswer(
            "starts only after the time has passed",
            _LaunchesAfterTheAge,
            says="At exactly `launch_time()` the timer fires, and your scheduler asks for the same timer again: for ever. "
            "Compare with `>=`.",
            case="the age of the oldest request starts the batch",
        ),
        WrongAnswer(
            "takes the smallest preferred size",
            _SmallestPreferred,
            says="Two preferred sizes are full: take the larger one.",
            case="the largest preferred size that is full starts at once",
        ),
        WrongAnswer(
            "sets a timer while a batch runs",
            _TimerWithoutAQueue,
            says="While a batch runs no timer can start another one: return None.",
            case="nothing starts while a batch runs, and no timer is needed",
        ),
        WrongAnswer(
            "sends a preferred size although the timer fired",
            _SendsAPreferredSizeWhenTheTimerFires,
            says="The oldest request is due, so everybody who is here starts, not just a preferred size.",
        ),
    ),
    difficulty=2,
    minutes=12,
    focus=("launch_size", "launch_time", "next_event"),
)
