"""Workloads are what they say: lengths, arrivals, published statistics, files."""

from __future__ import annotations

import json
import random
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lablib.request import Request
from lablib.workload import (
    NAMES,
    AllAtOnce,
    ClosedLoop,
    Fixed,
    Gamma,
    Item,
    LogNormal,
    OnOff,
    Poisson,
    Quantiles,
    Uniform,
    Workload,
    WorkloadError,
    named,
    synthetic,
)
from lablib.workload.named import published


def cv(values: list[float]) -> float:
    return statistics.pstdev(values) / statistics.fmean(values)


def percentile(values: list[int], percent: float) -> int:
    return sorted(values)[min(len(values) - 1, round(percent / 100 * len(values)))]


def draws(lengths: Any, count: int = 20_000) -> list[int]:
    rng = random.Random(1)
    return [lengths.draw(rng) for _ in range(count)]


def gaps(process: Any, count: int = 20_000) -> list[float]:
    times = process.times(count, random.Random(1))
    assert times == sorted(times)
    return [later - earlier for earlier, later in pairwise([0.0, *times])]


# Lengths


def test_fixed_and_uniform_lengths_keep_their_limits() -> None:
    assert set(draws(Fixed(7))) == {7}
    assert set(draws(Uniform(3, 9))) == set(range(3, 10))


def test_lognormal_lengths_have_the_mean_and_the_spread_asked_for() -> None:
    values = draws(LogNormal(mean=200, cv=0.8))
    assert statistics.fmean(values) == pytest.approx(200, rel=0.03)
    assert cv(list(values)) == pytest.approx(0.8, rel=0.05)
    assert max(draws(LogNormal(mean=200, cv=0.8, longest=300))) == 300
    assert set(draws(LogNormal(mean=5, cv=0))) == {5}


