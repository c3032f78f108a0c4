"""Stops a learner's endless loop: a limit on executed lines, and a timer where signals are available."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    guard = _Guard(namespace, max_steps, seconds)
    before = sys.gettrace()
    sys.settrace(guard.count)
    try:
        with guard.timer():
            yield
    finally:
        sys.settrace(before)


@dataclass(slots=True)
class _Guard:
    namespace: dict[str, Any]
    max_steps: int
    seconds: float
    steps: int = 0
    reason: str = ""

    def count(self, frame: FrameType, event: str, argument: object) -> Any:
        """A trace function that counts the learner's lines."""
        if frame.f_globals is not self.namespace:
            return None
        self.steps += event in ("line", "call")
        if self.steps > self.max_steps:
            self.reason = f"stopped after {self.max_steps:,} lines of your code"
            if self._has_timer():  # in case the learner's code catches this: Python stops tracing now
                signal.setitimer(signal.ITIMER_REAL, 0.1, 1.0)
            raise TooLong(self.reason)
        return self.count

    @contextmanager
    def timer(self) -> Iterator[None]:
        """Ring after the given time, and then every second."""
        if not self._has_timer():
            yield
            return
        handler = signal.signal(signal.SIGALRM, self._ring)
        timer = signal.setitimer(signal.ITIMER_REAL, self.seconds, 1.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, *timer)
            signal.signal(signal.SIGALRM, handler)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        self.reason = self.reason or f"stopped after {self.seconds:g} seconds"
        # A bare `except:` inside the loop catches the exception raised here. Its own lines stand outside of its `try`,
        # so a second exception, raised in the first of them, ends the loop.
        sys.settrace(self._raise_again)
        while frame is not None:
            if frame.f_globals is self.namespace:
                frame.f_trace = self._raise_again
            frame = frame.f_back
        raise TooLong(self.reason)

    def _raise_again(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_globals is not self.namespace:
            return None
        if event == "line":
            raise TooLong(self.reason)
        return self._raise_again

    @staticmethod
    def _has_timer() -> bool:
        return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
