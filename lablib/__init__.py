"""A small LLM inference engine to learn from: batching, paged KV cache, scheduling, one mechanism a file."""

import os
from pathlib import Path

# torch's OpenMP threads spin while they wait for each other. Beside one other busy process on two cores a decode step
# then took 1,450 ms instead of 13; giving up sooner costs 2 ms when alone, and 28 ms is the worst. Must precede torch.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Triton settles how kernels run when it is imported, and loading a tokenizer imports it: so say now that they are to be
# interpreted where there is no GPU (NVIDIA's, Windows's or AMD's device).
if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")):
    os.environ.setdefault("TRITON_INTERPRET", "1")

__version__ = "0.1.0"
