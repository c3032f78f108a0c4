"""A still picture of a run, slots × steps, for readers who have no kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lablib.trace import Trace
from lablib.viz.figures import png

# Okabe and Ito's hues (2008), as in the player; vermillion is kept for waste.
HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442"]
WASTE_LOOK: dict[str, Any] = {"facecolor": "#fdf1e8", "edgecolor": "#d55e00", "linewidth": 0.0}
TEXTURES = {"padding": "//////", "straggler": "....."}
MOST_LABELLED_SLOTS = 16
Numbers = npt.NDArray[Any]


def draw_picture(traces: Sequence[Trace], names: Sequence[str], title: str = "") -> bytes:
    """Draw all traces one above the other, on one time axis when there are several.

    Returns:
        A PNG, 960 pixels wide, of few colours and therefore small.
    """
    heights = [0.75 + 0.16 * min(16, max(4, num_slots(trace))) for trace in traces]
    figure = Figure(figsize=(9.6, sum(heights) + 0.7), layout="constrained")
    rows = figure.subplots(len(traces), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, trace, name in zip(rows, traces, names, strict=True):
        draw_run(axes, trace, name, by_time=len(traces) > 1)
    end = max([axes.get_xlim()[1] for axes in rows])
    for axes in rows:
        axes.set_xlim(0, end)
    rows[-1].set_xlabel("seconds" if len(traces) > 1 else "step", fontsize=9)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", parse_math=False)
    figure.legend(handles=legend(traces), loc="outside lower left", ncols=6, frameon=False, fontsize=8)
    return png(figure, dpi=100)


def num_slots(trace: Trace) -> int:
    """Rows of the picture: the slots in use, or all there are where that isn't many more."""
    slots = trace.tables["runs"]["slot"]
    limit = trace.meta.get("max_num_seqs")
    return max([1, *(slot + 1 for slot in slots), *([limit] if isinstance(limit, int) and limit <= 128 else [])])


def draw_run(axes: Axes, trace: Trace, name: str, *, by_time: bool) -> None:
    """Draw one box a run of chunks: solid for prompts, soft for decoding, hatched for waste."""
    runs = {column: trace.column("runs", column) for column in trace.tables["runs"]}
    starts, ends = trace.step_times() if by_time else step_edges(trace, runs)
    left = starts[runs["step"]]
    width = ends[runs["step"] + runs["count"] - 1] - left
    real = width * runs["tokens"] / np.maximum(1, runs["tokens"] + runs["padding"])
    decode = (runs["tokens"] == 1) & (runs["start"] > 0)
    for hue, colour in enumerate(HUES):
        own = (runs["request"] % len(HUES) == hue) & (runs["tokens"] > 0)
        for which, alpha in ((own & decode, 0.45), (own & ~decode, 1.0)):
            add_boxes(axes, left[which], runs["slot"][which], real[which], facecolor=colour, alpha=alpha)
    padded, straggling = (runs["padding"] > 0) & (runs["tokens"] > 0), runs["tokens"] == 0
    for texture, which in (("padding", padded), ("straggler", straggling)):
        begin, rest = (left + real)[which], (width - real)[which]
        add_boxes(axes, begin, runs["slot"][which], rest, hatch=TEXTURES[texture], **WASTE_LOOK)
    end = ends[-1] if len(ends) else 0
    axes.set_xlim(0, end or 1)
    if num_slots(trace) <= MOST_LABELLED_SLOTS:
        wide = decode & (width > end / 30)
        for x, slot, request in zip(left[wide], runs["slot"][wide], runs["request"][wide], strict=True):
            label = trace.requests["id"][request][:8]
            axes.text(x, slot + 0.53, f" {label}", va="center", fontsize=7, clip_on=True, parse_math=False)
    draw_frame(axes, trace, name, None if by_time else starts)


def step_edges(trace: Trace, runs: dict[str, Numbers]) -> tuple[Numbers, Numbers]:
    """Where each step begins and ends when, as in the player, a step is as wide as its longest row, compressed."""
    widest = np.ones(trace.num_steps)
    for step, count, length in zip(runs["step"], runs["count"], runs["tokens"] + runs["padding"], strict=True):
        np.maximum(widest[step : step + count], length, out=widest[step : step + count])
    ends = np.cumsum(1 + 0.9 * np.log2(widest))
    return np.concatenate([[0.0], ends[:-1]])[: len(ends)], ends


def draw_frame(axes: Axes, trace: Trace, name: str, steps: Numbers | None) -> None:
    """Title and ticks; with ``steps``, the places of the steps, ticks count them."""
    slots = num_slots(trace)
    every = -(-slots // 8)
    axes.set_ylim(slots, 0)
    axes.set_yticks(np.arange(0, slots, every) + 0.5, [str(slot) for slot in range(0, slots, every)])
    axes.set_ylabel("slot", fontsize=9)
    if steps is not None and len(steps):
        power = 10 ** int(np.log10(max(1, len(steps) / 10)))
        apart = next(digit * power for digit in (1, 2, 5, 10) if digit * power * 12 >= len(steps))
        axes.set_xticks(steps[::apart], [str(step) for step in range(0, len(steps), apart)])
    axes.tick_params(labelsize=8, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    workload = trace.meta.get("workload")
    axes.set_title(f"{name} · {workload}" if workload else name, loc="left", fontsize=10, parse_math=False)


def add_boxes(axes: Axes, left: Numbers, slot: Numbers, width: Numbers, **look: Any) -> None:
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
        handles += [Patch(hatch=hatch, label=label, **WASTE_LOOK) for label, hatch in TEXTURES.items()]
    return handles
