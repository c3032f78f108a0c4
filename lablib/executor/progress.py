"""An executor that shows how far a run is while another one computes."""

from __future__ import annotations

from typing import Any

from tqdm.auto import tqdm

from lablib.executor.base import Executor
from lablib.step import StepPlan, StepResult


class ShowProgress:
    """Computes with another executor and moves a bar on with every sampled token; all else it leaves to that one.

    The bar says how long the run will still take, and goes when the last token has come. ``TQDM_DISABLE=1`` keeps it
    away, as in CI and in stored notebooks.

    Args:
        executor: computes.
        num_tokens: output tokens of the whole run.
        title: what runs, in front of the bar.
    """

    def __init__(self, executor: Executor, num_tokens: int, title: str = "") -> None:
        self._executor = executor
        self._num_left = num_tokens
        self._bar = tqdm(total=num_tokens, desc=title, unit=" tokens", leave=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute the plan, then show it."""
        result = self._executor.execute(plan)
        num_tokens = sum(map(len, result.tokens))
        self._bar.update(num_tokens)
        self._num_left -= num_tokens
        if self._num_left <= 0:
            self._bar.close()
        return result
