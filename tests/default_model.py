"""The default model, loaded once for the tests that run one after the other in a process."""

from __future__ import annotations

from functools import lru_cache

import torch

from lablib.model import LanguageModel, load_model


@lru_cache(maxsize=1)  # no second one beside it, for the sake of memory
def default_model(dtype: torch.dtype = torch.float32) -> LanguageModel:
    """The checkpoint that ``make setup`` fetches, in ``dtype``; executors give it caches of their own."""
    return load_model(dtype=dtype)
