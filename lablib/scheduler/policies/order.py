"""Order: who in the queue is next."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from lablib.request import Request


class QueueOrder(Protocol):
    """Picks the next request of a queue."""

    def first(self, waiting: deque[Request]) -> Request:
        """The request that is next; ``waiting`` holds at least one, in the order of arrival, and is left alone."""


class FCFS:
    """First come, first served: nobody overtakes, and a head that does not fit holds up those behind it."""

    def first(self, waiting: deque[Request]) -> Request:
        return waiting[0]
