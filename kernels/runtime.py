"""Triton as the kernels need it: compiled for a GPU, interpreted where there is none, absent on macOS."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import torch

# Triton decides how a kernel will run when it is decorated, so this must be settled before a kernel file is read.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # unset, some releases of Triton print a warning


class AbsentKernel:
    """Stands where a kernel would: its file can be read and its PyTorch twin used, only a launch fails."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        raise RuntimeError(
            "Triton is not installed, and there is none for macOS: use the kernel's PyTorch twin, whose name ends in "
            "_torch; on Linux, pip install triton"
        )


class AbsentTriton:
    """Decorates as Triton does where Triton is not installed."""

    def jit(self, kernel: object = None, **options: object) -> Any:
        return AbsentKernel() if kernel is not None else lambda kernel: AbsentKernel()


def find(name: str) -> Any:
    """The module ``name`` of Triton; where Triton is absent, what lets kernel files be read without it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return AbsentTriton()


triton = find("triton")
tl = find("triton.language")
