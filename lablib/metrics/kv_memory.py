"""Where the KV cache's memory went: Kwon et al., PagedAttention (SOSP 2023), figure 2, from a finished trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lablib.trace import Trace

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
KINDS = ("token_state", "reserved", "internal", "free")


@dataclass(frozen=True, slots=True)
class KVMemory:
    """The KV cache in each step, counted in token slots (room for the K and V of one token).

    The four kinds add up to the pool in every step. The paper's fifth, external fragmentation, is zero by
    construction: all blocks are equally large, so no free block is too small for anybody.

    Args:
        token_state: written, this step's tokens included, ``[num_steps]``.
        reserved: allocated, and written later by the request that holds them, ``[num_steps]``.
        internal: allocated, and never written (internal fragmentation), ``[num_steps]``.
        free: in nobody's block table, ``[num_steps]``.
        residents: requests that hold blocks, ``[num_steps]``.
        seconds: duration of each step, ``[num_steps]``.
        capacity: token slots of the pool.
    """

    token_state: IntArray
    reserved: IntArray
    internal: IntArray
    free: IntArray
    residents: IntArray
    seconds: FloatArray
    capacity: int

    def means(self) -> dict[str, float]:
        """Means over the time in which steps were computed: each kind as a share of the pool, and ``residents``.

        All are 0 when no time has passed.
        """
        weights = self.seconds / (self.seconds.sum() or 1.0)
        shares = {kind: float(weights @ getattr(self, kind)) / self.capacity for kind in KINDS}
        return {**shares, "residents": float(weights @ self.residents)}


@dataclass(frozen=True, slots=True)
class _Stays:
    """Who held blocks from when to when: a stay begins with a request's first block and ends when it holds none.

    Args:
        request: whose stay it is, ``[num_stays]``.
        start: first step in which it holds blocks, ``[num_stays]``.
        end: first step in which it holds none any more; the number of steps if it still holds some, ``[num_stays]``.
        still: whether it holds blocks when the trace ends, ``[num_stays]``.
        row_stay: the stay that each block change belongs to, ``[changes]``.
        row_step: first step in which each change holds, ``[changes]``.
        held: blocks of the stay before and after each change, ``[2, changes]``.
    """

    request: IntArray
    start: IntArray
    end: IntArray
    still: BoolArray
    row_stay: IntArray
    row_step: IntArray
    held: IntArray


def kv_memory(trace: Trace) -> KVMemory:
    """Split the KV cache of every step into what was written, what will be, what never is, and what is free.

    What a request will still write is known from its own future in the trace, up to the moment it gives its blocks
    back: a preempted request writes the rest into other blocks, in its next stay. Where the trace ends first, the
    request counts as if it went on to its ``max_tokens``. Cost: proportional to block changes, runs and steps.
    """
    block_size, num_steps = trace.meta["block_size"], trace.num_steps
    stays = _stays(trace)
    run_stay, step, count, tokens = _runs(trace, stays)
    written = np.bincount(run_stay, weights=tokens * count, minlength=len(stays.request)).astype(np.int64)
    done = np.bincount(run_stay, weights=tokens == 0, minlength=len(stays.request)) > 0
    filled = np.minimum(stays.held * block_size, _ever_written(trace, stays, written, done)[stays.row_stay])
    growth = _course(num_steps, (step, tokens), (step + count, -tokens))
    token_state = np.cumsum(growth) + _course(num_steps, (stays.end, -written))
    allocated = _course(num_steps, (stays.row_step, block_size * (stays.held[1] - stays.held[0])))
    used_some_time = _course(num_steps, (stays.row_step, filled[1] - filled[0]))
    ones = np.ones(len(stays.start), dtype=np.int64)
    starts, ends = trace.step_times()
    capacity = block_size * trace.meta["num_blocks"]
    return KVMemory(
        token_state=token_state,
        reserved=used_some_time - token_state,
        internal=allocated - used_some_time,
        free=capacity - allocated,
        residents=_course(num_steps, (stays.start, ones), (stays.end, -ones)),
        seconds=ends - starts,
        capacity=capacity,
    )


def expected_residents(token_slots: float, prompt_mean: float, output_mean: float, output_cv: float) -> float:
    """Requests that hold K/V at once, on average, when each holds only what it has written and the queue never empties.

    N = S / (E[p] + E[o²] / (2 E[o])) for prompts of p and outputs of o tokens, independent of each other. Who is met at
    some moment is not a typical request: it is the more likely to be met the longer it stays, o steps, and it is, on
    average, halfway through its output (length bias, as in renewal theory: Cox, 1962). E[o²] is E[o]² (1 + CV²): equal
    outputs give E[p] + o/2, a CV of 1 doubles the second term.

    Args:
        token_slots: S, token slots that are in use on average; the pool's size only if it is always full.
        prompt_mean: mean prompt, in tokens.
        output_mean: mean output, in tokens.
        output_cv: coefficient of variation of the outputs, standard deviation ÷ mean.
    """
    return token_slots / (prompt_mean + output_mean * (1 + output_cv**2) / 2)


def _stays(trace: Trace) -> _Stays:
    """Follow the block table of each request through all its changes, one request after the other."""
    columns = [trace.column("blocks", name) for name in ("request", "step", "kind", "count")]
    order = np.argsort(columns[0], kind="stable")
    request, step, kind, count = (column[order] for column in columns)
    change = np.where(kind == 0, count, -count)
    after = np.cumsum(change)
    new_request = np.diff(request, prepend=-1) != 0
    first = np.flatnonzero(new_request)
    after -= np.repeat((after - change)[first], np.diff(first, append=len(request)))
    held = np.stack([after - change, after])
    begins = new_request | (held[0] == 0)
    last = np.flatnonzero(np.append(begins[1:], True)) if len(begins) else first
    return _Stays(
        request=request[begins],
        start=step[begins],
        end=np.where(after[last] == 0, step[last], trace.num_steps),
        still=after[last] != 0,
        row_stay=np.cumsum(begins) - 1,
        row_step=step,
        held=held,
    )


def _runs(trace: Trace, stays: _Stays) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The runs whose request held blocks: their stay, first step, number of steps, and tokens a step."""
    request, step, count, tokens = (trace.column("runs", name) for name in ("request", "step", "count", "tokens"))
    turns = trace.num_steps + 2  # more than any step: orders stays by request, and those of one request by time
    stay = np.searchsorted(stays.request * turns + stays.start, request * turns + step, side="right") - 1
    known = np.flatnonzero(stay >= 0)
    known = known[(stays.request[stay[known]] == request[known]) & (step[known] < stays.end[stay[known]])]
    return stay[known], step[known], count[known], tokens[known]


def _ever_written(trace: Trace, stays: _Stays, written: IntArray, done: BoolArray) -> IntArray:
    """Tokens that each stay writes by its end; of one that the trace leaves in the middle, what was asked for."""
    prompt, output = (np.array(trace.requests[name], dtype=np.int64) for name in ("prompt", "max_tokens"))
    unfinished = np.array([reason is None for reason in trace.requests["finish_reason"]], dtype=np.bool_)
    goes_on = stays.still & unfinished[stays.request] & ~done
    asked = (prompt + output)[stays.request] - 1  # the last token of an answer is never computed
    return np.where(goes_on, np.maximum(written, asked), written)


def _course(num_steps: int, *changes: tuple[IntArray, IntArray]) -> IntArray:
    """The value in every step of what changes by ``changes`` = (steps, amounts), ``[num_steps]``."""
    course = np.zeros(num_steps + 1, dtype=np.int64)
    for steps, amounts in changes:
        np.add.at(course, steps, amounts)
    return np.cumsum(course)[:num_steps]
