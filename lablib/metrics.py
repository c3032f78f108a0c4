"""Numbers from a trace: where the work went, how long callers waited, how much came out.

Definitions follow vLLM's serving benchmark; ``queue`` and the times are seconds.

- TTFT: first token delivered − arrival. E2E: last token delivered − arrival. Queue: first scheduled − arrival.
- TPOT: (E2E − TTFT) / (n − 1) for an answer of n > 1 tokens.
- ITL: every gap between two deliveries of one request, pooled over all requests.
- Throughput: output tokens delivered / time from the first arrival to the end of the last step. Total throughput:
  prompt and output tokens of the requests that were served / the same time.
- Goodput: requests that meet every limit of an SLO / the same time.

Pooled ITL weighs long answers more; k tokens in one delivery make ITL k times larger and leave TPOT alone; a preemption
is one huge gap in ITL and a mild rise of TPOT. Closed-loop clients hide queueing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lablib.trace import EVENT_KINDS, Trace

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]
SERVED = ("stop", "length")  # finish reasons of requests that got their answer
COMPARED: dict[str, tuple[str, float]] = {  # column of ``compare`` → number of ``summary``, and a factor for its unit
    "requests": ("requests", 1),
    "steps": ("steps", 1),
    "slot use (%)": ("slot_use", 100),
    "useful (%)": ("useful_share", 100),
    "output tokens/s": ("output_tokens_per_s", 1),
    "goodput (requests/s)": ("goodput", 1),
    "queue p50 (s)": ("queue_p50", 1),
    "TTFT p50 (s)": ("ttft_p50", 1),
    "TTFT p99 (s)": ("ttft_p99", 1),
    "TPOT p50 (ms)": ("tpot_p50", 1e3),
    "TPOT p99 (ms)": ("tpot_p99", 1e3),
    "ITL p99 (ms)": ("itl_p99", 1e3),
    "E2E p50 (s)": ("e2e_p50", 1),
    "E2E p99 (s)": ("e2e_p99", 1),
}


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


def span(trace: Trace) -> float:
    """Seconds from the first arrival to the end of the last step."""
    return float(trace.step_times()[1][-1]) - min(trace.requests["arrival_us"]) / 1e6 if trace.num_steps else 0.0


def preemptions(trace: Trace) -> int:
    """How often a running request lost its place."""
    return int((trace.column("events", "kind") == EVENT_KINDS.index("preempted")).sum())


def recomputed_tokens(trace: Trace) -> int:
    """Tokens that were computed again: their request had their K/V before, and lost them."""
    chunks = trace.chunks()
    order = np.lexsort((chunks["step"], chunks["request"]))
    who, start, tokens = (chunks[name][order] for name in ("request", "start", "tokens"))
    end = start + tokens
    past_all = int(end.max(initial=0)) + 1  # lifts every request above the one before, so that one running maximum does
    reached = np.maximum.accumulate(who * past_all + end) - who * past_all
    before = np.where(np.diff(who, prepend=-1) == 0, np.roll(reached, 1), 0)
    return int(np.clip(np.minimum(before, end) - start, 0, None).sum())


def summary(trace: Trace, slo: SLO | None = None) -> dict[str, float]:
    """The numbers one compares runs by: steps, tokens, shares, throughput, and mean, p50, p90 and p99 latencies.

    With an ``slo`` also ``goodput``, in requests a second.
    """
    requests = trace.requests
    served = [reason in SERVED for reason in requests["finish_reason"]]
    output_tokens = sum(len(output) for output in requests["output"])
    served_tokens = sum(
        p + len(o) for p, o, ok in zip(requests["prompt"], requests["output"], served, strict=True) if ok
    )
    seconds = span(trace)
    split = waste(trace)
    numbers: dict[str, float] = {
        "requests": sum(served),
        "steps": trace.num_steps,
        "output_tokens": output_tokens,
        "computed": split.computed,
        "useful_share": split.useful_share,
        "slot_use": slot_use(trace),
        "preemptions": preemptions(trace),
        "recomputed_tokens": recomputed_tokens(trace),
        "seconds": seconds,
        "output_tokens_per_s": output_tokens / seconds if seconds else 0.0,
        "total_tokens_per_s": served_tokens / seconds if seconds else 0.0,
    }
    if slo is not None:
        numbers["goodput"] = goodput(trace, slo)
    for name, values in {**request_times(trace), "itl": inter_token_latencies(trace)}.items():
        known = values[~np.isnan(values)]
        if len(known):
            numbers[f"{name}_mean"] = float(known.mean())
            for percent in (50, 90, 99):
                numbers[f"{name}_p{percent}"] = float(np.percentile(known, percent))
    return numbers


def request_table(trace: Trace) -> pd.DataFrame:
    """A row a request, by its id: arrival, sizes, outcome and latencies; times in seconds."""
    import pandas as pd

    requests = trace.requests
    preempted = trace.column("events", "request")[trace.column("events", "kind") == EVENT_KINDS.index("preempted")]
    columns = {
        "arrival_s": np.array(requests["arrival_us"], dtype=np.float64) / 1e6,
        "prompt_tokens": requests["prompt"],
        "output_tokens": [len(output) for output in requests["output"]],
        "finish_reason": requests["finish_reason"],
        "preemptions": np.bincount(preempted, minlength=trace.num_requests),
        **{f"{name}_s": values for name, values in request_times(trace).items()},
    }
    return pd.DataFrame(columns, index=pd.Index(requests["id"], name="request"))


def step_table(trace: Trace) -> pd.DataFrame:
    """A row a step: when it began, how long it took (seconds), and what it computed."""
    import pandas as pd

    starts, ends = trace.step_times()
    chunks = trace.chunks()
    done = chunks["tokens"] == 0
    per_chunk = {
        "sequences": ~done,
        "tokens": chunks["tokens"],
        "padding": chunks["padding"] * ~done,
        "straggler": chunks["padding"] * done,
        "sampled": chunks["sampled"],
    }
    sums = {
        name: np.bincount(chunks["step"], weights=values, minlength=trace.num_steps).astype(np.int64)
        for name, values in per_chunk.items()
    }
    columns = {"start_s": starts, "seconds": ends - starts, **sums}
    return pd.DataFrame(columns, index=pd.RangeIndex(trace.num_steps, name="step"))


def compare(traces: Mapping[str, Trace], slo: SLO | None = None) -> pd.DataFrame:
    """Several runs in one table: a row a run, units in the names of the columns.

    Args:
        traces: name of the run → its trace.
        slo: limits for a column of goodput.
    """
    import pandas as pd

    rows = {name: summary(trace, slo) for name, trace in traces.items()}
    table = {
        title: [row.get(number, float("nan")) * factor for row in rows.values()]
        for title, (number, factor) in COMPARED.items()
        if number != "goodput" or slo is not None
    }
    return pd.DataFrame(table, index=pd.Index(list(rows), name="run"))


def _first(who: npt.NDArray[np.int64], when: FloatArray, size: int) -> FloatArray:
    """For each of ``size`` requests its first entry of ``when``; ``nan`` for one that has none."""
    first = np.full(size, np.nan)
    first[who[::-1]] = when[::-1]
    return first
