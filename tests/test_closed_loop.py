"""Clients that wait for an answer before they ask again, under every scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import request

from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.request import Request
from lablib.scheduler import ContinuousBatching, DynamicBatching, Scheduler, SchedulerStuck, StaticBatching
from lablib.step import StepPlan
from lablib.workload import ClosedLoop, Fixed, Gamma, Uniform, Workload, synthetic

KINDS = ("static", "dynamic", "continuous", "few blocks")
ONE_SECOND = SimulatedExecutor(ConstantCost(seconds_per_step=1.0, seconds_per_token=0.0))


def scheduler_of(kind: str, slots: int, longest: int) -> Scheduler:
    if kind == "static":
        return StaticBatching(slots, longest)
    if kind == "dynamic":
        return DynamicBatching(slots, longest, max_wait=0.02)
    if kind == "continuous":
        return ContinuousBatching(slots, longest)
    return ContinuousBatching(slots, longest, block_size=5, num_blocks=-(-longest // 5) + 2)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 25), clients=st.integers(1, 9), slots=st.integers(1, 6), think=st.sampled_from([0.0, 0.013])
)
def test_every_client_is_served_to_its_last_request_and_never_has_two_in_work(
    kind: str, count: int, clients: int, slots: int, think: float
) -> None:
    workload = synthetic("closed", count, ClosedLoop(clients, think), Uniform(1, 12), Uniform(1, 9), seed=count)
    scheduler = scheduler_of(kind, slots, workload.max_model_len)
    trace = Engine(scheduler, SimulatedExecutor()).run(workload)
    requests = trace.requests
    assert sorted(requests["id"]) == sorted(f"r{i}" for i in range(count))
    assert set(requests["finish_reason"]) == {"length"}
    ends = trace.step_times()[1]
    rows = {request_id: row for row, request_id in enumerate(requests["id"])}
    for i in range(clients, count):
        answered = ends[requests["finish_step"][rows[f"r{i - clients}"]]]
        assert requests["arrival_us"][rows[f"r{i}"]] == round((answered + think) * 1e6)
    assert scheduler.kv.pool.num_used == 0


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 30), slots=st.integers(1, 6), cv=st.sampled_from([0.0, 1.0, 4.0]), seed=st.integers(0, 99))
def test_an_open_workload_is_served_whole_first_come_first_served_and_repeats_exactly(
    kind: str, count: int, slots: int, cv: float, seed: int
) -> None:
    workload = synthetic("open", count, Gamma(rate=40.0, cv=cv), Uniform(1, 12), Uniform(1, 9), seed)
    traces = [
        Engine(scheduler_of(kind, slots, workload.max_model_len), SimulatedExecutor()).run(workload) for _ in range(2)
    ]
    assert traces[0].hash == traces[1].hash
    trace = traces[0]
    assert [len(output) for output in trace.requests["output"]] == [item.output_tokens for item in workload.items]
    chunks = trace.chunks()
    assert (chunks["tokens"].sum()) == workload.prompt_tokens + workload.output_tokens - count
    admitted = trace.column("events", "request")[trace.column("events", "kind") == 0].tolist()
    assert admitted == sorted(admitted)
    starts = trace.step_times()[0][trace.column("events", "step")[trace.column("events", "kind") == 0]]
    arrivals = [trace.requests["arrival_us"][row] / 1e6 for row in admitted]
    assert all(start >= arrival for start, arrival in zip(starts, arrivals, strict=True)), "nobody runs before it comes"


def test_a_half_full_static_batch_starts_when_every_client_waits() -> None:
    workload = synthetic("closed", 6, ClosedLoop(3), Fixed(2), Fixed(2))
    trace = Engine(StaticBatching(8, 4), ONE_SECOND).run(workload)
    assert trace.num_steps == 4
    assert trace.requests["arrival_us"] == [0, 0, 0, 2_000_000, 2_000_000, 2_000_000]


def test_a_dynamic_batch_still_waits_for_its_timer_in_a_closed_loop() -> None:
    workload = synthetic("closed", 4, ClosedLoop(2), Fixed(2), Fixed(1))
    trace = Engine(DynamicBatching(8, 4, max_wait=0.5), ONE_SECOND).run(workload)
    assert trace.step_times()[0].tolist() == [0.5, 2.0]


def test_a_timer_between_two_microseconds_fires() -> None:
    """0.006 + 0.02 is 0.026000000000000002: the clock may not stop at 0.026, or the batch never starts."""
    trace = Engine(DynamicBatching(8, 8, max_wait=0.02), ONE_SECOND).run(
        [request("a", 1, 1, arrival=0.006), request("b", 1, 1, arrival=9.0)]
    )
    assert trace.step_times()[0].tolist() == [0.026001, 9.0]


def test_a_client_whose_request_is_refused_goes_on_with_its_next() -> None:
    class TooLongAtFirst:
        def __iter__(self) -> Iterator[Request]:
            return iter([request("big", 90, 20)])

        def on_finish(self, finished: Request, now: float) -> list[Request]:
            return [request("small", 2, 3, arrival=now + 1)] if finished.request_id == "big" else []

    trace = Engine(ContinuousBatching(2, 64), ONE_SECOND).run(TooLongAtFirst())
    assert trace.requests["finish_reason"] == ["error", "length"]
    assert trace.requests["arrival_us"] == [0, 1_000_000]


def test_a_scheduler_that_serves_nobody_is_still_an_error_in_a_closed_loop() -> None:
    class Lazy(StaticBatching):
        def schedule(self, now: float) -> StepPlan:
            return StepPlan()

    workload: Workload = synthetic("closed", 4, ClosedLoop(2), Fixed(2), Fixed(1))
    with pytest.raises(SchedulerStuck, match="2 waiting"):
        Engine(Lazy(2, 64), ONE_SECOND).run(workload)
