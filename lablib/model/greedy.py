"""The simplest generation there is: one sequence, the most likely token, again and again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from lablib.model.batch import ForwardBatch
from lablib.model.language_model import LanguageModel
from lablib.model.transfer import to_device

Forward = Callable[[Sequence[int]], Tensor]


def greedy_decode(
    forward: Forward,
    prompt_ids: Sequence[int],
    max_tokens: int,
    eos_token_ids: Collection[int] = (),
    cached: bool = True,
) -> list[int]:
    """Continue a prompt with the most likely token, until an end token or ``max_tokens``.

    Args:
        forward: computes the tokens it is given and returns the logits behind the last of them, ``[vocab_size]``.
        prompt_ids: token ids of the prompt.
        max_tokens: most tokens to generate.
        eos_token_ids: tokens that end the answer; the one that ends it belongs to the answer.
        cached: ``forward`` remembers what it has computed, so each token is fed once; else all are fed every time.

    Returns:
        The generated token ids.
    """
    token_ids = list(prompt_ids)
    num_computed = 0
    while len(token_ids) - len(prompt_ids) < max_tokens:
        logits = forward(token_ids[num_computed:])
        if cached:
            num_computed = len(token_ids)
        token_ids.append(int(logits.argmax()))
        if token_ids[-1] in eos_token_ids:
            break
    return token_ids[len(prompt_ids) :]


class UncachedForward:
    """A model that remembers nothing; ``num_computed`` counts the tokens it has computed."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.num_computed = 0

    def __call__(self, token_ids: Sequence[int]) -> Tensor:
        """Compute a whole sequence; returns the logits behind its last token, ``[vocab_size]``."""
        self.num_computed += len(token_ids)
        return self.model.forward_full(token_ids)[-1]


class CachedForward:
    """A model with a KV cache for one sequence of up to ``max_model_len`` tokens; give it each token once."""

    def __init__(self, model: LanguageModel, max_model_len: int) -> None:
        self.model = model.with_cache(num_blocks=1, block_size=max_model_len)
        self.max_model_len = max_model_len
        self.num_computed = 0

    def __call__(self, token_ids: Sequence[int]) -> Tensor:
        """Compute the tokens that come next; returns the logits behind the last one, ``[vocab_size]``.

        Raises:
            ValueError: the sequence would outgrow the cache.
        """
        start, end = self.num_computed, self.num_computed + len(token_ids)
        if end > self.max_model_len:
            raise ValueError(f"the KV cache holds {self.max_model_len} tokens, the sequence would have {end}")
        self.num_computed = end
        device = self.model.device
        positions = torch.arange(start, end, device=device)
        batch = ForwardBatch(
            token_ids=to_device(token_ids, device),
            positions=positions,
            slot_mapping=positions,
            query_lens=[len(token_ids)],
            starts=[start],
            context_lens=[end],
            block_tables=[[0]],
            logit_rows=to_device([len(token_ids) - 1], device),
        )
        return self.model.forward(batch)[0]
