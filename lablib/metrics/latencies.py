"""How long callers waited."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lablib.trace import EVENT_KINDS, Trace

FloatArray = npt.NDArray[np.float64]


def request_times(trace: Trace) -> dict[str, FloatArray]:
    """Latencies of every request, ``nan`` where they are not defined (refused, unfinished, answers of one token).

    Returns:
        Columns ``queue``, ``ttft``, ``tpot``, ``e2e``, each ``[num_requests]``, in seconds.
    """
    starts, ends = trace.step_times()
    arrival = np.array(trace.requests["arrival_us"], dtype=np.float64) / 1e6
    admitted = trace.column("events", "kind") == EVENT_KINDS.index("admitted")
    who, step = trace.column("events", "request")[admitted], trace.column("events", "step")[admitted]
    scheduled = _first(who, starts[step], trace.num_requests)
    deliveries = trace.deliveries()
    first = _first(deliveries["request"], ends[deliveries["step"]], trace.num_requests)
    last = -_first(deliveries["request"][::-1], -ends[deliveries["step"]][::-1], trace.num_requests)
    last[np.array([reason is None for reason in trace.requests["finish_reason"]], dtype=np.bool_)] = np.nan
    gaps = np.array([len(output) - 1 for output in trace.requests["output"]], dtype=np.float64)
    gaps[gaps < 1] = np.nan
    return {
        "queue": scheduled - arrival,
        "ttft": first - arrival,
        "tpot": (last - first) / gaps,
        "e2e": last - arrival,
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


def _first(who: npt.NDArray[np.int64], when: FloatArray, size: int) -> FloatArray:
    """For each of ``size`` requests its first entry of ``when``; ``nan`` for one that has none."""
    first = np.full(size, np.nan)
    first[who[::-1]] = when[::-1]
    return first