def test_quantiles_are_met_and_linear_between() -> None:
    values = draws(Quantiles({0: 10, 50: 20, 100: 100}))
    assert (min(values), max(values)) == (10, 100)
    assert [percentile(values, p) for p in (25, 50, 75)] == pytest.approx([15, 20, 60], rel=0.04)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(0), "at least 1 token, got 0"),
        (lambda: Uniform(5, 4), "got 5 and 4"),
        (lambda: LogNormal(mean=10, cv=-1), "cv >= 0"),
        (lambda: Quantiles({0: 1, 90: 5}), "from 0 to 100 percent"),
        (lambda: Quantiles({0: 9, 100: 5}), "never fall"),
        (lambda: Poisson(0), "rate must be a positive number"),
        (lambda: Gamma(1, -1), "cv must be 0 or more"),
        (lambda: OnOff(1, 0, 1), "on_seconds must be a positive number"),
        (lambda: ClosedLoop(0), "num_clients must be at least 1"),
        (lambda: synthetic("none", 0, AllAtOnce(), Fixed(1), Fixed(1)), "at least 1 request"),
        (lambda: named("chit-chat", 3), "there is no workload 'chit-chat'; there are chat, code"),
        (lambda: named("chat", 3, rate=2.0, arrivals=AllAtOnce()), "not both"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# Arrivals


@pytest.mark.parametrize(
    ("process", "spread"), [(Poisson(4.0), 1.0), (Gamma(4.0, 3.0), 3.0), (Gamma(4.0, 0.25), 0.25), (Gamma(4.0, 0), 0)]
)
def test_arrivals_have_the_rate_and_the_variability_asked_for(process: Any, spread: float) -> None:
    between = gaps(process)
    assert 1 / statistics.fmean(between) == pytest.approx(4.0, rel=0.08)
    assert cv(between) == pytest.approx(spread, rel=0.1, abs=1e-9)


def test_bursts_leave_the_off_time_empty() -> None:
    times = OnOff(rate=50, on_seconds=2, off_seconds=3).times(5000, random.Random(1))
    assert all(time % 5 < 2 for time in times)
    assert len(times) / times[-1] == pytest.approx(50 * 2 / 5, rel=0.05)


def test_all_at_once_is_at_once() -> None:
    assert set(AllAtOnce().times(9, random.Random())) == {0.0}


# Named workloads


@pytest.mark.parametrize("name", NAMES)
def test_a_named_workload_has_its_published_statistics(name: str) -> None:
    """Means within 5%, spread within 0.15, percentiles within 6% (or a token, among the very short)."""
    workload = named(name, 40_000, seed=3)
    for side, values in (
        ("prompts", [item.prompt_tokens for item in workload.items]),
        ("outputs", [item.output_tokens for item in workload.items]),
    ):
        figures = published()[name]["published"].get(side, {})
        for statistic, value in figures.items():
            if statistic == "mean":
                assert statistics.fmean(values) == pytest.approx(value, rel=0.05)
            elif statistic == "cv":
                assert cv(list(values)) == pytest.approx(value, abs=0.15)
            else:
                assert percentile(values, float(statistic[1:])) == pytest.approx(value, rel=0.06, abs=1)
    assert workload.source


@pytest.mark.parametrize(("name", "rate", "spread"), [("chat", 5.53, 1.09), ("long-document", 3.4, 1.0)])
def test_a_named_workload_arrives_as_published_or_as_fast_as_asked(name: str, rate: float, spread: float) -> None:
    for asked in (None, 20.0):
        times = [item.arrival_us / 1e6 for item in named(name, 20_000, rate=asked).items]
        assert len(times) / times[-1] == pytest.approx(asked or rate, rel=0.05)
        assert cv([b - a for a, b in pairwise(times)]) == pytest.approx(spread, rel=0.05)


def test_bursty_code_completion_stays_bursty_at_another_rate() -> None:
    times = [item.arrival_us for item in named("code", 40_000, rate=9.0).items]
    between = [b - a for a, b in pairwise(times)]
    assert cv(between) == pytest.approx(13.2, rel=0.25)


# Requests


def test_the_same_seed_gives_the_same_workload_and_another_seed_another() -> None:
    assert named("chat", 50, seed=1) == named("chat", 50, seed=1) != named("chat", 50, seed=2)
    # a fixed sample: the same on every machine and Python
    first = named("chat", 3, seed=0).items
    assert [(item.prompt_tokens, item.output_tokens) for item in first] == [(1274, 91), (946, 169), (2953, 131)]


def test_requests_are_fresh_each_time_and_as_long_as_their_items_say() -> None:
    workload = named("alpaca", 20)
    once, again = workload.requests(), list(workload)
    for item, a, b in zip(workload.items, once, again, strict=True):
        assert a is not b
        assert (a.request_id, tuple(a.prompt_token_ids)) == (b.request_id, tuple(b.prompt_token_ids))
        assert (a.num_prompt_tokens, a.max_tokens, a.sampling.ignore_eos) == (
            item.prompt_tokens,
            item.output_tokens,
            True,
        )
        assert round(a.arrival_time * 1e6) == item.arrival_us
    assert len({tuple(r.prompt_token_ids) for r in once}) == 20, "no two prompts are the same"
    assert workload.max_model_len == max(r.num_prompt_tokens + r.max_tokens for r in once)


def test_scaling_keeps_ratio_and_spread() -> None:
    workload = named("chat", 5000)
    small = workload.scaled(length=1 / 16, rate=2.0)
    assert small.prompt_tokens * 16 == pytest.approx(workload.prompt_tokens, rel=0.01)
    assert small.output_tokens / small.prompt_tokens == pytest.approx(
        workload.output_tokens / workload.prompt_tokens, rel=0.02
    )
    lengths = [[item.output_tokens for item in each.items] for each in (workload, small)]
    assert cv(list(lengths[1])) == pytest.approx(cv(list(lengths[0])), rel=0.02)
    assert min(lengths[1]) >= 1
    assert small.items[-1].arrival_us == pytest.approx(workload.items[-1].arrival_us / 2, abs=1)
    clients = synthetic("closed", 3, ClosedLoop(1, think_seconds=3.0), Fixed(4), Fixed(4)).scaled(rate=2.0)
    assert clients.on_finish(clients.requests()[0], now=1.0)[0].arrival_time == 2.5
    with pytest.raises(ValueError, match="positive factors"):
        workload.scaled(length=0)


def test_clients_of_a_closed_loop_send_their_next_request_after_thinking() -> None:
    workload = synthetic("closed", 7, ClosedLoop(3, think_seconds=0.5), Fixed(4), Fixed(2))
    first = workload.requests()
    assert [r.request_id for r in first] == ["r0", "r1", "r2"]
    (following,) = workload.on_finish(first[1], now=2.0)
    assert (following.request_id, following.arrival_time) == ("r4", 2.5)
    assert workload.on_finish(Request("r5", [1]), now=9.0) == []
    assert named("chat", 4).on_finish(first[0], now=1.0) == []


# Files

ITEMS = st.builds(
    Item,
    arrival_us=st.just(0),
    prompt_tokens=st.integers(1, 9000),
    output_tokens=st.integers(1, 9000),
    priority=st.integers(-3, 3),
    text=st.text(max_size=30),
    chat=st.booleans(),
) | st.lists(st.integers(0, 50_000), min_size=1, max_size=8).map(
    lambda ids: Item(0, len(ids), 5, token_ids=tuple(ids), text="x")
)


@settings(max_examples=40, deadline=None)
@given(items=st.lists(ITEMS, min_size=1, max_size=6), clients=st.integers(0, 3), think=st.integers(0, 10**7))
def test_a_saved_workload_is_the_same_when_it_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item], clients: int, think: int
) -> None:
    workload = Workload("näme", "source “quoted”", tuple(items), clients, think)
    path = tmp_path_factory.mktemp("workload") / "w.json"
    assert Workload.load(workload.save(path)) == workload


