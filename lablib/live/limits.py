"""What a live engine is built for, and how far its knobs turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lablib.executor.model import ModelExecutor
from lablib.live.scheduler import LiveBatching
from lablib.model import LanguageModel
from lablib.validate import whole


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits an engine is built with.

    Args:
        max_num_seqs: slots.
        max_model_len: most tokens of one request.
        max_num_batched_tokens: most tokens of one step.
    """

    max_num_seqs: int
    max_model_len: int
    max_num_batched_tokens: int

    def __post_init__(self) -> None:
        whole("max_num_seqs", self.max_num_seqs, least=1)
        whole("max_model_len, a prompt and an answer of a token each or more,", self.max_model_len, least=2)

    def scheduler(self) -> LiveBatching:
        """A scheduler with nobody in it."""
        return LiveBatching(self.max_num_seqs, self.max_model_len, self.max_num_batched_tokens)

    def executor(self, model: LanguageModel) -> ModelExecutor:
        """An executor with the weights of ``model`` and a KV cache of its own."""
        return ModelExecutor(model, self.max_num_seqs, self.max_model_len)

    def ranges(self) -> dict[str, Any]:
        """Least and greatest value of each knob."""
        return {
            "max_num_seqs": [1, self.max_num_seqs],
            "max_num_batched_tokens": [self.max_num_seqs, self.max_num_batched_tokens],
            "max_tokens": [1, self.max_model_len - 1],
            "temperature": [0, 2],
        }

    def facts(self) -> dict[str, Any]:
        """What a view needs to know."""
        return {"ranges": self.ranges(), "max_model_len": self.max_model_len}
