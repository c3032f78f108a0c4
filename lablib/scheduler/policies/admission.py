"""Admission: how much KV cache a request is given when it starts."""

from __future__ import annotations

from typing import Protocol

from lablib.request import Request


class Admission(Protocol):
    """Says what to reserve for a request that starts."""

    def num_tokens(self, request: Request, max_model_len: int) -> int:
        """Tokens to make room for before the request may run."""


class ReserveModelMax:
    """Room for the longest request the model allows, whatever this one needs: what a contiguous cache must do."""

    def num_tokens(self, request: Request, max_model_len: int) -> int:
        return max_model_len
