"""The GPU benchmarks run to their end on a machine without a GPU, on shapes too small to say anything of speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SMALLEST = {
    "kernel_times.py": ["--rounds", "1"],
    "backends.py": ["--rounds", "1", "--layers", "1", "--batch", "2", "--context", "20"],
}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", SMALLEST)
def test_a_gpu_benchmark_runs_in_the_interpreter_and_keeps_what_it_measured(name: str, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="the kernels need Triton")
    out = tmp_path / "out.json"
    result = run(name, "--device", "cpu", *SMALLEST[name], "--out", str(out))
    assert result.returncode == 0, result.stderr
    record = json.loads(out.read_text())
    assert record["torch"] == torch.__version__
    seconds = [case["seconds"] for case in record.get("cases", [record])]
    assert len(seconds) == len(record.get("cases", [record]))
    assert all(value > 0 for each in seconds for value in each.values())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", [*SMALLEST, "on_gpu.py"])
def test_without_a_gpu_a_benchmark_says_so_and_stops(name: str) -> None:
    result = run(name)
    assert result.returncode == 2
    assert "torch finds no CUDA GPU" in result.stderr
