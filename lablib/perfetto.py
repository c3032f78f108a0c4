"""Export of a trace for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from lablib.trace import Trace


def export_chrome_trace(trace: Trace, path: str | Path) -> Path:
    """Write the run in the Trace Event Format: a track for the steps, one for each slot, and counters.

    Source: "Trace Event Format", the JSON that Chrome's tracing and Perfetto read; times are microseconds.
    """
    starts, ends = (np.round(times * 1e6).astype(int) for times in trace.step_times())
    events = [_name(0, "steps"), *(_name(1 + slot, f"slot {slot}") for slot in range(trace.meta["max_num_seqs"]))]
    events += [_span(0, f"step {i}", start, end, {}) for i, (start, end) in enumerate(zip(starts, ends, strict=True))]
    chunks = trace.chunks()
    batch = np.zeros((2, trace.num_steps), dtype=int)
    for request, slot, step, start, tokens, padding, _ in zip(*chunks.values(), strict=True):
        name = f"{trace.requests['id'][request]} {_kind(trace, request, start, tokens)}"
        args = {"start": int(start), "tokens": int(tokens), "padding": int(padding)}
        events.append(_span(1 + int(slot), name, starts[step], ends[step], args))
        batch[:, step] += (tokens, padding)
    for step, (tokens, padding) in enumerate(batch.T):
        counters = {"tokens": int(tokens), "padding": int(padding)}
        events.append({"ph": "C", "pid": 0, "name": "positions", "ts": int(starts[step]), "args": counters})
    path = Path(path)
    path.write_text(json.dumps({"traceEvents": events, "otherData": {"workload": trace.meta.get("workload", "")}}))
    return path


def _kind(trace: Trace, request: int, start: int, tokens: int) -> str:
    if tokens == 0:
        return "straggler"
    return "prefill" if start < trace.requests["prompt"][request] else "decode"


def _name(thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 0, "tid": thread, "name": "thread_name", "args": {"name": name}}


def _span(thread: int, name: str, start: int, end: int, args: dict[str, int]) -> dict[str, Any]:
    duration = int(end) - int(start)
    return {"ph": "X", "pid": 0, "tid": thread, "name": name, "ts": int(start), "dur": duration, "args": args}
