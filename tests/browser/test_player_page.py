"""The player on its offline page: right numbers, linked views, keys, themes, odd runs, speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import Watched, settle
from odd_traces import TRACES, preempting_trace
from playwright.sync_api import Page
from runs import mixed_requests
from synthetic_traces import continuous_trace, huge_trace, static_trace

from lablib.engine import Engine
from lablib.executor import SimulatedExecutor
from lablib.scheduler import ContinuousBatching
from lablib.scheduler.policies import ReservePrompt
from lablib.trace import Trace
from lablib.viz import StepPlayer

pytestmark = pytest.mark.browser
Opener = Callable[..., Watched]
PLAYER = "document.querySelector('.step-player').player"


@pytest.fixture
def show(open_page: Opener, tmp_path: Path) -> Opener:
    """``show(traces, …)``: the player's page, drawn."""

    def show_it(traces: Trace | list[Trace], width: int = 1280, **options: Any) -> Watched:
        path = StepPlayer(traces).save_html(tmp_path / "page.html")
        watched = open_page(path.as_uri(), width, **options)
        watched.page.locator(".sp-play").wait_for()
        return watched

    return show_it


def ask(page: Page, expression: str) -> Any:
    """The value of an expression in which ``player`` is the player."""
    return page.evaluate(f"() => {{ const player = {PLAYER}; return {expression}; }}")


def goto(page: Page, step: int) -> None:
    ask(page, f"[player.seek({step}), player._drawNow()]")


@pytest.mark.parametrize("name", TRACES)
def test_any_run_is_shown_without_a_complaint_or_a_request(name: str, show: Opener) -> None:
    watched = show(TRACES[name]())
    page = watched.page
    for key in [
        "n",
        "n",
        "n",
        "+",
        "ArrowDown",
        "ArrowDown",
        "z",
        "ArrowRight",
        "Shift+ArrowRight",
        "End",
        "ArrowLeft",
        "p",
        "x",
        "0",
        "?",
        "Escape",
        "Home",
        "ArrowUp",
    ]:
        page.locator(".sp-range").first.press(key)
    box = page.locator(".sp-timeline").first.bounding_box()
    for share in (0.1, 0.5, 0.9):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + share * box["height"])
    page.mouse.click(box["x"] + 60, box["y"] + 30)
    ask(page, "player.toggleAxis()")
    page.set_viewport_size({"width": 620, "height": 900})
    settle(page, 150)
    assert ask(page, "player.root.dataset.size") == "narrow"
    assert watched.errors == []
    assert len(watched.requests) == 1
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


