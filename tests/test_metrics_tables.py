"""Goodput, preemptions and tables, on runs that are small enough to count by hand."""

from __future__ import annotations

import pytest
from runs import request

from lablib import metrics
from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.metrics import SLO
from lablib.recorder import TraceRecorder
from lablib.request import FinishReason, RequestOutput, SamplingParams
from lablib.scheduler import ContinuousBatching, StaticBatching
from lablib.step import Chunk, StepPlan, StepResult
from lablib.trace import Trace
from lablib.viz.latency import frontier, latency_cdf, timeline

ONE_SECOND_A_STEP = SimulatedExecutor(ConstantCost(seconds_per_step=1.0, seconds_per_token=0.0))


def three_requests() -> Trace:
    """Two slots, streamed: a (1 token) 0–1, b (4) 0–4, c (2) comes at 0.5 and runs 1–3; d is refused."""
    requests = [request("a", 2, 1), request("b", 5, 4), request("c", 3, 2, arrival=0.5), request("d", 99, 9)]
    return Engine(ContinuousBatching(2, 64), ONE_SECOND_A_STEP).run(requests)


@pytest.mark.parametrize(
    ("slo", "good"),
    [
        (SLO(), ["a", "b", "c"]),
        (SLO(ttft=1.0), ["a", "b"]),
        (SLO(ttft=1.5, e2e=3.0), ["a", "c"]),
        (SLO(tpot=0.9), ["a"]),  # an answer of one token has no time per output token to exceed
        (SLO(tpot=1.0), ["a", "b", "c"]),
    ],
)
def test_goodput_counts_the_requests_that_meet_every_limit(slo: SLO, good: list[str]) -> None:
    trace = three_requests()
    names = [name for name, meets in zip(trace.requests["id"], metrics.meets(trace, slo), strict=True) if meets]
    assert names == good
    assert metrics.goodput(trace, slo) == len(good) / 4.0
    assert metrics.summary(trace, slo)["goodput"] == len(good) / 4.0


def test_total_throughput_counts_prompts_and_answers_of_served_requests() -> None:
    numbers = metrics.summary(three_requests())
    assert numbers["total_tokens_per_s"] == (2 + 1 + 5 + 4 + 3 + 2) / 4.0
    assert numbers["output_tokens_per_s"] == (1 + 4 + 2) / 4.0


def preempted_run() -> Trace:
    """Request p computes 4 prompt tokens and 2 decodes, is preempted, and computes its 7 tokens anew in two chunks."""
    recorder = TraceRecorder({"max_num_seqs": 2})
    for name in ("other", "p"):
        recorder.add_request(request(name, 4, 4))
    for step, (start, tokens) in enumerate([(0, 4), (4, 1), (5, 1), (0, 4), (4, 3)]):
        chunks = [Chunk("p", 1, start, tuple(range(tokens)), 0, (0,), SamplingParams(), 0, True)]
        if step < 2:
            chunks.insert(0, Chunk("other", 0, 4 * step, (1,) * (4 - 3 * step), 0, (1,), SamplingParams(), 0, True))
        preempted = ("p",) if step == 3 else ()
        plan = StepPlan(tuple(chunks), preempted=preempted)
        recorder.record_plan(plan)
        recorder.record_step(plan, StepResult(((0,),) * len(chunks), 1.0), float(step), step + 1.0)
    recorder.record_outputs([RequestOutput("p", (0,) * 4, FinishReason.LENGTH)])
    return recorder.trace


def test_preemptions_and_the_tokens_they_cost_are_counted() -> None:
    trace = preempted_run()
    assert metrics.preemptions(trace) == 1
    assert metrics.recomputed_tokens(trace) == 6, "positions 0 to 5; position 6 is new"
    assert metrics.request_table(trace)["preemptions"].to_dict() == {"other": 0, "p": 1}


