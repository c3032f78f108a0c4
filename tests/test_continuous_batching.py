"""Iteration-level scheduling: rows leave and join between any two steps."""

from __future__ import annotations

import pytest
from runs import CountingExecutor, mixed_requests, request

from lablib import metrics
from lablib.engine import Engine
from lablib.executor import SimulatedExecutor
from lablib.kvcache import KVCacheManager
from lablib.request import Request
from lablib.scheduler import ContinuousBatching, IterationScheduler


def rows(scheduler: IterationScheduler, requests: list[Request]) -> list[list[tuple[str, int, int]]]:
    """For each step the chunks as (id, slot, tokens)."""
    executor = CountingExecutor()
    Engine(scheduler, executor).run(requests)
    return [[(c.request_id, c.slot, len(c.token_ids)) for c in plan.chunks] for plan in executor.plans]


def test_a_finished_row_is_replaced_in_the_next_step() -> None:
    requests = [request("a", 3, 1), request("b", 2, 3), request("c", 4, 2)]
    assert rows(ContinuousBatching(2, 64), requests) == [
        [("a", 0, 3), ("b", 1, 2)],
        [("b", 1, 1), ("c", 0, 4)],
        [("b", 1, 1), ("c", 0, 1)],
    ]


def test_no_position_is_padding_and_no_row_straggles() -> None:
    trace = Engine(ContinuousBatching(4, 128), SimulatedExecutor()).run(mixed_requests(20))
    split = metrics.waste(trace)
    assert (split.padding, split.straggler) == (0, 0)


def test_every_token_is_delivered_in_the_step_that_computes_it() -> None:
    trace = Engine(ContinuousBatching(4, 128), SimulatedExecutor()).run(mixed_requests(9))
    chunks, deliveries = trace.chunks(), trace.deliveries()
    assert deliveries["step"].tolist() == chunks["step"].tolist()
    assert sorted(zip(deliveries["step"], deliveries["request"], strict=True)) == sorted(
        zip(chunks["step"], chunks["request"], strict=True)
    )


def test_a_prompt_that_does_not_fit_the_steps_budget_waits_whole() -> None:
    requests = [request("a", 6, 3), request("b", 6, 1)]
    assert rows(ContinuousBatching(2, 64, max_num_batched_tokens=8), requests) == [
        [("a", 0, 6)],
        [("a", 0, 1), ("b", 1, 6)],
        [("a", 0, 1)],
    ]


def test_nobody_overtakes_the_head_of_the_queue() -> None:
    requests = [request("a", 6, 2), request("big", 8, 1), request("small", 1, 1)]
    steps = rows(ContinuousBatching(3, 64, max_num_batched_tokens=9), requests)
    assert [name for name, _, _ in steps[0]] == ["a"]
    assert [name for name, _, _ in steps[1]] == ["a", "big"]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_num_seqs": 1}, "slots"),
        ({"max_num_seqs": 2, "num_blocks": 1}, "blocks: needs 1, free 0"),
        ({"max_num_seqs": 2, "max_num_batched_tokens": 7}, "token budget"),
    ],
)
def test_a_waiting_request_knows_which_limit_it_waits_for(limits: dict[str, int], reason: str) -> None:
    trace = Engine(ContinuousBatching(max_model_len=64, **limits), SimulatedExecutor()).run(
        [request("a", 5, 2), request("b", 5, 2)]
    )
    assert trace.reasons == [reason]
    assert trace.tables["waits"]["request"].tolist() == [1]


def test_a_budget_below_max_num_seqs_is_refused() -> None:
    with pytest.raises(ValueError, match="max_num_batched_tokens=4 is less than max_num_seqs=8"):
        ContinuousBatching(8, 64, max_num_batched_tokens=4)


def test_a_prompt_over_the_budget_is_refused_by_name() -> None:
    scheduler = IterationScheduler(KVCacheManager(2, 64), 2, 64, max_num_batched_tokens=16)
    with pytest.raises(ValueError, match="request big: 20 prompt tokens are computed in one step"):
        scheduler.add(request("big", 20, 1))


def test_a_failed_step_loses_nobody() -> None:
    scheduler = ContinuousBatching(3, 128)
    engine = Engine(scheduler, CountingExecutor(fail_at=[4]))
    requests = mixed_requests(7)
    with pytest.raises(RuntimeError, match="the device is gone"):
        engine.run(requests)
    engine.run([])
    assert all(r.output_token_ids == [r.num_prompt_tokens + i for i in range(r.max_tokens)] for r in requests)
    assert scheduler.kv.pool.num_used == 0


def test_a_request_larger_than_the_pool_is_refused_by_name_though_the_model_could_take_it() -> None:
    scheduler = ContinuousBatching(2, 64, block_size=4, num_blocks=3)
    with pytest.raises(
        ValueError, match=r"request big: 10 prompt \+ 10 output tokens can never fit in a KV cache of 12"
    ):
        scheduler.add(request("big", 10, 10))
