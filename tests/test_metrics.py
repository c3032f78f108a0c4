"""The numbers of a run that is small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import mixed_requests, request

from lablib import metrics
from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.scheduler import StaticBatching
from lablib.trace import Trace

ONE_SECOND_A_STEP = SimulatedExecutor(ConstantCost(seconds_per_step=1.0, seconds_per_token=0.0))


def three_requests(stream: bool = False) -> Trace:
    """Slots of 2: a and b start at 0 (a: 1 token, b: 4), c comes at 0.5 and waits until 4 (2 tokens, alone)."""
    requests = [request("a", 2, 1), request("b", 5, 4), request("c", 3, 2, arrival=0.5)]
    return Engine(StaticBatching(2, 64, stream), ONE_SECOND_A_STEP).run(requests)


def test_positions_are_split_into_useful_padding_straggler_and_idle() -> None:
    split = metrics.waste(three_requests())
    # useful: prompts 2 + 5 + 3, decodes 0 + 3 + 1; padding 3 beside b's prompt; a is done for 3 steps; c alone for 2.
    assert split == metrics.Waste(useful=14, padding=3, straggler=3, idle=2)
    assert split.computed == 20
    assert split.useful_share == 0.7


def test_slot_use_counts_slots_that_computed_something_needed() -> None:
    assert metrics.slot_use(three_requests()) == (2 + 3 + 2) / 12


def test_latencies_count_from_arrival_to_delivery() -> None:
    times = metrics.request_times(three_requests())
    assert times["queue"].tolist() == [0.0, 0.0, 3.5]
    assert times["ttft"].tolist() == times["e2e"].tolist() == [4.0, 4.0, 5.5]


def test_latencies_of_streamed_answers() -> None:
    trace = three_requests(stream=True)
    times = metrics.request_times(trace)
    assert times["ttft"].tolist() == [1.0, 1.0, 4.5]
    assert times["e2e"].tolist() == [1.0, 4.0, 5.5]
    assert times["tpot"][1:].tolist() == [1.0, 1.0]
    assert np.isnan(times["tpot"][0]), "an answer of one token has no time per output token"
    assert sorted(metrics.inter_token_latencies(trace).tolist()) == [1.0, 1.0, 1.0, 1.0]


def test_throughput_is_output_tokens_over_the_whole_span() -> None:
    numbers = metrics.summary(three_requests())
    assert numbers["output_tokens_per_s"] == pytest.approx(7 / 6)
    assert numbers["steps"] == 6
    assert numbers["queue_p50"] == 0.0


def test_an_empty_trace_has_numbers_too() -> None:
    trace = Engine(StaticBatching(2, 64), ONE_SECOND_A_STEP).run([])
    assert metrics.summary(trace)["steps"] == 0
    assert metrics.waste(trace).useful_share == 1.0


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 20), seed=st.integers(0, 99), batch_size=st.integers(1, 6))
def test_useful_work_does_not_depend_on_the_batch(count: int, seed: int, batch_size: int) -> None:
    requests = mixed_requests(count, seed)
    needed = sum(r.num_prompt_tokens + r.max_tokens - 1 for r in requests)
    trace = Engine(StaticBatching(batch_size, 128), ONE_SECOND_A_STEP).run(requests)
    split = metrics.waste(trace)
    chunks = trace.chunks()
    assert split.useful == needed
    assert split.computed == int((chunks["tokens"] + chunks["padding"]).sum())
    assert split.idle == batch_size * trace.num_steps - len(chunks["step"])
