"""Stops a learner's endless loop: a limit on executed lines, and a timer where signals are available."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class TooLong(BaseException):
    """A case ran longer than it may. No Exception, so that ``except Exception`` in a loop doesn't swallow it."""


@contextmanager
def limits(namespace: dict[str, Any], max_steps: int, seconds: float) -> Iterator[None]:
    """Raise TooLong in the block once too many lines of that namespace, or too many seconds, have run.

    Args:
        namespace: the globals of the code that counts; library code that it calls isn't counted.
        max_steps: lines and calls.
        seconds: wall-clock time; only enforced in the main thread of a system with interval timers.
    """
    before = sys.gettrace()
    sys.settrace(_line_counter(namespace, max_steps))
    try:
        with _timer(seconds):
            yield
    finally:
        sys.settrace(before)


def _line_counter(namespace: dict[str, Any], max_steps: int) -> Any:
    steps = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        if frame.f_globals is not namespace:
            return None
        steps += event in ("line", "call")
        if steps > max_steps:
            raise TooLong(f"stopped after {max_steps:,} lines of your code")
        return count

    return count


@contextmanager
def _timer(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong(f"stopped after {seconds:g} seconds")

    handler = signal.signal(signal.SIGALRM, stop)
    # It rings again every second: a bare `except:` inside an endless loop may swallow the first ring.
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
