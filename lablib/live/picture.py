"""The still picture of the live view, for readers who have no kernel: an example, the same in every notebook."""

from __future__ import annotations

from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from lablib.viz.figures import png
from lablib.viz.picture import HUES

ON_HUES = ["white", "black", "black", "black", "black", "black"]  # whichever can be read
# What SmolLM2-135M-Instruct wrote, greedily, and how far it had got: prompt, answer so far and most tokens in all.
SLOTS = [
    ("r0", "A glacier is a large mass of ice that moves slowly under its own weight, carrying", 38, 24, 102),
    ("r6", "First, measure your windowsill. Then choose herbs that like the same light:", 42, 17, 90),
    ("r2", "the keeper saw a light far out at sea. It was small and steady, and it was", 19, 47, 83),
    ("r5", "Once upon a time, in a quiet village by the river, there was", 35, 14, 99),
]
QUEUE = [("r7", "slots"), ("r8", "behind r7"), ("r9", "behind r7")]


@cache
def draw_example(title: str) -> bytes:
    """The view as it looks with requests in it; a PNG, 960 pixels wide."""
    figure = Figure(figsize=(9.6, 3.1), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 960)
    axes.set_ylim(310, 0)
    axes.axis("off")
    write(axes, 20, 30, title, size=13, weight="bold")
    write(axes, 20, 54, "Run this cell to type a prompt and watch it join the running batch. An example:", color="#5c5e63")
    for row, slot in enumerate(SLOTS):
        draw_slot(axes, 82 + 52 * row, row, *slot)
    write(axes, 700, 82, "Waiting queue", weight="bold")
    for row, (name, reason) in enumerate(QUEUE):
        draw_chip(axes, 700, 108 + 26 * row, name)
        write(axes, 746, 108 + 26 * row, reason, weight="bold" if row == 0 else "normal")
    return png(figure, dpi=100)


def draw_slot(axes: Axes, y: float, slot: int, name: str, text: str, prompt: int, output: int, most: int) -> None:
    """One slot: who sits there, what it says, and how far it is."""
    hue = HUES[int(name[1:]) % len(HUES)]
    write(axes, 20, y, str(slot), color="#5c5e63")
    draw_chip(axes, 40, y, name)
    write(axes, 88, y, text)
    left, width, scale = 88.0, 560.0, 560.0 / most
    for start, share, alpha in ((left, width, 0.17), (left, (prompt + output) * scale, 0.46), (left, prompt * scale, 1.0)):
        axes.add_patch(FancyBboxPatch((start, y + 15), share, 5, "square,pad=0", facecolor=hue, alpha=alpha, linewidth=0))
    write(axes, 680, y, f"{output} / {most - prompt}", color="#5c5e63", ha="right")


def draw_chip(axes: Axes, x: float, y: float, name: str) -> None:
    """A request's name on its colour."""
    number = int(name[1:]) % len(HUES)
    box = FancyBboxPatch((x, y - 9), 36, 18, "round,pad=0,rounding_size=4", facecolor=HUES[number], linewidth=0)
    axes.add_patch(box)
    write(axes, x + 18, y, name, color=ON_HUES[number], weight="bold", ha="center")


def write(axes: Axes, x: float, y: float, text: str, size: float = 9.5, color: str = "#1b1d21", **look: Any) -> None:
    """Text that is never read as a formula."""
    axes.text(x, y, text, fontsize=size, color=color, va="center", parse_math=False, **look)
