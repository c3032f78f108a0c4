"""What a step costs on paper: bytes moved, operations done, and which of the two a machine runs out of first.

Source of the picture: Williams, Waterman, Patterson, "Roofline" (CACM 2009).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from lablib.validate import real, whole


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine can do at best.

    Args:
        name: for titles.
        flops: floating-point operations a second of its matrix units, in the dtype that the model computes in.
        bandwidth: bytes a second that it reads from memory.
        source: where the two numbers come from.
        memory: bytes of memory beside the processor; ``None`` when that sets no limit here.
    """

    name: str
    flops: float
    bandwidth: float
    source: str
    memory: float | None = None

    def __post_init__(self) -> None:
        real("flops (a second)", self.flops, above=0)
        real("bandwidth (bytes a second)", self.bandwidth, above=0)
        if self.memory is not None:
            real("memory (bytes)", self.memory, above=0)

    @property
    def balance(self) -> float:
        """Operations the machine can do for each byte it reads: steps below this intensity wait for memory."""
        return self.flops / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """Most operations a second for a step of this intensity (operations per byte): the roofline."""
        return min(self.flops, intensity * self.bandwidth)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a model costs: its weights, and the numbers behind its KV cache.

    Args:
        name: for titles.
        num_weights: parameters, embedding included.
        num_layers: decoder layers.
        num_kv_heads: key/value heads.
        head_dim: elements of one key or value.
        num_heads: query heads.
        vocab_size: rows of the embedding table and of the output head.
        hidden_size: columns of both.
        intermediate_size: width inside the feed-forward network.
        tied: whether the output head is the embedding table, and counted once.
    """

    name: str
    num_weights: int
    num_layers: int
    num_kv_heads: int
    head_dim: int
    num_heads: int
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    tied: bool

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type == "int":
                whole(field.name, getattr(self, field.name), least=1)

    @property
    def head_weights(self) -> int:
        """Weights of the output head: only positions that sample are multiplied with them."""
        return self.vocab_size * self.hidden_size

    @property
    def layer_weights(self) -> int:
        """Weights that every position is multiplied with: all but the head and the embedding, which is looked up."""
        return self.num_weights - self.head_weights * (1 if self.tied else 2)


# Shapes from the models' published config.json files, in the order of the fields above.
MODELS = {
    shape.name: shape
    for shape in (
        ModelShape("SmolLM2-135M", 134_515_008, 30, 3, 64, 9, 49_152, 576, intermediate_size=1536, tied=True),
        ModelShape("Qwen2.5-0.5B", 494_032_768, 24, 2, 64, 14, 151_936, 896, intermediate_size=4864, tied=True),
        ModelShape("Llama-3-8B", 8_030_261_248, 32, 8, 128, 32, 128_256, 4096, intermediate_size=14_336, tied=False),
        ModelShape("Llama-3-70B", 70_553_706_496, 80, 8, 128, 64, 128_256, 8192, intermediate_size=28_672, tied=False),
    )
}

# Dense bf16 or fp16 peaks and memory bandwidths of NVIDIA's data sheets.
T4 = Machine("T4", flops=65e12, bandwidth=320e9, source="NVIDIA T4 data sheet, fp16", memory=16e9)
A100 = Machine(
    "A100", flops=312e12, bandwidth=2039e9, source="NVIDIA A100 80 GB SXM data sheet, bf16 dense", memory=80e9
)
H100 = Machine("H100", flops=989e12, bandwidth=3350e9, source="NVIDIA H100 SXM data sheet, bf16 dense", memory=80e9)
H200 = Machine("H200", flops=989e12, bandwidth=4800e9, source="NVIDIA H200 SXM data sheet, bf16 dense", memory=141e9)
MACHINES = {machine.name: machine for machine in (T4, A100, H100)}


def kv_bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int, bytes_per_element: int) -> int:
    """Bytes of KV cache that one token occupies: one key and one value a layer and KV head.

    Args:
        num_layers: decoder layers.
        num_kv_heads: key/value heads, fewer than query heads under grouped-query attention.
        head_dim: elements of one key or value.
        bytes_per_element: 2 for bf16 and fp16, 4 for float32.
    """
    return 2 * num_layers * num_kv_heads * head_dim * bytes_per_element


def step_intensity(num_weights: int, num_tokens: int, kv_bytes_read: int, bytes_per_weight: int) -> float:
    """Arithmetic intensity of one step: floating-point operations for each byte read from memory.

    A token is multiplied with every weight once: one multiplication and one addition each. The weights are read once
    a step, however many tokens share them; the K/V of every earlier token are read for each request. (The attention's
    own operations are left out: a few percent at contexts of some hundred tokens.)

    Args:
        num_weights: weights that take part in matrix products.
        num_tokens: tokens computed in the step: the batch size in decode, the prompt's length in prefill.
        kv_bytes_read: bytes of K/V that the step reads.
        bytes_per_weight: 2 for bf16 and fp16, 4 for float32.
    """
    operations = 2 * num_weights * num_tokens
    bytes_read = num_weights * bytes_per_weight + kv_bytes_read
    return operations / bytes_read
