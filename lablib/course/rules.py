"""``freeze --check``: what must hold of every notebook in the gallery."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lablib.course.freeze import WIDGET_VIEW
from lablib.course.notebooks import check_key, code_cells, exercise_key, read

LARGEST_BYTES = 1_000_000
LONGEST_CELL = 25
_HOMES = re.compile(r"(?:/home/|/Users/|/root/|/tmp/|[A-Z]:\\Users\\)[^\s'\"<>:,)]+")
_FREEZE = "run `python -m lablib freeze` on it"


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule: where, what is wrong, and what to do."""

    notebook: str
    cell: str
    what: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.notebook}, cell {self.cell}" if self.cell else self.notebook
        return f"{place}: {self.what}; {self.remedy}"


def check_file(path: Path) -> list[Finding]:
    """Every rule that a notebook breaks; an empty list if it may stay as it is."""
    notebook = read(path)
    project = path.resolve().parents[1]
    found = [*_size(path), *_ids(notebook), *_state(notebook), *_order(notebook)]
    for cell in code_cells(notebook):
        rules = (*_source(cell), *_grading(cell), *_outputs(cell, project))
        found += [(str(cell.get("id", "?")), what, remedy) for what, remedy in rules]
    return [Finding(path.name, cell, what, remedy) for cell, what, remedy in found]


def _size(path: Path) -> Iterator[tuple[str, str, str]]:
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        what = f"it has {size:,} bytes, the limit is {LARGEST_BYTES:,}"
        yield "", what, "draw fewer or smaller pictures"


def _ids(notebook: Any) -> Iterator[tuple[str, str, str]]:
    counts = Counter(cell.get("id") for cell in notebook.cells)
    for name, times in counts.items():
        if not name:
            yield "", f"{times} cells have no id", _FREEZE
        elif times > 1:
            yield name, f"{times} cells have this id", "rename all but one"


def _state(notebook: Any) -> Iterator[tuple[str, str, str]]:
    if "widgets" in notebook.metadata:
        yield "", "it holds saved widget state", _FREEZE


def _order(notebook: Any) -> Iterator[tuple[str, str, str]]:
    for expected, cell in enumerate((each for each in code_cells(notebook) if each.source.strip()), 1):
        if cell.execution_count != expected:
            what = f"its execution count is {cell.execution_count}, in order it would be {expected}"
            yield str(cell.get("id", "?")), what, _FREEZE
            return


def _source(cell: Any) -> Iterator[tuple[str, str]]:
    lines = cell.source.rstrip().splitlines()
    if lines and lines[-1].rstrip().endswith(";"):
        yield "its last line ends in `;`, which nbval can't compare", "write `_ = …` instead"
    if len(lines) > LONGEST_CELL:
        yield f"it has {len(lines)} lines, the limit is {LONGEST_CELL}", "split it, or move code into lablib"


def _grading(cell: Any) -> Iterator[tuple[str, str]]:
    if (exercise_key(cell) or check_key(cell)) and "nbgrader" not in cell.metadata:
        yield "it has no nbgrader metadata", _FREEZE


def _outputs(cell: Any, project: Path) -> Iterator[tuple[str, str]]:
    for output in cell.outputs:
        if output.output_type == "error":
            yield f"it raised {output.ename}: {output.evalue}", "mend the cell"
        if output.get("name") == "stderr":
            first = (output.text.strip().splitlines() or [""])[0]
            yield f"it wrote to stderr: {first[:100]}", "mend or silence the warning where it is raised"
        if WIDGET_VIEW in output.get("data", {}):
            yield "it holds a live widget", _FREEZE
        text = _text(output)
        found = _HOMES.search(text)
        if found or f"{project}/" in text:
            path = found.group(0) if found else str(project)
            yield f"it shows a path of one machine: {path}", "print a relative path or a name"


def _text(output: Any) -> str:
    data = output.get("data", {})
    parts = [str(value) for kind, value in data.items() if kind.startswith("text/")]
    return "\n".join([output.get("text", ""), *parts])
