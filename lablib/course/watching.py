"""Watch questions: answered by looking at a run, and checked."""

from __future__ import annotations

from typing import Any

from lablib.course import registry, store
from lablib.course.card import Card
from lablib.course.checking import CheckFailed
from lablib.course.compare import difference, text_of
from lablib.course.mode import Mode, mode
from lablib.course.pieces import NotFinished
from lablib.course.spec import Watch, WrongValue


def answer(key: str, value: Any, *context: Any) -> None:
    """Check the answer to a Watch question.

    Args:
        key: such as ``"1.watch.1"``.
        value: the learner's answer; None stands for "not answered yet".
        context: what the question is about, for example the trace; the expected answer may be found in it.

    Raises:
        NotFinished: in strict mode, without an answer.
        CheckFailed: in strict mode, if it is wrong.
    """
    watch = registry.watch(key)
    # Found even when nobody has answered, so that a question that can't be answered shows up in any run.
    expected = watch.expect(*context) if callable(watch.expect) else watch.expect
    if mode() is Mode.REFERENCE:
        value = expected
    if value is None:
        Card(f"{key} {watch.question}", "○", notes=("Not answered yet: put your answer in place of `None`.",)).show()
        if mode() is Mode.STRICT:
            raise NotFinished(f"{key} is not answered")
    elif difference(expected, value) is None:
        store.update(lambda progress: _mark_watched(progress, key))
        notes = (watch.because,) if watch.because else ()
        Card(f"{key} {watch.question} {text_of(value)}", "✓", notes=notes).show()
    else:
        Card(f"{key} {watch.question} {text_of(value)}", "✗", notes=(_feedback(watch, value, context),)).show()
        if mode() is Mode.STRICT:
            raise CheckFailed(f"{key}: {value!r} is not the answer")


def _feedback(watch: Watch, value: Any, context: tuple[Any, ...]) -> str:
    for wrong in watch.wrong:
        if _fits(wrong, value, context):
            return wrong.says
    return "Not this one. Look again, step by step."


def _fits(wrong: WrongValue, value: Any, context: tuple[Any, ...]) -> bool:
    if not callable(wrong.value):
        return difference(wrong.value, value) is None
    try:
        return bool(wrong.value(value, *context))
    except Exception:  # an answer of a kind that nobody thought of
        return False


def _mark_watched(progress: store.Progress, key: str) -> None:
    progress.watched = sorted({*progress.watched, key})
