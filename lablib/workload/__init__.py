"""Workloads: who asks for what, and when."""

from lablib.workload.arrivals import AllAtOnce, ArrivalProcess, ClosedLoop, Gamma, OnOff, Poisson
from lablib.workload.lengths import Fixed, Lengths, LogNormal, Quantiles, Uniform
from lablib.workload.named import NAMES, load, named
from lablib.workload.prompts import real_prompts
from lablib.workload.storage import Item, WorkloadError
from lablib.workload.workload import Workload, synthetic

__all__ = [
    "NAMES",
    "AllAtOnce",
    "ArrivalProcess",
    "ClosedLoop",
    "Fixed",
    "Gamma",
    "Item",
    "Lengths",
    "LogNormal",
    "OnOff",
    "Poisson",
    "Quantiles",
    "Uniform",
    "Workload",
    "WorkloadError",
    "load",
    "named",
    "real_prompts",
    "synthetic",
]
