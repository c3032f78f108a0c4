"""Where the work of a run went."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lablib.trace import EVENT_KINDS, Trace


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
    needed = trace.column("runs", "count")[trace.column("runs", "tokens") > 0]
    return float(needed.sum()) / places if places else 0.0


def preemptions(trace: Trace) -> int:
    """How often a running request lost its place."""
    return int((trace.column("events", "kind") == EVENT_KINDS.index("preempted")).sum())


def recomputed_tokens(trace: Trace) -> int:
    """Tokens that were computed again: their request had their K/V before, and lost them."""
    names = ("request", "step", "start", "tokens", "count")
    who, step, start, tokens, count = (trace.column("runs", name) for name in names)
    order = np.lexsort((step, who))
    who, start, end = who[order], start[order], (start + tokens * count)[order]
    past_all = int(end.max(initial=0)) + 1  # lifts every request above the one before, so that one running maximum does
    reached = np.maximum.accumulate(who * past_all + end) - who * past_all
    before = np.where(np.diff(who, prepend=-1) == 0, np.roll(reached, 1), 0)
    return int(np.clip(np.minimum(before, end) - start, 0, None).sum())
