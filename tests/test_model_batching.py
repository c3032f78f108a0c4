"""What a token's logits are does not depend on how the batch around it is put together (float64, random model)."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch
from forward_batches import Piece, flat_batch
from hypothesis import given, settings
from hypothesis import strategies as st

from lablib.model import LanguageModel, TorchAttention, toy_model

MAX_MODEL_LEN = 64
BLOCK_SIZES = [1, 7, 16, MAX_MODEL_LEN]


@cache
def toy() -> LanguageModel:
    return toy_model(seed=0, max_model_len=MAX_MODEL_LEN + 3)  # room for the positions of padding


def cache_of(model: LanguageModel) -> torch.Tensor:
    assert isinstance(model.backend, TorchAttention)
    return model.backend.cache


def random_tokens(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(toy().config.vocab_size) for _ in range(length)]


def random_pieces(rng: random.Random, tokens: list[int], table: list[int], padded: bool) -> list[Piece]:
    """Cuts a sequence into chunks of random length."""
    pieces, start = [], 0
    while start < len(tokens):
        length = rng.choice([1, 1, 2, 3, 8, 30])
        chunk = tokens[start : start + length]
        pieces.append(Piece(chunk, start, table, rng.randint(0, 3) if padded else 0))
        start += len(chunk)
    return pieces


def tables(
    rng: random.Random, num_sequences: int, block_size: int, shuffled: bool = True
) -> tuple[list[list[int]], int]:
    """Block tables for sequences of up to max_model_len tokens, out of a pool a little larger than they need."""
    width = -(-MAX_MODEL_LEN // block_size)
    ids = list(range(num_sequences * width + 2))
    if shuffled:
        rng.shuffle(ids)
    return [ids[i * width : (i + 1) * width] for i in range(num_sequences)], len(ids)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(1, MAX_MODEL_LEN), min_size=1, max_size=5),
    block_size=st.sampled_from(BLOCK_SIZES),
    shuffled=st.booleans(),
    padded=st.booleans(),
)
def test_chunked_mixed_and_padded_equals_whole_without_a_cache(
    seed: int, lengths: list[int], block_size: int, shuffled: bool, padded: bool
) -> None:
    rng = random.Random(seed)
    sequences = [random_tokens(rng, length) for length in lengths]
    block_tables, num_blocks = tables(rng, len(sequences), block_size, shuffled)
    toy().allocate_cache(num_blocks, block_size)
    cache_of(toy()).fill_(torch.nan)
    waiting = [random_pieces(rng, s, t, padded) for s, t in zip(sequences, block_tables, strict=True)]
    found: list[list[torch.Tensor]] = [[] for _ in sequences]
    while any(waiting):
        chosen = [i for i, pieces in enumerate(waiting) if pieces and rng.random() < 0.7]
        rng.shuffle(chosen)
        pieces = [waiting[i].pop(0) for i in chosen]
        if not pieces:
            continue
        logits = toy().forward(flat_batch(pieces, num_blocks, block_size))
        for i, rows in zip(chosen, logits.split([len(p.token_ids) for p in pieces]), strict=True):
            found[i].append(rows)
    for sequence, rows in zip(sequences, found, strict=True):
        torch.testing.assert_close(torch.cat(rows), toy().forward_full(sequence), rtol=0, atol=1e-10)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_nothing_depends_on_cache_rows_that_no_sequence_has_written(block_size: int) -> None:
    """The whole cache is NaN to begin with, a sequence's own blocks and the scratch row included."""
    rng = random.Random(1)
    (a, b), num_blocks = tables(rng, 2, block_size)
    toy().allocate_cache(num_blocks, block_size)
    cache_of(toy()).fill_(torch.nan)
    first, second = random_tokens(rng, 40), random_tokens(rng, 20)
    steps = [
        [Piece(first[:30], 0, a), Piece(second[:10], 0, b)],
        [Piece(first[30:39], 30, a), Piece(second[10:11], 10, b)],
        [Piece(second[11:19], 11, b)],
        [Piece(first[39:], 39, a), Piece(second[19:], 19, b)],
    ]
    logits = [toy().forward(flat_batch(step, num_blocks, block_size)) for step in steps]
    expected = torch.stack([toy().forward_full(first)[-1], toy().forward_full(second)[-1]])
    torch.testing.assert_close(logits[-1], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("block_size", [4, MAX_MODEL_LEN])
def test_padding_and_finished_rows_leave_the_others_as_they_are(block_size: int) -> None:
    rng = random.Random(2)
    (a, b, c), num_blocks = tables(rng, 3, block_size, shuffled=False)
    tokens = random_tokens(rng, 30)

    def last_two_logits(padded: bool) -> torch.Tensor:
        toy().allocate_cache(num_blocks, block_size)
        others = [Piece(tokens[:5], 0, b, num_padding=15), Piece(tokens[:9], 0, c, num_padding=11)]
        prefill = [*others[:1], Piece(tokens[:20], 0, a), *others[1:]] if padded else [Piece(tokens[:20], 0, a)]
        finished = [Piece([], 5, b, num_padding=1), Piece([], 9, c, num_padding=1)]
        decode = (
            [*finished[:1], Piece(tokens[20:21], 20, a), *finished[1:]] if padded else [Piece(tokens[20:21], 20, a)]
        )
        prefilled = toy().forward(flat_batch(prefill, num_blocks, block_size, every_row=False))
        return torch.cat(
            [prefilled[1:2] if padded else prefilled, toy().forward(flat_batch(decode, num_blocks, block_size))]
        )

    torch.testing.assert_close(last_two_logits(True), last_two_logits(False), rtol=0, atol=1e-12)


def test_a_step_that_wants_no_logits_gives_none_and_still_writes_the_cache() -> None:
    toy().allocate_cache(4, 16)
    tokens = random_tokens(random.Random(3), 10)
    batch = flat_batch([Piece(tokens[:9], 0, [2])], 4, 16)
    batch.logit_rows = torch.empty(0, dtype=torch.int64)
    assert toy().forward(batch).shape == (0, toy().config.vocab_size)
    logits = toy().forward(flat_batch([Piece(tokens[9:], 9, [2])], 4, 16))
    torch.testing.assert_close(logits[0], toy().forward_full(tokens)[-1], rtol=0, atol=1e-10)


def test_logits_come_in_the_order_in_which_they_are_asked_for() -> None:
    toy().allocate_cache(4, 16)
    batch = flat_batch([Piece(random_tokens(random.Random(4), 6), 0, [0])], 4, 16)
    every = toy().forward(batch)
    batch.logit_rows = torch.tensor([5, 0, 3])
    torch.testing.assert_close(toy().forward(batch), every[[5, 0, 3]], rtol=0, atol=1e-12)


def test_a_model_without_a_cache_says_what_to_call() -> None:
    with pytest.raises(RuntimeError, match=r"allocate_cache\(num_blocks, block_size\)"):
        toy_model().forward(flat_batch([Piece([1], 0, [0])], 1, 1))


@pytest.mark.parametrize(("num_blocks", "block_size", "named"), [(0, 16, "num_blocks"), (4, 0, "block_size")])
def test_a_cache_of_no_blocks_or_no_tokens_is_refused(num_blocks: int, block_size: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"{named} must be at least 1, got 0"):
        toy_model().allocate_cache(num_blocks, block_size)


def test_the_random_model_is_the_same_for_a_seed_and_another_for_another() -> None:
    tokens = [1, 2, 3]
    assert torch.equal(toy_model(seed=5).forward_full(tokens), toy_model(seed=5).forward_full(tokens))
    assert not torch.equal(toy_model(seed=5).forward_full(tokens), toy_model(seed=6).forward_full(tokens))


def test_greedy_texts_of_the_random_model_do_not_collapse_to_one_token() -> None:
    for seed in range(3):
        model = toy_model(seed=seed)
        tokens = model.encode_chat("hello")
        for _ in range(50):
            tokens.append(int(model.forward_full(tokens)[-1].argmax()))
        assert len(set(tokens[-40:])) >= 15
