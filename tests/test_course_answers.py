"""Predictions, Watch questions, the quiz and the progress table, without a browser: what they print and remember."""

from __future__ import annotations

import subprocess
import sys

import pytest
from course_cells import RIGHT, Notebook

from lablib.course import CheckFailed, NotFinished, answer, check, guess, predict, progress, quiz, reveal, skip, store
from lablib.course.predictions import compare
from lablib.course.spec import Option, Question
from lablib.course.widgets import parse_number

TRACE = {"first_finish": 17}


def test_a_result_waits_for_a_guess_and_then_stands_beside_it(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    predict("90.speedup", "How much faster?", unit="×")
    reveal("90.speedup", 3.2, show=lambda: shown.append("drawn"))
    text = capsys.readouterr().out
    assert "3.2" not in text
    assert shown == []
    assert 'skip("90.speedup")' in text
    guess("90.speedup", 4)
    reveal("90.speedup", 3.2, why="The weights are read once.", show=lambda: shown.append("drawn"))
    text = capsys.readouterr().out
    assert "your guess  4 ×" in text
    assert "measured    3.2 ×" in text
    assert "Close: 25% too high." in text
    assert "The weights are read once." in text
    assert shown == ["drawn"]


def test_a_skipped_prediction_shows_the_result_alone(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    predict("90.speedup", "How much faster?")
    skip()
    reveal("90.speedup", 1234.6)
    text = capsys.readouterr().out
    assert "measured  1,235" in text
    assert "your guess" not in text


@pytest.mark.parametrize("name", ["LABLIB_PREDICT=skip", "LABLIB_EXERCISES=strict", "LABLIB_EXERCISES=reference"])
def test_nobody_is_asked_where_nobody_sits(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(*name.split("="))
    predict("90.speedup", "How much faster?")
    reveal("90.speedup", 3.2)
    assert "measured  3.2" in capsys.readouterr().out


def test_a_guess_outlives_the_session(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    guess("90.speedup", 4)
    store.forget_session()
    assert store.load().guesses == {"90.speedup": 4.0}
    with pytest.raises(ValueError, match="must be a number"):
        guess("90.speedup", float("nan"))


@pytest.mark.parametrize(
    ("guessed", "measured", "said"),
    [
        (10, 10.5, "Spot on: within 10%."),
        (8, 10, "Close: 20% too low."),
        (40, 10, "4.0 times too high: a good thing to have found out before you rely on it."),
        (1, 10, "10.0 times too low: a good thing to have found out before you rely on it."),
        (-1, 10, "The measured number may surprise you: look at where it comes from."),
        (1, 0, "The measured number may surprise you: look at where it comes from."),
        (0, 0, "Spot on: within 10%."),
    ],
)
def test_a_guess_gets_a_friendly_comparison(guessed: float, measured: float, said: str) -> None:
    assert compare(guessed, measured) == said


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4.0),
        (" 4,5 ", 4.5),
        ("4.5 ×", 4.5),
        ("3x", 3.0),
        ("12 ms", 12.0),
        ("", None),
        ("four", None),
        ("nan", None),
    ],
)
def test_a_typed_number_is_understood(text: str, number: float | None) -> None:
    assert parse_number(text) == number


def test_an_unanswered_watch_question_is_open(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    answer("90.watch.1", None, TRACE)
    text = capsys.readouterr().out
    assert text.startswith("○ 90.watch.1 At which step does the first row finish?")
    assert "17" not in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (17, "✓ 90.watch.1 At which step does the first row finish? 17\n  `r3` asks for 17 tokens.\n"),
        (18, "✗ 90.watch.1 At which step does the first row finish? 18\n  That is the step after it.\n"),
        (101, "✗ 90.watch.1 At which step does the first row finish? 101\n  The run has only 100 steps.\n"),
    ],
)
def test_a_watch_answer_is_judged_with_a_word_on_the_usual_mistakes(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], value: int, said: str
) -> None:
    answer("90.watch.1", value, TRACE)
    assert capsys.readouterr().out == said


def test_an_odd_watch_answer_is_wrong_and_raises_nothing(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    answer("90.watch.1", "seventeen", TRACE)
    assert capsys.readouterr().out.startswith("✗")


def test_a_question_that_its_run_can_not_answer_fails_even_unanswered(notebook: Notebook) -> None:
    with pytest.raises(KeyError):
        answer("90.watch.1", None, {})


def test_watch_answers_count_in_strict_mode_and_solve_themselves_in_reference_mode(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABLIB_EXERCISES", "strict")
    with pytest.raises(NotFinished):
        answer("90.watch.1", None, TRACE)
    with pytest.raises(CheckFailed):
        answer("90.watch.1", 18, TRACE)
    monkeypatch.setenv("LABLIB_EXERCISES", "reference")
    capsys.readouterr()
    answer("90.watch.1", None, TRACE)
    assert capsys.readouterr().out.startswith("✓")


def test_a_printed_quiz_spoils_no_answer(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    quiz("90")
    assert capsys.readouterr().out == (
        "1. Does a finished row cost anything?\n"
        "   a) No, it is masked.\n   b) Yes, until the batch ends.\n   c) Only its memory.\n"
        "2. What does a batch's time depend on?\n   a) The mean output length.\n   b) The longest output.\n"
    )


def test_a_question_has_exactly_one_right_option() -> None:
    with pytest.raises(ValueError, match="exactly one option"):
        Question("Why?", (Option("a", "b"), Option("c", "d")))


def test_progress_counts_what_was_done_and_says_whose_answer_runs(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run(RIGHT)
    check("90.1")
    answer("90.watch.1", 17, TRACE)
    capsys.readouterr()
    progress(90)
    assert capsys.readouterr().out == (
        "Lab 90 An example · questions 1 of 1 · quiz 0 of 2\n"
        "  ✓ 90.1 Pad a batch: solved, yours runs\n  ○ 90.2 Count down: open\n"
    )


def test_importing_the_course_loads_neither_torch_nor_a_widget_library() -> None:
    code = (
        "import sys, lablib.course; print([n for n in ('torch', 'ipywidgets', 'numpy', 'IPython') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
