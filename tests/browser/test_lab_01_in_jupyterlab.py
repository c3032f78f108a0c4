"""Lab 01 as a learner opens it: their own copy in work/, Run All, and the player under their hands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import Lab, Watched, run_all, watch
from playwright.sync_api import Browser

from lablib.course.notebooks import copy_missing

pytestmark = [pytest.mark.browser, pytest.mark.model]
LABS = Path(__file__).parents[2] / "labs"
PLAYER = "document.querySelector('.step-player').player"


@pytest.fixture(scope="module")
def opened(browser: Browser, lab: Lab) -> Iterator[Watched]:
    copy_missing(LABS, lab.root / "work")
    watched = watch(browser, lab.address("work/01_static_batching.ipynb"))
    watched.page.set_default_timeout(10 * 60_000)  # the whole lab is computed
    run_all(watched.page)
    watched.page.locator(".sp-play").first.wait_for()
    yield watched
    watched.page.context.close()


def test_it_runs_to_its_end_without_an_error_or_a_warning(opened: Watched) -> None:
    page = opened.page
    assert page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').count() == 0
    assert page.locator('[data-mime-type="application/vnd.jupyter.error"]').count() == 0
    page.get_by_text("10 requests, 102 steps").wait_for()


def test_the_player_follows_mouse_and_keyboard_and_no_key_reaches_the_notebook(opened: Watched) -> None:
    page = opened.page
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    canvas = page.locator(".sp-timeline").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    step = page.evaluate(f"{PLAYER}.lanes[0].step")
    assert step > 0
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "d", "d", "x", "a", "b"):
        page.keyboard.press(key)
    assert page.evaluate(f"{PLAYER}.lanes[0].step") == step + 1
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_the_title_says_whose_pieces_run(opened: Watched) -> None:
    title = opened.page.locator(".step-player").first
    assert "StaticBatching: reference" in title.inner_text()
    assert "pad_batch: reference" in title.inner_text()


def test_player_checks_questions_and_quiz_are_free_of_axe_violations(opened: Watched) -> None:
    # JupyterLab's body has no height and hides its overflow: axe would take everything for hidden and skip contrast.
    opened.page.add_style_tag(content="body { overflow: visible !important; }")
    found = Axe().run(opened.page, context={"include": [[".step-player"], [".lab-card"]]})
    assert found.violations_count == 0, found.generate_report()


def test_nothing_is_asked_of_the_network_and_nothing_complains(opened: Watched) -> None:
    assert opened.external == []
    assert opened.errors == []
