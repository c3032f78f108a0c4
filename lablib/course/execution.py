"""Runs a notebook from top to bottom in a fresh kernel and an empty folder: nothing of this machine leaks in."""

from __future__ import annotations

import ast
import copy
import os
import tempfile
from pathlib import Path
from typing import Any

from lablib.course.mode import Mode
from lablib.course.notebooks import check_key, code_cells, exercise_key

SECONDS_A_CELL = 600  # a guard against hanging: a slow machine takes minutes for what a fast one does in seconds


def execute(notebook: Any, mode: Mode = Mode.FALLBACK, *, allow_errors: bool = False) -> Any:
    """A copy of the notebook, executed.

    Args:
        notebook: what to run; it isn't changed.
        mode: who answers the exercises.
        allow_errors: go on after a cell that raises.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises; CellTimeoutError if it takes more than ten minutes.
    """
    from nbclient import NotebookClient

    executed = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory() as place:
        client = NotebookClient(
            executed,
            timeout=SECONDS_A_CELL,
            startup_timeout=SECONDS_A_CELL,
            kernel_name="python3",
            allow_errors=allow_errors,
            record_timing=False,
            resources={"metadata": {"path": place}},
        )
        client.execute(env=_environment(mode, Path(place)))
    return executed


def exercises_only(notebook: Any) -> Any:
    """A copy with the exercise and check cells; of the others only what is quick: imports, definitions, constants."""
    reduced = copy.deepcopy(notebook)
    for cell in code_cells(reduced):
        if exercise_key(cell) is None and check_key(cell) is None:
            cell.source = _definitions(cell.source)
    reduced.cells = [cell for cell in code_cells(reduced) if cell.source]
    return reduced


def _environment(mode: Mode, place: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "LABLIB_MINE"}
    return environment | {
        "LABLIB_EXERCISES": mode.value,
        "LABLIB_PREDICT": "skip",
        "TQDM_DISABLE": "1",
        "IPYTHONDIR": str(place / "ipython"),  # no start-up files and no history of this user
    }


def _definitions(source: str) -> str:
    try:
        body = ast.parse(source).body
    except SyntaxError:  # magics
        return ""
    return "\n".join(ast.unparse(each) for each in body if _is_quick(each))


def _is_quick(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
