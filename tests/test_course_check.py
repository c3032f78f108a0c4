"""What a check says to each kind of answer, and that nothing a learner writes can hurt it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import FrameType

import course_example
import pytest
from course_cells import ON_THE_LEFT, RIGHT, STUB, Notebook

from lablib.course import CheckFailed, NotFinished, check, hint, registry, solution
from lablib.course.card import Card
from lablib.course.grade import grade, namespace_of
from lablib.course.guard import _Guard
from lablib.course.spec import Case, Exercise, Lab, WrongAnswer

HINTS = ("one", "two", "three")


def register_with(**changes: object) -> None:
    """Put a changed copy of the first exercise in its place."""
    registry.register(replace(course_example.LAB, exercises=(replace(course_example.PAD, **changes),)))


def said(capsys: pytest.CaptureFixture[str], key: str = "90.1") -> str:
    capsys.readouterr()
    check(key)
    return capsys.readouterr().out


def test_an_untouched_exercise_is_open_case_by_case(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.run(STUB)
    assert said(capsys) == (
        "○ 90.1 Pad a batch: not attempted\n"
        "  ○ one row\n  ○ two lengths\n  ○ another pad id\n  ○ every row equally long\n  ○ no rows\n"
        '  The reference runs in its place. Write your code where the stub says `todo()`; `hint("90.1")` helps.\n'
    )


def test_a_cell_that_has_not_run_is_asked_for(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert "The exercise's cell has not run yet" in said(capsys)


def test_a_wrong_answer_gets_the_smallest_failing_case_and_the_hint_that_fits(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run(ON_THE_LEFT)
    text = said(capsys)
    assert text.startswith("✗ 90.1 Pad a batch: 2 of 5 cases pass\n  ✓ one row\n  ✗ two lengths\n")
    assert "The smallest case that fails: two lengths" in text
    assert "given       rows = [[5, 6, 7], [8]]" in text
    assert "expected    ([[5, 6, 7], [8, 0, 0]]," in text
    assert "got         ([[5, 6, 7], [0, 0, 8]]," in text
    assert "difference  at [0][1][0]: expected 8, got 0" in text
    assert "You padded on the left." in text


def test_a_check_gives_none_and_the_same_text_each_time(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.run(ON_THE_LEFT)
    assert check("90.1") is None  # type: ignore[func-returns-value]
    assert said(capsys) == said(capsys)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return rows.nonsense", "AttributeError: 'list' object has no attribute 'nonsense'"),
        ("return rows.nonsense", "raised in  line 3: return rows.nonsense"),
        ("pass", "Your code gives None: is there a `return`"),
        ("print('so far', len(rows))", "so far 1"),
        ("raise SystemExit", "SystemExit"),
        ("return pad(rows)", "RecursionError"),
        ("return 0, 0", "at [0]: expected a list, got 0 (type int)"),
    ],
)
def test_whatever_goes_wrong_in_an_answer_is_shown_and_not_raised(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], body: str, expected: str
) -> None:
    notebook.run(f'@exercise("90.1")\ndef pad(rows, pad_id=0):\n    {body}')
    assert expected in said(capsys)


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n        pass",
        "while True:\n        try:\n            len(rows)\n        except Exception:\n            pass",
        "while True:\n        try:\n            len(rows)\n        except:\n            pass",
        "while True:\n        try:\n            while True:\n                pass\n        except:\n            pass",
    ],
)
def test_an_endless_loop_is_stopped_at_once_even_if_it_catches_everything(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    rings: list[int] = []
    ring = _Guard._ring

    def counted(guard: _Guard, number: int, frame: FrameType | None) -> None:
        rings.append(number)
        ring(guard, number, frame)

    monkeypatch.setattr(_Guard, "_ring", counted)
    notebook.run(f'@exercise("90.1")\ndef pad(rows, pad_id=0):\n    {body}')
    text = said(capsys)
    assert len(rings) <= 2  # the first is due a tenth of a second after the last line that counts, others each second
    assert "stopped after 100,000 lines of your code" in text
    assert "Does every way through your loop bring it closer to its end?" in text
    assert "○ no rows (not asked after an endless loop)" in text


def test_an_endless_loop_is_stopped_in_a_thread_too(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.run('@exercise("90.1")\ndef pad(rows, pad_id=0):\n    while True:\n        pass')
    thread = threading.Thread(target=check, args=("90.1",), daemon=True)
    thread.start()
    thread.join(120)
    assert "stopped after 100,000 lines of your code" in capsys.readouterr().out


def test_the_line_that_raised_is_the_innermost_of_the_learners_own(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run("def helper(rows):\n    return rows.nonsense")
    notebook.run('@exercise("90.1")\ndef pad(rows, pad_id=0):\n    return helper(rows)')
    assert "line 2: return rows.nonsense" in said(capsys)


def test_code_that_waits_without_running_is_stopped_by_the_timer(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    register_with(seconds=0.5)
    notebook.run('import time\n@exercise("90.1")\ndef pad(rows, pad_id=0):\n    time.sleep(60)')
    assert "stopped after 0.5 seconds" in said(capsys)


def test_an_answer_that_changes_its_arguments_spoils_no_other_case(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run(RIGHT.replace("    real =", "    rows = [rows.pop(0) for _ in list(rows)]\n    real ="))
    assert "5 of 5 cases pass" in said(capsys)
    assert "5 of 5 cases pass" in said(capsys)


def test_begun_code_is_checked_as_far_as_it_goes(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.run(
        '@exercise("90.1")\ndef pad(rows, pad_id=0):\n    if not rows:\n        raise ValueError("no row")\n    todo()'
    )
    text = said(capsys)
    assert text.startswith("○ 90.1 Pad a batch: 1 of 5 cases pass\n  ○ one row")
    assert "  ✓ no rows\n" in text
    assert "Not finished: `todo()` still stands in line 5 of the cell." in text


def test_a_todo_that_no_case_reaches_still_is_not_finished(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    notebook.run(RIGHT + "    todo()\n")
    assert "`todo()` still stands in line 9" in said(capsys)
    assert not (tmp_path / "mine").exists()


def test_strict_mode_raises_for_what_is_open_or_wrong_and_passes_what_is_right(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LABLIB_EXERCISES", "strict")
    with pytest.raises(NotFinished):
        check("90.1")
    notebook.run(STUB)
    with pytest.raises(NotFinished):
        check("90.1")
    notebook.run(ON_THE_LEFT)
    with pytest.raises(CheckFailed, match="2 of 5 cases pass; the first that does not: two lengths"):
        check("90.1")
    notebook.run(RIGHT + "    todo()\n")
    with pytest.raises(NotFinished):
        check("90.1")
    notebook.run(RIGHT)
    check("90.1")
    assert not (tmp_path / "mine").exists()


def test_reference_mode_passes_without_any_cell(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LABLIB_EXERCISES", "reference")
    assert said(capsys, "90.2").startswith("✓ 90.2 Count down: the reference\n  ✓ from 2\n")


def test_of_several_wrong_answers_with_one_result_the_one_that_agrees_on_most_cases_is_named() -> None:
    def never_pads(rows: list[list[int]], pad_id: int = 0) -> object:
        return rows, [[True] * len(row) for row in rows]

    def pads_nothing_and_takes_none(rows: list[list[int]], pad_id: int = 0) -> object:
        return never_pads(rows) if rows else course_example.pad_batch(rows)

    both = (WrongAnswer("a", never_pads, "a"), WrongAnswer("b", pads_nothing_and_takes_none, "b"))
    for wrong in (both, both[::-1]):
        for each in wrong:
            assert (
                grade(replace(course_example.PAD, wrong=wrong), each.answer, namespace_of(each.answer)).hint
                == each.says
            )


def test_a_failure_that_nobody_foresaw_gets_its_cases_own_hint(notebook: Notebook) -> None:
    names = notebook.run("def pad(rows, pad_id=0):\n    return rows, [[True] * len(row) for row in rows]")
    assert grade(course_example.PAD, names["pad"], names).hint == "Row 2 is two tokens short: fill it with `pad_id`."


def test_hints_come_one_level_at_a_time_and_the_last_stays(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    exercise = Exercise("91.1", "t", "course_example:pad_batch", (Case("a", args=([[1]],)),), HINTS)
    registry.register(Lab(91, "hints", (exercise,)))
    shown = []
    for _ in range(4):
        hint("91.1")
        shown.append(capsys.readouterr().out.splitlines()[1].strip())
    registry.unregister(91)
    assert shown == ["one", "two", "three", "three"]


def test_the_solution_is_the_librarys_own_source(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    solution("90.1")
    text = capsys.readouterr().out
    assert "`pad_batch` as it stands in `course_example.py`" in text
    assert "token_ids = [row + [pad_id] * (width - len(row)) for row in rows]" in text


def test_a_learners_text_can_not_break_the_html() -> None:
    card = Card("a <b> `x<y`", "✗", facts=(("got", "<script>"),), notes=("<i>",))
    page = card.html()
    assert "<script>" not in page
    assert "a &lt;b&gt; <code>x&lt;y</code>" in page
    assert 'role="img" aria-label="wrong"' in page
