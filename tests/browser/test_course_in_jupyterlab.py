"""The course helpers in a real JupyterLab: by mouse and keyboard, in both themes, without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import run_all
from course_cells import ON_THE_LEFT, RIGHT, STUB

pytestmark = pytest.mark.browser
SETUP = f"""import os, sys
os.environ.pop("LABLIB_PREDICT", None)
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import example_registered
from lablib.course import *"""
CELLS = (
    SETUP,
    'predict("90.speedup", "How many times faster are 8 prompts in one batch?", unit="×")',
    'reveal("90.speedup", 3.2, why="The weights are read once.")',
    STUB.strip(),
    'check("90.1")',
    ON_THE_LEFT.strip(),
    'check("90.1")',
    RIGHT.strip(),
    'check("90.1")',
    'hint("90.1")',
    'solution("90.1")',
    'answer("90.watch.1", 18, {"first_finish": 17})',
    "quiz(90)",
    "progress(90)",
)


@pytest.fixture
def opened(lab: Any, open_page: Any) -> Any:
    lab.write("course.ipynb", *CELLS)
    watched = open_page(lab.address("course.ipynb"))
    run_all(watched.page)
    watched.page.get_by_text("Count down: open").wait_for()
    return watched


def test_a_guess_typed_into_the_form_reveals_the_result_that_waits_below(opened: Any) -> None:
    page = opened.page
    assert page.get_by_text("measured", exact=True).count() == 0
    page.get_by_label("Your guess").fill("4,5")
    page.get_by_role("button", name="Guess").click()
    page.get_by_text("Close: 41% too high.").wait_for()
    assert page.locator(".jp-OutputArea").get_by_text("The weights are read once.").count() == 1


def test_the_quiz_is_answered_by_keyboard_and_no_key_reaches_the_notebook(opened: Any) -> None:
    page = opened.page
    options = page.locator("button.lab-option")
    cells = page.locator(".jp-Cell").count()
    options.nth(0).focus()
    page.keyboard.press("Enter")
    page.get_by_text("A mask hides the result; the work is still done.").wait_for()
    page.keyboard.press("Tab")
    for key in (
        "x",
        "d",
        "d",
        "a",
        "b",
        "m",
        "0",
        "0",
    ):  # cut, delete, insert, to Markdown, restart: the notebook's own
        page.keyboard.press(key)
    page.keyboard.press("Space")
    page.get_by_text("Every step computes it, to the end.").wait_for()
    assert options.nth(1).inner_text() == "✓ Yes, until the batch ends."
    assert page.locator(".jp-Cell").count() == cells
    assert page.locator(".jp-Dialog").count() == 0


# The theme is a setting of the whole server: light comes last, and stays.
@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_all_output_is_free_of_axe_violations_in_both_themes(opened: Any, theme: str) -> None:
    page = opened.page
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Settings$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Theme$")).click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{theme}$")).click()
    page.locator(f'body[data-jp-theme-name="{theme}"]').wait_for(state="attached")
    page.locator("button.lab-option").first.click()
    page.get_by_text("A mask hides the result").wait_for()
    assert page.locator(".lab-card").count() == 9
    # JupyterLab's body has no height and hides its overflow: axe would take everything for hidden and skip contrast.
    page.add_style_tag(content="body { overflow: visible !important; }")
    found = Axe().run(page, context={"include": [[".lab-card"]]})
    assert found.violations_count == 0, found.generate_report()


def test_nothing_is_asked_of_the_network_and_nothing_complains(opened: Any) -> None:
    assert opened.external == []
    assert opened.errors == []