RUNS = {
    "static": static_trace,
    "chunked": lambda: continuous_trace(40, slots=16, budget=40, prompt=(1, 60)),
    "preempting": preempting_trace,
    "paged": lambda: Engine(
        ContinuousBatching(4, 128, block_size=4, num_blocks=60, admission=ReservePrompt()), SimulatedExecutor()
    ).run(mixed_requests(9)),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_shown_is_what_the_trace_says(name: str, show: Opener) -> None:
    trace = RUNS[name]()
    page = show(trace).page
    chunks, truth = trace.chunks(), list(replay(trace))
    lane, blocks = "player.lanes[0]", "player.lanes[0].replay.blocks"
    for step in [*range(0, trace.num_steps, 7), trace.num_steps - 1, 3, 0]:
        goto(page, step)
        now, (owners, written, waiting, doing) = chunks["step"] == step, truth[step]
        computed = int(chunks["tokens"][now].sum() + chunks["padding"][now].sum())
        numbers = [int(number) for number in page.locator(".sp-number").all_text_contents()[:4]]
        assert numbers == [now.sum(), computed, sum(owner >= 0 for owner in owners), len(waiting)]
        assert ask(page, f"[...{blocks}.owner]") == owners
        filled = f"{blocks}.written(block, {lane}.replay.computed(owner, {step}))"
        assert ask(page, f"[...{blocks}.owner].map((owner, block) => owner < 0 ? 0 : {filled})") == written
        assert sorted(ask(page, f"{lane}.waiting.map((entry) => entry.request)")) == waiting
        assert ask(page, cells(lane, step)) == doing
        for request in range(trace.num_requests):
            sampled = chunks["sampled"][(chunks["request"] == request) & (chunks["step"] <= step)].sum()
            assert ask(page, f"{lane}.replay.generated({request}, {step})") == sampled


def cells(lane: str, step: int) -> str:
    """Asks for request and kind in every slot of a step."""
    run = f"{lane}.replay.cell({step}, slot)"
    what = f"{run} < 0 ? null : [{lane}.replay.runs.request[{run}], KIND_NAMES[{lane}.replay.runKind[{run}]]]"
    names = '["decode", "prefill", "chunk", "recompute", "straggler"]'
    return f"Array.from({{ length: {lane}.replay.numSlots }}, (_, slot) => {what.replace('KIND_NAMES', names)})"


def replay(trace: Trace) -> Iterator[tuple[list[int], list[int], list[int], list[list[Any] | None]]]:
    """Per step: owner and written tokens of each block, who waits, who does what; slowly, from the definitions."""
    size, count, chunks = trace.meta["block_size"], trace.meta["num_blocks"], trace.chunks()
    changes = list(zip(*trace.tables["blocks"].values(), strict=True))
    events = list(zip(*trace.tables["events"].values(), strict=True))
    arrivals, starts = np.array(trace.requests["arrival_us"]), trace.step_times()[0] * 1e6 + 0.5
    tables: dict[int, list[int]] = {request: [] for request in range(trace.num_requests)}
    history = [History(prompt) for prompt in trace.requests["prompt"]]
    row = at = 0
    for step in range(trace.num_steps):
        while row < len(changes) and changes[row][0] <= step:
            _, request, freed, num = changes[row]
            table = tables[request]
            tables[request] = table[: len(table) - num] if freed else table + list(trace.block_ids[at : at + num])
            row, at = row + 1, at + (0 if freed else num)
        doing: list[list[Any] | None] = [None] * trace.meta["max_num_seqs"]
        for i in np.flatnonzero(chunks["step"] == step):
            request = int(chunks["request"][i])
            doing[chunks["slot"][i]] = [request, history[request].take(*(int(chunks[c][i]) for c in CHUNK))]
        owners, written = [-1] * count, [0] * count
        for request, table in tables.items():
            for place, block in enumerate(table):
                owners[block] = request
                written[block] = max(0, min(size, history[request].computed - place * size))
        waiting = set(np.flatnonzero(arrivals <= starts[step]).tolist())
        for at_step, kind, request in events:
            if at_step <= step and kind in (0, 2):
                waiting.discard(request)
            elif at_step <= step and kind == 1:
                waiting.add(request)
        yield owners, written, sorted(waiting), doing


def test_books_that_do_not_balance_are_shown_as_far_as_they_go(show: Opener) -> None:
    page = show(TRACES["broken books"]()).page
    goto(page, 0)
    assert ask(page, "[...player.lanes[0].replay.blocks.owner]") == [-1, -1, -1, 0]


CHUNK = ("start", "tokens", "sampled")


@dataclass(slots=True)
class History:
    """How far a request has got, and what its next chunk therefore is."""

    prompt: int
    computed: int = 0
    reached: int = 0
    outputs: int = 0
    partial: bool = False

    def take(self, start: int, tokens: int, sampled: int) -> str:
        if not tokens:
            return "straggler"
        if self.outputs and start == self.prompt + self.outputs - 1:
            kind = "decode"
        elif start < self.reached:
            kind = "recompute"
        else:
            kind = "chunk" if self.partial or not sampled else "prefill"
        self.computed = start + tokens
        self.reached = max(self.reached, self.computed)
        self.outputs += sampled
        self.partial = not sampled
        return kind


def test_a_request_that_is_pointed_at_lights_up_in_every_view(show: Opener) -> None:
    page = show(static_trace(text=True)).page
    goto(page, 20)
    before = [bar(page, slot) for slot in (1, 4)], block(page, 1), block(page, 4)
    page.locator(".sp-queue-list li").nth(1).hover()
    page.wait_for_function(f"{PLAYER}.hovered === 'r9'")
    assert page.locator(".sp-queue-list .sp-lit").text_content().startswith("r9")
    box = page.locator(".sp-blocks-canvas").bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.wait_for_function(f"{PLAYER}.hovered === 'r1'")
    settle(page)
    assert page.locator(".sp-inspector .sp-head").inner_text().split() == ["r1", "Request", "r1"]
    assert page.locator(".sp-tip").inner_text().startswith("block 1 · r1")
    (own_bar, other_bar), own_block, other_block = before
    assert (bar(page, 1), block(page, 1)) == (own_bar, own_block)
    assert bar(page, 4) != other_bar
    assert block(page, 4) != other_block
    page.mouse.click(box["x"] + 40, box["y"] + 40)
    assert ask(page, "player.selected") == "r1"


def bar(page: Page, slot: int) -> list[int]:
    """The colour of a slot's bar in the middle of step 10."""
    x = "Math.round(timeline.x((timeline.axis.from[10] + timeline.axis.to[10]) / 2))"
    pixel = f"timeline.context.getImageData({x}, 20 + timeline.rowHeight * {slot} + 6, 1, 1).data"
    return ask(page, f"((timeline) => [...{pixel}])(player.lanes[0].timeline)")


def block(page: Page, number: int) -> list[int]:
    """The colour at the left of a block."""
    pixel = f"grid.context.getImageData(3, grid.cellHeight * {number} + 4, 1, 1).data"
    return ask(page, f"((grid) => [...{pixel}])(player.lanes[0].grid)")


def test_keys_do_what_the_help_says(show: Opener) -> None:
    trace = continuous_trace()
    page = show(trace).page
    admitted = sorted({step for step in trace.tables["events"]["step"] if step < trace.num_steps})
    last = trace.num_steps - 1
    scrubber = page.locator(".sp-range")
    for key, step in [
        ("ArrowRight", 1), ("Shift+ArrowRight", 11), ("ArrowLeft", 10), ("End", last), ("Home", 0), ("n", admitted[1]),
        ("n", admitted[2]), ("p", admitted[1]), ("Shift+ArrowLeft", max(0, admitted[1] - 10)),
    ]:  # fmt: skip
        scrubber.press(key)
        assert ask(page, "player.lanes[0].step") == step, key
    rate = ask(page, "player.clock.rate")
    scrubber.press("+")
    assert ask(page, "player.clock.rate") == rate + 1
    scrubber.press("ArrowDown")
    assert ask(page, "player.selected") != ""
    scrubber.press("?")
    assert page.locator(".sp-help").is_visible()
    scrubber.press("Escape")
    assert not page.locator(".sp-help").is_visible()
    scrubber.press("Escape")
    assert ask(page, "player.selected") == ""
    scrubber.press(" ")
    page.wait_for_function(f"{PLAYER}.lanes[0].step > 3")
    assert page.locator(".sp-story").get_attribute("aria-live") == "off"
    page.locator(".sp-play").press(" ")
    assert page.locator(".sp-story").get_attribute("aria-live") == "polite"
    page.locator(f'.sp-range[aria-valuetext^="step {ask(page, "player.lanes[0].step")} of {last}"]').wait_for()


def test_dragging_the_timeline_scrubs(show: Opener) -> None:
    page = show(static_trace()).page
    box = page.locator(".sp-timeline").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 60, steps=4)
    page.mouse.up()
    expected = ask(page, "player.lanes[0].timeline.pick(300, 60).step")
    assert ask(page, "player.lanes[0].step") == expected > 10


