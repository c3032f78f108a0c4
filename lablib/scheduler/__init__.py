"""Schedulers: who computes how many tokens in the next step."""

from lablib.scheduler.base import Scheduler, SchedulerStuck
from lablib.scheduler.static import StaticBatching

__all__ = ["Scheduler", "SchedulerStuck", "StaticBatching"]
