"""Figures in a notebook: one look, and an alternative text for those who don't see them."""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers too (jfly.uni-koeln.de/color, 2008).
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
INK, GRID = "#222222", "#DDDDDD"


def new_figure(width: float = 7.2, height: float = 3.6) -> tuple[Figure, Any]:
    """A figure of so many inches with one plain pair of axes; it belongs to no window and needs no closing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, at twice the usual resolution and of few colours: a notebook holds it twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(144)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.frombuffer("RGBA", canvas.get_width_height(), bytes(canvas.buffer_rgba())).convert("RGB")
    buffer = io.BytesIO()
    image.quantize(64, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def image_html(image: bytes, alt: str, width: str = "720px") -> str:
    """An HTML image that carries its own data and its alternative text."""
    data = base64.b64encode(image).decode()
    return f'<img alt="{html.escape(alt)}" style="width:{width};max-width:100%" src="data:image/png;base64,{data}">'


@dataclass(frozen=True, slots=True)
class Picture:
    """An image with a sentence that says what it shows; display it, or let it be a cell's last value.

    Args:
        image: a PNG file.
        alt: what it shows, in a sentence; deterministic when the cell's output is compared.
    """

    image: bytes
    alt: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {
            "text/html": image_html(self.image, self.alt),
            "image/png": base64.b64encode(self.image).decode(),
            "text/plain": self.alt,
        }
