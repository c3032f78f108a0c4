"""Admission: how much KV cache a request is given when it starts.

What is reserved at the start need not be asked for later. A rule that reserves less than a request may come to need
admits more of them, and may leave one that runs without a block to grow into: ``OutOfBlocks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lablib.request import Request
from lablib.validate import real


class Admission(Protocol):
    """Says what to reserve for a request that starts."""

    def num_tokens(self, request: Request, max_model_len: int) -> int:
        """Tokens to make room for before the request may run."""

    def keep_free(self, num_blocks: int) -> int:
        """Blocks, of a pool of ``num_blocks``, that must stay free when a request is admitted."""
        return 0


class ReserveModelMax(Admission):
    """Room for the longest request the model allows, whatever this one needs: what a contiguous cache must do."""

    def num_tokens(self, request: Request, max_model_len: int) -> int:
        return max_model_len


class ReserveMaxTokens(Admission):
    """Room for the prompt and all the output the request may ask for: whoever is admitted can always go on.

    So do Orca (OSDI 2022), Hugging Face's TGI, and TensorRT-LLM's default, GUARANTEED_NO_EVICT.
    """

    def num_tokens(self, request: Request, max_model_len: int) -> int:
        return request.num_prompt_tokens + request.max_tokens


@dataclass(frozen=True, slots=True)
class ReservePrompt(Admission):
    """Room for the tokens there are, the prompt; a block for the output is taken when it is needed (vLLM, SOSP 2023).

    Args:
        watermark: share of the pool's blocks that stays free when a request is admitted, for those that run to grow,
            0 to less than 1. vLLM has 0.01, rounded down to whole blocks. Here it is 0: of a pool that one can draw,
            a few dozen blocks, 0.01 is no block, and the rule does what its name says. No watermark below 1 is a
            promise; it makes ``OutOfBlocks`` rarer.

    Raises:
        ValueError: a watermark out of range.
    """

    watermark: float = 0.0

    def __post_init__(self) -> None:
        real("watermark, a share of the pool,", self.watermark, least=0, below=1)

    def num_tokens(self, request: Request, max_model_len: int) -> int:
        return request.num_tokens

    def keep_free(self, num_blocks: int) -> int:
        return int(self.watermark * num_blocks)
