"""The gallery: every lab's exercises are open in strict mode, solved in reference mode, and its notebook is frozen.

That a lab prints what is stored is nbval's part (fallback mode); here the other two modes are executed. Only exercise
and check cells run, and what they need, so a lab takes seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lablib.course import registry
from lablib.course.execution import execute, exercises_only
from lablib.course.mode import Mode
from lablib.course.notebooks import check_key, code_cells, exercise_key, read
from lablib.course.rules import check_file

LABS = sorted((Path(__file__).parents[1] / "labs").glob("*.ipynb"))
each_lab = pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)


def _number(path: Path) -> int:
    return int(path.name[:2])


def _checks(notebook: Any) -> dict[str, Any]:
    """The check cells by the key of their exercise."""
    return {key: cell for cell in code_cells(notebook) if (key := check_key(cell))}


def _text(cell: Any) -> str:
    return "\n".join(output.data.get("text/plain", "") for output in cell.outputs if "data" in output)


@each_lab
def test_every_exercise_has_one_stub_and_one_check_under_it(path: Path) -> None:
    keys = [exercise.key for exercise in registry.lab(_number(path)).exercises]
    cells = code_cells(read(path))
    assert [key for cell in cells if (key := exercise_key(cell))] == keys
    assert [key for cell in cells if (key := check_key(cell))] == keys
    assert [key for cell in cells if (key := exercise_key(cell) or check_key(cell))] == [k for k in keys for _ in "ab"]


@each_lab
def test_untouched_exercises_are_refused_in_strict_mode(path: Path) -> None:
    executed = execute(exercises_only(read(path)), Mode.STRICT, allow_errors=True)
    for key, cell in _checks(executed).items():
        assert _text(cell).startswith(f"○ {key} "), key
        assert ": not attempted\n" in _text(cell), f"{key}: the stub in the notebook differs from Exercise(stub=…)"
        assert [output.ename for output in cell.outputs if output.output_type == "error"] == ["NotFinished"], key


@each_lab
def test_the_reference_passes_every_check_in_reference_mode(path: Path) -> None:
    executed = execute(exercises_only(read(path)), Mode.REFERENCE)
    for key, cell in _checks(executed).items():
        text = _text(cell)
        assert text.startswith(f"✓ {key} "), key
        assert "✗" not in text
        assert "○" not in text


@each_lab
def test_a_lab_is_frozen_by_the_rules(path: Path) -> None:
    assert list(map(str, check_file(path))) == []
