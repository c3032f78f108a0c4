"""The engine loses nothing: not after errors, aborts, refusals or interrupts."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import CountingExecutor, DeviceLostError, mixed_requests, request

from lablib.clock import VirtualClock, WallClock
from lablib.engine import Engine
from lablib.executor import ConstantCost, SimulatedExecutor
from lablib.request import DEFAULT_MAX_TOKENS, FinishReason, Request, SamplingParams
from lablib.scheduler import ContinuousBatching, DynamicBatching, Scheduler, SchedulerStuck, StaticBatching
from lablib.step import StepPlan, StepResult
from lablib.trace import Trace


def static(batch_size: int = 4, max_model_len: int = 128, stream: bool = False) -> StaticBatching:
    return StaticBatching(batch_size, max_model_len, stream)


def test_the_same_run_gives_the_same_trace() -> None:
    hashes = {Engine(static(), SimulatedExecutor()).run(mixed_requests(11)).hash for _ in range(2)}
    assert len(hashes) == 1
    assert Engine(static(), SimulatedExecutor()).run(mixed_requests(11, seed=1)).hash not in hashes


def test_simulated_time_is_the_cost_models_sum() -> None:
    cost = ConstantCost(seconds_per_step=0.1, seconds_per_token=0.01)
    trace = Engine(static(2), SimulatedExecutor(cost)).run([request("a", 3, 2), request("b", 5, 1)])
    assert trace.step_times()[1].tolist() == pytest.approx([0.1 + 10 * 0.01, 0.2 + 12 * 0.01])


def test_a_failing_step_raises_and_nothing_is_lost() -> None:
    scheduler = static()
    engine = Engine(scheduler, CountingExecutor(fail_at=[0, 3]))
    requests = mixed_requests(4)
    for attempt in range(2):
        with pytest.raises(RuntimeError, match="the device is gone"):
            engine.run(requests if attempt == 0 else [])
    engine.run([])
    assert [r.output_token_ids for r in requests] == [
        [r.num_prompt_tokens + i for i in range(r.max_tokens)] for r in requests
    ]
    assert scheduler.kv.pool.num_used == 0
    assert Trace.from_dict(engine.trace.to_dict()).num_steps == engine.trace.num_steps


def test_an_interrupt_takes_effect_between_steps_and_leaves_a_whole_trace() -> None:
    class Interrupting(CountingExecutor):
        def execute(self, plan: StepPlan) -> StepResult:
            if self.num_calls == 2:
                signal.raise_signal(signal.SIGINT)
            return super().execute(plan)

    engine = Engine(static(stream=True), Interrupting())
    requests = mixed_requests(6)
    with pytest.raises(KeyboardInterrupt):
        engine.run(requests)
    assert engine.trace.num_steps == 3
    assert Trace.from_dict(engine.trace.to_dict()).hash == engine.trace.hash
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    engine.run([])
    assert all(r.num_output_tokens == r.max_tokens for r in requests)


def test_a_second_interrupt_does_not_wait_for_the_step() -> None:
    class Hanging(CountingExecutor):
        def execute(self, plan: StepPlan) -> StepResult:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second interrupt was held back")

    scheduler = static()
    with pytest.raises(KeyboardInterrupt):
        Engine(scheduler, Hanging()).run(mixed_requests(4))
    assert scheduler.kv.pool.num_used == 0, "the plan was rolled back"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (request("big", 120, 20), r"request big: 120 prompt \+ 20 output tokens exceed max_model_len=128"),
        (Request("huge", [1] * 200), r"request huge: 200 prompt \+ 1 output tokens exceed max_model_len=128"),
    ],
)
def test_a_request_that_can_never_fit_is_refused_by_name_and_the_others_are_served(
    asked: Request, message: str
) -> None:
    engine = Engine(static(), SimulatedExecutor())
    others = mixed_requests(5)
    trace = engine.run([others[0], asked, *others[1:]])
    assert trace.requests["finish_reason"].count("length") == 5
    row = trace.requests["id"].index(asked.request_id)
    assert trace.requests["finish_reason"][row] == "error"
    assert asked.finish_reason is FinishReason.ERROR
    again = Request(asked.request_id, asked.prompt_token_ids, replace(asked.sampling, max_tokens=asked.max_tokens))
    with pytest.raises(ValueError, match=message):
        Engine(static(), SimulatedExecutor()).add_request(again)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="request r0: the prompt is empty"):
        Request("r0", [])


@pytest.mark.parametrize(
    "fault", [{"max_tokens": 0}, {"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"top_k": -1}]
)
def test_sampling_parameters_outside_their_range_are_refused_by_name(fault: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(fault))):
        SamplingParams(**fault)  # type: ignore[arg-type]


def test_an_id_can_be_used_once() -> None:
    engine = Engine(static(), SimulatedExecutor())
    engine.add_request(request("a", 1, 1))
    with pytest.raises(ValueError, match="request a exists already"):
        engine.add_request(request("a", 1, 1))


def test_a_missing_max_tokens_gets_the_default_or_the_room_there_is() -> None:
    roomy, tight = Request("a", [1] * 8), Request("b", [1] * 100)
    engine = Engine(static(max_model_len=1000), SimulatedExecutor())
    engine.add_request(roomy)
    assert roomy.max_tokens == DEFAULT_MAX_TOKENS
    engine = Engine(static(max_model_len=110), SimulatedExecutor())
    engine.add_request(tight)
    assert tight.max_tokens == 10


def test_a_request_stops_at_the_models_end_of_sequence_token_unless_it_ignores_it() -> None:
    requests = [Request("stops", [1, 2, 3], SamplingParams(max_tokens=9)), request("goes on", 3, 9)]
    Engine(static(2), CountingExecutor(eos_token_ids=[5])).run(requests)
    assert requests[0].output_token_ids == [3, 4, 5]
    assert requests[0].finish_reason is FinishReason.STOP
    assert requests[1].output_token_ids == [3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_a_scheduler_that_plans_nothing_is_an_error_that_explains_itself() -> None:
    class Lazy(StaticBatching):
        def schedule(self, now: float) -> StepPlan:
            return StepPlan()

    with pytest.raises(SchedulerStuck, match="Lazy plans nothing for 2 waiting and 0 running requests"):
        Engine(Lazy(2, 64), SimulatedExecutor()).run(mixed_requests(2))


def test_a_cache_of_another_size_than_the_schedulers_is_refused() -> None:
    class Cached(CountingExecutor):
        num_blocks, block_size = 4, 16

    with pytest.raises(ValueError, match="manages 4 blocks of 128 tokens, the executor's KV cache has 4 of 16"):
        Engine(static(), Cached())


def test_generate_answers_in_the_order_of_the_prompts_and_can_be_called_again() -> None:
    engine = Engine(static(2), CountingExecutor())
    params = [SamplingParams(max_tokens=n) for n in (3, 1, 2)]
    answers = engine.generate([[9], [9, 9], [9, 9, 9]], params)
    assert [a.token_ids for a in answers] == [(1, 2, 3), (2,), (3, 4)]
    (refused,) = engine.generate([[9] * 500])
    assert refused.finish_reason is FinishReason.ERROR
    assert "exceed max_model_len" in refused.message
    assert engine.generate([[9]], SamplingParams(max_tokens=1))[0].token_ids == (1,)


def test_requests_arrive_in_time_order_and_waiting_costs_no_steps() -> None:
    requests = [request("late", 2, 2, arrival=5.0), request("early", 2, 2, arrival=1.0)]
    trace = Engine(static(1), SimulatedExecutor()).run(requests)
    assert trace.requests["id"] == ["early", "late"]
    starts, _ = trace.step_times()
    assert starts.tolist() == pytest.approx([1.0, 1.011, 5.0, 5.011])


def test_a_wall_clock_sleeps_and_a_virtual_clock_jumps() -> None:
    wall, virtual = WallClock(), VirtualClock()
    for clock in (wall, virtual):
        clock.wait_until(0.02)
        clock.wait_until(0.01)
        assert clock.now() >= 0.02
    virtual.advance(0.0000014)
    assert virtual.now() == 0.020001


def scheduler_of(kind: str, slots: int, stream: bool) -> Scheduler:
    """A scheduler for requests of at most 18 tokens."""
    if kind == "static":
        return StaticBatching(slots, 18, stream)
    if kind == "dynamic":
        return DynamicBatching(slots, 18, max_wait=0.05, stream=stream)
    if kind == "continuous":
        return ContinuousBatching(slots, 18, max_num_batched_tokens=max(12, slots))
    return ContinuousBatching(slots, 18, block_size=4, num_blocks=11)


@pytest.mark.parametrize("kind", ["static", "dynamic", "continuous", "few blocks"])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_whatever_comes_every_token_is_delivered_once_and_the_blocks_balance(kind: str, data: st.DataObject) -> None:
    batch_size = data.draw(st.integers(1, 5), label="batch size")
    shapes = data.draw(
        st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 30)), min_size=1, max_size=14)
    )
    stream = data.draw(st.booleans(), label="stream")
    aborts = data.draw(st.dictionaries(st.integers(0, 40), st.integers(0, 13), max_size=3), label="aborts")
    failures = data.draw(st.sets(st.integers(0, 40), max_size=3), label="failing steps")
    requests = [request(f"r{i}", p, o, arrival=a / 100) for i, (p, o, a) in enumerate(shapes)]
    scheduler = scheduler_of(kind, batch_size, stream)
    num_blocks = scheduler.kv.pool.num_blocks
    engine = Engine(scheduler, CountingExecutor(fail_at=sorted(failures)))
    delivered: dict[str, list[int]] = {r.request_id: [] for r in requests}
    for each in requests:
        engine.add_request(each)
    scheduler.close()
    for turn in range(2000):
        if not scheduler.has_work():
            break
        outputs = engine.abort(f"r{aborts[turn]}") if turn in aborts else []
        with contextlib.suppress(DeviceLostError):
            outputs += engine.step()
        for output in outputs:
            delivered[output.request_id].extend(output.token_ids)
        assert len(scheduler.running) <= batch_size
        held = [block for r in requests for block in scheduler.kv.block_table(r.request_id)]
        assert len(held) == len(set(held)) == scheduler.kv.pool.num_used == num_blocks - scheduler.kv.pool.num_free
        assert {r.request_id for r in requests if scheduler.kv.block_table(r.request_id)} == set(scheduler.running)
    assert not scheduler.has_work()
    assert scheduler.kv.pool.num_used == 0
    for each in requests:
        expected = [each.num_prompt_tokens + i for i in range(each.num_output_tokens)]
        assert delivered[each.request_id] == each.output_token_ids == expected
        assert each.finish_reason is FinishReason.ABORT or each.num_output_tokens == each.max_tokens
    firsts = {}
    for plan in engine.executor.plans:  # type: ignore[attr-defined]
        assert len({chunk.slot for chunk in plan.chunks}) == len(plan.chunks) <= batch_size
        assert kind != "continuous" or plan.num_tokens <= max(12, batch_size)
        for chunk in plan.chunks:
            firsts.setdefault(chunk.request_id, len(firsts))
    order = [int(name[1:]) for name in firsts]
    assert order == sorted(order), "first come, first served"
