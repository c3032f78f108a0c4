"""How fast this machine decodes, found out in half a second, and what a lab makes of it.

A decode step of the course's model takes 15 ms on one ordinary machine and 150 ms on another. A lab that computes for
half a minute on the one would keep its reader waiting for minutes on the other, so it asks here which workload to take.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache

from lablib.roofline import MODELS

SLOW_STEP_SECONDS = 0.060
CHOICE = "LABLIB_WORKLOAD"
_PART = 5  # the stand-in is a fifth of the model: 54 MB of weights in bf16, more than a processor's cache holds
_SHAPE = MODELS["SmolLM2-135M"]


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of a machine, by the step that the labs compute most.

    Args:
        step_seconds: a decode step of the default model, 8 rows after 128 tokens each.
    """

    step_seconds: float

    @property
    def is_slow(self) -> bool:
        """Whether the labs' long comparisons would try a reader's patience here."""
        return self.step_seconds > SLOW_STEP_SECONDS

    @property
    def takes_small(self) -> bool:
        """Whether labs take their small workloads: on a slow machine, unless ``LABLIB_WORKLOAD`` says otherwise.

        Raises:
            ValueError: ``LABLIB_WORKLOAD`` is set to something else than ``large`` or ``small``.
        """
        choice = os.environ.get(CHOICE, "")
        if choice not in ("", "large", "small"):
            raise ValueError(f"{CHOICE}={choice!r} is neither 'large' nor 'small'; unset it, and the speed decides")
        return choice == "small" or (not choice and self.is_slow)

    def seconds(self, steps: float) -> float:
        """Seconds that computing as much as ``steps`` such decode steps takes."""
        return steps * self.step_seconds


@cache
def pace() -> Pace:
    """The pace of this machine, measured once a process on a stand-in: a fifth of the model's layers and vocabulary."""
    from lablib.measure import decode_seconds
    from lablib.model.dtype import default_dtype
    from lablib.model.toy import constant_model

    shape = replace(
        _SHAPE, name="stand-in", num_layers=_SHAPE.num_layers // _PART, vocab_size=_SHAPE.vocab_size // _PART
    )
    model = constant_model(shape, default_dtype())
    return Pace(_PART * decode_seconds(model, batch_size=8, context_len=128, repeats=7))


def pick(large: str, small: str) -> str:
    """The name of the workload that suits this machine: ``large``, or on a slow one ``small``."""
    return small if pace().takes_small else large


def in_words(seconds: float) -> str:
    """A duration as one would say it: ``20 s``, ``2 minutes``."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{round(seconds / 60)} minutes"
