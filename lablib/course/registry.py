"""Finds exercises, Watch questions and quizzes by their key; a lab's file is imported when it is first asked for."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from typing import TypeVar

import lablib.course
from lablib.course.spec import Exercise, Lab, Quiz, Watch

_Found = TypeVar("_Found")
_registered: dict[int, Lab] = {}


def register(lab: Lab) -> None:
    """Add a lab that has no file in this folder (or replace one)."""
    _registered[lab.number] = lab


def unregister(number: int) -> None:
    """Take back what ``register`` added."""
    _registered.pop(number, None)


@cache
def _files() -> dict[int, str]:
    names = (module.name for module in pkgutil.iter_modules(lablib.course.__path__))
    return {int(name[3:]): f"lablib.course.{name}" for name in names if re.fullmatch(r"lab\d\d", name)}


def lab(number: int) -> Lab:
    """The lab of that number; raises KeyError with the numbers that exist."""
    if number in _registered:
        return _registered[number]
    if number not in _files():
        known = ", ".join(f"{n:02d}" for n in sorted({*_files(), *_registered})) or "none"
        raise KeyError(f"there is no lab {number:02d} (there are: {known})")
    found = importlib.import_module(_files()[number]).LAB
    if not isinstance(found, Lab):
        raise TypeError(f"{_files()[number]}.LAB must be a Lab, it is a {type(found).__name__}")
    return found


def labs() -> tuple[Lab, ...]:
    """Every lab, in order."""
    return tuple(lab(number) for number in sorted({*_files(), *_registered}))


def exercises() -> tuple[Exercise, ...]:
    """Every exercise of every lab, in order."""
    return tuple(exercise for each in labs() for exercise in each.exercises)


def lab_number(key: str) -> int:
    """Number of the lab that a key belongs to: 1 for "1.2" and for "1.watch.3"; raises KeyError for anything else."""
    head = key.partition(".")[0]
    if not head.isdigit():
        raise KeyError(f'{key!r} is no key; keys look like "1.2" or "1.watch.3"')
    return int(head)


def exercise(key: str) -> Exercise:
    """The exercise of that key; raises KeyError with the keys that the lab has."""
    candidates = lab(lab_number(key)).exercises
    return _pick(key, {each.key: each for each in candidates}, "exercise")


def watch(key: str) -> Watch:
    """The Watch question of that key; raises KeyError with the keys that the lab has."""
    candidates = lab(lab_number(key)).watch
    return _pick(key, {each.key: each for each in candidates}, "watch question")


def quiz(key: str) -> Quiz:
    """The quiz of a lab, by the lab's number as text; raises KeyError if that lab has none."""
    found = lab(lab_number(key)).quiz
    if found is None:
        raise KeyError(f"lab {lab_number(key):02d} has no quiz")
    return found


def _pick(key: str, candidates: dict[str, _Found], what: str) -> _Found:
    if key not in candidates:
        raise KeyError(f"there is no {what} {key!r} in this lab (there are: {', '.join(candidates) or 'none'})")
    return candidates[key]
