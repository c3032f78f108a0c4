"""Which floating-point type a model runs in on this machine when nobody says."""

from __future__ import annotations

import torch

# Ask torch, not /proc: what counts is the instructions that its kernels will use.
_CPU_PROBES = {
    "avx2": "_is_avx2_supported",
    "avx512": "_is_avx512_supported",
    "avx512_bf16": "_is_avx512_bf16_supported",
    "amx": "_is_amx_tile_supported",
}
BF16_FEATURES = frozenset({"avx512_bf16", "amx"})


def cpu_features() -> tuple[str, ...]:
    """Return which of avx2, avx512, avx512_bf16 and amx this CPU offers to torch, narrowest first."""
    # The probes are private and come and go: one that is missing counts as "no". They ask the CPU, but
    # ATEN_CPU_CAPABILITY may have told torch to keep to AVX2.
    narrow = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
    found = [name for name, probe in _CPU_PROBES.items() if getattr(torch.cpu, probe, lambda: False)()]
    return tuple(name for name in found if name == "avx2" or not narrow)


def default_dtype(device: str = "cpu") -> torch.dtype:
    """Return bfloat16 where `device` multiplies it in hardware, else float32.

    Without such instructions bf16 is converted for every product and slower than float32, at half the memory.
    """
    if torch.device(device).type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = torch.device(device).type == "cpu" and not BF16_FEATURES.isdisjoint(cpu_features())
    return torch.bfloat16 if native else torch.float32
