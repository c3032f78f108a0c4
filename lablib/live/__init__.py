"""A running engine to watch and to play with, in a notebook cell."""

from lablib.live.widget import LiveEngine

__all__ = ["LiveEngine"]