def test_a_pause_is_one_large_gap_between_tokens() -> None:
    recorder = TraceRecorder({"max_num_seqs": 1})
    recorder.add_request(request("a", 4, 3))
    for step, tokens in enumerate([1, 0, 0, 1, 1]):
        recorder.record_step(StepPlan(), StepResult((), 1.0), float(step), step + 1.0)
        recorder.record_outputs([RequestOutput("a", (0,) * tokens)])
    assert metrics.inter_token_latencies(recorder.trace).tolist() == [3.0, 1.0]


def test_a_run_without_preemption_computes_nothing_again() -> None:
    for scheduler in (StaticBatching(2, 64), ContinuousBatching(2, 64)):
        requests = [request(f"r{i}", 3 + i, 2 + i) for i in range(5)]
        trace = Engine(scheduler, ONE_SECOND_A_STEP).run(requests)
        assert (metrics.preemptions(trace), metrics.recomputed_tokens(trace)) == (0, 0)


def test_the_request_table_has_a_row_a_request() -> None:
    table = metrics.request_table(three_requests())
    assert table.index.tolist() == ["a", "b", "d", "c"]
    assert table.loc["c", ["arrival_s", "prompt_tokens", "output_tokens", "queue_s", "ttft_s", "e2e_s"]].tolist() == [
        0.5,
        3,
        2,
        0.5,
        1.5,
        2.5,
    ]
    assert table.loc["d", "finish_reason"] == "error"
    assert table.loc["d"].isna().sum() == 4


def test_the_step_table_has_a_row_a_step_and_adds_up_to_the_waste() -> None:
    trace = Engine(StaticBatching(2, 64), ONE_SECOND_A_STEP).run([request("a", 2, 1), request("b", 5, 3)])
    table = metrics.step_table(trace)
    assert table["sequences"].tolist() == [2, 1, 1]
    assert table["tokens"].tolist() == [7, 1, 1]
    assert table["padding"].tolist() == [3, 0, 0]
    assert table["straggler"].tolist() == [0, 1, 1]
    assert table["start_s"].tolist() == [0.0, 1.0, 2.0]
    assert table["seconds"].tolist() == [1.0, 1.0, 1.0]
    split = metrics.waste(trace)
    assert (table["tokens"].sum(), table["padding"].sum(), table["straggler"].sum()) == (
        split.useful,
        split.padding,
        split.straggler,
    )


def test_a_comparison_has_a_row_a_run_and_units_in_its_columns() -> None:
    trace = three_requests()
    table = metrics.compare({"one": trace, "two": trace}, SLO(ttft=1.0))
    assert table.index.tolist() == ["one", "two"]
    assert table.loc["one", "goodput (requests/s)"] == 0.5
    assert table.loc["one", "TPOT p50 (ms)"] == 1000.0
    assert table.loc["one", "output tokens/s"] == 7 / 4
    assert "goodput (requests/s)" not in metrics.compare({"one": trace})
    empty = Engine(StaticBatching(1, 8), ONE_SECOND_A_STEP).run([])
    assert metrics.compare({"empty": empty})["steps"].tolist() == [0]


@pytest.mark.parametrize("latency", ["queue", "ttft", "tpot", "e2e", "itl"])
def test_every_latency_has_a_picture_that_says_its_numbers(latency: str) -> None:
    picture = latency_cdf({"mine": three_requests()}, latency)
    assert picture.image.startswith(b"\x89PNG")
    assert "mine: median" in picture.alt


def test_pictures_of_runs_say_what_they_show() -> None:
    trace = three_requests()
    assert "a ends after 4 s; b ends after 4 s" in timeline({"a": trace, "b": trace}).alt
    assert "few: from 10 at 0.5 to 20 at 2" in frontier({"few": [(10, 0.5), (20, 2.0)]}).alt
    assert latency_cdf({"mine": trace}, "e2e", alt="Own words.").alt == "Own words."
    empty = Engine(StaticBatching(1, 8), ONE_SECOND_A_STEP).run([])
    assert "none" in latency_cdf({"empty": empty}, "ttft").alt
    with pytest.raises(ValueError, match="there is no latency 'tft'"):
        latency_cdf({}, "tft")
