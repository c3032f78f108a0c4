"""Compares an expected value with what a learner's code gave, and says in one line where they differ."""

from __future__ import annotations

import dataclasses
import math
import pprint
import re
import sys
from collections.abc import Mapping
from typing import Any

_LONGEST_TEXT = 600


def difference(expected: Any, got: Any, *, rtol: float = 1e-5, atol: float = 1e-8) -> str | None:
    """Where and how two values differ, or None if they don't.

    Lists and tuples count as the same kind, numpy's scalars as Python's numbers. An expected int wants a whole number,
    an expected float takes an int; NaN equals NaN. Dataclasses and NamedTuples are compared field by field.
    """
    return _Comparison(rtol, atol).differs(expected, got, "")


def text_of(value: Any) -> str:
    """A value as a learner reads it: pretty, without memory addresses, shortened where it is long."""
    text = pprint.pformat(value, width=76, compact=True, sort_dicts=False)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " …"


@dataclasses.dataclass(frozen=True, slots=True)
class _Comparison:
    rtol: float
    atol: float

    def differs(self, expected: Any, got: Any, path: str) -> str | None:
        if _is_array(expected) or _is_array(got):
            return self._arrays(expected, got, path)
        expected, got = _plain(expected), _plain(got)
        if _is_number(expected):
            return self._numbers(expected, got, path)
        if dataclasses.is_dataclass(expected) and not isinstance(expected, type):
            names = [field.name for field in dataclasses.fields(expected) if field.compare]
            return self._fields(expected, got, names, path)
        if hasattr(expected, "_fields") and hasattr(got, "_fields"):
            return self._fields(expected, got, list(expected._fields), path)
        if isinstance(expected, list | tuple):
            return self._sequences(expected, got, path)
        if isinstance(expected, Mapping):
            return self._mappings(expected, got, path)
        return None if _equal(expected, got) else _message(path, expected, got)

    def _numbers(self, expected: Any, got: Any, path: str) -> str | None:
        if isinstance(expected, bool) or isinstance(got, bool):
            return None if expected is got else _message(path, expected, got)
        if not _is_number(got):
            return _message(path, expected, got)
        if isinstance(expected, int) and not isinstance(got, int):
            return f"{_at(path)}expected the whole number {expected}, got {got!r} (type {type(got).__name__})"
        if isinstance(expected, int) or expected == got:
            return None if expected == got else _message(path, expected, got)
        both_nan = math.isnan(expected) and math.isnan(got)
        close = math.isclose(expected, got, rel_tol=self.rtol, abs_tol=self.atol)
        return None if both_nan or close else _message(path, expected, got)

    def _fields(self, expected: Any, got: Any, names: list[str], path: str) -> str | None:
        if type(got) is not type(expected):
            return f"{_at(path)}expected a {type(expected).__name__}, got {text_of(got)}"
        for name in names:
            found = self.differs(getattr(expected, name), getattr(got, name), f"{path}.{name}")
            if found:
                return found
        return None

    def _sequences(self, expected: Any, got: Any, path: str) -> str | None:
        if not isinstance(got, list | tuple):
            return f"{_at(path)}expected a {type(expected).__name__}, got {text_of(got)} (type {type(got).__name__})"
        for index, (left, right) in enumerate(zip(expected, got, strict=False)):
            found = self.differs(left, right, f"{path}[{index}]")
            if found:
                return found
        if len(expected) != len(got):
            return f"{_at(path)}expected {_count(len(expected))}, got {len(got)}"
        return None

    def _mappings(self, expected: Any, got: Any, path: str) -> str | None:
        if not isinstance(got, Mapping):
            return f"{_at(path)}expected a {type(expected).__name__}, got {text_of(got)} (type {type(got).__name__})"
        for key, value in expected.items():
            if key not in got:
                return f"{_at(path)}the key {key!r} is missing"
            found = self.differs(value, got[key], f"{path}[{key!r}]")
            if found:
                return found
        extra = [key for key in got if key not in expected]
        return f"{_at(path)}unexpected key {extra[0]!r}" if extra else None

    def _arrays(self, expected: Any, got: Any, path: str) -> str | None:
        if _array_kind(expected) != _array_kind(got):
            return f"{_at(path)}expected a {_array_kind(expected)}, got a {_array_kind(got)}"
        shapes = tuple(expected.shape), tuple(got.shape)
        if shapes[0] != shapes[1]:
            return f"{_at(path)}expected shape {shapes[0]}, got {shapes[1]}"
        if _number_kind(expected) != _number_kind(got):
            return f"{_at(path)}expected dtype {expected.dtype}, got {got.dtype}"
        return self.differs(_nested(expected), _nested(got), path)


def _is_array(value: Any) -> bool:
    return _array_kind(value) in ("numpy array", "torch tensor")


def _array_kind(value: Any) -> str:
    """What a value is, without importing a library that nobody has imported yet."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy array"
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch tensor"
    return type(value).__name__


def _number_kind(array: Any) -> str:
    name = str(array.dtype)
    return next((kind for kind in ("bool", "float", "int", "complex") if kind in name), name)


def _nested(array: Any) -> Any:
    return (array.detach().cpu() if _array_kind(array) == "torch tensor" else array).tolist()


def _plain(value: Any) -> Any:
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _equal(expected: Any, got: Any) -> bool:
    try:
        return bool(expected == got)
    except Exception:  # a learner's own __eq__, or a value that has no truth value: not equal
        return False


def _message(path: str, expected: Any, got: Any) -> str:
    return f"{_at(path)}expected {text_of(expected)}, got {text_of(got)}"


def _at(path: str) -> str:
    return f"at {path.removeprefix('.')}: " if path else ""


def _count(length: int) -> str:
    return f"{length} item" + ("" if length == 1 else "s")
