"""The record of a run: the single source of every picture and every number.

A trace is columnar and small. Most steps continue the step before, so chunks are stored as
*runs*: one entry says "request 3 decoded one token a step, in slot 2, for 118 steps".
``lablib.trace_format`` has the format of the files.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from array import array
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lablib.trace_format import (
    EVENT_KINDS,
    FORMAT,
    INTEGER_TABLES,
    REQUEST_COLUMNS,
    TraceError,
    check_trace,
)

__all__ = ["EVENT_KINDS", "FORMAT", "INTEGER_TABLES", "REQUEST_COLUMNS", "Trace", "TraceError"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class Trace:
    """The record of one run, filled by a ``TraceRecorder`` or loaded from a file.

    Args:
        meta: what ran: ``workload``, ``scheduler``, ``pieces`` (name → "yours" or "reference"), ``executor``,
            ``max_num_seqs``, ``max_num_batched_tokens``, ``max_model_len``, ``block_size``, ``num_blocks``,
            ``admission`` (name of the reserve rule); a key is absent or null where it does not apply.
    """

    def __init__(self, meta: dict[str, Any] | None = None) -> None:
        self.meta: dict[str, Any] = dict(meta or {})
        self.requests: dict[str, list[Any]] = {name: [] for name in REQUEST_COLUMNS}
        self.tables: dict[str, dict[str, array[int]]] = {
            table: {name: array("q") for name in columns} for table, columns in INTEGER_TABLES.items()
        }
        self.block_ids = array("q")
        self.reasons: list[str] = []

    @property
    def num_steps(self) -> int:
        return len(self.tables["steps"]["duration_us"])

    @property
    def num_requests(self) -> int:
        return len(self.requests["id"])

    def column(self, table: str, name: str) -> IntArray:
        """One integer column as an array ``[rows]``."""
        return np.array(self.tables[table][name], dtype=np.int64)

    def step_times(self) -> tuple[FloatArray, FloatArray]:
        """Start and end of every step, in seconds since the run began; two arrays ``[num_steps]``."""
        duration = self.column("steps", "duration_us")
        ends = np.cumsum(self.column("steps", "gap_us") + duration)
        return (ends - duration) / 1e6, ends / 1e6

    def chunks(self) -> dict[str, IntArray]:
        """Every chunk of every step, ordered by step and slot.

        Returns:
            Columns ``request``, ``slot``, ``step``, ``start``, ``tokens``, ``padding``, ``sampled``, an entry a chunk.
        """
        rows = self._expand("runs")
        rows["start"] += rows.pop("turn") * rows["tokens"]
        order = np.lexsort((rows["slot"], rows["step"]))
        return {name: column[order] for name, column in rows.items()}

    def deliveries(self) -> dict[str, IntArray]:
        """Every delivery of tokens to a caller: columns ``request``, ``step``, ``tokens``, ordered by step."""
        rows = self._expand("deliveries")
        order = np.argsort(rows["step"], kind="stable")
        return {name: rows[name][order] for name in ("request", "step", "tokens")}

    def milestones(self) -> dict[str, FloatArray]:
        """When each request arrived, was first scheduled, got its first and its last token.

        Returns:
            Columns ``arrival``, ``scheduled``, ``first_token`` and ``finish``, each ``[num_requests]``, in seconds
            since the run began; ``nan`` for what has not happened.
        """
        starts, ends = self.step_times()
        admitted = self.column("events", "kind") == EVENT_KINDS.index("admitted")
        who, step = self.column("events", "request")[admitted], self.column("events", "step")[admitted]
        deliveries = self.deliveries()
        given = ends[deliveries["step"]]
        finish = -self._first(deliveries["request"][::-1], -given[::-1])
        finish[np.array([reason is None for reason in self.requests["finish_reason"]], dtype=np.bool_)] = np.nan
        return {
            "arrival": np.array(self.requests["arrival_us"], dtype=np.float64) / 1e6,
            "scheduled": self._first(who, starts[step]),
            "first_token": self._first(deliveries["request"], given),
            "finish": finish,
        }

    def _first(self, who: IntArray, when: FloatArray) -> FloatArray:
        """For each request its first entry of ``when``; ``nan`` for one that has none."""
        first = np.full(self.num_requests, np.nan)
        first[who[::-1]] = when[::-1]
        return first

    def _expand(self, table: str) -> dict[str, IntArray]:
        """Turn runs into one row a step; ``turn`` is the row's place in its run."""
        runs = {name: self.column(table, name) for name in INTEGER_TABLES[table]}
        count = runs.pop("count")
        rows = {name: np.repeat(column, count) for name, column in runs.items()}
        rows["turn"] = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        rows["step"] += rows["turn"]
        return rows

    # Files

    def to_dict(self) -> dict[str, Any]:
        """The trace as plain values, exactly what a file holds."""
        tables = {
            table: {name: column.tolist() for name, column in columns.items()} for table, columns in self.tables.items()
        }
        return {
            "format": FORMAT,
            "meta": self.meta,
            "requests": self.requests,
            **tables,
            "block_ids": np.diff(self.block_ids, prepend=0).tolist(),
            "reasons": self.reasons,
        }

    def to_json(self) -> bytes:
        """Canonical JSON: equal runs give equal bytes."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    def compressed(self) -> bytes:
        """The bytes of a trace file."""
        return gzip.compress(self.to_json(), compresslevel=9, mtime=0)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON: two runs are the same run when it is the same."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write the trace to ``path`` (conventionally ``*.json.gz``)."""
        path = Path(path)
        path.write_bytes(self.compressed())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a trace.

        Raises:
            TraceError: the file is damaged, of another format, or inconsistent; the message says in what way.
        """
        try:
            return cls.from_dict(json.loads(gzip.decompress(Path(path).read_bytes())))
        except (OSError, EOFError, zlib.error, UnicodeDecodeError, json.JSONDecodeError) as error:
            if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                raise
            raise TraceError(f"{path} is damaged ({error}); run it again, or fetch another copy") from error
        except TraceError as error:
            raise TraceError(f"{path} can't be used: {error}") from error

    @classmethod
    def from_dict(cls, data: Any) -> Trace:
        """Build a trace from plain values after checking them; the inverse of ``to_dict``.

        Raises:
            TraceError: says which table and column is wrong, and how.
        """
        check_trace(data)
        trace = cls(data["meta"])
        trace.requests = {name: list(data["requests"][name]) for name in REQUEST_COLUMNS}
        for table, columns in trace.tables.items():
            for name, column in columns.items():
                column.extend(data[table][name])
        trace.block_ids.extend(accumulate(data["block_ids"]))
        trace.reasons = list(data["reasons"])
        return trace
