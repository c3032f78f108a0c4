"""Change one thing: sliders beside a picture that is drawn anew on every move."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.viz.figures import WIDGET_MIME, Picture, image_html

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Control:
    """One slider.

    Args:
        label: what it changes, with the unit.
        values: the values to choose from, in order.
        start: the value it begins with; one of ``values``.
    """

    label: str
    values: Sequence[Any]
    start: Any


def explore(draw: Callable[..., Picture], **controls: Control) -> None:
    """Show ``draw(**values)``, and sliders that draw it again.

    Two outputs are shown: the picture as it begins, which a notebook keeps that is read without a kernel, and the live
    sliders, which hide it.

    Args:
        draw: makes the picture from one value a control; should take less than 0.3 s.
        controls: name of an argument of ``draw`` → its slider.

    Raises:
        ValueError: a control begins with a value that it does not offer.
    """
    from IPython.display import display

    for name, control in controls.items():
        if control.start not in control.values:
            raise ValueError(f"control {name} begins with {control.start}, which is not among {list(control.values)}")
    picture = draw(**{name: control.start for name, control in controls.items()})
    display(picture)  # type: ignore[no-untyped-call]
    live = {WIDGET_MIME: _live(draw, picture, controls)._repr_mimebundle_()[WIDGET_MIME]}
    display(live, raw=True)  # type: ignore[no-untyped-call]


def _live(draw: Callable[..., Picture], picture: Picture, controls: Mapping[str, Control]) -> Any:
    """The sliders and their picture as a widget."""
    import ipywidgets as widgets

    # The picture that stands before the widget is the same one: hide it where the widget is alive.
    name = f"lablib-explore-{next(_numbers)}"
    hide = f"<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .{name}) {{ display: none; }}</style>"
    image = widgets.HTML(hide + image_html(picture.image, picture.alt))
    sliders = {
        key: widgets.SelectionSlider(
            options=[(f"{value:,}" if isinstance(value, int) else str(value), value) for value in control.values],
            value=control.start,
            description=control.label,
            continuous_update=True,
            style={"description_width": "15em"},
            layout={"width": "min(42em, 100%)"},
        )
        for key, control in controls.items()
    }

    def redraw(_: object) -> None:
        changed = draw(**{key: slider.value for key, slider in sliders.items()})
        image.value = hide + image_html(changed.image, changed.alt)

    for slider in sliders.values():
        slider.observe(redraw, names="value")
    box = widgets.VBox([*sliders.values(), image])
    box.add_class(name)
    return box
