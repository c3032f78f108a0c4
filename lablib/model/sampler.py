"""From logits to the next token. A sampled token depends on its logits, its seed and its output index alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lablib.model.transfer import to_device, to_host

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


class Sampling(Protocol):
    """The part of ``SamplingParams`` that chooses a token."""

    @property
    def temperature(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def top_p(self) -> float: ...
    @property
    def seed(self) -> int | None: ...


def sample(logits: Tensor, params: Sequence[Sampling], output_indices: Sequence[int]) -> list[int]:
    """Chooses one token for each row, waiting once for the device: this is where a step ends.

    Only the most likely tokens are copied to the host, and the logits of those rows that are drawn from.

    Args:
        logits: ``[n, vocab_size]``, float32 or float64.
        params: how to choose, row by row; temperature 0 takes the most likely token, the first of equals.
        output_indices: index of the token in its request's output, row by row.

    Raises:
        ValueError: a row is sampled, but has no seed: its text could not be repeated.
    """
    rows = [row for row, choice in enumerate(params) if choice.temperature > 0]
    numbers = [_number_for(row, params[row], output_indices[row]) for row in rows]
    drawn_from = logits.index_select(0, to_device(rows, logits.device))
    best, drawn_from = to_host(logits.argmax(dim=-1), drawn_from)
    tokens: list[int] = best.tolist()
    for row, number, row_logits in zip(rows, numbers, drawn_from, strict=True):
        tokens[row] = _draw(row_logits.double().numpy(), params[row], number)
    return tokens


def uniform(seed: int, index: int) -> float:
    """A number in [0, 1) that follows from ``seed`` and ``index``: no generator state that a preemption could lose.

    Philox is a counter-based generator (Salmon et al., 2011): any place in its stream can be computed directly.
    """
    return float(np.random.Generator(np.random.Philox(key=seed, counter=index)).random())


def distribution(logits: Floats, temperature: float, top_k: int = 0, top_p: float = 1.0) -> tuple[Ids, Floats]:
    """The tokens that may be drawn and their probabilities.

    Args:
        logits: ``[vocab_size]``.
        temperature: logits are divided by it.
        top_k: keep the k most likely; 0: all. Of equals, the lower token id is the more likely one.
        top_p: then keep the fewest, most likely first, that add up to at least p; 1: all.
    """
    tokens = np.arange(len(logits))
    if 0 < top_k < len(logits):
        # sorting 49k logits takes 3.3 ms a row, finding the k-th largest 0.04 ms
        tokens = np.flatnonzero(logits >= np.partition(logits, -top_k)[-top_k])
        tokens = tokens[np.argsort(-logits[tokens], kind="stable")][:top_k]
    with np.errstate(over="ignore"):  # a tiny temperature sends all but the largest to -inf, as it should
        weights = np.exp((logits[tokens] - logits.max()) / temperature)
    weights /= weights.sum()
    if top_p < 1:
        # the tokens left out here weigh less than 1 - p together, so the others suffice: few are left to sort
        tokens, weights = _where(weights >= (1 - top_p) / len(tokens), tokens, weights)
        order = np.argsort(-weights, kind="stable")
        keep = int(np.searchsorted(np.cumsum(weights[order]), top_p)) + 1
        tokens, weights = _where(order[:keep], tokens, weights)
        weights /= weights.sum()
    return tokens, weights


def _where(selection: npt.NDArray[np.bool_] | Ids, tokens: Ids, weights: Floats) -> tuple[Ids, Floats]:
    return tokens[selection], weights[selection]


def _number_for(row: int, choice: Sampling, index: int) -> float:
    if choice.seed is None:
        raise ValueError(f"row {row} has temperature {choice.temperature} but no seed")
    return uniform(choice.seed, index)


def _draw(logits: Floats, choice: Sampling, u: float) -> int:
    """Inverts the cumulative distribution at ``u``."""
    tokens, weights = distribution(logits, choice.temperature, choice.top_k, choice.top_p)
    cumulative = np.cumsum(weights)
    # scaled by the last entry, which rounding leaves a little off 1
    return int(tokens[np.searchsorted(cumulative, u * cumulative[-1], side="right")])
