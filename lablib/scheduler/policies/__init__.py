"""The questions an iteration-level scheduler leaves open, one file each: who is next, what to reserve, who computes."""

from lablib.scheduler.policies.admission import Admission, ReserveMaxTokens, ReserveModelMax, ReservePrompt
from lablib.scheduler.policies.mix import MixedWholePrompts, StepMix
from lablib.scheduler.policies.order import FCFS, QueueOrder

__all__ = [
    "FCFS",
    "Admission",
    "MixedWholePrompts",
    "QueueOrder",
    "ReserveMaxTokens",
    "ReserveModelMax",
    "ReservePrompt",
    "StepMix",
]
