"""Questions of lab 02."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lablib.course.spec import Option, Question, Quiz, Watch, WrongValue

if TYPE_CHECKING:
    from lablib.trace import Trace


def _longest_wait(trace: Trace) -> str:
    import numpy as np

    when = trace.milestones()
    return str(trace.requests["id"][int(np.nanargmax(when["scheduled"] - when["arrival"]))])


def _batch_sizes(trace: Trace) -> Counter[int]:
    """Step at which each batch started → its rows."""
    events = trace.tables["events"]
    return Counter(step for step, kind in zip(events["step"], events["kind"], strict=True) if kind == 0)


def _short_batches(trace: Trace) -> int:
    return sum(size < trace.meta["max_num_seqs"] for size in _batch_sizes(trace).values())


WATCH = (
    Watch(
        "2.short",
        "How many batches started with fewer rows than they have slots?",
        expect=_short_batches,
        wrong=(
            WrongValue(
                lambda value, trace: value == len(_batch_sizes(trace)),
                says="That is the number of all batches; count those with an empty (idle) slot from their first step.",
            ),
        ),
        because="They did not wait to be filled: the age of their oldest request started them.",
    ),
    Watch(
        "2.longest",
        "Which request waited longest in the queue? (Its id, such as `'r0'`.)",
        expect=_longest_wait,
        because="It came just after a batch had started, and waited for that batch's longest row: far more than `max_wait`.",
    ),
)

QUIZ = Quiz(
    questions=(
        Question(
            "`max_wait` is 100 ms. Can a request wait for a second?",
            options=(
                Option(
                    "No, that is what `max_wait` is for.", says="The timer starts a batch only when none is running."
                ),
                Option(
                    "Yes, if a batch is running: the timer can't stop it.",
                    says="Yes. `max_wait` bounds the waiting for company, not the waiting for the machine.",
                    right=True,
                ),
            ),
        ),
        Question(
            "Traffic is heavy: whenever a batch ends, more than a full batch waits. What does a longer `max_wait` change?",
            options=(
                Option(
                    "Nothing.",
                    says="Right: the timer never gets to decide. It matters when traffic is light.",
                    right=True,
                ),
                Option("Batches get fuller.", says="They are full already: the size starts them, not the timer."),
                Option("Latency rises.", says="It would, if anybody had to wait for the timer; here nobody does."),
            ),
        ),
        Question(
            "An urgent request arrives while a batch runs. A request-level batcher serves it …",
            options=(
                Option(
                    "at once, in a free slot",
                    says="A slot whose row is done is not free: it is padding until the batch ends.",
                ),
                Option("after `max_wait`", says="The timer starts no second batch beside the running one."),
                Option(
                    "after the running batch, however urgent it is",
                    says="Yes: the batch is one block of iron. Priorities only order the queue behind it.",
                    right=True,
                ),
            ),
        ),
        Question(
            "A load test has 8 clients; each sends its next request when it has its answer. Latency looks fine at any speed. Why?",
            options=(
                Option("Batches of 8 are the best size.", says="Fixed concurrency says nothing about that."),
                Option(
                    "8 clients can never have more than 8 requests waiting: the test slows down with the server.",
                    says="Yes: closed-loop clients hide queueing. Real users do not wait for each other.",
                    right=True,
                ),
            ),
        ),
        Question(
            "TTFT is queue + scheduling + prefill. Your p99 TTFT is 4 s, a prefill takes 50 ms. What do you look at first?",
            options=(
                Option(
                    "What the queue waits for.",
                    says="Yes: nearly all of it is queue time; find out whether it waits for company or for the machine.",
                    right=True,
                ),
                Option("The prefill kernels.", says="They are 50 ms of 4,000."),
                Option("`max_tokens`", says="It matters only in so far as it makes the running batch longer."),
            ),
        ),
    ),
)
