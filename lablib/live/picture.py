"""The still picture of the live view, for readers who have no kernel: an example, the same in every notebook."""

from __future__ import annotations

from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from lablib.viz.figures import png
from lablib.viz.picture import HUES

ON_HUES = ["white", "black", "black", "black", "black", "black"]  # whichever can be read
# From a run of SmolLM2-135M-Instruct: request, answer so far, prompt tokens, output tokens, most tokens in all.
SLOTS = [
    ("r0", "A glacier is a massive ice sheet that covers vast areas of land, including ice", 41, 17, 105),
    ("r1", "Aye, the eternal quest for perfection. You're right, the key to a great sourdough", 68, 20, 130),
    ("r2", "A bicycle stays upright while moving by using the principle of aerodynamics.", 61, 15, 102),
    ("r9", "Boiling, simmering, and poaching are three fundamental cooking methods", 58, 12, 95),
]
INVITATION = "Run this cell to type a prompt and watch it join the running batch. What you will see, for example:"
MUTED = "#5c5e63"
QUEUE = [("r10", "slots"), ("r11", "behind r10"), ("r12", "behind r10")]


@cache
def draw_example(title: str) -> bytes:
    """The view as it looks with requests in it; a PNG, 960 pixels wide."""
    figure = Figure(figsize=(9.6, 3.1), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 960)
    axes.set_ylim(310, 0)
    axes.axis("off")
    write(axes, 20, 30, title, size=13, weight="bold")
    write(axes, 20, 54, INVITATION, color=MUTED)
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
    write(axes, 20, y, str(slot), color=MUTED)
    draw_chip(axes, 40, y, name)
    write(axes, 88, y, text)
    for tokens, alpha in ((most, 0.17), (prompt + output, 0.46), (prompt, 1.0)):
        axes.add_patch(Rectangle((88, y + 15), 590 * tokens / most, 5, facecolor=hue, alpha=alpha, linewidth=0))
    write(axes, 678, y, f"{output} / {most - prompt}", color=MUTED, ha="right")


def draw_chip(axes: Axes, x: float, y: float, name: str) -> None:
    """A request's name on its colour."""
    number = int(name[1:]) % len(HUES)
    box = FancyBboxPatch((x, y - 9), 36, 18, "round,pad=0,rounding_size=4", facecolor=HUES[number], linewidth=0)
    axes.add_patch(box)
    write(axes, x + 18, y, name, color=ON_HUES[number], weight="bold", ha="center")


def write(axes: Axes, x: float, y: float, text: str, size: float = 9.5, color: str = "#1b1d21", **look: Any) -> None:
    """Text that is never read as a formula."""
    axes.text(x, y, text, fontsize=size, color=color, va="center", parse_math=False, **look)
