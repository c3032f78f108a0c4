"""A still picture of a run, for readers who have no kernel: slots × steps, and the KV blocks in use."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from PIL import Image

from lablib.trace import Trace

# Okabe and Ito's hues (2008), as in the player; vermillion is kept for waste.
HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442"]
WASTE = "#d55e00"
Boxes = npt.NDArray[np.float64]


def draw_picture(traces: Sequence[Trace], names: Sequence[str], title: str = "") -> bytes:
    """Draw all traces one above the other, on one time axis when there are several.

    Returns:
        A PNG, 960 pixels wide, of few colours and therefore small.
    """
    heights = [1.1 + 0.12 * min(16, max(4, num_slots(trace))) for trace in traces]
    figure = Figure(figsize=(9.6, sum(heights) + 0.75), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    rows = figure.subplots(len(traces), 1, sharex=len(traces) > 1, squeeze=False, height_ratios=heights)
    for axes, trace, name in zip(rows[:, 0], traces, names, strict=True):
        draw_run(axes, trace, name, by_time=len(traces) > 1)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    figure.legend(handles=legend(traces), loc="outside lower left", ncols=6, frameon=False, fontsize=8)
    canvas.draw()
    buffer = io.BytesIO()
    image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def num_slots(trace: Trace) -> int:
    """Rows of the picture: the slots in use, or all there are where that isn't many more."""
    slots = trace.tables["runs"]["slot"]
    limit = trace.meta.get("max_num_seqs")
    return max([1, *(slot + 1 for slot in slots), *([limit] if isinstance(limit, int) and limit <= 128 else [])])


def draw_run(axes: Axes, trace: Trace, name: str, *, by_time: bool) -> None:
    """Draw one box a run of chunks: solid for prompts, soft for decoding, hatched for waste."""
    runs = {column: trace.column("runs", column) for column in trace.tables["runs"]}
    starts, ends = trace.step_times() if by_time else (np.arange(trace.num_steps), np.arange(trace.num_steps) + 1.0)
    left, right = starts[runs["step"]], ends[runs["step"] + runs["count"] - 1]
    width = right - left
    share = runs["tokens"] / np.maximum(1, runs["tokens"] + runs["padding"])
    real = width * share
    decode = (runs["tokens"] == 1) & (runs["start"] > 0)
    for hue, colour in enumerate(HUES):
        own = (runs["request"] % len(HUES) == hue) & (runs["tokens"] > 0)
        for which, alpha in ((own & decode, 0.45), (own & ~decode, 1.0)):
            add_boxes(axes, left[which], runs["slot"][which], real[which], facecolor=colour, alpha=alpha)
    padded, straggling = (runs["padding"] > 0) & (runs["tokens"] > 0), runs["tokens"] == 0
    waste = {"facecolor": "#fdeee2", "edgecolor": WASTE, "linewidth": 0.0}
    add_boxes(axes, (left + real)[padded], runs["slot"][padded], (width - real)[padded], hatch="//////", **waste)
    add_boxes(axes, left[straggling], runs["slot"][straggling], width[straggling], hatch="......", **waste)
    axes.set_xlim(0, max(ends[-1], 1e-9) if trace.num_steps else 1)
    axes.set_ylim(num_slots(trace), 0)
    axes.set_xlabel("seconds" if by_time else "step", fontsize=9)
    axes.set_ylabel("slot", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    workload = trace.meta.get("workload")
    axes.set_title(f"{name} · {workload}" if workload else name, loc="left", fontsize=11, parse_math=False)


def add_boxes(axes: Axes, left: Boxes, slot: Boxes, width: Boxes, **look: Any) -> None:
    """Add boxes of one look, a row a slot, with a hair of paper between rows."""
    if not len(left):
        return
    top, bottom = slot + 0.06, slot + 0.94
    corners = np.stack([left, top, left + width, top, left + width, bottom, left, bottom], axis=1)
    axes.add_collection(PolyCollection(list(corners.reshape(-1, 4, 2)), **{"linewidth": 0.0, **look}), autolim=False)


def legend(traces: Sequence[Trace]) -> list[Patch]:
    """Keys for what the runs hold."""
    padding = any(any(trace.tables["runs"]["padding"]) for trace in traces)
    handles = [Patch(facecolor=HUES[0], label="prefill"), Patch(facecolor=HUES[0], alpha=0.45, label="decode")]
    if padding:
        look = {"facecolor": "#fdeee2", "edgecolor": WASTE, "linewidth": 0.0}
        handles += [Patch(hatch="//////", label="padding", **look), Patch(hatch="......", label="straggler", **look)]
    return handles