def test_several_runs_share_one_clock(show: Opener) -> None:
    traces = TRACES["two"]()
    page = show(traces).page
    for share in (0.2, 0.6, 1.0):
        at = share * max(trace.step_times()[1][-1] for trace in traces) * 1e6
        ask(page, f"player.seek({at})")
        expected = [int((trace.step_times()[0] * 1e6 <= at + 0.5).sum()) - 1 for trace in traces]
        assert ask(page, "player.lanes.map((lane) => lane.step)") == expected
    settle(page)
    assert "22 of 22 done at" in page.locator(".sp-progress").nth(1).text_content()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["preempting", "three"])
def test_axe_finds_nothing(name: str, scheme: str, show: Opener) -> None:
    page = show(TRACES[name](), color_scheme=scheme).page
    for key in ("n", "n", "ArrowDown", "?"):
        page.locator(".sp-range").press(key)
    settle(page, 300)
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def test_the_theme_is_followed_while_the_player_lives(show: Opener) -> None:
    page = show(static_trace(), color_scheme="light").page
    assert ask(page, "player.palette.dark") is False
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{PLAYER}.palette.dark === true")
    page.evaluate("document.documentElement.style.setProperty('--jp-layout-color1', '#fff')")
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    page.wait_for_function(f"{PLAYER}.palette.dark === false")


def test_a_draw_of_a_long_run_takes_hardly_longer_than_of_a_short_one(show: Opener) -> None:
    """Ten times the steps, with the same slots and blocks; ``benchmarks/player.py`` says how often a second."""
    long, short = (show(huge_trace(steps)) for steps in (2000, 200))
    millis = [[watched.page.evaluate(DRAW) for watched in (long, short)] for _ in range(3)]
    print("milliseconds a draw:", [[round(each, 2) for each in pair] for pair in millis])
    assert min(pair[0] for pair in millis) < 4 * min(pair[1] for pair in millis)
    assert long.errors == short.errors == []


def test_scrubbing_draws_once_for_each_place_it_stops_at(show: Opener) -> None:
    page = show(huge_trace(200)).page
    settle(page, 700)  # the page's fonts and sizes are looked at until then
    drawn = ask(page, "player.draws")
    for step in (3, 77, 150, 20):
        page.evaluate(SCRUB, step)
        assert ask(page, "player.lanes[0].step") == step
    assert ask(page, "player.draws") == drawn + 4


DRAW = """() => {
  const player = document.querySelector('.step-player').player, steps = player.lanes[0].replay.numSteps, count = 40;
  const begin = performance.now();
  for (let i = 0; i < count; i++) {
    player.seek((i * 997) % steps);
    player._drawNow();
  }
  return (performance.now() - begin) / count;
}"""
SCRUB = """async (step) => {
  const range = document.querySelector('.step-player').player.controls.range;
  range.value = step;
  range.dispatchEvent(new Event('input'));
  range.dispatchEvent(new Event('input'));
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
}"""
