"""The live engine in a real JupyterLab: typed to, paused, stepped, aborted, and gone with its kernel."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import PATIENCE_MS, TOKEN, Lab, Watched, run_all, wait_for_kernel, watch
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SLOW_STEPS = """
import time
honest = live._executor.execute
def execute(plan):
    time.sleep(0.03)  # as slow as the real model
    return honest(plan)
live._executor.execute = execute
"""
CELLS = (
    "import os\nfrom lablib.live import LiveEngine\nfrom lablib.model import toy_model\nos.getpid()",
    f"live = LiveEngine(toy_model(), max_num_seqs=4, max_model_len=256)\n{SLOW_STEPS}\nlive",
    "live",
    "live.closed, live.paused",
    "import atexit\nfrom pathlib import Path\n"
    "atexit.register(lambda: Path('left.txt').write_text(str(live._steps.engine.scheduler.has_work())));",
)


@pytest.fixture(scope="module")
def executed(browser: Browser, lab: Lab) -> Iterator[Watched]:
    """A notebook that shows one engine twice."""
    lab.write("live.ipynb", *CELLS)
    watched = watch(browser, lab.address("live.ipynb"))
    run_all(watched.page)
    watched.page.locator(".live-engine").nth(1).wait_for()
    yield watched
    watched.page.context.close()


def state(page: Page, what: str, view: int = 0) -> object:
    """A part of what a view shows, as its script sees it."""
    return page.evaluate(f"document.querySelectorAll('.live-engine')[{view}].live.{what}")


def until(page: Page, condition: str, view: int = 0) -> None:
    live = f"document.querySelectorAll('.live-engine')[{view}]?.live"
    page.wait_for_function(f"(() => {{ const live = {live}; return live && ({condition}); }})()")


def reset(page: Page) -> None:
    page.get_by_role("button", name="Reset").first.click()
    until(page, "live.state.phase === 'idle' && live.state.served === 0 && live.cards.size === 0")


def test_a_typed_prompt_joins_and_its_text_streams_into_a_slot(executed: Watched) -> None:
    page = executed.page
    prompt = page.locator(".lv-prompt").first
    prompt.click()
    page.keyboard.type("dd, what is a batch?")
    page.keyboard.press("Enter")
    lengths = []
    for _ in range(3):
        until(page, f"live.cards.get('r0')?.text.length > {lengths[-1] if lengths else 0}")
        lengths.append(state(page, "cards.get('r0').text.length"))
    assert lengths == sorted(set(lengths))
    assert state(page, "selected") == "r0"
    assert "dd, what is a batch?" in page.locator(".lv-asked-for").first.inner_text()
    page.get_by_role("button", name="Send 20").first.click()
    until(page, "live.state.slots.filter(Boolean).length === 4 && live.state.queue.length === 6")
    assert page.locator(".lv-queue .sp-reason").nth(0).inner_text() == "slots"
    assert page.locator(".lv-queue .sp-more").first.inner_text().endswith("more")


def test_a_second_view_shows_the_same(executed: Watched) -> None:
    page = executed.page
    page.keyboard.press("Escape")
    page.locator(".sp-play").first.click()
    until(page, "live.state.phase === 'paused'")
    until(page, "live.state.phase === 'paused'", view=1)
    first, second = ([state(page, part, view) for part in ("state", "cards.get('r0').text")] for view in (0, 1))
    assert first == second


def test_a_step_is_one_step_and_an_abort_frees_the_slot(executed: Watched) -> None:
    page = executed.page
    steps = state(page, "state.gauges[6]")
    page.get_by_role("button", name="One step (s)").first.click()
    until(page, f"live.state.gauges[6] === {steps} + 1 && live.state.phase === 'paused'")
    running = state(page, "state.slots.find(Boolean)[0]")
    waiting = state(page, "state.queue[0]")
    for name in (running, waiting):
        page.get_by_role("button", name=f"Abort {name}", exact=True).first.click()
        until(page, f"live.cards.get('{name}').ended?.[0] === 'abort'")
    assert state(page, "state.slots.filter(Boolean).length") == 3


def test_a_knob_holds_newcomers_back_and_evicts_nobody(executed: Watched) -> None:
    page = executed.page
    seated = state(page, "state.slots.filter(Boolean).map(([id]) => id)")
    knob = page.get_by_role("slider", name="max_num_seqs").first
    knob.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    until(page, "live.model.get('max_num_seqs') === 2")
    page.get_by_role("button", name="One step (s)").first.click()
    until(page, f"live.state.gauges[6] > {state(page, 'state.gauges[6]')} || live.state.phase === 'paused'")
    assert set(state(page, "state.slots.filter(Boolean).map(([id]) => id)")) <= set(seated)
    assert page.locator(".lv-slot[data-state=closed]").count() >= 1
    assert state(page, "model.get('max_num_seqs')", view=1) == 2


def test_no_key_leaks_to_the_notebook(executed: Watched) -> None:
    page = executed.page
    cells = "[...document.querySelectorAll('.jp-Notebook .cm-content')].map((cell) => cell.textContent)"
    before = page.evaluate(cells)
    places = (".sp-play", ".lv-range", ".lv-slots .lv-chip", ".lv-whole", ".lv-cross >> visible=true", ".lv-prompt")
    for place in places:
        page.locator(place).first.focus()
        for keys in (("d", "d"), ("x",), ("a",), ("b",), ("Shift+Enter",), ("Shift+M",)):
            for key in keys:
                page.keyboard.press(key)
            assert page.evaluate(cells) == before, (place, keys)
    page.locator(".lv-prompt").first.fill("")
    assert page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").nth(3).inner_text() == "[4]:"


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing_in_either_theme(executed: Watched, theme: str) -> None:
    page = executed.page
    menu(page, "Settings", "Theme", theme)
    page.locator(f"body[data-jp-theme-name='{theme}']").wait_for(state="attached")
    page.locator(".lv-prompt").first.click()
    page.keyboard.insert_text("x" * 300)
    page.keyboard.press("Enter")
    until(page, "live.state.message.includes('max_model_len=256')")
    page.locator(".lv-slots .lv-chip >> visible=true").first.click()
    page.locator(".lv-desk button[aria-label=Keys]").first.click()
    # JupyterLab's body has no height and hides its overflow: axe would take everything for hidden and skip contrast
    page.add_style_tag(content="body { overflow: visible !important; }")
    results = Axe().run(page, context=".live-engine")
    page.locator(".lv-desk button[aria-label=Keys]").first.click()
    page.get_by_role("button", name="Dismiss the message").first.click()
    assert results.violations_count == 0, results.generate_report()


def menu(page: Page, *path: str) -> None:
    """Choose an entry of JupyterLab's menus."""
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{path[0]}$")).click()
    for label in path[1:-1]:
        page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{label}$")).hover()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{path[-1]}$")).click()


