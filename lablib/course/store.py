"""What is remembered between sessions: the learner's folder ``work/mine/`` and its ``progress.json``.

Where there is no such folder (a script, the gallery in ``labs/``, a grading run) things are remembered until the
process ends.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lablib.course.mode import Mode, mode

FORMAT = 1


@dataclass(slots=True)
class Progress:
    """What a learner has done.

    Args:
        passed: exercises whose check has been green.
        reference: exercises whose reference was chosen by ``catchup``, although an own answer may be there.
        watched: Watch questions answered right.
        quiz: for each lab, the questions (by position) answered right.
        guesses: predictions by key; None for a skipped one.
    """

    passed: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)
    quiz: dict[str, list[int]] = field(default_factory=dict)
    guesses: dict[str, float | None] = field(default_factory=dict)


_session = Progress()


def folder() -> Path | None:
    """Where the learner's answers are kept; None where nothing is to be kept.

    ``LABLIB_MINE`` names it; else it is ``mine`` in the project's ``work`` folder, if this process runs there (or in
    the project's own folder). Never in ``labs/``, and never when another mode than fallback runs.
    """
    if mode() is not Mode.FALLBACK:
        return None
    if named := os.environ.get("LABLIB_MINE"):
        return Path(named).expanduser().resolve()
    here = Path.cwd()
    for place in (here / "work", here, *here.parents):
        if place.name == "labs":
            return None
        if place.name == "work" and (place.parent / "labs").is_dir() and place.is_dir():
            return place / "mine"
    return None


def answer_file(key: str) -> Path | None:
    """The file of a saved answer, whether it exists or not."""
    place = folder()
    return place / f"ex_{key.replace('.', '_')}.py" if place else None


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all, making its folder where needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(path.stat().st_mode if path.exists() else 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load() -> Progress:
    """What has been done so far. A damaged file is put aside under another name, with a word about it."""
    place = folder()
    if place is None:
        return _session
    path = place / "progress.json"
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Progress()
    except (ValueError, TypeError, AttributeError) as error:
        aside = path.with_suffix(".json.damaged")
        path.replace(aside)
        print(
            f"{path.name} could not be read ({error}); it is kept as {aside.name}, and progress starts anew.",
            file=sys.stderr,
        )
        return Progress()


def update(change: Callable[[Progress], None]) -> None:
    """Load, change, and save again."""
    progress = load()
    change(progress)
    place = folder()
    if place is not None:
        text = json.dumps({"format": FORMAT, **asdict(progress)}, indent=1, sort_keys=True)
        write_atomically(place / "progress.json", text + "\n")


def forget_session() -> None:
    """Forget what is only remembered until the process ends."""
    fresh = Progress()
    for each in fields(Progress):
        setattr(_session, each.name, getattr(fresh, each.name))


def _parse(data: dict[str, Any]) -> Progress:
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')!r}, this version reads {FORMAT}")
    progress = Progress()
    for each in fields(Progress):
        value = data.get(each.name, getattr(progress, each.name))
        if type(value) is not type(getattr(progress, each.name)):
            raise TypeError(f"{each.name} has the wrong type")
        setattr(progress, each.name, value)
    return progress
