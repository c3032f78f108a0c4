"""How ``pytest --nbval`` compares notebooks here: what the root conftest.py leaves out, replaces and skips."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook, new_output

from lablib.course.notebooks import write

ROOT = Path(__file__).parents[1]


def nbval(folder: Path, *cells: Any) -> str:
    """The report on a notebook, compared under a copy of this project's settings from another working directory."""
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "conftest.py", folder)
    shutil.copy(ROOT / "tests" / "notebooks_sanitize.cfg", folder / "tests")
    for count, cell in enumerate(cells, 1):
        cell.execution_count = count
    write(folder / "a.ipynb", new_notebook(cells=list(cells)))
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q", str(folder / "a.ipynb")]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    return done.stdout


def stream(text: str, name: str = "stdout") -> Any:
    return new_output("stream", name=name, text=text)


def shown(**data: str) -> Any:
    return new_output("display_data", data={kind.replace("_", "/"): value for kind, value in data.items()})


def test_what_changes_by_itself_is_not_compared(tmp_path: Path) -> None:
    html = "from IPython.display import display\ndisplay({'text/html': 'new', 'text/plain': 'same'}, raw=True)"
    report = nbval(
        tmp_path,
        new_code_cell("import sys\nprint('warning 2', file=sys.stderr)", outputs=[stream("warning 1\n", "stderr")]),
        new_code_cell("print(object())", outputs=[stream("<object object at 0x7f0000000000>\n")]),
        new_code_cell(html, outputs=[shown(text_html="old", text_plain="same")]),
        new_code_cell(
            "from os import environ as e\nprint(e['TQDM_DISABLE'], e['LABLIB_PREDICT'], e['LABLIB_EXERCISES'])",
            outputs=[stream("1 skip fallback\n")],
        ),
    )
    assert "4 passed" in report, report


def test_a_different_number_fails(tmp_path: Path) -> None:
    report = nbval(tmp_path, new_code_cell("print('12 steps, 1.5 s')", outputs=[stream("12 steps, 1.6 s\n")]))
    assert "1 failed" in report, report


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_cells_tagged_gpu_are_skipped_without_one(tmp_path: Path) -> None:
    needs_gpu = new_code_cell("raise RuntimeError", metadata={"tags": ["gpu"]})
    report = nbval(tmp_path, needs_gpu, new_code_cell("1", outputs=[]))
    assert "1 skipped" in report, report
