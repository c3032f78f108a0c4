"""``check``, ``hint`` and ``solution``: what a learner calls under an exercise."""

from __future__ import annotations

import inspect
import textwrap

from lablib.course import pieces, registry, saved, store
from lablib.course.card import Card, show_bundle
from lablib.course.grade import Outcome, Report, Status, grade, namespace_of, not_attempted
from lablib.course.mode import Mode, mode
from lablib.course.pieces import Attempt, NotFinished
from lablib.course.spec import Exercise
from lablib.course.written import State

_hints_shown: dict[str, int] = {}


class CheckFailed(AssertionError):  # noqa: N818 (reads as what happened)
    """A check that did not pass, in strict mode."""


def check(key: str) -> None:
    """Ask the learner's answer every case of an exercise, and show how each ended.

    A green check saves the answer for later labs. Never raises in front of a learner.

    Raises:
        NotFinished: in strict mode, if the exercise's cell has not run or a ``todo()`` is left.
        CheckFailed: in strict mode, if a case fails.
    """
    exercise = registry.exercise(key)
    attempt = pieces.attempt(key)
    if mode() is Mode.REFERENCE:
        reference = exercise.load_reference()
        report = grade(exercise, reference, namespace_of(reference))
        _card(report, "the reference").show()
        return
    if attempt is None or attempt.state is State.UNTOUCHED:
        report = not_attempted(exercise)
        _card(report, "not attempted", (_how_to_begin(exercise, attempt),)).show()
    else:
        report = grade(exercise, attempt.own, attempt.namespace)
        _card(report, _count(report), _closing_notes(report, attempt)).show()
    if mode() is Mode.STRICT:
        _raise_unless_green(report, attempt)


def hint(key: str) -> None:
    """Show the next of an exercise's three hints."""
    exercise = registry.exercise(key)
    level = _hints_shown[key] = min(_hints_shown.get(key, 0) + 1, len(exercise.hints))
    last = level == len(exercise.hints)
    more = f'This was the last; `solution("{key}")` shows the code.' if last else f'`hint("{key}")` says more.'
    title = f"Hint {level} of {len(exercise.hints)} for {key} {exercise.title}"
    Card(title, notes=(exercise.hints[level - 1], more)).show()


def solution(key: str) -> None:
    """Show the reference: the library's own code."""
    exercise = registry.exercise(key)
    source = textwrap.dedent(inspect.getsource(exercise.load_reference())).rstrip()
    where = f"{key} {exercise.title}: `{exercise.name}` as it stands in `{exercise.place}`"
    show_bundle({"text/markdown": f"{where}\n\n```python\n{source}\n```", "text/plain": f"{where}\n\n{source}"})


def _card(report: Report, verdict: str, notes: tuple[str, ...] = ()) -> Card:
    exercise = report.exercise
    failure = report.first_failure
    mark = Status.FAILED if failure else Status.PASSED if report.green else Status.OPEN
    return Card(
        title=f"{exercise.key} {exercise.title}: {verdict}",
        mark=mark.value,
        rows=tuple((outcome.status.value, _row(outcome)) for outcome in report.outcomes),
        heading=f"The smallest case that fails: {failure.case.name}" if failure else "",
        facts=_facts(failure) if failure else (),
        notes=tuple(note for note in (report.hint, *notes) if note),
    )


def _row(outcome: Outcome) -> str:
    return outcome.case.name + (f" ({outcome.reason})" if outcome.status is Status.OPEN and outcome.reason else "")


def _facts(failure: Outcome) -> tuple[tuple[str, str], ...]:
    printed = failure.result.printed.rstrip() if failure.result else ""
    told_already = failure.reason == f"expected {failure.expected}, got {failure.got}" or failure.reason == failure.got
    facts = (
        ("given", failure.given),
        ("expected", failure.expected),
        ("got", failure.got),
        ("difference", "" if told_already else failure.reason),
        ("raised in", failure.where),
        ("printed", "\n".join(printed.splitlines()[-20:])),
    )
    return tuple((label, value) for label, value in facts if value)


def _count(report: Report) -> str:
    return f"{report.passed} of {len(report.outcomes)} cases pass"


def _how_to_begin(exercise: Exercise, attempt: Attempt | None) -> str:
    if attempt is None:
        return "The exercise's cell has not run yet: run it, then check again."
    stays = "" if mode() is Mode.STRICT else "The reference runs in its place. "
    has_bug = bool(exercise.stub) and "todo(" not in exercise.stub
    task = "Change the given code" if has_bug else "Write your code where the stub says `todo()`"
    return f'{stays}{task}; `hint("{exercise.key}")` helps.'


def _closing_notes(report: Report, attempt: Attempt) -> tuple[str, ...]:
    key = report.exercise.key
    if attempt.state is State.PARTIAL and attempt.written:
        lines = ", ".join(map(str, attempt.written.todo_lines))
        return (f"Not finished: `todo()` still stands in line {lines} of the cell.",)
    if report.green:
        in_library = f"In the library: `{report.exercise.name}` in `{report.exercise.place}`."
        return (in_library, _save(report.exercise, attempt))
    return (f'`hint("{key}")` helps.',) if not report.hint else ()


def _save(exercise: Exercise, attempt: Attempt) -> str:
    """Keep a green answer for later labs; say where, or why not."""
    path = store.answer_file(exercise.key)
    if path is None:
        return ""
    store.update(lambda progress: _mark_passed(progress, exercise.key))
    try:
        if attempt.written is None:
            raise saved.CannotSave("the cell's source can't be read (does it begin with a magic such as %%time?)")
        known = {id(other.chosen): key for key, other in pieces.attempts().items() if key != exercise.key}
        title = f"Exercise {exercise.key}, {exercise.title}: saved by a green check, loaded by later labs."
        text = saved.as_module(attempt.written, title, known)
        store.write_atomically(path, text)
    except (saved.CannotSave, OSError) as error:
        return f"It could not be kept for later labs: {error}."
    return f"Saved as `{path.parent.name}/{path.name}`: later labs run yours."


def _mark_passed(progress: store.Progress, key: str) -> None:
    progress.passed = sorted({*progress.passed, key})
    progress.reference = [each for each in progress.reference if each != key]


def _raise_unless_green(report: Report, attempt: Attempt | None) -> None:
    key = report.exercise.key
    if attempt is None or attempt.state is not State.COMPLETE:
        raise NotFinished(f'exercise {key}, "{report.exercise.title}", is not finished')
    if not report.green:
        not_passed = [outcome.case.name for outcome in report.outcomes if outcome.status is not Status.PASSED]
        raise CheckFailed(f"exercise {key}: {_count(report)}; the first that does not: {not_passed[0]}")
