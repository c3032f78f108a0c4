"""Requests on their way to the engine: those of a workload, and those that follow from answers."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from itertools import count

from lablib.request import Request


class Arrivals:
    """A queue by arrival time, fed by clients that send their next request once they have an answer.

    Args:
        workload: requests in any order; one that has ``on_finish(request, now)`` is a closed loop, and may name
            further requests each time one of its own has ended.
    """

    def __init__(self, workload: Iterable[Request]) -> None:
        self._numbers = count()
        self._on_finish = getattr(workload, "on_finish", None)
        self._queue: list[tuple[float, int, Request]] = []
        self._in_work: dict[str, Request] = {}
        self._add(workload)

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def more_may_follow(self) -> bool:
        """Whether an answer may make somebody send another request."""
        return bool(self._in_work)

    @property
    def next_time(self) -> float | None:
        """When the next request arrives, in seconds; ``None``: no time is known."""
        return self._queue[0][0] if self._queue else None

    def take(self, now: float) -> Iterator[Request]:
        """The requests that have arrived by ``now`` (seconds), the earliest first."""
        while self._queue and self._queue[0][0] <= now:
            yield heapq.heappop(self._queue)[2]

    def accepted(self, request: Request) -> None:
        """Note that a request is being served."""
        if self._on_finish is not None:
            self._in_work[request.request_id] = request

    def refused(self, request: Request, now: float) -> None:
        """Tell the client that its request was refused at ``now`` (seconds)."""
        if self._on_finish is not None:
            self._add(self._on_finish(request, now))

    def ended(self, request_id: str, now: float) -> None:
        """Tell the client that a request has ended at ``now`` (seconds), whatever the outcome."""
        request = self._in_work.pop(request_id, None)
        if request is not None and self._on_finish is not None:
            self._add(self._on_finish(request, now))

    def _add(self, requests: Iterable[Request]) -> None:
        for request in requests:
            # a time that is none would put the queue in disorder: it comes first, and the engine refuses it by name
            time = request.arrival_time if math.isfinite(request.arrival_time) else -math.inf
            heapq.heappush(self._queue, (time, next(self._numbers), request))
