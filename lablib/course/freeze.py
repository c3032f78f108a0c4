"""Freezes a notebook for the gallery: executed, with its outputs, without what only a live kernel can show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lablib.course import registry
from lablib.course.execution import execute
from lablib.course.notebooks import check_key, code_cells, exercise_key, read, write

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def freeze(path: Path) -> None:
    """Execute a notebook and write it back frozen; if a cell raises, the file stays as it was.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises.
    """
    notebook = read(path)
    name_cells(notebook)
    set_grading(notebook)
    executed = execute(notebook)
    strip(executed)
    write(path, executed)


def strip(notebook: Any) -> None:
    """Take out widget state and what names a kernel's version or the time of a run."""
    notebook.metadata.pop("widgets", None)
    notebook.metadata.update(kernelspec=_KERNEL, language_info={"name": "python"})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in code_cells(notebook):
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            output.get("data", {}).pop(WIDGET_VIEW, None)
        cell.outputs = [output for output in cell.outputs if output.get("data", True)]


def name_cells(notebook: Any) -> None:
    """Give every cell without an id one that can be read, such as ``check-1-1``; ids that exist stay."""
    taken = {cell.id for cell in notebook.cells if cell.get("id")}
    for cell in notebook.cells:
        if not cell.get("id"):
            cell["id"] = _free_id(_readable_id(cell), taken)
            taken.add(cell["id"])


def set_grading(notebook: Any) -> None:
    """Set nbgrader's metadata: an exercise's cell is a solution, its check is worth points by difficulty."""
    for cell in code_cells(notebook):
        if key := exercise_key(cell):
            cell.metadata["nbgrader"] = _grading(f"exercise-{_dashed(key)}", solution=True)
        elif key := check_key(cell):
            points = registry.exercise(key).difficulty
            cell.metadata["nbgrader"] = _grading(f"check-{_dashed(key)}", grade=True, locked=True, points=points)


def _grading(grade_id: str, **changes: Any) -> dict[str, Any]:
    plain = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3}
    return {"grade_id": grade_id, **plain, **changes}


def _readable_id(cell: Any) -> str:
    for prefix, key in (("exercise", exercise_key(cell)), ("check", check_key(cell))):
        if key:
            return f"{prefix}-{_dashed(key)}"
    words = re.findall(r"[a-z0-9]+", cell.source.lower())
    return "-".join([{"markdown": "text"}.get(cell.cell_type, cell.cell_type), *words[:4]])[:40]


def _free_id(wanted: str, taken: set[str]) -> str:
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _dashed(key: str) -> str:
    return key.replace(".", "-")
