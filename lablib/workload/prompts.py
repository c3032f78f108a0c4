"""Real prompts for the real model: short texts written for this lab, worth reading while they stream."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

from lablib.workload.lengths import LogNormal
from lablib.workload.storage import Item
from lablib.workload.workload import Tokenizes, Workload

_FILE = Path(__file__).parent / "data" / "prompts.json"


@cache
def texts() -> tuple[tuple[str, bool], ...]:
    """Every text, short ones first, and whether it is a message to the assistant or a text to go on with."""
    groups = json.loads(_FILE.read_text(encoding="utf-8"))
    return tuple((entry["text"], entry["kind"] == "chat") for group in groups.values() for entry in group)


def real_prompts(model: Tokenizes, count: int, seed: int = 0, max_prompt_tokens: int | None = None) -> list[list[int]]:
    """Token ids of ``count`` short English texts in random order; every text once before one comes twice.

    Args:
        model: its tokenizer and chat template are used.
        count: how many prompts.
        seed: of the order.
        max_prompt_tokens: leave out what is longer.

    Raises:
        ValueError: no text is that short.
    """
    encoded = [model.encode_chat(text) if chat else model.encode(text) for text, chat in texts()]
    fitting = [ids for ids in encoded if max_prompt_tokens is None or len(ids) <= max_prompt_tokens]
    if not fitting:
        shortest = min(map(len, encoded))
        raise ValueError(f"no prompt has at most {max_prompt_tokens} tokens; the shortest has {shortest}")
    rng = random.Random(seed)
    order: list[list[int]] = []
    while len(order) < count:
        order += rng.sample(fitting, len(fitting))
    return order[:count]


def mixed(model: Tokenizes, num_requests: int = 32, seed: int = 2982, scale: float = 1.0) -> Workload:
    """Requests that are all here at once, with real texts, and answers as different in length as in real use.

    Args:
        model: counts the prompts' tokens.
        num_requests: at most as many as there are texts.
        seed: of the choice of texts and of the output lengths. The default was looked for: static batches of 8 of its
            32 requests use 43% of their slots.
        scale: of the output lengths, which are lognormal: mean 44, CV 0.9, from 8 to 122 tokens at 1.
    """
    rng = random.Random(seed)
    shortest, longest = round(8 * scale), round(122 * scale)
    lengths = LogNormal(mean=44 * scale, cv=0.9, longest=longest)
    items = []
    for text, chat in rng.sample(texts(), num_requests):
        prompt = model.encode_chat(text) if chat else model.encode(text)
        items.append(Item(0, len(prompt), max(shortest, lengths.draw(rng)), text=text, chat=chat))
    source = (
        "texts written for this lab (Apache-2.0); prompts counted with SmolLM2's tokenizer; lognormal output lengths"
    )
    return Workload(f"mixed{num_requests}", source, tuple(items))
