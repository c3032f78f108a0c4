"""What the model is given: every token at its position, every K/V in its own row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lablib.executor.model import ModelExecutor
from lablib.executor.packing import pack_chunks, pad_batch, slot_mapping
from lablib.model import toy_model
from lablib.request import SamplingParams
from lablib.step import Chunk


def chunk(name: str, start: int, tokens: tuple[int, ...], blocks: tuple[int, ...], padding: int = 0) -> Chunk:
    return Chunk(name, 0, start, tokens, padding, blocks, SamplingParams(), 0, sample=bool(tokens))


def test_positions_count_on_through_the_padding() -> None:
    token_ids, positions, is_real = pad_batch([[5, 6, 7], [8], []], [0, 4, 9])
    assert token_ids.tolist() == [[5, 6, 7], [8, 0, 0], [0, 0, 0]]
    assert positions.tolist() == [[0, 1, 2], [4, 5, 6], [9, 10, 11]]
    assert is_real.sum(axis=1).tolist() == [3, 1, 0]


def test_a_position_at_a_block_border_is_the_first_of_the_next_block() -> None:
    assert slot_mapping((7, 2), np.array([0, 3, 4, 7]), block_size=4).tolist() == [28, 31, 8, 11]


def test_chunks_lie_one_behind_the_other() -> None:
    token_ids, positions, slots = pack_chunks([chunk("a", 3, (9,), (1,)), chunk("b", 0, (4, 5), (0,))], block_size=8)
    assert token_ids.tolist() == [9, 4, 5]
    assert positions.tolist() == [3, 0, 1]
    assert slots.tolist() == [11, 0, 1]


def test_padding_and_finished_rows_write_the_scratch_row_and_sample_nothing() -> None:
    executor = ModelExecutor(toy_model(), num_blocks=3, block_size=8)
    batch = executor.pack(
        [chunk("a", 0, (1, 2, 3), (2,)), chunk("b", 0, (4,), (0,), padding=2), chunk("c", 5, (), (1,), padding=3)]
    )
    scratch = 3 * 8
    assert batch.slot_mapping.tolist() == [16, 17, 18, 0, scratch, scratch, scratch, scratch, scratch]
    assert batch.logit_rows.tolist() == [2, 3]
    assert batch.query_lens == [3, 3, 3]
    assert batch.context_lens == [3, 1, 5]


def test_a_packing_of_the_wrong_size_is_refused_with_both_numbers() -> None:
    executor = ModelExecutor(
        toy_model(), 2, 8, pack_chunks=lambda chunks, size: (np.zeros(1), np.zeros(1), np.zeros(1))
    )
    with pytest.raises(ValueError, match="the plan has 2 positions, 1 were packed"):
        executor.pack([chunk("a", 0, (1, 2), (0,))])


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), block_size=st.integers(1, 5))
def test_no_two_tokens_of_a_step_share_a_row(lengths: list[int], block_size: int) -> None:
    chunks, next_block = [], 0
    for i, length in enumerate(lengths):
        num_blocks = -(-length // block_size)
        chunks.append(chunk(f"r{i}", 0, (1,) * length, tuple(range(next_block, next_block + num_blocks))))
        next_block += num_blocks
    _, _, slots = pack_chunks(chunks, block_size)
    assert len(set(slots.tolist())) == sum(lengths)
    assert torch.tensor(slots).max() < next_block * block_size
