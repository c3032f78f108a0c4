"""The contract between a scheduler and an executor: plain values, one step at a time.

A scheduler answers one question, *who computes how many tokens in the next step?*, with a
``StepPlan``. An executor computes it and answers with a ``StepResult``. Nothing else passes
between them, so a plan can be printed, stored, or sent to another process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lablib.request import SamplingParams


class Chunk(NamedTuple):
    """Some consecutive tokens of one request, computed in one step.

    Args:
        request_id: whose tokens these are.
        slot: the row of the batch that the request occupies while it runs.
        start: position of the first token in its sequence.
        token_ids: the tokens at positions ``start``, ``start + 1``, …; empty for a finished row of a static batch.
        num_padding: positions that are computed and thrown away, to make the batch a rectangle.
        block_ids: the request's block table; position ``p`` lives in block ``block_ids[p // block_size]``.
        sampling: how to choose the next token, seed included.
        output_index: index of the output token that a sample would be; with the seed it fixes the random number.
        sample: whether a token is sampled after this chunk (not after a chunk that leaves prompt tokens to compute).
    """

    request_id: str
    slot: int
    start: int
    token_ids: tuple[int, ...]
    num_padding: int
    block_ids: tuple[int, ...]
    sampling: SamplingParams
    output_index: int
    sample: bool

    @property
    def end(self) -> int:
        """Position after the last token: the number of keys that the chunk's last query attends to."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What the next step computes.

    Args:
        chunks: one entry for each request that computes in this step.
        copies: block copies ``(source, destination)`` to make before computing.
        admitted: ids of requests that start to run with this step.
        preempted: ids of running requests that lost their place.
        waits: waiting requests whose reason to wait has changed, with the new reason.
    """

    chunks: tuple[Chunk, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()
    admitted: tuple[str, ...] = ()
    preempted: tuple[str, ...] = ()
    waits: dict[str, str] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        """Real tokens computed in this step, padding left out."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step produced.

    Args:
        tokens: for each chunk, in the plan's order, the sampled tokens: none, one, or several.
        seconds: how long the step took, measured or modelled.
    """

    tokens: tuple[tuple[int, ...], ...]
    seconds: float
