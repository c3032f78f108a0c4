"""From chunks to rows of numbers: the tokens of a step in one line, or as the rectangle of a static batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
PAD_TOKEN = 0

PadBatch = Callable[[Sequence[Sequence[int]], Sequence[int]], tuple[IntArray, IntArray, BoolArray]]


def pad_batch(rows: Sequence[Sequence[int]], starts: Sequence[int]) -> tuple[IntArray, IntArray, BoolArray]:
    """Make a rectangle of rows that differ in length, with padding on the right.

    Args:
        rows: token ids of each row, ``B`` lists; a list may be empty.
        starts: position of each row's first token in its sequence, ``B`` numbers.

    Returns:
        token ids, positions and is_real, each ``[B, L]``, with ``L`` the length of the longest row (at least 1).
        Positions count on through the padding.
    """
    width = max(1, max(len(row) for row in rows))
    token_ids = np.full((len(rows), width), PAD_TOKEN, dtype=np.int64)
    is_real = np.zeros((len(rows), width), dtype=np.bool_)
    for i, row in enumerate(rows):
        token_ids[i, : len(row)] = row
        is_real[i, : len(row)] = True
    positions = np.asarray(starts, dtype=np.int64)[:, None] + np.arange(width)
    return token_ids, positions, is_real


def pack_rows(rows: Sequence[Sequence[int]], starts: Sequence[int]) -> tuple[IntArray, IntArray, BoolArray]:
    """Put rows of any length one behind the other, without padding.

    Args:
        rows: token ids of each row, ``B`` lists.
        starts: position of each row's first token in its sequence, ``B`` numbers.

    Returns:
        token ids, positions and is_real (all true), each ``[num_tokens]``.
    """
    token_ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    positions = np.concatenate([np.arange(start, start + len(row)) for row, start in zip(rows, starts, strict=True)])
    return token_ids, positions, np.ones(len(token_ids), dtype=np.bool_)
