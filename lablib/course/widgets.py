"""The two forms a learner fills in, of plain ipywidgets: a prediction and a quiz."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets

from lablib.course.card import inline, mark_html, styled
from lablib.course.spec import Question, Quiz

if TYPE_CHECKING:
    from lablib.course.predictions import Prediction

_VIEW = "application/vnd.jupyter.widget-view+json"


class _Manners(anywidget.AnyWidget):
    """Two attributes that ipywidgets can't set on a form: notebook shortcuts off, feedback read out by screen readers.

    Without the first, pressing `x` on a focused button cuts the notebook's cell. It must stand on the button itself:
    JupyterLab's shortcuts match `:focus`, and the search for the attribute ends at the first match.
    """

    _esm = """
    function render({ el }) {
      let tries = 0;
      const set = () => {
        const form = el.closest(".lab-card");
        if (!form) { if (tries++ < 300) requestAnimationFrame(set); return; }
        form.querySelectorAll("button, input").forEach((each) => (each.dataset.lmSuppressShortcuts = "true"));
        form.querySelectorAll(".lab-live").forEach((each) => each.setAttribute("aria-live", "polite"));
      };
      set();
    }
    export default { render };
    """


def prediction_form(
    asked: Prediction, guesses: Mapping[str, float | None], keep: Callable[[str, float | None], None]
) -> dict[str, Any]:
    """A box for a number, *Guess* and *Skip*.

    Args:
        asked: the question.
        guesses: what has been guessed so far.
        keep: called with the key and the guess, None for a skipped one.

    Returns:
        The widget's part of an output bundle.
    """
    question = ipywidgets.HTML(styled(f'<p class="lab-title">{inline(asked.question)}</p>'))
    number = ipywidgets.Text(description="Your guess", placeholder="a number", layout={"width": "220px"})
    number.style.description_width = "initial"
    unit = ipywidgets.HTML(html.escape(asked.unit))
    send = ipywidgets.Button(description="Guess", button_style="primary", layout={"width": "80px"})
    skip = ipywidgets.Button(description="Skip", layout={"width": "80px"})
    status = _feedback()

    def say(words: str) -> None:
        status.value = f'<p class="lab-note">{html.escape(words)}</p>'

    def take(_: Any) -> None:
        value = parse_number(number.value)
        if value is None:
            say("Type a number, such as 2.5.")
            return
        keep(asked.key, value)
        say(f"Kept: {asked.with_unit(value)}. The result shows itself when it is there.")

    def leave(_: Any) -> None:
        keep(asked.key, None)
        say("Skipped. The result shows itself when it is there.")

    send.on_click(take)
    skip.on_click(leave)
    known = guesses.get(asked.key)
    if known is not None:
        number.value = f"{known:g}"
        say(f"Your guess: {asked.with_unit(known)}.")
    form = ipywidgets.VBox([question, ipywidgets.HBox([number, unit, send, skip]), status])
    return _bundle(form)


def quiz_form(quiz: Quiz, right: Callable[[int], None]) -> dict[str, Any]:
    """A list of questions with a button for each option.

    Args:
        quiz: the questions.
        right: called with a question's position when it is answered right.

    Returns:
        The widget's part of an output bundle.
    """
    style = ipywidgets.HTML(styled(""), layout={"display": "none"})
    blocks = [_question(index, each, partial(right, index)) for index, each in enumerate(quiz.questions)]
    return _bundle(ipywidgets.VBox([style, *blocks]))


def parse_number(text: str) -> float | None:
    """The number in a text, with a comma or a point for the decimals and any unit behind it; None if there is none."""
    words = text.strip().replace(",", ".").rstrip("×x% ").split()
    try:
        number = float(words[0]) if words else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _question(index: int, question: Question, right: Callable[[], None]) -> Any:
    title = ipywidgets.HTML(f'<p class="lab-heading">{index + 1}. {inline(question.text)}</p>')
    feedback = _feedback()
    buttons: list[Any] = []

    def choose(position: int, _: Any) -> None:
        option = question.options[position]
        mark = "✓" if option.right else "✗"
        buttons[position].description = f"{mark} {_plain(option.text)}"
        kind = "right" if option.right else "wrong"
        feedback.value = f'<p class="lab-feedback lab-{kind}">{mark_html(mark)}{inline(option.says)}</p>'
        if option.right:
            right()

    for position, option in enumerate(question.options):
        button = ipywidgets.Button(description=_plain(option.text), layout={"width": "auto", "height": "auto"})
        button.add_class("lab-option")
        button.on_click(partial(choose, position))
        buttons.append(button)
    return ipywidgets.VBox([title, *buttons, feedback])


def _feedback() -> Any:
    return ipywidgets.HTML().add_class("lab-live")


def _plain(text: str) -> str:
    return text.replace("`", "")


def _bundle(form: Any) -> dict[str, Any]:
    form.children = (*form.children, _Manners())
    form.add_class("lab-card").add_class("lab-ask")
    return {_VIEW: form._repr_mimebundle_()[_VIEW]}
