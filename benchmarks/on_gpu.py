"""Everything that wants a GPU, in one run of about four minutes: tests of kernels and model, then the benchmarks.

Needs PyTorch, Triton, pytest and hypothesis, not the rest of the lab; nothing has to be installed for it.

    python benchmarks/on_gpu.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNEL_TESTS = ("test_kernels.py", "test_kernel_arguments.py", "test_triton_attention.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="folder for the JSON")
    args = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("on_gpu: torch finds no CUDA GPU here, and nothing else is worth running", file=sys.stderr)
        return 2
    card = torch.cuda.get_device_name().replace("NVIDIA ", "").replace(" ", "-").lower()
    args.results.mkdir(parents=True, exist_ok=True)
    results = [(name, *run(command, seconds)) for name, command, seconds in steps(card, args.results.resolve())]
    print("\nstep              seconds  result")
    for name, seconds, result in results:
        print(f"{name:<18}{seconds:7.1f}  {result}")
    return 1 if any(result != "ok" for _, _, result in results) else 0


def steps(card: str, results: Path) -> list[tuple[str, list[str], float]]:
    """Name, command and most seconds of every step; the tests come first, in case the time runs out."""
    tests = ROOT / "tests"
    marked = sorted(
        str(path) for path in tests.glob("test_*.py") if "pytest.mark.gpu" in path.read_text(encoding="utf-8")
    )
    pytest = [sys.executable, "-m", "pytest", "-q", "--maxfail=20", "-p", "no:cacheprovider"]
    if importlib.util.find_spec("xdist") is not None:
        pytest += ["-n", str(min(6, os.cpu_count() or 1))]  # most of the time goes into compiling
    kernels = [sys.executable, "benchmarks/kernel_times.py", "--flex", "--out", str(results / f"kernels-{card}.json")]
    backends = [sys.executable, "benchmarks/backends.py", "--out", str(results / f"backends-{card}.json")]
    return [
        ("kernel tests", [*pytest, "-m", "not model", *(str(tests / name) for name in KERNEL_TESTS)], 90),
        ("model tests", [*pytest, "-m", "gpu and not model", *marked], 45),
        ("kernels", kernels, 75),
        ("backends", backends, 30),
    ]


def run(command: list[str], limit: float) -> tuple[float, str]:
    """Run one step; return its seconds and what became of it."""
    print(f"\n── {' '.join(command)}", flush=True)
    start = time.monotonic()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    try:
        failed = subprocess.run(command, cwd=ROOT, env=environment, timeout=limit, check=False).returncode
    except subprocess.TimeoutExpired:
        return time.monotonic() - start, f"stopped after {limit:.0f} s"
    return time.monotonic() - start, f"failed ({failed})" if failed else "ok"


if __name__ == "__main__":
    sys.exit(main())
