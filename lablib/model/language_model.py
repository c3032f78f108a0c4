"""A model with its tokenizer and its KV cache: what labs and executors hold in their hands."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from lablib.model.attention import AttentionBackend, CausalAttention
from lablib.model.batch import ForwardBatch
from lablib.model.config import ModelConfig
from lablib.model.decoder import Decoder, Weights
from lablib.model.transfer import to_device
from lablib.validate import whole


class LanguageModel:
    """A decoder-only language model.

    Args:
        config: its shape.
        weights: gives a tensor by its name in the checkpoint.
        backend: attends, and owns the KV cache.
        make_tokenizer: called once, when the tokenizer is first needed; loading one takes longer than loading a model.
    """

    def __init__(
        self, config: ModelConfig, weights: Weights, backend: AttentionBackend, make_tokenizer: Callable[[], Any]
    ) -> None:
        self.config = config
        self.backend = backend
        self.decoder = Decoder(config, weights)
        self._make_tokenizer = cache(make_tokenizer)  # one for all that share these weights

    @property
    def dtype(self) -> torch.dtype:
        return self.decoder.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.decoder.embedding.device

    @property
    def bytes_per_weight(self) -> float:
        """Bytes that a step reads from memory for each weight of its linear layers, on average: see ``Linear``."""
        layers = self.decoder.linear_layers()
        return sum(layer.num_weights * layer.bytes_per_weight for layer in layers) / sum(
            layer.num_weights for layer in layers
        )

    def allocate_cache(self, num_blocks: int, block_size: int) -> None:
        """Makes (or replaces) the KV cache: ``num_blocks`` blocks of ``block_size`` tokens.

        Raises:
            TypeError, ValueError: a size that is no whole number of at least 1; the message names it.
        """
        whole("num_blocks", num_blocks, least=1)
        whole("block_size", block_size, least=1)
        self.backend.allocate(self.config, num_blocks, block_size, self.dtype, self.device)

    def with_cache(self, num_blocks: int, block_size: int) -> LanguageModel:
        """The same weights and tokenizer with a KV cache apart, so that users of one model don't disturb each other.

        Raises:
            ValueError: see ``allocate_cache``.
        """
        own = copy.copy(self)
        own.backend = copy.copy(self.backend)
        own.allocate_cache(num_blocks, block_size)
        return own

    @torch.inference_mode()
    def forward(self, batch: ForwardBatch) -> Tensor:
        """Computes one step, writing its K and V; returns logits ``[num_logits, vocab_size]``, float32 (or float64)."""
        return _at_least_float32(self.decoder.forward(batch, self.backend))

    @torch.inference_mode()
    def forward_full(self, token_ids: Sequence[int]) -> Tensor:
        """Computes one sequence from its first token without a KV cache; returns logits ``[T, vocab_size]``."""
        tokens = to_device(token_ids, self.device)
        rows = torch.arange(len(tokens), device=self.device)
        batch = ForwardBatch(
            token_ids=tokens,
            positions=rows,
            slot_mapping=rows,
            query_lens=[len(tokens)],
            starts=[0],
            context_lens=[len(tokens)],
            block_tables=[()],
            logit_rows=rows,
        )
        return _at_least_float32(self.decoder.forward(batch, CausalAttention()))

    @property
    def tokenizer(self) -> Any:
        """The checkpoint's own tokenizer, with the interface of ``transformers``."""
        return self._make_tokenizer()

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text`` as it stands, without chat markup."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def encode_chat(self, messages: str | Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of a conversation in the model's chat template, up to where the assistant begins to speak.

        Args:
            messages: ``{"role": …, "content": …}`` in order, or one user message as a string.
        """
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return list(self.tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, return_dict=False))

    def decode(self, token_ids: Iterable[int]) -> str:
        """Text of ``token_ids``; chat markup and other special tokens are left out."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=True))


def _at_least_float32(logits: Tensor) -> Tensor:
    # also the faster way: argmax over 49k bf16 logits is slower than converting them first
    return logits if logits.dtype is torch.float64 else logits.float()
