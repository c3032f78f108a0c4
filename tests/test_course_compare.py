"""When two values count as equal, and how a difference is put into one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from lablib.course.compare import difference, text_of


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Plan:
    chunks: tuple[Point, ...]
    note: str = field(default="", compare=False)


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (3, 3),
        (3, np.int64(3)),
        (0.1 + 0.2, 0.3),
        (2.0, 2),
        (float("nan"), float("nan")),
        (float("inf"), float("inf")),
        (True, np.bool_(True)),
        ([1, 2], (1, 2)),
        ({"a": [1.0]}, {"a": [1.0 + 1e-9]}),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-9])),
        (torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32)),
        (Plan((Point(1, 2),), "a"), Plan((Point(1, 2),), "b")),
        (None, None),
        ("text", "text"),
    ],
)
def test_values_that_mean_the_same_are_equal(expected: Any, got: Any) -> None:
    assert difference(expected, got) is None


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        (3, 4, "expected 3, got 4"),
        (3, 3.0, "expected the whole number 3, got 3.0 (type float)"),
        (3, None, "expected 3, got None"),
        (True, 1, "expected True, got 1"),
        (1, True, "expected 1, got True"),
        (1.0, 1.1, "expected 1.0, got 1.1"),
        (float("inf"), 1e300, "expected inf, got 1e+300"),
        ([[1, 2], [3, 4]], [[1, 2], [3, 5]], "at [1][1]: expected 4, got 5"),
        ([1, 2], [1], "expected 2 items, got 1"),
        ([1, 2], {1, 2}, "expected a list, got {1, 2} (type set)"),
        ({"a": 1}, {"b": 1}, "the key 'a' is missing"),
        ({"a": 1}, {"a": 1, "b": 1}, "unexpected key 'b'"),
        (Plan((Point(1, 2),)), Plan((Point(1, 3),)), "at chunks[0].y: expected 2, got 3"),
        (Plan(()), [], "expected a Plan, got []"),
        (np.zeros((2, 3)), np.zeros((3, 2)), "expected shape (2, 3), got (3, 2)"),
        (np.zeros(2), [0.0, 0.0], "expected a numpy array, got a list"),
        (torch.zeros(2), np.zeros(2), "expected a torch tensor, got a numpy array"),
        (np.array([True]), np.array([1]), "expected dtype bool, got int64"),
        (np.array([[1, 2]]), np.array([[1, 3]]), "at [0][1]: expected 2, got 3"),
        ("text", 3, "expected 'text', got 3"),
    ],
)
def test_a_difference_is_named_with_its_place(expected: Any, got: Any, said: str) -> None:
    assert difference(expected, got) == said


def test_a_learners_own_equality_that_raises_counts_as_different() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    assert difference(object(), Odd()) is not None


def test_values_are_printed_short_and_without_addresses() -> None:
    assert "0x" not in text_of(object())
    assert len(text_of(list(range(10_000)))) < 700