def test_an_interrupted_kernel_pauses_between_two_steps(executed: Watched) -> None:
    page = executed.page
    reset(page)
    page.get_by_role("button", name="Send 20").first.click()
    until(page, "live.state.phase === 'running'")
    menu(page, "Kernel", "Interrupt Kernel")
    until(page, "live.state.phase === 'paused' && live.state.message.includes('interrupted')")
    page.locator(".sp-play").first.click()
    until(page, "live.state.phase === 'running'")


def test_it_pauses_when_its_outputs_are_gone_and_the_next_view_wakes_it(executed: Watched) -> None:
    page = executed.page
    menu(page, "Edit", "Clear Outputs of All Cells")
    page.locator(".live-engine").first.wait_for(state="detached")
    rerun(page, 3)
    page.locator(".jp-OutputArea-output", has_text="(False, True)").wait_for()
    rerun(page, 2)
    until(page, "live.state.phase === 'running'")


def test_its_cell_run_again_closes_the_engine_before(executed: Watched) -> None:
    page = executed.page
    page.evaluate("document.querySelectorAll('.live-engine').forEach((old) => old.classList.add('old'))")
    rerun(page, 1)
    page.locator(".live-engine:not(.old)").first.wait_for()
    page.locator(".live-engine.old .lv-phase[data-phase=closed]").first.wait_for()
    assert page.locator(".live-engine.old .lv-prompt").first.is_disabled()


def rerun(page: Page, cell: int) -> None:
    page.locator(".jp-CodeCell").nth(cell).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    wait_for_kernel(page)


def test_the_kernel_ends_by_itself_though_steps_are_still_to_be_computed(executed: Watched, lab: Lab) -> None:
    """Not killed, and not after the last of hundreds of steps either."""
    page = executed.page
    rerun(page, 0)
    rerun(page, 4)
    page.locator(".live-engine:not(.old)").first.locator("button", has_text="Send 20").click()
    live = "document.querySelector('.live-engine:not(.old)').live.state"
    page.wait_for_function(f"{live}.phase === 'running'")
    steps = page.evaluate(f"{live}.gauges[6]")
    page.wait_for_function(f"{live}.gauges[6] >= {steps} + 10")
    pid = int(page.locator(".jp-CodeCell").nth(0).locator(".jp-OutputArea-output").inner_text())
    stop_kernels(lab)
    patience = time.monotonic() + PATIENCE_MS / 1e3
    while alive(pid) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not alive(pid)
    assert (lab.root / "left.txt").read_text() == "True"
    assert executed.external == []
    assert [error for error in executed.errors if "live" in error.lower()] == []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def stop_kernels(lab: Lab) -> None:
    address, headers = f"{lab.url}/api/sessions", {"Authorization": f"token {TOKEN}"}
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
        sessions = json.load(answer)
    for session in sessions:
        gone = urllib.request.Request(f"{address}/{session['id']}", method="DELETE", headers=headers)
        urllib.request.urlopen(gone).close()
