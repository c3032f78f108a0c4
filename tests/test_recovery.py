"""A step that fails because of one request costs nobody else anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from runs import CountingExecutor, DeviceLostError, mixed_requests, request

from lablib.engine import Engine
from lablib.request import FinishReason
from lablib.scheduler import ContinuousBatching, DynamicBatching, Scheduler, StaticBatching
from lablib.step import StepPlan, StepResult


class Poisoned(CountingExecutor):
    """Raises at every step that computes one of some requests."""

    def __init__(self, *poison: str, after: int = 0) -> None:
        super().__init__()
        self.poison = poison
        self.after = after

    def execute(self, plan: StepPlan) -> StepResult:
        for chunk in plan.chunks:
            if chunk.token_ids and chunk.request_id in self.poison and chunk.output_index >= self.after:
                raise DeviceLostError(f"can't compute {chunk.request_id}")
        return super().execute(plan)


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda: StaticBatching(3, 128),
        lambda: StaticBatching(3, 128, stream=True),
        lambda: DynamicBatching(3, 128, 0.01),
        lambda: ContinuousBatching(3, 128),
    ],
    ids=["static", "static, streaming", "dynamic", "continuous"],
)
def test_it_ends_with_the_reason_and_the_others_have_all_their_tokens(
    make: Callable[[], Scheduler], after: int
) -> None:
    scheduler = make()
    requests = [request(f"r{i}", 5 + i, 6) for i in range(7)]
    trace = Engine(scheduler, Poisoned("r1", "r5", after=after)).run(requests)
    for each in requests:
        if each.request_id in ("r1", "r5"):
            assert (each.finish_reason, each.num_output_tokens) == (FinishReason.ERROR, after)
        else:
            assert each.output_token_ids == [each.num_prompt_tokens + i for i in range(6)]
    assert trace.requests["message"][1] == "request r1: DeviceLostError: can't compute r1"
    assert scheduler.kv.pool.num_used == 0


def test_when_everybody_fails_it_is_the_machine_and_nobody_ends() -> None:
    engine = Engine(ContinuousBatching(4, 128), Poisoned("r0", "r1", "r2"))
    requests = mixed_requests(3)
    with pytest.raises(DeviceLostError):
        engine.run(requests)
    engine.executor = CountingExecutor()
    engine.run([])
    assert all(each.finish_reason is FinishReason.LENGTH for each in requests)


def test_an_interrupt_while_the_culprit_is_sought_loses_nobody() -> None:
    class Interrupted(Poisoned):
        def execute(self, plan: StepPlan) -> StepResult:
            if len(plan.chunks) == 1:
                raise KeyboardInterrupt
            return super().execute(plan)

    engine = Engine(ContinuousBatching(4, 128), Interrupted("r1"))
    requests = mixed_requests(3)
    with pytest.raises(KeyboardInterrupt):
        engine.run(requests)
    engine.executor = CountingExecutor()
    engine.run([])
    assert all(each.num_output_tokens == each.max_tokens for each in requests)
