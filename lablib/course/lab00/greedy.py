"""Exercise 0.1: the greedy loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer


class _Echo:
    """A stand-in for a model of 100 tokens: after token t the most likely one is t + 1. It notes what it is fed."""

    def __init__(self) -> None:
        self.fed: list[list[int]] = []

    def __call__(self, token_ids: Sequence[int]) -> Any:
        import numpy as np

        self.fed.append(list(token_ids))
        logits = np.full(100, -5.0)
        if len(token_ids):
            logits[(token_ids[-1] + 1) % 100] = 2.0
        return logits


def _decode(**options: Any) -> Callable[..., Any]:
    return lambda answer, prompt, max_tokens: answer(_Echo(), prompt, max_tokens, **options)


def _fed(**options: Any) -> Callable[..., Any]:
    def run(answer: Callable[..., Any], prompt: list[int], max_tokens: int) -> Any:
        model = _Echo()
        answer(model, prompt, max_tokens, **options)
        return model.fed

    return run


def _prompt_after(answer: Callable[..., Any], prompt: list[int], max_tokens: int) -> Any:
    answer(_Echo(), prompt, max_tokens)
    return prompt


def _returns_prompt_too(
    forward: Callable[..., Any], prompt_ids: list[int], max_tokens: int, eos_token_ids: Any = (), cached: bool = True
) -> list[int]:
    tokens, computed = list(prompt_ids), 0
    for _ in range(max_tokens):
        logits = forward(tokens[computed:])
        computed = len(tokens) if cached else 0
        tokens.append(int(logits.argmax()))
        if tokens[-1] in eos_token_ids:
            break
    return tokens


def _feeds_everything_into_the_cache(
    forward: Callable[..., Any], prompt_ids: list[int], max_tokens: int, eos_token_ids: Any = (), cached: bool = True
) -> list[int]:
    tokens = list(prompt_ids)
    for _ in range(max_tokens):
        tokens.append(int(forward(tokens).argmax()))
        if tokens[-1] in eos_token_ids:
            break
    return tokens[len(prompt_ids) :]


def _feeds_only_the_last(
    forward: Callable[..., Any], prompt_ids: list[int], max_tokens: int, eos_token_ids: Any = (), cached: bool = True
) -> list[int]:
    tokens, feed = list(prompt_ids), list(prompt_ids)
    for _ in range(max_tokens):
        tokens.append(int(forward(feed).argmax()))
        feed = tokens[-1:]
        if tokens[-1] in eos_token_ids:
            break
    return tokens[len(prompt_ids) :]


def _drops_the_end_token(
    forward: Callable[..., Any],
    prompt_ids: list[int],
    max_tokens: int,
    eos_token_ids: Collection[int] = (),
    cached: bool = True,
) -> list[int]:
    tokens, computed = list(prompt_ids), 0
    for _ in range(max_tokens):
        token = int(forward(tokens[computed:]).argmax())
        computed = len(tokens) if cached else 0
        if token in eos_token_ids:
            break
        tokens.append(token)
    return tokens[len(prompt_ids) :]


def _never_stops_early(
    forward: Callable[..., Any], prompt_ids: list[int], max_tokens: int, eos_token_ids: Any = (), cached: bool = True
) -> list[int]:
    tokens, computed = list(prompt_ids), 0
    for _ in range(max_tokens):
        logits = forward(tokens[computed:])
        computed = len(tokens) if cached else 0
        tokens.append(int(logits.argmax()))
    return tokens[len(prompt_ids) :]


def _one_too_many(
    forward: Callable[..., Any], prompt_ids: list[int], max_tokens: int, eos_token_ids: Any = (), cached: bool = True
) -> list[int]:
    tokens, computed = list(prompt_ids), 0
    while len(tokens) - len(prompt_ids) <= max_tokens:
        logits = forward(tokens[computed:])
        computed = len(tokens) if cached else 0
        tokens.append(int(logits.argmax()))
        if tokens[-1] in eos_token_ids:
            break
    return tokens[len(prompt_ids) :]


def _appends_to_the_prompt(
    forward: Callable[..., Any], prompt_ids: list[int], max_tokens: int, eos_token_ids: Any = (), cached: bool = True
) -> list[int]:
    tokens, computed, before = prompt_ids, 0, len(prompt_ids)
    while len(tokens) - before < max_tokens:
        logits = forward(tokens[computed:])
        computed = len(tokens) if cached else 0
        tokens.append(int(logits.argmax()))
        if tokens[-1] in eos_token_ids:
            break
    return tokens[len(prompt_ids) :]


def _counts_the_new_token_as_computed(
    forward: Callable[..., Any], prompt_ids: list[int], max_tokens: int, eos_token_ids: Any = (), cached: bool = True
) -> list[int]:
    tokens, computed = list(prompt_ids), 0
    while len(tokens) - len(prompt_ids) < max_tokens:
        logits = forward(tokens[computed:])
        tokens.append(int(logits.argmax()))
        computed = len(tokens) if cached else 0
        if tokens[-1] in eos_token_ids:
            break
    return tokens[len(prompt_ids) :]


GREEDY = Exercise(
    key="0.1",
    title="The greedy loop",
    reference="lablib.model.greedy:greedy_decode",
    cases=(
        Case(
            "one token, everything fed",
            args=lambda: ([7, 8], 1),
            run=_decode(cached=False),
            expect=[9],
            given="the prompt [7, 8], max_tokens=1, and a model that says t + 1 after t",
        ),
        Case(
            "three tokens, everything fed",
            args=lambda: ([7, 8], 3),
            run=_decode(cached=False),
            expect=[9, 10, 11],
            given="the prompt [7, 8], max_tokens=3, and a model that says t + 1 after t",
        ),
        Case(
            "without a cache the model is fed all tokens every time",
            args=lambda: ([7, 8], 3),
            run=_fed(cached=False),
            expect=[[7, 8], [7, 8, 9], [7, 8, 9, 10]],
            given="the prompt [7, 8], max_tokens=3, cached=False; these are the lists that `forward` was called with",
        ),
        Case(
            "with a cache it is fed each token once",
            args=lambda: ([7, 8], 3),
            run=_fed(cached=True),
            expect=[[7, 8], [9], [10]],
            given="the prompt [7, 8], max_tokens=3, cached=True; these are the lists that `forward` was called with",
            hint="The cache holds every token that was fed before. `num_computed` is their number: all that the sequence "
            "had when it was last fed, and not yet the token that came out of it.",
        ),
        Case(
            "the end token stops the loop and belongs to the answer",
            args=lambda: ([7, 8], 50),
            run=_decode(eos_token_ids=(11,)),
            expect=[9, 10, 11],
            given="the prompt [7, 8], max_tokens=50, eos_token_ids=(11,)",
        ),
        Case(
            "an end token inside the prompt stops nothing",
            args=lambda: ([11, 8], 2),
            run=_decode(eos_token_ids=(11,)),
            expect=[9, 10],
            given="the prompt [11, 8], max_tokens=2, eos_token_ids=(11,)",
        ),
        Case(
            "the caller's prompt is left as it was",
            args=lambda: ([7, 8], 3),
            run=_prompt_after,
            expect=[7, 8],
            given="the prompt [7, 8]; this is the same list after the call",
            hint="Work on a copy: `token_ids = list(prompt_ids)`.",
        ),
        Case(
            "the ids are plain ints",
            args=lambda: ([7, 8], 3),
            run=lambda answer, prompt, max_tokens: [type(token) for token in answer(_Echo(), prompt, max_tokens)],
            expect=[int, int, int],
            given="the prompt [7, 8], max_tokens=3; these are the types of the ids returned",
            hint="`argmax` gives a number of the array's own type: `int(logits.argmax())`.",
        ),
    ),
    hints=(
        "One turn of the loop: feed tokens, take the most likely next one, append it, stop if it ends the answer. "
        "What differs between cached and not is only *which* tokens you feed.",
        "Keep `token_ids` (prompt and answer so far) and `num_computed` (how many of them the model remembers). "
        "Feed `token_ids[num_computed:]`. Without a cache `num_computed` stays 0.",
        "`logits = forward(token_ids[num_computed:])`, then `num_computed = len(token_ids)` if cached, then "
        "`token_ids.append(int(logits.argmax()))`; return `token_ids[len(prompt_ids):]`.",
    ),
    wrong=(
        WrongAnswer(
            "appends to the caller's list",
            _appends_to_the_prompt,
            says="You appended to the caller's own list, so the prompt grew with the answer: work on a copy, `list(prompt_ids)`.",
            case="one token, everything fed",
        ),
        WrongAnswer(
            "counts the new token as computed",
            _counts_the_new_token_as_computed,
            says="The token that has just come out was not fed yet, so it is not computed: count before you append it.",
            case="with a cache it is fed each token once",
        ),
        WrongAnswer(
            "returns the prompt as well",
            _returns_prompt_too,
            says="The answer alone is wanted: cut the prompt off, `token_ids[len(prompt_ids):]`.",
            case="one token, everything fed",
        ),
        WrongAnswer(
            "feeds everything although the model remembers",
            _feeds_everything_into_the_cache,
            says="With `cached=True` the model remembers the tokens it has computed: feed it only the new ones, else "
            "it takes the old ones for new text that follows.",
            case="with a cache it is fed each token once",
        ),
        WrongAnswer(
            "feeds only the last token although the model remembers nothing",
            _feeds_only_the_last,
            says="With `cached=False` the model remembers nothing: it must see the whole sequence in every turn.",
            case="without a cache the model is fed all tokens every time",
        ),
        WrongAnswer(
            "drops the end token",
            _drops_the_end_token,
            says="Append the token first, then ask whether it ends the answer: the end token belongs to it.",
            case="the end token stops the loop and belongs to the answer",
        ),
        WrongAnswer(
            "never looks for the end token",
            _never_stops_early,
            says="The loop went on behind the end token: leave it as soon as the new token is in `eos_token_ids`.",
            case="the end token stops the loop and belongs to the answer",
        ),
        WrongAnswer(
            "generates one token too many",
            _one_too_many,
            says="That is one token more than `max_tokens`: compare with `<`, not `<=`.",
            case="one token, everything fed",
        ),
    ),
    difficulty=1,
    minutes=8,
)
