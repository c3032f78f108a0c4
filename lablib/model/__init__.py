"""The model: a checkpoint, its decoder, attention over a paged KV cache, and the sampler."""

from lablib.model.attention import AttentionBackend, CausalAttention, TorchAttention
from lablib.model.batch import ForwardBatch
from lablib.model.config import ModelConfig
from lablib.model.dtype import default_dtype
from lablib.model.language_model import LanguageModel
from lablib.model.loading import load_model
from lablib.model.sampler import sample
from lablib.model.toy import toy_model

__all__ = [
    "AttentionBackend",
    "CausalAttention",
    "ForwardBatch",
    "LanguageModel",
    "ModelConfig",
    "TorchAttention",
    "default_dtype",
    "load_model",
    "sample",
    "toy_model",
]
