"""Pictures of how long callers wait: distributions, the price of throughput, and who ran when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lablib.metrics import inter_token_latencies, request_times
from lablib.trace import Trace
from lablib.viz.figures import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Picture, new_figure, png
from lablib.viz.picture import draw_picture

# Lines differ in dash and marker too, for those who don't tell the colours apart.
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)
DASHES = ("-", (0, (5, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P")
TITLES = {
    "queue": "queue time (s)",
    "ttft": "time to first token (s)",
    "tpot": "time per output token (s)",
    "e2e": "time to last token (s)",
    "itl": "gap between two tokens (s)",
}


def latency_cdf(traces: Mapping[str, Trace], latency: str, alt: str = "", log: bool = False) -> Picture:
    """Draw which share of all requests (or gaps) was at most so slow, a line a run.

    Args:
        traces: name of the run → its trace.
        latency: "queue", "ttft", "tpot", "e2e", or "itl" for the pooled gaps between tokens.
        alt: what it shows, in a sentence; medians and 99th percentiles when left out.
        log: whether the time axis is logarithmic.

    Raises:
        ValueError: another latency.
    """
    if latency not in TITLES:
        raise ValueError(f"there is no latency {latency!r}; there are {', '.join(TITLES)}")
    figure, axes = new_figure()
    says = []
    for i, (name, trace) in enumerate(traces.items()):
        values = inter_token_latencies(trace) if latency == "itl" else request_times(trace)[latency]
        values = np.sort(values[~np.isnan(values)])
        if not len(values):
            says.append(f"{name}: none")
            continue
        shares = np.arange(1, len(values) + 1) / len(values)
        axes.step(values, shares, where="post", label=name, color=_colour(i), linestyle=DASHES[i % len(DASHES)])
        says.append(f"{name}: median {np.median(values):.3g} s, p99 {np.percentile(values, 99):.3g} s")
    for share in (0.5, 0.9, 0.99):
        axes.axhline(share, color="#999999", linewidth=0.6, linestyle=(0, (1, 3)))
        axes.annotate(f"p{100 * share:.0f}", (1, share), xycoords=("axes fraction", "data"), fontsize=8, va="bottom")
    axes.set(xlabel=TITLES[latency], ylabel="share that was faster", ylim=(0, 1.02))
    axes.set_xscale("log" if log else "linear")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="lower right")
    return Picture(png(figure), alt or f"Distribution of the {TITLES[latency]}. {'; '.join(says)}.")


def frontier(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    alt: str = "",
    xlabel: str = "output tokens/s",
    ylabel: str = "p99 time to first token (s)",
    log: bool = False,
) -> Picture:
    """Draw what latency each throughput costs, a line a setting; down and to the right is better.

    Args:
        curves: label → points (throughput, latency), in the order in which the load or the knob rises.
        alt: what it shows, in a sentence; the ends of every line when left out.
        xlabel: name and unit of the throughput.
        ylabel: name and unit of the latency.
        log: whether the latency axis is logarithmic.
    """
    figure, axes = new_figure()
    says = []
    for i, (label, points) in enumerate(curves.items()):
        x, y = [point[0] for point in points], [point[1] for point in points]
        axes.plot(x, y, marker=MARKERS[i % len(MARKERS)], label=label, color=_colour(i))
        if points:
            says.append(f"{label}: from {x[0]:.4g} at {y[0]:.3g} to {x[-1]:.4g} at {y[-1]:.3g}")
    axes.set(xlabel=xlabel, ylabel=ylabel, yscale="log" if log else "linear")
    if not log:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return Picture(png(figure), alt or f"{ylabel} against {xlabel}. {'; '.join(says)}.")


def timeline(traces: Mapping[str, Trace], alt: str = "", title: str = "") -> Picture:
    """Draw who sat in which slot when, the runs one above the other on one time axis.

    Args:
        traces: name of the run → its trace.
        alt: what it shows, in a sentence; when each run ended, when left out.
        title: above the picture.
    """
    ends = {name: trace.step_times()[1][-1] if trace.num_steps else 0.0 for name, trace in traces.items()}
    says = "; ".join(f"{name} ends after {end:.3g} s" for name, end in ends.items())
    return Picture(draw_picture(list(traces.values()), list(traces), title), alt or f"Slots over time. {says}.")


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]
