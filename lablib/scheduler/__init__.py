"""Schedulers: who computes how many tokens in the next step."""

from lablib.scheduler.base import Scheduler, SchedulerStuck
from lablib.scheduler.dynamic import DynamicBatching
from lablib.scheduler.iteration import ContinuousBatching, IterationScheduler
from lablib.scheduler.request_level import RequestLevelBatching
from lablib.scheduler.static import StaticBatching

__all__ = [
    "ContinuousBatching",
    "DynamicBatching",
    "IterationScheduler",
    "RequestLevelBatching",
    "Scheduler",
    "SchedulerStuck",
    "StaticBatching",
]
