"""Who answers an exercise: the learner's own code, what they saved earlier, or the reference."""

from __future__ import annotations

import json
from pathlib import Path

import course_example
import pytest
from course_cells import ON_THE_LEFT, RIGHT, STUB, Notebook

from lablib.__main__ import main
from lablib.course import NotFinished, check, piece, pieces, provenance, registry, store


def new_session() -> None:
    """What a learner gets who opens the next lab: nothing has run yet."""
    pieces.forget_attempts()


def test_an_untouched_stub_runs_the_reference(notebook: Notebook) -> None:
    assert notebook.run(STUB)["pad"] is course_example.pad_batch
    assert provenance("90.1") == "reference"


def test_own_code_runs_however_wrong_it_is(notebook: Notebook) -> None:
    pad = notebook.run(ON_THE_LEFT)["pad"]
    assert pad([[1], [2, 3]])[0] == [[0, 1], [2, 3]]
    assert provenance("90.1") == "yours"
    assert piece("90.1") is pad


def test_own_code_that_raises_never_falls_back(notebook: Notebook) -> None:
    pad = notebook.run('@exercise("90.1")\ndef pad(rows, pad_id=0):\n    return rows.nonsense')["pad"]
    with pytest.raises(AttributeError):
        pad([[1]])


def test_begun_code_runs_up_to_its_todo_and_names_exercise_and_line(notebook: Notebook) -> None:
    pad = notebook.run('@exercise("90.1")\ndef pad(rows, pad_id=0):\n    width = len(rows)\n    todo()')["pad"]
    with pytest.raises(NotFinished, match=r'exercise 90\.1, "Pad a batch", is not finished: line 4'):
        pad([[1]])


@pytest.mark.parametrize(
    ("body", "is_reference"),
    [
        ("def step(self):\n        todo()", True),
        ('def step(self):\n        """One."""\n        return todo()', True),
        ("def step(self):\n        todo()\n    def more(self):\n        return 1", False),
        ("left = 3\n    def step(self):\n        todo()", False),
    ],
)
def test_a_class_is_untouched_while_every_method_is(notebook: Notebook, body: str, is_reference: bool) -> None:
    found = notebook.run(f'@exercise("90.2")\nclass Mine:\n    """A class."""\n    {body}')["Mine"]
    assert (found is course_example.Countdown) is is_reference


def test_given_lines_of_a_stub_do_not_count_as_own_code(notebook: Notebook) -> None:
    given = 'def pad(rows, pad_id=0):\n    width = max(map(len, rows))\n    return todo("the rows"), width\n'
    exercise = course_example.LAB.exercises[0]
    with_stub = type(exercise)(exercise.key, "t", exercise.reference, exercise.cases, exercise.hints, stub=given)
    registry.register(type(course_example.LAB)(90, "t", (with_stub,)))
    assert notebook.run('@exercise("90.1")\n' + given)["pad"] is course_example.pad_batch
    described = given.replace("\n", '\n    """Pad."""\n', 1)
    assert notebook.run('@exercise("90.1")\n' + described)["pad"] is course_example.pad_batch
    assert (
        notebook.run('@exercise("90.1")\n' + given.replace("width)", "width + 1)"))["pad"] is course_example.pad_batch
    )
    changed = given.replace("map(len, rows)", "map(len, rows), default=0")
    assert notebook.run('@exercise("90.1")\n' + changed)["pad"] is not course_example.pad_batch


