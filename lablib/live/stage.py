"""Tells every open view what happens, seldom and in few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lablib.live.board import Board, Decode
from lablib.live.feed import Feed
from lablib.live.steploop import StepLoop
from lablib.request import RequestOutput
from lablib.step import StepPlan, StepResult


class Stage:
    """Listens to a ``StepLoop``, keeps the board, and sends what has changed; always on the loop's thread.

    Args:
        send: sends a message to all views.
        decode: token ids → text.
    """

    board: Board

    def __init__(self, send: Callable[[dict[str, Any]], None], decode: Decode) -> None:
        self._send = send
        self._decode = decode
        self._message = ""
        self._steps: StepLoop | None = None
        self._feed = Feed(self._send_changes)

    def show(self, steps: StepLoop) -> None:
        """Begin with an empty board for the engine that ``steps`` runs now."""
        self._steps = steps
        self._message = ""
        self.board = Board(steps.engine, self._decode)

    def planned(self, plan: StepPlan) -> None:
        if plan.admitted:
            self.touch()

    def stepped(self, result: StepResult, outputs: list[RequestOutput]) -> None:
        self.board.stepped(result)
        self.board.take(outputs)
        self.touch()

    def failed(self, outputs: list[RequestOutput]) -> None:
        self.board.take(outputs)
        self.touch()

    def rested(self) -> None:
        self.touch()

    def say(self, message: str) -> None:
        """Show a message until it is dismissed; an empty one dismisses it."""
        self._message = message
        self.touch()

    def touch(self) -> None:
        """Send what has changed, soon; before there is a loop there is no view."""
        loop = None if self._steps is None else self._steps.loop
        if loop is not None and not loop.is_closed():
            self._feed.touch(loop)

    def send_everything(self) -> None:
        """Send all there is to show, at once."""
        self._send(self.board.everything(self._phase, self._message))

    @property
    def _phase(self) -> str:
        if self._steps is None or self._steps.closed:
            return "closed"
        if self._steps.running:
            return "running"
        return "paused" if self._steps.paused else "idle"

    def _send_changes(self) -> None:
        changes = self.board.changes(self._phase, self._message)
        if changes:
            self._send(changes)
