"""Time as the engine sees it: the wall's, or a virtual one that jumps."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod


class Clock(ABC):
    """Seconds since the run began."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the clock was made."""

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Account for a step that took ``seconds``."""

    @abstractmethod
    def wait_until(self, moment: float) -> None:
        """Let time pass until ``moment``, in seconds; a moment in the past costs nothing."""


class WallClock(Clock):
    """Real time. Steps take the time they take, waiting sleeps."""

    def __init__(self) -> None:
        self._origin = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._origin

    def advance(self, seconds: float) -> None:
        """Nothing to do: the step itself has taken its time."""

    def wait_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - self.now()))


class VirtualClock(Clock):
    """Time that only steps and jumps move, in whole microseconds: the same run gives the same times, always.

    It serves simulated executors, and the real model when arrivals are replayed: a step then
    takes as long as it was measured to take, and waiting takes no time at all.
    """

    def __init__(self) -> None:
        self._microseconds = 0

    def now(self) -> float:
        return self._microseconds / 1e6

    def advance(self, seconds: float) -> None:
        self._microseconds += round(seconds * 1e6)

    def wait_until(self, moment: float) -> None:
        self._microseconds = max(self._microseconds, round(moment * 1e6))
        if self.now() < moment:  # rounded down: a timer set for this moment would never fire
            self._microseconds += 1
