"""All numbers of a run at once, and tables of requests, steps and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from lablib.metrics.goals import SERVED, SLO, goodput
from lablib.metrics.latencies import inter_token_latencies, request_times, span
from lablib.metrics.work import preemptions, recomputed_tokens, slot_use, waste
from lablib.trace import EVENT_KINDS, Trace

if TYPE_CHECKING:
    import pandas as pd

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
