"""The size of a real process beside what the plan says: the default model on the CPU, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lablib.model.dtype import BF16_FEATURES, cpu_features

pytestmark = pytest.mark.alone
ROOT = Path(__file__).parents[1]

MEASURE = """
import ctypes, sys
from pathlib import Path
import matplotlib.pyplot, pandas, psutil, safetensors, torch, transformers
from lablib.executor.model import ModelExecutor
from lablib.executor.sizing import StepLimits
from lablib.model import load_model
from lablib.model.linear import Linear

def size():
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return psutil.Process().memory_info().rss

def peak():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

dtype = getattr(torch, sys.argv[1])
Linear(torch.eye(16, dtype=dtype))(torch.eye(16, dtype=dtype))
before = size()
model = load_model(dtype=dtype)
weights = size() - before
tokens, rows = 2048, int(sys.argv[2])
executor = ModelExecutor(model, max_num_batched_tokens=tokens, max_num_seqs=rows)
cache = executor.model.backend.cache.fill_(1)
executor.execute(StepLimits(16, 16, 16).largest(16)[0])
loaded = size()
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
executor.execute(StepLimits(tokens, rows, 2048).largest(16)[0])
plan = executor.memory
print(weights / plan.weights.num_bytes, (peak() - loaded) / plan.activations.num_bytes, peak())
"""


def measure(dtype: str, rows: int, **environment: str) -> list[float]:
    """Growth by the weights and by a step of 2,048 tokens, as shares of the plan's; the largest size in bytes."""
    command = [sys.executable, "-c", MEASURE, dtype, str(rows)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


on_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="asks Linux for a process's size")


@on_linux
@pytest.mark.model
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_process_grows_by_what_the_plan_says(dtype: str) -> None:
    """Weights within 5%, a step within 10%, where glibc is told to give freed memory back at once.

    Without bf16 instructions oneDNN converts in pieces of its own choice: then a step in bfloat16 only stays below.
    """
    back_at_once = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    weights, activations, _ = measure(dtype, rows=16, **back_at_once)
    assert weights == pytest.approx(1, abs=0.05)
    assert activations < 1.1
    if dtype == "bfloat16" and BF16_FEATURES.isdisjoint(cpu_features()):
        pytest.skip(f"all but the last: this CPU has no bf16 instructions; a step took {activations:.2f} of its plan")
    assert activations > 0.9


@on_linux
@pytest.mark.skipif(torch.version.cuda is not None, reason="the libraries of a CUDA build take 0.3 GB more")
@pytest.mark.model
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_labs_kernel_with_a_sized_pool_stays_below_its_limit(dtype: str) -> None:
    assert measure(dtype, rows=256)[2] < 1.5e9