def test_a_stub_with_a_bug_to_find_is_untouched_until_it_is_changed(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "def pad(rows, pad_id=0):\n    return rows\n"
    exercise = course_example.LAB.exercises[0]
    with_bug = type(exercise)(exercise.key, "t", exercise.reference, exercise.cases, exercise.hints, stub=given)
    registry.register(type(course_example.LAB)(90, "t", (with_bug,)))
    assert notebook.run('@exercise("90.1")\n' + given)["pad"] is course_example.pad_batch
    check("90.1")
    assert "Change the given code" in capsys.readouterr().out
    changed = given.replace("return rows", "return list(rows)")
    assert notebook.run('@exercise("90.1")\n' + changed)["pad"] is not course_example.pad_batch


def test_reference_mode_runs_the_reference_whatever_the_cells_say(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABLIB_EXERCISES", "reference")
    assert notebook.run(ON_THE_LEFT)["pad"] is course_example.pad_batch


def test_strict_mode_runs_the_stub_itself(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABLIB_EXERCISES", "strict")
    with pytest.raises(NotFinished):
        notebook.run(STUB)["pad"]([[1]])


def test_an_unknown_mode_or_exercise_is_refused_with_what_there_is(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyError, match=r"90\.1, 90\.2"):
        notebook.run('@exercise("90.9")\ndef pad(): ...')
    monkeypatch.setenv("LABLIB_EXERCISES", "lenient")
    with pytest.raises(ValueError, match="fallback, reference, strict"):
        check("90.1")


def test_a_green_check_saves_the_answer_and_later_sessions_run_it(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(RIGHT)
    check("90.1")
    new_session()
    assert (tmp_path / "mine" / "ex_90_1.py").exists()
    assert provenance("90.1") == "yours"
    assert piece("90.1") is not course_example.pad_batch
    assert piece("90.1")([[1], [2, 3]], 9)[0] == [[1, 9], [2, 3]]


def test_a_red_or_untouched_check_saves_nothing(notebook: Notebook, tmp_path: Path) -> None:
    for cell in (STUB, ON_THE_LEFT):
        notebook.run(cell)
        check("90.1")
    assert not (tmp_path / "mine").exists()


def test_a_saved_answer_brings_what_it_uses_of_other_cells(notebook: Notebook) -> None:
    notebook.run("import math\nfrom functools import reduce as fold\nFLOOR = 0\nUNUSED = object()")
    notebook.run("def below(value):\n    return fold(min, [value - math.trunc(1.5)])")
    notebook.run("class Base:\n    def lower(self):\n        self.left = max(FLOOR, below(self.left))")
    notebook.run(
        '@exercise("90.2")\nclass Mine(Base):\n    def __init__(self, start):\n        self.left = start\n'
        "    def step(self):\n        UNUSED = 1\n        self.lower()\n        return self.left"
    )
    check("90.2")
    new_session()
    assert provenance("90.2") == "yours"
    countdown = piece("90.2")(1)
    assert [countdown.step(), countdown.step()] == [0, 0]


def test_a_saved_answer_that_uses_another_exercise_gets_it_as_a_piece(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(RIGHT)
    notebook.run(
        '@exercise("90.2")\nclass Mine:\n    def __init__(self, start):\n        self.left = start\n'
        "    def step(self):\n        self.left = max(0, self.left - len(pad([[1]])[0]))\n        return self.left"
    )
    check("90.2")
    assert 'pad = piece("90.1")' in (tmp_path / "mine" / "ex_90_2.py").read_text()
    new_session()
    assert piece("90.2")(3).step() == 2


def test_an_answer_that_needs_a_live_object_is_not_saved_and_the_object_is_named(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run("class Model: ...\nmodel = Model()")
    notebook.run(RIGHT.replace("width = ", "model\n    width = "))
    check("90.1")
    assert "could not be kept for later labs: it uses model (Model)" in capsys.readouterr().out
    assert not (tmp_path / "mine" / "ex_90_1.py").exists()


def test_a_saved_answer_that_no_longer_loads_is_reported_and_kept(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine" / "ex_90_1.py"
    path.parent.mkdir()
    path.write_text("from lablib import gone_with_the_wind\ndef pad(): ...\n")
    assert piece("90.1") is course_example.pad_batch
    said = capsys.readouterr().out
    assert "mine/ex_90_1.py) no longer loads: ImportError" in said
    assert path.exists()


def test_catchup_chooses_the_reference_without_deleting_and_a_green_check_takes_it_back(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run(RIGHT)
    check("90.1")
    new_session()
    assert main(["catchup", "91"]) == 0
    assert provenance("90.1") == "reference"
    assert (tmp_path / "mine" / "ex_90_1.py").exists()
    notebook.run(RIGHT)
    check("90.1")
    new_session()
    assert provenance("90.1") == "yours"


def test_a_damaged_progress_file_is_put_aside_and_nothing_else_is_lost(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run(RIGHT)
    check("90.1")
    for damaged in ('{"format": 1, "passed": ', '{"format": 1, "passed": 3}', "[]"):
        (tmp_path / "mine" / "progress.json").write_text(damaged)
        assert store.load().passed == []
        assert (tmp_path / "mine" / "progress.json.damaged").read_text() == damaged
    notebook.run(RIGHT)
    check("90.1")
    assert json.loads((tmp_path / "mine" / "progress.json").read_text())["passed"] == ["90.1"]


def test_answers_are_kept_in_work_only(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABLIB_MINE")
    for name in ("labs", "work/deeper", "work/old/labs"):  # a clone may well lie in a folder called work
        (tmp_path / "project" / name).mkdir(parents=True)
    expected = {
        "project/work": "project/work/mine",
        "project/work/deeper": "project/work/mine",
        "project": "project/work/mine",
        "project/labs": None,
        "project/work/old/labs": None,
        ".": None,
    }
    for here, where in expected.items():
        monkeypatch.chdir(tmp_path / here)
        assert store.folder() == (tmp_path / where if where else None), here
    monkeypatch.setenv("LABLIB_EXERCISES", "strict")
    monkeypatch.chdir(tmp_path / "project/work")
    assert store.folder() is None
