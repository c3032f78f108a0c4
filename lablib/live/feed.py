"""Messages to the browser: few and small, however fast the steps are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SECONDS_BETWEEN = 0.05  # 20 messages/s: as often as an eye sees a text grow


class Feed:
    """Calls ``send`` after a change, but never twice within ``SECONDS_BETWEEN``.

    Args:
        send: sends what has changed since it was called last.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self._timer: asyncio.TimerHandle | None = None
        self._last = float("-inf")

    def touch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say that something has changed."""
        if self._timer is None:
            self._timer = loop.call_at(max(loop.time(), self._last + SECONDS_BETWEEN), self._flush, loop)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._last = None, loop.time()
        self._send()
