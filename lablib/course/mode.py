"""Who answers an exercise, and whether somebody sits in front of the notebook: read from the environment."""

from __future__ import annotations

import os
import sys
from enum import StrEnum


class Mode(StrEnum):
    """What ``LABLIB_EXERCISES`` selects."""

    FALLBACK = "fallback"
    """Untouched stubs run the reference; checks never raise. For learners, and the default."""
    REFERENCE = "reference"
    """The reference runs everywhere, whatever the cells say. To see that the lab itself works."""
    STRICT = "strict"
    """Only what the cells say runs; checks raise. For grading."""


def mode() -> Mode:
    """The mode that ``LABLIB_EXERCISES`` selects; raises ValueError for a word that is none."""
    word = os.environ.get("LABLIB_EXERCISES", "") or Mode.FALLBACK
    try:
        return Mode(word)
    except ValueError:
        raise ValueError(f"LABLIB_EXERCISES={word!r}: use {', '.join(Mode)}") from None


def in_kernel() -> bool:
    """Whether this process is a notebook's kernel (not a script, not IPython in a terminal)."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return getattr(shell, "kernel", None) is not None


def interactive() -> bool:
    """Whether somebody can answer a widget: a kernel, and no ``LABLIB_PREDICT=skip`` (continuous integration)."""
    return in_kernel() and os.environ.get("LABLIB_PREDICT") != "skip"
