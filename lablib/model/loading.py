"""From a checkpoint directory to a ``LanguageModel``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lablib.model.attention import AttentionBackend, TorchAttention
from lablib.model.checkpoint import DEFAULT_TITLE, resolve
from lablib.model.config import read_config
from lablib.model.dtype import default_dtype
from lablib.model.language_model import LanguageModel


def load_model(
    name_or_path: str | Path | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    backend: AttentionBackend | None = None,
) -> LanguageModel:
    """Loads a model, ready to run.

    Args:
        name_or_path: a checkpoint directory or a Hugging Face hub id; None: the course's default model.
        dtype: of weights and KV cache; None: the fastest that is right on this device.
        device: where to compute.
        backend: attends, and owns the KV cache; None: plain PyTorch.

    Raises:
        ValueError: the checkpoint's architecture is not supported; names it and those that are.
    """
    directory = resolve(name_or_path)
    device = torch.device(device)
    title = DEFAULT_TITLE if name_or_path is None else Path(name_or_path).name
    config = replace(read_config(directory), name=title)
    tensors = CheckpointTensors(directory, dtype or default_dtype(str(device)), device)
    return LanguageModel(config, tensors, backend or TorchAttention(), lambda: _load_tokenizer(directory))


class CheckpointTensors:
    """The tensors of a checkpoint's safetensors files by name, read when asked for and not kept."""

    def __init__(self, directory: Path, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype = dtype
        self.device = device
        self.files = _file_of_each_tensor(directory)

    def __call__(self, name: str) -> Tensor:
        """The tensor ``name`` in the wanted dtype, on the wanted device; ``KeyError`` if there is none."""
        from safetensors import safe_open

        if name not in self.files:
            raise KeyError(f"the checkpoint has no tensor {name}")
        with safe_open(self.files[name], framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        # a copy also where nothing changes, or the whole file would stay mapped
        return tensor.to(self.device, self.dtype, copy=True)


def _file_of_each_tensor(directory: Path) -> dict[str, Path]:
    from safetensors import safe_open

    index = directory / "model.safetensors.index.json"
    if index.exists():
        return {k: directory / v for k, v in json.loads(index.read_text(encoding="utf-8"))["weight_map"].items()}
    path = directory / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        return dict.fromkeys(file.keys(), path)


def _load_tokenizer(directory: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)
