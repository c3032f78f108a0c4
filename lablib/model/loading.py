"""From a checkpoint directory to a ``LanguageModel``."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from lablib.model.attention import AttentionBackend, TorchAttention
from lablib.model.checkpoint import DEFAULT_TITLE, resolve
from lablib.model.config import ModelConfig, read_config
from lablib.model.dtype import default_dtype
from lablib.model.language_model import LanguageModel

BackendName = Literal["torch", "triton"]


def load_model(
    name_or_path: str | Path | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
    backend: AttentionBackend | BackendName | None = None,
) -> LanguageModel:
    """Loads a model, ready to run.

    Args:
        name_or_path: a checkpoint directory or a Hugging Face hub id; None: the course's default model.
        dtype: of weights and KV cache; None: the fastest that is right on this device.
        device: where to compute.
        backend: attends, and owns the KV cache: ``"torch"`` (plain PyTorch), ``"triton"`` (the lab's kernels; without a
            GPU in Triton's interpreter, very slowly) or an object of your own; None: Triton on a GPU where it is
            installed and has kernels for this model, else PyTorch.

    Raises:
        ValueError: the checkpoint's architecture is not supported; names it and those that are.
    """
    directory = resolve(name_or_path)
    device = torch.device(device)
    title = DEFAULT_TITLE if name_or_path is None else Path(name_or_path).name
    config = replace(read_config(directory), name=title)
    dtype = dtype or default_dtype(str(device))
    if backend is None or isinstance(backend, str):
        backend = make_backend(backend or default_backend(config, dtype, device))
    tensors = CheckpointTensors(directory, dtype, device)
    return LanguageModel(config, tensors, backend, lambda: _load_tokenizer(directory))


def default_backend(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> BackendName:
    """The fastest backend that can serve a model of this shape and dtype on this device."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return "torch"
    from labkernels.launch import unsupported

    return "torch" if unsupported(dtype, config.head_dim) else "triton"


def make_backend(name: BackendName) -> AttentionBackend:
    """A backend by its name.

    Raises:
        ValueError: there is none of this name.
    """
    if name == "torch":
        return TorchAttention()
    if name == "triton":
        from lablib.model.triton_attention import TritonAttention

        return TritonAttention()
    raise ValueError(f"there is no attention backend {name!r}: choose 'torch' or 'triton'")


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
