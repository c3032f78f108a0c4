"""What a value must be: one way to say no to a wrong type, NaN, infinity and whatever lies outside its range."""

from __future__ import annotations

import math
import operator
from typing import Any


def whole(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """The value as a plain ``int``; NumPy's integers and tensors of one integer are welcome.

    Args:
        name: what the value is called where it was given.
        value: what was given.
        least: the smallest that will do.
        most: the largest.

    Raises:
        TypeError: it is no whole number; a bool is none either.
        ValueError: it is out of range.
    """
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    try:
        number = operator.index(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from error
    _require_range(name, number, least, most)
    return number


def real(
    name: str,
    value: Any,
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """The value as a plain, finite ``float``.

    Args:
        name: what the value is called where it was given.
        value: what was given.
        least: the smallest that will do.
        most: the largest.
        above: it must be more than this.
        below: it must be less than this.

    Raises:
        TypeError: it is no number; a bool or a text is none.
        ValueError: it is NaN, infinite, or out of range.
    """
    number = as_float(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    _require_range(name, number, least, most)
    if above is not None and not number > above:
        raise ValueError(f"{name} must be more than {above:g}, got {value!r}")
    if below is not None and not number < below:
        raise ValueError(f"{name} must be less than {below:g}, got {value!r}")
    return number


def as_float(name: str, value: Any) -> float:
    """The value as a plain ``float``, NaN and infinity among them.

    Raises:
        TypeError: it is no number; a bool or a text is none.
    """
    if isinstance(value, bool | str | bytes):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error


def one_of(name: str, value: Any, kind: type, what: str) -> None:
    """Refuse a value that is not of ``kind``, a class; ``what`` says what it must be.

    Raises:
        TypeError: the message names value and kind.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {what}, got {value!r}")


def _require_range(name: str, number: float, least: float | None, most: float | None) -> None:
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {number}")
