"""Limits of a step under the names that vLLM gives them: what they are where nobody says, and what can't work."""

from __future__ import annotations

MAX_NUM_BATCHED_TOKENS = 8192  # tokens a step, as vLLM has it for online serving on large GPUs
MAX_NUM_SEQS = 256  # requests that run at once


def require_room_to_decode(max_num_batched_tokens: int, max_num_seqs: int) -> None:
    """Refuse a token budget under which not all running requests could decode in one step.

    Raises:
        ValueError: the message names both numbers.
    """
    if max_num_batched_tokens < max_num_seqs:
        raise ValueError(
            f"max_num_batched_tokens={max_num_batched_tokens} is less than max_num_seqs={max_num_seqs}: "
            "not all running requests could decode in one step; raise the one or lower the other"
        )
