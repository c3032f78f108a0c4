"""Notebook files: reading, writing, and the learner's copies in ``work/``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat

from lablib.course.store import write_atomically

_EXERCISE = re.compile(r"^@exercise\(['\"]([\w.]+)['\"]\)", re.MULTILINE)
_CHECK = re.compile(r"^check\(['\"]([\w.]+)['\"]\)", re.MULTILINE)
_GRADERS_MARK = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION[ \t]*(\n|\Z)", re.MULTILINE)


def read(path: Path) -> Any:
    """A notebook of format 4, as it stands in the file: nothing is validated, added or upgraded."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))  # type: ignore[no-untyped-call]


def write(path: Path, notebook: Any) -> None:
    """Write a notebook atomically: keys sorted, one space of indentation, a newline at the end."""
    text: str = nbformat.v4.writes(notebook)  # type: ignore[no-untyped-call]
    write_atomically(path, text.rstrip("\n") + "\n")


def code_cells(notebook: Any) -> list[Any]:
    """The notebook's code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def exercise_key(cell: Any) -> str | None:
    """Key of the exercise whose stub a cell holds; None for any other cell."""
    found = _EXERCISE.search(cell.source) if cell.cell_type == "code" else None
    return found.group(1) if found else None


def check_key(cell: Any) -> str | None:
    """Key of the exercise that a cell checks; None for any other cell."""
    found = _CHECK.search(cell.source) if cell.cell_type == "code" else None
    return found.group(1) if found else None


def copy_missing(labs: Path, work: Path) -> list[Path]:
    """Copy the notebooks that ``work`` doesn't have yet, without outputs, and return the new files.

    Cell ids and metadata stay, so that a copy can be collected and compared; the marks that tell nbgrader where a
    solution begins and ends go.
    """
    missing = [path for path in sorted(labs.glob("*.ipynb")) if not (work / path.name).exists()]
    return [_copy_cleared(path, work) for path in missing]


def reset(lab: int, labs: Path, work: Path) -> tuple[Path, Path | None]:
    """Make one lab's copy anew.

    Returns:
        The new file, and the name under which the old one is kept beside it (None if there was none).

    Raises:
        FileNotFoundError: if there is no such lab.
    """
    found = sorted(labs.glob(f"{lab:02d}_*.ipynb"))
    if not found:
        raise FileNotFoundError(f"there is no notebook {lab:02d}_….ipynb in {labs}")
    current = work / found[0].name
    kept = None
    if current.exists():
        kept = _free_name(current)
        current.rename(kept)
    return _copy_cleared(found[0], work), kept


def _copy_cleared(path: Path, work: Path) -> Path:
    notebook = read(path)
    for cell in code_cells(notebook):
        cell.outputs = []
        cell.execution_count = None
        cell.source = _GRADERS_MARK.sub("", cell.source).rstrip("\n")
    target = work / path.name
    write(target, notebook)
    return target


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.stem}.old-{number}.ipynb")).exists():
        number += 1
    return name
