"""The player in a real JupyterLab: drawn, driven by mouse and keyboard, and read later without a kernel."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import PATIENCE_MS, TOKEN, Lab, Watched, run_all, settle, wait_for_kernel, watch
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
TESTS = Path(__file__).parents[1]
CELLS = (
    f"import sys\nsys.path.insert(0, {str(TESTS)!r})\nfrom synthetic_traces import huge_trace, static_trace\n"
    "from lablib.viz import StepPlayer\nbig = huge_trace()",
    "StepPlayer(big)",
    "player = StepPlayer(static_trace())\nplayer",
    "player.step, player.selected",
)
PICTURE = ".jp-OutputArea-output img[alt^='StaticBatching: 153 steps']"


@pytest.fixture(scope="module")
def executed(browser: Browser, lab: Lab) -> Iterator[Watched]:
    """The notebook, run from top to bottom."""
    lab.write("own.ipynb", *CELLS)
    watched = watch(browser, lab.address("own.ipynb"))
    run_all(watched.page)
    watched.page.locator(".sp-play").nth(1).wait_for()
    yield watched
    watched.page.context.close()


def player(page: Page) -> str:
    return "document.querySelectorAll('.step-player')[1].player"


def test_the_picture_is_hidden_while_the_player_lives(executed: Watched) -> None:
    page = executed.page
    assert page.locator(PICTURE).count() == 1
    assert not page.locator(PICTURE).is_visible()
    assert executed.errors == []
    assert executed.external == []


def test_no_key_leaks_to_the_notebook_and_the_kernel_learns_the_step(executed: Watched) -> None:
    page = executed.page
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    canvas = page.locator(".sp-timeline").nth(1)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 300, box["y"] + 40)
    clicked = page.evaluate(f"{player(page)}.lanes[0].step")
    assert clicked > 0
    for key in "ddabxcvzmy":
        page.keyboard.press(key)
    for key in ("Enter", "Shift+M", "0", "0", "Escape", "ArrowRight", "ArrowDown", "ArrowUp", "Delete"):
        page.keyboard.press(key)
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert page.evaluate(f"{player(page)}.lanes[0].step") == clicked + 1
    settle(page, 400)
    chosen = page.evaluate(f"{player(page)}.selected")
    page.locator(".jp-CodeCell").nth(3).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    page.locator(".jp-OutputArea-output", has_text=f"({clicked + 1}, '{chosen}')").wait_for()


def test_the_kernel_moves_the_player(executed: Watched) -> None:
    page = executed.page
    page.locator(".jp-CodeCell").nth(3).locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("player.goto(99); player.selected = 'r9'")
    page.keyboard.press("Shift+Enter")
    page.wait_for_function(f"{player(page)}.lanes[0].step === 99 && {player(page)}.selected === 'r9'")


def test_axe_finds_nothing_in_the_notebook(executed: Watched) -> None:
    # JupyterLab's body has no height and hides its overflow: axe would take everything for hidden and skip contrast
    executed.page.add_style_tag(content="body { overflow: visible !important; }")
    results = Axe().run(executed.page, context=".step-player")
    assert results.violations_count == 0, results.generate_report()


def test_a_big_run_is_on_screen_about_as_soon_as_a_small_one(executed: Watched) -> None:
    """2,000 steps beside 153: most of the wait is JupyterLab's and Python's, not the run's."""
    big, small = (min(seconds_to_picture(executed.page, cell) for _ in range(3)) for cell in (1, 2))
    print(f"seconds from Run to the first picture: {big:.2f} of 2,000 steps, {small:.2f} of 153")
    assert big < 4 * small


def seconds_to_picture(page: Page, cell: int) -> float:
    """From Run until the new player has drawn."""
    page.evaluate("document.querySelectorAll('.step-player').forEach((old) => old.classList.add('old'))")
    page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
    begin = time.monotonic()
    page.keyboard.press("Shift+Enter")
    page.wait_for_function("document.querySelector('.step-player:not(.old)')?.player?.draws > 0")
    return time.monotonic() - begin


def test_a_notebook_read_later_shows_the_picture(executed: Watched, browser: Browser, lab: Lab) -> None:
    """With no kernel that knows the player: once as its own author, once as someone who does not trust it."""
    executed.page.keyboard.press("Control+S")
    own, foreign = lab.root / "own.ipynb", lab.root / "foreign.ipynb"
    deadline = time.monotonic() + PATIENCE_MS / 1e3
    while "image/png" not in own.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    foreign.write_text(own.read_text().replace("player.goto(99)", "player.goto(98)"))
    stop_kernels(lab)
    for name in ("own.ipynb", "foreign.ipynb"):
        reader = watch(browser, lab.address(name))
        wait_for_kernel(reader.page)
        picture = reader.page.locator(PICTURE)
        picture.scroll_into_view_if_needed()
        assert picture.is_visible()
        assert picture.evaluate("(image) => image.naturalWidth") == 960
        assert reader.external == []
        reader.page.context.close()


def stop_kernels(lab: Lab) -> None:
    address = f"{lab.url}/api/sessions"
    headers = {"Authorization": f"token {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
        sessions = json.load(answer)
    for session in sessions:
        gone = urllib.request.Request(f"{address}/{session['id']}", method="DELETE", headers=headers)
        urllib.request.urlopen(gone).close()
