"""What the player promises on the Python side: two outputs, one small payload, one page that needs nothing."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import pytest
from PIL import Image
from synthetic_traces import continuous_trace, huge_trace, static_trace

from lablib.trace import Trace
from lablib.viz import StepPlayer, assets
from lablib.viz import player as player_module

SVG = "http://www.w3.org/2000/svg"  # a name, not an address


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(player_module, "display", lambda data, raw: shown.append(data))
    return shown


def test_a_big_run_is_sent_in_at_most_100_kilobytes() -> None:
    player = StepPlayer(huge_trace())
    assert player.traces[0].num_steps == 2000
    assert sum(map(len, player._traces)) <= 100_000


def test_the_payload_is_the_trace_file_itself(tmp_path) -> None:
    trace = static_trace()
    assert StepPlayer(trace)._traces == [trace.save(tmp_path / "t.json.gz").read_bytes()]


def test_a_cell_gets_a_picture_and_then_the_widget(outputs: list[dict[str, Any]]) -> None:
    player = StepPlayer(static_trace())
    player._ipython_display_()
    picture, widget = outputs
    assert set(picture) == {"text/html", "image/png", "text/plain"}
    source = f"data:image/png;base64,{picture['image/png']}"
    assert picture["text/html"].startswith(f'<img alt="{player._alt}" src="{source}"')
    assert set(widget) == {"application/vnd.jupyter.widget-view+json", "text/plain"}


def test_the_text_of_both_outputs_is_the_same_in_every_run(outputs: list[dict[str, Any]]) -> None:
    for _ in range(2):
        StepPlayer(static_trace())._ipython_display_()
    assert [output["text/plain"] for output in outputs[:2]] == [output["text/plain"] for output in outputs[2:]]
    assert outputs[0]["text/plain"] == "StaticBatching: 153 steps, 8 slots, 8 KV blocks; requests: 22 finished"
    assert "0x" not in repr(StepPlayer(static_trace()))


def test_the_picture_is_small_whatever_the_run() -> None:
    three = [static_trace(), continuous_trace(), continuous_trace()]
    for traces in ([huge_trace()], [static_trace(150, slots=64)], three):
        png = player_module.draw_picture(traces, ["run"] * len(traces))
        assert Image.open(io.BytesIO(png)).width == 960
        assert len(png) <= 40_000


@pytest.mark.parametrize("trace", [Trace(), Trace({"scheduler": None, "max_num_seqs": 4, "num_blocks": 0, "odd": [1]})])
def test_a_run_without_steps_has_a_picture_too(trace: Trace, outputs: list[dict[str, Any]]) -> None:
    StepPlayer(trace)._ipython_display_()
    assert base64.b64decode(outputs[0]["image/png"]).startswith(b"\x89PNG")
    assert outputs[0]["text/plain"].startswith("run: 0 steps")


def test_names_and_titles_are_text_never_html(outputs: list[dict[str, Any]], tmp_path) -> None:
    player = StepPlayer(static_trace(3, slots=2), title='<b>"$x_1$', names=['"><script>alert(1)</script>'])
    player._ipython_display_()
    page = player.save_html(tmp_path / "page.html").read_text()
    assert "<script>alert" not in outputs[0]["text/html"] + page
    assert "<b>" not in page


def test_the_offline_page_names_no_address(tmp_path) -> None:
    page = StepPlayer(static_trace(text=True)).save_html(tmp_path / "page.html")
    text = page.read_text().replace(SVG, "")
    assert not re.search(r"https?:|//cdn|@import|url\((?!#)|\bimport\b.*\bfrom\b", text)
    assert page.stat().st_size <= 130_000


def test_every_source_file_is_part_of_the_module_once() -> None:
    script = assets.script()
    for path in assets.STATIC.glob("*.js"):
        first_line = path.read_text().splitlines()[0]
        assert first_line.startswith("// ")
        assert script.count(first_line) == 1
    assert re.findall(r"^(import|export) ?(\w*)", script, re.M) == [("export", "default")]


def test_a_step_outside_the_run_becomes_the_nearest_one() -> None:
    player = StepPlayer(static_trace())
    player.goto(17)
    assert player.step == 17
    player.goto(10_000)
    assert player.step == player.traces[0].num_steps - 1
    player.step = -3
    assert player.step == 0


def test_no_trace_and_names_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="empty list"):
        StepPlayer([])
    with pytest.raises(ValueError, match="1 traces, 2 names"):
        StepPlayer(static_trace(3), names=["a", "b"])
