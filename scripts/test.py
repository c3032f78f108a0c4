"""Run every check of the project, one stage after the other, and say which failed and how long each took.

With --slow the stages that compute get one core and the instructions of a CPU with AVX2 only, as free cloud machines
have them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Guards against hanging, not promises about speed.
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600", "--nbval-kernel-startup-timeout=300"]
STATIC = ("lint", "format", "types", "contracts")  # what they find depends on no machine
SLOW = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}


def stages(cores: int) -> dict[str, list[str]]:
    """Return the command of every stage by its name, in the order in which they run.

    Args:
        cores: how many processes may compute side by side; what measures time or memory runs alone all the same.
    """
    side_by_side = ["-n", str(cores), "--dist", "loadscope", "--no-loadscope-reorder"] if cores > 1 else []
    return {
        "lint": ["ruff", "check"],
        "format": ["ruff", "format", "--check"],
        "types": ["mypy"],
        "contracts": ["lint-imports", "--no-logo"],
        "unit": ["pytest", "-q", "--durations=10", *side_by_side, "-m", "not browser and not alone"],
        "alone": ["pytest", "-q", "--durations=10", "-m", "alone and not browser"],
        "notebooks": ["pytest", "-q", *side_by_side, *NBVAL, "labs"],
        "browser": ["pytest", "-q", "-m", "browser"],
    }


def main(arguments: list[str]) -> int:
    """Run the stages that are named, or all; return 0 when all passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="compute as a slow machine would: one core, AVX2")
    parser.add_argument("names", nargs="*", metavar="STAGE", help="default: all")
    args = parser.parse_args(arguments)
    commands = stages(1 if args.slow else cores())
    unknown = [name for name in args.names if name not in commands]
    if unknown:
        print(f"No stage {', '.join(unknown)}; there are: {', '.join(commands)}", file=sys.stderr)
        return 2
    results = []
    for name in args.names or commands:
        slow = args.slow and name not in STATIC
        results.append((name, *run(name, commands[name], on_one_core() if slow else {})))
    print(f"\nstage          seconds  result{'   (one core, AVX2)' if args.slow else ''}")
    for name, seconds, result in results:
        print(f"{name:<14}{seconds:8.1f}  {result}")
    print(f"{'all':<14}{sum(seconds for _, seconds, _ in results):8.1f}")
    return 1 if any(result == "FAILED" for _, _, result in results) else 0


def cores() -> int:
    """Return how many test processes this machine takes: one a core it lets us use, at most four, for their memory."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, 4)


def on_one_core() -> dict[str, str]:
    """Keep this process, and all that it starts, on one core where the system can; return the variables for AVX2."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return SLOW


def run(name: str, command: list[str], variables: dict[str, str]) -> tuple[float, str]:
    """Run one stage; return its seconds and "ok", "FAILED" or "skipped"."""
    print(f"\n── {name}: {' '.join(command)}", flush=True)
    if name == "browser" and not any(map(shutil.which, BROWSERS)):
        print("No Chromium or Chrome found: the browser tests did not run (Debian: sudo apt install chromium).")
        return 0.0, "FAILED" if os.environ.get("LABLIB_BROWSER") == "required" else "skipped"
    start = time.monotonic()
    # Progress bars on stderr would be compared with the notebooks' stored output.
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | variables | {"TQDM_DISABLE": "1", "PATH": path}
    failed = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, env=environment, check=False).returncode
    return time.monotonic() - start, "FAILED" if failed else "ok"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
