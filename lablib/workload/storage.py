"""Workload files: JSON with a version, checked field by field when it is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

FORMAT = 1
_ITEM_KINDS: dict[str, type] = {
    "arrival_us": int,
    "prompt_tokens": int,
    "output_tokens": int,
    "priority": int,
    "text": str,
    "chat": bool,
    "token_ids": list,
}
_LEAST = {"arrival_us": 0, "prompt_tokens": 1, "output_tokens": 1}  # these fields must be there


class WorkloadError(ValueError):
    """A workload file that can't be used; the message names the file, the item and the field."""


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a workload.

    Args:
        arrival_us: when it arrives, in microseconds since the run begins.
        prompt_tokens: length of the prompt.
        output_tokens: length of the answer.
        priority: lower is served sooner, by schedulers that look at it.
        text: the prompt in words, or nothing.
        chat: whether the text is a message to the assistant, or a text to go on with.
        token_ids: the prompt as token ids of some model; without them, ids are made up.
    """

    arrival_us: int
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    text: str = ""
    chat: bool = True
    token_ids: tuple[int, ...] = ()

    def scaled(self, length: float) -> Item:
        """The item with lengths multiplied by ``length``, at least 1 token; what it says is lost."""
        if length == 1:
            return self
        prompt, output = (max(1, round(tokens * length)) for tokens in (self.prompt_tokens, self.output_tokens))
        return replace(self, prompt_tokens=prompt, output_tokens=output, text="", token_ids=())


def write(path: Path, name: str, source: str, num_clients: int, think_us: int, items: Sequence[Item]) -> Path:
    """Write a workload to ``path``, an item a line; fields that have their default are left out."""
    defaults = {field.name: field.default for field in fields(Item)}
    rows = [{key: value for key, value in asdict(item).items() if value != defaults[key]} for item in items]
    head = {"format": FORMAT, "name": name, "source": source, "num_clients": num_clients, "think_us": think_us}
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    opening = json.dumps(head, ensure_ascii=False, indent=1).removesuffix("\n}")
    path.write_text(f'{opening},\n "items": [\n  {lines}\n ]\n}}\n', encoding="utf-8")
    return path


def read(path: Path) -> dict[str, Any]:
    """The fields of the workload in ``path``.

    Raises:
        WorkloadError: it is no workload of this version; the message names the file, the item and the field.
    """
    try:
        return _checked(json.loads(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise WorkloadError(f"{path} is damaged ({error}); fetch another copy") from error
    except WorkloadError as error:
        raise WorkloadError(f"{path} can't be used: {error}") from error


def _checked(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict) or "format" not in data:
        raise WorkloadError("it is not a workload (there is no `format` in it)")
    if data["format"] != FORMAT:
        raise WorkloadError(f"it has format {data['format']!r}, this version reads format {FORMAT}")
    kinds = {"name": str, "source": str, "num_clients": int, "think_us": int, "items": list}
    for name, kind in kinds.items():
        if type(data.get(name)) is not kind:
            raise WorkloadError(f"`{name}` is {data.get(name)!r}, it must be of type {kind.__name__}")
    for name in ("num_clients", "think_us"):
        if data[name] < 0:
            raise WorkloadError(f"`{name}` is {data[name]}, it must be 0 or more")
    if not data["items"]:
        raise WorkloadError("`items` is empty, a workload needs at least one request")
    items = tuple(_checked_item(index, row) for index, row in enumerate(data["items"]))
    for index, (earlier, later) in enumerate(pairwise(items), start=1):
        if later.arrival_us < earlier.arrival_us:
            raise WorkloadError(f"item {index}: `arrival_us` is {later.arrival_us}, earlier than the item before it")
    return {name: data[name] for name in kinds} | {"items": items}


def _checked_item(index: int, row: Any) -> Item:
    """One item of a file; raises ``WorkloadError`` that names the item and the field."""
    if not isinstance(row, dict):
        raise WorkloadError(f"item {index} is {row!r}, it must be a table of fields")
    for name in row.keys() - _ITEM_KINDS.keys():
        raise WorkloadError(f"item {index}: `{name}` is no field; fields are {', '.join(_ITEM_KINDS)}")
    for name in _LEAST.keys() - row.keys():
        raise WorkloadError(f"item {index}: `{name}` is missing")
    for name, value in row.items():
        if type(value) is not _ITEM_KINDS[name]:
            raise WorkloadError(f"item {index}: `{name}` is {value!r}, it must be of type {_ITEM_KINDS[name].__name__}")
    for name, least in _LEAST.items():
        if row[name] < least:
            raise WorkloadError(f"item {index}: `{name}` is {row[name]}, it must be at least {least}")
    ids, num_tokens = row.get("token_ids", []), row["prompt_tokens"]
    if not all(type(token) is int and token >= 0 for token in ids):
        raise WorkloadError(f"item {index}: `token_ids` must hold whole numbers of at least 0")
    if ids and len(ids) != num_tokens:
        raise WorkloadError(f"item {index}: `token_ids` holds {len(ids)} ids, `prompt_tokens` is {num_tokens}")
    return Item(**{**row, "token_ids": tuple(ids)})
