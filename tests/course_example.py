"""A lab of two exercises, as an example of how one is written and for the tests of the course helpers."""

from __future__ import annotations

from lablib.course.spec import Case, Exercise, Lab, Option, Question, Quiz, Raises, Watch, WrongAnswer, WrongValue


def pad_batch(rows: list[list[int]], pad_id: int = 0) -> tuple[list[list[int]], list[list[bool]]]:
    """Make a rectangle of rows: (token ids, is_real), both len(rows) × longest row; raises ValueError without rows."""
    if not rows:
        raise ValueError("a batch needs at least one row")
    width = max(len(row) for row in rows)
    token_ids = [row + [pad_id] * (width - len(row)) for row in rows]
    is_real = [[True] * len(row) + [False] * (width - len(row)) for row in rows]
    return token_ids, is_real


class Countdown:
    """Counts down; stands for a scheduler: what it does next depends on what it did."""

    def __init__(self, start: int) -> None:
        self.left = start

    def step(self) -> int:
        """Count one down and return what is left, never less than 0."""
        self.left = max(0, self.left - 1)
        return self.left


def _pads_left(rows: list[list[int]], pad_id: int = 0) -> object:
    width = max(len(row) for row in rows)
    left = [[pad_id] * (width - len(row)) + row for row in rows]
    return left, [[False] * (width - len(row)) + [True] * len(row) for row in rows]


def _pads_with_zero(rows: list[list[int]], pad_id: int = 0) -> object:
    return pad_batch(rows, 0)


class _BelowZero(Countdown):
    def step(self) -> int:
        self.left -= 1
        return self.left


PAD = Exercise(
    key="90.1",
    title="Pad a batch",
    reference="course_example:pad_batch",
    cases=(
        Case("one row", args=([[5, 6]],), expect=([[5, 6]], [[True, True]])),
        Case("two lengths", args=([[5, 6, 7], [8]],), hint="Row 2 is two tokens short: fill it with `pad_id`."),
        Case("another pad id", args=lambda: ([[1], [2, 3]], 9)),
        Case(
            "every row equally long",
            args=([[1], [2, 3], []],),
            verify=lambda got, rows: None if len({len(row) for row in got[0]}) == 1 else "the rows differ in length",
        ),
        Case("no rows", args=([],), expect=Raises(ValueError, "row")),
    ),
    hints=(
        "How wide is the rectangle?",
        "Find the longest row; add as many `pad_id` to each row as it is short.",
        "`row + [pad_id] * (width - len(row))`, and the same with True and False.",
    ),
    wrong=(
        WrongAnswer("pads on the left", _pads_left, says="You padded on the left.", case="two lengths"),
        WrongAnswer(
            "pads with zero", _pads_with_zero, says="You padded with 0, not with `pad_id`.", case="another pad id"
        ),
    ),
)
COUNT = Exercise(
    key="90.2",
    title="Count down",
    reference="course_example:Countdown",
    cases=(
        Case("from 2", run=lambda cls: _steps(cls, 2, 1), given="Countdown(2), one step", expect=[1]),
        Case("past the end", run=lambda cls: _steps(cls, 1, 3), given="Countdown(1), three steps", expect=[0, 0, 0]),
    ),
    hints=("What is left?", "Subtract one, but stop at 0.", "`max(0, self.left - 1)`"),
    wrong=(WrongAnswer("goes below zero", _BelowZero, says="It went below 0.", case="past the end"),),
    difficulty=2,
    focus=("step",),
)


def _steps(cls: type[Countdown], start: int, count: int) -> list[int]:
    countdown = cls(start)
    return [countdown.step() for _ in range(count)]


LAB = Lab(
    number=90,
    title="An example",
    exercises=(PAD, COUNT),
    watch=(
        Watch(
            "90.watch.1",
            "At which step does the first row finish?",
            expect=lambda trace: trace["first_finish"],
            wrong=(
                WrongValue(18, says="That is the step after it."),
                WrongValue(lambda value, trace: value > 100, says="The run has only 100 steps."),
            ),
            because="`r3` asks for 17 tokens.",
        ),
    ),
    quiz=Quiz(
        (
            Question(
                "Does a finished row cost anything?",
                (
                    Option("No, it is masked.", says="A mask hides the result; the work is still done."),
                    Option("Yes, until the batch ends.", says="Every step computes it, to the end.", right=True),
                    Option("Only its memory.", says="Its memory too, but every step also computes it."),
                ),
            ),
            Question(
                "What does a batch's time depend on?",
                (
                    Option("The mean output length.", says="The short rows wait for the longest."),
                    Option("The longest output.", says="The batch ends when its last row ends.", right=True),
                ),
            ),
        )
    ),
)
