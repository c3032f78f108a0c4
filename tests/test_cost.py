"""Cost models: what they count, that they follow the roofline, and that a fit finds the truth."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from lablib.engine import Engine
from lablib.executor import DEVICES, ConstantCost, LinearCost, RooflineCost, SimulatedExecutor, fit, preset
from lablib.executor.cost import SHAPES
from lablib.executor.model import ModelExecutor
from lablib.executor.work import StepWork, work_in, work_of
from lablib.model import load_model, toy_model
from lablib.request import SamplingParams
from lablib.roofline import MODELS
from lablib.scheduler import ContinuousBatching, Scheduler, StaticBatching
from lablib.step import Chunk, StepPlan, StepResult
from lablib.trace import Trace
from lablib.workload import Fixed, LogNormal, Poisson, Uniform, Workload, load, synthetic


def chunk(name: str, start: int, tokens: int, padding: int = 0, sample: bool = True) -> Chunk:
    return Chunk(name, 0, start, tuple(range(tokens)), padding, (0,), SamplingParams(), 0, sample)


def test_the_work_of_a_step_is_counted_as_by_hand() -> None:
    plan = StepPlan(chunks=(chunk("prompt", 0, 3, padding=1), chunk("decode", 9, 1), chunk("part", 4, 2, sample=False)))
    # pairs: the prompt's queries see 1, 2 and 3 keys, its padding 3; the decode sees 10; the part 5 and 6
    assert work_of(plan) == StepWork(positions=7, sequences=3, samples=2, context=3 + 10 + 6, pairs=9 + 10 + 11)


class Remembering(SimulatedExecutor):
    def __init__(self) -> None:
        super().__init__()
        self.works: list[StepWork] = []

    def execute(self, plan: StepPlan) -> StepResult:
        self.works.append(work_of(plan))
        return super().execute(plan)


@pytest.mark.parametrize("scheduler", [StaticBatching(4, 64), ContinuousBatching(4, 64)])
def test_a_trace_knows_the_work_of_every_step(scheduler: Scheduler) -> None:
    workload = synthetic("mix", 30, Poisson(50.0), Uniform(1, 30), Uniform(1, 30))
    executor = Remembering()
    trace = Engine(scheduler, executor).run(workload)
    assert work_in(trace).tolist() == [list(work) for work in executor.works]


# Roofline


def seconds(cost: RooflineCost, batch: int, context: int = 500) -> float:
    return cost.seconds_for(StepWork(batch, batch, batch, batch * context, batch * context))


@pytest.mark.parametrize("model", SHAPES)
@pytest.mark.parametrize("device", DEVICES)
def test_a_decode_step_is_never_faster_than_the_peaks_allow(device: str, model: str) -> None:
    cost = preset(device, model)
    shape = cost.model
    for batch in (1, 64):
        weights = (shape.layer_weights + shape.head_weights) * 2 / cost.machine.bandwidth
        kv = batch * 500 * cost.kv_bytes_per_token / cost.machine.bandwidth
        products = 2 * batch * (shape.layer_weights + shape.head_weights) / cost.machine.flops
        assert seconds(cost, batch) > max(weights + kv, products)
    assert "model, not measurement" in cost.describe()


def test_small_batches_share_the_weights_and_large_ones_pay_for_the_operations() -> None:
    cost = preset("h100", "Llama-3-8B")
    assert seconds(cost, 8, context=1) < 1.05 * seconds(cost, 1, context=1)
    large = [seconds(cost, batch, context=1) for batch in (2000, 4000)]
    assert large[1] / large[0] == pytest.approx(2, rel=0.1)


def test_only_positions_that_sample_pay_for_the_output_head() -> None:
    cost = preset("h100", "smollm2-135m")
    prompt, all_sampled = (cost.seconds_for(StepWork(20_000, 1, samples, 0, 0)) for samples in (1, 20_000))
    share = cost.model.head_weights / (cost.model.head_weights + cost.model.layer_weights)
    assert 1 - prompt / all_sampled == pytest.approx(share, abs=0.06)


def test_long_contexts_cost_bandwidth() -> None:
    cost = preset("a100", "llama-3-8b")
    slower = seconds(cost, 32, 4000) - seconds(cost, 32, 2000)
    assert slower == pytest.approx(32 * 2000 * 131_072 / (2039e9 * 0.8), rel=1e-6)


def test_a_faster_memory_makes_decoding_faster_and_prefill_not() -> None:
    h100, h200 = preset("h100", "llama-3-8b"), preset("h200", "llama-3-8b")
    assert seconds(h200, 16) < 0.8 * seconds(h100, 16)
    prefill = StepWork(8000, 1, 1, 8000, 8000 * 4000)
    assert h200.seconds_for(prefill) == pytest.approx(h100.seconds_for(prefill), rel=1e-3)


def test_an_unknown_device_or_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no device 'h300'; there are cpu-2core, t4, a100, h100, h200"):
        preset("h300", "llama-3-8b")
    with pytest.raises(ValueError, match="no model 'gpt'; there are smollm2-135m"):
        preset("t4", "gpt")


def test_the_default_models_shape_is_its_checkpoints() -> None:
    shape = MODELS["SmolLM2-135M"]
    attention = 576 * 64 * (9 + 2 * 3 + 9)
    assert shape.num_weights == 30 * (attention + 3 * 576 * 1536 + 2 * 576) + 49_152 * 576 + 576
    assert shape.layer_weights == shape.num_weights - shape.head_weights
    assert MODELS["Llama-3-8B"].layer_weights == 8_030_261_248 - 2 * 128_256 * 4096


# Fit

TRUTH = LinearCost(0.012, (4e-4, 2e-4, 1e-4, 1e-6, 0.0))


class Noisy(SimulatedExecutor):
    """A machine that costs ``TRUTH``, give or take; one step in twenty is disturbed, the first step is slow."""

    def __init__(self, noise: float) -> None:
        super().__init__(TRUTH)
        self.rng, self.noise, self.first = random.Random(0), noise, True

    def execute(self, plan: StepPlan) -> StepResult:
        result = super().execute(plan)
        disturbed = self.noise > 0 and self.rng.random() < 0.05
        factor = 1 + self.noise * self.rng.uniform(-1, 1) + 3 * disturbed + 9 * self.first
        self.first = False
        return replace(result, seconds=result.seconds * factor)


def mixed_run(executor: SimulatedExecutor, seed: int) -> Trace:
    workload = synthetic("mix", 40, Poisson(10.0), LogNormal(60, 0.8), LogNormal(30, 0.8), seed)
    return Engine(ContinuousBatching(8, workload.max_model_len), executor).run(workload)


def test_a_fit_finds_what_the_machine_costs() -> None:
    cost, error = fit(mixed_run(Noisy(noise=0.0), seed=0))
    other = mixed_run(Noisy(noise=0.0), seed=1)
    assert error < 0.001
    assert cost.error(other) < 0.001
    assert cost.predict(other)[1:] == pytest.approx(other.step_times()[1][1:] - other.step_times()[0][1:], rel=0.01)


def test_a_fit_sees_through_disturbed_steps_and_reports_its_error() -> None:
    cost, error = fit(mixed_run(Noisy(noise=0.1), seed=0))
    assert 0.03 < error < 0.15, "the noise itself, and the disturbed steps"
    assert cost.error(mixed_run(Noisy(noise=0.0), seed=1)) < 0.03
    assert min(cost.per_step, *cost.per) >= 0
    assert "not measurement" in cost.describe()


def test_a_fitted_model_serves_the_simulator() -> None:
    cost, _ = fit(mixed_run(Noisy(noise=0.0), seed=0))
    plan = StepPlan(chunks=(chunk("a", 0, 50), chunk("b", 70, 1)))
    assert cost.seconds(plan) == pytest.approx(TRUTH.seconds(plan), rel=0.02)


def test_too_short_a_run_can_not_be_fitted() -> None:
    trace = Engine(StaticBatching(1, 9), SimulatedExecutor(ConstantCost())).run(
        synthetic("short", 1, Poisson(1), Fixed(4), Fixed(5))
    )
    with pytest.raises(ValueError, match="at least 20 steps after the first, the trace has 4"):
        fit(trace)


def real_run(model: object, workload: Workload, slots: int) -> Trace:
    executor = ModelExecutor(model, slots, workload.max_model_len)
    return Engine(ContinuousBatching(slots, workload.max_model_len), executor).run(workload)


def test_the_toy_model_can_be_fitted() -> None:
    workload = synthetic("toy", 12, Poisson(100.0), Uniform(3, 20), Uniform(5, 20))
    cost, error = fit(real_run(toy_model(seed=0), workload, 4))
    assert np.isfinite(error)
    assert cost.seconds(StepPlan(chunks=(chunk("a", 0, 5),))) > 0


@pytest.mark.model
@pytest.mark.alone
def test_a_fit_on_one_real_run_predicts_another() -> None:
    """Within 10%, and by what its own steps differ when it is repeated; the best of three tries counts."""
    model = load_model()
    items = [replace(item, output_tokens=item.output_tokens // 3) for item in load("mixed32").encoded(model).items]
    one, other = (replace(load("mixed32"), items=tuple(items[k::4])) for k in (0, 1))
    excess: list[float] = []
    while len(excess) < 3 and min(excess, default=1.0) > 0.1:
        first, again, another = (real_run(model, workload, 4) for workload in (one, one, other))
        cost, _ = fit(first)
        noise = np.mean(np.abs(durations(again) / durations(first) - 1))
        excess.append(cost.error(another) - float(noise))
    assert min(excess) <= 0.1, excess


def durations(trace: Trace) -> np.ndarray:
    """Of every step but the first, in microseconds."""
    return trace.column("steps", "duration_us")[1:].astype(float)
