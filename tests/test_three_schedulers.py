"""The default model says the same whichever scheduler runs it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from default_model import default_model

from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.scheduler import ContinuousBatching, DynamicBatching, StaticBatching
from lablib.workload import load


@pytest.mark.model
def test_the_mixed_requests_get_the_same_tokens_under_all_three_schedulers() -> None:
    model = default_model()
    everything = load("mixed32").encoded(model)
    # Nine short prompts and a fifth of each answer fill two batches and a rest, with all that lengths do in them.
    short = [item for item in everything.items if item.prompt_tokens <= 60][:9]
    workload = replace(
        everything, items=tuple(replace(item, output_tokens=-(-item.output_tokens // 5)) for item in short)
    )
    length = workload.max_model_len
    answers = []
    for scheduler in (
        StaticBatching(4, length),
        DynamicBatching(3, length, max_wait=0.05),
        ContinuousBatching(4, length, max_num_batched_tokens=2 * length),
    ):
        executor = ModelExecutor(model, scheduler.kv.pool.num_blocks, length)
        answers.append(Engine(scheduler, executor).run(workload).requests["output"])
    assert sum(map(len, answers[0])) == workload.output_tokens
    assert answers[0] == answers[1] == answers[2]
