"""What a lab asks of this machine: seconds of all cells, of the longest cell and silence, and the kernel's peak memory.

Every lab runs from top to bottom in a fresh kernel and an empty folder, as in ``make test``, the library answering its
exercises. A silence is a time in which a running cell shows nothing new, neither output nor a bar that moves.

    python benchmarks/labs.py
    python benchmarks/labs.py --slow          # one core, AVX2, as ``make test SLOW=1``
    python benchmarks/labs.py --only 03
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from lablib.course.notebooks import read

LABS = Path(__file__).resolve().parents[1] / "labs"
SLOW = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
PEAK = 'print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))'


class Watch(NotebookClient):
    """Runs a notebook and notes when anything came from its kernel."""

    def __init__(self, notebook: Any, place: str) -> None:
        resources = {"metadata": {"path": place}}
        super().__init__(notebook, timeout=1800, startup_timeout=600, kernel_name="python3", resources=resources)
        self.heard = self.silence = 0.0
        self.seconds: list[float] = []
        self.silent_cell = ""

    async def async_execute_cell(self, cell: Any, cell_index: int, **options: Any) -> Any:
        begin = self.heard = time.monotonic()
        done = await super().async_execute_cell(cell, cell_index, **options)
        self.note(cell)
        self.seconds.append(time.monotonic() - begin)
        return done

    def process_message(self, message: Any, cell: Any, cell_index: int) -> Any:
        self.note(cell)
        return super().process_message(message, cell, cell_index)

    def note(self, cell: Any) -> None:
        now = time.monotonic()
        if now - self.heard > self.silence:
            self.silence, self.silent_cell = now - self.heard, cell.id
        self.heard = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", action="store_true", help="compute on one core, without AVX-512")
    parser.add_argument("--only", default="", help="a lab's number")
    args = parser.parse_args()
    environment = {**os.environ, "LABLIB_EXERCISES": "fallback", "LABLIB_PREDICT": "skip"}
    if args.slow:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        environment |= SLOW
    print(f"{'lab':<32}{'all':>8}{'longest cell':>16}{'silence':>10}{'peak memory':>14}   silent in")
    for path in sorted(LABS.glob(f"{args.only}*.ipynb")):
        notebook = read(path)
        notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
        with tempfile.TemporaryDirectory() as place:
            watch = Watch(notebook, place)
            watch.execute(env={**environment, "IPYTHONDIR": f"{place}/ipython"})
        found = re.search(r"(\d+) kB", notebook.cells[-1].outputs[0].text)
        peak = int(found[1]) * 1024 / 1e9 if found else float("nan")
        print(
            f"{path.stem:<32}{sum(watch.seconds):6.0f} s{max(watch.seconds):14.0f} s{watch.silence:8.1f} s"
            f"{peak:11.2f} GB   {watch.silent_cell}",
            flush=True,
        )


if __name__ == "__main__":
    main()
