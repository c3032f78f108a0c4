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


NOT_INSTALLED = (
    "Triton is not installed, and there is none for macOS: use the kernel's PyTorch twin, whose name ends in _torch; "
    "on Linux, pip install triton"
)
IMPORTED_BEFORE = (
    "Triton was imported before labkernels and is set to compile, but there is no GPU: start anew and import lablib or "
    "labkernels first, or set TRITON_INTERPRET=1; the PyTorch twins, whose names end in _torch, work as they are"
)


class AbsentKernel:
    """Stands where a kernel would: its file can be read and its PyTorch twin used, only a launch fails."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getitem__(self, grid: object) -> Callable[..., None]:
        raise RuntimeError(self.reason)


class AbsentTriton:
    """Decorates as Triton does where it can't be used; ``tl.constexpr`` in signatures stays a text."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def jit(self, kernel: object = None, **options: object) -> Any:
        return AbsentKernel(self.reason) if kernel is not None else self.jit


def find_triton() -> tuple[Any, Any]:
    """``triton`` and ``triton.language``, or what lets kernel files be read without them."""
    try:
        found, language = importlib.import_module("triton"), importlib.import_module("triton.language")
    except ImportError:
        return AbsentTriton(NOT_INSTALLED), None
    if INTERPRETED and isinstance(language.max, importlib.import_module("triton.runtime.jit").JITFunction):
        return AbsentTriton(IMPORTED_BEFORE), None
    return found, language


triton, tl = find_triton()
