"""How long a step takes on a machine that is not here: a roofline, with stated figures.

A step runs its parts one after the other, and each part waits for memory or computes, whichever takes longer
(Williams, Waterman, Patterson, "Roofline", CACM 2009):

    linear layers   max(weights read once, 2 operations for each weight and position)
    attention       max(K/V of all contexts read and of the new positions written, 4 operations for each query–key pair,
                        query head, layer and element)
    the rest        so much for a step, and so much for each row of it

Weights, K and V have 2 bytes (bf16 or fp16). Left out: activations, communication between GPUs, and everything a
server does besides (tokenizing, HTTP).
"""

from __future__ import annotations

from dataclasses import dataclass

from lablib.executor.work import StepWork, work_of
from lablib.roofline import A100, H100, H200, MODELS, T4, Machine, ModelShape, kv_bytes_per_token
from lablib.step import StepPlan
from lablib.validate import real

_BYTES = 2


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How much of a machine's peaks a program reaches, and what a step costs besides.

    Args:
        compute: share of the peak operations that matrix products reach, 0 … 1.
        memory: share of the peak bandwidth that reading weights and K/V reaches, 0 … 1.
        seconds_per_step: planning a step, launching kernels, fetching the sampled tokens.
        seconds_per_sequence: what each row adds to that.
        source: where these figures come from.
    """

    compute: float
    memory: float
    seconds_per_step: float
    seconds_per_sequence: float
    source: str

    def __post_init__(self) -> None:
        for share in ("compute", "memory"):
            real(f"{share}, a share of the peak,", getattr(self, share), above=0, most=1)
        for seconds in ("seconds_per_step", "seconds_per_sequence"):
            real(seconds, getattr(self, seconds), least=0)


@dataclass(frozen=True, slots=True)
class RooflineCost:
    """Predicts the duration of a step from a machine's limits and a model's shape.

    Args:
        machine: peaks of operations and bandwidth.
        model: weights and KV cache.
        efficiency: what is reached of the peaks, and what a step costs besides.
    """

    machine: Machine
    model: ModelShape
    efficiency: Efficiency

    def seconds(self, plan: StepPlan) -> float:
        return self.seconds_for(work_of(plan))

    def seconds_for(self, work: StepWork) -> float:
        """Duration of a step with this work."""
        model = self.model
        flops = self.machine.flops * self.efficiency.compute
        bandwidth = self.machine.bandwidth * self.efficiency.memory
        products = model.layer_weights * work.positions + model.head_weights * work.samples
        linear = max((model.layer_weights + model.head_weights) * _BYTES / bandwidth, 2 * products / flops)
        attended = 4 * model.num_layers * model.num_heads * model.head_dim * work.pairs
        kv_bytes = self.kv_bytes_per_token * (work.context + work.positions)
        attention = max(kv_bytes / bandwidth, attended / flops)
        rest = self.efficiency.seconds_per_step + self.efficiency.seconds_per_sequence * work.sequences
        return linear + attention + rest

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of K and V that one token of this model occupies."""
        return kv_bytes_per_token(self.model.num_layers, self.model.num_kv_heads, self.model.head_dim, _BYTES)

    def describe(self) -> str:
        """What is assumed, in a sentence that says that it is no measurement."""
        machine, reached = self.machine, self.efficiency
        return (
            f"{self.model.name} on {machine.name}: model, not measurement. Peaks {machine.flops / 1e12:g} TFLOP/s and "
            f"{machine.bandwidth / 1e9:,.0f} GB/s ({machine.source}); {reached.compute:.0%} and {reached.memory:.0%} "
            f"of them reached, {reached.seconds_per_step * 1e3:g} ms a step and "
            f"{reached.seconds_per_sequence * 1e6:g} µs a row besides ({reached.source})."
        )


_CPU_PEAKS = "about what lablib.measure finds on two quiet Zen 5 cores, bf16; overheads set to match its decode steps"
CPU_2CORE = Machine("2 CPU cores", flops=0.90e12, bandwidth=47e9, source=_CPU_PEAKS)
EAGER_CPU = Efficiency(0.9, 0.75, 4e-3, 500e-6, "from decode steps of 1 to 32 rows measured there")
# No vendor publishes these. Large matrix products and long reads reach about such shares of the data sheets' peaks, and
# engines with captured graphs spend about a millisecond of a step outside the model.
TUNED_GPU = Efficiency(0.6, 0.8, 1e-3, 5e-6, "assumed, typical of tuned engines")
DEVICES = {
    "cpu-2core": (CPU_2CORE, EAGER_CPU),
    "t4": (T4, TUNED_GPU),
    "a100": (A100, TUNED_GPU),
    "h100": (H100, TUNED_GPU),
    "h200": (H200, TUNED_GPU),
}
SHAPES = {name.lower(): shape for name, shape in MODELS.items()}


def preset(device: str, model: str) -> RooflineCost:
    """The cost model of a known device and model.

    Args:
        device: one of ``DEVICES``.
        model: one of ``SHAPES``; capitals don't matter.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    for kind, name, known in (("device", device, DEVICES), ("model", model, SHAPES)):
        if name.lower() not in known:
            raise ValueError(f"there is no {kind} {name!r}; there are {', '.join(known)}")
    machine, efficiency = DEVICES[device.lower()]
    return RooflineCost(machine, SHAPES[model.lower()], efficiency)
