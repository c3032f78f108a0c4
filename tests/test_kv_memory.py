"""Where the KV cache's memory went, step by step, beside a count that takes its time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import CountingExecutor, DeviceLostError, mixed_requests, request
from synthetic_traces import continuous_trace, static_trace

from lablib import metrics
from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.request import Request, SamplingParams
from lablib.scheduler import ContinuousBatching, Scheduler, StaticBatching
from lablib.scheduler.policies import ReserveMaxTokens, ReserveModelMax, ReservePrompt
from lablib.trace import Trace

KINDS = ("token_state", "reserved", "internal", "free")


@dataclass(slots=True, eq=False)
class Stay:
    """The time from a request's first block to the moment it holds none."""

    request: int
    held: int = 0
    written: int = 0
    done: bool = False


def slow_count(trace: Trace) -> list[tuple[int, int, int, int, int]]:
    """Per step the four kinds and the number of residents, token slot by token slot."""
    size, capacity = trace.meta["block_size"], trace.meta["block_size"] * trace.meta["num_blocks"]
    moments = list(replay(trace))
    at_the_end = moments[-1][1] if moments else []
    counts = []
    for snapshot, _ in moments:
        state = reserved = internal = 0
        for stay, held, written in snapshot:
            ever = stay.written
            if stay in at_the_end and not stay.done and trace.requests["finish_reason"][stay.request] is None:
                ever = max(
                    ever, trace.requests["prompt"][stay.request] + trace.requests["max_tokens"][stay.request] - 1
                )
            for position in range(held * size):
                state += position < written
                reserved += written <= position < ever
                internal += position >= ever
        counts.append((state, reserved, internal, capacity - state - reserved - internal, len(snapshot)))
    return counts


def replay(trace: Trace) -> Iterator[tuple[list[tuple[Stay, int, int]], list[Stay]]]:
    """After each step: the stays with blocks and tokens they have then; and those that are open after all changes."""
    changes, chunks = list(zip(*trace.tables["blocks"].values(), strict=True)), trace.chunks()
    stays: dict[int, Stay] = {}
    for step in range(trace.num_steps):
        last = step == trace.num_steps - 1
        apply(changes, step, stays)
        for i in np.flatnonzero(chunks["step"] == step):
            stay = stays[int(chunks["request"][i])]
            stay.written = int(chunks["start"][i] + chunks["tokens"][i]) if chunks["tokens"][i] else stay.written
            stay.done |= chunks["tokens"][i] == 0
        snapshot = [(stay, stay.held, stay.written) for stay in stays.values()]
        if last:
            apply(changes, trace.num_steps, stays)
        yield snapshot, list(stays.values())


def apply(changes: list[tuple[int, int, int, int]], step: int, stays: dict[int, Stay]) -> None:
    while changes and changes[0][0] <= step:
        _, who, freed, count = changes.pop(0)
        stay = stays.setdefault(who, Stay(who))
        stay.held += -count if freed else count
        if stay.held == 0:
            del stays[who]


def rows(trace: Trace) -> list[tuple[int, ...]]:
    memory = metrics.kv_memory(trace)
    columns = [*(getattr(memory, kind) for kind in KINDS), memory.residents]
    return [tuple(int(value) for value in row) for row in zip(*columns, strict=True)]


def scheduler_of(kind: str, slots: int, block_size: int) -> Scheduler:
    if kind == "static":
        return StaticBatching(slots, 40)
    if kind == "streaming":
        return StaticBatching(slots, 40, stream=True)
    rule = {"model max": ReserveModelMax(), "max tokens": ReserveMaxTokens(), "prompt": ReservePrompt()}[kind]
    return ContinuousBatching(slots, 40, block_size=block_size, admission=rule)


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(["static", "streaming", "model max", "max tokens", "prompt"]),
    shapes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=9),
    slots=st.integers(1, 5),
    block_size=st.integers(1, 12),
    num_steps=st.integers(0, 80),
    failing=st.sets(st.integers(0, 30), max_size=3),
    aborted=st.dictionaries(st.integers(0, 40), st.integers(0, 8), max_size=3),
)
def test_each_token_slot_is_counted_once_under_the_kind_it_turns_out_to_be(
    kind: str,
    shapes: list[tuple[int, int, int]],
    slots: int,
    block_size: int,
    num_steps: int,
    failing: set[int],
    aborted: dict[int, int],
) -> None:
    scheduler = scheduler_of(kind, slots, block_size)
    engine = Engine(scheduler, CountingExecutor(eos_token_ids=[17], fail_at=sorted(failing)))
    for i, (prompt, output, ignore_eos) in enumerate(shapes):
        sampling = SamplingParams(max_tokens=output, ignore_eos=ignore_eos % 2 == 0)
        engine.add_request(Request(f"r{i}", [1] * prompt, sampling))
    scheduler.close()
    for turn in range(num_steps):
        engine.abort(f"r{aborted.get(turn, 'none')}")
        with contextlib.suppress(DeviceLostError):
            engine.step()
    trace = engine.complete_trace()
    assert rows(trace) == slow_count(trace)


