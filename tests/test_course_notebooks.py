"""Notebooks as files: the learner's copies, freezing, what ``freeze --check`` finds, and the commands."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from course_cells import RIGHT, STUB
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lablib.__main__ import main
from lablib.course import registry, rules
from lablib.course.execution import execute, exercises_only
from lablib.course.freeze import WIDGET_VIEW, name_cells, set_grading, strip
from lablib.course.mode import Mode
from lablib.course.notebooks import code_cells, copy_missing, read, reset, write
from lablib.course.rules import check_file

SETUP = "import example_registered\nfrom lablib.course import *"
CELLS = (SETUP, STUB.strip(), 'check("90.1")', "pad([[1], [2, 3]], 9)[0]", "quiz(90)")


def make(path: Path, *sources: str) -> Path:
    """A notebook as an author leaves it: not executed, cells without ids."""
    notebook = new_notebook(cells=[new_markdown_cell("# Example"), *(new_code_cell(source) for source in sources)])
    for cell in notebook.cells:
        del cell["id"]
    write(path, notebook)
    return path


@pytest.fixture
def example(notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return make(tmp_path / "labs" / "90_example.ipynb", *CELLS)


def executed(path: Path) -> Path:
    """Fill in what freezing would, without a kernel."""
    notebook = read(path)
    name_cells(notebook)
    set_grading(notebook)
    for count, cell in enumerate(code_cells(notebook), 1):
        cell.execution_count = count
    write(path, notebook)
    return path


def test_freezing_executes_in_order_keeps_outputs_and_satisfies_every_rule(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["freeze", str(example)]) == 0
    cells = code_cells(read(example))
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4, 5]
    assert cells[2].outputs[0].data["text/plain"].startswith("○ 90.1 Pad a batch: not attempted")
    assert cells[3].outputs[0].data["text/plain"] == "[[1, 9], [2, 3]]"
    assert [cell.id for cell in cells] == [
        "code-import-example-registered-from", "exercise-90-1", "check-90-1", "code-pad-1-2-3", "code-quiz-90",
    ]  # fmt: skip
    assert check_file(example) == []
    assert main(["freeze", "--check", str(example)]) == 0
    again = example.read_text()
    assert main(["freeze", str(example)]) == 0
    assert example.read_text() == again
    assert again.endswith("}\n")
    assert '\n "cells": [\n' in again


def test_freezing_leaves_the_file_alone_if_a_cell_fails(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = make(example, "1 / 0").read_text()
    assert main(["freeze", str(example)]) == 1
    assert example.read_text() == before
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_learners_answers_do_not_leak_into_a_frozen_notebook(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ex_90_1.py").write_text("def pad(rows, pad_id=0):\n    return 'mine'\n")
    make(example, SETUP, 'print(provenance("90.1"))')
    assert code_cells(execute(read(example)))[1].outputs[0].text == "reference\n"


def test_every_mode_gives_the_result_it_promises(example: Path) -> None:
    notebook = read(make(example, SETUP, "assert False, 'slow'", STUB.strip(), 'check("90.1")'))
    reduced = exercises_only(notebook)
    passed = code_cells(execute(reduced, Mode.REFERENCE))
    assert passed[-1].outputs[0].data["text/plain"].startswith("✓ 90.1")
    refused = code_cells(execute(reduced, Mode.STRICT, allow_errors=True))
    assert refused[-1].outputs[-1].ename == "NotFinished"


def test_widget_state_and_versions_are_stripped_and_the_rest_stays() -> None:
    kept = new_output("display_data", data={WIDGET_VIEW: {"model_id": "1"}, "text/plain": "form"})
    gone = new_output("display_data", data={WIDGET_VIEW: {"model_id": "2"}})
    cell = new_code_cell("form", outputs=[kept, gone], metadata={"tags": ["a"], "execution": {"iopub": "now"}})
    notebook = new_notebook(
        cells=[cell], metadata={"widgets": {}, "language_info": {"name": "python", "version": "3.11.7"}}
    )
    strip(notebook)
    assert [output.data for output in cell.outputs] == [{"text/plain": "form"}]
    assert cell.metadata == {"tags": ["a"]}
    assert notebook.metadata["language_info"] == {"name": "python"}
    assert "widgets" not in notebook.metadata


def test_cell_ids_that_exist_stay_and_missing_ones_can_be_read() -> None:
    notebook = new_notebook(cells=[new_code_cell("a = 1"), new_code_cell("a = 1"), new_markdown_cell("## Why, then?")])
    notebook.cells[0]["id"] = "0123abcd"
    del notebook.cells[1]["id"], notebook.cells[2]["id"]
    notebook.cells.append(new_code_cell("a = 1"))
    del notebook.cells[3]["id"]
    name_cells(notebook)
    assert [cell.id for cell in notebook.cells] == ["0123abcd", "code-a-1", "text-why-then", "code-a-1-2"]


def test_exercise_and_check_cells_carry_what_nbgrader_reads(example: Path) -> None:
    notebook = read(example)
    set_grading(notebook)
    _, stub, check, *_ = code_cells(notebook)
    assert stub.metadata["nbgrader"] == {
        "grade": False, "grade_id": "exercise-90-1", "locked": False,
        "schema_version": 3, "solution": True, "task": False,
    }  # fmt: skip
    assert check.metadata["nbgrader"] == {
        "grade": True, "grade_id": "check-90-1", "locked": True, "points": registry.exercise("90.1").difficulty,
        "schema_version": 3, "solution": False, "task": False,
    }  # fmt: skip


def _never_run(notebook: Any) -> None:
    notebook.cells[2].execution_count = None


def _stderr(notebook: Any) -> None:
    notebook.cells[1].outputs = [new_output("stream", name="stderr", text="FutureWarning: soon\n")]


def _error(notebook: Any) -> None:
    notebook.cells[1].outputs = [new_output("error", ename="ValueError", evalue="no", traceback=[])]


def _widget(notebook: Any) -> None:
    notebook.cells[1].outputs = [new_output("display_data", data={WIDGET_VIEW: {}, "text/plain": ""})]


def _home(notebook: Any) -> None:
    notebook.cells[1].outputs = [new_output("execute_result", data={"text/plain": "'/home/ann/lab/x.py'"})]


def _large(notebook: Any) -> None:
    notebook.cells[1].outputs = [new_output("display_data", data={"image/png": "A" * 1_000_001})]


@pytest.mark.parametrize(
    ("damage", "cell", "what"),
    [
        (_never_run, "exercise-90-1", "its execution count is None, in order it would be 2"),
        (_stderr, "code-import-example-registered-from", "it wrote to stderr: FutureWarning: soon"),
        (_error, "code-import-example-registered-from", "it raised ValueError: no"),
        (_widget, "code-import-example-registered-from", "it holds a live widget"),
        (_home, "code-import-example-registered-from", "it shows a path of one machine: /home/ann/lab/x.py"),
        (_large, "", "the limit is 1,000,000"),
        (lambda n: n.metadata.update(widgets={}), "", "it holds saved widget state"),
        (lambda n: n.cells[4].update(source="1;"), "code-pad-1-2-3", "its last line ends in `;`"),
        (lambda n: n.cells[4].update(source="1\n" * 26), "code-pad-1-2-3", "it has 26 lines, the limit is 25"),
        (lambda n: n.cells[3].metadata.pop("nbgrader"), "check-90-1", "it has no nbgrader metadata"),
        (lambda n: n.cells[4].update(id="check-90-1"), "check-90-1", "2 cells have this id"),
        (lambda n: n.cells[4].pop("id"), "", "1 cells have no id"),
    ],
)
def test_each_rule_names_notebook_cell_fault_and_remedy(
    example: Path, capsys: pytest.CaptureFixture[str], damage: Any, cell: str, what: str
) -> None:
    notebook = read(executed(example))
    damage(notebook)
    write(example, notebook)
    findings = [finding for finding in check_file(example) if what in finding.what]
    assert [finding.cell for finding in findings] == [cell]
    assert findings[0].remedy
    assert main(["freeze", "--check", str(example)]) == 1
    assert "90_example.ipynb" in capsys.readouterr().out


def test_a_project_path_in_an_output_is_found_wherever_it_lies(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_HOMES", re.compile("(?!)"))  # pytest's folders lie under /tmp, which is found anyway
    notebook = read(executed(example))
    shown = f"read {example.parents[1].resolve()}/labs/x"
    notebook.cells[1].outputs = [new_output("stream", name="stdout", text=shown)]
    write(example, notebook)
    assert any("path of one machine" in finding.what for finding in check_file(example))


def test_missing_copies_are_made_without_outputs_and_existing_ones_stay(example: Path, tmp_path: Path) -> None:
    notebook = read(executed(example))
    notebook.cells[1].outputs = [new_output("stream", text="spoiler")]
    notebook.cells[1].metadata["tags"] = ["kept"]
    write(example, notebook)
    work = tmp_path / "work"
    assert copy_missing(example.parent, work) == [work / "90_example.ipynb"]
    copied = read(work / "90_example.ipynb")
    assert "spoiler" not in json.dumps(copied)
    assert all(cell.execution_count is None for cell in code_cells(copied))
    assert [cell.id for cell in copied.cells] == [cell.id for cell in notebook.cells]
    assert copied.cells[1].metadata["tags"] == ["kept"]
    (work / "90_example.ipynb").write_text("mine")
    assert copy_missing(example.parent, work) == []
    assert (work / "90_example.ipynb").read_text() == "mine"


def test_a_learners_copy_has_no_grader_s_marks_and_the_gallery_keeps_them(example: Path, tmp_path: Path) -> None:
    executed(example)
    (copy,) = copy_missing(example.parent, tmp_path / "work")
    stubs = {cell.id: cell.source for cell in code_cells(read(example)) if "SOLUTION" in cell.source}
    copies = {cell.id: cell.source for cell in code_cells(read(copy))}
    assert stubs
    for cell, source in stubs.items():
        lines = [line for line in source.splitlines() if "SOLUTION" not in line]
        assert len(lines) == len(source.splitlines()) - 2
        assert copies[cell] == "\n".join(lines)


def test_reset_makes_a_copy_anew_and_keeps_the_old_beside_it(example: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    assert reset(90, example.parent, work) == (work / "90_example.ipynb", None)
    for number in (1, 2):
        (work / "90_example.ipynb").write_text(f"mine {number}")
        folders = ["--labs", str(example.parent), "--work", str(work)]
        assert main(["reset", "90", *folders]) == 0
        assert (work / f"90_example.old-{number}.ipynb").read_text() == f"mine {number}"
    assert len(read(work / "90_example.ipynb").cells) == 6
    assert main(["reset", "89", "--labs", str(example.parent), "--work", str(work)]) == 1


def test_progress_is_also_a_command(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["progress"]) == 0
    assert "Lab 90 An example" in capsys.readouterr().out


def test_a_right_answer_typed_into_a_copy_goes_green(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = read(make(example, SETUP, RIGHT.strip(), 'check("90.1")'))
    for mode in (Mode.FALLBACK, Mode.STRICT):
        output = code_cells(execute(solved, mode))[-1].outputs[0]
        assert output.data["text/plain"].startswith("✓ 90.1 Pad a batch: 5 of 5 cases pass")
