"""Decodes of similar length share an attention call; which call it is changes no logit (float64, random model)."""

from __future__ import annotations

import random

import pytest
import torch
from forward_batches import Piece, flat_batch
from hypothesis import given, settings
from hypothesis import strategies as st

from lablib.model import LanguageModel, TorchAttention, buckets, toy_model
from lablib.model.buckets import bucket_by_length

MAX_MODEL_LEN = 64
KEY_BYTES = 768  # of the default model in bfloat16


@settings(max_examples=200, deadline=None)
@given(lengths=st.lists(st.integers(1, 5000), max_size=70), key_bytes=st.sampled_from([64, 768, 4096]))
def test_every_sequence_is_in_one_bucket_that_keeps_both_limits(lengths: list[int], key_bytes: int) -> None:
    found = bucket_by_length(lengths, key_bytes)
    assert sorted(i for bucket in found for i in bucket) == list(range(len(lengths)))
    for bucket in found:
        assert bucket == sorted(bucket)
        longest = max(lengths[i] for i in bucket)
        assert sum(longest - lengths[i] for i in bucket) <= buckets.KEYS_WORTH_A_CALL
        assert len(bucket) == 1 or len(bucket) * longest * key_bytes <= buckets.BUCKET_BYTES


@pytest.mark.parametrize("lengths", [[128] * 32, [100, 103, 101, 102] * 8, [1], [5000]])
def test_sequences_of_about_one_length_share_one_call(lengths: list[int]) -> None:
    assert bucket_by_length(lengths, KEY_BYTES) == [list(range(len(lengths)))]


def test_a_mixture_of_lengths_is_padded_by_little_and_split_into_few_calls() -> None:
    lengths = [20 + round(980 * i / 31) for i in range(32)]
    random.Random(0).shuffle(lengths)
    found = bucket_by_length(lengths, KEY_BYTES)
    padded = sum(len(bucket) * max(lengths[i] for i in bucket) for bucket in found)
    assert padded < 1.15 * sum(lengths)  # one rectangle: 1.96 times
    assert len(found) <= 8


def filled_model(
    rng: random.Random, sequences: list[list[int]], block_size: int
) -> tuple[LanguageModel, list[list[int]]]:
    """A model whose cache holds all but the last token of each sequence in scattered blocks, and is NaN elsewhere."""
    model = toy_model(max_model_len=MAX_MODEL_LEN)
    ids = list(range(sum(-(-len(tokens) // block_size) for tokens in sequences) + 3))
    model.allocate_cache(len(ids), block_size)
    cache_of(model).fill_(torch.nan)
    rng.shuffle(ids)
    tables = [[ids.pop() for _ in range(-(-len(tokens) // block_size))] for tokens in sequences]
    prompts = [Piece(s[:-1], 0, t) for s, t in zip(sequences, tables, strict=True) if len(s) > 1]
    if prompts:
        model.forward(flat_batch(prompts, num_blocks_of(model), block_size))
    return model, tables


def cache_of(model: LanguageModel) -> torch.Tensor:
    assert isinstance(model.backend, TorchAttention)
    return model.backend.cache


def num_blocks_of(model: LanguageModel) -> int:
    assert isinstance(model.backend, TorchAttention)
    return (model.backend.cache.shape[1] - 1) // model.backend.block_size


def random_sequences(rng: random.Random, lengths: list[int]) -> list[list[int]]:
    return [[rng.randrange(259) for _ in range(length)] for length in lengths]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.sampled_from([1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64]), min_size=2, max_size=12),
    block_size=st.sampled_from([1, 7, 16, MAX_MODEL_LEN]),
    keys_worth_a_call=st.sampled_from([0, 1, 8, 40]),
    bucket_keys=st.sampled_from([1, 64, 10_000]),
    beside_a_prompt=st.booleans(),
)
def test_a_decode_has_the_logits_of_its_sequence_alone_in_any_bucket(
    seed: int, lengths: list[int], block_size: int, keys_worth_a_call: int, bucket_keys: int, beside_a_prompt: bool
) -> None:
    rng = random.Random(seed)
    sequences = random_sequences(rng, lengths)
    model, tables = filled_model(rng, sequences, block_size)
    pieces = [Piece(s[-1:], len(s) - 1, t) for s, t in zip(sequences, tables, strict=True)]
    if beside_a_prompt:  # a whole prompt in the place of the first sequence
        pieces[0] = Piece(sequences[0], 0, tables[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buckets, "KEYS_WORTH_A_CALL", keys_worth_a_call)
        patch.setattr(buckets, "BUCKET_BYTES", bucket_keys * cache_of(model)[0, 0].nbytes)
        logits = model.forward(flat_batch(pieces, num_blocks_of(model), block_size, every_row=False))
    alone = torch.stack([model.forward_full(tokens)[-1] for tokens in sequences])
    torch.testing.assert_close(logits, alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("block_size", [1, 7, 16, MAX_MODEL_LEN])
@pytest.mark.parametrize("poisoned", range(4))
def test_a_sequence_full_of_nan_harms_no_other_in_its_bucket(block_size: int, poisoned: int) -> None:
    rng = random.Random(poisoned)
    sequences = random_sequences(rng, [30, 33, 17, 48])
    model, tables = filled_model(rng, sequences, block_size)
    for block in tables[poisoned]:
        cache_of(model)[:, block * block_size : (block + 1) * block_size] = torch.nan
    pieces = [Piece(s[-1:], len(s) - 1, t) for s, t in zip(sequences, tables, strict=True)]
    logits = model.forward(flat_batch(pieces, num_blocks_of(model), block_size))
    for i, tokens in enumerate(sequences):
        if i == poisoned:
            assert logits[i].isnan().all()
        else:
            torch.testing.assert_close(logits[i], model.forward_full(tokens)[-1], rtol=0, atol=1e-10)
