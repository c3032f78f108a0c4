"""Whatever a caller hands in is served, or refused by name; it never stops or spoils what others asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from runs import mixed_requests, request

from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.executor.model import ModelExecutor
from lablib.kvcache import BlockPool, KVCacheManager
from lablib.model.greedy import CachedForward, greedy_decode
from lablib.model.toy import toy_model
from lablib.request import FinishReason, Request, SamplingParams
from lablib.roofline import Machine
from lablib.scheduler import ContinuousBatching, DynamicBatching, StaticBatching
from lablib.scheduler.policies import ReservePrompt
from lablib.validate import real, whole

SHORT = SamplingParams(max_tokens=4, ignore_eos=True)


def toy_engine(scheduler: Any = None) -> Engine:
    scheduler = scheduler or ContinuousBatching(4, 64)
    kv = scheduler.kv
    return Engine(scheduler, ModelExecutor(toy_model(), kv.pool.num_blocks, kv.block_size))


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ([10**6], r"request bad: prompt_token_ids\[0\] must be at most 258, got 1000000"),
        ([5, -1], r"request bad: prompt_token_ids\[1\] must be at least 0, got -1"),
        (["a"], r"request bad: prompt_token_ids\[0\] must be a whole number, got 'a'"),
        ([1, 1.5], r"request bad: prompt_token_ids\[1\] must be a whole number, got 1.5"),
        ([True], r"request bad: prompt_token_ids\[0\] must be a whole number, got True"),
        (torch.tensor([0.5]), r"request bad: prompt_token_ids\[0\] must be a whole number"),
    ],
)
@pytest.mark.parametrize("batching", [StaticBatching, ContinuousBatching])
def test_a_prompt_that_is_none_of_the_models_is_refused_by_name_and_the_others_are_served(
    batching: Any, prompt: Any, says: str
) -> None:
    engine = toy_engine(batching(4, 64))
    good = [Request(f"r{i}", [i + 1, 7], SHORT) for i in range(3)]
    trace = engine.run([good[0], Request("bad", prompt, SHORT), *good[1:]])
    assert sorted(trace.requests["finish_reason"]) == ["error", "length", "length", "length"]
    with pytest.raises(ValueError, match=says):
        toy_engine().add_request(Request("bad", prompt, SHORT))


def test_a_simulated_executor_refuses_what_no_model_has_but_knows_no_vocabulary() -> None:
    engine = Engine(ContinuousBatching(4, 64), SimulatedExecutor())
    trace = engine.run([Request("a", [-1], SHORT), Request("b", [10**6], SHORT)])
    assert trace.requests["finish_reason"] == ["error", "length"]


@pytest.mark.parametrize("prompt", [np.array([3, 4]), torch.tensor([3, 4]), (np.int32(3), 4), b"\x03\x04"])
def test_numpys_and_torchs_integers_are_welcome(prompt: Any) -> None:
    asked = Request("a", prompt, SHORT)
    toy_engine().run([asked])
    expected = Request("a", [3, 4], SHORT)
    toy_engine().run([expected])
    assert asked.output_token_ids == expected.output_token_ids


@pytest.mark.parametrize("moment", [math.nan, math.inf, -math.inf, -1.0])
def test_an_arrival_time_that_is_none_is_refused_by_name_and_the_others_are_served(moment: float) -> None:
    engine = Engine(ContinuousBatching(2, 64), SimulatedExecutor())
    trace = engine.run([request("a", 3, 3, 0.5), request("b", 3, 3, moment), request("c", 3, 3, 0.1)])
    reasons = dict(zip(trace.requests["id"], trace.requests["finish_reason"], strict=True))
    assert reasons == {"a": "length", "b": "error", "c": "length"}
    message = trace.requests["message"][trace.requests["id"].index("b")]
    assert message.startswith("request b: arrival_time must be finite")


def test_a_request_that_an_engine_had_is_refused_by_the_next_one_and_left_as_it_is() -> None:
    served, waiting = request("a", 3, 2), request("b", 3, 2)
    first = toy_engine()
    first.run([served])
    first.add_request(waiting)
    before = list(served.output_token_ids)
    trace = toy_engine().run([served, waiting, request("c", 3, 2)])
    assert trace.requests["finish_reason"] == ["error", "error", "length"]
    assert trace.requests["message"][0].startswith("request a was submitted before, and is finished")
    assert served.output_token_ids == before
    first.run([])
    assert (waiting.num_output_tokens, waiting.finish_reason) == (2, FinishReason.LENGTH)


def test_no_request_is_lost_when_names_are_used_twice() -> None:
    engine = Engine(ContinuousBatching(2, 64), SimulatedExecutor())
    trace = engine.run([request("a", 3, 3), request("a", 3, 3), request("a", 3, 3)])
    assert trace.requests["id"] == ["a", "a (2)", "a (3)"]
    assert trace.requests["finish_reason"] == ["length", "error", "error"]
    assert all("request a exists already" in message for message in trace.requests["message"][1:])
    engine.run(mixed_requests(3))
    assert engine.run(mixed_requests(3)).requests["finish_reason"].count("error") == 2 + 3, "a second run says so too"


def test_generate_finds_free_names_and_answers_every_prompt() -> None:
    engine = toy_engine()
    engine.run([request("r1", 3, 2), request("r3", 3, 2)])
    answers = engine.generate([[1], [], [2], ["x"]], SHORT)  # type: ignore[list-item]
    assert [len(answer.token_ids) for answer in answers] == [4, 0, 4, 0]
    assert "the prompt is empty" in answers[1].message
    assert "prompt_token_ids[0] must be a whole number, got 'x'" in answers[3].message
    assert len({answer.request_id for answer in answers} | {"r1", "r3"}) == 6
    with pytest.raises(ValueError, match="2 prompts and 1 sets"):
        engine.generate([[1], [2]], [SHORT])


def test_executors_of_one_model_do_not_touch_each_others_cache() -> None:
    model = toy_model()
    prompts = [[5, 6, 7], [8, 9]]

    def engine() -> Engine:
        return Engine(ContinuousBatching(2, 64), ModelExecutor(model, 2, 64))

    alone = engine().generate(prompts, SHORT)
    first = engine()
    for prompt in prompts:
        first.add_request(Request(f"q{prompt[0]}", prompt, SHORT))
    first.step()
    second = engine()
    second.generate([[100, 101], [102]], SHORT)
    forward = CachedForward(model, 16)
    greedy_decode(forward, [7, 7], 4)
    first.run([])
    assert first.trace.requests["output"] == [list(answer.token_ids) for answer in alone]


NO_COUNTS: list[Any] = [0, -1, 2.5, math.nan, "4", None, True]


@pytest.mark.parametrize("value", NO_COUNTS)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda n: StaticBatching(n, 64), "batch_size"),
        (lambda n: StaticBatching(4, n), "max_model_len"),
        (lambda n: DynamicBatching(n, 64), "max_batch_size"),
        (lambda n: ContinuousBatching(n, 64), "max_num_seqs"),
        (lambda n: ContinuousBatching(4, n), "max_model_len"),
        (lambda n: ContinuousBatching(4, 64, 0 if n is None else n), "max_num_batched_tokens"),
        (lambda n: ContinuousBatching(4, 64, block_size=0 if n is None else n), "block_size"),
        (lambda n: ContinuousBatching(4, 64, num_blocks=0 if n is None else n), "num_blocks"),
        (lambda n: BlockPool(n), "num_blocks"),
        (lambda n: KVCacheManager(4, n), "block_size"),
        (lambda n: SamplingParams(max_tokens=0 if n is None else n), "max_tokens"),
    ],
)
def test_a_count_that_is_none_is_refused_by_name(make: Any, name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        make(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, "1", None])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: DynamicBatching(4, 64, max_wait=x), "max_wait"),
        (lambda x: ConstantCost(x), "seconds_per_step"),
        (lambda x: ConstantCost(0, x), "seconds_per_token"),
        (lambda x: SamplingParams(temperature=x), "temperature"),
        (lambda x: SamplingParams(top_p=x), "top_p"),
        (lambda x: ReservePrompt(x), "watermark"),
        (lambda x: Machine("m", x, 1, "s"), "flops"),
        (lambda x: Machine("m", 1, x, "s"), "bandwidth"),
    ],
)
def test_a_figure_that_is_none_is_refused_by_name(make: Any, name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        make(value)


@pytest.mark.parametrize(
    "fault",
    [{"stop_token_ids": ["x"]}, {"stop_token_ids": 5}, {"seed": 1.5}, {"top_k": 1.5}, {"ignore_eos": 1}, {"seed": -1}],
)
def test_sampling_parameters_of_the_wrong_type_are_refused_by_name(fault: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(fault))):
        SamplingParams(**fault)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2),
    st.integers(-(2**31), 2**31 - 1).map(np.int32), st.floats().map(np.float64),
)  # fmt: skip


@given(ANYTHING, st.integers(-5, 5))
def test_whatever_is_given_becomes_a_plain_number_in_range_or_is_named(value: Any, least: int) -> None:
    for check, kind in ((whole, int), (real, float)):
        try:
            found = check("the value", value, least=least)
        except (TypeError, ValueError) as error:
            said = str(error)
        else:
            said = "the value must be" if type(found) is kind and found == value and least <= found < math.inf else ""
        assert said.startswith("the value must be")
