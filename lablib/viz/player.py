"""StepPlayer: every step of a run, to look at and to touch, in a notebook cell or on one offline page."""

from __future__ import annotations

import base64
import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from lablib.trace import Trace
from lablib.viz import assets
from lablib.viz.figures import WIDGET_MIME, Picture
from lablib.viz.picture import draw_picture

END_WORDS = {
    None: "unfinished",
    "stop": "finished",
    "length": "finished",
    "abort": "aborted",
    "error": "refused or failed",
}


class StepPlayer(anywidget.AnyWidget):
    """Plays one trace, or two and three of the same requests side by side on one clock.

    Shown in a cell it gives two outputs: a picture, for readers without a kernel, and the live player, which hides
    the picture as long as it lives.

    Args:
        trace: a trace, or a list of them.
        title: a line above everything.
        names: what to call each trace; its scheduler's name by default.
        height: pixels for the rows of slots; by default as many as stay legible.

    Attributes:
        step: the step shown, from 0; of the first trace where there are several. Can be set.
        selected: id of the selected request, or "". Can be set.

    Raises:
        ValueError: there is no trace, or not one name a trace.
    """

    _esm = assets.script()
    _css = assets.style()
    _traces = traitlets.List(traitlets.Bytes()).tag(sync=True)
    _names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _alt = traitlets.Unicode().tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
    height = traitlets.Int(None, allow_none=True).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        trace: Trace | Sequence[Trace],
        title: str | None = None,
        names: Sequence[str] | None = None,
        height: int | None = None,
    ) -> None:
        traces = [trace] if isinstance(trace, Trace) else list(trace)
        if not traces:
            raise ValueError("StepPlayer needs a trace, and got an empty list")
        names = [default_name(each) for each in traces] if names is None else list(names)
        if len(names) != len(traces):
            raise ValueError(f"StepPlayer needs a name for each trace: {len(traces)} traces, {len(names)} names")
        self.traces = traces
        super().__init__(
            _traces=[each.compressed() for each in traces],
            _names=names,
            _alt="; ".join(summary(each, name) for each, name in zip(traces, names, strict=True)),
            title=title or "",
            height=height,
        )

    @traitlets.validate("step")
    def _inside(self, proposal: dict[str, Any]) -> int:
        return max(0, min(int(proposal["value"]), max(0, self.traces[0].num_steps - 1)))

    def goto(self, step: int) -> None:
        """Show a step, counted from 0."""
        self.step = step

    def __repr__(self) -> str:
        return f"StepPlayer({self._alt})"

    def _ipython_display_(self) -> None:
        picture = Picture(draw_picture(self.traces, self._names, self.title), self._alt, width="960px")
        display(picture._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        display({WIDGET_MIME: view, "text/plain": "StepPlayer: run this cell for the live player"}, raw=True)  # type: ignore[no-untyped-call]

    def save_html(self, path: str | Path) -> Path:
        """Write the player as one page that needs neither kernel nor network."""
        state = {"_names": self._names, "title": self.title, "height": self.height, "_alt": self._alt}
        state |= {"step": self.step, "selected": self.selected}
        values = {
            "heading": html.escape(self.title or " · ".join(self._names)),
            "style": assets.style(),
            "state": json.dumps(state).replace("<", "\\u003c"),
            "traces": json.dumps([base64.b64encode(each).decode() for each in self._traces]),
            "script": assets.script().replace("export default", "const player ="),
        }
        page = re.sub(r"%(\w+)%", lambda place: values[place[1]], assets.page())
        path = Path(path)
        path.write_text(page, encoding="utf-8")
        return path


def default_name(trace: Trace) -> str:
    """The scheduler's name, or that of the workload, or just "run"."""
    return str(trace.meta.get("scheduler") or trace.meta.get("workload") or "run")


def summary(trace: Trace, name: str) -> str:
    """One line that is the same whenever the run is: counts, no times."""
    ends = Counter(END_WORDS.get(reason, "ended") for reason in trace.requests["finish_reason"])
    fates = ", ".join(f"{count} {word}" for word, count in sorted(ends.items())) or "none"
    slots = trace.meta.get("max_num_seqs")
    blocks = trace.meta.get("num_blocks")
    limits = "".join(f", {value} {word}" for value, word in ((slots, "slots"), (blocks, "KV blocks")) if value)
    return f"{name}: {trace.num_steps} steps{limits}; requests: {fates}"
