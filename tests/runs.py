"""Small workloads and executors that several tests use."""

from __future__ import annotations

import random
from collections.abc import Sequence

from lablib.request import Request, SamplingParams
from lablib.step import StepPlan, StepResult


def request(name: str, prompt: int, output: int, arrival: float = 0.0) -> Request:
    """A request of so many prompt and output tokens; its prompt is 1, 2, 3, …"""
    sampling = SamplingParams(max_tokens=output, ignore_eos=True)
    return Request(name, list(range(1, prompt + 1)), sampling, arrival_time=arrival)


def mixed_requests(count: int, seed: int = 0, max_prompt: int = 30, max_output: int = 40) -> list[Request]:
    """Requests whose lengths differ, all here at time 0."""
    rng = random.Random(seed)
    return [request(f"r{i}", rng.randint(1, max_prompt), rng.randint(1, max_output)) for i in range(count)]


class DeviceLostError(RuntimeError):
    """What an executor raises in tests."""


class CountingExecutor:
    """Answers every sample with the position it was sampled at, so that a lost or doubled token shows."""

    name = "counting"
    num_blocks = block_size = max_model_len = vocab_size = decode = None

    def __init__(self, eos_token_ids: Sequence[int] = (), fail_at: Sequence[int] = ()) -> None:
        self.eos_token_ids = tuple(eos_token_ids)
        self.fail_at = set(fail_at)
        self.num_calls = 0
        self._num_trials = 0
        self.plans: list[StepPlan] = []

    def execute(self, plan: StepPlan) -> StepResult:
        result = StepResult(tuple((chunk.end,) if chunk.sample else () for chunk in plan.chunks), 0.01)
        if self._num_trials > 0:  # the engine tries each chunk of a step that failed; the failure was a passing one
            self._num_trials -= 1
            return result
        self.num_calls += 1
        if self.num_calls - 1 in self.fail_at:
            self._num_trials = len(plan.chunks)
            raise DeviceLostError("the device is gone")
        self.plans.append(plan)
        return result
