"""The player's browser side: readable ES modules here, one module there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
ENTRY = "widget.js"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=async function|function|class|const)", re.MULTILINE)


@cache
def script() -> str:
    """All modules as one, each after those it imports; the entry's default export stays."""
    order: dict[str, str] = {}
    _collect(ENTRY, order, set())
    return "\n".join(order.values())


@cache
def style() -> str:
    """The style sheet."""
    return (STATIC / "player.css").read_text(encoding="utf-8")


@cache
def page() -> str:
    """The offline page, with ``%name%`` where something is to be put in."""
    return (STATIC / "page.html").read_text(encoding="utf-8")


def _collect(name: str, order: dict[str, str], seen: set[str]) -> None:
    if name in seen:
        return
    seen.add(name)
    text = (STATIC / name).read_text(encoding="utf-8")
    for needed in IMPORT.findall(text):
        _collect(needed, order, seen)
    order[name] = EXPORT.sub("", IMPORT.sub("", text))
