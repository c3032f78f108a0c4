"""From a llama.cpp GGUF file to a directory that `transformers` and this library load: weights, config, tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from lablib.model.integrity import WEIGHTS

_TOP_LEVEL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert_gguf(source: Path, directory: Path) -> None:
    """Write `source` (Llama family, BPE tokenizer) into `directory` as bf16 safetensors, config and tokenizer files.

    Every quantised weight is dequantised in float32 and rounded once. Raises `ValueError` on another architecture.
    """
    reader = gguf.GGUFReader(source)
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    if metadata["general.architecture"] != "llama":
        raise ValueError(f"{source.name} holds a {metadata['general.architecture']!r} model, expected 'llama'")
    config = _config(metadata, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
    tensors = {_name(tensor.name): _tensor(tensor, config) for tensor in reader.tensors}
    save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})
    (directory / WEIGHTS).chmod(0o644)  # safetensors writes 0600, useless in a cache that several users share
    generation = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", generation)
    _tokenizer(metadata).save(str(directory / "tokenizer.json"))
    _write_json(directory / "tokenizer_config.json", _tokenizer_config(metadata))


def _config(metadata: dict[str, Any], tied: bool) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
        "hidden_size": metadata["llama.embedding_length"],
        "intermediate_size": metadata["llama.feed_forward_length"],
        "num_hidden_layers": metadata["llama.block_count"],
        "num_attention_heads": metadata["llama.attention.head_count"],
        "num_key_value_heads": metadata["llama.attention.head_count_kv"],
        "head_dim": metadata["llama.rope.dimension_count"],
        "max_position_embeddings": metadata["llama.context_length"],
        "rope_theta": metadata["llama.rope.freq_base"],
        "rms_norm_eps": _as_written(metadata["llama.attention.layer_norm_rms_epsilon"]),
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
    }


def _as_written(value: float) -> float:
    """Return the short decimal that a float32 in the metadata stands for (9.99999974e-06 → 1e-05)."""
    return float(str(np.float32(value)))


def _name(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{_IN_LAYER[parts[2]]}.{parts[3]}"
    return f"{_TOP_LEVEL[parts[0]]}.{parts[1]}"


def _tensor(tensor: gguf.ReaderTensor, config: dict[str, Any]) -> torch.Tensor:
    weight = gguf.dequantize(tensor.data, tensor.tensor_type)
    if tensor.name.endswith("attn_q.weight"):
        weight = _halves_together(weight, config["num_attention_heads"])
    elif tensor.name.endswith("attn_k.weight"):
        weight = _halves_together(weight, config["num_key_value_heads"])
    return torch.tensor(weight).to(torch.bfloat16)


def _halves_together(weight: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Undo llama.cpp's row order, which keeps rotary pairs side by side; here they lie half a head apart."""
    pairs = weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    """Build the byte-level BPE tokenizer, every digit a token of its own, as SmolLM was trained."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == gguf.TokenType.CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return tokenizer


def _tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    def token(kind: str) -> str:
        return str(metadata["tokenizer.ggml.tokens"][metadata[f"tokenizer.ggml.{kind}_token_id"]])

    return {
        # A model-specific class would rebuild the pre-tokenizer and lose the digit split.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "unk_token": token("unknown"),
        "pad_token": token("padding"),
        "model_max_length": metadata["llama.context_length"],
        "chat_template": metadata["tokenizer.chat_template"],
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
