"""Asks an answer every case of its exercise; prints nothing."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import linecache
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from lablib.course.compare import difference, text_of
from lablib.course.guard import TooLong, limits
from lablib.course.pieces import NotFinished
from lablib.course.spec import REFERENCE, Case, Exercise, Raises, WrongAnswer


class Status(Enum):
    """How a case ended, with the mark that is printed."""

    PASSED = "✓"
    FAILED = "✗"
    OPEN = "○"
    """Not attempted, or a ``todo()`` was reached."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one call gave: a value, or the exception that ended it; and what it printed."""

    value: Any = None
    error: BaseException | None = None
    printed: str = ""

    def same_as(self, other: Result, case: Case) -> bool:
        """Whether two answers did the same, for all that this case can tell."""
        if self.error is not None or other.error is not None:
            return type(self.error) is type(other.error) and str(self.error) == str(other.error)
        return difference(self.value, other.value, rtol=case.rtol, atol=case.atol) is None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one case ended.

    Args:
        case: what was asked.
        status: how it ended.
        given: the arguments as text.
        expected: as text; empty where the case has a rule instead of a value.
        got: as text.
        reason: where the two differ, or what is wrong.
        where: the line of the learner's cell that raised.
        result: what the call gave; None if it wasn't made.
    """

    case: Case
    status: Status
    given: str = ""
    expected: str = ""
    got: str = ""
    reason: str = ""
    where: str = ""
    result: Result | None = None

    @property
    def endless(self) -> bool:
        """Whether the call had to be stopped."""
        return self.result is not None and isinstance(self.result.error, TooLong)


@dataclass(frozen=True, slots=True)
class Report:
    """How all cases of an exercise ended, and the hint for the first one that failed."""

    exercise: Exercise
    outcomes: tuple[Outcome, ...]
    hint: str = ""

    @property
    def passed(self) -> int:
        """Number of cases that passed."""
        return sum(outcome.status is Status.PASSED for outcome in self.outcomes)

    @property
    def green(self) -> bool:
        """Whether every case passed."""
        return self.passed == len(self.outcomes)

    @property
    def first_failure(self) -> Outcome | None:
        """The first case that failed, hence the smallest."""
        return next((outcome for outcome in self.outcomes if outcome.status is Status.FAILED), None)


def not_attempted(exercise: Exercise) -> Report:
    """The report on a stub that nobody has touched."""
    return Report(exercise, tuple(Outcome(case, Status.OPEN) for case in exercise.cases))


def grade(exercise: Exercise, answer: Any, namespace: dict[str, Any]) -> Report:
    """Ask every case.

    Args:
        exercise: what to ask.
        answer: the learner's function or class.
        namespace: the globals of the learner's code, to count its lines and to find them in a traceback.
    """
    report = Report(exercise, tuple(outcomes(exercise, answer, namespace)))
    return replace(report, hint=_hint(report)) if report.first_failure else report


def outcomes(exercise: Exercise, answer: Any, namespace: dict[str, Any]) -> Iterator[Outcome]:
    """Ask case after case; arguments as for ``grade``."""
    reference = exercise.load_reference()
    endless = False
    for case in exercise.cases:
        if endless:
            yield Outcome(case, Status.OPEN, reason="not asked after an endless loop")
            continue
        outcome = _ask(exercise, case, answer, reference, namespace)
        endless = outcome.endless
        yield outcome


def namespace_of(answer: Any) -> dict[str, Any]:
    """The global names of the module in which a function or class was defined."""
    function = inspect.unwrap(answer)
    found: dict[str, Any] | None = getattr(function, "__globals__", None)
    return found if found is not None else vars(sys.modules[function.__module__])


def _ask(exercise: Exercise, case: Case, answer: Any, reference: Any, namespace: dict[str, Any]) -> Outcome:
    given = case.given or _arguments_text(reference, _arguments(case))
    result = _call(exercise, case, answer, namespace)
    if isinstance(result.error, NotFinished):
        return Outcome(case, Status.OPEN, given, reason=str(result.error), result=result)
    got = _error_text(result.error) if result.error else text_of(result.value)
    where = _where(result.error, namespace) if result.error else ""
    if case.verify is not None:
        reason = got if result.error else _complaint(case, result.value)
        expected = ""
    else:
        wanted = _expectation(exercise, case, reference)
        expected = text_of(wanted)
        reason = _compare(case, wanted, result)
    status = Status.FAILED if reason else Status.PASSED
    return Outcome(case, status, given, expected, got, reason or "", where, result)


def _arguments(case: Case) -> tuple[Any, ...]:
    """Fresh arguments: an answer may change the ones it gets."""
    return case.args() if callable(case.args) else copy.deepcopy(case.args)


def _call(exercise: Exercise, case: Case, answer: Any, namespace: dict[str, Any]) -> Result:
    arguments = _arguments(case)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), limits(namespace, exercise.max_steps, exercise.seconds):
            value = case.run(answer, *arguments) if case.run else answer(*arguments)
            return Result(value, None, printed.getvalue())
    except (Exception, SystemExit, TooLong) as error:  # whatever a learner's code may do
        return Result(None, error, printed.getvalue())


def _expectation(exercise: Exercise, case: Case, reference: Any) -> Any:
    if case.expect is not REFERENCE:
        return case.expect
    arguments = _arguments(case)
    return case.run(reference, *arguments) if case.run else reference(*arguments)


def _compare(case: Case, wanted: Any, result: Result) -> str | None:
    if isinstance(wanted, Raises):
        fits = isinstance(result.error, wanted.kind) and wanted.mentions.lower() in str(result.error).lower()
        return None if fits else f"it should raise {wanted}"
    if result.error is not None:
        return _error_text(result.error)
    return difference(wanted, result.value, rtol=case.rtol, atol=case.atol)


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, TooLong) else f"{type(error).__name__}: {error}"


def _complaint(case: Case, value: Any) -> str | None:
    if case.verify is None:
        return None
    try:
        return case.verify(value, *_arguments(case))
    except Exception as error:  # a value of the wrong kind trips the rule itself
        return f"this can't be checked, is it of the right kind? ({type(error).__name__}: {error})"


def _arguments_text(reference: Any, arguments: tuple[Any, ...]) -> str:
    try:
        bound = inspect.signature(reference).bind(*arguments).arguments
    except (TypeError, ValueError):
        return ", ".join(map(text_of, arguments))
    return "\n".join(f"{name} = {text_of(value)}" for name, value in bound.items())


def _where(error: BaseException, namespace: dict[str, Any]) -> str:
    """The last line of the learner's own code that an exception passed through."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_globals is namespace]
    if not frames:
        return ""
    frame, line = frames[-1]
    code = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
    return f"line {line}: {code}" if code else f"line {line}"


def _hint(report: Report) -> str:
    failure = report.first_failure
    if failure is None or failure.result is None:
        return ""
    wrong = _recognise(report.exercise, report.outcomes, failure)
    if wrong is not None:
        return wrong.says
    if failure.endless:
        return "Does every way through your loop bring it closer to its end?"
    if failure.result.error is None and failure.result.value is None and failure.expected not in ("", "None"):
        return "Your code gives None: is there a `return` on every way out?"
    return failure.case.hint


def _recognise(exercise: Exercise, outcomes: tuple[Outcome, ...], failure: Outcome) -> WrongAnswer | None:
    """The known wrong answer that does the same on the failing case; of several, the one that agrees on most cases."""

    def agrees(wrong: WrongAnswer, outcome: Outcome) -> bool:
        other = _call(exercise, outcome.case, wrong.answer, namespace_of(wrong.answer))
        return outcome.result is not None and outcome.result.same_as(other, outcome.case)

    candidates = [wrong for wrong in exercise.wrong if agrees(wrong, failure)]
    if len(candidates) > 1:
        candidates.sort(key=lambda wrong: -sum(agrees(wrong, outcome) for outcome in outcomes))
    return candidates[0] if candidates else None
