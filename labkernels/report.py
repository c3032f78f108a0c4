"""``python -m labkernels report``: what the compiler made of every kernel, on a machine with or without a GPU."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

GPUS = {75: "T4", 80: "A100", 86: "A10, RTX 30", 89: "L4, RTX 40", 90: "H100, H200"}
COLUMNS = ("kernel", "heads of", "dtype", "registers", "spilled B", "shared KB", "16 B loads", "smaller", "per SM")
LEFT = 3  # columns that hold words
LEGEND = """\
registers   of a thread; there are at most 255
spilled B   bytes of a thread that did not fit its registers and go through memory, which is slow
shared KB   memory on the multiprocessor that a program fills while loads are under way
16 B loads  places in the code with the widest loads there are: q, K and V should have no others
smaller     places with smaller ones: lengths, block tables, slots, log sums
per SM      programs that a multiprocessor (SM) has room for. While one waits for memory the others go on: that matters
            to the kernels that memory decides, less to prefill, where arithmetic does"""


def register(subparsers: Any) -> None:
    """Add the command to ``python -m labkernels``."""
    parser = subparsers.add_parser("report", help="compile every kernel ahead of time and say what became of it")
    parser.add_argument(
        "--capability", type=int, nargs="+", choices=GPUS, default=[80, 90], help="compute capabilities (80 90)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compile, print, and return 0 when no kernel spills registers in half precision, else 1."""
    if importlib.util.find_spec("triton") is None:
        print("report: Triton is not installed (pip install triton; there is none for macOS)", file=sys.stderr)
        return 2
    rows = compile_all(args.capability)
    print(json.dumps(rows, indent=1) if args.json else table(rows))
    return 1 if any(row["spilled"] for row in rows if row["dtype"] != "fp32") else 0


def compile_all(capabilities: list[int]) -> list[dict[str, Any]]:
    """Every kernel compiled for these compute capabilities; the fields of ``labkernels.ahead_of_time.Compiled``."""
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    command = [sys.executable, "-m", "labkernels.ahead_of_time", *map(str, capabilities)]
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The report as text: a line a variant under each GPU, what the columns mean, and the verdict."""
    cells = [COLUMNS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [_line(COLUMNS, widths)]
    for i, row in enumerate(rows):
        if i == 0 or row["capability"] != rows[i - 1]["capability"]:
            lines += ["", f"sm_{row['capability']}: {GPUS[row['capability']]}"]
        lines.append(_line(cells[i + 1], widths))
    return "\n".join([*lines, "", LEGEND, "", verdict(rows)])


def verdict(rows: list[dict[str, Any]]) -> str:
    """One line: whether anything spills."""
    spilling = sorted({f"{row['kernel']} ({row['dtype']}, sm_{row['capability']})" for row in rows if row["spilled"]})
    if spilling:
        return f"Registers are spilled by {', '.join(spilling)}: fewer KEYS or ROWS need fewer registers."
    return f"No kernel spills: {len(rows)} variants compiled."


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    name = row["kernel"] + (f" ({row['note']})" if row["note"] else "")
    numbers = ("registers", "spilled", "wide_loads", "narrow_loads", "resident")
    registers, spilled, wide, narrow, resident = (str(row[number]) for number in numbers)
    return name, row["model"], row["dtype"], registers, spilled, f"{row['shared'] / 1024:.1f}", wide, narrow, resident


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    pairs = list(zip(cells, widths, strict=True))
    return "  ".join([*(f"{c:<{w}}" for c, w in pairs[:LEFT]), *(f"{c:>{w}}" for c, w in pairs[LEFT:])])
