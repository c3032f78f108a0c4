"""*Interrupt kernel* for work that no cell waits for: ipykernel ignores the signal between cells."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType


class Interrupts:
    """Listens for the interrupt signal while work goes on, wherever nobody else does.

    Args:
        interrupted: called from the signal's handler, in the main thread, between any two instructions.
    """

    def __init__(self, interrupted: Callable[[], object]) -> None:
        self._interrupted = interrupted

    def listen(self) -> None:
        """Take the signal over if it is ignored now; a running cell and a plain script keep their own handler."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._handle)

    def leave(self) -> None:
        """Let the signal be ignored again, if we took it."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._interrupted()
