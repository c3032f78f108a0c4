"""Real prompts for the real model, and the workload that labs share."""

from __future__ import annotations

import pytest
from default_model import default_model

from lablib import metrics
from lablib.engine import Engine
from lablib.executor import SimulatedExecutor
from lablib.scheduler import ContinuousBatching, StaticBatching
from lablib.workload import load, real_prompts
from lablib.workload.prompts import mixed, texts


class Words:
    """A tokenizer for tests: a token a word, and ten of chat markup."""

    def encode(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    def encode_chat(self, messages: str) -> list[int]:
        return [0] * 10 + self.encode(messages)


def test_there_are_enough_texts_and_no_two_are_the_same() -> None:
    assert len({text for text, _ in texts()}) == len(texts()) >= 40
    assert {chat for _, chat in texts()} == {True, False}


def test_real_prompts_come_in_an_order_of_their_own_and_repeat_only_when_all_have_come() -> None:
    prompts = real_prompts(Words(), len(texts()), seed=1)
    assert len({tuple(ids) for ids in prompts}) == len(texts())
    assert prompts == real_prompts(Words(), len(texts()), seed=1) != real_prompts(Words(), len(texts()), seed=2)
    assert len(real_prompts(Words(), 100)) == 100


def test_real_prompts_keep_the_limit() -> None:
    assert max(map(len, real_prompts(Words(), 60, max_prompt_tokens=30))) <= 30
    with pytest.raises(ValueError, match="no prompt has at most 3 tokens; the shortest has"):
        real_prompts(Words(), 1, max_prompt_tokens=3)


@pytest.mark.parametrize(
    ("name", "totals", "ranges"),
    [("mixed32", (32, 2583, 1325), (16, 229, 8, 122)), ("mixed16", (16, 838, 395), (16, 124, 5, 61))],
)
def test_the_labs_workloads_have_the_shape_that_their_numbers_were_measured_with(
    name: str, totals: tuple[int, ...], ranges: tuple[int, ...]
) -> None:
    workload = load(name)
    prompts = [item.prompt_tokens for item in workload.items]
    outputs = [item.output_tokens for item in workload.items]
    assert (len(workload), sum(prompts), sum(outputs)) == totals
    assert (min(prompts), max(prompts), min(outputs), max(outputs)) == ranges
    static = Engine(StaticBatching(8, workload.max_model_len), SimulatedExecutor()).run(workload)
    continuous = Engine(ContinuousBatching(8, workload.max_model_len), SimulatedExecutor()).run(workload)
    assert metrics.slot_use(static) == pytest.approx(0.43, abs=0.005)
    assert metrics.slot_use(continuous) == pytest.approx(0.694, abs=0.005)
    assert static.num_steps / continuous.num_steps == pytest.approx(1.62, abs=0.02)


def test_texts_become_the_token_ids_of_the_model_at_hand() -> None:
    encoded = load("mixed32").encoded(Words())
    for item, request in zip(encoded.items, encoded.requests(), strict=True):
        expected = Words().encode_chat(item.text) if item.chat else Words().encode(item.text)
        assert list(request.prompt_token_ids) == expected
        assert item.prompt_tokens == len(expected)


@pytest.mark.model
def test_the_labs_workload_is_what_the_texts_and_the_default_model_give() -> None:
    model = default_model()
    assert load("mixed32") == mixed(model)
    assert load("mixed32").encoded(model).prompt_tokens == 2583
    assert load("mixed16") == mixed(model, num_requests=16, seed=128, scale=0.5)
