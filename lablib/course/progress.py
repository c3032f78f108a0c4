"""``progress()``: what is done, lab by lab."""

from __future__ import annotations

import html
from dataclasses import dataclass

from lablib.course import pieces, registry, store
from lablib.course.card import mark_html, show_bundle, styled
from lablib.course.spec import Lab

_HEAD = ("Lab", "Exercises", "Questions", "Quiz")


@dataclass(frozen=True, slots=True)
class _Row:
    lab: Lab
    exercises: tuple[tuple[str, str], ...]
    watched: str
    quiz: str


def progress(lab: int | None = None) -> None:
    """Show which exercises are solved and whose answer runs, how many Watch and quiz questions are answered right.

    Args:
        lab: number of one lab; all of them by default.

    Raises:
        KeyError: if there is no such lab.
    """
    chosen = registry.labs() if lab is None else (registry.lab(lab),)
    done = store.load()
    rows = [_row(each, done) for each in chosen]
    show_bundle({"text/html": _html(rows), "text/plain": _text(rows)})


def _row(lab: Lab, done: store.Progress) -> _Row:
    questions = len(lab.quiz.questions) if lab.quiz else 0
    right = [index for index in done.quiz.get(str(lab.number), []) if index < questions]
    watched = sum(watch.key in done.watched for watch in lab.watch)
    return _Row(
        lab,
        tuple((_mark(each.key, done), f"{each.key} {each.title}: {_state(each.key, done)}") for each in lab.exercises),
        f"{watched} of {len(lab.watch)}" if lab.watch else "–",
        f"{len(right)} of {questions}" if questions else "–",
    )


def _mark(key: str, done: store.Progress) -> str:
    return "✓" if key in done.passed else "○"


def _state(key: str, done: store.Progress) -> str:
    whose = pieces.provenance(key)
    if key in done.passed:
        return "solved, yours runs" if whose == pieces.YOURS else "solved, the reference runs"
    return "begun" if whose == pieces.YOURS else "open"


def _text(rows: list[_Row]) -> str:
    lines = []
    for row in rows:
        lines.append(f"Lab {row.lab.number:02d} {row.lab.title} · questions {row.watched} · quiz {row.quiz}")
        lines += [f"  {mark} {words}" for mark, words in row.exercises]
    return "\n".join(lines) or "There are no labs."


def _html(rows: list[_Row]) -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in _HEAD)
    body = ""
    for row in rows:
        items = "".join(f"<li>{mark_html(mark)}{html.escape(words)}</li>" for mark, words in row.exercises)
        title = f"{row.lab.number:02d} {html.escape(row.lab.title)}"
        cells = f"<td><ul>{items}</ul></td><td>{row.watched}</td><td>{row.quiz}</td>"
        body += f'<tr><th scope="row">{title}</th>{cells}</tr>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return styled(f'<div class="lab-card lab-plain">{table}</div>')
