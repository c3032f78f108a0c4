"""The decoder: embedding, layers of attention and feed-forward, head. Shapes stand beside the lines.

T: tokens in the flat batch; C: hidden size; H: query heads; K: key/value heads; D: width of a head;
F: width inside the feed-forward network; V: vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor

from lablib.model.attention import AttentionBackend
from lablib.model.batch import ForwardBatch
from lablib.model.config import ModelConfig
from lablib.model.linear import Linear

Weights = Callable[[str], Tensor]  # a tensor of the checkpoint by its Hugging Face name


class RMSNorm:
    """Scales each row to unit root mean square, then channel by channel (Zhang and Sennrich, 2019)."""

    __slots__ = ("eps", "weight")

    def __init__(self, weight: Tensor, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class RotaryEmbedding:
    """Rotates pairs of channels by an angle that grows with the position (RoPE, Su et al., 2021).

    Channel i is paired with i + D/2, as in every Llama checkpoint on Hugging Face.
    """

    def __init__(self, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> None:
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        inverse = config.rope_theta**-half  # [D/2]
        if dtype is not torch.float64:
            inverse = inverse.float()
        angles = torch.arange(config.max_model_len, dtype=inverse.dtype)[:, None] * inverse
        cos, sin = angles.cos(), angles.sin()
        self.cos = torch.cat((cos, cos), dim=1).to(device, dtype)[:, None]  # [max_model_len, 1, D]
        self.sin = torch.cat((-sin, sin), dim=1).to(device, dtype)[:, None]

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of ``positions [T]``, ``[T, 1, D]`` each; the same in every layer."""
        return self.cos[positions], self.sin[positions]


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the heads ``[T, heads, D]``."""
    cos, sin = rotary
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


class DecoderLayer:
    """One layer: attention, then a gated feed-forward network, each added to the residual stream."""

    def __init__(self, index: int, config: ModelConfig, weights: Weights) -> None:
        def joined(*names: str) -> Tensor:
            return torch.cat([weights(f"model.layers.{index}.{name}") for name in names])

        self.index = index
        self.config = config
        # one matmul for q, k and v, and one for gate and up: fewer, larger calls
        qkv = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        qkv_bias = joined(*(f"{name}.bias" for name in qkv)) if config.qkv_bias else None
        self.qkv_proj = Linear(joined(*(f"{name}.weight" for name in qkv)), qkv_bias)
        self.o_proj = Linear(joined("self_attn.o_proj.weight"))
        self.gate_up_proj = Linear(joined("mlp.gate_proj.weight", "mlp.up_proj.weight"))
        self.down_proj = Linear(joined("mlp.down_proj.weight"))
        self.input_norm = RMSNorm(joined("input_layernorm.weight"), config.rms_norm_eps)
        self.post_attention_norm = RMSNorm(joined("post_attention_layernorm.weight"), config.rms_norm_eps)
        if config.qk_norm:
            self.q_norm = RMSNorm(joined("self_attn.q_norm.weight"), config.rms_norm_eps)
            self.k_norm = RMSNorm(joined("self_attn.k_norm.weight"), config.rms_norm_eps)

    def __call__(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], batch: ForwardBatch, backend: AttentionBackend
    ) -> Tensor:
        x = x + self.attention(self.input_norm(x), rotary, batch, backend)  # [T, C]
        return x + self.feed_forward(self.post_attention_norm(x))  # [T, C]

    def attention(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], batch: ForwardBatch, backend: AttentionBackend
    ) -> Tensor:
        num_heads = self.config.num_heads
        first_v = num_heads + self.config.num_kv_heads
        qkv = self.qkv_proj(x).view(len(x), -1, self.config.head_dim)  # [T, H + 2K, D]
        qk, v = qkv[:, :first_v], qkv[:, first_v:]  # [T, H + K, D], [T, K, D]
        if self.config.qk_norm:
            qk = torch.cat((self.q_norm(qk[:, :num_heads]), self.k_norm(qk[:, num_heads:])), dim=1)
        qk = rotate(qk, rotary)
        out = backend.attend(self.index, qk[:, :num_heads], qk[:, num_heads:], v, batch)  # [T, H·D]
        return self.o_proj(out)  # [T, C]

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)  # [T, F] each
        return self.down_proj(F.silu(gate) * up)  # [T, C]


class Decoder:
    """The whole network; holds weights, knows neither requests nor where K and V live.

    Args:
        config: its shape.
        weights: gives a tensor by its name in the checkpoint, in the wanted dtype and on the wanted device. Each is
            asked for once and not kept where a packed copy takes its place.
    """

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.embedding = weights("model.embed_tokens.weight")  # [V, C]
        self.layers = [DecoderLayer(i, config, weights) for i in range(config.num_layers)]
        self.norm = RMSNorm(weights("model.norm.weight"), config.rms_norm_eps)
        self.head = Linear(self.embedding if config.tie_word_embeddings else weights("lm_head.weight"))
        self.rotary = RotaryEmbedding(config, self.embedding.dtype, self.embedding.device)

    def linear_layers(self) -> list[Linear]:
        """All linear layers, in the order in which a step reads them."""
        inner = [(each.qkv_proj, each.o_proj, each.gate_up_proj, each.down_proj) for each in self.layers]
        return [*chain.from_iterable(inner), self.head]

    def forward(self, batch: ForwardBatch, backend: AttentionBackend) -> Tensor:
        """Computes the batch; returns logits ``[num_logits, V]`` of ``batch.logit_rows`` in the model's dtype."""
        backend.prepare(batch)
        rotary = self.rotary.at(batch.positions)
        x = F.embedding(batch.token_ids, self.embedding)  # [T, C]
        for layer in self.layers:
            x = layer(x, rotary, batch, backend)
        return self.head(self.norm(x[batch.logit_rows]))  # [num_logits, V]
