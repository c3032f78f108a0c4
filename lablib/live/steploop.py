"""Steps an engine on an event loop; only the forward pass leaves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from lablib.engine import Engine
from lablib.live.interrupts import Interrupts
from lablib.request import RequestOutput
from lablib.step import StepPlan, StepResult

MOST_FAILURES = 2  # of steps in a row, before somebody has to look


class Listener(Protocol):
    """Is told, on the event loop, what has happened."""

    def planned(self, plan: StepPlan) -> None: ...
    def stepped(self, result: StepResult, outputs: list[RequestOutput]) -> None: ...
    def failed(self, outputs: list[RequestOutput]) -> None: ...
    def rested(self) -> None: ...
    def say(self, message: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Flight:
    """A step that a worker thread computes."""

    plan: StepPlan
    start: float
    future: Future[StepResult]


class StepLoop:
    """Runs an engine for as long as it has work; without work there is no task, and the kernel is idle.

    One worker thread computes ``executor.execute(plan)`` and touches nothing else. All other methods belong to the
    event loop's thread.

    Args:
        engine: can be replaced between steps.
        listener: is told what happens.
    """

    def __init__(self, engine: Engine, listener: Listener) -> None:
        self.engine = engine
        self.paused = False
        self.closed = False
        self.loop = running_loop()
        self.started = False
        self._listener = listener
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lablib-live")
        self._interrupts = Interrupts(lambda: self.call(self._interrupted))
        self._task: asyncio.Task[None] | None = None
        self._flight: Flight | None = None
        self._later: list[Callable[[], None]] = []
        self._single_steps = 0
        self._failures = 0

    @property
    def running(self) -> bool:
        """Whether steps are being computed."""
        return self._task is not None

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the event loop's thread: at once when that is ours, else soon.

        JupyterLab delivers a widget's messages in another thread (a kernel's subshell).
        """
        if self.loop is None or running_loop() is self.loop:
            function()
        else:
            self.loop.call_soon_threadsafe(function)

    def start(self) -> None:
        """Begin, or go on, to serve.

        Raises:
            RuntimeError: there is no event loop here.
        """
        self.loop = running_loop()
        if self.loop is None:
            raise RuntimeError("a LiveEngine needs the event loop of a notebook's kernel; in a script use Engine.run()")
        self.started = True
        self.go_on()

    def go_on(self) -> None:
        """See to it that steps are computed, if there is work and nobody has said stop."""
        if self.loop is not None and self._task is None and self._may_step():
            self._task = self.loop.create_task(self._run())

    def resume(self) -> None:
        """Let steps be computed."""
        self.paused, self._failures = False, 0
        self.go_on()

    def step_once(self) -> None:
        """Pause, but let one more step be computed."""
        self.paused = True
        self._single_steps += 1
        self.go_on()

    def between_steps(self, command: Callable[[], None]) -> None:
        """Do something as soon as no step is being computed."""
        if self._flight is None:
            command()
        else:
            self._later.append(command)

    def close(self) -> None:
        """Wait for the step in work, take it in, and end thread and task; again: nothing."""
        self.closed = True
        self._worker.shutdown()
        self._land()
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()

    def _may_step(self) -> bool:
        if self.closed or not self.started or not self.engine.scheduler.has_work():
            self._single_steps = 0
            return False
        return not self.paused or self._single_steps > 0

    async def _run(self) -> None:
        try:
            while self._may_step() and await self._step():
                self._interrupts.listen()
        except Exception as error:
            self.paused = True
            self._listener.say(f"Paused: {describe(error)}. Press reset to begin anew.")
            raise
        finally:
            self._task = None
            self._interrupts.leave()
            self._listener.rested()

    async def _step(self) -> bool:
        plan = self.engine.plan()
        if not plan.chunks:
            self._listener.say(why_stuck(self.engine))
            return False
        start, execute = self.engine.clock.now(), self.engine.executor.execute
        self._single_steps = max(0, self._single_steps - 1)
        self._flight = Flight(plan, start, self._worker.submit(execute, plan))
        self._listener.planned(plan)
        self._interrupts.listen()
        await asyncio.wait([asyncio.wrap_future(self._flight.future)])
        self._land()
        return True

    def _land(self) -> None:
        """Take in what the worker thread has computed; close() may have done so before us."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        try:
            result = flight.future.result()
        except Exception as error:
            self._failed(error, flight.plan)
        else:
            self._failures = 0
            outputs = self.engine.take_in(flight.plan, result, flight.start)
            self._listener.stepped(result, outputs)
        commands, self._later = self._later, []
        for command in commands:
            command()

    def _failed(self, error: Exception, plan: StepPlan) -> None:
        try:
            ended = self.engine.recover(plan, error)
        except Exception:  # nobody's fault
            self._try_again(error, plan)
        else:
            who = ", ".join(output.request_id for output in ended)
            self._listener.failed(ended)
            self._listener.say(f"{who} could not be computed and ended: {describe(error)}. The others go on.")

    def _try_again(self, error: Exception, plan: StepPlan) -> None:
        self._failures += 1
        who = ", ".join(chunk.request_id for chunk in plan.chunks)
        what = f"Step {self.engine.trace.num_steps} with {who} failed: {describe(error)}."
        if self._failures < MOST_FAILURES:
            self._listener.say(f"{what} Nobody lost a token; it is tried again.")
        else:
            self.paused, self._single_steps = True, 0
            self._listener.say(f"{what} Paused after {self._failures} tries: abort a request, or press play to retry.")

    def _interrupted(self) -> None:
        self.paused, self._single_steps = True, 0
        self._listener.say("The kernel was interrupted: paused after the running step. Press play to go on.")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def describe(error: BaseException) -> str:
    """An error in a line: its kind, and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0].rstrip('.')}" if said else type(error).__name__


def why_stuck(engine: Engine) -> str:
    """Why nobody can compute, in words for whoever turned a knob too far."""
    request = engine.scheduler.waiting[0]
    limit = getattr(engine.scheduler, "max_num_batched_tokens", None)
    return (
        f"{request.request_id} must compute {request.num_tokens} tokens in one step, and the token budget is {limit}: "
        f"raise the budget, or abort {request.request_id}."
    )
