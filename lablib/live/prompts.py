"""Prompts to press a button for, each as long as it likes and answered at a length of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lablib.model import LanguageModel
from lablib.workload.prompts import texts

SHORTEST_ANSWER = 8  # tokens


class Prompt(NamedTuple):
    """A prompt and its tokens."""

    text: str
    token_ids: list[int]


class PromptBox:
    """An endless supply of prompts in random order, every one once before one comes twice.

    Args:
        model: its tokenizer and chat template are used.
        max_model_len: longer prompts are left out.
        prompts: messages to the assistant; None: the texts written for this lab.

    Raises:
        ValueError: the list is empty.
    """

    def __init__(self, model: LanguageModel, max_model_len: int, prompts: Sequence[str] | None = None) -> None:
        self._model = model
        self._longest = max_model_len - SHORTEST_ANSWER
        self._texts = texts() if prompts is None else tuple((text, True) for text in prompts)
        if not self._texts:
            raise ValueError("`prompts` is empty: give at least one text, or None for the texts of this lab")
        self._random = random.Random(0)
        self._endless = self._draw()

    def take(self, count: int, longest: int) -> list[Prompt]:
        """The next ``count`` prompts of at most ``longest`` tokens.

        Raises:
            ValueError: no prompt is that short.
        """
        taken: list[Prompt] = []
        misses = 0
        while len(taken) < count:
            prompt = next(self._endless)
            fits = len(prompt.token_ids) <= min(longest, self._longest)
            taken += [prompt] if fits else []
            misses = 0 if fits else misses + 1
            if misses > 2 * len(self._texts):
                raise ValueError(f"none of {len(self._texts)} prompts has at most {longest} tokens; raise the budget")
        return taken

    def answer_length(self, max_tokens: int) -> int:
        """A length for an answer, between a quarter of ``max_tokens`` and all of it."""
        return self._random.randint(max(1, max_tokens // 4), max_tokens)

    def _draw(self) -> Iterator[Prompt]:
        encoded: dict[str, Prompt] = {}
        while True:
            for text, chat in self._random.sample(self._texts, len(self._texts)):
                if text not in encoded:
                    tokens = self._model.encode_chat(text) if chat else self._model.encode(text)
                    encoded[text] = Prompt(text, tokens)
                yield encoded[text]
