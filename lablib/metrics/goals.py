"""How much of what came out was good enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lablib.metrics.latencies import request_times, span
from lablib.trace import Trace

SERVED = ("stop", "length")  # finish reasons of requests that got their answer


@dataclass(frozen=True, slots=True)
class SLO:
    """Limits that a request must meet to count (service-level objectives), in seconds; ``None``: no limit.

    Args:
        ttft: most time to the first token.
        tpot: most time per output token after the first; an answer of one token has none, and meets it.
        e2e: most time to the last token.
    """

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None


def meets(trace: Trace, slo: SLO) -> npt.NDArray[np.bool_]:
    """Whether each request was served to its end within every limit, ``[num_requests]``."""
    times = request_times(trace)
    good = np.array([reason in SERVED for reason in trace.requests["finish_reason"]], dtype=np.bool_)
    for name, limit in (("ttft", slo.ttft), ("tpot", slo.tpot), ("e2e", slo.e2e)):
        if limit is not None:
            good &= ~(times[name] > limit)
    return good


def goodput(trace: Trace, slo: SLO) -> float:
    """Requests a second that meet every limit."""
    seconds = span(trace)
    return float(meets(trace, slo).sum()) / seconds if seconds else 0.0
