"""Checkpoints: which are read, which are refused and in what words, and small random ones against transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from forward_batches import Piece, flat_batch

from lablib.model import load_model, toy_model
from lablib.model.config import parse_config, read_config
from lablib.model.loading import CheckpointTensors

SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
    "eos_token_id": 2,
}


def random_checkpoint(directory: Path, family: str, shards: str = "5GB", **changes: Any) -> Any:
    """Writes a small random checkpoint of transformers' own making, norms and biases included; returns its model."""
    import transformers

    config = getattr(transformers, f"{family}Config")(**(SIZES | changes))
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(directory, max_shard_size=shards)
    (directory / "tokenizer.json").write_text("{}")  # a checkpoint has one; none of these tests needs it
    return model


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Llama", {"tie_word_embeddings": False}),
        ("Llama", {"tie_word_embeddings": True, "num_key_value_heads": 4}),
        ("Qwen2", {"tie_word_embeddings": True}),
        ("Qwen3", {"tie_word_embeddings": False, "head_dim": 32}),
    ],
)
def test_each_family_computes_the_logits_of_transformers(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = random_checkpoint(tmp_path, family, **changes)
    ours = load_model(tmp_path, torch.float32)
    tokens = torch.randint(0, 300, (40,), generator=torch.Generator().manual_seed(1)).tolist()
    with torch.inference_mode():
        expected = theirs(torch.tensor([tokens])).logits[0]
    torch.testing.assert_close(ours.forward_full(tokens), expected, rtol=0, atol=1e-4)
    ours.allocate_cache(10, 8)
    pieces = [
        Piece(tokens[:17], 0, [3, 1, 9, 0, 5]),
        Piece(tokens[17:39], 17, [3, 1, 9, 0, 5]),
        Piece(tokens[39:], 39, [3, 1, 9, 0, 5]),
    ]
    logits = torch.cat([ours.forward(flat_batch([piece], 10, 8)) for piece in pieces])
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)
    assert ours.config.num_parameters == sum(p.numel() for p in theirs.parameters())


def test_a_checkpoint_in_several_files_is_read_like_one(tmp_path: Path) -> None:
    random_checkpoint(tmp_path / "one", "Llama")
    random_checkpoint(tmp_path / "many", "Llama", shards="100KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    one, many = load_model(tmp_path / "one", torch.float32), load_model(tmp_path / "many", torch.float32)
    assert torch.equal(one.forward_full([1, 2, 3]), many.forward_full([1, 2, 3]))


def test_the_generation_config_names_the_tokens_that_end_an_answer(tmp_path: Path) -> None:
    random_checkpoint(tmp_path, "Llama")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9], "bos_token_id": 1}))
    assert read_config(tmp_path).eos_token_ids == (7, 9)
    (tmp_path / "generation_config.json").unlink()
    assert read_config(tmp_path).eos_token_ids == (2,)


RAW = SIZES | {"architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5, "rope_theta": 5_000.0}


def test_rope_parameters_of_old_and_new_configs_are_understood() -> None:
    new = {k: v for k, v in RAW.items() if k != "rope_theta"}
    assert parse_config(RAW, "old").rope_theta == 5_000.0
    assert parse_config(new | {"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, "new").rope_theta == 7.0
    assert parse_config(RAW, "x").head_dim == 16
    assert parse_config(RAW | {"head_dim": 32}, "x").head_dim == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"architectures": ["MambaForCausalLM"]},
            r"MambaForCausalLM is not supported; supported are LlamaForCausalLM, Q",
        ),
        ({"architectures": None}, r"\(none named\) is not supported"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "RoPE scaling of type 'llama3'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "RoPE scaling of type 'linear'"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "RoPE scaling of type 'yarn'"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"use_sliding_window": True}, "use_sliding_window = True"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config = {'quant_method': 'awq'}"),
    ],
)
def test_what_the_decoder_does_not_compute_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_config(RAW | change, "some-model")


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    random_checkpoint(tmp_path, "Llama")
    with pytest.raises(KeyError, match=r"model\.layers\.3\.input_layernorm\.weight"):
        CheckpointTensors(tmp_path, torch.float32, torch.device("cpu"))("model.layers.3.input_layernorm.weight")


def test_the_weights_that_are_multiplied_are_all_but_norms_and_look_ups() -> None:
    config = toy_model(num_layers=3, num_heads=4, num_kv_heads=2, head_dim=8).config
    assert config.num_matmul_parameters == config.num_parameters - 7 * 32 - 259 * 32
