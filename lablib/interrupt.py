"""A keyboard interrupt that waits for a moment at which nothing is half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType


class Moment(Enum):
    """What the engine is doing, and so what an interrupt may break."""

    BOOKKEEPING = "bookkeeping"
    """Queues, blocks and the trace change: every interrupt waits."""

    COMPUTING = "computing"
    """A step is computed, and would be lost: the first interrupt waits for its end, a second one breaks it off."""

    WAITING = "waiting"
    """Nothing happens until somebody arrives: an interrupt takes effect at once."""


class Interrupts:
    """Decides when a keyboard interrupt takes effect; set ``moment`` to what begins now."""

    def __init__(self) -> None:
        self.moment = Moment.BOOKKEEPING
        self._pending = False

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` if one waits: nothing is half done here."""
        if self._pending:
            self._raise()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold interrupts back as ``moment`` says; one that is left over at the end takes effect then.

        Outside the main thread, where Python delivers no signal, nothing is held.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.moment, self._pending = Moment.BOOKKEEPING, False
        before = signal.signal(signal.SIGINT, self._receive)
        try:
            yield
        finally:
            self.moment = Moment.BOOKKEEPING
            signal.signal(signal.SIGINT, before)
        self.check()

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        again, self._pending = self._pending, True
        if self.moment is Moment.WAITING or (self.moment is Moment.COMPUTING and again):
            self._raise()

    def _raise(self) -> None:
        self.moment, self._pending = Moment.BOOKKEEPING, False  # what comes now is tidying up
        raise KeyboardInterrupt
