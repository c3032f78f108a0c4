"""Whose fault is it? What to do when a step could not be computed."""

from __future__ import annotations

from lablib.executor import Executor
from lablib.step import StepPlan


def culprits(plan: StepPlan, executor: Executor) -> dict[str, str]:
    """The requests because of which a step failed, each with what went wrong.

    Every chunk is tried once more, alone: one that fails again is at fault. If all of several fail it is the machine,
    and nobody is named; nobody either if all succeed, for then the failure was a passing one. Trying is harmless: a
    chunk writes the same K and V to the same places.
    """
    errors: dict[str, str] = {}
    for chunk in plan.chunks:
        try:
            executor.execute(StepPlan(chunks=(chunk,)))
        except Exception as error:  # whatever a request can make an executor raise
            errors[chunk.request_id] = f"{type(error).__name__}: {error}"
    return errors if len(errors) < max(2, len(plan.chunks)) else {}
