"""Exercise 1.1: make a rectangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer

Rows = Sequence[Sequence[int]]


def _rectangle(rows: Rows, starts: Sequence[int], left: bool = False) -> tuple[Any, Any, Any]:
    import numpy as np

    width = max(1, *(len(row) for row in rows), 1)
    token_ids, is_real = np.zeros((len(rows), width), dtype=np.int64), np.zeros((len(rows), width), dtype=bool)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        token_ids[i, place], is_real[i, place] = row, True
    return token_ids, np.asarray(starts)[:, None] + np.arange(width), is_real


def _pads_left(rows: Rows, starts: Sequence[int]) -> Any:
    return _rectangle(rows, starts, left=True)


def _positions_start_at_zero(rows: Rows, starts: Sequence[int]) -> Any:
    return _rectangle(rows, [0] * len(starts))


def _marks_padding_instead(rows: Rows, starts: Sequence[int]) -> Any:
    token_ids, positions, is_real = _rectangle(rows, starts)
    return token_ids, positions, ~is_real


def _no_width_for_empty_rows(rows: Rows, starts: Sequence[int]) -> Any:
    token_ids, positions, is_real = _rectangle(rows, starts)
    width = max(len(row) for row in rows)
    return token_ids[:, :width], positions[:, :width], is_real[:, :width]


def _pads_to_the_first_row(rows: Rows, starts: Sequence[int]) -> Any:
    width = len(rows[0])
    token_ids, positions, is_real = _rectangle([row[:width] for row in rows], starts)
    return token_ids, positions, is_real


def _zero_means_padding(rows: Rows, starts: Sequence[int]) -> Any:
    token_ids, positions, _ = _rectangle(rows, starts)
    return token_ids, positions, token_ids != 0


def _no_positions_for_padding(rows: Rows, starts: Sequence[int]) -> Any:
    token_ids, positions, is_real = _rectangle(rows, starts)
    return token_ids, positions * is_real, is_real


PAD_BATCH = Exercise(
    key="1.1",
    title="Pad a batch",
    reference="lablib.executor.packing:pad_batch",
    cases=(
        Case("one row needs no padding", args=([[5, 6]], [0])),
        Case("a shorter row is filled up", args=([[5, 6, 7], [8]], [0, 0])),
        Case(
            "0 is also a token",
            args=([[0, 5], [0]], [0, 0]),
            hint="Real is what stands in a row, whatever its number: padding can't be told by its value.",
        ),
        Case("the shorter row may come first", args=([[8], [5, 6, 7]], [0, 0])),
        Case(
            "positions count on from each row's start",
            args=([[5], [8]], [4, 9]),
            hint="Row `i` holds positions `starts[i]`, `starts[i] + 1`, …: in decode a row's one token is far from 0.",
        ),
        Case(
            "a finished row has no token, but still a place",
            args=([[5], [], [8]], [4, 2, 9]),
            hint="An empty row is all padding: token 0, not real.",
        ),
        Case("only finished rows: the rectangle is one wide", args=([[], []], [3, 4])),
        Case("different lengths and starts at once", args=([[1, 2], [3, 4, 5, 6], [], [7]], [10, 0, 20, 30])),
    ),
    hints=(
        'How wide is the rectangle? Start with arrays of that shape that say "all padding", then copy the rows in.',
        "`token_ids = np.zeros((B, L), dtype=np.int64)` and `is_real` likewise with `dtype=bool`; for each row fill "
        "`[i, :len(row)]` of both. Positions need no loop: a column of starts plus a row of 0 … L−1.",
        "`L = max(1, max(len(row) for row in rows))`; `token_ids[i, :len(row)] = row`; `is_real[i, :len(row)] = True`; "
        "`positions = np.asarray(starts)[:, None] + np.arange(L)`.",
    ),
    wrong=(
        WrongAnswer(
            "takes every 0 for padding",
            _zero_means_padding,
            says="0 is also a token: `is_real` follows from where the rows end, not from the values.",
            case="0 is also a token",
        ),
        WrongAnswer(
            "gives padding no position",
            _no_positions_for_padding,
            says="Positions count on through the padding too: start, start + 1, … to the end of the rectangle.",
            case="a shorter row is filled up",
        ),
        WrongAnswer(
            "pads on the left",
            _pads_left,
            says="You padded on the left, as `transformers` does: there the newest token of every row stands in the "
            "last column. Here the padding stands on the right, behind the real tokens.",
            case="a shorter row is filled up",
        ),
        WrongAnswer(
            "positions restart at 0",
            _positions_start_at_zero,
            says="The positions ignore `starts`: a token's position is its place in its sequence, not in this step.",
            case="positions count on from each row's start",
        ),
        WrongAnswer(
            "marks the padding instead of the tokens",
            _marks_padding_instead,
            says="`is_real` is the wrong way round: True where a token stands, False where padding does.",
            case="one row needs no padding",
        ),
        WrongAnswer(
            "no column left when all rows are finished",
            _no_width_for_empty_rows,
            says="With nothing but finished rows your rectangle has no column; each row still computes one position.",
            case="only finished rows: the rectangle is one wide",
        ),
        WrongAnswer(
            "as wide as the first row",
            _pads_to_the_first_row,
            says="The *longest* row sets the width, wherever it stands; yours cuts tokens off.",
        ),
    ),
    difficulty=1,
    minutes=8,
)
