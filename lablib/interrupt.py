"""A keyboard interrupt that waits for the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_between_steps() -> Iterator[Callable[[], None]]:
    """Hold a keyboard interrupt back until the caller asks; a second one takes effect at once."""
    pending: list[int] = []

    def check() -> None:
        if pending:
            raise KeyboardInterrupt

    def hold(signum: int, frame: FrameType | None) -> None:
        if pending:
            signal.default_int_handler(signum, frame)
        pending.append(signum)

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = signal.signal(signal.SIGINT, hold)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
