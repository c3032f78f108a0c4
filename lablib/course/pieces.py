"""The exercise itself: a stub that falls back to the reference, and what later labs get in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lablib.course import registry, saved, store
from lablib.course.mode import Mode, mode
from lablib.course.spec import Exercise
from lablib.course.written import State, Written, find_decorated

_Answer = TypeVar("_Answer", bound=Callable[..., Any])
YOURS: Final = "yours"
FROM_REFERENCE: Final = "reference"


class NotFinished(NotImplementedError):  # noqa: N818 (reads as what happened)
    """A ``todo()`` was reached: the message says in which exercise and line."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One exercise as this session knows it.

    Args:
        exercise: what was asked.
        own: the learner's function or class, finished or not.
        written: its source, or None where that can't be had.
        namespace: the notebook's global names.
        state: how far it has got.
    """

    exercise: Exercise
    own: Any
    written: Written | None
    namespace: dict[str, Any]
    state: State

    @property
    def runs_own(self) -> bool:
        """Whether the learner's object runs, not the reference."""
        return mode() is Mode.STRICT or (mode() is Mode.FALLBACK and self.state is not State.UNTOUCHED)

    @property
    def chosen(self) -> Any:
        """The object that runs."""
        return self.own if self.runs_own else self.exercise.load_reference()


_attempts: dict[str, Attempt] = {}


def exercise(key: str) -> Callable[[_Answer], _Answer]:
    """Decorate an exercise's function or class.

    Gives back the learner's object as soon as its body holds any code of their own, and the library's reference as long
    as the stub is untouched. ``LABLIB_EXERCISES=reference`` always gives the reference, ``strict`` never does.

    Raises:
        KeyError: if there is no such exercise.
    """
    asked = registry.exercise(key)
    caller = sys._getframe(1)
    filename, line, namespace = caller.f_code.co_filename, caller.f_lineno, caller.f_globals

    def decorate(own: _Answer) -> _Answer:
        written = find_decorated(line, filename, namespace)
        state = written.state(asked.stub) if written else State.COMPLETE
        attempt = _attempts[key] = Attempt(asked, own, written, namespace, state)
        chosen: _Answer = attempt.chosen
        return chosen

    return decorate


def todo(what: str = "") -> Any:
    """Stand for code that is still to be written; ``what`` may say which.

    Raises:
        NotFinished: always, with the exercise and the line.
    """
    caller = sys._getframe(1)
    filename, line = caller.f_code.co_filename, caller.f_lineno
    place = f"line {line} still says todo()" + (f": {what}" if what else "")
    for key, attempt in _attempts.items():
        if attempt.written and attempt.written.contains(filename, line):
            title = attempt.exercise.title
            raise NotFinished(f'exercise {key}, "{title}", is not finished: {place}. hint("{key}") helps.')
    raise NotFinished(f"not finished: {place}")


def attempt(key: str) -> Attempt | None:
    """The exercise as this session knows it; None if its cell has not run."""
    return _attempts.get(key)


def attempts() -> Mapping[str, Attempt]:
    """Every exercise whose cell has run in this session, by key."""
    return _attempts


def forget_attempts() -> None:
    """Forget every exercise cell that ran in this session."""
    _attempts.clear()


def piece(key: str) -> Any:
    """The function or class that answers an exercise.

    What this session's cell defined; else the learner's saved answer; else the library's reference. A saved answer that
    no longer loads is reported and kept, and the reference is used.
    """
    own = _own(key)
    return registry.exercise(key).load_reference() if own is None else own


def provenance(key: str) -> str:
    """Whose ``piece(key)`` is: ``"yours"`` or ``"reference"``."""
    return FROM_REFERENCE if _own(key) is None else YOURS


def _own(key: str) -> Any | None:
    """The learner's answer that runs; None where the reference does."""
    if key in _attempts:
        return _attempts[key].own if _attempts[key].runs_own else None
    path = store.answer_file(registry.exercise(key).key)
    if path is None or not path.exists() or key in store.load().reference:
        return None
    try:
        return saved.load(path)
    except Exception as error:  # whatever a learner's file may do
        print(
            f"Your saved answer to {key} ({path.parent.name}/{path.name}) no longer loads: "
            f"{type(error).__name__}: {error}. The reference runs in its place; your file is kept. "
            f'A green check("{key}") saves it anew.'
        )
        return None
