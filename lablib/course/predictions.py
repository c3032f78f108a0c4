"""Predictions: a number to guess before anything runs; the result waits for it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lablib.course import store
from lablib.course.card import Card, show_bundle
from lablib.course.mode import Mode, in_kernel, interactive, mode


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is asked: a sentence, and the unit of the answer."""

    key: str
    question: str
    unit: str = ""

    def with_unit(self, value: float) -> str:
        """A number as it is printed: three digits that count, and the unit."""
        text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        return f"{text} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class _Revealed:
    """A result that waits for a guess, or shows itself."""

    prediction: Prediction
    value: float
    why: str
    show: Callable[[], Any] | None

    def card(self, guessed: float | None) -> Card:
        asked = self.prediction
        mine = [("your guess", asked.with_unit(guessed))] if guessed is not None else []
        comment = [compare(guessed, self.value)] if guessed is not None else []
        return Card(
            asked.question,
            facts=(*mine, ("measured", asked.with_unit(self.value))),
            notes=tuple(each for each in (*comment, self.why) if each),
        )


_asked: dict[str, Prediction] = {}
_waiting: dict[str, Callable[[], None]] = {}


def predict(key: str, question: str, unit: str = "") -> None:
    """Ask for a number before the cell that measures it.

    Args:
        key: such as ``"0.speedup"``.
        question: one sentence.
        unit: of the answer, for example ``"×"`` or ``"ms"``.
    """
    asked = _asked[key] = Prediction(key, question, unit)
    card = Card(question, "○", notes=(f'Guess before you run on: `guess("{key}", …)`, or `skip("{key}")`.',))
    if not interactive():
        card.show()
        return
    from lablib.course.widgets import prediction_form

    show_bundle({**card.bundle(), **prediction_form(asked, store.load().guesses, guess_quietly)})


def guess(key: str, value: float) -> None:
    """Answer a prediction; the same as typing it into the form. Raises ValueError if the value is no finite number."""
    guess_quietly(key, value)
    Card(f"Your guess is kept: {_prediction(key).with_unit(float(value))}.").show()


def skip(key: str | None = None) -> None:
    """Show a result without a guess; without a key, every result that has been asked for so far."""
    for each in [key] if key else list(_asked):
        guess_quietly(each, None)


def guess_quietly(key: str, value: float | None) -> None:
    """Remember a guess (None: skipped), and let the result that waits for it show itself."""
    number = None if value is None else float(value)
    if number is not None and not math.isfinite(number):
        raise ValueError(f"a guess must be a number, not {value!r}")
    store.update(lambda progress: progress.guesses.__setitem__(key, number))
    if key in _waiting:
        _waiting.pop(key)()


def reveal(key: str, value: float, why: str = "", show: Callable[[], Any] | None = None) -> None:
    """Show a measured number beside the guess; before there is one, only say how to give it.

    Args:
        key: of the prediction.
        value: what was measured, in the prediction's unit.
        why: shown with the number: one or two sentences.
        show: makes what is displayed below, such as a figure; it isn't called before there is a guess.
    """
    revealed = _Revealed(_prediction(key), float(value), why, show)
    guesses = store.load().guesses
    if key in guesses or _skips_all():
        show_bundle(revealed.card(guesses.get(key)).bundle())
        if show is not None:
            _display(show())
        return
    wait = Card("The result waits for your guess.", "○", notes=(f'Answer above, or call `skip("{key}")`.',))
    if in_kernel():
        _show_later(revealed, wait)
    else:
        wait.show()


def compare(guessed: float, measured: float) -> str:
    """How far a guess is from what was measured, in a friendly sentence."""
    off = guessed - measured
    if abs(off) <= 0.1 * abs(measured):
        return "Spot on: within 10%."
    if guessed * measured <= 0:
        return "The measured number may surprise you: look at where it comes from."
    ratio = guessed / measured
    direction = "high" if ratio > 1 else "low"
    if 1 / 1.5 <= ratio <= 1.5:
        return f"Close: {abs(off / measured):.0%} too {direction}."
    times = f"{max(ratio, 1 / ratio):.1f} times too {direction}"
    return f"{times[0].upper()}{times[1:]}: a good thing to have found out before you rely on it."


def _prediction(key: str) -> Prediction:
    return _asked.get(key, Prediction(key, key))


def _skips_all() -> bool:
    return os.environ.get("LABLIB_PREDICT") == "skip" or mode() is not Mode.FALLBACK


def _show_later(revealed: _Revealed, wait: Card) -> None:
    from IPython.display import display

    place = display(wait.bundle(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
    below = display({"text/plain": ""}, raw=True, display_id=True) if revealed.show else None  # type: ignore[no-untyped-call]

    def show_now() -> None:
        place.update(revealed.card(store.load().guesses.get(revealed.prediction.key)).bundle(), raw=True)
        if below is not None and revealed.show is not None:
            below.update(revealed.show())

    _waiting[revealed.prediction.key] = show_now


def _display(value: Any) -> None:
    if in_kernel():
        from IPython.display import display

        display(value)  # type: ignore[no-untyped-call]
    else:
        print(value)
