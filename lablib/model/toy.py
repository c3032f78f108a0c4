"""A random model small enough for exact tests: it says nothing sensible, but always the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lablib.model.attention import AttentionBackend, TorchAttention
from lablib.model.config import ModelConfig
from lablib.model.language_model import LanguageModel
from lablib.roofline import ModelShape

NUM_BYTES = 256
BOS, EOS, PAD = 256, 257, 258

# Sharp attention and small embeddings: at scale 1 the last token decides nearly alone, and most greedy texts end in one
# token repeated; so scaled, 40 tokens hold at least 20 different ones.
SCALES = {"embed_tokens": 0.3, "q_proj": 3.0, "k_proj": 3.0}


class ByteTokenizer:
    """One token a byte, and three special ones; the part of the ``transformers`` interface that a model needs."""

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """UTF-8 bytes of ``text``, after BOS if special tokens are wanted."""
        return [BOS] * add_special_tokens + list(text.encode())

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Text of the bytes among ``token_ids``; special tokens have none."""
        return bytes(i for i in token_ids if i < NUM_BYTES).decode(errors="replace")

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True, return_dict: bool = False
    ) -> list[int]:
        """A line for each message, and the start of the assistant's."""
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return self.encode("".join(lines) + "assistant: " * add_generation_prompt, add_special_tokens=True)


def toy_model(
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    num_layers: int = 2,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int = 8,
    vocab_size: int = 259,
    max_model_len: int = 256,
    backend: AttentionBackend | None = None,
    device: str | torch.device = "cpu",
) -> LanguageModel:
    """Makes a model of random weights, the same for the same arguments on every machine.

    Args:
        seed: of the weights.
        dtype: of weights and KV cache; float64 leaves no room for rounding to change a greedy token.
        num_layers: decoder layers.
        num_heads: query heads; ``head_dim`` times as many is the hidden size.
        num_kv_heads: key/value heads.
        head_dim: width of a head.
        vocab_size: at least 259 for the byte tokenizer.
        max_model_len: longest sequence.
        backend: attends; None: plain PyTorch.
        device: where to compute; the weights are drawn on the CPU.
    """
    hidden_size = num_heads * head_dim
    config = ModelConfig(
        name=f"toy-{seed}",
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        intermediate_size=3 * hidden_size,
        vocab_size=vocab_size,
        max_model_len=max_model_len,
        tie_word_embeddings=False,
        eos_token_ids=(EOS,),
    )
    weights = RandomWeights(config, seed, dtype, torch.device(device))
    return LanguageModel(config, weights, backend or TorchAttention(), ByteTokenizer)


def constant_model(shape: ModelShape, dtype: torch.dtype) -> LanguageModel:
    """Makes a model of some shape whose weights are all alike: it says nothing, and is made in no time, to be timed.

    Args:
        shape: its layers, heads and widths; the output head is tied to the embedding.
        dtype: of weights and KV cache.
    """
    config = ModelConfig(
        name=shape.name,
        num_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate_size,
        vocab_size=shape.vocab_size,
        max_model_len=256,
    )
    shapes = weight_shapes(config)
    norm = (config.hidden_size,)
    return LanguageModel(
        config,
        lambda name: torch.full(shapes.get(name.split(".")[-2], norm), 0.01, dtype=dtype),
        TorchAttention(),
        ByteTokenizer,
    )


def weight_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of the weight matrices by the last part of their names in a checkpoint; all other weights are norms."""
    heads, kv_heads = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    hidden, inner, vocab = config.hidden_size, config.intermediate_size, config.vocab_size
    return {
        "embed_tokens": (vocab, hidden),
        "lm_head": (vocab, hidden),
        "q_proj": (heads, hidden),
        "k_proj": (kv_heads, hidden),
        "v_proj": (kv_heads, hidden),
        "o_proj": (hidden, heads),
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }


class RandomWeights:
    """Random tensors for every name that the decoder asks for, drawn in the order in which it asks."""

    def __init__(self, config: ModelConfig, seed: int, dtype: torch.dtype, device: torch.device | None = None) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = dtype
        self.device = device
        self.shapes = weight_shapes(config)

    def __call__(self, name: str) -> Tensor:
        kind = name.split(".")[-2]
        if kind not in self.shapes:
            return torch.ones(self.shapes["lm_head"][1], dtype=self.dtype, device=self.device)
        shape = self.shapes[kind]
        scale = SCALES.get(kind, 1.0) * (1.0 if kind == "embed_tokens" else shape[1] ** -0.5)
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale
        return drawn.to(device=self.device, dtype=self.dtype)
