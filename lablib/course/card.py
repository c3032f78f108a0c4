"""What a course function shows: one bundle of HTML and plain text that say the same, in the notebook's own colours."""

from __future__ import annotations

import html
import re
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

from lablib.course.style import STYLE

MARKS = {"✓": "right", "✗": "wrong", "○": "open"}
"""The marks, and the words that a screen reader says for them."""


@dataclass(frozen=True, slots=True)
class Card:
    """A small block of output.

    Args:
        title: one line.
        mark: ``✓``, ``✗``, ``○`` or empty.
        rows: a mark and a line each.
        heading: one line above the facts.
        facts: a label and a piece of code or data each.
        notes: paragraphs. In ``title``, ``rows``, ``heading`` and ``notes``, `code` may stand in backticks.
    """

    title: str
    mark: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    heading: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """The card in plain text."""
        lines = [f"{self.mark} {self.title}".strip()]
        lines += [f"  {mark} {words}" for mark, words in self.rows]
        lines += [f"  {self.heading}"] if self.heading else []
        width = max((len(label) for label, _ in self.facts), default=0)
        for label, value in self.facts:
            indent = " " * (width + 6)
            lines.append(textwrap.indent(value, indent).replace(indent, f"    {label:<{width}}  ", 1))
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def html(self) -> str:
        """The card in HTML, with its style."""
        parts = [f'<p class="lab-title">{mark_html(self.mark)}{inline(self.title)}</p>']
        if self.rows:
            items = "".join(f"<li>{mark_html(mark)}{inline(words)}</li>" for mark, words in self.rows)
            parts.append(f'<ul class="lab-rows">{items}</ul>')
        if self.heading:
            parts.append(f'<p class="lab-heading">{inline(self.heading)}</p>')
        if self.facts:
            pairs = "".join(f"<dt>{html.escape(k)}</dt><dd><pre>{html.escape(v)}</pre></dd>" for k, v in self.facts)
            parts.append(f'<dl class="lab-facts">{pairs}</dl>')
        parts += [f'<p class="lab-note">{inline(note)}</p>' for note in self.notes]
        return styled(f'<div class="lab-card lab-{MARKS.get(self.mark, "plain")}">{"".join(parts)}</div>')

    def show(self) -> None:
        """Display the card: rich in a notebook, plain elsewhere."""
        show_bundle(self.bundle())

    def bundle(self) -> dict[str, Any]:
        """The card's two forms, as a notebook's output wants them."""
        return {"text/html": self.html(), "text/plain": self.text()}


def styled(markup: str) -> str:
    """HTML together with the style that it needs."""
    return f"<style>{STYLE}</style>{markup}"


def mark_html(mark: str) -> str:
    """A mark with the word that a screen reader says; nothing for no mark."""
    return f'<span class="lab-mark" role="img" aria-label="{MARKS[mark]}">{mark}</span>' if mark else ""


def inline(text: str) -> str:
    """Text as HTML, with `code` in backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def show_bundle(bundle: dict[str, Any]) -> None:
    """Display a bundle of representations; outside IPython its plain text is printed."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        print(bundle["text/plain"])
        return
    from IPython.display import display

    display(bundle, raw=True)  # type: ignore[no-untyped-call]
