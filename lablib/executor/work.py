"""What a step has to do, in the few numbers that its duration depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from lablib.step import StepPlan

if TYPE_CHECKING:
    from lablib.trace import Trace


class StepWork(NamedTuple):
    """The work of one step.

    Args:
        positions: tokens that go through the layers, padding included.
        sequences: rows of the batch.
        samples: rows that sample: the output head runs for them.
        context: tokens whose K and V are read, summed over the rows.
        pairs: query–key pairs of the attention, summed over the rows.
    """

    positions: int
    sequences: int
    samples: int
    context: int
    pairs: int


def work_of(plan: StepPlan) -> StepWork:
    """The work of a planned step."""
    positions = samples = context = pairs = 0
    for _, _, start, token_ids, num_padding, _, _, _, sample in plan.chunks:
        num_tokens = len(token_ids)
        end = start + num_tokens
        positions += num_tokens + num_padding
        samples += sample
        context += end
        pairs += (num_tokens + num_padding) * end - num_tokens * (num_tokens - 1) // 2
    return StepWork(positions, len(plan.chunks), samples, context, pairs)


def work_in(trace: Trace) -> npt.NDArray[np.int64]:
    """The work of every step of a run: an array ``[num_steps, 5]`` with the columns of ``StepWork``."""
    chunks = trace.chunks()
    tokens, positions = chunks["tokens"], chunks["tokens"] + chunks["padding"]
    ends = chunks["start"] + tokens
    each = (
        positions,
        np.ones_like(tokens),
        chunks["sampled"] > 0,
        ends,
        positions * ends - tokens * (tokens - 1) // 2,
    )
    sums = [np.bincount(chunks["step"], weights=values, minlength=trace.num_steps) for values in each]
    return np.stack(sums, axis=1).astype(np.int64)
