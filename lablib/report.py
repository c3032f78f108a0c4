"""What a simulated run came to: as plain values, or as a table to read."""

from __future__ import annotations

from typing import Any

from lablib.executor import RooflineCost
from lablib.metrics import SLO, kv_memory, summary
from lablib.trace import Trace

# title, number of ``summary``, factor, decimals
_TOTALS: tuple[tuple[str, str, float, int], ...] = (
    ("requests served", "requests", 1, 0),
    ("requests refused", "refused", 1, 0),
    ("steps", "steps", 1, 0),
    ("virtual time (s)", "seconds", 1, 1),
    ("output tokens", "output_tokens", 1, 0),
    ("output tokens/s", "output_tokens_per_s", 1, 1),
    ("prompt and output tokens/s", "total_tokens_per_s", 1, 1),
    ("goodput (requests/s)", "goodput", 1, 3),
    ("slot use (%)", "slot_use", 100, 1),
    ("useful positions (%)", "useful_share", 100, 1),
    ("preemptions", "preemptions", 1, 0),
    ("tokens computed again", "recomputed_tokens", 1, 0),
    ("requests that hold KV blocks", "residents", 1, 1),
    ("KV cache: token state (%)", "kv_token_state", 100, 1),
    ("  reserved for later (%)", "kv_reserved", 100, 1),
    ("  internal fragmentation (%)", "kv_internal", 100, 1),
    ("  free (%)", "kv_free", 100, 1),
)
_LATENCIES: tuple[tuple[str, str, float, int], ...] = (
    ("queue (s)", "queue", 1, 3),
    ("TTFT (s)", "ttft", 1, 3),
    ("TPOT (ms)", "tpot", 1e3, 2),
    ("ITL (ms)", "itl", 1e3, 2),
    ("E2E (s)", "e2e", 1, 3),
)
_STATISTICS = ("mean", "p50", "p90", "p99")


def numbers(trace: Trace, cost: RooflineCost, slo: SLO | None = None) -> dict[str, Any]:
    """What ran, what was assumed, and the numbers of ``lablib.metrics``; plain values for JSON.

    The KV cache's memory is split over time: shares of the pool as ``kv_…``, and ``residents``, both means.

    Args:
        trace: a simulated run.
        cost: the cost model it ran with.
        slo: limits for the goodput.
    """
    meta = trace.meta
    return {
        "workload": meta["workload"],
        "scheduler": meta["scheduler"],
        "max_num_seqs": meta["max_num_seqs"],
        "admission": meta["admission"],
        "model": cost.model.name,
        "device": cost.machine.name,
        "about": cost.describe(),
        "memory": memory(trace, cost),
        "metrics": {
            "refused": trace.requests["finish_reason"].count("error"),
            **summary(trace, slo),
            **{name if name == "residents" else f"kv_{name}": mean for name, mean in kv_memory(trace).means().items()},
        },
        "hash": trace.hash,
    }


def memory(trace: Trace, cost: RooflineCost) -> str:
    """What weights and KV cache need, and whether the machine has it."""
    num_blocks, block_size = trace.meta["num_blocks"], trace.meta["block_size"]
    cache, weights = num_blocks * block_size * cost.kv_bytes_per_token / 1e9, cost.model.num_weights * 2 / 1e9
    text = f"KV cache {num_blocks:,} × {block_size:,} tokens = {cache:,.1f} GB, weights {weights:,.1f} GB"
    room = cost.machine.memory
    if room is not None and cache + weights > room / 1e9:
        return f"{text}: more than the {room / 1e9:.0f} GB of this machine! Lower --max-model-len or --num-blocks."
    return f"{text}."


def table(values: dict[str, Any], source: str) -> str:
    """The same, aligned, for people."""
    measured = values["metrics"]
    rule = f", {values['admission']}" if values["admission"] else ""
    rows = [f"{values['workload']}, {values['scheduler']}, {values['max_num_seqs']} slots{rule}", values["about"]]
    rows += [values["memory"], f"Workload: {source}.", ""]
    for title, name, factor, decimals in _TOTALS:
        if name in measured:
            rows.append(f"{title:<28}{measured[name] * factor:>14,.{decimals}f}")
    rows += ["", f"{'':<28}" + "".join(f"{statistic:>14}" for statistic in _STATISTICS)]
    for title, name, factor, decimals in _LATENCIES:
        if f"{name}_mean" in measured:
            cells = (f"{measured[f'{name}_{statistic}'] * factor:>14,.{decimals}f}" for statistic in _STATISTICS)
            rows.append(f"{title:<28}" + "".join(cells))
    return "\n".join([*rows, "", f"trace {values['hash'][:16]}"])
