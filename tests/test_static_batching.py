"""Static batching: rectangles, honest padding, rows that wait for the last one."""

from __future__ import annotations

import pytest
from runs import CountingExecutor, mixed_requests, request

from lablib.engine import Engine
from lablib.request import FinishReason, RequestStatus
from lablib.scheduler import StaticBatching
from lablib.step import StepResult


def test_a_batch_waits_until_it_is_full() -> None:
    scheduler = StaticBatching(batch_size=2, max_model_len=16)
    scheduler.add(request("a", 3, 2))
    plan = scheduler.schedule(0.0)
    assert plan.chunks == ()
    assert plan.waits == {"a": "batch needs 2"}
    scheduler.add(request("b", 1, 2))
    assert scheduler.schedule(0.0).admitted == ("a", "b")


def test_a_short_last_batch_starts_once_no_more_requests_will_come() -> None:
    scheduler = StaticBatching(batch_size=4, max_model_len=16)
    scheduler.add(request("a", 3, 2))
    scheduler.close()
    assert scheduler.schedule(0.0).admitted == ("a",)


def test_prompts_are_padded_to_the_longest() -> None:
    scheduler = StaticBatching(batch_size=3, max_model_len=16)
    for name, prompt in (("a", 5), ("b", 2), ("c", 3)):
        scheduler.add(request(name, prompt, 2))
    plan = scheduler.schedule(0.0)
    assert [(len(c.token_ids), c.num_padding, c.sample) for c in plan.chunks] == [
        (5, 0, True),
        (2, 3, True),
        (3, 2, True),
    ]


def test_a_row_that_is_done_computes_padding_and_keeps_its_block_to_the_batchs_end() -> None:
    scheduler = StaticBatching(batch_size=2, max_model_len=16)
    scheduler.add(request("a", 3, 3))
    scheduler.add(request("b", 3, 1))
    scheduler.update(scheduler.schedule(0.0), StepResult(((7,), (7,)), 0.0))
    plan = scheduler.schedule(0.0)
    straggler = plan.chunks[1]
    assert (straggler.token_ids, straggler.num_padding, straggler.sample) == ((), 1, False)
    assert straggler.block_ids == scheduler.kv.block_table("b") != ()


def test_a_late_request_waits_for_the_batch_that_runs() -> None:
    scheduler = StaticBatching(batch_size=1, max_model_len=16)
    scheduler.add(request("a", 3, 2))
    scheduler.schedule(0.0)
    scheduler.add(request("late", 3, 2))
    plan = scheduler.schedule(0.0)
    assert [c.request_id for c in plan.chunks] == ["a"]
    assert plan.waits == {"late": "batch is running"}
    assert scheduler.schedule(0.0).waits == {}, "a reason is told once"


def test_answers_come_when_the_batch_ends() -> None:
    engine = Engine(StaticBatching(2, 64), CountingExecutor())
    engine.run([request("short", 2, 1), request("long", 2, 6)])
    deliveries = engine.trace.deliveries()
    assert deliveries["step"].tolist() == [5, 5]
    assert deliveries["tokens"].tolist() == [1, 6]


def test_with_stream_every_token_is_delivered_in_its_own_step() -> None:
    engine = Engine(StaticBatching(2, 64, stream=True), CountingExecutor())
    engine.run([request("short", 2, 1), request("long", 2, 6)])
    steps = engine.trace.deliveries()["step"]
    assert steps.tolist() == [0, 0, 1, 2, 3, 4, 5]
    assert engine.trace.requests["finish_step"] == [0, 5]


def test_the_next_token_is_computed_at_the_position_behind_the_last() -> None:
    executor = CountingExecutor()
    Engine(StaticBatching(1, 64), executor).run([request("a", 3, 4)])
    assert [(plan.chunks[0].start, plan.chunks[0].token_ids) for plan in executor.plans] == [
        (0, (1, 2, 3)),
        (3, (3,)),  # CountingExecutor answers with the position: the token sampled behind 3 tokens is 3
        (4, (4,)),
        (5, (5,)),
    ]


def test_an_aborted_row_holds_its_place_and_the_others_finish() -> None:
    scheduler = StaticBatching(batch_size=2, max_model_len=64)
    engine = Engine(scheduler, CountingExecutor())
    for each in (request("a", 2, 5), request("b", 2, 3)):
        engine.add_request(each)
    engine.step()
    (output,) = engine.abort("a")
    assert (output.finish_reason, output.token_ids) == (FinishReason.ABORT, (2,))
    assert scheduler.kv.block_table("a") != ()
    outputs = engine.step() + engine.step()
    assert [(o.request_id, len(o.token_ids)) for o in outputs] == [("b", 3)]
    assert scheduler.kv.pool.num_used == 0
    assert engine.abort("a") == []


def test_aborting_the_last_row_ends_the_batch_at_once() -> None:
    scheduler = StaticBatching(batch_size=2, max_model_len=64)
    engine = Engine(scheduler, CountingExecutor())
    for each in (request("a", 2, 1), request("b", 2, 9)):
        engine.add_request(each)
    engine.step()
    assert [(o.request_id, o.finish_reason) for o in engine.abort("b")] == [
        ("b", FinishReason.ABORT),
        ("a", FinishReason.LENGTH),
    ]
    assert not scheduler.has_work()


def test_a_failed_step_sends_the_batch_back_to_the_queue_in_order() -> None:
    scheduler = StaticBatching(batch_size=3, max_model_len=64)
    for each in mixed_requests(5):
        scheduler.add(each)
    plan = scheduler.schedule(0.0)
    scheduler.rollback(plan)
    assert [r.request_id for r in scheduler.waiting] == ["r0", "r1", "r2", "r3", "r4"]
    assert all(r.status is RequestStatus.WAITING and r.slot is None for r in scheduler.waiting)
    assert scheduler.kv.pool.num_used == 0


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_without_rows_is_refused(batch_size: int) -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        StaticBatching(batch_size, 64)
