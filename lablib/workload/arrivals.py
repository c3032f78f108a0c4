"""When requests come: arrival processes."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol


class ArrivalProcess(Protocol):
    """Says when requests arrive."""

    def times(self, count: int, rng: random.Random) -> list[float]:
        """Arrival times of ``count`` requests in seconds, rising, the first one near 0."""


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """Everybody is there at time 0: offline work."""

    def times(self, count: int, rng: random.Random) -> list[float]:
        return [0.0] * count


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent callers: gaps are exponential, with CV 1.

    Args:
        rate: mean requests a second.
    """

    rate: float

    def __post_init__(self) -> None:
        _require_positive("rate", self.rate)

    def times(self, count: int, rng: random.Random) -> list[float]:
        return list(accumulate(rng.expovariate(self.rate) for _ in range(count)))


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gaps of a chosen variability, from a steady beat to bursts.

    Args:
        rate: mean requests a second.
        cv: coefficient of variation of the gaps: 0 is a metronome, 1 is Poisson, more is bursts.
    """

    rate: float
    cv: float

    def __post_init__(self) -> None:
        _require_positive("rate", self.rate)
        if not (math.isfinite(self.cv) and self.cv >= 0):
            raise ValueError(f"cv must be 0 or more, got {self.cv}")

    def times(self, count: int, rng: random.Random) -> list[float]:
        if self.cv == 0:
            return [(i + 1) / self.rate for i in range(count)]
        shape = 1 / self.cv**2
        return list(accumulate(rng.gammavariate(shape, 1 / (shape * self.rate)) for _ in range(count)))


@dataclass(frozen=True, slots=True)
class OnOff:
    """Bursts: Poisson for some seconds, then nobody for some seconds, and so on.

    Args:
        rate: mean requests a second while it is on; over all time it is ``rate · on / (on + off)``.
        on_seconds: length of a burst.
        off_seconds: silence after it.
    """

    rate: float
    on_seconds: float
    off_seconds: float

    def __post_init__(self) -> None:
        _require_positive("rate", self.rate)
        _require_positive("on_seconds", self.on_seconds)
        if not (math.isfinite(self.off_seconds) and self.off_seconds >= 0):
            raise ValueError(f"off_seconds must be 0 or more, got {self.off_seconds}")

    def times(self, count: int, rng: random.Random) -> list[float]:
        busy = Poisson(self.rate).times(count, rng)  # time that counts only while the source is on
        return [time + math.floor(time / self.on_seconds) * self.off_seconds for time in busy]


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A fixed number of clients; each sends its next request some time after it has its answer.

    Load then adapts to the server, and long queues can't form: a closed loop hides queueing.

    Args:
        num_clients: clients, the most requests that are in work at once.
        think_seconds: what a client waits between an answer and its next request.
    """

    num_clients: int
    think_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.num_clients < 1:
            raise ValueError(f"num_clients must be at least 1, got {self.num_clients}")
        if not (math.isfinite(self.think_seconds) and self.think_seconds >= 0):
            raise ValueError(f"think_seconds must be 0 or more, got {self.think_seconds}")

    def times(self, count: int, rng: random.Random) -> list[float]:
        """The first request of every client is there at time 0; the others have no time of their own, 0 stands in."""
        return [0.0] * count


def _require_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, got {value}")
