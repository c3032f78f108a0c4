"""What a lab's file of exercises is written in: plain values, nothing runs here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import ModuleType
from typing import Any, Final

VLLM: Final = "0.32.0"  # the release whose files the exercises name


class _Reference:
    """Stands for "what the reference answers" where a case names no expectation."""

    def __repr__(self) -> str:
        return "the reference's answer"


REFERENCE: Final = _Reference()


@dataclass(frozen=True, slots=True)
class Raises:
    """An expectation: the call raises.

    Args:
        kind: the exception's class (a subclass will do).
        mentions: text that the message must contain, whatever its case.
    """

    kind: type[Exception]
    mentions: str = ""

    def __repr__(self) -> str:
        return f"{self.kind.__name__}" + (f" that mentions {self.mentions!r}" if self.mentions else "")


@dataclass(frozen=True, slots=True)
class Case:
    """One question a check asks of an answer.

    Args:
        name: a few words; part of the printed result.
        args: the arguments, or a callable that makes them (for tensors, and for what a call changes).
        expect: the expected value, ``Raises(…)``, or by default what the reference gives for the same arguments.
        run: ``run(answer, *args)`` gives the value to compare; by default ``answer(*args)``.
        verify: ``verify(value, *args)`` says what is wrong with the value, or None; then ``expect`` isn't used.
        given: printed instead of the arguments.
        hint: shown when this is the first case to fail and no known wrong answer fits.
        rtol, atol: tolerances for floating-point numbers.
    """

    name: str
    args: tuple[Any, ...] | Callable[[], tuple[Any, ...]] = ()
    expect: Any = REFERENCE
    run: Callable[..., Any] | None = None
    verify: Callable[..., str | None] | None = None
    given: str = ""
    hint: str = ""
    rtol: float = 1e-5
    atol: float = 1e-8


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """An answer that learners really write, and what to say to it.

    Args:
        name: the mistake in a few words.
        answer: the function or class.
        says: the hint that is shown to whoever gets the same result on the first failing case.
        case: name of the case that must be the first to fail, where it matters.
    """

    name: str
    answer: Any
    says: str
    case: str = ""


@dataclass(frozen=True, slots=True)
class Exercise:
    """One thing to build, with everything that its check, its hints and its proof need.

    Args:
        key: lab and number, such as ``"1.2"``.
        title: a few words.
        reference: ``"module:name"`` of the library's own code, imported when it is needed.
        cases: from the smallest to the largest, since the first failing one is shown.
        hints: three levels: a nudge, the plan, nearly the code.
        right: answers that must pass, written otherwise than the reference and than each other: at least two.
        wrong: answers that must fail, each for its own reason.
        vllm: file and symbol in vLLM (release ``VLLM``) that do the same, such as
            ``"vllm/v1/core/sched/scheduler.py: Scheduler.schedule"``.
        difficulty: 1 to 3; also the points that an instructor's grade book gives.
        minutes: how long a learner is expected to take.
        stub: source of the untouched stub, where it holds more than a docstring and ``todo()``.
        focus: names of the methods that the proof changes, where the reference is a class with more than the exercise.
        equivalent: changes to the reference that are no mistake, each with the reason.
        max_steps: lines of the learner's code that one case may run before it counts as endless.
        seconds: the same as time.
    """

    key: str
    title: str
    reference: str
    cases: tuple[Case, ...]
    hints: tuple[str, str, str]
    right: tuple[Any, ...] = ()
    wrong: tuple[WrongAnswer, ...] = ()
    vllm: str = ""
    difficulty: int = 1
    minutes: int = 10
    stub: str = ""
    focus: tuple[str, ...] = ()
    equivalent: Mapping[str, str] = field(default_factory=dict)
    max_steps: int = 100_000
    seconds: float = 10.0

    @property
    def name(self) -> str:
        """Name of the reference, as written in the library."""
        return self.reference.partition(":")[2]

    @property
    def place(self) -> str:
        """File of the library that holds the reference."""
        return self.reference.partition(":")[0].replace(".", "/") + ".py"

    def module(self) -> ModuleType:
        """The imported module that holds the reference."""
        return importlib.import_module(self.reference.partition(":")[0])

    def load_reference(self) -> Any:
        """The reference object itself; raises ImportError or AttributeError if the lab's file names it wrongly."""
        return reduce(getattr, self.name.split("."), self.module())


@dataclass(frozen=True, slots=True)
class Option:
    """One answer to a quiz question; ``says`` explains why it is right or wrong."""

    text: str
    says: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One question with exactly one right option.

    Raises:
        ValueError: if not exactly one option is right.
    """

    text: str
    options: tuple[Option, ...]

    def __post_init__(self) -> None:
        if sum(option.right for option in self.options) != 1:
            raise ValueError(f"question {self.text!r}: exactly one option must have right=True")


@dataclass(frozen=True, slots=True)
class Quiz:
    """A lab's closing questions, asked one under the other."""

    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class WrongValue:
    """A typical wrong answer to a Watch question: a value, or ``f(value, *context) -> bool``; ``says`` answers it."""

    value: Any
    says: str


@dataclass(frozen=True, slots=True)
class Watch:
    """A question that is answered by looking at a run.

    Args:
        key: such as ``"1.watch.1"``.
        question: one sentence.
        expect: the answer, or ``f(*context)`` that finds it, for example in a trace.
        wrong: typical wrong answers.
        because: said after a right answer.
    """

    key: str
    question: str
    expect: Any
    wrong: tuple[WrongValue, ...] = ()
    because: str = ""


@dataclass(frozen=True, slots=True)
class Lab:
    """Everything of one lab that can be checked."""

    number: int
    title: str
    exercises: tuple[Exercise, ...]
    watch: tuple[Watch, ...] = ()
    quiz: Quiz | None = None
