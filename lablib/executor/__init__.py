"""Executors: what computes a step, for real or in a model of the machine."""

from lablib.executor.base import Executor
from lablib.executor.cost import DEVICES, RooflineCost, preset
from lablib.executor.fitted import LinearCost, fit
from lablib.executor.simulated import ConstantCost, CostModel, SimulatedExecutor

__all__ = [
    "DEVICES",
    "ConstantCost",
    "CostModel",
    "Executor",
    "LinearCost",
    "RooflineCost",
    "SimulatedExecutor",
    "fit",
    "preset",
]
