"""What an executor is: something that computes a step's plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lablib.step import StepPlan, StepResult


class Executor(Protocol):
    """Computes plans, for real or in a model of the machine.

    Attributes:
        name: what computes, in a few words, for titles.
        num_blocks: blocks of its KV cache; ``None`` when it has none.
        block_size: tokens a block holds; ``None`` when it has no KV cache.
        max_model_len: most tokens of one sequence; ``None`` when any length will do.
        vocab_size: token ids are below it; ``None`` when any id will do.
        eos_token_ids: tokens that end a sequence.
        decode: token ids → text; ``None`` when its tokens mean nothing.
    """

    @property
    def name(self) -> str: ...
    @property
    def num_blocks(self) -> int | None: ...
    @property
    def block_size(self) -> int | None: ...
    @property
    def max_model_len(self) -> int | None: ...
    @property
    def vocab_size(self) -> int | None: ...
    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...
    @property
    def decode(self) -> Callable[[Sequence[int]], str] | None: ...

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute every chunk of ``plan``; the result has one entry a chunk, in the plan's order."""
