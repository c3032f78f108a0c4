"""The default model says the same whichever scheduler runs it."""

from __future__ import annotations

import pytest
import torch

from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.model import load_model
from lablib.scheduler import ContinuousBatching, DynamicBatching, StaticBatching
from lablib.workload import load


@pytest.mark.model
def test_the_mixed_requests_get_the_same_tokens_under_all_three_schedulers() -> None:
    model = load_model(dtype=torch.float32)
    workload = load("mixed32").encoded(model)
    length = workload.max_model_len
    answers = []
    for scheduler in (
        StaticBatching(8, length),
        DynamicBatching(6, length, max_wait=0.05),
        ContinuousBatching(8, length, max_num_batched_tokens=2 * length),
    ):
        executor = ModelExecutor(model, scheduler.kv.pool.num_blocks, length)
        answers.append(Engine(scheduler, executor).run(workload).requests["output"])
    assert sum(map(len, answers[0])) == workload.output_tokens
    assert answers[0] == answers[1] == answers[2]
