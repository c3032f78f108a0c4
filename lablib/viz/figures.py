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
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


def new_figure(width: float = 7.2, height: float = 3.6) -> tuple[Figure, Any]:
    """A figure of so many inches with one plain pair of axes; it belongs to no window and needs no closing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def png(figure: Figure, dpi: int = 144) -> bytes:
    """The figure as a PNG file of few colours, and therefore small: a notebook holds it twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = canvas.buffer_rgba()  # type: ignore[no-untyped-call]
    image = Image.frombuffer("RGBA", canvas.get_width_height(), pixels).convert("RGB")
    buffer = io.BytesIO()
    image.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def image_html(image: bytes, alt: str, width: str = "720px") -> str:
    """An HTML image that carries its own data and its alternative text."""
    data = base64.b64encode(image).decode()
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{data}" style="width:{width};max-width:100%">'


@dataclass(frozen=True, slots=True)
class Picture:
    """An image with a sentence that says what it shows; display it, or let it be a cell's last value.

    Args:
        image: a PNG file.
        alt: what it shows, in a sentence; deterministic when the cell's output is compared.
        width: how wide it is shown where there is room, as CSS says it.
    """

    image: bytes
    alt: str

    width: str = "720px"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {
            "text/html": image_html(self.image, self.alt, self.width),
            "image/png": base64.b64encode(self.image).decode(),
            "text/plain": self.alt,
        }
