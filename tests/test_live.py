"""The live engine on an event loop of our own, without a browser: what it promises to whoever types and turns knobs."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import traitlets
from runs import DeviceLostError

from lablib.engine import Engine
from lablib.executor.model import ModelExecutor
from lablib.live import LiveEngine, widget
from lablib.model import LanguageModel, toy_model
from lablib.model.toy import BOS
from lablib.request import Request, SamplingParams
from lablib.scheduler import ContinuousBatching
from lablib.trace import check_trace
from lablib.viz import StepPlayer

PATIENCE = 120.0  # seconds: a guard against hanging
PROMPTS = ["one", "two words", "a third and longer one"]


def make(model: LanguageModel, **limits: Any) -> LiveEngine:
    return LiveEngine(model, **({"max_num_seqs": 3, "max_model_len": 128, "prompts": PROMPTS} | limits))


class Live:
    """A live engine, and all that it sent, by which thread and when."""

    def __init__(self, model: LanguageModel, **limits: Any) -> None:
        self.engine = make(model, **limits)
        self.sent: list[dict[str, Any]] = []
        self.threads: set[int] = set()
        self.times: list[float] = []
        self.engine.send = self._send  # type: ignore[method-assign]

    def _send(self, content: dict[str, Any], buffers: object = None) -> None:
        self.sent.append(json.loads(json.dumps(content)))
        self.threads.add(threading.get_ident())
        self.times.append(asyncio.get_running_loop().time())

    @property
    def scheduler(self) -> Any:
        return self.engine._engine.scheduler

    @property
    def message(self) -> str:
        return next((each["message"] for each in reversed(self.sent) if "message" in each), "")

    def ask(self, action: str, **details: Any) -> None:
        """What a browser sends."""
        self.engine._from_browser(self.engine, {"do": action, **details}, [])

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.002)

    async def rest(self) -> None:
        """Until nobody has anything to do, and the last message has left."""
        await self.until(lambda: not self.engine._steps.running)
        await asyncio.sleep(0.12)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return toy_model()


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    for engine in list(widget._OPEN.values()):
        engine.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lablib-live")]


def run(model: LanguageModel, play: Callable[[Live], Any], **limits: Any) -> Live:
    """Play with a live engine on a fresh loop, then close it."""

    async def on_loop() -> Live:
        live = Live(model, **limits)
        await play(live)
        live.engine.close()
        await asyncio.sleep(0)
        return live

    return asyncio.run(on_loop())


def test_every_request_gets_the_tokens_of_a_plain_engine(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.engine.send_prompts(4)
        live.engine.start()
        await live.until(lambda: live.scheduler.running)
        live.engine.send_prompts(5)
        live.engine.submit("typed in between", max_tokens=9, temperature=0.8)
        await live.rest()

    trace = run(model, play).engine.trace
    assert set(trace.requests["finish_reason"]) <= {"length", "stop"}
    columns = (trace.requests[name] for name in ("id", "prompt_text", "max_tokens"))
    requests = []
    for name, text, most in zip(*columns, strict=True):
        sampling = SamplingParams(max_tokens=most, temperature=0.8 if "typed" in text else 0.0)
        requests.append(Request(name, [BOS, *model.encode(text)], sampling))
    plain = Engine(ContinuousBatching(3, 128), ModelExecutor(toy_model(), 3, 128)).run(requests)
    assert trace.requests["output"] == plain.requests["output"]


def test_nothing_is_computed_before_somebody_looks(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.engine.submit("hello")
        await asyncio.sleep(0.1)
        assert live.engine.trace.num_steps == 0
        assert not live.engine._steps.running
        live.ask("open", view="a")
        await live.rest()
        assert live.engine.trace.num_steps > 0

    run(model, play)


def test_a_lower_limit_admits_nobody_and_evicts_nobody(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.engine.pause()
        live.engine.start()
        for _ in range(6):
            live.engine.submit("x", max_tokens=30)
        for _ in range(3):
            live.engine.step_once()
            await live.until(lambda: not live.engine._steps.running)
        seated = {r.request_id: r.slot for r in live.scheduler.running.values()}
        assert len(seated) == 3
        live.engine.max_num_seqs = 1
        most = 0
        while live.scheduler.has_work():
            done = {r for r in seated if r not in live.scheduler.running}
            live.engine.step_once()
            await live.until(lambda: not live.engine._steps.running)
            running = live.scheduler.running
            for name in set(seated) - done:
                assert name not in running or running[name].slot == seated[name]
            if len(done) == 3:
                most = max(most, len(running))
        assert most == 1

    trace = run(model, play).engine.trace
    assert "preempted" not in trace.reasons
    assert set(trace.requests["finish_reason"]) <= {"length", "stop"}


def test_a_budget_too_small_for_the_next_prompt_says_so_and_waits(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.engine.pause()
        live.engine.start()
        live.engine.submit("a prompt that is rather long", max_tokens=4)
        live.engine.max_num_batched_tokens = 1
        assert live.engine.max_num_batched_tokens == 3  # never fewer than the slots
        live.engine.resume()
        await live.rest()
        assert "r0 must compute" in live.message
        assert "token budget is 3: raise the budget, or abort r0" in live.message
        live.engine.max_num_batched_tokens = 100
        await live.rest()
        assert not live.scheduler.has_work()

    run(model, play)


def test_knobs_stop_at_the_ends_of_their_range(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.engine.max_num_seqs, live.engine.max_tokens, live.engine.temperature = 99, 0, -1.0
        assert (live.engine.max_num_seqs, live.engine.max_tokens, live.engine.temperature) == (3, 1, 0)

    run(model, play)


def test_pause_holds_the_engine_and_a_step_is_one_step(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.engine.start()
        live.engine.submit("x", max_tokens=50)
        await live.until(lambda: live.engine._engine.trace.num_steps >= 3)
        live.engine.pause()
        await live.rest()
        held = live.engine._engine.trace.num_steps
        await asyncio.sleep(0.05)
        assert live.engine._engine.trace.num_steps == held
        live.engine.step_once()
        await live.rest()
        assert live.engine._engine.trace.num_steps == held + 1
        live.engine.resume()
        await live.rest()
        assert not live.scheduler.has_work()

    run(model, play)


def test_an_abort_ends_waiting_and_running_requests_and_frees_what_they_held(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.engine.start()
        for _ in range(5):
            live.engine.submit("x", max_tokens=100)
        await live.until(lambda: live.engine._engine.trace.num_steps >= 3)
        for name in ("r0", "r4", "r0", "nobody"):
            live.ask("abort", id=name)
        await live.rest()
        assert live.scheduler.kv.pool.num_free == 3

    trace = run(model, play).engine.trace
    assert [trace.requests["finish_reason"][i] for i in (0, 4)] == ["abort", "abort"]
    assert "abort" not in trace.requests["finish_reason"][1:4]
    check_trace(trace.to_dict())
    ends = trace.column("runs", "step") + trace.column("runs", "count") - 1
    assert max(ends[trace.column("runs", "request") == 0]) <= trace.requests["finish_step"][0]


def test_a_prompt_that_never_fits_is_refused_by_name_and_the_others_go_on(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.ask("open", view="a")
        live.ask("submit", text="x" * 200)
        live.ask("submit", text="fits")
        await live.rest()
        assert "request r0" in live.message
        assert "max_model_len=128" in live.message
        assert "lower max_tokens" in live.message

    assert run(model, play).engine.trace.requests["finish_reason"][0] == "error"


@pytest.mark.parametrize("step", [0, 5])
def test_a_step_that_fails_once_is_tried_again_and_loses_no_token(model: LanguageModel, step: int) -> None:
    failing = Failing(times=1, first=step)

    async def play(live: Live) -> None:
        failing.wrap(live.engine._executor)
        live.engine.submit("x", max_tokens=12)
        live.engine.start()
        await live.rest()
        assert f"Step {step} with r0 failed: DeviceLostError: the device is gone." in live.message

    trace = run(model, play).engine.trace
    assert (trace.requests["finish_reason"], len(trace.requests["output"][0])) == (["length"], 12)
    assert np.isfinite(trace.milestones()["scheduled"]).all()


def test_a_step_that_keeps_failing_pauses_and_can_be_retried(model: LanguageModel) -> None:
    failing = Failing(times=2 * 3)  # two tries of both together, and of each alone: the device is gone

    async def play(live: Live) -> None:
        failing.wrap(live.engine._executor)
        live.engine.submit("x", max_tokens=12)
        live.engine.submit("y", max_tokens=12)
        live.engine.start()
        await live.rest()
        assert live.engine.paused
        assert "Paused after 2 tries: abort a request, or press play to retry." in live.message
        live.engine.resume()
        await live.rest()
        assert not live.scheduler.has_work()

    assert run(model, play).engine.trace.requests["finish_reason"] == ["length", "length"]


def test_a_request_that_cannot_be_computed_ends_and_the_others_go_on(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        executor = live.engine._executor
        honest = executor.execute

        def execute(plan: Any) -> Any:
            if any(chunk.request_id == "r1" for chunk in plan.chunks):
                raise DeviceLostError("nobody can compute r1")
            return honest(plan)

        executor.execute = execute  # type: ignore[method-assign]
        for text in ("x", "y", "z"):
            live.engine.submit(text, max_tokens=12)
        live.engine.start()
        await live.rest()
        assert (
            live.message
            == "r1 could not be computed and ended: DeviceLostError: nobody can compute r1. The others go on."
        )

    trace = run(model, play).engine.trace
    assert trace.requests["finish_reason"] == ["length", "error", "length"]
    assert "nobody can compute r1" in trace.requests["message"][1]


@pytest.mark.parametrize("wish", [{"max_tokens": math.nan}, {"max_tokens": 2.5}, {"temperature": math.nan}])
def test_a_parameter_that_is_no_number_is_refused_by_name_and_the_loop_lives_on(
    model: LanguageModel, wish: dict[str, Any]
) -> None:
    async def play(live: Live) -> None:
        live.engine.start()
        with pytest.raises((TypeError, ValueError), match=next(iter(wish))):
            live.engine.submit("x", **wish)
        with pytest.raises(ValueError, match="arrival_time must be finite"):
            live.engine._engine.add_request(Request("late", [1], arrival_time=math.nan))
        live.engine.submit("y", max_tokens=3)
        await live.rest()

    assert run(model, play).engine.trace.requests["finish_reason"] == ["error", "length"]


def test_a_knob_takes_no_nan(model: LanguageModel) -> None:
    engine = make(model)
    with pytest.raises(traitlets.TraitError, match="temperature must be a number from 0 to 2, got nan"):
        engine.temperature = math.nan


class Failing:
    """Makes an executor raise at its ``first`` step, counted from 0, so many times."""

    def __init__(self, times: int, first: int = 5) -> None:
        self.times = times
        self.first = first
        self.calls = 0

    def wrap(self, executor: ModelExecutor) -> None:
        honest = executor.execute

        def execute(plan: Any) -> Any:
            self.calls += 1
            if self.calls > self.first and self.times:
                self.times -= 1
                raise DeviceLostError("the device is gone")
            return honest(plan)

        executor.execute = execute  # type: ignore[method-assign]


def test_only_the_forward_pass_leaves_the_loops_thread(model: LanguageModel) -> None:
    computing: set[int] = set()
    planning: set[int] = set()

    def note(function: Callable[..., Any], threads: set[int]) -> Callable[..., Any]:
        def noted(argument: Any) -> Any:
            threads.add(threading.get_ident())
            return function(argument)

        return noted

    async def play(live: Live) -> None:
        live.engine._executor.execute = note(live.engine._executor.execute, computing)  # type: ignore[method-assign]
        live.scheduler.add = note(live.scheduler.add, planning)
        live.engine.start()
        # a kernel's subshell delivers what the browser says in a thread of its own
        other = threading.Thread(target=lambda: [live.ask("send", count=4), live.ask("abort", id="r1")])
        other.start()
        other.join()
        await live.until(lambda: live.engine._engine.trace.num_requests == 4)
        await live.rest()
        assert live.threads == planning == {threading.get_ident()}

    run(model, play)
    assert len(computing) == 1
    assert threading.get_ident() not in computing


def test_messages_are_few_and_stop_when_nothing_happens(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.ask("open", view="a")
        for _ in range(4):
            live.engine.send_prompts(20)
            await asyncio.sleep(0.1)
        await live.rest()
        num_sent, elapsed = len(live.sent), live.times[-1] - live.times[0]
        assert num_sent <= 20 * elapsed + 3
        live.engine.resume()
        await asyncio.sleep(0.2)
        assert len(live.sent) == num_sent

    run(model, play)


def test_a_view_that_opens_later_shows_the_same(model: LanguageModel) -> None:
    def merged(messages: list[dict[str, Any]]) -> dict[str, Any]:
        state: dict[str, Any] = {"cards": {}}
        for message in messages:
            for name, card in message.get("cards", {}).items():
                state["cards"][name] = {"text": "", **card}
            for name, text in message.get("text", {}).items():
                state["cards"][name]["text"] += text
            for name, outcome in message.get("ended", {}).items():
                state["cards"][name]["ended"] = outcome
            state |= {k: v for k, v in message.items() if k not in ("cards", "text", "ended", "now", "whole")}
        seen = {*state["finished"], *state["queue"], *(seat[0] for seat in state["slots"] if seat)}
        return state | {"cards": {name: state["cards"][name] for name in seen}}

    async def play(live: Live) -> None:
        live.ask("open", view="a")
        live.engine.send_prompts(9)
        await live.until(lambda: len(live.engine.stage.board.finished) > 1)
        live.engine.pause()
        await live.rest()
        before = len(live.sent)
        live.ask("open", view="b")
        whole = live.sent[before]
        assert whole["whole"]
        assert merged(live.sent[:before]) == merged([whole])

    run(model, play)


def test_without_a_view_it_pauses_and_the_next_view_wakes_it(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.ask("open", view="a")
        live.ask("open", view="b")
        live.engine.submit("x", max_tokens=60)
        live.ask("gone", view="a")
        assert not live.engine.paused
        live.ask("gone", view="b")
        await live.rest()
        assert live.engine.paused
        assert live.scheduler.has_work()
        live.ask("open", view="c")
        await live.rest()
        assert not live.scheduler.has_work()

    run(model, play)


def test_close_takes_the_running_step_in_and_leaves_a_trace_that_plays(model: LanguageModel) -> None:
    release = threading.Event()

    async def play(live: Live) -> None:
        honest = live.engine._executor.execute

        def execute(plan: Any) -> Any:
            release.wait(0.2)
            return honest(plan)

        live.engine._executor.execute = execute  # type: ignore[method-assign]
        live.engine.start()
        live.engine.submit("x", max_tokens=60)
        await live.until(lambda: live.engine._steps._flight is not None)
        live.engine.close()
        live.engine.close()
        await live.until(lambda: not live.engine._steps.running)

    live = run(model, play)
    trace = live.engine.trace
    check_trace(trace.to_dict())
    assert (trace.num_steps, trace.requests["finish_reason"]) == (1, ["abort"])
    assert StepPlayer(trace).step == 0
    with pytest.raises(RuntimeError, match="closed; run its cell again"):
        live.engine.submit("x")


def test_reset_forgets_everything_but_the_knobs(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        live.ask("open", view="a")
        live.engine.max_num_seqs = 2
        live.engine.send_prompts(9)
        await live.until(lambda: live.engine._steps._flight is not None)
        live.ask("reset")
        await live.rest()
        assert (live.engine.trace.num_requests, live.scheduler.kv.pool.num_free) == (0, 3)
        assert live.scheduler.num_open_slots == 2
        assert [each for each in live.sent if each.get("whole")][-1]["cards"] == {}
        assert live.engine.submit("again", max_tokens=3) == "r0"
        await live.rest()
        assert not live.scheduler.has_work()

    run(model, play)


def test_an_engine_of_the_same_name_closes_the_former(model: LanguageModel) -> None:
    async def play(live: Live) -> None:
        again, other = make(model), make(model, name="another")
        assert (live.engine.closed, again.closed, other.closed) == (True, False, False)

    run(model, play)


def test_another_engine_of_the_same_model_is_not_disturbed(model: LanguageModel) -> None:
    cache = ModelExecutor(model, 2, 64).model.backend.cache  # type: ignore[attr-defined]

    async def play(live: Live) -> None:
        live.engine.start()
        live.engine.send_prompts(3)
        await live.rest()

    run(model, play)
    assert not cache.any()


def test_displayed_by_a_program_it_gives_the_same_two_outputs_and_starts_nothing(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr("lablib.live.widget.display", lambda bundle, raw: outputs.append(bundle))

    async def play(live: Live) -> None:
        live.engine._ipython_display_()
        live.engine._ipython_display_()
        await asyncio.sleep(0.05)
        assert not live.engine._steps.running

    run(model, play)
    assert outputs[:2] == outputs[2:]
    assert outputs[0]["text/plain"] == "LiveEngine: 3 slots of 128 tokens, toy-0, float64 on cpu"
    assert "0x" not in outputs[1]["text/plain"]
    assert len(outputs[0]["image/png"]) < 60_000


def test_a_script_without_an_event_loop_is_told_what_to_use(model: LanguageModel) -> None:
    live = make(model)
    live.submit("x")
    with pytest.raises(RuntimeError, match=r"in a script use Engine.run\(\)"):
        live.start()


def test_limits_and_prompts_that_can_not_work_are_refused(model: LanguageModel) -> None:
    with pytest.raises(ValueError, match="max_num_batched_tokens=2 is less than max_num_seqs=8"):
        LiveEngine(model, max_model_len=64, max_num_batched_tokens=2)
    with pytest.raises(ValueError, match="`prompts` is empty"):
        LiveEngine(model, prompts=[])
    live = LiveEngine(model, max_model_len=64, prompts=["x" * 100])
    with pytest.raises(ValueError, match="none of 1 prompts has at most 72 tokens"):
        live.send_prompts()
