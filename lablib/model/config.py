"""What a checkpoint's ``config.json`` says about the model, in this project's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# architecture -> (bias on q, k and v; norm on q and k)
SUPPORTED = {
    "LlamaForCausalLM": (False, False),
    "Qwen2ForCausalLM": (True, False),
    "Qwen3ForCausalLM": (False, True),
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a decoder of the Llama family.

    Args:
        name: what to call the model in titles and traces.
        num_layers: decoder layers.
        hidden_size: width of the residual stream.
        num_heads: query heads.
        num_kv_heads: key/value heads; fewer than ``num_heads`` means grouped-query attention.
        head_dim: width of one head.
        intermediate_size: width inside the feed-forward network.
        vocab_size: rows of the embedding table.
        max_model_len: most positions the model was trained for.
        rope_theta: base of the rotary position embedding.
        rms_norm_eps: added under the square root of every norm.
        tie_word_embeddings: whether the output head is the embedding table.
        eos_token_ids: tokens that end an answer.
        qkv_bias: whether the q, k and v projections have a bias (Qwen2).
        qk_norm: whether q and k are normalised per head (Qwen3).
    """

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_model_len: int
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = True
    eos_token_ids: tuple[int, ...] = ()
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def num_parameters(self) -> int:
        """Weights of the model; a tied head counts once."""
        heads = self.num_heads + 2 * self.num_kv_heads
        attention = self.hidden_size * self.head_dim * (heads + self.num_heads)
        attention += heads * self.head_dim * self.qkv_bias + 2 * self.head_dim * self.qk_norm
        layer = attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size
        tables = self.vocab_size * self.hidden_size * (1 if self.tie_word_embeddings else 2)
        return self.num_layers * layer + tables + self.hidden_size

    @property
    def num_matmul_parameters(self) -> int:
        """Weights that every token is multiplied with: all but the norms, the biases and the embedding look-up."""
        attention = self.hidden_size * self.head_dim * 2 * (self.num_heads + self.num_kv_heads)
        layer = attention + 3 * self.hidden_size * self.intermediate_size
        return self.num_layers * layer + self.vocab_size * self.hidden_size


def read_config(directory: Path) -> ModelConfig:
    """Reads ``config.json`` (and ``generation_config.json``, if there) of a checkpoint directory.

    Raises:
        ValueError: an architecture, a RoPE scaling or an activation that this decoder does not compute; names it.
        FileNotFoundError: no ``config.json`` in the directory.
    """
    raw = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    generation = directory / "generation_config.json"
    if generation.exists():
        raw = raw | {k: v for k, v in json.loads(generation.read_text(encoding="utf-8")).items() if k == "eos_token_id"}
    return parse_config(raw, name=directory.name)


def parse_config(raw: Mapping[str, Any], name: str) -> ModelConfig:
    """Translates the fields of a Hugging Face ``config.json``; raises ``ValueError`` on what is not supported."""
    architecture = (raw.get("architectures") or ["(none named)"])[0]
    if architecture not in SUPPORTED:
        raise ValueError(f"{name}: architecture {architecture} is not supported; supported are {', '.join(SUPPORTED)}")
    qkv_bias, qk_norm = SUPPORTED[architecture]
    num_heads = raw["num_attention_heads"]
    config = ModelConfig(
        name=name,
        num_layers=raw["num_hidden_layers"],
        hidden_size=raw["hidden_size"],
        num_heads=num_heads,
        num_kv_heads=raw.get("num_key_value_heads") or num_heads,
        head_dim=raw.get("head_dim") or raw["hidden_size"] // num_heads,
        intermediate_size=raw["intermediate_size"],
        vocab_size=raw["vocab_size"],
        max_model_len=raw["max_position_embeddings"],
        rope_theta=_rope_theta(raw, name),
        rms_norm_eps=raw["rms_norm_eps"],
        tie_word_embeddings=raw.get("tie_word_embeddings", False),
        eos_token_ids=_token_ids(raw.get("eos_token_id")),
        qkv_bias=qkv_bias,
        qk_norm=qk_norm,
    )
    _refuse_variants(raw, name)
    return config


def _rope_theta(raw: Mapping[str, Any], name: str) -> float:
    # transformers 5 writes rope_parameters; version 4 wrote rope_theta and rope_scaling
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind != "default":
        raise ValueError(f"{name}: RoPE scaling of type {kind!r} is not supported; only 'default' (no scaling) is")
    return float(rope.get("rope_theta") or raw.get("rope_theta") or 10_000.0)


def _token_ids(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def _refuse_variants(raw: Mapping[str, Any], name: str) -> None:
    variants = {
        "hidden_act": raw.get("hidden_act", "silu") != "silu",
        "mlp_bias": bool(raw.get("mlp_bias")),
        "attention_bias": bool(raw.get("attention_bias")),
        "use_sliding_window": bool(raw.get("use_sliding_window")),
        "quantization_config": raw.get("quantization_config") is not None,
    }
    for field, unsupported in variants.items():
        if unsupported:
            raise ValueError(f"{name}: {field} = {raw[field]!r} is not supported by this decoder")
