"""What a trace file holds, and how to tell that it holds it.

The file format (version 2) is gzipped JSON; all numbers are integers, times are microseconds::

    format     2
    meta       names and limits of the run (see ``Trace``)
    requests   id, arrival_us, prompt (tokens), max_tokens, finish_reason (null while it runs), finish_step (-1 while
               it runs), message, output (token ids), prompt_text, text (a piece of text per output token, or [])
    steps      gap_us (idle time before the step), duration_us
    runs       request, slot, step (first), count (of steps), start (first position), tokens, padding, sampled
               (the last three per step): in the run's k-th step, ``tokens`` real tokens are computed from position
               ``start + k * tokens`` on, ``padding`` more positions are thrown away, ``sampled`` tokens come out
    deliveries request, step (first), count (of steps), tokens (per step): when the caller got them
    blocks     step, request, kind (0 allocated, 1 freed), count: a change is listed under the first step in which it
               holds, in the order in which it happened. What is allocated goes to the end of the request's block table;
               what is freed are the table's last ``count`` blocks
    block_ids  the ids of what is allocated, each as the difference to the one before (the first to 0): a request's
               blocks are mostly neighbours, and a row of ones compresses well
    events     step, kind (an index into ``EVENT_KINDS``), request
    waits      step, request, reason (an index into ``reasons``): from that step on the head of the queue waits for
               this reason; those behind it wait for the head
    reasons    texts

``request`` is always an index into ``requests``.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

FORMAT = 2
EVENT_KINDS = ("admitted", "preempted", "finished", "aborted", "failed", "refused")
REQUEST_COLUMNS: dict[str, type] = {
    "id": str,
    "arrival_us": int,
    "prompt": int,
    "max_tokens": int,
    "finish_reason": object,
    "finish_step": int,
    "message": str,
    "output": list,
    "prompt_text": str,
    "text": list,
}
INTEGER_TABLES: dict[str, tuple[str, ...]] = {
    "steps": ("gap_us", "duration_us"),
    "runs": ("request", "slot", "step", "count", "start", "tokens", "padding", "sampled"),
    "deliveries": ("request", "step", "count", "tokens"),
    "blocks": ("step", "request", "kind", "count"),
    "events": ("step", "kind", "request"),
    "waits": ("step", "request", "reason"),
}


class TraceError(ValueError):
    """A trace that can't be used; the message says which file and what is wrong with it."""


def check_trace(data: Any) -> None:
    """Refuse plain values that are not a consistent trace of this format.

    Raises:
        TraceError: says which table and column is wrong, and how.
    """
    if not isinstance(data, dict) or "format" not in data:
        raise TraceError("it is not a trace (there is no `format` in it)")
    if data["format"] != FORMAT:
        raise TraceError(
            f"it has format {data['format']!r}, this version reads format {FORMAT}; record the run again, or open the "
            "trace with the version that wrote it"
        )
    if not isinstance(data.get("meta"), dict):
        raise TraceError("`meta` is missing or not a table")
    _check_columns(data, "requests", REQUEST_COLUMNS)
    for table, columns in INTEGER_TABLES.items():
        _check_columns(data, table, dict.fromkeys(columns, int))
    for name, kind in (("block_ids", int), ("reasons", str)):
        if not isinstance(data.get(name), list) or not all(type(value) is kind for value in data[name]):
            raise TraceError(f"`{name}` is missing, or holds something other than {kind.__name__}")
    num_requests, num_steps = len(data["requests"]["id"]), len(data["steps"]["gap_us"])
    if len(set(data["requests"]["id"])) != num_requests:
        raise TraceError("a request id appears twice")
    for table in ("runs", "deliveries", "blocks", "events", "waits"):
        _check_range(data, table, "request", num_requests)
        _check_range(data, table, "step", num_steps + 1)
    _check_range(data, "events", "kind", len(EVENT_KINDS))
    _check_range(data, "waits", "reason", len(data["reasons"]))
    _check_range(data, "steps", "duration_us", None)
    for table in ("runs", "deliveries"):
        ends = (step + count for step, count in zip(data[table]["step"], data[table]["count"], strict=True))
        if any(end > num_steps for end in ends) or any(count < 1 for count in data[table]["count"]):
            raise TraceError(f"`{table}` reaches past the last of {num_steps} steps, or holds an empty run")
    _check_blocks(data)


def _check_blocks(data: dict[str, Any]) -> None:
    """Refuse block changes that go back in time, free what nobody holds, or don't fit the list of ids."""
    _check_range(data, "blocks", "kind", 2)
    _check_range(data, "blocks", "count", None)
    if any(later < earlier for earlier, later in pairwise(data["blocks"]["step"])):
        raise TraceError("`blocks.step` goes back in time")
    held: Counter[int] = Counter()
    allocated = 0
    for step, request, freed, count in zip(*(data["blocks"][name] for name in INTEGER_TABLES["blocks"]), strict=True):
        if freed and count > held[request]:
            name = data["requests"]["id"][request]
            raise TraceError(f"`blocks` frees {count} blocks of {name} at step {step}, which holds {held[request]}")
        held[request] += -count if freed else count
        allocated += 0 if freed else count
    if allocated != len(data["block_ids"]):
        raise TraceError(f"`blocks` allocates {allocated} blocks, `block_ids` names {len(data['block_ids'])}")


def _check_columns(data: dict[str, Any], table: str, columns: dict[str, type]) -> None:
    """Refuse a table whose columns are missing, of the wrong type, or of different lengths."""
    found = data.get(table)
    if not isinstance(found, dict) or set(found) != set(columns):
        raise TraceError(f"`{table}` is missing, or its columns are not {', '.join(columns)}")
    for name, kind in columns.items():
        values = found[name]
        if not isinstance(values, list) or (kind is not object and not all(type(value) is kind for value in values)):
            raise TraceError(f"`{table}.{name}` holds something other than {kind.__name__}")
    if len({len(values) for values in found.values()}) > 1:
        raise TraceError(f"the columns of `{table}` differ in length")


def _check_range(data: dict[str, Any], table: str, name: str, end: int | None) -> None:
    """Refuse a column with a value below 0, or of ``end`` and above."""
    for value in data[table][name]:
        if value < 0 or (end is not None and value >= end):
            raise TraceError(f"`{table}.{name}` holds {value}, which names nothing in this trace")
