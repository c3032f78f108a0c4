"""Exercise 3.3: one flat batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lablib.course.spec import Case, Exercise, WrongAnswer
from lablib.request import SamplingParams
from lablib.step import Chunk

Made = tuple[str, int, tuple[int, ...], tuple[int, ...]]  # id, start, token ids, block ids


def _chunks(*made: Made) -> list[Chunk]:
    return [
        Chunk(name, slot, start, tokens, 0, blocks, SamplingParams(), 0, True)
        for slot, (name, start, tokens, blocks) in enumerate(made, start=3)
    ]


def _case(name: str, made: Sequence[Made], block_size: int, hint: str = "") -> Case:
    listed = "; ".join(f"{i}: start {start}, tokens {tokens}, blocks {blocks}" for i, start, tokens, blocks in made)
    return Case(
        name, args=lambda: (_chunks(*made), block_size), given=f"block_size={block_size}; chunks {listed}", hint=hint
    )


def _pack(chunks: Sequence[Chunk], block_size: int, position: Any, slot: Any) -> Any:
    import numpy as np

    flat = [(token, position(c, i), slot(c, i, block_size)) for c in chunks for i, token in enumerate(c.token_ids)]
    return tuple(np.array(column) for column in zip(*flat, strict=True))


def _slot(chunk: Chunk, i: int, block_size: int) -> int:
    place = chunk.start + i
    return chunk.block_ids[place // block_size] * block_size + place % block_size


def _positions_from_zero(chunks: Sequence[Chunk], block_size: int) -> Any:
    return _pack(chunks, block_size, lambda c, i: i, _slot)


def _positions_run_on(chunks: Sequence[Chunk], block_size: int) -> Any:
    token_ids, positions, slots = _pack(chunks, block_size, lambda c, i: c.start + i, _slot)
    return token_ids, positions * 0 + range(len(positions)), slots


def _slots_from_the_batch_row(chunks: Sequence[Chunk], block_size: int) -> Any:
    return _pack(chunks, block_size, lambda c, i: c.start + i, lambda c, i, size: c.slot * size + c.start + i)


def _slots_without_the_start(chunks: Sequence[Chunk], block_size: int) -> Any:
    return _pack(chunks, block_size, lambda c, i: c.start + i, lambda c, i, size: c.block_ids[0] * size + i)


def _only_the_first_block(chunks: Sequence[Chunk], block_size: int) -> Any:
    return _pack(chunks, block_size, lambda c, i: c.start + i, lambda c, i, size: c.block_ids[0] * size + c.start + i)


def _position_for_row(chunks: Sequence[Chunk], block_size: int) -> Any:
    return _pack(chunks, block_size, lambda c, i: c.start + i, lambda c, i, size: c.start + i)


PACK = Exercise(
    key="3.3",
    title="One flat batch",
    reference="lablib.executor.packing:pack_chunks",
    cases=(
        _case("one prompt", [("a", 0, (5, 6, 7), (0,))], 16),
        _case("a decode: one token, far from position 0", [("a", 9, (5,), (2,))], 16),
        _case("a decode beside a prompt", [("a", 9, (5,), (2,)), ("b", 0, (6, 7), (0,))], 16),
        _case(
            "the block is not the batch's row",
            [("a", 3, (1,), (5,)), ("b", 4, (2,), (1,))],
            8,
            hint="K/V live where the block table says; the row of the batch has nothing to do with it.",
        ),
        _case("a chunk in the middle of a prompt", [("a", 4, (1, 2, 3), (3,))], 16),
        _case(
            "a table of several blocks",
            [("a", 2, (1, 2, 3, 4, 5), (7, 0)), ("b", 8, (9,), (3, 1, 4))],
            4,
            hint="Position p lives in block `block_ids[p // block_size]`, at offset `p % block_size`.",
        ),
    ),
    hints=(
        "Walk over the chunks, and over the tokens of each. Two numbers are needed for every token: its position and its "
        "row in the cache.",
        "Token `i` of a chunk has position `p = chunk.start + i`; its row is `block · block_size + p % block_size`, with "
        "`block = chunk.block_ids[p // block_size]`.",
        "Three lists; for each chunk, for `i, token in enumerate(chunk.token_ids)`: append `token`, `p` and "
        "`chunk.block_ids[p // block_size] * block_size + p % block_size`; return `np.array(…)` of each.",
    ),
    wrong=(
        WrongAnswer(
            "takes the position for the cache row",
            _position_for_row,
            says="That is the position; which block it lives in is said by `chunk.block_ids`.",
            case="a decode: one token, far from position 0",
        ),
        WrongAnswer(
            "positions restart in every chunk",
            _positions_from_zero,
            says="A token's position is its place in its own sequence: `chunk.start + i`. The model rotates K by it.",
            case="a decode: one token, far from position 0",
        ),
        WrongAnswer(
            "positions run on through the flat batch",
            _positions_run_on,
            says="The flat batch is only a way to lie in memory: positions count within each request.",
            case="a decode: one token, far from position 0",
        ),
        WrongAnswer(
            "takes the batch's row for the block",
            _slots_from_the_batch_row,
            says="You used `chunk.slot`, the row of the batch; the cache is found through `chunk.block_ids`.",
            case="one prompt",
        ),
        WrongAnswer(
            "forgets where the chunk starts",
            _slots_without_the_start,
            says="The row must count from position 0 of the block: a decode would overwrite the prompt's first K/V.",
            case="a decode: one token, far from position 0",
        ),
        WrongAnswer(
            "knows only the first block",
            _only_the_first_block,
            says="A request may hold several blocks: `block_ids[p // block_size]`.",
            case="a table of several blocks",
        ),
    ),
    difficulty=2,
    minutes=10,
)
