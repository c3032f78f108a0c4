"""How long callers waited."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lablib.trace import Trace

FloatArray = npt.NDArray[np.float64]


def request_times(trace: Trace) -> dict[str, FloatArray]:
    """Latencies of every request, ``nan`` where they are not defined (refused, unfinished, answers of one token).

    Returns:
        Columns ``queue``, ``ttft``, ``tpot``, ``e2e``, each ``[num_requests]``, in seconds.
    """
    when = trace.milestones()
    gaps = np.array([len(output) - 1 for output in trace.requests["output"]], dtype=np.float64)
    gaps[gaps < 1] = np.nan
    return {
        "queue": when["scheduled"] - when["arrival"],
        "ttft": when["first_token"] - when["arrival"],
        "tpot": (when["finish"] - when["first_token"]) / gaps,
        "e2e": when["finish"] - when["arrival"],
    }


def inter_token_latencies(trace: Trace) -> FloatArray:
    """Every gap between two tokens of one request, in seconds, pooled; tokens delivered together have a gap of 0."""
    _, ends = trace.step_times()
    deliveries = trace.deliveries()
    who = np.repeat(deliveries["request"], deliveries["tokens"])
    when = np.repeat(ends[deliveries["step"]], deliveries["tokens"])
    order = np.argsort(who, kind="stable")
    same_request = np.diff(who[order]) == 0
    return np.asarray(np.diff(when[order])[same_request], dtype=np.float64)


def span(trace: Trace) -> float:
    """Seconds from the first arrival to the end of the last step."""
    return float(trace.step_times()[1][-1]) - min(trace.requests["arrival_us"]) / 1e6 if trace.num_steps else 0.0
