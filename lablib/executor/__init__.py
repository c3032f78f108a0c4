"""Executors: what computes a step, for real or in a model of the machine."""

from lablib.executor.base import Executor
from lablib.executor.simulated import ConstantCost, CostModel, SimulatedExecutor

__all__ = ["ConstantCost", "CostModel", "Executor", "SimulatedExecutor"]
