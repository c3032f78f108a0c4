"""Dynamic batching: launch on size, or on the age of the oldest."""

from __future__ import annotations

import pytest
from runs import request

from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.scheduler import DynamicBatching
from lablib.trace import Trace

ONE_SECOND_A_STEP = SimulatedExecutor(ConstantCost(seconds_per_step=1.0, seconds_per_token=0.0))


def starts(trace: Trace) -> list[tuple[float, list[str]]]:
    """When each batch started, and who was in it."""
    begin, _ = trace.step_times()
    batches: dict[int, list[str]] = {}
    for step, kind, row in zip(*trace.tables["events"].values(), strict=True):
        if kind == 0:
            batches.setdefault(step, []).append(trace.requests["id"][row])
    return [(float(begin[step]), ids) for step, ids in batches.items()]


def run(scheduler: DynamicBatching, arrivals: list[float], output: int = 1) -> list[tuple[float, list[str]]]:
    requests = [request(f"r{i}", 2, output, arrival) for i, arrival in enumerate(arrivals)]
    return starts(Engine(scheduler, ONE_SECOND_A_STEP).run(requests))


def test_a_full_batch_starts_at_once() -> None:
    assert run(DynamicBatching(2, 64, max_wait=100), [0, 0.5, 50]) == [(0.5, ["r0", "r1"]), (50.0, ["r2"])]


def test_the_oldest_request_waits_no_longer_than_max_wait() -> None:
    assert run(DynamicBatching(4, 64, max_wait=2), [1, 2.5, 60]) == [(3.0, ["r0", "r1"]), (60.0, ["r2"])]


def test_the_clock_is_the_oldest_requests_not_the_last_batchs() -> None:
    # r1 arrives long after the batch of r0: it waits its own two seconds, and is not sent off at once
    assert run(DynamicBatching(4, 64, max_wait=2), [0, 30, 31, 60]) == [
        (2.0, ["r0"]),
        (32.0, ["r1", "r2"]),
        (60.0, ["r3"]),
    ]


def test_a_request_that_grew_old_behind_a_batch_starts_when_the_batch_ends() -> None:
    assert run(DynamicBatching(2, 64, max_wait=1), [0, 0, 0.5, 40], output=5) == [
        (0.0, ["r0", "r1"]),
        (5.0, ["r2"]),
        (40.0, ["r3"]),
    ]


def test_a_preferred_size_starts_at_once_and_the_largest_wins() -> None:
    scheduler = DynamicBatching(8, 64, max_wait=10, preferred_batch_sizes=(2, 4))
    assert run(scheduler, [0, 0, 0, 0, 0, 99]) == [(0.0, ["r0", "r1", "r2", "r3"]), (10.0, ["r4"]), (99.0, ["r5"])]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_wait": -1.0}, "max_wait .* must be at least 0"),
        ({"preferred_batch_sizes": (9,)}, "preferred batch size 9"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DynamicBatching(8, 64, **options)  # type: ignore[arg-type]
