"""Mix: how many tokens a request computes in a step whose budget is limited."""

from __future__ import annotations

from typing import Protocol

from lablib.request import Request


class StepMix(Protocol):
    """Shares the token budget of a step."""

    def num_tokens(self, request: Request, budget: int) -> int:
        """Tokens the request computes in this step, with ``budget`` tokens left; 0: it must wait."""

    def largest(self, max_num_batched_tokens: int) -> int | None:
        """Most tokens that one request may have to compute at once; ``None``: as many as it likes."""


class MixedWholePrompts:
    """Prompts and decodes share a step, and a prompt is computed whole or not at all (as in Orca, OSDI 2022)."""

    def num_tokens(self, request: Request, budget: int) -> int:
        missing = request.num_tokens - request.num_computed_tokens
        return missing if missing <= budget else 0

    def largest(self, max_num_batched_tokens: int) -> int | None:
        return max_num_batched_tokens
