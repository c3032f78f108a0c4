"""The widgets' browser side: readable ES modules here, one module there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[\w./]*\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=async function|function|class|const)", re.MULTILINE)


@cache
def script(entry: Path = STATIC / "widget.js") -> str:
    """The module ``entry`` and all it needs as one, each after those it imports; its default export stays."""
    order: dict[Path, str] = {}
    _collect(entry.resolve(), order, set())
    return "\n".join(order.values())


@cache
def style(*more: Path) -> str:
    """The player's style sheet, and others behind it."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (STATIC / "player.css", *more))


@cache
def page() -> str:
    """The offline page, with ``%name%`` where something is to be put in."""
    return (STATIC / "page.html").read_text(encoding="utf-8")


def _collect(path: Path, order: dict[Path, str], seen: set[Path]) -> None:
    if path in seen:
        return
    seen.add(path)
    text = path.read_text(encoding="utf-8")
    for needed in IMPORT.findall(text):
        _collect((path.parent / needed).resolve(), order, seen)
    order[path] = EXPORT.sub("", IMPORT.sub("", text))
