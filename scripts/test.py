"""Run every check of the project, one stage after the other, and say which failed and how long each took."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=120", "--nbval-kernel-startup-timeout=120"]


def stages() -> dict[str, list[str]]:
    """Return the command of every stage by its name, in the order in which they run."""
    return {
        "lint": ["ruff", "check"],
        "format": ["ruff", "format", "--check"],
        "types": ["mypy"],
        "contracts": ["lint-imports", "--no-logo"],
        "unit": ["pytest", "-q", "--durations=10", "-m", "not browser"],
        "notebooks": ["pytest", "-q", *NBVAL, "labs"],
        "browser": ["pytest", "-q", "-m", "browser"],
    }


def main(names: list[str]) -> int:
    """Run the stages called `names`, or all; return 0 when all passed."""
    commands = stages()
    unknown = [name for name in names if name not in commands]
    if unknown:
        print(f"No stage {', '.join(unknown)}; there are: {', '.join(commands)}", file=sys.stderr)
        return 2
    results = [(name, *run(name, commands[name])) for name in names or commands]
    print("\nstage          seconds  result")
    for name, seconds, result in results:
        print(f"{name:<14}{seconds:8.1f}  {result}")
    return 1 if any(result == "FAILED" for _, _, result in results) else 0


def run(name: str, command: list[str]) -> tuple[float, str]:
    """Run one stage; return its seconds and "ok", "FAILED" or "skipped"."""
    print(f"\n── {name}: {' '.join(command)}", flush=True)
    if name == "browser" and not any(map(shutil.which, BROWSERS)):
        print("No Chromium or Chrome found: the browser tests did not run (Debian: sudo apt install chromium).")
        return 0.0, "FAILED" if os.environ.get("LABLIB_BROWSER") == "required" else "skipped"
    start = time.monotonic()
    # Progress bars on stderr would be compared with the notebooks' stored output.
    environment = os.environ | {"TQDM_DISABLE": "1", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    failed = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, env=environment, check=False).returncode
    return time.monotonic() - start, "FAILED" if failed else "ok"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