def damaged(change: Any) -> Any:
    data = {
        "format": 1,
        "name": "n",
        "source": "s",
        "num_clients": 0,
        "think_us": 0,
        "items": [{"arrival_us": k, "prompt_tokens": 2, "output_tokens": 3} for k in range(3)],
    }
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("format"), "it is not a workload"),
        (lambda d: d.update(format=2), "format 2, this version reads format 1"),
        (lambda d: d.update(name=3), "`name` is 3, it must be of type str"),
        (lambda d: d.update(think_us=-1), "`think_us` is -1"),
        (lambda d: d.update(items=[]), "`items` is empty"),
        (lambda d: d["items"][1].pop("output_tokens"), "item 1: `output_tokens` is missing"),
        (lambda d: d["items"][2].update(prompt_tokens=0), "item 2: `prompt_tokens` is 0, it must be at least 1"),
        (lambda d: d["items"][2].update(prompt_tokens=True), "item 2: `prompt_tokens` is True"),
        (lambda d: d["items"][0].update(output_tokens="9"), "item 0: `output_tokens` is '9'"),
        (lambda d: d["items"][0].update(arrival_us=5), "item 1: `arrival_us` is 1, earlier"),
        (lambda d: d["items"][0].update(colour="red"), "item 0: `colour` is no field"),
        (lambda d: d["items"][0].update(token_ids=[1, 2, 3]), "item 0: `token_ids` holds 3 ids, `prompt_tokens` is 2"),
        (lambda d: d["items"][0].update(token_ids=[1, -2]), "item 0: `token_ids` must hold"),
        (lambda d: d["items"].append("x"), "item 3 is 'x'"),
    ],
)
def test_a_wrong_file_is_refused_with_file_item_and_field(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(damaged(change)))
    with pytest.raises(WorkloadError, match=r"wrong\.json can't be used") as error:
        Workload.load(path)
    assert message in str(error.value)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text('{"format": 1, "na')
    with pytest.raises(WorkloadError, match=r"cut\.json is damaged"):
        Workload.load(path)
    with pytest.raises(FileNotFoundError):
        Workload.load(tmp_path / "none.json")
