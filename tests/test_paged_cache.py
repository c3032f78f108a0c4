"""Small blocks: tables grow while requests run, reserve rules decide who starts, and a full pool is no disaster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import CountingExecutor, request

from lablib import metrics
from lablib.engine import Engine
from lablib.executor import SimulatedExecutor
from lablib.executor.packing import slot_mapping
from lablib.kvcache import OutOfBlocks
from lablib.request import FinishReason, Request
from lablib.scheduler import ContinuousBatching, IterationScheduler
from lablib.scheduler.policies import Admission, ReserveMaxTokens, ReserveModelMax, ReservePrompt
from lablib.trace import Trace

RULES: dict[str, Admission] = {
    "model max": ReserveModelMax(),
    "max tokens": ReserveMaxTokens(),
    "prompt": ReservePrompt(),
    "prompt, a quarter kept": ReservePrompt(watermark=0.25),
}
LONGEST = 24


def paged(slots: int, num_blocks: int, block_size: int = 4, admission: Admission | None = None) -> IterationScheduler:
    return ContinuousBatching(
        slots, LONGEST, block_size=block_size, num_blocks=num_blocks, admission=admission or ReservePrompt()
    )


def expected_tokens(each: Request) -> list[int]:
    """What ``CountingExecutor`` answers: the position of each sample."""
    return [each.num_prompt_tokens + i for i in range(each.max_tokens)]


# Growth


def test_the_token_behind_a_full_block_goes_to_the_start_of_the_next_one() -> None:
    executor = CountingExecutor()
    Engine(paged(1, 6), executor).run([request("a", 4, 6)])
    chunks = [plan.chunks[0] for plan in executor.plans]
    assert [(chunk.start, len(chunk.block_ids)) for chunk in chunks] == [(0, 1), (4, 2), (5, 2), (6, 2), (7, 2), (8, 3)]
    for chunk in (chunks[1], chunks[5]):
        rows = slot_mapping(chunk.block_ids, np.array([chunk.start - 1, chunk.start]), 4)
        assert rows.tolist() == [chunk.block_ids[-2] * 4 + 3, chunk.block_ids[-1] * 4]


@pytest.mark.parametrize("prompt", [3, 4, 5, 8])
def test_a_prompt_takes_the_blocks_it_fills_and_no_more(prompt: int) -> None:
    scheduler = paged(1, 6)
    scheduler.add(request("a", prompt, 2))
    (chunk,) = scheduler.schedule(0.0).chunks
    assert len(chunk.block_ids) == -(-prompt // 4) == scheduler.kv.pool.num_used


def test_what_is_reserved_at_the_start_is_not_taken_again() -> None:
    executor = CountingExecutor()
    Engine(paged(2, 6, admission=ReserveMaxTokens()), executor).run([request("a", 2, 9), request("b", 3, 5)])
    assert {len(c.block_ids) for plan in executor.plans for c in plan.chunks if c.request_id == "a"} == {3}


def test_blocks_of_a_finished_request_serve_a_newcomer_in_the_next_step_and_nobody_elses_change() -> None:
    executor = CountingExecutor()
    Engine(paged(2, 3), executor).run([request("a", 4, 1), request("b", 4, 4), request("c", 4, 1)])
    tables = [{chunk.request_id: chunk.block_ids for chunk in plan.chunks} for plan in executor.plans[:2]]
    assert tables == [{"a": (0,), "b": (1,)}, {"b": (1, 2), "c": (0,)}]


# Out of blocks


def two_that_outgrow_the_pool() -> tuple[Engine, list[Request]]:
    """Two requests of 4 + 12 tokens in 4 blocks of 4: both fill two blocks, and need a third in step 5."""
    requests = [request("a", 4, 12), request("b", 4, 12)]
    return Engine(paged(2, 4), CountingExecutor()), requests


def test_a_running_request_that_cannot_grow_is_named_with_step_need_and_remedy() -> None:
    engine, requests = two_that_outgrow_the_pool()
    with pytest.raises(OutOfBlocks) as caught:
        engine.run(requests)
    error = caught.value
    assert (error.step, error.request_id, error.need, error.free) == (5, "a", 1, 0)
    assert str(error).startswith("step 5: request a needs 1 more block, 0 are free; make the pool larger (num_blocks)")
    assert engine.trace.num_steps == 5, "steps 0 to 4 were computed, step 5 could not be planned"


def test_the_trace_of_a_run_out_of_blocks_is_whole() -> None:
    engine, requests = two_that_outgrow_the_pool()
    with pytest.raises(OutOfBlocks):
        engine.run(requests)
    trace = Trace.from_dict(engine.trace.to_dict())
    held = np.bincount(trace.tables["blocks"]["request"], weights=trace.tables["blocks"]["count"])
    assert held.tolist() == [2, 2]
    assert trace.requests["finish_reason"] == [None, None]
    memory = metrics.kv_memory(trace)
    assert (memory.token_state[-1], memory.free[-1]) == (16, 0)


def test_after_an_abort_the_engine_goes_on_and_the_others_get_their_tokens() -> None:
    engine, requests = two_that_outgrow_the_pool()
    for again in (requests, []):  # trying again changes nothing
        with pytest.raises(OutOfBlocks, match="step 5: request a"):
            engine.run(again)
    kv = engine.scheduler.kv
    assert len(kv.block_table("a")) == len(kv.block_table("b")) == 2
    (output,) = engine.abort("b")
    assert output.finish_reason is FinishReason.ABORT
    engine.run([])
    assert requests[0].output_token_ids == expected_tokens(requests[0])
    assert requests[1].output_token_ids == expected_tokens(requests[1])[:5]
    assert kv.pool.num_used == 0
    assert Trace.from_dict(engine.trace.to_dict()).requests["finish_reason"] == ["length", "abort"]


def test_blocks_taken_before_a_plan_failed_stay_with_their_request_and_are_used() -> None:
    engine = Engine(paged(2, 5), CountingExecutor())
    requests = [request("a", 4, 12), request("b", 4, 12)]
    with pytest.raises(OutOfBlocks, match="step 5: request b needs 1 more block, 0 are free"):
        engine.run(requests)
    kv = engine.scheduler.kv
    assert (len(kv.block_table("a")), len(kv.block_table("b")), kv.pool.num_free) == (3, 2, 0)
    engine.abort("b")
    engine.run([])
    assert requests[0].output_token_ids == expected_tokens(requests[0])
    assert kv.pool.num_free == 5


def test_a_scheduler_that_nobody_counts_steps_for_names_no_step() -> None:
    scheduler = paged(2, 1)
    scheduler.add(request("a", 2, 2))
    scheduler.schedule(0.0)
    with pytest.raises(OutOfBlocks, match=r"^request b needs 2 more blocks, 0 are free"):
        scheduler.kv.grow("b", 8)


# Who is let in


def test_a_request_that_fills_the_pool_alone_is_served_and_one_token_more_is_refused() -> None:
    """Three blocks of 7 hold 21 tokens: the longest request is rounded down to whole blocks, never up."""
    engine = Engine(paged(2, 3, block_size=7), CountingExecutor())
    fits, outgrows, other = request("fits", 12, 9), request("outgrows", 12, 10), request("other", 2, 2)
    trace = engine.run([fits, outgrows, other])
    assert trace.requests["finish_reason"] == ["length", "error", "length"]
    assert "12 prompt + 10 output tokens can never fit in a KV cache of 21 tokens" in trace.requests["message"][1]
    assert fits.output_token_ids == expected_tokens(fits)


def test_a_request_that_names_no_limit_is_given_what_the_pool_has() -> None:
    engine = Engine(paged(1, 3), CountingExecutor())
    engine.run([Request("a", [1] * 5)])
    assert len(engine.trace.requests["output"][0]) == 12 - 5


@pytest.mark.parametrize(
    ("admission", "message"),
    [
        (ReserveModelMax(), "request a: ReserveModelMax reserves 24 tokens = 6 blocks, the pool has 5; make the pool"),
        (ReservePrompt(0.6), "request a: ReservePrompt reserves 9 tokens = 3 blocks and keeps 3 free, the pool has 5"),
    ],
)
def test_a_reservation_that_can_never_be_met_is_refused_at_the_door(admission: Admission, message: str) -> None:
    scheduler = paged(2, 5, admission=admission)
    with pytest.raises(ValueError, match=message):
        scheduler.add(request("a", 9, 2))
    assert not scheduler.waiting


@settings(max_examples=80, deadline=None)
@given(
    rule=st.sampled_from([*RULES.values(), ReservePrompt(0.5), ReservePrompt(0.9)]),
    num_blocks=st.integers(1, 12),
    block_size=st.integers(1, 9),
    prompt=st.integers(1, 20),
    output=st.integers(1, 20),
)
def test_whoever_is_let_in_is_served_when_alone(
    rule: Admission, num_blocks: int, block_size: int, prompt: int, output: int
) -> None:
    each = request("a", prompt, output)
    trace = Engine(paged(2, num_blocks, block_size, rule), CountingExecutor()).run([each])
    assert each.output_token_ids == ([] if trace.requests["message"][0] else expected_tokens(each))


def test_room_for_the_answer_is_room_for_the_prompt_and_max_tokens() -> None:
    scheduler = paged(3, 6, admission=ReserveMaxTokens())
    for name in "abc":
        scheduler.add(request(name, 4, 5))
    plan = scheduler.schedule(0.0)
    assert plan.admitted == ("a", "b")
    assert plan.waits == {"c": "blocks: needs 3, free 0"}


def test_a_watermark_is_named_where_it_keeps_somebody_waiting() -> None:
    scheduler = paged(3, 8, admission=ReservePrompt(watermark=0.3))
    scheduler.add(request("a", 20, 1))
    scheduler.add(request("b", 8, 1))
    plan = scheduler.schedule(0.0)
    assert plan.admitted == ("a",)
    assert plan.waits == {"b": "blocks: needs 2, free 3, keeps 2 free"}


@pytest.mark.parametrize(("watermark", "blocks"), [(0.0, 0), (0.01, 0), (0.2, 1), (0.25, 2), (0.29, 2), (0.99, 7)])
def test_a_watermark_is_a_share_of_the_pool_in_whole_blocks(watermark: float, blocks: int) -> None:
    assert ReservePrompt(watermark).keep_free(8) == blocks
    assert ReservePrompt().keep_free(8000) == 0


@pytest.mark.parametrize("watermark", [-0.1, 1.0, float("nan")])
def test_a_watermark_out_of_range_is_refused(watermark: float) -> None:
    with pytest.raises(ValueError, match="watermark, a share of the pool, must be"):
        ReservePrompt(watermark)


# Whatever comes


def out_of_blocks(engine: Engine) -> OutOfBlocks | None:
    """Step; the error if somebody can't grow."""
    try:
        engine.step()
    except OutOfBlocks as error:
        return error
    return None


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=10),
    slots=st.integers(1, 4),
    block_size=st.sampled_from([1, 3, 4, 7, 24]),
    spare=st.integers(0, 8),
    youngest=st.booleans(),
)
def test_blocks_balance_residents_stay_within_the_slots_and_whoever_is_not_aborted_gets_every_token(
    rule: str, shapes: list[tuple[int, int]], slots: int, block_size: int, spare: int, youngest: bool
) -> None:
    num_blocks = -(-LONGEST // block_size) + spare
    scheduler = paged(slots, num_blocks, block_size, RULES[rule])
    executor = CountingExecutor()
    engine = Engine(scheduler, executor)
    requests = [request(f"r{i}", *shape) for i, shape in enumerate(shapes)]
    for each in requests:
        engine.add_request(each)
    scheduler.close()
    kv, kept = scheduler.kv, scheduler.admission.keep_free(num_blocks)
    while scheduler.has_work():
        error = out_of_blocks(engine)
        if error is not None:
            stuck = scheduler.running[error.request_id]
            assert error.need == kv.blocks_for(stuck.num_tokens) - len(kv.block_table(stuck.request_id))
            assert error.need > error.free == kv.pool.num_free
            engine.abort(list(scheduler.running)[-1] if youngest else stuck.request_id)
        held = [block for each in requests for block in kv.block_table(each.request_id)]
        assert len(held) == len(set(held)) == kv.pool.num_used == num_blocks - kv.pool.num_free
        assert {r.request_id for r in requests if kv.block_table(r.request_id)} == set(scheduler.running)
        assert len(scheduler.running) <= slots
    for plan in executor.plans:
        assert all(len(chunk.block_ids) * block_size >= chunk.end for chunk in plan.chunks), "no block for a write"
    for each in requests:
        aborted = each.finish_reason is FinishReason.ABORT
        assert each.output_token_ids == expected_tokens(each)[: each.num_output_tokens if aborted else None]
        assert not aborted or isinstance(scheduler.admission, ReservePrompt), "reserved, and yet out of blocks"
    assert kv.pool.num_used == 0
    memory = metrics.kv_memory(Trace.from_dict(engine.complete_trace().to_dict()))
    assert memory.residents.max() <= slots
    assert memory.free.min() >= 0
    admissions = engine.trace.column("events", "step")[engine.trace.column("events", "kind") == 0]
    assert (memory.free[np.unique(admissions)] >= kept * block_size).all()


def test_a_simulated_run_names_its_reserve_rule() -> None:
    assert Engine(paged(2, 6), SimulatedExecutor()).trace.meta["admission"] == "ReservePrompt"
