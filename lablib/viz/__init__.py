"""Pictures of traces."""

from lablib.viz.player import StepPlayer

__all__ = ["StepPlayer"]
