"""A sampled token depends on its logits, seed and output index alone, and follows the distribution asked for."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from lablib.model import sample
from lablib.model.sampler import distribution, uniform
from lablib.request import SamplingParams

LOGITS = torch.tensor([2.0, -1.0, 0.5, 1.5, 0.0, 1.0, -3.0, 0.25])


def drawn(logits: torch.Tensor, params: SamplingParams, count: int) -> list[int]:
    return sample(logits.expand(count, -1), [params] * count, range(count))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=1),
        SamplingParams(temperature=0.5, seed=2),
        SamplingParams(temperature=2.0, seed=3),
        SamplingParams(temperature=1.0, top_k=3, seed=4),
        SamplingParams(temperature=1.0, top_p=0.8, seed=5),
        SamplingParams(temperature=1.5, top_k=5, top_p=0.7, seed=6),
    ],
)
def test_frequencies_follow_the_filtered_softmax(params: SamplingParams) -> None:
    count = 20_000
    expected = by_the_book(LOGITS.double().numpy(), params)
    observed = np.bincount(drawn(LOGITS, params, count), minlength=len(LOGITS))
    possible = expected > 0
    assert observed[~possible].sum() == 0
    chi_square = (((observed - count * expected) ** 2)[possible] / (count * expected[possible])).sum()
    assert chi_square < 24.3  # 1 in 1,000 for 7 degrees of freedom; the seeds are fixed


def by_the_book(logits: np.ndarray, params: SamplingParams) -> np.ndarray:
    """Softmax, top-k, then top-p, one token at a time."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[: params.top_k or None]
    weights = {i: float(np.exp(logits[i] / params.temperature)) for i in order}
    total, mass, kept = sum(weights.values()), 0.0, []
    for token in order:
        if mass < params.top_p:
            kept.append(token)
            mass += weights[token] / total
    probabilities = np.zeros(len(logits))
    probabilities[kept] = [weights[i] for i in kept]
    return probabilities / probabilities.sum()


@pytest.mark.parametrize("seed", range(5))
def test_the_distribution_is_the_one_by_the_book_on_a_large_vocabulary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=3, size=2_000).round(1)  # rounded, so that many are equal
    for top_k, top_p in [(0, 1.0), (50, 1.0), (0, 0.9), (0, 0.999), (100, 0.5), (5_000, 0.3)]:
        params = SamplingParams(temperature=0.8, top_k=top_k, top_p=top_p)
        tokens, probabilities = distribution(logits, 0.8, top_k, top_p)
        dense = np.zeros(len(logits))
        dense[tokens] = probabilities
        np.testing.assert_allclose(dense, by_the_book(logits, params), atol=1e-12)


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=1.0, top_k=1, seed=0)])
def test_temperature_zero_and_top_k_one_take_the_most_likely_token(params: SamplingParams) -> None:
    logits = torch.randn(50, 1_000, generator=torch.Generator().manual_seed(0))
    assert sample(logits, [params] * 50, range(50)) == logits.argmax(-1).tolist()


def test_of_equal_logits_greedy_and_top_k_take_the_lowest_ids() -> None:
    logits = torch.tensor([[0.0, 1.0, 1.0, 1.0, 1.0]])
    assert sample(logits, [SamplingParams()], [0]) == [1]
    assert set(drawn(logits, SamplingParams(temperature=1.0, top_k=2, seed=0), 200)) == {1, 2}


@pytest.mark.parametrize("temperature", [1e-300, 1e-6, 1e-2])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    params = SamplingParams(temperature=temperature, seed=0)
    assert set(drawn(LOGITS, params, 50)) == {0}


def test_a_huge_temperature_draws_all_tokens_alike() -> None:
    counts = np.bincount(drawn(LOGITS, SamplingParams(temperature=1e9, seed=0), 8_000), minlength=8)
    assert counts.min() > 850


def test_neighbours_and_their_order_change_nothing() -> None:
    rng = random.Random(0)
    logits = torch.randn(12, 500, generator=torch.Generator().manual_seed(1))
    choices = [{}, {"temperature": 0.7}, {"temperature": 1.0, "top_p": 0.9}, {"temperature": 1.3, "top_k": 20}]
    params = [SamplingParams(**rng.choice(choices), seed=i % 5) for i in range(12)]
    indices = [rng.randrange(100) for _ in range(12)]
    together = sample(logits, params, indices)
    alone = [sample(logits[i : i + 1], [params[i]], [indices[i]])[0] for i in range(12)]
    backwards = sample(logits.flip(0), params[::-1], indices[::-1])
    assert together == alone == backwards[::-1]


def test_a_token_is_the_same_again_and_another_for_another_seed_or_index() -> None:
    params = SamplingParams(temperature=1.0, seed=7)
    flat = torch.zeros(1_000)
    assert drawn(flat, params, 20) == drawn(flat, params, 20)
    assert len(set(drawn(flat, params, 20))) > 15
    assert drawn(flat, params, 20) != drawn(flat, SamplingParams(temperature=1.0, seed=8), 20)


def test_random_numbers_are_known_so_that_texts_survive_a_new_version() -> None:
    assert [round(uniform(0, 0), 12), round(uniform(0, 1), 12), round(uniform(2**40, 3), 12)] == [
        0.011546754286,
        0.502379604274,
        0.619922738804,
    ]
    assert 0.48 < np.mean([uniform(3, i) for i in range(5_000)]) < 0.52


def test_a_sampled_row_without_a_seed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 1 has temperature 0\.5 but no seed"):
        sample(torch.zeros(2, 5), [SamplingParams(), SamplingParams(temperature=0.5)], [0, 0])


def test_no_rows_give_no_tokens() -> None:
    assert sample(torch.empty(0, 5), [], []) == []
