"""What the live view shows, kept beside the engine and told in small differences."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.engine import Engine
from lablib.request import Request, RequestOutput
from lablib.step import StepResult

QUEUE_ROWS = 6
FINISHED_ROWS = 5
RATE_SECONDS = 2.0
LONGEST_CHARACTER = 4  # tokens: UTF-8 needs at most so many bytes
LONGEST_PROMPT_SHOWN = 900  # characters

Decode = Callable[[Sequence[int]], str]


@dataclass(slots=True)
class Card:
    """One request as it is shown.

    Args:
        number: which one, counted from 0; chooses its colour.
        request: what the engine knows of it.
        prompt: its prompt, as somebody typed it.
    """

    number: int
    request: Request
    prompt: str
    text: str = ""
    pending: list[int] = field(default_factory=list)
    first_token: float | None = None
    last_token: float = 0.0

    def take(self, token_ids: Sequence[int], now: float, decode: Decode) -> str:
        """Add tokens; returns the text they complete, a character cut in two waits for its other half."""
        if token_ids:
            self.first_token = now if self.first_token is None else self.first_token
            self.last_token = now
        new = ""
        for token_id in token_ids:
            self.pending.append(token_id)
            piece = decode(self.pending)
            if not piece.endswith("\ufffd") or len(self.pending) >= LONGEST_CHARACTER:
                new += piece
                self.pending.clear()
        self.text += new
        return new

    def facts(self) -> dict[str, Any]:
        """What never changes."""
        prompt = self.prompt[:LONGEST_PROMPT_SHOWN] + "…" * (len(self.prompt) > LONGEST_PROMPT_SHOWN)
        asked = self.request
        return {
            "number": self.number,
            "prompt": prompt,
            "in": asked.num_prompt_tokens,
            "out": asked.max_tokens,
            "arrival": round(asked.arrival_time, 3),
        }

    def outcome(self) -> list[Any]:
        """Why it ended, output tokens, and seconds: time to first token, per further token, from end to end."""
        asked, count = self.request, self.request.num_output_tokens
        why = asked.finish_reason.value if asked.finish_reason else ""
        if self.first_token is None:
            return [why, count, None, None, None]
        per_token = (self.last_token - self.first_token) / (count - 1) if count > 1 else None
        times = (self.first_token - asked.arrival_time, per_token, self.last_token - asked.arrival_time)
        return [why, count, *(None if each is None else round(each, 4) for each in times)]


class Board:
    """Cards of the requests on view, and the numbers beside them.

    Args:
        engine: whose requests these are.
        decode: token ids → text.
    """

    def __init__(self, engine: Engine, decode: Decode) -> None:
        self.engine = engine
        self.cards: dict[str, Card] = {}
        self.finished: deque[str] = deque(maxlen=FINISHED_ROWS)
        self.num_finished = 0
        self._num_added = 0
        self._decode = decode
        self._recent: deque[tuple[float, int]] = deque()
        self._step_seconds: float | None = None
        self._new_cards: list[Card] = []
        self._new_text: dict[str, str] = {}
        self._new_ends: dict[str, list[Any]] = {}
        self._shown: dict[str, Any] = {}

    def add(self, request: Request, prompt: str) -> None:
        """Show a request that the engine has taken."""
        card = Card(self._num_added, request, prompt)
        self._num_added += 1
        self.cards[request.request_id] = card
        self._new_cards.append(card)

    def take(self, outputs: list[RequestOutput]) -> None:
        """Add what the engine has delivered."""
        now = self.engine.clock.now()
        self._recent.append((now, sum(len(output.token_ids) for output in outputs)))
        for output in outputs:
            card = self.cards[output.request_id]
            text = card.take(output.token_ids, now, self._decode)
            if text:
                self._new_text[output.request_id] = self._new_text.get(output.request_id, "") + text
            if output.finished:
                self._retire(output.request_id)

    def stepped(self, result: StepResult) -> None:
        """Note how long a step took."""
        self._step_seconds = result.seconds

    def changes(self, phase: str, message: str) -> dict[str, Any]:
        """What is new since the last call, to be sent to every view; empty when nothing is."""
        state = self._state(phase, message)
        news = {key: value for key, value in state.items() if self._shown.get(key) != value}
        self._shown = state
        if self._new_cards:
            news["cards"] = {card.request.request_id: card.facts() for card in self._new_cards}
        if self._new_text:
            news["text"] = self._new_text
        if self._new_ends:
            news["ended"] = self._new_ends
        self._new_cards, self._new_text, self._new_ends = [], {}, {}
        return news and {**news, "now": round(self.engine.clock.now(), 3)}

    def everything(self, phase: str, message: str) -> dict[str, Any]:
        """All there is to show, for a view that has just opened; what was new before is part of it."""
        self.changes(phase, message)
        cards = {name: {**card.facts(), "text": card.text} for name, card in self.cards.items()}
        for request_id in self.finished:
            cards[request_id]["ended"] = self.cards[request_id].outcome()
        return {**self._shown, "cards": cards, "now": round(self.engine.clock.now(), 3), "whole": True}

    def _retire(self, request_id: str) -> None:
        self._new_ends[request_id] = self.cards[request_id].outcome()
        if len(self.finished) == FINISHED_ROWS:
            self.cards.pop(self.finished[0])
        self.finished.append(request_id)
        self.num_finished += 1

    def _state(self, phase: str, message: str) -> dict[str, Any]:
        scheduler = self.engine.scheduler
        slots: list[Any] = [None] * scheduler.max_num_seqs
        for request in scheduler.running.values():
            if request.slot is not None:
                slots[request.slot] = [request.request_id, request.num_output_tokens, request.num_computed_tokens]
        waiting = [request.request_id for _, request in zip(range(QUEUE_ROWS), scheduler.waiting, strict=False)]
        return {
            "phase": phase,
            "message": message,
            "slots": slots,
            "queue": waiting,
            "reason": self._reason(waiting),
            "finished": list(self.finished),
            "served": self.num_finished,
            "gauges": self._gauges(phase),
        }

    def _reason(self, waiting: list[str]) -> str:
        """Why the head of the queue waits, as the trace has it."""
        trace = self.engine.trace
        requests, reasons = trace.tables["waits"]["request"], trace.tables["waits"]["reason"]
        if not waiting or not len(requests) or trace.requests["id"][requests[-1]] != waiting[0]:
            return ""
        return trace.reasons[reasons[-1]]

    def _gauges(self, phase: str) -> list[Any]:
        """Requests that run, tokens/s, seconds of the last step, blocks in use, tokens in them, waiting, steps."""
        scheduler, now = self.engine.scheduler, self.engine.clock.now()
        while self._recent and self._recent[0][0] < now - RATE_SECONDS:
            self._recent.popleft()
        since = max(0.25, min(RATE_SECONDS, now - self._recent[0][0])) if len(self._recent) > 1 else RATE_SECONDS
        rate = sum(count for _, count in self._recent) / since if phase == "running" else None
        written = sum(request.num_computed_tokens for request in scheduler.running.values())
        return [
            len(scheduler.running),
            None if rate is None else round(rate, 1),
            None if self._step_seconds is None else round(self._step_seconds, 4),
            scheduler.kv.pool.num_blocks - scheduler.kv.pool.num_free,
            written,
            len(scheduler.waiting),
            self.engine.trace.num_steps,
        ]