@pytest.mark.parametrize("max_steps", [100_000, 60, 25])
@pytest.mark.parametrize("seed", range(4))
def test_a_preempted_request_leaves_what_it_held_unwritten_and_starts_anew(seed: int, max_steps: int) -> None:
    trace = continuous_trace(14, blocks=24, output=(20, 90), seed=seed, max_steps=max_steps)
    assert metrics.preemptions(trace) > 0
    assert rows(trace) == slow_count(trace)


def test_rows_of_a_static_batch_hold_their_memory_to_its_end() -> None:
    trace = static_trace(10, slots=4)
    assert rows(trace) == slow_count(trace)
    residents = metrics.kv_memory(trace).residents
    assert set(residents.tolist()) == {4, 2}, "ten requests: 4, 4, 2, each batch whole to its end"


def test_the_numbers_of_a_run_that_can_be_counted_by_hand() -> None:
    """One request, 3 prompt + 3 output tokens, in blocks of 4, a pool of 3: K/V of 5 tokens are written in 3 steps."""
    engine = Engine(
        ContinuousBatching(1, 12, block_size=4, num_blocks=3, admission=ReserveMaxTokens()), SimulatedExecutor()
    )
    assert rows(engine.run([request("a", 3, 3)])) == [(3, 2, 3, 4, 1), (4, 1, 3, 4, 1), (5, 0, 3, 4, 1)]
    engine = Engine(
        ContinuousBatching(1, 12, block_size=4, num_blocks=3, admission=ReservePrompt()), SimulatedExecutor()
    )
    assert rows(engine.run([request("a", 3, 3)])) == [(3, 1, 0, 8, 1), (4, 0, 0, 8, 1), (5, 0, 3, 4, 1)]


def test_a_run_that_is_cut_off_is_split_as_if_it_went_on() -> None:
    whole = Engine(ContinuousBatching(4, 128, block_size=8), SimulatedExecutor()).run(mixed_requests(12))
    cut = Engine(ContinuousBatching(4, 128, block_size=8), SimulatedExecutor())
    for each in mixed_requests(12):
        cut.add_request(each)
    for _ in range(20):
        cut.step()
    assert rows(cut.complete_trace()) == rows(whole)[:20]


def test_means_weigh_each_step_by_its_time_and_the_shares_add_up_to_one() -> None:
    """Step 0 computes 3 tokens and takes 3 s, the other two 1 s each."""
    cost = ConstantCost(seconds_per_step=0.0, seconds_per_token=1.0)
    trace = Engine(ContinuousBatching(1, 12, block_size=4, num_blocks=3), SimulatedExecutor(cost)).run(
        [request("a", 3, 3)]
    )
    means = metrics.kv_memory(trace).means()
    assert means["token_state"] == pytest.approx((3 * 3 + 4 + 5) / 5 / 12)
    assert means["residents"] == pytest.approx(1.0)
    assert sum(means[kind] for kind in KINDS) == pytest.approx(1.0)


@pytest.mark.parametrize(("stream", "num_steps", "reserved"), [(True, 2, 6), (False, 3, 5)])
def test_a_row_that_is_done_but_holds_its_memory_will_write_no_more(
    stream: bool, num_steps: int, reserved: int
) -> None:
    """``a`` stops in step 1, of 10 tokens it might have had; ``b`` goes on to 2 + 8 − 1 tokens, one a step."""
    engine = Engine(StaticBatching(2, 40, stream), CountingExecutor(eos_token_ids=[17]))
    engine.add_request(Request("a", [1] * 16, SamplingParams(max_tokens=10)))
    engine.add_request(request("b", 2, 8))
    for _ in range(num_steps):
        engine.step()
    assert metrics.kv_memory(engine.complete_trace()).reserved[-1] == reserved


def test_steps_that_take_no_time_have_no_mean() -> None:
    free = SimulatedExecutor(ConstantCost(0.0, 0.0))
    trace = Engine(StaticBatching(2, 64), free).run(mixed_requests(2))
    assert set(metrics.kv_memory(trace).means().values()) == {0.0}


def test_a_run_without_steps_has_no_memory_to_split() -> None:
    trace = Engine(StaticBatching(2, 64), SimulatedExecutor()).run([])
    assert rows(trace) == []
    assert set(metrics.kv_memory(trace).means().values()) == {0.0}


def test_the_count_needs_no_matrix_of_requests_and_steps() -> None:
    """Twice the steps and twice the requests: about twice the memory, not four times."""
    import tracemalloc

    peaks = []
    for count in (250, 500):
        trace = Engine(ContinuousBatching(8, 128, block_size=8), SimulatedExecutor()).run(mixed_requests(count))
        tracemalloc.start()
        metrics.kv_memory(trace)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0]
