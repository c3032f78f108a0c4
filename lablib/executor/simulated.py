"""An executor that computes nothing: it only says how long a step would take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lablib.step import StepPlan, StepResult
from lablib.validate import real


class CostModel(Protocol):
    """Predicts how long a step takes."""

    def seconds(self, plan: StepPlan) -> float:
        """Duration of the step, in seconds."""


@dataclass(frozen=True, slots=True)
class ConstantCost:
    """A fixed cost for every step, and one for every position in it, padding included.

    Args:
        seconds_per_step: what a step costs however little it computes (reading the weights, launching kernels).
        seconds_per_token: what each computed position adds.

    Raises:
        TypeError, ValueError: a time that is no number, not finite or negative.
    """

    seconds_per_step: float = 0.010
    seconds_per_token: float = 0.0005

    def __post_init__(self) -> None:
        real("seconds_per_step", self.seconds_per_step, least=0)
        real("seconds_per_token", self.seconds_per_token, least=0)

    def seconds(self, plan: StepPlan) -> float:
        positions = sum(len(chunk.token_ids) + chunk.num_padding for chunk in plan.chunks)
        return self.seconds_per_step + self.seconds_per_token * positions


class SimulatedExecutor:
    """Answers every sample with token 0 after the time that a cost model predicts.

    Give requests ``ignore_eos`` and ``max_tokens``: their length is then the workload's choice.

    Args:
        cost: predicts the duration of a step.
    """

    name = "simulated"
    num_blocks = block_size = max_model_len = vocab_size = decode = None
    eos_token_ids = ()

    def __init__(self, cost: CostModel | None = None) -> None:
        self.cost: CostModel = cost or ConstantCost()

    def execute(self, plan: StepPlan) -> StepResult:
        return StepResult(tuple((0,) if chunk.sample else () for chunk in plan.chunks), self.cost.seconds(plan))
