"""How long prompts and answers are: distributions of a number of tokens."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Lengths(Protocol):
    """A distribution of lengths."""

    def draw(self, rng: random.Random) -> int:
        """One length in tokens, at least 1."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same length.

    Args:
        tokens: that length.
    """

    tokens: int

    def __post_init__(self) -> None:
        _require(self.tokens >= 1, f"a length must be at least 1 token, got {self.tokens}")

    def draw(self, rng: random.Random) -> int:
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every length from ``shortest`` to ``longest`` tokens, both included, is as likely as any other."""

    shortest: int
    longest: int

    def __post_init__(self) -> None:
        fits = 1 <= self.shortest <= self.longest
        _require(fits, f"lengths need 1 <= shortest <= longest, got {self.shortest} and {self.longest}")

    def draw(self, rng: random.Random) -> int:
        return rng.randint(self.shortest, self.longest)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Many short ones and a long tail.

    Args:
        mean: mean length in tokens, before the tail is cut.
        cv: coefficient of variation, standard deviation ÷ mean; 0 makes all lengths equal.
        longest: what is longer is cut to this many tokens; ``None`` cuts nothing.
    """

    mean: float
    cv: float
    longest: int | None = None

    def __post_init__(self) -> None:
        _require(self.mean >= 1 and self.cv >= 0, f"lengths need mean >= 1 and cv >= 0, got {self.mean} and {self.cv}")
        _require(self.longest is None or self.longest >= 1, f"longest must be at least 1 token, got {self.longest}")

    def draw(self, rng: random.Random) -> int:
        variance = math.log1p(self.cv**2)
        length = max(1, round(rng.lognormvariate(math.log(self.mean) - variance / 2, math.sqrt(variance))))
        return length if self.longest is None else min(length, self.longest)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The inverse of a distribution function that is known at some points, and linear between them.

    It keeps what a lognormal loses: two humps, a hard upper limit.

    Args:
        tokens: percent → length in tokens at that percentile; starts at 0 and ends at 100 percent.

    Raises:
        ValueError: fewer than two points, other ends, or a length that falls while the percentage rises.
    """

    tokens: Mapping[float, float]
    _percents: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _lengths: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        points = sorted(self.tokens.items())
        percents, lengths = tuple(percent for percent, _ in points), tuple(length for _, length in points)
        _require(
            len(points) >= 2 and percents[0] == 0 and percents[-1] == 100, "quantiles must go from 0 to 100 percent"
        )
        rises = lengths[0] >= 1 and list(lengths) == sorted(lengths)
        _require(rises, f"quantiles must be at least 1 token and never fall, got {lengths}")
        object.__setattr__(self, "_percents", percents)
        object.__setattr__(self, "_lengths", lengths)

    def draw(self, rng: random.Random) -> int:
        percent = 100 * rng.random()
        i = bisect_right(self._percents, percent)
        low, high = self._percents[i - 1], self._percents[i]
        share = (percent - low) / (high - low)
        return round(self._lengths[i - 1] + share * (self._lengths[i] - self._lengths[i - 1]))


def _require(fits: bool, message: str) -> None:
    if not fits:
        raise ValueError(message)
