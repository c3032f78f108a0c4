"""LiveEngine: type a prompt, and watch it join the running batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from lablib.clock import WallClock
from lablib.engine import Engine
from lablib.live.board import Board
from lablib.live.feed import Feed
from lablib.live.picture import draw_example
from lablib.live.limits import Limits
from lablib.live.prompts import Prompt, PromptBox
from lablib.live.scheduler import LiveBatching
from lablib.live.steploop import StepLoop
from lablib.live.wishes import obey
from lablib.model import LanguageModel
from lablib.request import Request, RequestOutput, SamplingParams
from lablib.step import StepPlan, StepResult
from lablib.trace import Trace
from lablib.viz import assets
from lablib.viz.figures import WIDGET_MIME, Picture

STATIC = Path(__file__).parent / "static"
_OPEN: dict[str, LiveEngine] = {}


class LiveEngine(anywidget.AnyWidget):
    """Serves a model from a notebook cell, and shows every request in its slot while its text is written.

    It runs on the kernel's event loop, so only between cells; the forward pass runs in a worker thread. Shown in a
    cell it gives a picture, for readers without a kernel, and the live view. Nothing is computed before a view opens in
    a browser, or ``start()`` is called; when the last view goes, it pauses until another opens.

    Args:
        model: its weights are shared, its KV cache is left to others: this engine has its own.
        max_num_seqs: slots, the most requests that run at once.
        max_model_len: most tokens of one request.
        max_num_batched_tokens: most tokens of one step; by default a full prompt and a decode for every other slot.
        prompts: what *send 20* sends, messages to the assistant; by default the texts written for this lab.
        name: title; making another engine of the same name closes this one, as when its cell runs again.

    Attributes:
        max_num_seqs: most requests that run, from 1 to what was built. A lower limit admits nobody until fewer run; who
            runs stays.
        max_num_batched_tokens: token budget of a step.
        max_tokens: most output tokens of the requests to come.
        temperature: of the requests to come; 0 is greedy.

    All four can be set at any time and hold from the next step on; values outside their range become the nearest inside.

    Raises:
        ValueError: a limit that can't work, or no prompts.
    """

    _esm = assets.script(STATIC / "live.js")
    _css = assets.style(STATIC / "live.css")
    _alt = traitlets.Unicode().tag(sync=True)
    _built = traitlets.Dict().tag(sync=True)
    max_num_seqs = traitlets.Int().tag(sync=True)
    max_num_batched_tokens = traitlets.Int().tag(sync=True)
    max_tokens = traitlets.Int(64).tag(sync=True)
    temperature = traitlets.Float(0.0).tag(sync=True)

    def __init__(
        self,
        model: LanguageModel,
        max_num_seqs: int = 8,
        max_model_len: int = 512,
        max_num_batched_tokens: int | None = None,
        prompts: Sequence[str] | None = None,
        name: str = "LiveEngine",
    ) -> None:
        self._name = name
        self._model = model
        self._limits = Limits(max_num_seqs, max_model_len, max_num_batched_tokens or max_model_len + max_num_seqs)
        self._executor = self._limits.executor(model)
        self._prompts = PromptBox(model, max_model_len, prompts)
        self._message = ""
        self._views: set[str] = set()
        self._absent = False
        self._feed = Feed(self._send_changes)
        self._steps = StepLoop(self._new_engine(), self)
        super().__init__(
            _alt=f"{name}: {max_num_seqs} slots of {max_model_len} tokens, {self._executor.name}",
            _built={"title": name, "model": self._executor.name, "ranges": self._limits.ranges(), "max_model_len": max_model_len},
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=self._limits.max_num_batched_tokens,
            max_tokens=min(64, max_model_len - 1),
        )
        self.on_msg(self._from_browser)
        self.observe(lambda _: self._steps.call(self._turn_knobs), ["max_num_seqs", "max_num_batched_tokens"])
        former = _OPEN.get(name)
        if former is not None:
            former.close()
        _OPEN[name] = self

    # What a learner can do

    def submit(self, text: str, max_tokens: int | None = None, temperature: float | None = None) -> str:
        """Send a message to the assistant; returns the request's id.

        Args:
            text: the message; the model's chat template goes around it.
            max_tokens: most output tokens; by default the knob's.
            temperature: by default the knob's.

        Raises:
            ValueError: it can never be served; the message names request, need and limit.
            RuntimeError: the engine is closed.
        """
        return self._submit(Prompt(text, self._model.encode_chat(text)), max_tokens, temperature)

    def send_prompts(self, count: int = 20) -> list[str]:
        """Send prompts of varied length, to be answered at varied length; returns the requests' ids."""
        sent = []
        for prompt in self._prompts.take(count, self.max_num_batched_tokens):
            room = self._limits.max_model_len - len(prompt.token_ids)
            sent.append(self._submit(prompt, min(room, self._prompts.answer_length(self.max_tokens))))
        return sent

    def abort(self, request_id: str) -> None:
        """End a request after the step in work; one that is unknown or has ended is left alone."""
        self._steps.between_steps(lambda: self._abort(request_id))

    def start(self) -> None:
        """Serve without waiting for a view to open; needs the event loop of a kernel."""
        self._steps.start()
        self._touch()

    def pause(self) -> None:
        """Stop after the step in work."""
        self._steps.paused = True
        self._touch()

    def resume(self) -> None:
        """Go on."""
        self._steps.resume()
        self._touch()

    def step_once(self) -> None:
        """Compute one step, then pause."""
        self._steps.step_once()
        self._touch()

    def reset(self) -> None:
        """Forget all requests and the trace, and begin anew."""
        self._steps.between_steps(self._reset)

    def close(self) -> None:
        """End the thread and whoever is not done; the view shows the last state, and ``trace`` is complete."""
        if not self.closed:
            self._steps.close()
            for request_id in [*self._engine.scheduler.running, *(r.request_id for r in self._engine.scheduler.waiting)]:
                self._abort(request_id)
            self._engine.complete_trace()
            self._touch()
            if _OPEN.get(self._name) is self:
                del _OPEN[self._name]

    @property
    def paused(self) -> bool:
        """Whether it waits to be resumed."""
        return self._steps.paused

    @property
    def closed(self) -> bool:
        """Whether it has ended for good."""
        steps = getattr(self, "_steps", None)  # a widget that could not be made is closed too, when it is collected
        return steps is None or steps.closed

    @property
    def trace(self) -> Trace:
        """The record since the beginning or the last reset; ``StepPlayer`` plays it."""
        return self._engine.complete_trace()

    # What the loop and the views tell

    def planned(self, plan: StepPlan) -> None:
        if plan.admitted:
            self._touch()

    def stepped(self, plan: StepPlan, result: StepResult, outputs: list[RequestOutput]) -> None:
        self._board.stepped(result)
        self._board.take(outputs)
        self._touch()

    def rested(self) -> None:
        self._touch()

    def say(self, message: str) -> None:
        self._message = message
        self._touch()

    def view_opened(self, view: str) -> None:
        self._views.add(view)
        if self._absent:
            self._absent, self._steps.paused = False, False
        if not self.closed:
            self._steps.start()
        self._send_all()

    def view_gone(self, view: str) -> None:
        self._views.discard(view)
        if not self._views and not self.paused:
            self._absent = True
            self.pause()

    # Inside

    @property
    def _engine(self) -> Engine:
        return self._steps.engine

    def _new_engine(self) -> Engine:
        engine = Engine(self._limits.scheduler(), self._executor, WallClock(), workload="live requests")
        self._board = Board(engine, self._model.decode)
        return engine

    @traitlets.validate("max_num_seqs", "max_num_batched_tokens", "max_tokens", "temperature")
    def _inside(self, proposal: dict[str, Any]) -> Any:
        low, high = self._limits.ranges()[proposal["trait"].name]
        return max(low, min(high, proposal["value"]))

    def _submit(self, prompt: Prompt, max_tokens: int | None = None, temperature: float | None = None) -> str:
        if self.closed:
            raise RuntimeError(f"{self._name} is closed; run its cell again for a new one")
        sampling = SamplingParams(
            max_tokens=self.max_tokens if max_tokens is None else max_tokens,
            temperature=self.temperature if temperature is None else temperature,
        )
        number = self._engine.trace.num_requests
        request = Request(f"r{number}", prompt.token_ids, sampling, arrival_time=self._engine.clock.now())
        self._engine.add_request(request)
        self._board.add(request, prompt.text)
        self._steps.go_on()
        self._touch()
        return request.request_id

    def _abort(self, request_id: str) -> None:
        self._board.take(self._engine.abort(request_id))
        self._touch()

    def _reset(self) -> None:
        self._steps.engine = self._new_engine()
        self._turn_knobs()
        self._message = ""
        self._steps.resume()
        self._send_all()

    def _turn_knobs(self) -> None:
        scheduler = self._engine.scheduler
        if isinstance(scheduler, LiveBatching):
            scheduler.num_open_slots = self.max_num_seqs
            scheduler.max_num_batched_tokens = self.max_num_batched_tokens
        self._steps.go_on()
        self._touch()

    def _from_browser(self, _: Any, wish: dict[str, Any], __: Any) -> None:
        self._steps.call(lambda: obey(self, wish))

    @property
    def _phase(self) -> str:
        if self.closed:
            return "closed"
        if self._steps.running:
            return "running"
        return "paused" if self.paused else "idle"

    def _touch(self) -> None:
        if self._steps.loop is not None:
            self._feed.touch(self._steps.loop)

    def _send_changes(self) -> None:
        changes = self._board.changes(self._phase, self._message)
        if changes:
            self.send(changes)

    def _send_all(self) -> None:
        self.send(self._board.everything(self._phase, self._message))

    def __repr__(self) -> str:
        return f"LiveEngine({self._alt})"

    def _ipython_display_(self) -> None:
        picture = Picture(draw_example(self._name), self._alt, width="960px")
        display(picture._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        display({WIDGET_MIME: view, "text/plain": "LiveEngine: run this cell for the live view"}, raw=True)  # type: ignore[no-untyped-call]

