"""Numbers from a trace: where the work went, how long callers waited, how much came out.

Definitions follow vLLM's serving benchmark; ``queue`` and the times are seconds.

- TTFT: first token delivered − arrival. E2E: last token delivered − arrival. Queue: first scheduled − arrival.
- TPOT: (E2E − TTFT) / (n − 1) for an answer of n > 1 tokens.
- ITL: every gap between two deliveries of one request, pooled over all requests.
- Throughput: output tokens delivered / time from the first arrival to the end of the last step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lablib.trace import EVENT_KINDS, Trace

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Waste:
    """Where the positions of a run went.

    Args:
        useful: positions computed for a token of a prompt or an answer.
        padding: positions computed to make rows equally long.
        straggler: positions computed for rows that were done, while others of their batch were not.
        idle: slots that held nobody, summed over all steps; nothing is computed there, but the step is not fuller.
    """

    useful: int
    padding: int
    straggler: int
    idle: int

    @property
    def computed(self) -> int:
        """All positions that the executor computed."""
        return self.useful + self.padding + self.straggler

    @property
    def useful_share(self) -> float:
        """Useful positions ÷ computed positions; 1 when nothing was computed."""
        return self.useful / self.computed if self.computed else 1.0


def waste(trace: Trace) -> Waste:
    """Split everything a run computed into what was useful and what was not."""
    chunks = trace.chunks()
    done = chunks["tokens"] == 0
    return Waste(
        useful=int(chunks["tokens"].sum()),
        padding=int(chunks["padding"][~done].sum()),
        straggler=int(chunks["padding"][done].sum()),
        idle=trace.meta["max_num_seqs"] * trace.num_steps - len(done),
    )


def slot_use(trace: Trace) -> float:
    """Share of all slots × steps in which a slot computed at least one token that was needed."""
    places = trace.meta["max_num_seqs"] * trace.num_steps
    return float((trace.chunks()["tokens"] > 0).sum()) / places if places else 0.0


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


def summary(trace: Trace) -> dict[str, float]:
    """The numbers one compares runs by: steps, tokens, shares, throughput, and mean, p50, p90 and p99 latencies."""
    _, ends = trace.step_times()
    output_tokens = sum(len(output) for output in trace.requests["output"])
    span = float(ends[-1]) - min(trace.requests["arrival_us"]) / 1e6 if trace.num_steps else 0.0
    split = waste(trace)
    numbers: dict[str, float] = {
        "requests": sum(reason in ("stop", "length") for reason in trace.requests["finish_reason"]),
        "steps": trace.num_steps,
        "output_tokens": output_tokens,
        "computed": split.computed,
        "useful_share": split.useful_share,
        "slot_use": slot_use(trace),
        "seconds": span,
        "output_tokens_per_s": output_tokens / span if span else 0.0,
    }
    for name, values in {**request_times(trace), "itl": inter_token_latencies(trace)}.items():
        known = values[~np.isnan(values)]
        if len(known):
            numbers[f"{name}_mean"] = float(known.mean())
            for percent in (50, 90, 99):
                numbers[f"{name}_p{percent}"] = float(np.percentile(known, percent))
    return numbers


def _first(who: npt.NDArray[np.int64], when: FloatArray, size: int) -> FloatArray:
    """For each of ``size`` requests its first entry of ``when``; ``nan`` for one that has none."""
    first = np.full(size, np.nan)
    first[who[::-1]] = when[::-1]
    return first
