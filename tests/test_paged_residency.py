"""How many requests a pool holds: the published numbers, in simulation.

Kwon et al., PagedAttention (SOSP 2023): a 13B model on 40 GB has 15,700 token slots. A system that reserves the model's
maximum of 2,048 for everybody holds 7 requests; blocks on demand hold several times as many.
"""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from lablib import metrics
from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.scheduler import ContinuousBatching
from lablib.scheduler.policies import Admission, ReserveMaxTokens, ReserveModelMax, ReservePrompt
from lablib.trace import Trace
from lablib.workload import AllAtOnce, LogNormal, Poisson, Workload, synthetic

TOKEN_SLOTS, MAX_MODEL_LEN = 15_700, 2048
EQUAL_STEPS = SimulatedExecutor(ConstantCost(seconds_per_step=0.01, seconds_per_token=0.0))


def serve(workload: Workload, block_size: int, admission: Admission, slots: int = 256) -> Trace:
    scheduler = ContinuousBatching(
        slots, MAX_MODEL_LEN, block_size=block_size, num_blocks=TOKEN_SLOTS // block_size, admission=admission
    )
    return Engine(scheduler, EQUAL_STEPS).run(workload)


def while_others_wait(trace: Trace) -> slice:
    """The steps from the first in which somebody waits to the last admission: the queue is never empty."""
    admitted = trace.column("events", "step")[trace.column("events", "kind") == 0]
    return slice(int(trace.column("waits", "step")[0]), int(admitted.max()))


@pytest.mark.parametrize("block_size", [2048, 256, 16, 1])
def test_a_reservation_of_2048_holds_exactly_7_requests_in_15700_token_slots(block_size: int) -> None:
    workload = synthetic("chat", 60, AllAtOnce(), LogNormal(161, 0.5), LogNormal(338, 0.7, longest=1000))
    trace = serve(workload, block_size, ReserveModelMax())
    assert trace.requests["finish_reason"] == ["length"] * 60
    assert set(metrics.kv_memory(trace).residents[while_others_wait(trace)].tolist()) == {7}


@pytest.mark.parametrize("cv", [0.3, 1.0, 1.5])
def test_on_demand_the_number_resident_is_what_length_biased_residency_predicts(cv: float) -> None:
    """N = S / (E[p] + E[o²] / (2 E[o])), within 10%, with lengths whose means and CV are those that were drawn.

    S is what is in use on average, whole blocks, measured in the same run; and, predicted before any run, the share of
    the pool that admission may fill. The two agree: the queue is never empty, so admission fills its share at once.
    The rest, the watermark, is room to grow into: without preemption nobody may find the pool full, and at that moment
    all who run may be growing. Requests arrive one by one, a little faster than they are served: thousands that start
    together would also grow together. Half of each request's last block is empty, which makes N a little smaller.
    """
    watermark, block_size, mean_output = 0.2, 8, 100
    fillable = (1 - watermark) * TOKEN_SLOTS
    rate = 1.3 * metrics.expected_residents(fillable, 40, mean_output, cv) / mean_output / 0.01
    outputs = LogNormal(mean_output, cv, longest=1900)
    workload = synthetic("chat", 2000, Poisson(rate), LogNormal(40, 0.5, longest=140), outputs, seed=1)
    prompt_tokens, output_tokens = zip(*((i.prompt_tokens, i.output_tokens) for i in workload.items), strict=True)
    drawn_cv = statistics.pstdev(output_tokens) / statistics.mean(output_tokens)
    lengths = (statistics.mean(prompt_tokens), statistics.mean(output_tokens), drawn_cv)
    assert drawn_cv == pytest.approx(cv, rel=0.1)

    trace = serve(workload, block_size, ReservePrompt(watermark))
    memory, steady = metrics.kv_memory(trace), while_others_wait(trace)
    assert trace.requests["finish_reason"] == ["length"] * 2000
    resident = float(np.mean(memory.residents[steady]))
    in_use = float(np.mean(memory.capacity - memory.free[steady]))
    assert resident < 256, "the pool is the limit, not the slots"
    assert resident == pytest.approx(metrics.expected_residents(in_use, *lengths), rel=0.1)
    assert resident == pytest.approx(metrics.expected_residents(fillable, *lengths), rel=0.1)


def test_each_rule_that_reserves_less_holds_more() -> None:
    workload = synthetic("chat", 300, Poisson(40), LogNormal(80, 0.5), LogNormal(200, 1, longest=1500), seed=1)
    rules = (ReserveModelMax(), ReserveMaxTokens(), ReservePrompt(watermark=0.3))
    means = [metrics.kv_memory(serve(workload, 16, rule)).means() for rule in rules]
    residents = [mean["residents"] for mean in means]
    assert residents == sorted(residents)
    assert residents[0] < 7 < residents[1] / 2
    assert means[0]["internal"] > 0.5, "most of what is reserved for the longest is never written"
    assert means[1]["reserved"] > means[2]["reserved"]


def test_equal_outputs_are_met_halfway_and_spread_makes_fewer_fit() -> None:
    assert metrics.expected_residents(1000, prompt_mean=50, output_mean=100, output_cv=0) == 1000 / (50 + 50)
    assert metrics.expected_residents(1000, prompt_mean=50, output_mean=100, output_cv=1) == 1000 / (50 + 100)
