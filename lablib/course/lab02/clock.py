"""Exercise 2.3: find the bug, a timer that watches the wrong clock."""

from __future__ import annotations

from collections.abc import Sequence

from lablib.course.spec import Case, Exercise, WrongAnswer

STUB = '''
def launch_time(last_batch_end, arrivals, max_wait):
    """When the waiting requests are due, in seconds.

    last_batch_end: when the last batch ended; arrivals: when each waiting request came, oldest first
    """
    return last_batch_end + max_wait
'''


def due_time(last_batch_end: float, arrivals: Sequence[float], max_wait: float) -> float:
    """When the waiting requests must start at the latest, in seconds: the oldest one's age decides.

    Args:
        last_batch_end: when the last batch ended; it does not matter, that is the point.
        arrivals: when each waiting request came, oldest first.
        max_wait: seconds that a request may wait for others.
    """
    return arrivals[0] + max_wait


def _buggy(last_batch_end: float, arrivals: Sequence[float], max_wait: float) -> float:
    return last_batch_end + max_wait


def _later_of_both(last_batch_end: float, arrivals: Sequence[float], max_wait: float) -> float:
    return max(last_batch_end, arrivals[0]) + max_wait


def _earlier_of_both(last_batch_end: float, arrivals: Sequence[float], max_wait: float) -> float:
    return min(last_batch_end, arrivals[0]) + max_wait


def _youngest(last_batch_end: float, arrivals: Sequence[float], max_wait: float) -> float:
    return arrivals[-1] + max_wait


def _not_before_the_end(last_batch_end: float, arrivals: Sequence[float], max_wait: float) -> float:
    return max(last_batch_end, arrivals[0] + max_wait)


CLOCK = Exercise(
    key="2.3",
    title="Find the bug: the wrong clock",
    reference="lablib.course.lab02.clock:due_time",
    cases=(
        Case("a request that came as the batch ended", args=(10.0, [10.0], 2.0)),
        Case(
            "a request after a quiet minute",
            args=(10.0, [70.0], 2.0),
            hint="It would start at once and alone, though others may come within its two seconds.",
        ),
        Case(
            "a request that came while the batch ran",
            args=(10.0, [3.0, 9.5], 2.0),
            hint="It has waited for 7 s already. How much longer may it wait?",
        ),
        Case("the oldest of several", args=(0.0, [4.0, 4.5, 5.0], 0.5)),
    ),
    hints=(
        "Play the burst of the picture through with the given line: when does the lone request start?",
        "A limit on *waiting* must be counted from the moment somebody began to wait.",
        "`return arrivals[0] + max_wait`.",
    ),
    wrong=(
        WrongAnswer(
            "the youngest request's clock",
            _youngest,
            says="You measured the age of the youngest request; the oldest has waited longest.",
        ),
        WrongAnswer(
            "not before the last batch's end",
            _not_before_the_end,
            says="The time may lie in the past: that only means that the requests are due as soon as the machine is free.",
            case="a request that came while the batch ran",
        ),
        WrongAnswer(
            "as it was",
            _buggy,
            says="That is still the time since the last batch: after a quiet minute it is over before anybody waits.",
            case="a request after a quiet minute",
        ),
        WrongAnswer(
            "the later of both clocks",
            _later_of_both,
            says="A request that came while the batch ran has waited since then: the batch's end does not reset its age.",
            case="a request that came while the batch ran",
        ),
        WrongAnswer(
            "the earlier of both clocks",
            _earlier_of_both,
            says="The end of the last batch still plays a part; only the oldest arrival should.",
        ),
    ),
    stub=STUB,
    difficulty=1,
    minutes=6,
)
