"""Questions of lab 03."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lablib.course.spec import Option, Question, Quiz, Watch, WrongValue

if TYPE_CHECKING:
    from lablib.trace import Trace


def _most_prompts(trace: Trace) -> int:
    """Step after the first in which most tokens are computed."""
    import numpy as np

    chunks = trace.chunks()
    tokens = np.bincount(chunks["step"], weights=chunks["tokens"], minlength=trace.num_steps)
    return int(tokens[1:].argmax()) + 1


def _first_newcomer(trace: Trace) -> str:
    events = trace.tables["events"]
    admitted = [(step, row) for step, kind, row in zip(*events.values(), strict=True) if kind == 0 and step > 0]
    return str(trace.requests["id"][min(admitted)[1]])


WATCH = (
    Watch(
        "3.newcomer",
        "In the continuous run: which request is the first to join after the start? (Its id, such as `'r0'`.)",
        expect=_first_newcomer,
        wrong=(WrongValue("r0", says="r0 is there from the first step; look for the first slot that changes hands."),),
        because="It takes the slot of the first request that is done, in the very next step.",
    ),
    Watch(
        "3.spike",
        "In the continuous run, after step 0: at which step are most tokens computed?",
        expect=_most_prompts,
        wrong=(WrongValue(0, says="Not counting step 0, in which all slots compute prompts."),),
        because="Newcomers compute their prompts whole: everybody else's next token waits for that step.",
    ),
)

QUIZ = Quiz(
    questions=(
        Question(
            "All answers are exactly equally long, and all requests are here at the start. Continuous batching gains …",
            options=(
                Option("as much as always", says="Rows that all end together leave no gap to fill."),
                Option(
                    "nothing",
                    says="Right: no stragglers, nothing to gain. What it cures is *differences*.",
                    right=True,
                ),
                Option("it is slower", says="It computes the same positions; its bookkeeping costs very little."),
            ),
        ),
        Question(
            "When can continuous batching make somebody's latency *worse* than static batching?",
            options=(
                Option(
                    "When prompts join while you decode: your next token waits for their prefill.",
                    says="Yes: that gap is what lab 07 chunks away.",
                    right=True,
                ),
                Option(
                    "Never.", says="Look at a decoding row in the step in which a newcomer's long prompt is computed."
                ),
                Option(
                    "When there are more slots than requests.",
                    says="An empty slot costs nothing here: nothing is padded.",
                ),
            ),
        ),
        Question(
            "Requests of different lengths share one forward pass. How does attention keep them apart?",
            options=(
                Option("Each is padded to the longest.", says="Nothing is padded: the batch is flat."),
                Option(
                    "A mask hides the others' tokens.",
                    says="It could; but then it would compute scores only to hide them.",
                ),
                Option(
                    "It runs per request: each query looks only at the K/V of its own block table.",
                    says="Yes, Orca's *selective batching*: all layers see one flat batch, attention sees requests.",
                    right=True,
                ),
            ),
        ),
        Question(
            "You double `max_num_seqs` under heavy load. What may get worse?",
            options=(
                Option("Throughput", says="It rises or stays, as long as the cache has room."),
                Option(
                    "ITL: every step has more to compute.",
                    says="Yes: the waiting moves from the queue into bigger steps. Throughput rises until the machine is compute-bound.",
                    right=True,
                ),
                Option("TTFT", says="It falls: requests start sooner."),
            ),
        ),
    ),
)
