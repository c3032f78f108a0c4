"""Exercise 2.2: how long callers waited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer

Shape = tuple[int, int, float]  # prompt tokens, output tokens, arrival in seconds


def _trace(shapes: Sequence[Shape], stream: bool) -> Callable[[], tuple[Any]]:
    """Makes the trace of a run in batches of two, one second a step."""

    def make() -> tuple[Any]:
        from lablib.engine import Engine
        from lablib.executor import ConstantCost, SimulatedExecutor
        from lablib.request import Request, SamplingParams
        from lablib.scheduler import DynamicBatching

        requests = [
            Request(f"r{i}", [1] * prompt, SamplingParams(max_tokens=output, ignore_eos=True), arrival)
            for i, (prompt, output, arrival) in enumerate(shapes)
        ]
        executor = SimulatedExecutor(ConstantCost(seconds_per_step=1.0, seconds_per_token=0.0))
        return (Engine(DynamicBatching(2, 64, max_wait=0.5, stream=stream), executor).run(requests),)

    return make


def _case(name: str, shapes: Sequence[Shape], stream: bool = True, hint: str = "") -> Case:
    listed = ", ".join(f"{output} tokens, arrival {arrival:g} s" for _, output, arrival in shapes)
    given = f"a trace of batches of 2, 1 s a step, {'streamed' if stream else 'not streamed'}; requests: {listed}"
    return Case(name, args=_trace(shapes, stream), given=given, hint=hint)


def _times(trace: Any, **changed: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The right answer with some columns computed otherwise, from (milestones, gaps)."""
    import numpy as np

    when = trace.milestones()
    gaps = np.array([len(output) - 1.0 for output in trace.requests["output"]])
    gaps[gaps < 1] = np.nan
    columns: dict[str, Callable[[Any, Any], Any]] = {
        "queue": lambda w, g: w["scheduled"] - w["arrival"],
        "ttft": lambda w, g: w["first_token"] - w["arrival"],
        "tpot": lambda w, g: (w["finish"] - w["first_token"]) / g,
        "e2e": lambda w, g: w["finish"] - w["arrival"],
    }
    return {name: compute(when, gaps) for name, compute in {**columns, **changed}.items()}


def _ttft_from_the_start(trace: Any) -> Any:
    return _times(trace, ttft=lambda w, g: w["first_token"] - w["scheduled"])


def _tpot_counts_the_first(trace: Any) -> Any:
    return _times(trace, tpot=lambda w, g: (w["finish"] - w["first_token"]) / (g + 1))


def _tpot_from_arrival(trace: Any) -> Any:
    return _times(trace, tpot=lambda w, g: (w["finish"] - w["arrival"]) / g)


def _queue_to_the_first_token(trace: Any) -> Any:
    return _times(trace, queue=lambda w, g: w["first_token"] - w["arrival"])


def _e2e_from_the_start(trace: Any) -> Any:
    return _times(trace, e2e=lambda w, g: w["finish"] - w["scheduled"])


LATENCY = Exercise(
    key="2.2",
    title="Queue, TTFT, TPOT, E2E",
    reference="lablib.metrics.latencies:request_times",
    cases=(
        _case("two requests at once", [(3, 4, 0.0), (3, 4, 0.0)]),
        _case("answers of different length", [(3, 4, 0.0), (3, 2, 0.0)]),
        _case(
            "a request that waits for others",
            [(3, 3, 0.0), (3, 2, 0.4)],
            hint="The first one waits 0.4 s for the second: waiting belongs to queue, TTFT and E2E.",
        ),
        _case(
            "an answer of one token has no TPOT",
            [(3, 1, 0.0), (3, 3, 0.0)],
            hint="With n = 1 there is no time *between* tokens: nan, not 0 and no division by zero.",
        ),
        _case("delivered when the batch ends", [(3, 4, 0.0), (3, 2, 0.0), (2, 3, 2.0)], stream=False),
        _case("a queue", [(3, 4, 0.0), (3, 2, 0.0), (2, 3, 1.0), (2, 1, 1.5), (4, 2, 9.0)]),
    ),
    hints=(
        "Each of the four is a difference of two milestones; TPOT is such a difference, divided.",
        "queue: scheduled − arrival. TTFT: first_token − arrival. E2E: finish − arrival. TPOT: (E2E − TTFT) / (n − 1), "
        "where n is the number of output tokens, `len(output)` for each `output` in `trace.requests['output']`.",
        "`gaps = np.array([len(output) - 1.0 for output in trace.requests['output']])`, then `gaps[gaps < 1] = np.nan`, "
        "and `'tpot': (when['finish'] - when['first_token']) / gaps`.",
    ),
    wrong=(
        WrongAnswer(
            "TTFT from the first scheduling",
            _ttft_from_the_start,
            says="TTFT is what the *user* waits: it begins with the arrival, queueing included.",
            case="a request that waits for others",
        ),
        WrongAnswer(
            "TPOT counts the first token",
            _tpot_counts_the_first,
            says="The first token is TTFT's business; n tokens have n − 1 gaps between them.",
            case="two requests at once",
        ),
        WrongAnswer(
            "TPOT from the arrival",
            _tpot_from_arrival,
            says="That mixes TTFT into TPOT: start at the first token.",
            case="two requests at once",
        ),
        WrongAnswer(
            "queue time up to the first token",
            _queue_to_the_first_token,
            says="Queue time ends when the request is first *scheduled*; its prefill comes after.",
            case="two requests at once",
        ),
        WrongAnswer(
            "E2E from the first scheduling",
            _e2e_from_the_start,
            says="End to end begins where the user begins: at the arrival.",
            case="a request that waits for others",
        ),
    ),
    equivalent={
        "`gaps[gaps < 1] = np.nan` is left out": "0 / 0 is nan too, with a warning",
        "`gaps[gaps < 1] = np.nan` → `gaps[gaps < 0] = np.nan`": "0 / 0 is nan too, with a warning",
    },
    difficulty=1,
    minutes=8,
)
