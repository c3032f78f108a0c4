"""Greedy text does not depend on how requests are batched."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch
from default_model import default_model
from forward_batches import PROMPTS
from hypothesis import given, settings
from hypothesis import strategies as st

from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.kvcache import OutOfBlocks
from lablib.model import LanguageModel, toy_model
from lablib.request import FinishReason, Request, SamplingParams
from lablib.scheduler import ContinuousBatching, DynamicBatching, StaticBatching
from lablib.scheduler.policies import Admission, ReserveMaxTokens, ReserveModelMax, ReservePrompt

MAX_MODEL_LEN = 32


@cache
def toy() -> LanguageModel:
    return toy_model(seed=0, dtype=torch.float64)


@cache
def alone(prompt: tuple[int, ...], max_tokens: int) -> list[int]:
    """The greedy continuation, computed without any KV cache."""
    tokens = list(prompt)
    for _ in range(max_tokens):
        tokens.append(int(toy().forward_full(tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def random_prompt(length: int, seed: int) -> tuple[int, ...]:
    rng = random.Random(seed)
    return tuple(rng.randrange(toy().config.vocab_size) for _ in range(length))


@settings(max_examples=25, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(0, 5)), min_size=1, max_size=9),
    slots=st.integers(1, 6),
    kind=st.sampled_from(["static", "dynamic", "continuous", "small blocks"]),
)
def test_any_scheduler_size_and_mix_gives_the_tokens_of_each_request_alone(
    shapes: list[tuple[int, int, int]], slots: int, kind: str
) -> None:
    requests = [
        Request(f"r{i}", random_prompt(prompt, seed), SamplingParams(max_tokens=output, ignore_eos=True))
        for i, (prompt, output, seed) in enumerate(shapes)
    ]
    scheduler = {
        "static": lambda: StaticBatching(slots, 32),
        "dynamic": lambda: DynamicBatching(slots, 32, max_wait=0.01),
        "continuous": lambda: ContinuousBatching(slots, 32, max_num_batched_tokens=24),
        "small blocks": lambda: ContinuousBatching(slots, 32, block_size=7, num_blocks=12),
    }[kind]()
    kv = scheduler.kv
    Engine(scheduler, ModelExecutor(toy(), kv.pool.num_blocks, kv.block_size)).run(requests)
    for each in requests:
        assert each.output_token_ids == alone(tuple(each.prompt_token_ids), each.max_tokens)


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(0, 5), st.integers(0, 40)), min_size=1, max_size=9
    ),
    block_size=st.sampled_from([1, 7, 16, 256, MAX_MODEL_LEN]),
    rule=st.sampled_from([ReserveModelMax(), ReserveMaxTokens(), ReservePrompt(), ReservePrompt(watermark=0.3)]),
    slots=st.integers(1, 6),
    spare=st.integers(0, 70),
)
def test_any_block_size_reserve_rule_and_arrival_gives_the_tokens_of_each_request_alone(
    shapes: list[tuple[int, int, int, int]], block_size: int, rule: Admission, slots: int, spare: int
) -> None:
    """The pool holds one request of the greatest length and ``spare`` more tokens; who can't grow in it is aborted."""
    num_blocks = -(-MAX_MODEL_LEN // block_size) + spare // block_size
    scheduler = ContinuousBatching(slots, MAX_MODEL_LEN, block_size=block_size, num_blocks=num_blocks, admission=rule)
    engine = Engine(scheduler, ModelExecutor(toy(), num_blocks, block_size))
    requests = [
        Request(f"r{i}", random_prompt(prompt, seed), SamplingParams(max_tokens=output, ignore_eos=True))
        for i, (prompt, output, seed, _) in enumerate(shapes)
    ]
    arrivals = sorted(zip((arrival for *_, arrival in shapes), requests, strict=True), key=lambda pair: pair[0])
    turn, refused = 0, []
    while arrivals or scheduler.has_work():
        while arrivals and arrivals[0][0] <= turn:
            try:
                engine.add_request(arrivals.pop(0)[1])
            except ValueError as error:
                refused.append(str(error))
        try:
            engine.step()
        except OutOfBlocks as error:
            engine.abort(error.request_id)
        assert len(scheduler.running) <= slots
        held = [block for each in requests for block in scheduler.kv.block_table(each.request_id)]
        assert len(held) == len(set(held)) == scheduler.kv.pool.num_used
        turn += 1
    assert all("ReservePrompt" in message and "keeps" in message for message in refused)
    for each in requests:
        expected = alone(tuple(each.prompt_token_ids), each.max_tokens)
        served = each.finish_reason is FinishReason.LENGTH
        assert each.output_token_ids == (expected if served else expected[: each.num_output_tokens])
        assert served or isinstance(rule, ReservePrompt)


@settings(max_examples=15, deadline=None)
@given(batch_size=st.integers(1, 5), seed=st.integers(0, 50), temperature=st.sampled_from([0.5, 1.0, 2.0]))
def test_a_sampled_answer_depends_on_its_seed_and_not_on_its_neighbours(
    batch_size: int, seed: int, temperature: float
) -> None:
    sampling = SamplingParams(max_tokens=8, temperature=temperature, top_k=40, seed=seed, ignore_eos=True)
    prompts = [random_prompt(length, length) for length in (5, 3, 9, 1, 6)]
    batched = Engine(StaticBatching(batch_size, 32), ModelExecutor(toy(), batch_size, 32)).generate(prompts, sampling)
    for prompt, answer in zip(prompts, batched, strict=True):
        (solo,) = Engine(StaticBatching(1, 32), ModelExecutor(toy(), 1, 32)).generate([prompt], sampling)
        assert answer.token_ids == solo.token_ids


@pytest.mark.model
def test_the_default_model_gives_the_same_tokens_in_every_batch() -> None:
    model = default_model()
    prompts = [model.encode(prompt["text"]) for prompt in PROMPTS[:10]]
    max_model_len = max(map(len, prompts)) + 12
    sampling = SamplingParams(max_tokens=12, ignore_eos=True)
    texts = []
    for batch_size in (1, 4, 10):
        executor = ModelExecutor(model, batch_size, max_model_len)
        answers = Engine(StaticBatching(batch_size, max_model_len), executor).generate(prompts, sampling)
        texts.append([answer.token_ids for answer in answers])
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.model
def test_the_default_model_gives_the_same_tokens_in_blocks_of_any_size() -> None:
    model = default_model()
    prompts = [model.encode(prompt["text"]) for prompt in PROMPTS[:6]]
    max_model_len = max(map(len, prompts)) + 12
    sampling = SamplingParams(max_tokens=12, ignore_eos=True)
    texts = {}
    for block_size in (1, 7, 16, 256, max_model_len):
        scheduler = ContinuousBatching(4, max_model_len, block_size=block_size, admission=ReservePrompt())
        executor = ModelExecutor(model, scheduler.kv.pool.num_blocks, block_size)
        answers = Engine(scheduler, executor).generate(prompts, sampling)
        texts[block_size] = [answer.token_ids for answer in answers]
        assert all(len(answer.token_ids) == 12 for answer in answers)
    assert all(each == texts[max_model_len] for each in texts.values())
