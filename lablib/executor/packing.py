"""From chunks to rows of numbers: the tokens of a step in one line, or as the rectangle of a static batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lablib.step import Chunk

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
PAD_TOKEN = 0

PadBatch = Callable[[Sequence[Sequence[int]], Sequence[int]], tuple[IntArray, IntArray, BoolArray]]
PackChunks = Callable[[Sequence[Chunk], int], tuple[IntArray, IntArray, IntArray]]


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


def slot_mapping(block_ids: Sequence[int], positions: IntArray, block_size: int) -> IntArray:
    """Rows of the flat KV cache where the K/V of some positions of one request live.

    Args:
        block_ids: the request's block table; block ``b`` is rows ``b * block_size`` to ``(b + 1) * block_size - 1``.
        positions: positions in the request's sequence, ``[n]``.
        block_size: tokens a block holds.

    Returns:
        ``[n]`` rows.
    """
    blocks = np.asarray(block_ids, dtype=np.int64)[positions // block_size]
    rows: IntArray = blocks * block_size + positions % block_size
    return rows


def pack_chunks(chunks: Sequence[Chunk], block_size: int) -> tuple[IntArray, IntArray, IntArray]:
    """Put chunks of different requests and lengths one behind the other: one flat batch without padding.

    Args:
        chunks: each with its ``token_ids``, ``start`` and ``block_ids``.
        block_size: tokens a block of the KV cache holds.

    Returns:
        token ids, positions and slots (rows of the flat KV cache), each ``[num_tokens]``.
    """
    token_ids, positions, slots = [], [], []
    for chunk in chunks:
        places = np.arange(chunk.start, chunk.start + len(chunk.token_ids))
        token_ids.append(np.asarray(chunk.token_ids, dtype=np.int64))
        positions.append(places)
        slots.append(slot_mapping(chunk.block_ids, places, block_size))
    return np.concatenate(token_ids), np.concatenate(positions), np.concatenate(slots)
