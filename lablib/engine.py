"""The engine: plan, compute, take in, record, deliver; again and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

from lablib.arrivals import Arrivals
from lablib.clock import Clock, VirtualClock
from lablib.executor import Executor
from lablib.interrupt import Interrupts, Moment
from lablib.kvcache import OutOfBlocks
from lablib.recorder import TraceRecorder
from lablib.recovery import culprits
from lablib.request import FinishReason, Request, RequestOutput, RequestStatus, SamplingParams
from lablib.scheduler import Scheduler, SchedulerStuck
from lablib.step import StepPlan, StepResult
from lablib.submission import require_fresh, settle
from lablib.trace import Trace
from lablib.validate import one_of


@dataclass(frozen=True, slots=True)
class Completion:
    """The whole answer to one prompt; after an error, ``message`` says why there is none."""

    request_id: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None
    message: str = ""


class Engine:
    """Runs a scheduler against an executor and keeps the trace.

    Args:
        scheduler: decides what each step computes.
        executor: computes it.
        clock: a ``VirtualClock`` unless given: steps take as long as the executor says, waiting takes no time.
        workload: name of what is run, for titles.
        pieces: who wrote the parts of this engine, name → "yours" or "reference", for titles.

    Raises:
        ValueError: scheduler and executor don't fit; the message names both numbers.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        executor: Executor,
        clock: Clock | None = None,
        workload: str = "",
        pieces: Mapping[str, str] | None = None,
    ) -> None:
        _require_fit(scheduler, executor)
        self.scheduler = scheduler
        self.executor = executor
        self.clock = clock or VirtualClock()
        self._known: set[str] = set()
        self._interrupts = Interrupts()
        self._recorder = TraceRecorder(
            {
                "workload": workload,
                "scheduler": type(scheduler).__name__,
                "pieces": dict(pieces or {}),
                "executor": executor.name,
                "max_num_seqs": scheduler.max_num_seqs,
                "max_num_batched_tokens": getattr(scheduler, "max_num_batched_tokens", None),
                "max_model_len": scheduler.max_model_len,
                "block_size": scheduler.kv.block_size,
                "num_blocks": scheduler.kv.pool.num_blocks,
                "admission": _name_of(getattr(scheduler, "admission", None)),
            }
        )

    @property
    def trace(self) -> Trace:
        """The record of everything up to now; whole after every step."""
        return self._recorder.trace

    def step(self) -> list[RequestOutput]:
        """Compute one step, and return the tokens it delivers; nothing happens when nobody can compute.

        If computing raises, the plan is rolled back: no request is lost. Where single requests are at fault, they end
        with an error and the others go on; else the error goes on to the caller.

        Raises:
            OutOfBlocks: a running request can't grow; ``abort`` a request to go on with the others.
        """
        plan = self.plan()
        if not plan.chunks:
            return []
        start = self.clock.now()
        try:
            result = self._execute(plan)
        except Exception as error:
            return self.recover(plan, error)
        except BaseException:
            self.scheduler.rollback(plan)
            raise
        return self.take_in(plan, result, start)

    def plan(self) -> StepPlan:
        """The first part of ``step``: who computes how many tokens now.

        Whoever plans must go on with ``executor.execute(plan)``, in any thread, and then ``take_in`` its result, or
        ``recover(plan, error)`` if it raised.
        """
        try:
            plan = self.scheduler.schedule(self.clock.now())
        except OutOfBlocks as error:
            error.step = self.trace.num_steps
            raise
        self._recorder.record_blocks(self.scheduler.kv.take_changes())
        self._recorder.record_plan(plan)
        return plan

    def take_in(self, plan: StepPlan, result: StepResult, start: float) -> list[RequestOutput]:
        """The last part of ``step``: let time pass, record what was computed from ``start`` (seconds) on, deliver."""
        self.clock.advance(result.seconds)
        self._recorder.record_step(plan, result, start, self.clock.now())
        return self._deliver(self.scheduler.update(plan, result))

    def recover(self, plan: StepPlan, error: Exception) -> list[RequestOutput]:
        """Instead of ``take_in``, after ``error``: roll back, and end the requests that are at fault, if any are.

        Raises:
            Exception: ``error``, when it is nobody's fault; the next step tries the same again.
        """
        try:
            found = culprits(plan, self.executor)
        finally:
            self.scheduler.rollback(plan)
        outputs = [output for request_id, why in found.items() for output in self._fail(request_id, why)]
        if not outputs:
            raise error
        return outputs

    def complete_trace(self) -> Trace:
        """Give the trace what it lacks between two runs: the last block changes, and the words behind the tokens."""
        self._recorder.record_blocks(self.scheduler.kv.take_changes())
        if self.executor.decode is not None:
            self._recorder.add_text(self.executor.decode)
        return self.trace

    def add_request(self, request: Request) -> None:
        """Take a request in; what its parameters leave open is settled here.

        Raises:
            TypeError: it is no request.
            ValueError: the id is taken, the request was submitted before, or it can never be served. The message names
                it and says why, the trace has it too, and the engine goes on with the others.
        """
        one_of("request", request, Request, "a Request")
        try:
            require_fresh(request)
        except ValueError as error:  # it is not ours to change
            self._refuse(request, str(error))
            raise
        request.submitted = True
        try:
            if request.request_id in self._known:
                raise ValueError(f"request {request.request_id} exists already; give every request an id of its own")
            settle(request, self.scheduler, self.executor)
            self.scheduler.add(request)
        except ValueError as error:
            request.status, request.finish_reason = RequestStatus.FINISHED, FinishReason.ERROR
            self._refuse(request, str(error))
            raise
        self._known.add(request.request_id)
        self._recorder.add_request(request)

    def abort(self, request_id: str) -> list[RequestOutput]:
        """End a request at once, wherever it is; an unknown or finished one is left alone."""
        return self._deliver(self.scheduler.abort(request_id))

    def run(self, workload: Iterable[Request]) -> Trace:
        """Serve requests as they arrive, until all are done; refused ones are in the trace with the reason.

        A workload may have ``on_finish(request, now)``, called when one of its requests ends: the requests that it
        returns arrive too (clients that wait for an answer before they ask again).

        A keyboard interrupt takes effect at the end of the running step, a second one at once; and at once while nobody
        computes. The trace is whole and the engine usable, whenever it comes.

        Raises:
            OutOfBlocks: a running request can't grow; the trace is whole up to the step before.
            SchedulerStuck: requests wait, and neither time nor arrivals can change that.
        """
        arrivals = Arrivals(workload)
        self.scheduler.reopen()
        with self._interrupts.held():
            try:
                while arrivals or self.scheduler.has_work():
                    self._let_in(arrivals)
                    num_steps = self.trace.num_steps
                    outputs = self.step()
                    for output in outputs:
                        if output.finished:
                            arrivals.ended(output.request_id, self.clock.now())
                    self._interrupts.check()
                    if not outputs and self.trace.num_steps == num_steps:
                        self._wait(arrivals)
            finally:
                self.scheduler.reopen()
                self.complete_trace()
        return self.trace

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams | Sequence[SamplingParams] | None = None
    ) -> list[Completion]:
        """Answer prompts that are all here now.

        Args:
            prompts: token ids of each prompt.
            params: one set of sampling parameters for all, or one for each prompt.

        Returns:
            One completion a prompt, in the same order; a prompt that can never be served gets one that says so.

        Raises:
            ValueError: as many sets of parameters as prompts are needed, if not one for all.
        """
        each = [params or SamplingParams()] * len(prompts) if not isinstance(params, Sequence) else params
        if len(each) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts and {len(each)} sets of sampling parameters: give one for each")
        names = (name for name in map("r{}".format, count(len(self._known))) if name not in self._known)
        answers: list[Request | Completion] = []
        for name, prompt, sampling in zip(names, prompts, each, strict=False):
            try:
                answers.append(Request(name, prompt, sampling, arrival_time=self.clock.now()))
            except (TypeError, ValueError) as error:  # not even a request
                answers.append(Completion(name, (), FinishReason.ERROR, str(error)))
        self.run([answer for answer in answers if isinstance(answer, Request)])
        messages = dict(zip(self.trace.requests["id"], self.trace.requests["message"], strict=True))
        return [
            answer
            if isinstance(answer, Completion)
            else Completion(
                answer.request_id, tuple(answer.output_token_ids), answer.finish_reason, messages[answer.request_id]
            )
            for answer in answers
        ]

    def _execute(self, plan: StepPlan) -> StepResult:
        self._interrupts.moment = Moment.COMPUTING
        try:
            return self.executor.execute(plan)
        finally:
            self._interrupts.moment = Moment.BOOKKEEPING

    def _fail(self, request_id: str, why: str) -> list[RequestOutput]:
        """End a request that can't be computed; an unknown one is left alone."""
        return self._deliver(self.scheduler.abort(request_id, FinishReason.ERROR, f"request {request_id}: {why}"))

    def _refuse(self, request: Request, why: str) -> None:
        """Enter a refused request in the trace; a second one of the same name under a name that tells them apart."""
        names = chain([request.request_id], (f"{request.request_id} ({number})" for number in count(2)))
        name = next(name for name in names if name not in self._known)
        self._known.add(name)
        self._recorder.refuse(request, name, why, self.clock.now())

    def _deliver(self, outputs: list[RequestOutput]) -> list[RequestOutput]:
        self._recorder.record_outputs(outputs)
        return outputs

    def _let_in(self, arrivals: Arrivals) -> None:
        """Take in every request that has arrived by now; close the door when nobody else can come."""
        for request in arrivals.take(self.clock.now()):
            self.scheduler.reopen()
            try:
                self.add_request(request)
            except ValueError:  # refused by name: the trace has the reason
                arrivals.refused(request, self.clock.now())
            else:
                arrivals.accepted(request)
        if not arrivals and not arrivals.more_may_follow:
            self.scheduler.close()

    def _wait(self, arrivals: Arrivals) -> None:
        """Nobody could compute: let time pass until something changes."""
        moments = [] if arrivals.next_time is None else [arrivals.next_time]
        timer = self.scheduler.next_event(self.clock.now())
        if timer is not None and timer > self.clock.now():
            moments.append(timer)
        if moments:
            self._interrupts.moment = Moment.WAITING
            self._interrupts.check()
            self.clock.wait_until(min(moments))
            self._interrupts.moment = Moment.BOOKKEEPING
        elif self.scheduler.has_work() and not self.scheduler.closed:
            self.scheduler.close()  # every client waits for an answer: nobody comes before one of these is served
        elif self.scheduler.has_work():
            raise SchedulerStuck(
                f"{type(self.scheduler).__name__} plans nothing for {len(self.scheduler.waiting)} waiting and "
                f"{len(self.scheduler.running)} running requests, no timer is set and no request will come: "
                "its schedule() must admit or run one of them"
            )


def _name_of(policy: object) -> str | None:
    return None if policy is None else type(policy).__name__


def _require_fit(scheduler: Scheduler, executor: Executor) -> None:
    ours, theirs = (scheduler.kv.pool.num_blocks, scheduler.kv.block_size), (executor.num_blocks, executor.block_size)
    if theirs != (None, None) and ours != theirs:
        raise ValueError(
            f"the scheduler manages {ours[0]} blocks of {ours[1]} tokens, the executor's KV cache has "
            f"{theirs[0]} of {theirs[1]}; make both the same"
        )
    if executor.max_model_len is not None and scheduler.max_model_len > executor.max_model_len:
        raise ValueError(
            f"max_model_len={scheduler.max_model_len} is more than the model's own limit of {executor.max_model_len}"
        )
