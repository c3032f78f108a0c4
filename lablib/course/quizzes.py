"""``quiz``: a lab's closing questions."""

from __future__ import annotations

import html

from lablib.course import registry, store
from lablib.course.card import inline, show_bundle, styled
from lablib.course.mode import interactive
from lablib.course.spec import Quiz


def quiz(key: str | int) -> None:
    """Ask a lab's questions. Each answer, right or wrong, is explained when it is chosen.

    Args:
        key: the lab's number.

    Raises:
        KeyError: if that lab has no quiz.
    """
    asked = registry.quiz(str(key))
    bundle = {"text/html": _html(asked), "text/plain": _text(asked)}
    if interactive():
        from lablib.course.widgets import quiz_form

        number = str(registry.lab_number(str(key)))
        bundle |= quiz_form(asked, lambda question: store.update(lambda progress: _mark(progress, number, question)))
    show_bundle(bundle)


def _mark(progress: store.Progress, lab: str, question: int) -> None:
    progress.quiz[lab] = sorted({*progress.quiz.get(lab, []), question})


def _letters(count: int) -> str:
    return "abcdefghij"[:count]


def _text(asked: Quiz) -> str:
    lines = []
    for number, question in enumerate(asked.questions, 1):
        lines.append(f"{number}. {question.text}")
        letters = _letters(len(question.options))
        lines += [f"   {letter}) {option.text}" for letter, option in zip(letters, question.options, strict=True)]
    return "\n".join(lines)


def _html(asked: Quiz) -> str:
    blocks = []
    for number, question in enumerate(asked.questions, 1):
        letters = _letters(len(question.options))
        options = zip(letters, question.options, strict=True)
        items = "".join(f"<li>{letter}) {inline(option.text)}</li>" for letter, option in options)
        blocks.append(f'<p class="lab-heading">{number}. {inline(question.text)}</p><ul>{items}</ul>')
    note = html.escape("Run this cell to answer.")
    return styled(f'<div class="lab-card lab-ask">{"".join(blocks)}<p class="lab-note">{note}</p></div>')
