"""A cost model learnt from a real run: so much for a step, and so much for each thing it does."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lablib.executor.work import work_in, work_of
from lablib.step import StepPlan

if TYPE_CHECKING:
    from lablib.trace import Trace

FloatArray = npt.NDArray[np.float64]
_WARM_UP = 1  # the first step of a run also pays for what is done once: pages, caches, packed weights


@dataclass(frozen=True, slots=True)
class LinearCost:
    """A duration that is a sum: of a constant and of a price for each unit of a step's work.

    Args:
        per_step: seconds of every step.
        per: seconds for each position, sequence, sample, context token and query–key pair; see ``StepWork``.
    """

    per_step: float
    per: tuple[float, float, float, float, float]

    def seconds(self, plan: StepPlan) -> float:
        return self.per_step + sum(price * amount for price, amount in zip(self.per, work_of(plan), strict=True))

    def predict(self, trace: Trace) -> FloatArray:
        """Predicted seconds of every step of a run, ``[num_steps]``."""
        predicted: FloatArray = self.per_step + work_in(trace) @ np.array(self.per)
        return predicted

    def error(self, trace: Trace) -> float:
        """Mean absolute error of a run's steps, each as a share of the step's real time; 0.1 is 10%.

        The first step is left out: it also pays for what is done only once.
        """
        real = _seconds(trace)[_WARM_UP:]
        return float(np.mean(np.abs(self.predict(trace)[_WARM_UP:] - real) / real))

    def describe(self) -> str:
        """The prices, in a sentence that says that it is no measurement."""
        names = ("position", "row", "sample", "context token", "query–key pair")
        prices = [f"{1e6 * price:.3g} µs a {name}" for name, price in zip(names, self.per, strict=True) if price]
        return f"Fitted model, not measurement: {1e3 * self.per_step:.3g} ms a step, {', '.join(prices)}."


def fit(trace: Trace) -> tuple[LinearCost, float]:
    """Learn a cost model from the steps of a real run.

    Least squares of relative errors, with no price below 0. A step that something else on the machine slowed down to a
    multiple of its time has little weight in it; the first step is left out.

    Args:
        trace: a run with ``ModelExecutor``; the more its steps differ, the better.

    Returns:
        The cost model, and its mean absolute error on this run (see ``LinearCost.error``).

    Raises:
        ValueError: fewer than 20 steps.
    """
    real = _seconds(trace)[_WARM_UP:]
    if len(real) < 20:
        raise ValueError(f"a fit needs at least 20 steps after the first, the trace has {len(real)}: run more requests")
    work = np.column_stack((np.ones(len(real)), work_in(trace)[_WARM_UP:].astype(np.float64)))
    prices = _non_negative(work / real[:, None])
    cost = LinearCost(float(prices[0]), tuple(map(float, prices[1:])))  # type: ignore[arg-type]
    return cost, cost.error(trace)


def _seconds(trace: Trace) -> FloatArray:
    return trace.column("steps", "duration_us") / 1e6


def _non_negative(work: FloatArray) -> FloatArray:
    """Prices of at least 0 that bring ``work @ prices`` closest to 1.

    The best set of prices is the ordinary least-squares solution for the columns whose price is not 0, so trying every
    set of columns (there are 63) finds it.
    """
    columns = work.shape[1]
    best, best_error = np.zeros(columns), np.inf
    for size in range(1, columns + 1):
        for chosen in combinations(range(columns), size):
            prices = np.zeros(columns)
            prices[list(chosen)] = np.linalg.lstsq(work[:, chosen], np.ones(len(work)), rcond=None)[0]
            error = float(np.sum((work @ prices - 1) ** 2))
            if prices.min() >= 0 and error < best_error:
                best, best_error = prices, error
    return best
